/* A module with as many GPUs as GPUS says, which are CPUs; "broken" are two that cannot be used.
 * OTHER_BUILD: one of another build. */
#include <stdlib.h>
#include <string.h>

#include <module_build.h>
#include <worker/error.h>

#include "common/base/str.h"
#include "libworker/device/cpu.h"
#include "libworker/device/module.h"

static int last_number;
static const char *last_attention;

static bool is_broken(void)
{
    return strcmp(getenv("GPUS"), "broken") == 0;
}

static int count_gpus(int *ret_count, struct error *err)
{
    *ret_count = is_broken() ? 2 : atoi(getenv("GPUS"));
    return *ret_count ? 0 : error_set(err, WK_EUNSUPPORTED, "this process has no GPU");
}

static int open_gpu(int number, struct device **ret_device, struct error *err)
{
    last_number = number;
    if (is_broken())
        return error_set(err, WK_EIO, "GPU %d fell off the bus", number);
    return device_cpu_new(ret_device, err);
}

static void choose_attention(struct device *device, const char *setting)
{
    (void)device;
    last_attention = setting;
}

static void describe_gpu(const struct device *device, char ret[MODULE_ABOUT_BYTES])
{
    (void)device;
    (void)str_printf(ret, MODULE_ABOUT_BYTES, "GPU %d, attention %s", last_number, last_attention);
}

extern const struct module_table muster_cuda_module;

__attribute__((visibility("default"))) const struct module_table muster_cuda_module = {
#ifdef OTHER_BUILD
    .build = "0.0.9-0123456789ab",
#else
    .build = MODULE_BUILD,
#endif
    .count = count_gpus,
    .device_new = open_gpu,
    .attention = choose_attention,
    .about = describe_gpu,
};
