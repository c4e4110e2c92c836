/* One GPU of this machine, as NVML shows it. Plain data. */
#ifndef DEVICE_GPU_H
#define DEVICE_GPU_H

#include <stdint.h>

enum { INVENTORY_GPUS_MAX = 16 };

struct inventory_gpu { /* slot n is the n-th readable GPU, whatever its index */
    int index;         /* of NVML and nvidia-smi */
    char model[64];
    char uuid[48];
    uint64_t memory_bytes;
    int minor; /* n of /dev/nvidia<n>; -1 = unknown */
};

#endif
