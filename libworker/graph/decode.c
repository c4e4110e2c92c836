#include "libworker/graph/decode.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/graph/op.h"
#include "libworker/graph/pass.h"

static struct graph_model *of(struct wk_model *model)
{
    return (struct graph_model *)model;
}

/* [samples, length, vocab]. */
static int check_logits(const struct wk_graph *graph, int output, struct error *err)
{
    if (output < 0)
        return error_set(err, WK_EUNSUPPORTED, "the graph %s has no output \"logits\"",
                         graph->name);
    const struct wk_tensor *logits = graph->outputs[output].value;
    char text[TENSOR_TEXT_MAX];
    if (logits->dims == 3 && dim_equal(logits->shape[0], dim_of(WK_SAMPLES)) &&
        dim_equal(logits->shape[1], dim_of(WK_LENGTH)))
        return 0;
    return error_set(err, WK_EUNSUPPORTED,
                     "the graph %s cannot decode: its logits are %s, not [samples, length, vocab]",
                     graph->name, tensor_text(logits, text));
}

static const char *refusal_of(const struct node *node)
{
    if (node->row->decode_refusal)
        return node->row->decode_refusal(node);
    return node->row->cuts & OP_CUT_LENGTH ? NULL : "it mixes positions and keeps no cache";
}

/* What the logits need must follow earlier positions. */
static int check_works(const struct wk_graph *graph, const struct trace_options *options,
                       struct error *err)
{
    struct trace trace;
    int rc = trace_init(&trace, graph, options, err);
    for (int i = 0; i < trace.n && !rc; i++) {
        const struct node *node = trace.works[i].node;
        const char *why = refusal_of(node), *block = graph->blocks[node->block];
        if (why)
            rc = error_set(err, WK_EUNSUPPORTED, "the graph %s cannot decode: %s%s%s: %s",
                           graph->name, node->row->name, *block ? " in block " : "", block, why);
    }
    trace_fini(&trace);
    return rc;
}

static struct trace_options options_of(const struct wk_graph *graph, bool fills)
{
    int output = pass_output(graph, "logits");
    return (struct trace_options){.outputs = (uint64_t)1 << output, .decode = true, .fills = fills};
}

static void end_text(struct wk_model *model)
{
    struct graph_model *m = of(model);
    site_drop(&m->site);
    m->capacity = 0;
}

/* The cache has the size in the plan of one position. */
static int begin_text(struct wk_model *model, int64_t samples, int64_t capacity, struct error *err)
{
    struct graph_model *m = of(model);
    struct plan *plan;
    int rc = check_logits(m->graph, pass_output(m->graph, "logits"), err);
    if (rc)
        return rc;
    struct trace_options options = options_of(m->graph, false);
    rc = check_works(m->graph, &options, err);
    if (rc)
        return rc;
    m->capacity = capacity;
    rc = pass_plan(m, &options, &(struct sizes){samples, 1}, &plan, err);
    if (!rc)
        rc = site_keep(&m->site, plan->cache_bytes, err);
    if (rc)
        end_text(model);
    return rc;
}

static int continue_text(struct wk_model *model, const struct wk_batch *batch, int64_t past,
                         float *ret_logits, struct error *err)
{
    struct graph_model *m = of(model);
    struct trace_options options = options_of(m->graph, !ret_logits);
    struct sizes sizes = {batch->samples, batch->length};
    struct plan *plan;
    m->waiting = NULL;
    int rc = pass_plan(m, &options, &sizes, &plan, err);
    if (!rc)
        rc = pass_prepare(m, plan, batch, err);
    if (rc)
        return rc;
    m->run.pass.past = past;
    rc = run_launches(&m->run, plan, 0, plan->n_launches, err);
    if (rc || !ret_logits)
        return rc;
    const float *logits;
    float *copy;
    int64_t vocab = model->vocab;
    rc = pass_fetch(m, plan, plan->outputs[pass_output(m->graph, "logits")], &logits, &copy, err);
    for (int64_t i = 0; i < batch->samples && !rc; i++)
        memcpy(ret_logits + i * vocab, logits + ((i + 1) * batch->length - 1) * vocab,
               (size_t)vocab * sizeof(*logits));
    free(copy);
    return rc;
}

const struct decode_ops graph_decode_ops = {
    .begin = begin_text,
    .pass = continue_text,
    .end = end_text,
};
