#include "libworker/estimate/estimate.h"

#include <worker/error.h>

#include "common/base/parse.h"
#include "libworker/comm/segment.h"
#include "libworker/estimate/share.h"
#include "libworker/graph/describe.h"
#include "libworker/graph/graph_model.h"
#include "libworker/graph/node_cost.h"

/* Both passes of the plan, launch by launch. */
static void add_flop(const struct plan *plan, struct estimate *e)
{
    for (int i = 0; i < plan->n_launches; i++) {
        const struct launch *launch = &plan->launches[i];
        bool back = launch->kind == LAUNCH_BACKWARD;
        if (!back && launch->kind != LAUNCH_FORWARD)
            continue;
        double flop = node_cost(launch->node, &plan->options.sizes, back).flop;
        if (i < plan->n_forward)
            e->forward_flop += flop;
        else
            e->backward_flop += flop;
    }
}

static int64_t input_bytes(const struct wk_graph *graph, const struct sizes *sizes)
{
    int64_t bytes = 0;
    for (int i = 0; i < graph->n_inputs; i++) {
        struct op_tensor tensor = describe_tensor(graph->inputs[i], sizes);
        bytes += tensor.count * (int64_t)wk_dtype_bytes(tensor.type);
    }
    return bytes;
}

/* What the same pass needs without copies to the host. */
static int add_saved(struct graph_model *m, const struct plan_options *offloads, struct estimate *e,
                     struct error *err)
{
    struct plan_options wanted = *offloads;
    struct plan *plan;
    wanted.offload = false;
    int rc = plan_new(m->graph, &wanted, m->blocks, &plan, err);
    if (rc)
        return rc;
    e->values.saved = (int64_t)plan->region_bytes - e->activations;
    plan_free(plan);
    return 0;
}

/* A pass of the rank. */
static int add_pass(struct graph_model *m, const struct estimate_options *o, struct estimate *e,
                    struct error *err)
{
    int64_t length = o->length ? o->length : m->model.context;
    struct plan_options wanted = {
        .trace = {.trains = true, .drops = m->model.dropout > 0},
        .sizes = {o->samples, m->graph->uses_length ? length : 1, o->world},
        .compute = o->compute,
        .recompute = o->recompute,
        .within = o->within,
        .offload = o->values_on_host,
        .device = o->device,
    };
    struct plan *plan;
    int rc = plan_new(m->graph, &wanted, m->blocks, &plan, err);
    if (rc)
        return rc;
    e->activations = (int64_t)plan->region_bytes;
    e->values.pieces = plan->n_offloaded;
    e->values.on_host = e->on_host = (int64_t)plan->host_bytes;
    e->batch = input_bytes(m->graph, &wanted.sizes);
    e->again_flop = plan->again_flop;
    add_flop(plan, e);
    if (o->device)
        repeat_reason(plan, o->graphs, e->graphs_reason);
    if (o->device && repeat_pays(plan, o->graphs))
        e->graphs = repeat_needs(plan);
    plan_free(plan);
    return o->values_on_host && o->recompute != WK_RECOMPUTE_WITHIN ? add_saved(m, &wanted, e, err)
                                                                    : 0;
}

static int check_options(const struct wk_model *model, const struct estimate_options *o,
                         struct error *err)
{
    int rc = number_within("world", o->world, 1, ESTIMATE_WORLD_MAX, err);
    if (!rc)
        rc = number_within("batch", o->samples, 1, ESTIMATE_SAMPLES_MAX, err);
    if (!rc && o->length)
        rc = number_within("length", o->length, 1, model->context, err);
    if (rc)
        return error_recode(err, WK_EINVAL);
    int64_t length = o->length ? o->length : model->context;
    if (o->samples * length > ESTIMATE_TOKENS_MAX)
        return error_set(err, WK_EINVAL,
                         "a batch of %lld samples of length %lld has more than %d tokens",
                         (long long)o->samples, (long long)length, ESTIMATE_TOKENS_MAX);
    if (o->low_gradients && (o->compute == WK_F32 || o->strategy == STRATEGY_DDP))
        return error_set(err, WK_EINVAL,
                         "low_gradients has no effect under ddp, nor in float: leave it out");
    if (o->masters_on_host && o->compute == WK_F32)
        return error_set(err, WK_EINVAL,
                         "offload.masters has no effect in float: leave it out, or choose a "
                         "mixed_precision");
    if (o->optimizer->ops->whole_tensors && o->strategy != STRATEGY_DDP)
        return error_set(err, WK_EUNSUPPORTED,
                         "%s needs whole tensors, which this strategy cuts: use ddp",
                         o->optimizer->ops->name);
    return 0;
}

int estimate_training(struct wk_model *model, const struct estimate_options *options,
                      struct estimate *ret, struct error *err)
{
    struct graph_model *m = graph_model_of(model);
    struct estimate e = {0};
    int rc = m ? check_options(model, options, err)
               : error_set(err, WK_EUNSUPPORTED, "only a model that is a graph can be estimated");
    if (!rc)
        rc = add_pass(m, options, &e, err);
    if (rc)
        return rc;
    if (share_of_state(model, options, &e))
        return error_set(err, WK_ENOMEM, "no memory for the turns of %d blocks", model->n_blocks);
    e.communication = options->world > 1 ? (int64_t)segment_bytes(options->world) : 0;
    e.total = e.parameters + e.low + e.gradients + e.optimizer + e.activations + e.batch +
              e.communication;
    *ret = e;
    return 0;
}
