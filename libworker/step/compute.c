#include "libworker/step/compute.h"

#include "libworker/device/cpu.h"
#include "libworker/parallel/wires.h"

int compute_init(struct compute *compute, struct device *device, struct error *err)
{
    *compute = (struct compute){.device = device};
    int rc = device ? 0 : device_cpu_new(&compute->own, err);
    if (!device)
        compute->device = compute->own;
    if (!rc)
        rc = queue_new(compute->device, &compute->queue, err);
    if (rc)
        compute_fini(compute);
    return rc;
}

void compute_fini(struct compute *compute)
{
    wires_free(compute->wires);
    queue_free(compute->queue);
    device_free(compute->own);
    *compute = (struct compute){0};
}
