#include "agent/device/nvml.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "agent/device/nvml_api.h"
#include "common/base/str.h"

/* Constants of NVML. */
enum {
    TEMPERATURE_OF_GPU = 0,
    ECC_UNCORRECTED = 1,
    ECC_SINCE_LOADED = 0,
    EVENT_XID = 8,
    COMPUTE_PROHIBITED = 2,
    AFFINITY_OF_NODE = 0,
    /* reasons for a slower clock */
    SLOW_POWER_CAP = 0x4,
    SLOW_HEAT = 0x20,
    SLOW_HEAT_HARDWARE = 0x40,
    SLOW_POWER_BRAKE = 0x80,
};
enum { XIDS_AT_ONCE = 16 }; /* more wait for the next reading */

static void watch_errors(struct nvml *nvml, unsigned int count)
{
    if (!nvml->events_new || !nvml->events_free || !nvml->events_register || !nvml->events_wait ||
        nvml->events_new(&nvml->events)) {
        nvml->events = NULL;
        return;
    }
    for (unsigned int i = 0; i < count; i++) {
        nvml_device device;
        if (nvml->handle(i, &device) == 0)
            (void)nvml->events_register(device, EVENT_XID, nvml->events);
    }
}

struct nvml *nvml_open(char why[NVML_WHY_BYTES])
{
    char unread[NVML_WHY_BYTES];
    struct nvml *nvml = calloc(1, sizeof(*nvml));
    why = why ? why : unread;
    (void)str_copy(why, NVML_WHY_BYTES, "no memory");
    if (!nvml)
        return NULL;
    bool loaded = nvml_load(nvml, why);
    unsigned int count = 0;
    int rc = loaded ? nvml->init() : 0;
    if (rc)
        (void)str_printf(why, NVML_WHY_BYTES, "nvmlInit_v2 returned %d", rc);
    if (!loaded || rc) {
        if (nvml->library)
            dlclose(nvml->library);
        free(nvml);
        return NULL;
    }
    if (nvml->count(&count) == 0)
        watch_errors(nvml, count);
    why[0] = '\0';
    return nvml;
}

void nvml_close(struct nvml *nvml)
{
    if (!nvml)
        return;
    if (nvml->events)
        (void)nvml->events_free(nvml->events);
    (void)nvml->shutdown();
    dlclose(nvml->library);
    free(nvml);
}

/* Where it is in the machine. */
static void read_place(const struct nvml *nvml, nvml_device device, struct inventory_gpu *gpu)
{
    unsigned int number;
    unsigned long nodes = 0;
    gpu->numa_node = GPU_UNKNOWN;
    if (nvml->pcie_generation && nvml->pcie_generation(device, &number) == 0)
        gpu->pcie_generation = (int)number;
    if (nvml->pcie_lanes && nvml->pcie_lanes(device, &number) == 0)
        gpu->pcie_lanes = (int)number;
    if (nvml->numa_nodes && nvml->numa_nodes(device, 1, &nodes, AFFINITY_OF_NODE) == 0 && nodes)
        gpu->numa_node = __builtin_ctzl(nodes);
}

static bool read_names(const struct nvml *nvml, nvml_device device, struct inventory_gpu *gpu)
{
    struct nvml_memory memory;
    if (nvml->memory(device, &memory) || nvml->name(device, gpu->model, sizeof(gpu->model)) ||
        nvml->uuid(device, gpu->uuid, sizeof(gpu->uuid)))
        return false;
    gpu->memory_bytes = memory.total;
    return true;
}

static bool is_divided(const struct nvml *nvml, nvml_device device)
{
    unsigned int now, next;
    return nvml->mig_mode && nvml->mig_count && nvml->mig_handle &&
           nvml->mig_mode(device, &now, &next) == 0 && now == 1;
}

/* The instances of a divided GPU; those that were never made are skipped. */
static int add_instances(const struct nvml *nvml, nvml_device device,
                         const struct inventory_gpu *whole, struct inventory_gpu *ret, int max)
{
    unsigned int count = 0;
    int filled = 0;
    if (nvml->mig_count(device, &count))
        return 0;
    for (unsigned int i = 0; i < count && filled < max; i++) {
        struct inventory_gpu gpu = *whole;
        nvml_device instance;
        gpu.instance = (int)i;
        if (nvml->mig_handle(device, i, &instance) == 0 && read_names(nvml, instance, &gpu))
            ret[filled++] = gpu;
    }
    return filled;
}

static int add_gpu(const struct nvml *nvml, unsigned int index, struct inventory_gpu *ret, int max)
{
    struct inventory_gpu gpu = {.index = (int)index, .instance = GPU_WHOLE, .minor = -1};
    nvml_device device;
    unsigned int number;
    if (nvml->handle(index, &device) || !read_names(nvml, device, &gpu))
        return 0;
    if (nvml->minor && nvml->minor(device, &number) == 0)
        gpu.minor = (int)number;
    if (nvml->compute_mode && nvml->compute_mode(device, &number) == 0) {
        if (number == COMPUTE_PROHIBITED)
            return 0;
        gpu.exclusive = number != 0;
    }
    gpu.persistent = nvml->persistence && nvml->persistence(device, &number) == 0 && number == 1;
    read_place(nvml, device, &gpu);
    if (is_divided(nvml, device))
        return add_instances(nvml, device, &gpu, ret, max);
    *ret = gpu;
    return 1;
}

int nvml_gpus(struct nvml *nvml, struct inventory_gpu *ret, int max)
{
    unsigned int count = 0;
    int filled = 0;
    if (nvml->count(&count))
        return 0;
    for (unsigned int i = 0; i < count && i < INVENTORY_GPUS_MAX && filled < max; i++)
        filled += add_gpu(nvml, i, &ret[filled], max - filled);
    nvml_links(nvml, ret, filled);
    return filled;
}

/* What the driver reported since the last time. */
static void take_errors(struct nvml *nvml)
{
    struct nvml_event event;
    for (int n = 0; n < XIDS_AT_ONCE && nvml->events; n++) {
        if (nvml->events_wait(nvml->events, &event, 0))
            return;
        for (unsigned int i = 0; i < INVENTORY_GPUS_MAX; i++) {
            nvml_device device;
            if (nvml->handle(i, &device) == 0 && device == event.device)
                nvml->xids[i] = (int)event.data;
        }
    }
}

static void read_board(const struct nvml *nvml, nvml_device device, struct gpu_reading *ret)
{
    unsigned int number;
    unsigned long long bits;
    if (nvml->temperature && nvml->temperature(device, TEMPERATURE_OF_GPU, &number) == 0)
        ret->temperature_c = (int)number;
    if (nvml->power && nvml->power(device, &number) == 0)
        ret->power_w = (int)((number + 500) / 1000);
    if (nvml->ecc && nvml->ecc(device, ECC_UNCORRECTED, ECC_SINCE_LOADED, &bits) == 0)
        ret->ecc_errors = (int64_t)bits;
    if (nvml->slow && nvml->slow(device, &bits) == 0) {
        ret->slowed |= bits & (SLOW_POWER_CAP | SLOW_POWER_BRAKE) ? GPU_SLOWED_POWER : 0;
        ret->slowed |= bits & (SLOW_HEAT | SLOW_HEAT_HARDWARE) ? GPU_SLOWED_HEAT : 0;
    }
}

bool nvml_read(struct nvml *nvml, const struct inventory_gpu *gpu, struct gpu_reading *ret)
{
    struct gpu_reading reading = {
        GPU_UNKNOWN, GPU_UNKNOWN, GPU_UNKNOWN, GPU_UNKNOWN, GPU_UNKNOWN, 0, 0};
    nvml_device board, device;
    struct nvml_memory memory;
    struct nvml_use use;
    take_errors(nvml);
    if (nvml->handle((unsigned int)gpu->index, &board))
        return false;
    device = board;
    if (gpu->instance != GPU_WHOLE &&
        (!nvml->mig_handle || nvml->mig_handle(board, (unsigned int)gpu->instance, &device)))
        return false;
    if (nvml->memory(device, &memory))
        return false;
    reading.memory_used_bytes = (int64_t)memory.used;
    if (nvml->use && nvml->use(device, &use) == 0)
        reading.used_percent = (int)use.gpu;
    read_board(nvml, board, &reading);
    reading.xid = nvml->xids[gpu->index];
    *ret = reading;
    return true;
}
