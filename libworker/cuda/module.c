/* What libworker sees of the module (device/module.h). */
#include "libworker/device/module.h"

#include <module_build.h>
#include <string.h>

#include "common/base/str.h"
#include "libworker/cuda/cuda.h"

static void describe_gpu(const struct device *base, char ret[MODULE_ABOUT_BYTES])
{
    const struct cuda_device *device = cuda_device_of(base);
    (void)str_printf(ret, MODULE_ABOUT_BYTES, "GPU %d, %s (sm_%d)", device->number, device->name,
                     device->arch);
}

extern const struct module_table muster_cuda_module;

__attribute__((visibility("default"))) const struct module_table muster_cuda_module = {
    .build = MODULE_BUILD,
    .count = cuda_count,
    .device_new = cuda_device_new,
    .plan_device_new = cuda_plan_device_new,
    .about = describe_gpu,
};
