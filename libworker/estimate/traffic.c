#include "libworker/estimate/traffic.h"

#include <string.h>

#include "common/base/assert.h"
#include "libworker/device/kernels.h"
#include "libworker/graph/launches.h"
#include "libworker/graph/node_cost.h"
#include "libworker/graph/op.h"
#include "libworker/graph/run.h"
#include "libworker/nn/model.h"
#include "libworker/optim/clip.h"
#include "libworker/optim/optimizer.h"
#include "libworker/optim/verdict.h"

static double bytes_of(const struct plan *plan, int value)
{
    if (value < 0 || plan->values[value].kind == VALUE_IN_HOST)
        return 0;
    const struct plan_value *v = &plan->values[value];
    return (double)v->count * (double)wk_dtype_bytes(v->type);
}

/* Each tensor once; a gradient that is added to is read, too. */
static struct device_traffic of_tensors(const struct plan *plan, const struct launch *launch)
{
    struct device_traffic t = {.launches = 1};
    bool forward = launch->kind != LAUNCH_BACKWARD;
    for (int i = 0; i < NODE_INPUTS_MAX; i++) {
        double gradient = bytes_of(plan, launch->d_in[i]);
        t.read += bytes_of(plan, launch->in[i]);
        t.written += gradient;
        t.read += launch->add & OP_IN(i) ? gradient : 0;
    }
    for (int i = 0; i < NODE_OUTPUTS_MAX; i++)
        *(forward ? &t.written : &t.read) += bytes_of(plan, launch->out[i]);
    t.read += bytes_of(plan, launch->d_out);
    t.read += launch->kind == LAUNCH_ADD ? bytes_of(plan, launch->out[0]) : 0;
    return t;
}

static bool is_operation(const struct launch *launch)
{
    return launch->kind == LAUNCH_FORWARD || launch->kind == LAUNCH_BACKWARD;
}

/* Add what the device's kernel counts; it has no arguments of what is no operation. */
static void of_kernel(const struct plan *plan, const struct launch *launch, const char *name,
                      struct device_traffic *traffic)
{
    const struct device *device = plan->options.device;
    const struct device_kernel *kernel = NULL;
    struct op_args args = {.backward = launch->kind == LAUNCH_BACKWARD};
    if (device && device_has_kernels(device))
        kernel = device_kernel_find(device, name);
    if (!kernel || !kernel->traffic)
        return;
    if (is_operation(launch))
        run_describe(plan, launch, &args.call);
    kernel->traffic(device, &args, traffic);
}

/* NULL: nothing runs on the device. */
static const char *name_of(const struct launch *launch)
{
    switch (launch->kind) {
    case LAUNCH_FORWARD:
    case LAUNCH_BACKWARD:
    case LAUNCH_MEET:
        return launch_name_of(launch->node);
    case LAUNCH_COPY:
        return "copy of a gradient";
    case LAUNCH_ADD:
        return GRAPH_ADD;
    case LAUNCH_LOSS:
        return GRAPH_SUM_LOSS;
    case LAUNCH_UPDATE:
        return "update of a buffer";
    case LAUNCH_SEED:
        return GRAPH_SEED;
    case LAUNCH_OUT:
        return "copy to the host";
    case LAUNCH_BACK:
        return "copy from the host";
    case LAUNCH_OUT_DONE:
    case LAUNCH_BACK_DONE:
    case LAUNCH_ENTER:
    case LAUNCH_LEAVE:
    case LAUNCH_READY:
        return NULL;
    }
    return NULL;
}

static struct traffic_row *row_of(struct traffic *traffic, const char *name, enum traffic_part part)
{
    for (int i = 0; i < traffic->n; i++) {
        struct traffic_row *row = &traffic->rows[i];
        if (row->part == part && !strcmp(row->name, name))
            return row;
    }
    insist(traffic->n < TRAFFIC_ROWS_MAX);
    struct traffic_row *row = &traffic->rows[traffic->n++];
    *row = (struct traffic_row){.name = name, .part = part};
    return row;
}

static void add_up(struct traffic_row *row, const struct device_traffic *t, double flop)
{
    row->launches += t->launches;
    row->read += t->read;
    row->written += t->written;
    row->flop += flop;
}

void traffic_count(const struct plan *plan, struct traffic *ret)
{
    *ret = (struct traffic){.together = {.name = "together"}};
    for (int i = 0; i < plan->n_launches; i++) {
        const struct launch *launch = &plan->launches[i];
        const char *name = name_of(launch);
        double flop = 0;
        if (!name)
            continue;
        struct device_traffic t = of_tensors(plan, launch);
        of_kernel(plan, launch, name, &t);
        if (is_operation(launch)) {
            flop =
                node_cost(launch->node, &plan->options.sizes, launch->kind == LAUNCH_BACKWARD).flop;
        }
        enum traffic_part part = i < plan->n_forward ? TRAFFIC_FORWARD : TRAFFIC_BACKWARD;
        add_up(row_of(ret, name, part), &t, flop);
        add_up(&ret->together, &t, flop);
    }
}

/* Where counted work is added while a step's end is enqueued. */
struct update_sink {
    const struct traffic_update *update;
    struct traffic *traffic;
    bool counts; /* false: memory is made, which no step does */
};

static void add_counted(void *arg, const struct counted *counted)
{
    struct update_sink *sink = arg;
    if (!sink->counts)
        return;
    add_up(row_of(sink->traffic, counted->name, TRAFFIC_UPDATE), &counted->traffic, 0);
    add_up(&sink->traffic->together, &counted->traffic, 0);
    if (sink->update->each)
        sink->update->each(sink->update->arg, counted);
}

/* Its memory is the counting device's. */
struct update_scene {
    struct queue *queue;
    struct verdict verdict;
    size_t count;
    void *params, *grads, *low;
};

static int prepare_update(struct update_scene *s, const struct traffic_update *u, struct error *err)
{
    struct device *device = queue_device(s->queue);
    size_t bytes = s->count * sizeof(float);
    optimizer_move(u->optimizer, s->queue);
    int rc =
        optimizer_bind(u->optimizer, u->model->params, model_trained(u->model), 0, s->count, err);
    if (!rc)
        rc = verdict_init(&s->verdict, s->queue, err);
    if (!rc)
        rc = device_memory_new(device, bytes, &s->params, err);
    if (!rc)
        rc = device_memory_new(device, bytes, &s->grads, err);
    if (rc || u->compute == WK_F32)
        return rc;
    rc = device_memory_new(device, s->count * sizeof(uint16_t), &s->low, err);
    if (rc)
        return rc;
    const struct optimizer_copy copy = {.low = s->low, .type = u->compute};
    return optimizer_set_copy(u->optimizer, &copy, err);
}

/* As step/sums.c and parallel/ddp.c have it. Numbers do not matter. */
static int enqueue_update(struct update_scene *s, struct wk_optimizer *optimizer, struct error *err)
{
    struct verdict *v = &s->verdict;
    const struct clip_grads sums = {.grads = s->grads, .count = s->count};
    const struct optimizer_gradients gradients = {.grads = s->grads, .verdict = v->at};
    const struct verdict_values *values;
    verdict_add_loss(v, 1);
    verdict_open(v, 1, VERDICT_UNKNOWN);
    clip_measure(s->queue, &sums, &v->at->squares);
    verdict_measure(v, true);
    verdict_clip(v, 1);
    verdict_judge(v, 0);
    int rc = optimizer_enqueue(optimizer, s->params, &gradients, err);
    if (!rc)
        rc = verdict_fetch(v, &values, err);
    verdict_clear(v);
    queue_fill(s->queue, s->grads, 0, s->count * sizeof(float));
    return rc;
}

/* By the bytes of the optimizer's own kernels. */
static void find_reason(const struct traffic_update *u, struct traffic *traffic)
{
    const struct optimizer_ops *ops = u->optimizer->ops;
    double bytes = 0;
    for (int i = 0; i < traffic->n; i++) {
        const struct traffic_row *row = &traffic->rows[i];
        if (row->part == TRAFFIC_UPDATE && !strcmp(row->name, ops->name) && row->launches)
            bytes = (row->read + row->written) / row->launches;
    }
    noted_reason(ops, u->graphs, bytes, traffic->update_graphs);
}

int traffic_add_update(const struct traffic_update *u, struct traffic *traffic, struct error *err)
{
    struct update_sink sink = {.update = u, .traffic = traffic};
    const struct counter counter = {u->device, add_counted, &sink};
    struct update_scene scene = {.count = model_trained_count(u->model)};
    struct device *device = NULL;
    int rc = counter_new(&counter, &device, err);
    if (!rc)
        rc = queue_new(device, &scene.queue, err);
    if (!rc)
        rc = prepare_update(&scene, u, err);
    sink.counts = !rc;
    if (!rc)
        rc = enqueue_update(&scene, u->optimizer, err);
    if (!rc)
        find_reason(u, traffic);
    sink.counts = false;
    verdict_fini(&scene.verdict);
    optimizer_move(u->optimizer, NULL);
    queue_free(scene.queue);
    device_free(device);
    return rc;
}
