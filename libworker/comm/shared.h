/* Meeting of the ranks of one host over buffers in arenas, for the ways that work in place. For the
 * runner of a communicator.
 */
#ifndef COMM_SHARED_H
#define COMM_SHARED_H

#include "libworker/comm/board.h"

/* Where the data of every rank of this host can be read and, for an all-reduce, written; by rank.
 */
struct views {
    const char *in[COMM_WORLD_MAX];
    char *out[COMM_WORLD_MAX];
};

/* Where our buffers lie, as the peers know it; says so in comm->header. 0 or the failure. */
int shared_locate(struct wk_comm *comm, const struct request *rq, struct located *ret);

/* Map what the posts of the others name. 0 or the failure. */
int shared_look(struct wk_comm *comm, const struct request *rq, struct views *views);

#endif
