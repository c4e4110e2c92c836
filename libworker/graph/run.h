/* Running a plan: each launch's tensors are looked up, and its kernel is enqueued on the queue of
 * the model's device with the ranges that it reads and writes. One thread.
 *
 * Collectives. A row that meets has no kernel: its launch waits for the queue, and then for the
 * other ranks (nn/hooks.h, struct model_ranks). The launches of a plan are in the same order for
 * every size of batch. So are the collectives of strategies that hang on them: gathers on ENTER,
 * sums on READY and LEAVE. All are made on one communicator by this thread, in the plan's order; so
 * ranks with the same graph and settings agree on it. Hence a rank without samples runs its plan,
 * too, with empty tensors.
 */
#ifndef GRAPH_RUN_H
#define GRAPH_RUN_H

#include "libworker/device/numbers.h"
#include "libworker/graph/op_call.h"
#include "libworker/graph/plan.h"

struct host_copies;
struct site_noted;
struct wk_model;

/* Where a plan's values are during a pass. */
struct run {
    struct wk_model *model; /* parameters, gradients, hooks */
    struct queue *queue;
    struct numbers *numbers;    /* [GRAPH_NAMED_MAX]: sums of the losses' elements */
    struct site_noted *noted;   /* NULL: kernels get numbers as arguments */
    struct host_copies *copies; /* of what is offloaded */
    struct op_pass pass;
    void *region;                        /* plan->region_bytes of device memory */
    void *cache;                         /* plan->cache_bytes of it, NULL if there are none */
    float *buffers, *next;               /* what the pass reads of buffers, and leaves in them */
    const void *inputs[GRAPH_NAMED_MAX]; /* of the batch, by number, in device memory */
    float seeds[GRAPH_NAMED_MAX];        /* gradient of each element of a loss */
};

/* What a launch hands its kernel, without addresses: for sizes and costs. */
void run_describe(const struct plan *plan, const struct launch *launch, struct op_call *ret);

/* What is new in each pass goes to run->noted, if there is such memory: before the first launch
 * that reads it. The losses' first n seeds. */
void run_note_keys(const struct run *run);
void run_note_seeds(const struct run *run, int n);

/* Enqueue the launches [first, end) of the plan, as graphs where plan->repeats and the device has
 * them (device/replay.h). Fails as the model's hooks do, and once the device has failed. */
int run_launches(const struct run *run, const struct plan *plan, int first, int end,
                 struct error *err);

/* The address of a value, in device memory. */
void *run_address(const struct run *run, const struct plan *plan, int value);

#endif
