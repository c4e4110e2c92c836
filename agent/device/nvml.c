#include "agent/device/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

/* Constants of NVML. */
enum {
    TEMPERATURE_OF_GPU = 0,
    ECC_UNCORRECTED = 1,
    ECC_SINCE_LOADED = 0,
    EVENT_XID = 8,
    COMPUTE_PROHIBITED = 2,
    LINKS_MAX = 18,
    /* reasons for a slower clock */
    SLOW_POWER_CAP = 0x4,
    SLOW_HEAT = 0x20,
    SLOW_HEAT_HARDWARE = 0x40,
    SLOW_POWER_BRAKE = 0x80,
};
enum { XIDS_AT_ONCE = 16 }; /* more wait for the next reading */

typedef struct nvml_device *nvml_device;
typedef struct nvml_events *nvml_events;

struct nvml_memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

struct nvml_use { /* nvmlUtilization_t, percent */
    unsigned int gpu, memory;
};

struct nvml_event { /* nvmlEventData_t */
    nvml_device device;
    unsigned long long type, data;
    unsigned int instance, compute_instance;
};

struct nvml {
    void *library;
    nvml_events events;           /* NULL: the driver has none */
    int xids[INVENTORY_GPUS_MAX]; /* by index of the GPU */

    /* Entry points; all return 0 for success. Those after `memory` may be NULL. */
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned int *ret);
    int (*handle)(unsigned int index, nvml_device *ret);
    int (*name)(nvml_device device, char *ret, unsigned int size);
    int (*uuid)(nvml_device device, char *ret, unsigned int size);
    int (*memory)(nvml_device device, struct nvml_memory *ret);
    int (*minor)(nvml_device device, unsigned int *ret);
    int (*mig_mode)(nvml_device device, unsigned int *ret_now, unsigned int *ret_next);
    int (*mig_count)(nvml_device device, unsigned int *ret);
    int (*mig_handle)(nvml_device device, unsigned int index, nvml_device *ret);
    int (*compute_mode)(nvml_device device, unsigned int *ret);
    int (*persistence)(nvml_device device, unsigned int *ret);
    int (*link_state)(nvml_device device, unsigned int link, unsigned int *ret);
    int (*use)(nvml_device device, struct nvml_use *ret);
    int (*temperature)(nvml_device device, unsigned int sensor, unsigned int *ret);
    int (*power)(nvml_device device, unsigned int *ret_milliwatts);
    int (*ecc)(nvml_device device, unsigned int kind, unsigned int since, unsigned long long *ret);
    int (*slow)(nvml_device device, unsigned long long *ret);
    int (*events_new)(nvml_events *ret);
    int (*events_free)(nvml_events events);
    int (*events_register)(nvml_device device, unsigned long long types, nvml_events events);
    int (*events_wait)(nvml_events events, struct nvml_event *ret, unsigned int milliseconds);
};

static const struct {
    size_t slot;
    const char *name;
    bool needed;
} entry_points[] = {
#define NEEDED(slot, name)                                                                         \
    {                                                                                              \
        offsetof(struct nvml, slot), name, true                                                    \
    }
#define MAY_LACK(slot, name)                                                                       \
    {                                                                                              \
        offsetof(struct nvml, slot), name, false                                                   \
    }
    NEEDED(init, "nvmlInit_v2"),
    NEEDED(shutdown, "nvmlShutdown"),
    NEEDED(count, "nvmlDeviceGetCount_v2"),
    NEEDED(handle, "nvmlDeviceGetHandleByIndex_v2"),
    NEEDED(name, "nvmlDeviceGetName"),
    NEEDED(uuid, "nvmlDeviceGetUUID"),
    NEEDED(memory, "nvmlDeviceGetMemoryInfo"),
    MAY_LACK(minor, "nvmlDeviceGetMinorNumber"),
    MAY_LACK(mig_mode, "nvmlDeviceGetMigMode"),
    MAY_LACK(mig_count, "nvmlDeviceGetMaxMigDeviceCount"),
    MAY_LACK(mig_handle, "nvmlDeviceGetMigDeviceHandleByIndex"),
    MAY_LACK(compute_mode, "nvmlDeviceGetComputeMode"),
    MAY_LACK(persistence, "nvmlDeviceGetPersistenceMode"),
    MAY_LACK(link_state, "nvmlDeviceGetNvLinkState"),
    MAY_LACK(use, "nvmlDeviceGetUtilizationRates"),
    MAY_LACK(temperature, "nvmlDeviceGetTemperature"),
    MAY_LACK(power, "nvmlDeviceGetPowerUsage"),
    MAY_LACK(ecc, "nvmlDeviceGetTotalEccErrors"),
    MAY_LACK(slow, "nvmlDeviceGetCurrentClocksThrottleReasons"),
    MAY_LACK(events_new, "nvmlEventSetCreate"),
    MAY_LACK(events_free, "nvmlEventSetFree"),
    MAY_LACK(events_register, "nvmlDeviceRegisterEvents"),
    MAY_LACK(events_wait, "nvmlEventSetWait_v2"),
#undef NEEDED
#undef MAY_LACK
};

static const char *const library_names[] = {"libnvidia-ml.so.1", "libnvidia-ml.so", NULL};

static bool load(struct nvml *nvml, char why[NVML_WHY_BYTES])
{
    for (const char *const *name = library_names; *name && !nvml->library; name++)
        nvml->library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
        (void)str_copy(why, NVML_WHY_BYTES, "no NVML library");
        return false;
    }
    for (size_t i = 0; i < sizeof(entry_points) / sizeof(entry_points[0]); i++) {
        void *symbol = dlsym(nvml->library, entry_points[i].name);
        if (!symbol && entry_points[i].needed) {
            (void)str_printf(why, NVML_WHY_BYTES, "this NVML library has no %s",
                             entry_points[i].name);
            return false;
        }
        /* POSIX's way around data and function pointers */
        memcpy((char *)nvml + entry_points[i].slot, &symbol, sizeof(symbol));
    }
    return true;
}

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
    bool loaded = load(nvml, why);
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

static int count_links(const struct nvml *nvml, nvml_device device)
{
    int active = 0;
    unsigned int state;
    if (!nvml->link_state)
        return GPU_UNKNOWN;
    for (unsigned int i = 0; i < LINKS_MAX; i++)
        if (nvml->link_state(device, i, &state) == 0 && state == 1)
            active++;
    return active;
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
    gpu.nvlinks = count_links(nvml, device);
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
