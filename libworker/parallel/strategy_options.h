/* What a strategy is given at init: its kind, this rank's place and the settings. Plain data. */
#ifndef PARALLEL_STRATEGY_OPTIONS_H
#define PARALLEL_STRATEGY_OPTIONS_H

#include <stdbool.h>

#include "libworker/parallel/bucket.h"
#include "libworker/parallel/hook.h"
#include "libworker/parallel/narrow.h"

struct wires;

enum strategy_kind { STRATEGY_DDP, STRATEGY_ZERO1, STRATEGY_ZERO2, STRATEGY_FSDP, STRATEGY_KINDS };

/* True if the ranks hold different parts of one state; else each holds all of it. */
bool strategy_cuts(enum strategy_kind kind);

enum hook_kind { HOOK_SUM, HOOK_F16, HOOK_BF16, HOOK_POWERSGD };

struct strategy_options {
    enum strategy_kind kind;
    int part, parts;     /* of a kind that cuts: this rank's part, and how many make one model */
    struct wires *wires; /* the device's own collectives; borrowed; NULL: there are none */
    struct bucket_sizes sizes; /* of gradients that are summed together */
    struct narrowing narrowing;
    bool fill_later;      /* strategy_fill sets initial values */
    bool unused_fine;     /* parameters need not be announced on every rank */
    bool measures;        /* strategy_squares is called first for every window's sums */
    bool unscaled;        /* gradients have no loss scale */
    const char *offload;  /* folder of the optimizer's state, or NULL; borrowed */
    bool offload_host;    /* optimizer_offload.host */
    bool masters_on_host; /* masters.h: of a graph in narrow types, where the host reads no device
                           * memory and the optimizer is element-wise */
    bool offload_params;  /* a cut model's own part of the parameters is there too */

    /* Of DDP: */
    bool static_graph; /* reducer.h */
    enum hook_kind hook;
    struct powersgd_options powersgd;

    /* Of FSDP: */
    int prefetch;       /* blocks gathered ahead of the one in use: 0 … SHARDED_PREFETCH_MAX */
    bool keep_gathered; /* a block stays until its backward pass (no reshard after forward) */
};

#endif
