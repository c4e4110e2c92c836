#include "libworker/graph/run.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/device/device.h"
#include "libworker/graph/describe.h"
#include "libworker/graph/op.h"
#include "libworker/graph/types.h"
#include "libworker/nn/model.h"

void *run_address(const struct run *run, const struct plan *plan, int value)
{
    const struct plan_value *v = &plan->values[value];
    const struct param *param = &run->model->params[v->index];
    switch (v->kind) {
    case PLACE_REGION:
        return (char *)run->region + v->offset;
    case PLACE_INPUT:
        return (void *)(uintptr_t)run->inputs[v->index];
    case PLACE_PARAM:
        return (v->type == WK_F32 ? (char *)param->data : (char *)(uintptr_t)param->low) +
               (size_t)run->pass.past * v->step;
    case PLACE_BUFFER:
        return (char *)run->buffers + v->offset;
    case PLACE_CACHE:
        return (char *)run->cache + v->offset;
    case PLACE_PARAM_GRAD:
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

/* The arguments of a launch of an operation. */
struct op_args {
    struct op_pass pass;
    struct op_call call;
    bool backward;
};
_Static_assert(sizeof(struct op_args) <= LAUNCH_ARGS_MAX_BYTES, "a launch copies its arguments");

static void run_op(struct queue *queue, const void *args)
{
    const struct op_args *op = args;
    struct op_call call = op->call;
    call.pass = &op->pass;
    call.queue = queue;
    if (op->backward)
        call.node->row->backward(&call);
    else
        call.node->row->forward(&call);
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
    enqueue(run, &e,
            &(struct device_launch){.name = launch->node->row->name,
                                    .run = run_op,
                                    .args = &args,
                                    .args_bytes = sizeof(args)});
}

/* A few floats in a row, for what is no operation. */
struct row_args {
    const struct kernel_table *kernels;
    const float *from;
    float *to;
    double *sum;
    int64_t count;
    float seed;
};

/* In double, in the order of the elements. */
static void run_loss(struct queue *queue, const void *args)
{
    const struct row_args *row = args;
    double sum = 0;
    (void)queue;
    for (int64_t i = 0; i < row->count; i++)
        sum += (double)row->from[i];
    *row->sum += sum;
}

static void run_seed(struct queue *queue, const void *args)
{
    const struct row_args *row = args;
    (void)queue;
    row->kernels->fill(row->to, row->seed, (size_t)row->count);
}

static void run_seed_more(struct queue *queue, const void *args)
{
    const struct row_args *row = args;
    (void)queue;
    for (int64_t i = 0; i < row->count; i++)
        row->to[i] += row->seed;
}

static void run_add(struct queue *queue, const void *args)
{
    const struct row_args *row = args;
    (void)queue;
    row->kernels->add(row->to, row->from, (size_t)row->count);
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
            row->to, bytes, function == run_seed ? DEVICE_WRITE : DEVICE_UPDATE};
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
        enqueue_row(run, &row, "add a gradient", run_add);
    } else if (launch->kind == LAUNCH_LOSS) {
        row.sum = numbers_at(run->numbers) + launch->index;
        enqueue_row(run, &row, "sum a loss", run_loss);
    } else {
        row.seed = run->seeds[launch->index];
        enqueue_row(run, &row, "begin a gradient", launch->add ? run_seed_more : run_seed);
    }
}

/* What a collective reads and writes. */
struct meeting {
    enum op_meeting kind;
    bool backward;
    const float *from;
    float *to;
    size_t n_from, n_to;
};

/* In host memory. */
static int meet_host(const struct run *run, const struct meeting *m, struct error *err)
{
    const struct model_ranks *ranks = &run->model->ranks;
    if (m->kind == MEET_SUM || !ranks->count)
        memcpy(m->to, m->from, m->n_to * sizeof(*m->to));
    if (!ranks->count)
        return 0;
    if (m->kind == MEET_SUM)
        return ranks->sum(ranks->arg, m->to, m->n_to, err);
    return m->backward ? ranks->scatter(ranks->arg, m->from, m->to, m->n_to, err)
                       : ranks->gather(ranks->arg, m->from, m->to, m->n_from, err);
}

/* By copies on the host. */
static int meet_by_copies(const struct run *run, const struct meeting *m, struct error *err)
{
    struct meeting host = *m;
    float *room = malloc((m->n_from + m->n_to + 1) * sizeof(*room));
    if (!room)
        return error_set(err, WK_ENOMEM, "no memory to meet the other ranks");
    host.from = room;
    host.to = room + m->n_from;
    int rc = queue_read(run->queue, room, m->from, m->n_from * sizeof(*room), err);
    if (!rc)
        rc = meet_host(run, &host, err);
    if (!rc)
        rc = queue_write(run->queue, m->to, host.to, m->n_to * sizeof(*room), err);
    free(room);
    return rc;
}

static int meet_ranks(const struct run *run, const struct meeting *m, struct error *err)
{
    if (!device_host_reads(queue_device(run->queue)))
        return meet_by_copies(run, m, err);
    int rc = queue_finish(run->queue, err);
    if (rc)
        return rc;
    return meet_host(run, m, err);
}

/* A gradient that is added to what is there comes into memory beside it first. */
static int run_meet(const struct run *run, const struct plan *plan, const struct launch *launch,
                    struct error *err)
{
    int from = launch->backward ? launch->d_out : launch->in[0];
    int to = launch->backward ? launch->d_in[0] : launch->out[0];
    bool adds = launch->backward && (launch->add & OP_IN(0));
    struct meeting m = {.kind = launch->node->row->meets,
                        .backward = launch->backward,
                        .from = run_address(run, plan, from),
                        .to = run_address(run, plan, adds ? launch->scratch : to),
                        .n_from = (size_t)plan->values[from].count,
                        .n_to = (size_t)plan->values[to].count};
    int rc = meet_ranks(run, &m, err);
    struct row_args row = {.kernels = run->pass.kernels,
                           .from = m.to,
                           .to = run_address(run, plan, to),
                           .count = plan->values[to].count};
    if (!rc && adds)
        enqueue_row(run, &row, "add a gradient", run_add);
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

int run_launches(const struct run *run, const struct plan *plan, int first, int end,
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
