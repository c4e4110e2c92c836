/* A libnvidia-ml.so.1 with two GPUs, for machines without any. Behaves as NVML's reference says. */
#include <stdio.h>
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

static char devices[2];

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
    *count = 2;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
    *device = &devices[index];
    return index < 2 ? 0 : 2;
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
