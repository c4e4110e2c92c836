/* What this machine has to give: cores, memory, GPUs, labels. Slots are GPUs, or CPU cores where
 * there is none. Reads /proc, sysfs, cgroup limits and NVML once; the result is plain data.
 */
#ifndef DEVICE_INVENTORY_H
#define DEVICE_INVENTORY_H

#include <stdint.h>

#include "common/base/error.h"

enum { INVENTORY_GPUS_MAX = 16, INVENTORY_LABELS_MAX = 64 };

struct inventory_gpu { /* slot n is the n-th that can be read, whatever its index */
    int index;         /* NVML's and nvidia-smi's */
    char model[64];
    char uuid[48];
    uint64_t memory_bytes;
    int minor; /* n of /dev/nvidia<n>; -1 = not known */
};

struct inventory_label {
    char key[64];
    char value[64];
};

struct inventory {
    uint32_t slots;
    double cpus;
    uint64_t memory_bytes;
    struct inventory_gpu gpus[INVENTORY_GPUS_MAX];
    int gpus_count;
    uint32_t
        gpu_major; /* of their nodes; 0 = there are none, or not all of their minors are known */
    struct inventory_label labels[INVENTORY_LABELS_MAX]; /* ascending by key */
    int labels_count;
    char unenforced[512]; /* limits of workers that cannot be enforced here, and why; "" = none */
};

/* All of it, labels hostname, os, arch, gpu.model included. GPUs are those NVML shows; no library
 * or no driver means none. */
int inventory_read(struct inventory *ret, struct error *err);

/* UUIDs of the GPUs by slot, borrowed from `inventory`. */
void inventory_uuids(const struct inventory *inventory, const char *ret[INVENTORY_GPUS_MAX]);

/* Set or replace a label. E_INVALID_ARGUMENT if key or value is too long or empty,
 * E_RESOURCE_EXHAUSTED when the table is full. */
int inventory_label(struct inventory *inventory, const char *key, const char *value,
                    struct error *err);

/* Of a label, borrowed from `inventory`; NULL = it has none. */
const char *inventory_label_value(const struct inventory *inventory, const char *key);

#endif
