/* This machine's resources: cores, memory, GPUs, labels. Slots are GPUs, or CPU cores on a machine
 * without GPUs. Reads /proc, sysfs, cgroup limits and NVML once; the result is plain data. */
#ifndef DEVICE_INVENTORY_H
#define DEVICE_INVENTORY_H

#include <stdint.h>

#include "agent/device/gpu.h"
#include "common/base/error.h"
#include "common/base/name.h"

enum { INVENTORY_LABELS_MAX = 64 };

struct inventory_label {
    char key[LABEL_MAX + 1];
    char value[LABEL_MAX + 1];
};

struct inventory {
    uint32_t slots;
    double cpus;
    uint64_t memory_bytes;
    struct inventory_gpu gpus[INVENTORY_GPUS_MAX];
    int gpus_count;
    uint32_t gpu_major; /* of their device files; 0 = there are none, or some minors are unknown */
    struct inventory_label labels[INVENTORY_LABELS_MAX]; /* ascending by key */
    int labels_count;
    char unenforced[512]; /* worker limits that cannot be enforced here, and why; "" = none */
};

/* Read everything, also the labels hostname, os, arch, gpu.model. GPUs are those that NVML shows;
 * without library or driver there are none. */
int inventory_read(struct inventory *ret, struct error *err);

/* UUIDs of the GPUs by slot, borrowed from `inventory`. */
void inventory_uuids(const struct inventory *inventory, const char *ret[INVENTORY_GPUS_MAX]);

/* Set or replace a label. E_INVALID_ARGUMENT if key or value is too long or empty,
 * E_RESOURCE_EXHAUSTED when the table is full. */
int inventory_label(struct inventory *inventory, const char *key, const char *value,
                    struct error *err);

/* Of a label, borrowed from `inventory`; NULL = no such label. */
const char *inventory_label_value(const struct inventory *inventory, const char *key);

#endif
