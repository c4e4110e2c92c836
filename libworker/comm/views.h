/* Buffers in arenas that the ranks of a host read and write in place: where ours are, where the
 * others' are. Only the thread that runs an operation calls these. */
#ifndef COMM_VIEWS_H
#define COMM_VIEWS_H

#include <stdint.h>

#include "libworker/comm/comm.h"
#include "libworker/comm/request.h"

/* Offsets of a rank's buffers in its arenas. They follow the header of a post without data. */
struct located {
    uint32_t in_arena, out_arena; /* 0: not in an arena */
    uint64_t in_offset, out_offset;
};

/* Addresses of the data of every rank of this host, by rank: to read and, for an all-reduce, to
 * write. */
struct views {
    const char *in[COMM_WORLD_MAX];
    char *out[COMM_WORLD_MAX];
};

/* Find our buffers in arenas that the peers know, and note them in comm->header. 0 or the failure.
 */
int views_locate(struct wk_comm *comm, const struct request *rq, struct located *ret);

/* Map the buffers in the others' posts. 0 or the failure. */
int views_map(struct wk_comm *comm, const struct request *rq, struct views *views);

#endif
