/* Meetings of the ranks of one host over buffers in arenas, for the ways that work in place. Only
 * the thread that runs an operation calls these. */
#ifndef COMM_SHARED_H
#define COMM_SHARED_H

#include "libworker/comm/board.h"

/* Addresses of the data of every rank of this host, by rank: to read and, for an all-reduce, to
 * write. */
struct views {
    const char *in[COMM_WORLD_MAX];
    char *out[COMM_WORLD_MAX];
};

/* Find our buffers in arenas that the peers know, and note them in comm->header. 0 or the failure.
 */
int shared_locate(struct wk_comm *comm, const struct request *rq, struct located *ret);

/* Map the buffers in the others' posts. 0 or the failure. */
int shared_look(struct wk_comm *comm, const struct request *rq, struct views *views);

#endif
