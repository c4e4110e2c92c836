/* A communicator as a whole: made, asked, closed. It belongs to the caller of comm_connect, which
 * closes it on any one thread when no other uses it. The public calls are in worker/comm.h. */
#ifndef COMM_COMMUNICATOR_H
#define COMM_COMMUNICATOR_H

#include "libworker/comm/comm.h"

/* Without connections; NULL if memory is out. */
struct wk_comm *comm_alloc(const struct comm_options *options);

/* Frees it at once; wk_comm_close sends goodbyes first. */
void comm_release(struct wk_comm *comm);

#endif
