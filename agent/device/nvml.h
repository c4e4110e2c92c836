/* NVIDIA's management library, opened at run time: the only file that knows it. A machine without
 * the library, the driver or a GPU is normal and gives no GPUs. Declarations after NVML's API
 * reference (stable since its version 1; entry points by their exported names).
 */
#ifndef DEVICE_NVML_H
#define DEVICE_NVML_H

#include "agent/device/inventory.h"

/* Fill up to `max` GPUs in NVML's order (that of CUDA_DEVICE_ORDER=PCI_BUS_ID); their number. `why`
 * (may be NULL) says why there are none. Opens and closes the library. */
enum { NVML_WHY_BYTES = 128 };
int nvml_gpus(struct inventory_gpu *ret, int max, char why[NVML_WHY_BYTES]);

#endif
