/* Carries out a plan. It has per peer a list of bytes to send and a list of bytes to receive.
 * Between them there is at most one reduction, over data that all peers send first. Everything
 * moves in one loop of non-blocking calls, so no order of the plans can deadlock. Only the thread
 * that runs an operation calls it. */
#ifndef COMM_TRANSFER_H
#define COMM_TRANSFER_H

#include "libworker/comm/plan.h"

/* Headers, then the reduction (may be NULL), then the receives, while sending. 0 or the failure. */
int transfer_run(struct wk_comm *comm, struct reduce_plan *reduction);

#endif
