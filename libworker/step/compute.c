#include "libworker/step/compute.h"

#include <string.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "libworker/device/cpu.h"
#include "libworker/device/module.h"
#include "libworker/device/remark.h"
#include "libworker/device/replay.h"
#include "libworker/device/wire_ops.h"
#include "libworker/parallel/wires.h"

/* The number of this process' GPU. */
static int choose_gpu(const struct compute_options *options, const struct module_table *module,
                      int *ret_number, struct error *err)
{
    int count = 0;
    if (options->has_agent && !options->visible)
        return error_set(err, WK_EUNSUPPORTED, "the agent gave this worker no GPU");
    int rc = module->count(&count, err);
    if (rc)
        return rc;
    if (count > 1 && options->local_rank >= count)
        return error_set(err, WK_EUNSUPPORTED, "this process has %d GPUs, and its local rank is %d",
                         count, options->local_rank);
    *ret_number = count > 1 ? options->local_rank : 0;
    return 0;
}

static int open_gpu(struct compute *compute, const struct module_table *module, int number,
                    const char *attention, struct error *err)
{
    int rc = module->device_new(number, &compute->own, err);
    if (rc)
        return rc;
    module->attention(compute->own, attention);
    module->about(compute->own, compute->why);
    return 0;
}

/* "…, passes as graphs": a device without graphs, or with `off`, adds nothing. */
static void describe_graphs(struct compute *compute)
{
    static const char *const what[] = {
        [DEVICE_GRAPHS_OFF] = "",
        [DEVICE_GRAPHS_AUTO] = ", passes as graphs where launches have little work",
        [DEVICE_GRAPHS_ON] = ", passes as graphs",
    };
    size_t length = strlen(compute->why);
    (void)str_copy(compute->why + length, sizeof(compute->why) - length,
                   what[device_graphs(compute->device)]);
}

/* A GPU; or with `auto` the CPU, if there is none. */
static int open_own(struct compute *compute, const struct compute_options *options,
                    struct error *err)
{
    const struct module_table *module = NULL;
    int number = 0;
    if (!strcmp(options->kind, "cpu")) {
        (void)str_copy(compute->why, sizeof(compute->why), "device is cpu");
        return device_cpu_new(&compute->own, err);
    }
    int rc = module_open(options->module, &module, err);
    if (!rc)
        rc = choose_gpu(options, module, &number, err);
    if (!rc)
        return open_gpu(compute, module, number, options->attention, err);
    if (strcmp(options->kind, "auto") != 0)
        return error_wrap(err, "device is %s", options->kind);
    (void)str_copy(compute->why, sizeof(compute->why), err->text);
    error_clear(err);
    return device_cpu_new(&compute->own, err);
}

/* What their first use would wait for begins now, beside the rest of the start. */
static void prepare_wires(struct device *device)
{
    const struct wire_ops *wires = device_wires(device);
    if (wires && wires->prepare)
        wires->prepare(device);
}

int compute_init(struct compute *compute, const struct compute_options *options, struct error *err)
{
    *compute = (struct compute){.device = options->device};
    int rc = options->device ? 0 : open_own(compute, options, err);
    if (!options->device)
        compute->device = compute->own;
    if (!rc)
        device_choose_graphs(compute->device, device_graphs_of(options->compile));
    if (!rc)
        describe_graphs(compute);
    if (!rc && options->exchanges)
        prepare_wires(compute->device);
    if (!rc)
        rc = queue_new(compute->device, &compute->queue, err);
    if (rc)
        compute_fini(compute);
    return rc;
}

void compute_fini(struct compute *compute)
{
    if (compute->device)
        device_listen(compute->device, NULL, NULL);
    wires_free(compute->wires);
    queue_free(compute->queue);
    device_free(compute->own);
    *compute = (struct compute){0};
}
