/* The same names (fake/gpu.h) for the machine's own GPU, through the CUDA runtime. One device is
 * made and kept to the end of the program, as its context takes a second. */
#include "tests/cuda/fake/gpu.h"

#include <stdio.h>

#include "libworker/cuda/cuda.h"
#include "libworker/device/module.h"
#include "tests/lib/check.h"

static struct device *kept;
static struct device_ops ops; /* the module's, but free leaves the device */

static void keep(struct device *device)
{
    (void)device;
}

struct fake_options gpu_options(uint64_t seed)
{
    return (struct fake_options){.seed = seed};
}

struct device *gpu_new(const struct fake_options *options)
{
    struct error err = {0};
    (void)options;
    if (!kept && cuda_device_new(0, &kept, &err)) {
        printf("SKIPPED: %s\n", err.text);
        exit(77);
    }
    ops = *kept->ops;
    ops.free = keep;
    kept->ops = &ops;
    return kept;
}

bool gpu_is_real(void)
{
    return true;
}
