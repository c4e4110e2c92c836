#include "libworker/graph/graph_model.h"

#include <stdlib.h>
#include <string.h>

#include <worker/worker.h>

#include "libworker/device/kernels.h"
#include "libworker/graph/batch.h"
#include "libworker/graph/carry.h"
#include "libworker/graph/count.h"
#include "libworker/graph/decode.h"
#include "libworker/graph/freeze.h"
#include "libworker/graph/launches.h"
#include "libworker/graph/op.h"
#include "libworker/graph/pass.h"
#include "libworker/graph/words.h"
#include "libworker/nn/outputs.h"
#include "libworker/nn/param.h"

static const struct model_ops graph_ops;

struct graph_model *graph_model_of(struct wk_model *model)
{
    return model->ops == &graph_ops ? (struct graph_model *)model : NULL;
}

static struct graph_model *of(struct wk_model *model)
{
    return (struct graph_model *)model;
}

static void forget_plans(struct graph_model *m)
{
    for (int i = 0; i < GRAPH_PLANS_KEPT; i++) {
        pass_forget(m, m->plans[i]);
        m->plans[i] = NULL;
    }
    m->waiting = NULL;
}

static struct sizes sizes_of(const struct graph_model *m, const struct wk_batch *batch)
{
    return pass_sizes(m, batch->samples, batch->length);
}

/* Wait for the losses: the sum of their means by their weights. */
static int total_loss(struct graph_model *m, double *ret_loss, struct error *err)
{
    const double *sums;
    double total = 0;
    numbers_fetch(m->site.numbers, m->site.queue);
    int rc = numbers_wait(m->site.numbers, &sums, err);
    for (int i = 0; i < m->graph->n_losses && !rc; i++)
        total += sums[i] * loss_weight(m->graph, i) / m->divisors[i];
    if (!rc)
        *ret_loss = total;
    return rc;
}

static int graph_forward(struct wk_model *model, const struct wk_batch *batch, double *ret_loss,
                         struct error *err)
{
    struct graph_model *m = of(model);
    struct trace_options trace = {.trains = true, .drops = model->dropout > 0};
    struct sizes sizes = sizes_of(m, batch);
    loss_divisors(m->graph, batch, model->divisors, m->divisors);
    int rc = pass_plan(m, &trace, &sizes, &m->waiting, err);
    if (!rc)
        rc = pass_prepare(m, m->waiting, batch, err);
    if (!rc)
        rc = run_launches(&m->run, m->waiting, 0, m->waiting->n_forward, err);
    if (!rc && ret_loss)
        rc = total_loss(m, ret_loss, err);
    return rc;
}

/* total_loss on the device. */
static void graph_keep_loss(struct wk_model *model, double *to)
{
    struct graph_model *m = of(model);
    struct total_args args = {numbers_at(m->site.numbers), to, m->graph->n_losses, {0}, {0}};
    for (int i = 0; i < args.n; i++) {
        args.weights[i] = loss_weight(m->graph, i);
        args.divisors[i] = m->divisors[i];
    }
    struct device_range ranges[] = {
        {args.sums, (size_t)args.n * sizeof(*args.sums), DEVICE_READ},
        {to, sizeof(*to), DEVICE_WRITE},
    };
    queue_launch(m->site.queue, &(struct device_launch){.name = GRAPH_TOTAL,
                                                        .run = launch_total,
                                                        .args = &args,
                                                        .args_bytes = sizeof(args),
                                                        .ranges = ranges,
                                                        .n_ranges = 2});
}

static int graph_backward(struct wk_model *model, double scale, struct error *err)
{
    struct graph_model *m = of(model);
    for (int i = 0; i < m->graph->n_losses; i++)
        m->run.seeds[i] = (float)(scale * loss_weight(m->graph, i) / m->divisors[i]);
    run_note_seeds(&m->run, m->graph->n_losses);
    int rc = run_launches(&m->run, m->waiting, m->waiting->n_forward, m->waiting->n_launches, err);
    if (!rc)
        carry_end(m, model->batch.samples);
    if (rc || !m->graph->has_custom || device_has_kernels(m->site.device))
        return rc;
    return queue_finish(m->site.queue, err); /* functions in launches may fail */
}

/* A device with kernels of its own has those of training. */
static int check_kernels(const struct graph_model *m, struct error *err)
{
    const struct plan_options options = {.trace = {.trains = true, .drops = m->model.dropout > 0},
                                         .sizes = pass_sizes(m, 1, m->model.context),
                                         .device = m->site.device};
    struct plan *plan = NULL;
    if (!device_has_kernels(m->site.device))
        return 0;
    int rc = plan_new(m->graph, &options, m->blocks, &plan, err);
    plan_free(plan);
    return rc;
}

static int graph_move(struct wk_model *model, struct queue *queue, struct error *err)
{
    struct graph_model *m = of(model);
    forget_plans(m);
    (void)carry_leave(m, NULL); /* a device that failed reports it at the next call */
    site_move(&m->site, queue);
    int rc = check_kernels(m, err);
    if (rc)
        site_move(&m->site, NULL);
    return rc;
}

/* What an evaluation asks for of the logits [rows, vocab]. */
static int take_logits(const struct graph_model *m, const struct plan *plan, int output,
                       const struct wk_outputs *outputs, struct error *err)
{
    const struct plan_value *value = &plan->values[plan->outputs[output]];
    int64_t vocab = value->shape[value->dims - 1];
    const float *logits;
    float *copy;
    int rc = pass_fetch(m, plan, plan->outputs[output], &logits, &copy, err);
    if (!rc && outputs->logits)
        memcpy(outputs->logits, logits, (size_t)value->count * sizeof(*logits));
    for (int64_t r = 0; !rc && outputs->likeliest && r < value->count / vocab; r++)
        outputs->likeliest[r] = likeliest_token(logits + r * vocab, vocab);
    free(copy);
    return rc;
}

static int take_losses(const struct graph_model *m, const struct plan *plan, float *ret,
                       struct error *err)
{
    const float *losses;
    float *copy;
    int rc = pass_fetch(m, plan, plan->losses[0], &losses, &copy, err);
    if (!rc)
        memcpy(ret, losses, (size_t)plan->values[plan->losses[0]].count * sizeof(float));
    free(copy);
    return rc;
}

static int evaluate_plan(struct graph_model *m, const struct wk_batch *batch,
                         const struct trace_options *trace, struct plan **ret_plan,
                         struct error *err)
{
    struct sizes sizes = sizes_of(m, batch);
    m->waiting = NULL;
    int rc = pass_plan(m, trace, &sizes, ret_plan, err);
    if (!rc)
        rc = pass_prepare(m, *ret_plan, batch, err);
    if (!rc)
        rc = run_launches(&m->run, *ret_plan, 0, (*ret_plan)->n_launches, err);
    return rc;
}

static int graph_evaluate(struct wk_model *model, const struct wk_batch *batch, double *ret_loss,
                          const struct wk_outputs *outputs, struct error *err)
{
    struct graph_model *m = of(model);
    struct trace_options trace = {.losses =
                                      batch_has_inputs(m->graph, batch, m->graph->loss_inputs)};
    struct plan *plan;
    int logits = pass_output(m->graph, "logits");
    bool asks = outputs->logits || outputs->likeliest;
    if (asks && logits < 0)
        return error_set(err, WK_EUNSUPPORTED, "the graph %s has no output \"logits\"",
                         m->graph->name);
    trace.outputs = asks ? (uint64_t)1 << logits : 0;
    int rc = evaluate_plan(m, batch, &trace, &plan, err);
    if (rc)
        return rc;
    *ret_loss = 0;
    loss_divisors(m->graph, batch, model->divisors, m->divisors);
    if (trace.losses)
        rc = total_loss(m, ret_loss, err);
    if (batch->samples == 0)
        return rc;
    if (!rc && asks)
        rc = take_logits(m, plan, logits, outputs, err);
    if (!rc && outputs->losses && trace.losses)
        rc = take_losses(m, plan, outputs->losses, err);
    return rc;
}

static int graph_logits(struct wk_model *model, const struct wk_batch *batch, float *ret_logits,
                        struct error *err)
{
    struct graph_model *m = of(model);
    int output = pass_output(m->graph, "logits");
    if (output < 0)
        return error_set(err, WK_EUNSUPPORTED, "the graph %s has no output \"logits\"",
                         m->graph->name);
    struct trace_options trace = {.outputs = (uint64_t)1 << output};
    struct plan *plan;
    int rc = evaluate_plan(m, batch, &trace, &plan, err);
    if (rc)
        return rc;
    const float *logits;
    float *copy;
    rc = pass_fetch(m, plan, plan->outputs[output], &logits, &copy, err);
    for (int64_t i = 0; i < batch->samples && !rc; i++)
        memcpy(ret_logits + i * model->vocab, logits + ((i + 1) * batch->length - 1) * model->vocab,
               (size_t)model->vocab * sizeof(*logits));
    free(copy);
    return rc;
}

static int graph_reserve(struct wk_model *model, int64_t samples, int64_t length, struct error *err)
{
    struct graph_model *m = of(model);
    struct trace_options trace = {.trains = true, .drops = model->dropout > 0};
    struct sizes sizes = pass_sizes(m, samples, length);
    struct plan *plan;
    forget_plans(m);
    if (samples == 0) {
        site_release(&m->site);
        return 0;
    }
    int rc = pass_plan(m, &trace, &sizes, &plan, err);
    if (!rc)
        rc = site_reserve(&m->site, plan->region_bytes, err);
    if (!rc)
        rc = host_copies_reserve(&m->site.copies, m->site.queue, plan->host_bytes, err);
    if (!rc)
        rc = inputs_reserve(&m->site.inputs, m->site.queue, m->graph, &sizes, err);
    if (!rc)
        site_touch(&m->site);
    return rc;
}

static void graph_model_free(struct wk_model *model)
{
    struct graph_model *m = of(model);
    forget_plans(m);
    carry_fini(m);
    site_fini(&m->site);
    param_table_fini(model);
    free(m->blocks);
    free(m->order);
    wk_graph_free(m->graph);
    free(m);
}

static int graph_check(const struct wk_model *model, const struct wk_batch *batch, bool losses,
                       struct error *err)
{
    const struct graph_model *m = (const struct graph_model *)model;
    if (m->graph->uses_length && (batch->length < 1 || batch->length > model->context))
        return error_set(err, WK_EINVAL,
                         "samples of length %lld do not fit the model's context of %lld",
                         (long long)batch->length, (long long)model->context);
    struct sizes sizes = sizes_of(m, batch);
    return batch_check(m->graph, batch, &sizes, losses, err);
}

static int graph_model_freeze(struct wk_model *model, const char *pattern, bool on,
                              struct error *err);

static const struct model_ops graph_ops = {
    .name = "graph",
    .forward = graph_forward,
    .backward = graph_backward,
    .evaluate = graph_evaluate,
    .logits = graph_logits,
    .free = graph_model_free,
    .reserve = graph_reserve,
    .check = graph_check,
    .count = &graph_count_ops,
    .decode = &graph_decode_ops,
    .move = graph_move,
    .keep_loss = graph_keep_loss,
    .words = &graph_words_ops,
    .buffers = &graph_buffer_ops,
    .freeze = graph_model_freeze,
};

static void add_param(struct graph_model *m, const struct graph_param *from)
{
    const struct wk_tensor *tensor = from->tensor;
    const struct wk_param *o = &from->options;
    struct wk_model *model = &m->model;
    struct param *param = &model->params[model->n_params++];
    memcpy(param->name, tensor->name, strlen(tensor->name) + 1);
    param->dims = tensor->dims;
    param->count = 1;
    for (int i = 0; i < tensor->dims; i++) {
        param->shape[i] = tensor->shape[i].fixed;
        param->count *= (size_t)param->shape[i];
    }
    param->offset = model->count;
    param->decay = !o->no_decay && (o->decay || tensor->dims > 1);
    param->lookup = o->lookup;
    param->block = m->blocks[graph_part(m->graph, tensor)];
    param->init_std = (float)o->scale;
    switch (o->init) {
    case WK_INIT_DEFAULT:
        param->init = tensor->dims > 1 ? PARAM_NORMAL : PARAM_ZERO;
        param->init_std = 0.02f;
        break;
    case WK_INIT_ZERO:
        param->init = PARAM_ZERO;
        break;
    case WK_INIT_ONE:
        param->init = PARAM_ONE;
        break;
    case WK_INIT_NORMAL:
        param->init = PARAM_NORMAL;
        break;
    case WK_INIT_UNIFORM:
        param->init = PARAM_UNIFORM;
        break;
    }
    model->count += param->count;
    if (o->frozen) {
        model->n_frozen++;
        model->frozen_count += param->count;
    }
}

/* Blocks with parameters get the model's numbers in order, those of frozen ones after the others.
 */
static void number_blocks(struct graph_model *m)
{
    const struct wk_graph *graph = m->graph;
    for (int i = 0; i < 2 * graph->n_blocks; i++)
        m->blocks[i] = -1;
    for (int i = 0; i < graph->n_params; i++) {
        int *block = &m->blocks[graph_part(graph, graph->params[i].tensor)];
        if (*block < 0)
            *block = m->model.n_blocks++;
    }
}

/* The order in which passes enter them. */
static void order_blocks(struct graph_model *m)
{
    const struct wk_graph *graph = m->graph;
    int n = 0;
    for (int i = 0; i < graph->n_blocks; i++) {
        for (int frozen = 0; frozen < 2; frozen++) {
            int block = m->blocks[i + frozen * graph->n_blocks];
            if (block >= 0)
                m->order[n++] = block;
        }
    }
    m->model.order = m->order;
}

/* The last dimension of the output "logits", or 0. */
static int64_t vocab_of(const struct wk_graph *graph)
{
    int output = pass_output(graph, "logits");
    if (output < 0)
        return 0;
    const struct wk_tensor *logits = graph->outputs[output].value;
    return logits->dims ? dim_size(logits->shape[logits->dims - 1], &(struct sizes){1, 1}) : 0;
}

/* Something is dropped by the model's share, and only by it. */
static bool has_dropout(const struct wk_graph *graph)
{
    bool has = false;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = graph->nodes[i];
        has |= node->row->drops && node->row->drops(node, true) && !node->row->drops(node, false);
    }
    return has;
}

/* The model's table, in the graph's order. */
static void list_params(struct graph_model *m)
{
    struct wk_model *model = &m->model;
    model->n_params = model->n_blocks = model->n_frozen = 0;
    model->count = model->frozen_count = 0;
    graph_sort_params(m->graph);
    number_blocks(m);
    order_blocks(m);
    for (int i = 0; i < m->graph->n_params; i++)
        add_param(m, &m->graph->params[i]);
}

static int graph_model_freeze(struct wk_model *model, const char *pattern, bool on,
                              struct error *err)
{
    struct graph_model *m = of(model);
    int rc = graph_freeze(m->graph, pattern, on, err);
    if (rc)
        return rc;
    forget_plans(m);
    list_params(m);
    return 0;
}

static int graph_model_new(struct wk_graph *graph, struct wk_model **ret_model)
{
    struct graph_model *m = calloc(1, sizeof(*m));
    if (!m) {
        wk_graph_free(graph);
        return model_refuse_memory(ret_model);
    }
    m->graph = graph;
    m->model.ops = &graph_ops;
    m->model.kernels = kernel_cpu();
    m->blocks = calloc(2 * (size_t)graph->n_blocks, sizeof(*m->blocks));
    m->order = calloc(2 * (size_t)graph->n_blocks, sizeof(*m->order));
    if (!m->blocks || !m->order || param_table_init(&m->model, graph->n_params) ||
        site_init(&m->site, NULL) || carry_init(m)) {
        graph_model_free(&m->model);
        return model_refuse_memory(ret_model);
    }
    list_params(m);
    m->model.context = graph->uses_length ? graph->max_length : 1;
    m->model.vocab = vocab_of(graph);
    m->model.drops = has_dropout(graph);
    *ret_model = &m->model;
    return 0;
}

int wk_graph_model(struct wk_graph *graph, struct wk_model **ret_model)
{
    if (!graph)
        return model_refuse_memory(ret_model);
    graph_check_whole(graph);
    if (graph->error.code) {
        struct error err = graph->error;
        wk_graph_free(graph);
        return model_refuse(&err, ret_model);
    }
    return graph_model_new(graph, ret_model);
}
