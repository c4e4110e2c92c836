#include "agent/device/nvml.h"

#include <dlfcn.h>
#include <string.h>

#include "common/base/str.h"

typedef struct nvml_device *nvml_device;

struct nvml_memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

struct nvml { /* entry points; all return 0 for success */
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned int *ret);
    int (*handle)(unsigned int index, nvml_device *ret);
    int (*name)(nvml_device device, char *ret, unsigned int size);
    int (*uuid)(nvml_device device, char *ret, unsigned int size);
    int (*memory)(nvml_device device, struct nvml_memory *ret);
    int (*minor)(nvml_device device, unsigned int *ret); /* may be NULL */
};

static const char *const library_names[] = {"libnvidia-ml.so.1", "libnvidia-ml.so", NULL};

static bool find_symbol(struct nvml *nvml, void *slot, const char *name)
{
    void *symbol = dlsym(nvml->library, name);
    memcpy(slot, &symbol, sizeof(symbol)); /* POSIX's way around data and function pointers */
    return symbol != NULL;
}

static bool nvml_open(struct nvml *nvml, char why[NVML_WHY_BYTES])
{
    for (const char *const *name = library_names; *name && !nvml->library; name++)
        nvml->library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
        (void)str_copy(why, NVML_WHY_BYTES, "no NVML library");
        return false;
    }
    bool found = find_symbol(nvml, &nvml->init, "nvmlInit_v2") &&
                 find_symbol(nvml, &nvml->shutdown, "nvmlShutdown") &&
                 find_symbol(nvml, &nvml->count, "nvmlDeviceGetCount_v2") &&
                 find_symbol(nvml, &nvml->handle, "nvmlDeviceGetHandleByIndex_v2") &&
                 find_symbol(nvml, &nvml->name, "nvmlDeviceGetName") &&
                 find_symbol(nvml, &nvml->uuid, "nvmlDeviceGetUUID") &&
                 find_symbol(nvml, &nvml->memory, "nvmlDeviceGetMemoryInfo");
    (void)find_symbol(nvml, &nvml->minor, "nvmlDeviceGetMinorNumber");
    if (!found)
        (void)str_copy(why, NVML_WHY_BYTES, "this NVML library lacks an entry point");
    return found;
}

static bool read_gpu(const struct nvml *nvml, unsigned int index, struct inventory_gpu *ret)
{
    struct inventory_gpu gpu = {.index = (int)index};
    struct nvml_memory memory;
    nvml_device device;
    if (nvml->handle(index, &device) || nvml->memory(device, &memory) ||
        nvml->name(device, gpu.model, sizeof(gpu.model)) ||
        nvml->uuid(device, gpu.uuid, sizeof(gpu.uuid)))
        return false;
    unsigned int minor;
    gpu.memory_bytes = memory.total;
    gpu.minor = nvml->minor && nvml->minor(device, &minor) == 0 ? (int)minor : -1;
    *ret = gpu;
    return true;
}

int nvml_gpus(struct inventory_gpu *ret, int max, char why[NVML_WHY_BYTES])
{
    struct nvml nvml = {0};
    char unread[NVML_WHY_BYTES];
    unsigned int count = 0;
    int filled = 0;
    if (!why)
        why = unread;
    why[0] = '\0';
    if (nvml_open(&nvml, why)) {
        int rc = nvml.init();
        if (rc)
            (void)str_printf(why, NVML_WHY_BYTES, "nvmlInit_v2 returned %d", rc);
        else if (nvml.count(&count) == 0)
            for (unsigned int i = 0; i < count && filled < max; i++)
                filled += read_gpu(&nvml, i, &ret[filled]);
        if (!rc)
            nvml.shutdown();
    }
    if (nvml.library)
        dlclose(nvml.library);
    return filled;
}
