/* Copies between a pass and pinned memory of the host (offload.h), on two queues of their own. They
 * run beside the kernels. Events order them with the pass' queue, at the plan's launches:
 *
 *     OUT        the copies out follow what the pass has enqueued so far
 *     OUT_DONE   what follows is after that copy, so its memory may be written
 *     BACK       as OUT: what was in the target's memory has been read by then
 *     BACK_DONE  what follows is after that copy
 *
 * Owned by the graph's site; one thread.
 */
#ifndef GRAPH_HOST_COPIES_H
#define GRAPH_HOST_COPIES_H

#include "libworker/device/device.h"
#include "libworker/graph/launch.h"

struct host_copies {
    struct queue *out, *back; /* NULL until there is something to copy */
    void *pinned;             /* [bytes] */
    size_t bytes;
    struct event sent[LAUNCH_TURNS], returned[LAUNCH_TURNS]; /* of each turn the last copy */
};

/* Queues, and at least `bytes` of pinned memory; its content is lost if it grows. 0 bytes: nothing.
 * WK_ENOMEM, with a sentence that names the setting, or the device's failure: then nothing is left.
 */
int host_copies_reserve(struct host_copies *copies, struct queue *queue, size_t bytes,
                        struct error *err);

/* Wait for the copies, and free all; zeroed is fine. */
void host_copies_release(struct host_copies *copies);

/* What is enqueued on `queue` from now on follows all copies: those of a pass that ended early,
 * too. */
void host_copies_settle(const struct host_copies *copies, struct queue *queue);

/* A copy of a launch of a plan. */
struct host_copy {
    enum launch_kind kind; /* one of the four */
    int turn;
    void *to;
    const void *from;
    size_t bytes;
};
void host_copies_run(struct host_copies *copies, struct queue *queue, const struct host_copy *copy);

#endif
