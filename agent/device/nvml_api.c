#include "agent/device/nvml_api.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "common/base/str.h"

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
    MAY_LACK(link_kind, "nvmlDeviceGetNvLinkRemoteDeviceType"),
    MAY_LACK(link_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2"),
    MAY_LACK(pci, "nvmlDeviceGetPciInfo_v3"),
    MAY_LACK(pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration"),
    MAY_LACK(pcie_lanes, "nvmlDeviceGetCurrPcieLinkWidth"),
    MAY_LACK(ancestor, "nvmlDeviceGetTopologyCommonAncestor"),
    MAY_LACK(numa_nodes, "nvmlDeviceGetMemoryAffinity"),
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

bool nvml_load(struct nvml *nvml, char why[NVML_WHY_BYTES])
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
