/* The entry points of NVIDIA's management library, and how they are found. Only for the files of
 * nvml.h. Declarations follow NVML's API reference. */
#ifndef DEVICE_NVML_API_H
#define DEVICE_NVML_API_H

#include "agent/device/nvml.h"

enum { NVML_LINKS_MAX = 18 };

typedef struct nvml_device *nvml_device;
typedef struct nvml_events *nvml_events;

struct nvml_memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

struct nvml_use { /* nvmlUtilization_t, percent */
    unsigned int gpu, memory;
};

struct nvml_pci { /* nvmlPciInfo_t */
    char bus_id_legacy[16];
    unsigned int domain, bus, device;
    unsigned int device_id, subsystem_id;
    char bus_id[32];
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
    int (*link_kind)(nvml_device device, unsigned int link, unsigned int *ret);
    int (*link_pci)(nvml_device device, unsigned int link, struct nvml_pci *ret);
    int (*pci)(nvml_device device, struct nvml_pci *ret);
    int (*pcie_generation)(nvml_device device, unsigned int *ret);
    int (*pcie_lanes)(nvml_device device, unsigned int *ret);
    int (*ancestor)(nvml_device a, nvml_device b, unsigned int *ret);
    int (*numa_nodes)(nvml_device device, unsigned int words, unsigned long *ret,
                      unsigned int scope);
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

/* Open the library and find its entry points. False: `why` has the reason, and `library` is what
 * has to be closed, or NULL. */
bool nvml_load(struct nvml *nvml, char why[NVML_WHY_BYTES]);

#endif
