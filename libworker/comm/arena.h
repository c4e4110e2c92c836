/* Memory that can be handed to other processes: a sealed memfd, mapped. It belongs to who made it
 * and to each communicator it is registered with; the last to let go frees it. Taking and letting
 * go: any thread. Content: whoever uses it.
 */
#ifndef COMM_ARENA_H
#define COMM_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <worker/comm.h>

#include "common/base/error.h"

struct wk_arena {
    char *data;
    size_t bytes;
    int memory_fd;
    _Atomic int holders;
    _Atomic uint64_t version; /* of the memory behind it */
    _Atomic bool exposed;     /* it could not be revoked: communicators refuse it */
};

#define ARENA_EXPOSED "no memory to replace an arena that a rank that was lost may still write to"

struct wk_arena *arena_hold(struct wk_arena *arena);
void arena_release(struct wk_arena *arena);

/* Put fresh memory with the same content at the same addresses, piece by piece, and give the old
 * one back: who had it can change nothing any more, and reads zeros. 0, or WK_ENOMEM, which leaves
 * the arena exposed but its content whole. Nobody may write to it meanwhile. */
int arena_revoke(struct wk_arena *arena);

/* Map what a peer handed over; NULL when it is not what it should be. */
char *arena_map(int memory_fd, size_t *ret_bytes);

#endif
