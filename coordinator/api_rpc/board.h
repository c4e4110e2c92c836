/* The key-value board of a generation: what its workers leave for one another. In memory, gone with
 * the generation or the coordinator; a worker that needs a value sets it again when it joins anew.
 * Loop thread only.
 */
#ifndef API_RPC_BOARD_H
#define API_RPC_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/limits.h"

enum {
    BOARD_KEY_MAX = 256,
    BOARD_VALUE_MAX_BYTES = 64 << 10,
    BOARD_ENTRY_BYTES = 128,               /* what an entry counts beside its key and value */
    BOARD_JOB_MAX_BYTES = MAX_BOARD_BYTES, /* of one generation */
};

struct board;

struct board_value {
    const void *data;
    size_t size;
};

struct board_place {
    const char *tenant, *job; /* whose job it is */
    uint64_t generation;
    const char *key;
};

int board_new(struct board **ret, struct error *err);
void board_free(struct board *board);

/* Its tenant's boards hold at most MAX_TENANT_BOARD_BYTES with this one: ask before board_set. */
bool board_has_room(const struct board *board, const struct board_place *place,
                    const struct board_value *value);

/* Replaces. E_INVALID_ARGUMENT, E_RESOURCE_EXHAUSTED. */
int board_set(struct board *board, const struct board_place *place, const struct board_value *value,
              struct error *err);

/* False if there is no such key. `ret` is valid until the next change. */
bool board_get(const struct board *board, const struct board_place *place, struct board_value *ret);

/* Forget what this job left in generations below `oldest` (UINT64_MAX: all of it). */
void board_forget(struct board *board, const char *job, uint64_t oldest);

#endif
