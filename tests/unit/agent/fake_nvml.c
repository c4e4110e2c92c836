/* A libnvidia-ml.so.1 for machines without GPUs. Behaves as NVML's reference says. It has two, or
 * FAKE_NVML_GPUS; the one with the index FAKE_NVML_LOST has fallen off the bus. Minor numbers go
 * the other way round than indexes, as on some boards; with FAKE_NVML_NO_MINOR they cannot be had.
 * Programs are prohibited on the one with the index FAKE_NVML_PROHIBITED. The one with the index
 * FAKE_NVML_DIVIDED has two instances, the second and the fourth that it can have. FAKE_NVML_BOARD
 * is a part of every UUID, so that two agents have different GPUs.
 *
 * Each GPU has four NVLinks to NVSwitches, or as many as its last reading "nvlinks" says.
 * FAKE_NVML_NVLINKS has links between pairs instead, such as "0-1:2 2-3:2"; "" is none. Two GPUs
 * are below each PCIe bridge, and FAKE_NVML_SOCKET_GPUS at each socket; else there is one socket.
 *
 * FAKE_NVML_READINGS names a file of what changes: lines "INDEX NAME NUMBER", of which the last one
 * counts, with the names used, memory (MiB), celsius, watts, ecc, slow (NVML's bits), lost, gone,
 * down and xid. Each xid is told once. One that is gone has a handle, and other calls say that it
 * is lost. "down" are the bits of its NVLinks that are.
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

struct pci {
    char legacy[16];
    unsigned int domain, bus, device, id, subsystem;
    char text[32];
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
EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned int link, unsigned int *kind);
EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned int link, struct pci *pci);
EXPORT int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci);
EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned int *generation);
EXPORT int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned int *lanes);
EXPORT int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, unsigned int *level);
EXPORT int nvmlDeviceGetMemoryAffinity(void *device, unsigned int words, unsigned long *nodes,
                                       unsigned int scope);
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
    return reading(device, "gone", 0) ? NVML_ERROR_GPU_IS_LOST : 0;
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

/* The GPU at the other end of a link, SWITCH or NOTHING. */
enum { NOTHING = -1, SWITCH = -2, LINKS_MAX = 6 };

static int other_end(const void *device, unsigned int link)
{
    const char *pairs = getenv("FAKE_NVML_NVLINKS");
    unsigned int a, b, links, before = 0, self = index_of(device);
    if (!pairs)
        return link < reading(device, "nvlinks", 4) ? SWITCH : NOTHING;
    for (int length = 0; sscanf(pairs, " %u-%u:%u%n", &a, &b, &links, &length) == 3;
         pairs += length) {
        if (a != self && b != self)
            continue;
        if (link < before + links)
            return (int)(a == self ? b : a);
        before += links;
    }
    return NOTHING;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned int link, unsigned int *active)
{
    *active = other_end(device, link) != NOTHING && !(reading(device, "down", 0) >> link & 1);
    if (reading(device, "gone", 0))
        return NVML_ERROR_GPU_IS_LOST;
    return link < LINKS_MAX ? 0 : NVML_ERROR_INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned int link, unsigned int *kind)
{
    *kind = other_end(device, link) == SWITCH ? 2 : 0;
    return getenv("FAKE_NVML_NO_KINDS") ? NVML_ERROR_NOT_SUPPORTED : 0;
}

static void fill_pci(int index, struct pci *pci)
{
    *pci = (struct pci){.bus = 0x10 + (unsigned int)index};
    snprintf(pci->text, sizeof(pci->text), "00000000:%02X:00.0", pci->bus);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned int link, struct pci *pci)
{
    int end = other_end(device, link);
    fill_pci(end >= 0 ? end : 0x80, pci);
    return end == NOTHING ? NVML_ERROR_NOT_SUPPORTED : 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci)
{
    fill_pci((int)index_of(device), pci);
    return 0;
}

int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned int *generation)
{
    (void)device;
    *generation = 5;
    return 0;
}

int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned int *lanes)
{
    *lanes = index_of(device) == 1 ? 8 : 16;
    return 0;
}

static unsigned int socket_of(const void *device)
{
    return index_of(device) / number("FAKE_NVML_SOCKET_GPUS", GPUS_MAX);
}

int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, unsigned int *level)
{
    if (instance_of(a) || instance_of(b))
        return NVML_ERROR_INVALID_ARGUMENT;
    *level = socket_of(a) != socket_of(b) ? 50 : index_of(a) / 2 == index_of(b) / 2 ? 10 : 40;
    return 0;
}

int nvmlDeviceGetMemoryAffinity(void *device, unsigned int words, unsigned long *nodes,
                                unsigned int scope)
{
    if (words < 1 || scope != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    *nodes = 1ul << socket_of(device);
    return 0;
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
