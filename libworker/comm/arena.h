/* Memory that can be shared with other processes: a sealed memfd, mapped. Its creator and each
 * communicator it is registered with own a reference; the last release frees it. arena_hold and
 * arena_release: any thread. The content is the users' own matter. */
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
    _Atomic uint64_t version; /* of the memory it maps now */
    _Atomic bool exposed;     /* its old memory could not be revoked: communicators refuse it */
};

#define ARENA_EXPOSED "no memory to replace an arena that a rank that was lost may still write to"

struct wk_arena *arena_hold(struct wk_arena *arena);
void arena_release(struct wk_arena *arena);

/* Put fresh memory with the same content at the same addresses, piece by piece, and free the old
 * memory. Processes that mapped the old memory can change nothing any more and read zeros. 0, or
 * WK_ENOMEM: the arena is then exposed, but its content is whole. No thread may write to it
 * meanwhile. */
int arena_revoke(struct wk_arena *arena);

/* Map memory received from a peer; NULL if it is invalid. */
char *arena_map(int memory_fd, size_t *ret_bytes);

#endif
