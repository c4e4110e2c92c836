/* One GPU of this machine, or one instance of a GPU that is divided (MIG), as NVML shows it: what
 * it is, and how it is at a moment. Plain data. */
#ifndef DEVICE_GPU_H
#define DEVICE_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/gpu_link.h"

/* 8 GPUs of 7 instances each fit. */
enum { INVENTORY_GPUS_MAX = GPU_LINKS_MAX, GPU_WHOLE = -1, GPU_UNKNOWN = -1 };

struct inventory_gpu { /* slot n is the n-th usable GPU, whatever its index */
    int index;         /* of NVML and nvidia-smi */
    int instance;      /* of MIG, counted from 0; GPU_WHOLE: not divided */
    char model[64];    /* of an instance with its profile: "NVIDIA H200 MIG 1g.18gb" */
    char uuid[48];     /* for CUDA_VISIBLE_DEVICES; of an instance "MIG-…" */
    uint64_t memory_bytes;
    int minor;     /* n of /dev/nvidia<n>, of an instance its GPU's; -1 = unknown */
    int nvlinks;   /* active ones; GPU_UNKNOWN */
    bool nvswitch; /* some of them lead to NVSwitches */
    int pcie_generation, pcie_lanes; /* the fastest it can use here, and the lanes in use; 0 */
    int numa_node;                   /* of the memory near it; GPU_UNKNOWN */
    uint8_t links[GPU_LINKS_MAX];    /* enum gpu_link, to each of the list (nvml_gpus) */
    bool persistent;                 /* its driver stays loaded without programs */
    bool exclusive;                  /* compute mode: one process at a time */
};

/* What slows a GPU's clock down, if anything does. */
enum gpu_slowed {
    GPU_SLOWED_POWER = 1, /* its power limit, or the supply's brake */
    GPU_SLOWED_HEAT = 2,
};

struct gpu_reading {  /* numbers that NVML does not have are GPU_UNKNOWN */
    int used_percent; /* of time with a kernel running, over NVML's last period (under 1 s) */
    int64_t memory_used_bytes;
    int temperature_c, power_w; /* an instance has its GPU's */
    int64_t ecc_errors;         /* uncorrected ones since the driver was loaded */
    int xid;         /* the driver's number of the last critical error since nvml_open; 0 */
    unsigned slowed; /* of enum gpu_slowed */
};

#endif
