/* What training a model needs on each rank, before anything runs: bytes by kind, FLOP, and bytes
 * sent in a step. Activations are the region of the model's plan (graph/plan.h). Strategies' bytes
 * are the formulas of docs/strategies.md and docs/precision.md, and what is on its way. Tests
 * compare both with memory that is there.
 *
 * Not counted: the program's code and its libraries' own memory, what a source of data keeps, a
 * checkpoint's copy of the state, and hooks that compress gradients.
 *
 * One thread at a time per model.
 */
#ifndef ESTIMATE_ESTIMATE_H
#define ESTIMATE_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/nn.h>

#include "common/base/error.h"
#include "libworker/graph/repeat.h"
#include "libworker/optim/optimizer.h"
#include "libworker/parallel/strategy_options.h"

struct device;

enum {
    ESTIMATE_WORLD_MAX = 256,
    ESTIMATE_SAMPLES_MAX = 1 << 20,
    ESTIMATE_TOKENS_MAX = 1 << 26, /* of a pass: bytes of the largest models stay below 2^63 */
};

struct estimate_options {
    enum strategy_kind strategy;
    int world;                   /* 1 … ESTIMATE_WORLD_MAX */
    int64_t samples;             /* of each rank's pass, 1 … ESTIMATE_SAMPLES_MAX */
    int64_t length;              /* of each sample; 0: the model's context */
    enum wk_dtype compute;       /* WK_F32, WK_BF16 or WK_F16 */
    bool low_gradients;          /* as the setting; strategies that cut, not in WK_F32 */
    enum wk_recompute recompute; /* what the backward pass computes again */
    int64_t within;              /* bytes of activations, of WK_RECOMPUTE_WITHIN */
    int prefetch;                /* of fsdp: blocks gathered ahead */
    size_t bucket_bytes;         /* of zero2: gradients that are summed together */
    bool state_on_host;   /* as offload.state host, and offload.masters host (not in WK_F32): of */
    bool masters_on_host; /* optimizers on whole tensors all stays on the device */
    bool values_on_host;  /* as offload.activations host; of a device that is not the host's */
    const struct wk_optimizer *optimizer; /* borrowed */
    const struct device *device;          /* its kernels run; NULL: the host's. Borrowed */
    enum device_graphs graphs;            /* the setting compile; not on the host */
};

/* Bytes of the rank with the most, at the fullest moment of a step. */
struct estimate {
    int64_t parameters;  /* in float: whole, or the rank's part and what a pass gathers; buffers */
    int64_t low;         /* the copy in 2 bytes that products read */
    int64_t gradients;   /* of parameters; arenas of collectives are these */
    int64_t optimizer;   /* its state, and what one update needs besides */
    int64_t activations; /* values and gradients of values: the plan's region */
    int64_t batch;       /* the graph's inputs */
    int64_t communication; /* rings, posts and buffers to the other ranks */
    int64_t total;
    int64_t on_host;  /* pinned memory of the host, not in the total: what is offloaded */
    int64_t over_bus; /* bytes that an update moves between it and the device */
    struct {          /* what a pass offloads of its activations */
        int pieces;
        int64_t on_host; /* within on_host above; a pass moves it each way */
        int64_t saved;   /* of activations; 0 of WK_RECOMPUTE_WITHIN, with a size of its own */
    } values;
    double forward_flop, backward_flop; /* of one pass of the rank; backward with what it repeats */
    double again_flop;                  /* of what it repeats */
    double sent;                        /* bytes that the rank sends in a step of one pass */
    struct repeat_needs graphs;         /* of a pass; zeros: it is not repeated. Not in the total */
    char graphs_reason[REPEAT_REASON_BYTES]; /* (graph/repeat.h); "": without a device */
};

/* WK_EINVAL names the number that is outside its limits; WK_EUNSUPPORTED: a model that is no graph,
 * or an optimizer on whole tensors under a strategy that cuts them. Also a device that lacks a
 * kernel. WK_ENOMEM, also for activations that cannot be within their bytes; the sentence has the
 * least that they need. */
int estimate_training(struct wk_model *model, const struct estimate_options *options,
                      struct estimate *ret, struct error *err);

#endif
