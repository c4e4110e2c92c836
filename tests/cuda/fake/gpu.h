/* A GPU of the fake runtime as a device of the module: device_free ends the runtime, too, which
 * then has looked whether all was freed. Or this machine's own (real/gpu.c): options count for
 * nothing there, and gpu_hosted is not.
 *
 *     gpu_new       runs the module's kernels, emulated
 *     gpu_hosted    runs the launches' own functions, those of the CPU, as work of its streams: the
 *                   module's memory, streams and copies under any program
 */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/device/device.h"
#include "tests/cuda/fake/fake.h"

/* An sm_90 with the driver that it takes. */
struct fake_options gpu_options(uint64_t seed);

/* With the setting `attention: own`, so that a machine's cuDNN does not matter. */
struct device *gpu_new(const struct fake_options *options);
struct device *gpu_hosted(const struct fake_options *options);

/* Programs for both leave out what only a fake can do, such as work that fails. */
bool gpu_is_real(void);

/* The scratch memory of a queue of it. */
void *gpu_scratch(struct queue *queue);

#endif
