#include "libworker/graph/needs.h"

#include "libworker/device/kernels.h"
#include "libworker/graph/launches.h"
#include "libworker/graph/op.h"
#include "libworker/graph/op/custom.h"
#include "libworker/graph/run.h"

/* Collectives and the program's functions are no launches: their rows have what they need. */
size_t needs_scratch(const struct plan *plan, const struct launch *launch)
{
    const struct device *device = plan->options.device;
    const struct op_row *row = launch->node->row;
    struct op_args args = {.backward = launch->backward};
    if (!device || !device_has_kernels(device) || row->meets || node_is_custom(launch->node)) {
        if (!row->scratch_bytes)
            return 0;
        run_describe(plan, launch, &args.call);
        return row->scratch_bytes(&args.call, launch->backward);
    }
    const struct device_kernel *kernel = device_kernel_find(device, launch_name_of(launch->node));
    if (!kernel || !kernel->scratch_bytes)
        return 0;
    run_describe(plan, launch, &args.call);
    return kernel->scratch_bytes(device, &args);
}

/* The program's own needs what converts values around it. */
static int check_operation(const struct device *device, const struct node *node, struct error *err)
{
    if (!node_is_custom(node))
        return device_kernel_need(device, "operation", launch_name_of(node), err);
    int rc = custom_check_device(node, device_kernels(device), err);
    if (!rc)
        rc = device_kernel_need(device, "launch", GRAPH_WIDEN, err);
    if (!rc)
        rc = device_kernel_need(device, "launch", GRAPH_NARROW, err);
    return rc;
}

static int check_one(const struct device *device, const struct launch *launch, struct error *err)
{
    switch (launch->kind) {
    case LAUNCH_FORWARD:
    case LAUNCH_BACKWARD:
        return check_operation(device, launch->node, err);
    case LAUNCH_LOSS:
        return device_kernel_need(device, "launch", GRAPH_SUM_LOSS, err);
    case LAUNCH_SEED:
        return device_kernel_need(device, "launch", launch->add ? GRAPH_ADD_SEED : GRAPH_SEED, err);
    case LAUNCH_ADD:
        return device_kernel_need(device, "launch", GRAPH_ADD, err);
    case LAUNCH_MEET:
        return launch->add ? device_kernel_need(device, "launch", GRAPH_ADD, err) : 0;
    case LAUNCH_COPY:
    case LAUNCH_UPDATE:
    case LAUNCH_ENTER:
    case LAUNCH_LEAVE:
    case LAUNCH_READY:
    case LAUNCH_OUT:
    case LAUNCH_OUT_DONE:
    case LAUNCH_BACK:
    case LAUNCH_BACK_DONE:
        return 0;
    }
    return 0;
}

int needs_check(const struct plan *plan, struct error *err)
{
    const struct device *device = plan->options.device;
    if (!device || !device_has_kernels(device))
        return 0;
    int rc = device_kernel_need(device, "launch", GRAPH_NOTE, err);
    if (!rc && plan->options.trace.trains)
        rc = device_kernel_need(device, "launch", GRAPH_TOTAL, err);
    for (int i = 0; i < plan->n_launches && !rc; i++)
        rc = check_one(device, &plan->launches[i], err);
    return rc;
}
