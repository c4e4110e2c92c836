/* NVIDIA's management library, opened at run time; only the files of nvml_api.h know it. A machine
 * without the library, the driver or a GPU is normal and has no GPUs. Declarations follow NVML's
 * API reference (stable since its version 1; entry points by their exported names).
 *
 * A call may block for seconds when a GPU hangs. One thread at a time. */
#ifndef DEVICE_NVML_H
#define DEVICE_NVML_H

#include "agent/device/gpu.h"

struct nvml;

/* NULL if there is no driver with GPUs; `why` (may be NULL) gets the reason. Critical errors (Xid)
 * are recorded from then on. */
enum { NVML_WHY_BYTES = 128 };
struct nvml *nvml_open(char why[NVML_WHY_BYTES]);
void nvml_close(struct nvml *nvml); /* NULL is fine */

/* Fill up to `max` GPUs that programs can use, in NVML's order (that of
 * CUDA_DEVICE_ORDER=PCI_BUS_ID), the instances of a divided one in its place; returns their number.
 * Those that cannot be read, or that programs may not use by their compute mode, are left out. */
int nvml_gpus(struct nvml *nvml, struct inventory_gpu *ret, int max);

/* How each of these is connected with the others. What cannot be read is GPU_LINK_UNKNOWN. */
void nvml_links(struct nvml *nvml, struct inventory_gpu *gpus, int count);

/* Read them again. What belongs to a GPU that is lost (`lost`, by place) or cannot be read stays as
 * it was. True if any are other ones now. */
bool nvml_links_again(struct nvml *nvml, struct inventory_gpu *gpus, int count, const bool *lost);

/* How it is now. False if it cannot be read: it fell off the bus, or hangs. */
bool nvml_read(struct nvml *nvml, const struct inventory_gpu *gpu, struct gpu_reading *ret);

#endif
