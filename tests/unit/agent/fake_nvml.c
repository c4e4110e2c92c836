/* A libnvidia-ml.so.1 for machines without GPUs. Behaves as NVML's reference says. It has two, or
 * FAKE_NVML_GPUS; the one with the index FAKE_NVML_LOST has fallen off the bus. Minor numbers go
 * the other way round than indexes, as on some boards; with FAKE_NVML_NO_MINOR they cannot be had.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct memory {
    unsigned long long total, free, used;
};

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetCount_v2(unsigned int *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device);
EXPORT int nvmlDeviceGetName(void *device, char *name, unsigned int size);
EXPORT int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int size);
EXPORT int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory);
EXPORT int nvmlDeviceGetMinorNumber(void *device, unsigned int *minor);

enum {
    GPUS_MAX = 8,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_GPU_IS_LOST = 15,
};
static char devices[GPUS_MAX];

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

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
    if (index >= GPUS_MAX || index >= number("FAKE_NVML_GPUS", 2))
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = &devices[index];
    return index == number("FAKE_NVML_LOST", GPUS_MAX) ? NVML_ERROR_GPU_IS_LOST : 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned int size)
{
    (void)device;
    snprintf(name, size, "NVIDIA H200");
    return 0;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int size)
{
    snprintf(uuid, size, "GPU-%d", (int)((char *)device - devices));
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory)
{
    (void)device;
    *memory = (struct memory){.total = 150ull << 30};
    return 0;
}

int nvmlDeviceGetMinorNumber(void *device, unsigned int *minor)
{
    unsigned int index = (unsigned int)((char *)device - devices);
    *minor = number("FAKE_NVML_GPUS", 2) - 1 - index;
    return getenv("FAKE_NVML_NO_MINOR") ? NVML_ERROR_NOT_SUPPORTED : 0;
}
