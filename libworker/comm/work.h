/* Runs requests. A blocking call runs in the caller's thread when nothing is queued before it,
 * which saves a small operation two thread switches. Other requests use the queue. Any thread. */
#ifndef COMM_WORK_H
#define COMM_WORK_H

#include "libworker/comm/request.h"

struct wk_comm;
struct wk_work;

/* Run the request, or queue it if `ret_work` is not NULL (wk_wait ends it). Takes ownership of
 * `request->row_space`, also on failure. */
int work_submit(struct wk_comm *comm, struct request *request, struct wk_work **ret_work);

/* Refuse further requests, end all queued ones and wait for the one that runs. */
void work_stop(struct wk_comm *comm);

#endif
