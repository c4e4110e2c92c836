/* What libworker sees of the module (device/module.h). */
#include "libworker/device/module.h"

#include <module_build.h>
#include <string.h>

#include "common/base/str.h"
#include "libworker/cuda/attention_cudnn.h"
#include "libworker/cuda/cuda.h"

static void choose_attention(struct device *base, const char *setting)
{
    cuda_device_of(base)->attention = attention_choice_of(setting);
}

static void describe_gpu(const struct device *base, char ret[MODULE_ABOUT_BYTES])
{
    char attention[ATTENTION_ABOUT_BYTES];
    struct cuda_device *device = cuda_device_of(base);
    attention_cudnn_about(device, attention);
    (void)str_printf(ret, MODULE_ABOUT_BYTES, "GPU %d, %s (sm_%d), %s", device->number,
                     device->name, device->arch, attention);
}

extern const struct module_table muster_cuda_module;

__attribute__((visibility("default"))) const struct module_table muster_cuda_module = {
    .build = MODULE_BUILD,
    .count = cuda_count,
    .device_new = cuda_device_new,
    .plan_device_new = cuda_plan_device_new,
    .attention = choose_attention,
    .about = describe_gpu,
};
