#include "libworker/graph/run.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/device/kernels.h"
#include "libworker/device/replay.h"
#include "libworker/graph/describe.h"
#include "libworker/graph/host_copies.h"
#include "libworker/graph/launches.h"
#include "libworker/graph/op.h"
#include "libworker/graph/op/custom.h"
#include "libworker/graph/site.h"
#include "libworker/graph/types.h"
#include "libworker/nn/model.h"

void *run_address(const struct run *run, const struct plan *plan, int value)
{
    const struct plan_value *v = &plan->values[value];
    const struct param *param = &run->model->params[v->index];
    switch (v->kind) {
    case VALUE_IN_REGION:
        return (char *)run->region + v->offset;
    case VALUE_IN_INPUT:
        return (void *)(uintptr_t)run->inputs[v->index];
    case VALUE_IN_PARAM:
        return (v->type == WK_F32 ? (char *)param->data : (char *)(uintptr_t)param->low) +
               (size_t)run->pass.past * v->step;
    case VALUE_IN_BUFFER:
        return (char *)run->buffers + v->offset;
    case VALUE_IN_CACHE:
        return (char *)run->cache + v->offset;
    case VALUE_IN_HOST:
        return (char *)run->copies->pinned + v->offset;
    case VALUE_IN_PARAM_GRAD:
        return param->grad;
    }
    return NULL;
}

static struct op_tensor describe(const struct plan_value *v)
{
    struct op_tensor tensor = {.type = v->type, .dims = v->dims, .count = v->count};
    memcpy(tensor.shape, v->shape, sizeof(tensor.shape));
    return tensor;
}

void run_describe(const struct plan *plan, const struct launch *launch, struct op_call *ret)
{
    const struct node *node = launch->node;
    const struct sizes *sizes = &plan->options.sizes;
    *ret = (struct op_call){.node = node, .compute = types_compute(node, plan->options.compute)};
    for (int i = 0; i < NODE_INPUTS_MAX; i++) {
        if (launch->in[i] >= 0)
            ret->in[i] = describe(&plan->values[launch->in[i]]);
        else if (i < node->n_in && node->in[i])
            ret->in[i] = describe_tensor(node->in[i], sizes);
        if (launch->d_in[i] >= 0) {
            ret->d_in[i] = describe(&plan->values[launch->d_in[i]]);
            ret->d_in[i].add = launch->add & OP_IN(i);
        }
    }
    for (int i = 0; i < node->n_out; i++)
        ret->out[i] = launch->out[i] >= 0 ? describe(&plan->values[launch->out[i]])
                                          : describe_tensor(node->out[i], sizes);
    if (launch->d_out >= 0)
        ret->d_out = describe(&plan->values[launch->d_out]);
    if (launch->cache >= 0)
        ret->cache = describe(&plan->values[launch->cache]);
}

/* A launch while it is put together. */
struct enqueued {
    struct device_range ranges[LAUNCH_RANGES_MAX];
    int n_ranges;
};

static size_t bytes_of(const struct op_tensor *tensor)
{
    return (size_t)tensor->count * wk_dtype_bytes(tensor->type);
}

static void add_range(struct enqueued *e, const struct op_tensor *tensor, enum device_use use)
{
    if (tensor->data && tensor->count)
        e->ranges[e->n_ranges++] = (struct device_range){tensor->data, bytes_of(tensor), use};
}

static void set_address(const struct run *run, const struct plan *plan, int value,
                        struct op_tensor *tensor)
{
    tensor->data = value >= 0 ? run_address(run, plan, value) : NULL;
}

static void enqueue(const struct run *run, const struct enqueued *e, struct device_launch *launch)
{
    launch->ranges = e->ranges;
    launch->n_ranges = e->n_ranges;
    queue_launch(run->queue, launch);
}

/* The positions before those of this pass are read, its own are written. */
static void set_cache(const struct run *run, const struct plan *plan, const struct launch *launch,
                      struct op_call *call, struct enqueued *e)
{
    if (launch->cache < 0)
        return;
    set_address(run, plan, launch->cache, &call->cache);
    int64_t position = call->cache.count / call->cache.shape[0];
    struct op_tensor before = call->cache, own = call->cache;
    before.count = position * run->pass.past;
    own.count = position * plan->options.sizes.length;
    own.data = (char *)own.data + bytes_of(&before);
    add_range(e, &before, DEVICE_READ);
    add_range(e, &own, DEVICE_WRITE);
}

/* The addresses of a call's tensors, and what happens to them. */
static void set_tensors(const struct run *run, const struct plan *plan, const struct launch *launch,
                        struct op_call *call, struct enqueued *e)
{
    bool forward = launch->kind == LAUNCH_FORWARD;
    for (int i = 0; i < NODE_INPUTS_MAX; i++) {
        set_address(run, plan, launch->in[i], &call->in[i]);
        set_address(run, plan, launch->d_in[i], &call->d_in[i]);
        add_range(e, &call->in[i], DEVICE_READ);
        add_range(e, &call->d_in[i], call->d_in[i].add ? DEVICE_UPDATE : DEVICE_WRITE);
    }
    for (int i = 0; i < NODE_OUTPUTS_MAX; i++) {
        set_address(run, plan, launch->out[i], &call->out[i]);
        add_range(e, &call->out[i], forward ? DEVICE_WRITE : DEVICE_READ);
    }
    set_address(run, plan, launch->d_out, &call->d_out);
    add_range(e, &call->d_out, DEVICE_READ);
    set_cache(run, plan, launch, call, e);
    if (launch->scratch >= 0) {
        struct op_tensor scratch = describe(&plan->values[launch->scratch]);
        call->scratch = scratch.data = run_address(run, plan, launch->scratch);
        add_range(e, &scratch, DEVICE_SCRATCH);
    }
}

static void run_kernel(const struct run *run, const struct plan *plan, const struct launch *launch)
{
    struct op_args args = {.pass = run->pass, .backward = launch->kind == LAUNCH_BACKWARD};
    struct enqueued e = {.n_ranges = 0};
    run_describe(plan, launch, &args.call);
    set_tensors(run, plan, launch, &args.call, &e);
    if (node_is_custom(launch->node) && device_has_kernels(queue_device(run->queue))) {
        launch_op(run->queue, &args); /* it enqueues */
        return;
    }
    if (run->noted) {
        args.pass.seed = 0;
        args.pass.first_sample = 0;
        args.pass.keys = &run->noted->keys;
    }
    enqueue(run, &e,
            &(struct device_launch){.name = launch_name_of(launch->node),
                                    .run = launch_op,
                                    .args = &args,
                                    .args_bytes = sizeof(args)});
}

static void enqueue_row(const struct run *run, const struct row_args *row, const char *name,
                        void (*function)(struct queue *, const void *))
{
    struct enqueued e = {.n_ranges = 0};
    size_t bytes = (size_t)row->count * sizeof(float);
    if (row->from)
        e.ranges[e.n_ranges++] = (struct device_range){row->from, bytes, DEVICE_READ};
    if (row->to)
        e.ranges[e.n_ranges++] = (struct device_range){
            row->to, bytes, function == launch_seed ? DEVICE_WRITE : DEVICE_UPDATE};
    if (row->sum)
        e.ranges[e.n_ranges++] = (struct device_range){row->sum, sizeof(double), DEVICE_UPDATE};
    enqueue(run, &e,
            &(struct device_launch){
                .name = name, .run = function, .args = row, .args_bytes = sizeof(*row)});
}

static void run_rows(const struct run *run, const struct plan *plan, const struct launch *launch)
{
    int value = launch->in[0] >= 0 ? launch->in[0] : launch->out[0];
    struct row_args row = {.kernels = run->pass.kernels, .count = plan->values[value].count};
    if (launch->in[0] >= 0)
        row.from = run_address(run, plan, launch->in[0]);
    if (launch->out[0] >= 0)
        row.to = run_address(run, plan, launch->out[0]);
    if (launch->kind == LAUNCH_COPY) {
        queue_copy(run->queue, row.to, row.from, (size_t)row.count * sizeof(float));
    } else if (launch->kind == LAUNCH_ADD) {
        enqueue_row(run, &row, GRAPH_ADD, launch_add);
    } else if (launch->kind == LAUNCH_LOSS) {
        row.sum = numbers_at(run->numbers) + launch->index;
        enqueue_row(run, &row, GRAPH_SUM_LOSS, launch_sum_loss);
    } else {
        if (run->noted)
            row.seed_at = &run->noted->seeds[launch->index];
        else
            row.seed = (double)run->seeds[launch->index];
        enqueue_row(run, &row, launch->add ? GRAPH_ADD_SEED : GRAPH_SEED,
                    launch->add ? launch_add_seed : launch_seed);
    }
}

/* A model that is alone gets its own elements back. */
static int meet_ranks(const struct run *run, const struct model_meeting *m, struct error *err)
{
    const struct model_ranks *ranks = &run->model->ranks;
    if (ranks->count)
        return ranks->meet(ranks->arg, m, err);
    if (m->to != m->from)
        queue_copy(run->queue, m->to, m->from, m->n * sizeof(*m->to));
    return 0;
}

/* A gradient that is added to what is there is computed in memory beside it first. */
static int run_meet(const struct run *run, const struct plan *plan, const struct launch *launch,
                    struct error *err)
{
    int from = launch->backward ? launch->d_out : launch->in[0];
    int to = launch->backward ? launch->d_in[0] : launch->out[0];
    bool adds = launch->backward && (launch->add & OP_IN(0));
    size_t n_from = (size_t)plan->values[from].count, n_to = (size_t)plan->values[to].count;
    struct model_meeting m = {.kind = launch->node->row->meets == MEET_SUM ? MODEL_SUM
                                      : launch->backward                   ? MODEL_SCATTER
                                                                           : MODEL_GATHER,
                              .from = run_address(run, plan, from),
                              .to = run_address(run, plan, adds ? launch->scratch : to),
                              .n = n_from < n_to ? n_from : n_to};
    int rc = meet_ranks(run, &m, err);
    struct row_args row = {.kernels = run->pass.kernels,
                           .from = m.to,
                           .to = run_address(run, plan, to),
                           .count = plan->values[to].count};
    if (!rc && adds)
        enqueue_row(run, &row, GRAPH_ADD, launch_add);
    if (rc)
        (void)error_wrap(err, "%s", launch->node->row->name);
    return rc;
}

static void run_update(const struct run *run, const struct plan *plan, const struct launch *launch)
{
    const struct graph_buffer *buffer = &plan->graph->buffers[launch->index];
    queue_copy(run->queue, run->next + buffer->offset, run_address(run, plan, launch->in[0]),
               buffer->count * sizeof(float));
}

static void run_copy(const struct run *run, const struct plan *plan, const struct launch *launch)
{
    int value = launch->in[0] >= 0 ? launch->in[0] : launch->out[0];
    struct host_copy copy = {
        .kind = launch->kind, .turn = launch->index, .bytes = (size_t)plan->values[value].count};
    if (launch->in[0] >= 0)
        copy.from = run_address(run, plan, launch->in[0]);
    if (launch->out[0] >= 0)
        copy.to = run_address(run, plan, launch->out[0]);
    host_copies_run(run->copies, run->queue, &copy);
}

static int run_one(const struct run *run, const struct plan *plan, const struct launch *launch,
                   struct error *err)
{
    enum model_pass pass = launch->backward ? MODEL_BACKWARD : MODEL_FORWARD;
    switch (launch->kind) {
    case LAUNCH_FORWARD:
    case LAUNCH_BACKWARD:
        run_kernel(run, plan, launch);
        return 0;
    case LAUNCH_COPY:
    case LAUNCH_ADD:
    case LAUNCH_LOSS:
    case LAUNCH_SEED:
        run_rows(run, plan, launch);
        return 0;
    case LAUNCH_MEET:
        return run_meet(run, plan, launch, err);
    case LAUNCH_UPDATE:
        run_update(run, plan, launch);
        return 0;
    case LAUNCH_OUT:
    case LAUNCH_OUT_DONE:
    case LAUNCH_BACK:
    case LAUNCH_BACK_DONE:
        run_copy(run, plan, launch);
        return 0;
    case LAUNCH_ENTER:
        return model_enter(run->model, launch->index, pass, err);
    case LAUNCH_LEAVE:
        return model_leave(run->model, launch->index, pass, err);
    case LAUNCH_READY:
        model_announce(run->model, launch->index);
        return 0;
    }
    return 0;
}

/* To the device's memory, whatever the words are. The arguments are copied: nothing waits. */
static void note(const struct run *run, void *to, const void *words, int n)
{
    struct note_args args = {.to = to, .n = n};
    struct device_range range = {to, (size_t)n * sizeof(*args.words), DEVICE_WRITE};
    memcpy(args.words, words, range.bytes);
    queue_launch(run->queue, &(struct device_launch){.name = GRAPH_NOTE,
                                                     .args = &args,
                                                     .args_bytes = sizeof(args),
                                                     .ranges = &range,
                                                     .n_ranges = 1});
}

void run_note_keys(const struct run *run)
{
    const struct op_keys keys = {run->pass.seed, (uint64_t)run->pass.first_sample};
    if (run->noted)
        note(run, &run->noted->keys, &keys, sizeof(keys) / sizeof(uint64_t));
}

void run_note_seeds(const struct run *run, int n)
{
    double seeds[GRAPH_NAMED_MAX];
    for (int i = 0; i < n; i++)
        seeds[i] = (double)run->seeds[i];
    if (run->noted && n)
        note(run, run->noted->seeds, seeds, n);
}

static int run_each(const struct run *run, const struct plan *plan, int first, int end,
                    struct error *err)
{
    const struct device *device = queue_device(run->queue);
    int rc = 0;
    for (int i = first; i < end && !rc; i++) {
        rc = run_one(run, plan, &plan->launches[i], err);
        if (!rc)
            rc = device_failure(device, err);
    }
    return rc;
}

int run_launches(const struct run *run, const struct plan *plan, int first, int end,
                 struct error *err)
{
    if (!plan->repeats)
        return run_each(run, plan, first, end, err);
    replay_begin(run->queue, plan);
    int rc = run_each(run, plan, first, end, err);
    replay_end(run->queue);
    return rc;
}
