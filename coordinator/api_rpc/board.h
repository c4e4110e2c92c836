/* The key-value board of a generation, through which its workers exchange small values. In memory,
 * lost with the generation or the coordinator. A worker that needs a value sets it again when it
 * joins. Loop thread only. */
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
    BOARD_ENTRY_BYTES = 128, /* added to key and value when an entry's size is counted */
    BOARD_JOB_MAX_BYTES = MAX_BOARD_BYTES, /* of one generation */
};

struct board;

struct board_value {
    const void *data;
    size_t size;
};

struct board_place {
    const char *tenant, *job; /* the owner of the job */
    uint64_t generation;
    const char *key;
};

int board_new(struct board **ret, struct error *err);
void board_free(struct board *board);

/* True if the tenant's boards stay within MAX_TENANT_BOARD_BYTES with this entry. Call it before
 * board_set. */
bool board_has_room(const struct board *board, const struct board_place *place,
                    const struct board_value *value);

/* Set or replace. E_INVALID_ARGUMENT, E_RESOURCE_EXHAUSTED. */
int board_set(struct board *board, const struct board_place *place, const struct board_value *value,
              struct error *err);

/* False if there is no such key. `ret` is valid until the next change. */
bool board_get(const struct board *board, const struct board_place *place, struct board_value *ret);

/* Forget the job's entries in generations below `oldest` (UINT64_MAX: all). */
void board_forget(struct board *board, const char *job, uint64_t oldest);

#endif
