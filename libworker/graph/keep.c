#include "libworker/graph/keep.h"

#include <stdlib.h>

#include <worker/error.h>

#include "libworker/device/kernels.h"
#include "libworker/graph/describe.h"
#include "libworker/graph/launches.h"
#include "libworker/graph/op.h"
#include "libworker/graph/types.h"

/* Of all values, in their types. */
static int set_forms(struct keep *keep, const struct wk_graph *graph, const struct trace *trace,
                     const struct plan_options *options)
{
    enum wk_dtype *types = calloc((size_t)graph->n_tensors + 1, sizeof(*types));
    int rc = types ? types_choose(graph, trace, options->compute, types) : WK_ENOMEM;
    for (int i = 0; i < graph->n_tensors && !rc; i++) {
        keep->form[i] = describe_tensor(graph->tensors[i], &options->sizes);
        keep->form[i].type = types[i];
    }
    free(types);
    return rc;
}

/* The call of a work's forward kernel. */
static void describe_work(const struct keep *keep, const struct work *work,
                          const struct plan_options *options, struct op_args *ret)
{
    *ret =
        (struct op_args){.pass = {.trains = options->trace.trains}, .keeps = op_keeps(work->node)};
    ret->call.node = work->node;
    ret->call.compute = types_compute(work->node, options->compute);
    for (int k = 0; k < NODE_INPUTS_MAX; k++) {
        if (work->in[k])
            ret->call.in[k] = keep->form[work->in[k]->id];
    }
    for (int k = 0; k < NODE_OUTPUTS_MAX; k++) {
        if (work->out[k])
            ret->call.out[k] = keep->form[work->out[k]->id];
    }
}

/* What the row of a work keeps, or the device's kernel. */
static void ask_kernel(struct keep *keep, int i, const struct work *work,
                       const struct plan_options *options)
{
    const struct device *device = options->device;
    const struct device_kernel *kernel = NULL;
    if (device && device_has_kernels(device) && !work->node->row->meets)
        kernel = device_kernel_find(device, launch_name_of(work->node));
    keep->reads[i] = op_keeps(work->node);
    if (!kernel || !kernel->keep)
        return;
    struct op_args args;
    describe_work(keep, work, options, &args);
    kernel->keep(&args);
    keep->reads[i] = args.keeps;
    keep->narrows[i] = args.call.compute == WK_F32 ? 0 : args.narrows;
    keep->bends[i] = args.call.compute != WK_F32 && args.bends;
    for (int k = 1; k < NODE_OUTPUTS_MAX; k++) {
        if (work->out[k])
            keep->form[work->out[k]->id] = args.call.out[k];
    }
}

static void mark_kept(struct keep *keep, int i, const struct work *work, const struct trace *trace)
{
    for (int k = 0; k < NODE_INPUTS_MAX; k++) {
        if (work->in[k] && (keep->reads[i] & OP_IN(k)))
            keep->kept[tensor_base(trace->same[work->in[k]->id])->id] = true;
    }
    for (int k = 0; k < NODE_OUTPUTS_MAX; k++) {
        if (work->out[k] && (keep->reads[i] & OP_OUT(k)))
            keep->kept[work->out[k]->id] = true;
    }
}

int keep_init(struct keep *keep, const struct wk_graph *graph, const struct trace *trace,
              const struct plan_options *options)
{
    size_t tensors = (size_t)graph->n_tensors + 1;
    *keep = (struct keep){.form = calloc(tensors, sizeof(*keep->form)),
                          .kept = calloc(tensors, sizeof(*keep->kept)),
                          .reads = calloc((size_t)trace->n + 1, sizeof(*keep->reads)),
                          .narrows = calloc((size_t)trace->n + 1, sizeof(*keep->narrows)),
                          .bends = calloc((size_t)trace->n + 1, sizeof(*keep->bends))};
    bool has = keep->form && keep->kept && keep->reads && keep->narrows && keep->bends;
    int rc = has ? set_forms(keep, graph, trace, options) : WK_ENOMEM;
    for (int i = 0; i < trace->n && !rc; i++) {
        const struct work *work = &trace->works[i];
        ask_kernel(keep, i, work, options);
        if (options->trace.trains && work->out[0]->trains)
            mark_kept(keep, i, work, trace);
    }
    if (rc)
        keep_fini(keep);
    return rc;
}

void keep_fini(struct keep *keep)
{
    free(keep->form);
    free(keep->kept);
    free(keep->reads);
    free(keep->narrows);
    free(keep->bends);
    *keep = (struct keep){0};
}
