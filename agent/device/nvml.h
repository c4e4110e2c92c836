/* NVIDIA's management library, opened at run time; only this file knows it. A machine without the
 * library, the driver or a GPU is normal and has no GPUs. Declarations follow NVML's API reference
 * (stable since its version 1; entry points by their exported names). */
#ifndef DEVICE_NVML_H
#define DEVICE_NVML_H

#include "agent/device/gpu.h"

/* Fill up to `max` GPUs in NVML's order (that of CUDA_DEVICE_ORDER=PCI_BUS_ID); returns their
 * number. `why` (may be NULL) gets the reason if there are none. Opens and closes the library. */
enum { NVML_WHY_BYTES = 128 };
int nvml_gpus(struct inventory_gpu *ret, int max, char why[NVML_WHY_BYTES]);

#endif
