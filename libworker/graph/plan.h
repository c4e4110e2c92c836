/* A plan: the launches of a pass in order, and the place of each value in one region of memory.
 *
 *     graph ── trace ──► works ── emit ──► launches, values ── layout ──► offsets, region_bytes
 *
 * A plan depends on the size of batch, the purpose, the way to compute and the kind of device only.
 * Ranks with equal settings have equal plans. Its memory is known before any is allocated.
 *
 * Gradients. A value with several uses gets their gradients in the order of the backward pass: the
 * use that was built last is first. Recomputation and memory do not change that order.
 *
 * Recomputation (recompute.h). Works that are computed again have a second launch, before the first
 * backward kernel that needs them. What their first launch made is not kept.
 *
 * Offloading (offload.h). Values for the backward pass are in the host's memory meanwhile. With
 * bytes for the region, as few of them as are enough, and nothing is computed again if all are.
 *
 * Decoding. A pass computes the positions after those that are in the cache, and adds to it. Plans
 * of one graph, samples, capacity and type have the same cache, whatever their length.
 *
 * Immutable after plan_new; one thread.
 */
#ifndef GRAPH_PLAN_H
#define GRAPH_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/nn.h>

#include "libworker/graph/graph.h"
#include "libworker/graph/launch.h"
#include "libworker/graph/trace.h"

struct device;

enum value_place {
    VALUE_IN_REGION,
    VALUE_IN_INPUT,
    VALUE_IN_PARAM,
    VALUE_IN_PARAM_GRAD,
    VALUE_IN_BUFFER,
    VALUE_IN_CACHE,
    VALUE_IN_HOST, /* pinned memory */
};

/* A tensor in memory. */
struct plan_value {
    enum value_place kind;
    int index;     /* of the input, parameter or buffer */
    int storage;   /* while the plan is made; values that share memory have one */
    size_t offset; /* bytes in the region, the cache, the buffers or the host's memory */
    size_t step;   /* of a parameter in decoding: bytes of a position; it begins at the first new */
    enum wk_dtype type;
    int dims;
    int64_t shape[WK_TENSOR_DIMS_MAX];
    int64_t count;
};

struct plan_options {
    struct trace_options trace;
    struct sizes sizes;
    enum wk_dtype compute; /* f32, bf16, f16: of factors of products */
    enum wk_recompute recompute;
    int64_t within;   /* bytes of the region at most, of WK_RECOMPUTE_WITHIN */
    int64_t capacity; /* positions in the cache of decoding */
    bool offload;     /* values of a training pass are in the host's memory meanwhile (offload.h) */
    bool apart;       /* sums and norms are launches of their own: the device has no other kernel */
    /* Its kernels run, which decides about scratch memory; NULL: the host's. Borrowed. */
    const struct device *device;
};

struct plan {
    const struct wk_graph *graph;
    struct plan_options options;
    struct launch *launches; /* [n_launches]: the forward pass, then the backward pass */
    struct plan_value *values;
    int n_launches, n_forward, n_values;
    bool repeats; /* its passes are enqueued as the device's graphs (repeat.h) */
    int launches_capacity, values_capacity;
    struct node *joined; /* nodes for two of the graph each (join.h) */
    size_t region_bytes;
    size_t host_bytes;  /* pinned memory of what is offloaded; as much is copied each way */
    int n_offloaded;    /* pieces of it */
    double again_flop;  /* of what is computed again */
    size_t cache_bytes; /* of decoding: memory that lasts from pass to pass of a text */
    int losses[GRAPH_NAMED_MAX];  /* values of the losses' elements, or -1 */
    int outputs[GRAPH_NAMED_MAX]; /* values of the wanted outputs, or -1 */
};

/* A plan. `blocks` [2 * n_blocks] has the model's number of each block of the graph for its trained
 * parameters, then that for its frozen ones; -1 where it has none. WK_ENOMEM, also for a region
 * that cannot be within its bytes; the sentence then has the least that it needs. WK_EUNSUPPORTED:
 * the device lacks a kernel. */
int plan_new(const struct wk_graph *graph, const struct plan_options *options, const int *blocks,
             struct plan **ret_plan, struct error *err);
void plan_free(struct plan *plan); /* NULL is fine */

#endif
