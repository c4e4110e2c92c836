#include "libworker/estimate/traffic.h"

#include <string.h>

#include "common/base/assert.h"
#include "libworker/device/kernels.h"
#include "libworker/graph/launches.h"
#include "libworker/graph/node_cost.h"
#include "libworker/graph/op.h"
#include "libworker/graph/run.h"

static double bytes_of(const struct plan *plan, int value)
{
    if (value < 0)
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

/* What the device's kernel says; of what is no operation, only how many it is. */
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
    case LAUNCH_ENTER:
    case LAUNCH_LEAVE:
    case LAUNCH_READY:
        return NULL;
    }
    return NULL;
}

static struct traffic_row *row_of(struct traffic *traffic, const char *name, bool backward)
{
    for (int i = 0; i < traffic->n; i++) {
        struct traffic_row *row = &traffic->rows[i];
        if (row->backward == backward && !strcmp(row->name, name))
            return row;
    }
    insist(traffic->n < TRAFFIC_ROWS_MAX);
    struct traffic_row *row = &traffic->rows[traffic->n++];
    *row = (struct traffic_row){.name = name, .backward = backward};
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
        add_up(row_of(ret, name, i >= plan->n_forward), &t, flop);
        add_up(&ret->together, &t, flop);
    }
}
