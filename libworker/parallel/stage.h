/* Host copies of device memory, for collectives where the host cannot read the memory itself:
 *
 *              stage_fetch                stage_await                   stage_send
 *      device ─────────────► pinned memory ────────► sums, in place ──────────────► device
 *             queue `out`                  the host                   queue `in`
 *
 * Each copy names the event that it follows; the model's queue continues after a send. A stage is
 * reserved for one collective and returned after it. Stages are kept, so that their number is that
 * of the collectives under way at once. Owned by a strategy, whose thread calls.
 */
#ifndef PARALLEL_STAGE_H
#define PARALLEL_STAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "libworker/device/device.h"

struct stage {
    void *host; /* [bytes] */
    size_t bytes;
    struct event fetched, sent; /* the last copies */
    bool reserved;
    struct stage *next;
};

struct stages {
    struct queue *queue;    /* the model's; borrowed */
    struct queue *out, *in; /* NULL before stages_open */
    struct stage *list;
};

/* Where the host reads the device's memory nothing but fini may be called. */
void stages_init(struct stages *stages, struct queue *queue);
void stages_fini(struct stages *stages); /* waits for copies; zeroed memory is allowed */

/* True if collectives work on the memory itself. */
static inline bool stages_direct(const struct stages *stages)
{
    return device_host_reads(queue_device(stages->queue));
}

/* Make the queues, once: stage_reserve does it too. WK_ENOMEM. */
int stages_open(struct stages *stages, struct error *err);

/* A stage of at least `bytes`. Its last copies have been waited for. WK_ENOMEM, or the device's
 * failure. And the end of its use; NULL is fine. */
int stage_reserve(struct stages *stages, size_t bytes, struct stage **ret, struct error *err);
void stage_return(struct stage *stage);

/* Between device memory and byte `at` of a stage. */
struct stage_copy {
    void *device;
    size_t at, bytes;
    struct event after;
};
void stage_fetch(struct stages *stages, struct stage *stage, const struct stage_copy *copy);
void stage_send(struct stages *stages, struct stage *stage, const struct stage_copy *copy);

/* Wait for what was fetched; the host then uses the stage until it sends. */
int stage_await(struct stage *stage, struct error *err);

/* Wait for all copies, for an abandoned pass. */
void stages_drain(struct stages *stages); /* zeroed memory is allowed */

#endif
