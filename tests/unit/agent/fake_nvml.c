/* A libnvidia-ml.so.1 for machines without GPUs. Behaves as NVML's reference says. It has two, or
 * FAKE_NVML_GPUS; the one with the index FAKE_NVML_LOST has fallen off the bus. Minor numbers go
 * the other way round than indexes, as on some boards; with FAKE_NVML_NO_MINOR they cannot be had.
 * Programs are prohibited on the one with the index FAKE_NVML_PROHIBITED. The one with the index
 * FAKE_NVML_DIVIDED has two instances, the second and the fourth that it can have. FAKE_NVML_BOARD
 * is a part of every UUID, so that two agents have different GPUs.
 *
 * FAKE_NVML_READINGS names a file of what changes: lines "INDEX NAME NUMBER", of which the last one
 * counts, with the names used, memory (MiB), celsius, watts, ecc, slow (NVML's bits), lost and xid.
 * Each xid is told once.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct memory {
    unsigned long long total, free, used;
};

struct use {
    unsigned int gpu, memory;
};

struct event {
    void *device;
    unsigned long long type, data;
    unsigned int instance, compute_instance;
};

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetCount_v2(unsigned int *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device);
EXPORT int nvmlDeviceGetName(void *device, char *name, unsigned int size);
EXPORT int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int size);
EXPORT int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory);
EXPORT int nvmlDeviceGetMinorNumber(void *device, unsigned int *minor);
EXPORT int nvmlDeviceGetMigMode(void *device, unsigned int *now, unsigned int *next);
EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned int *count);
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned int index, void **instance);
EXPORT int nvmlDeviceGetComputeMode(void *device, unsigned int *mode);
EXPORT int nvmlDeviceGetPersistenceMode(void *device, unsigned int *mode);
EXPORT int nvmlDeviceGetNvLinkState(void *device, unsigned int link, unsigned int *active);
EXPORT int nvmlDeviceGetUtilizationRates(void *device, struct use *use);
EXPORT int nvmlDeviceGetTemperature(void *device, unsigned int sensor, unsigned int *celsius);
EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts);
EXPORT int nvmlDeviceGetTotalEccErrors(void *device, unsigned int kind, unsigned int since,
                                       unsigned long long *count);
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits);
EXPORT int nvmlEventSetCreate(void **set);
EXPORT int nvmlEventSetFree(void *set);
EXPORT int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set);
EXPORT int nvmlEventSetWait_v2(void *set, struct event *event, unsigned int milliseconds);

enum {
    GPUS_MAX = 8,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_GPU_IS_LOST = 15,
};
/* A handle is an address: of a GPU in the first row, of its instances behind it. */
enum { INSTANCES_MAX = 7 };
static char devices[GPUS_MAX][1 + INSTANCES_MAX];
static unsigned long long told[GPUS_MAX]; /* xids */

static unsigned int index_of(const void *device)
{
    return (unsigned int)(((const char *)device - devices[0]) / (1 + INSTANCES_MAX));
}

static unsigned int instance_of(const void *device) /* 0: it is whole */
{
    return (unsigned int)(((const char *)device - devices[0]) % (1 + INSTANCES_MAX));
}

static unsigned int number(const char *name, unsigned int otherwise)
{
    const char *text = getenv(name);
    return text ? (unsigned int)strtoul(text, NULL, 10) : otherwise;
}

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
    *count = number("FAKE_NVML_GPUS", 2);
    return 0;
}

static unsigned long long reading(const void *device, const char *name,
                                  unsigned long long otherwise)
{
    const char *path = getenv("FAKE_NVML_READINGS");
    FILE *file = path ? fopen(path, "re") : NULL;
    unsigned long long value, found = otherwise;
    unsigned int index;
    char word[16];
    while (file && fscanf(file, "%u %15s %llu", &index, word, &value) == 3)
        found = index == index_of(device) && strcmp(word, name) == 0 ? value : found;
    if (file)
        fclose(file);
    return found;
}

static int tell(const void *device, const char *name, unsigned int *ret)
{
    *ret = (unsigned int)reading(device, name, 0);
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
    if (index >= GPUS_MAX || index >= number("FAKE_NVML_GPUS", 2))
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = devices[index];
    bool lost = index == number("FAKE_NVML_LOST", GPUS_MAX) || reading(*device, "lost", 0);
    return lost ? NVML_ERROR_GPU_IS_LOST : 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned int size)
{
    snprintf(name, size, "NVIDIA H200%s", instance_of(device) ? " MIG 1g.18gb" : "");
    return 0;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int size)
{
    const char *board = getenv("FAKE_NVML_BOARD");
    board = board ? board : "";
    if (instance_of(device))
        snprintf(uuid, size, "MIG-%s%u-%u", board, index_of(device), instance_of(device) - 1);
    else
        snprintf(uuid, size, "GPU-%s%u", board, index_of(device));
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory)
{
    *memory = (struct memory){.total = (instance_of(device) ? 18ull : 150ull) << 30};
    memory->used = reading(device, "memory", 0) << 20;
    return 0;
}

int nvmlDeviceGetMinorNumber(void *device, unsigned int *minor)
{
    *minor = number("FAKE_NVML_GPUS", 2) - 1 - index_of(device);
    return getenv("FAKE_NVML_NO_MINOR") ? NVML_ERROR_NOT_SUPPORTED : 0;
}

int nvmlDeviceGetMigMode(void *device, unsigned int *now, unsigned int *next)
{
    *now = *next = index_of(device) == number("FAKE_NVML_DIVIDED", GPUS_MAX);
    return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned int *count)
{
    (void)device;
    *count = INSTANCES_MAX;
    return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned int index, void **instance)
{
    if (index != 1 && index != 3)
        return NVML_ERROR_NOT_FOUND;
    *instance = (char *)device + 1 + index;
    return 0;
}

int nvmlDeviceGetComputeMode(void *device, unsigned int *mode)
{
    *mode = index_of(device) == number("FAKE_NVML_PROHIBITED", GPUS_MAX) ? 2 : 0;
    return 0;
}

int nvmlDeviceGetPersistenceMode(void *device, unsigned int *mode)
{
    (void)device;
    *mode = 1;
    return 0;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned int link, unsigned int *active)
{
    (void)device;
    *active = link < 4;
    return link < 6 ? 0 : NVML_ERROR_INVALID_ARGUMENT;
}

/* Not of instances. */
int nvmlDeviceGetUtilizationRates(void *device, struct use *use)
{
    *use = (struct use){.gpu = (unsigned int)reading(device, "used", 0)};
    return instance_of(device) ? NVML_ERROR_NOT_SUPPORTED : 0;
}

int nvmlDeviceGetTemperature(void *device, unsigned int sensor, unsigned int *celsius)
{
    return sensor ? NVML_ERROR_INVALID_ARGUMENT : tell(device, "celsius", celsius);
}

int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts)
{
    int rc = tell(device, "watts", milliwatts);
    *milliwatts *= 1000;
    return rc;
}

int nvmlDeviceGetTotalEccErrors(void *device, unsigned int kind, unsigned int since,
                                unsigned long long *count)
{
    *count = kind == 1 && since == 0 ? reading(device, "ecc", 0) : 1000000;
    return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits)
{
    *bits = reading(device, "slow", 0);
    return 0;
}

int nvmlEventSetCreate(void **set)
{
    *set = devices;
    return 0;
}

int nvmlEventSetFree(void *set)
{
    return set == devices ? 0 : NVML_ERROR_INVALID_ARGUMENT;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
    (void)device;
    return types == 8 && set == devices ? 0 : NVML_ERROR_INVALID_ARGUMENT;
}

int nvmlEventSetWait_v2(void *set, struct event *event, unsigned int milliseconds)
{
    (void)set;
    (void)milliseconds;
    for (int i = 0; i < GPUS_MAX; i++) {
        unsigned long long xid = reading(devices[i], "xid", 0);
        if (xid == told[i])
            continue;
        told[i] = xid;
        *event = (struct event){.device = devices[i], .type = 8, .data = xid};
        return 0;
    }
    return NVML_ERROR_TIMEOUT;
}
