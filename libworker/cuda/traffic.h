/* What an operation's kernels move besides its tensors, and how many they are (device/kernels.h):
 * conversions of factors, values that are read again, what one kernel leaves for the next. Counted
 * from the code, as if no weights were adjacent in memory.
 */
#ifndef CUDA_TRAFFIC_H
#define CUDA_TRAFFIC_H

#include "libworker/cuda/cuda.h"
#include "libworker/device/kernels.h"
#include "libworker/graph/launches.h"

/* `traffic` has one kernel, and each tensor once. A tensor without dimensions is missing, or a
 * gradient that is not wanted. Attention is by the kernels that the device chooses. */
void traffic_add(struct cuda_device *device, const struct op_args *args,
                 struct device_traffic *traffic);

#endif
