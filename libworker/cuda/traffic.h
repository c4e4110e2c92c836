/* What an operation's kernels move besides its tensors, and how many they are (device/kernels.h):
 * conversions of factors, values that are read again, what one kernel leaves for the next. Counted
 * from the code, as if no weights were adjacent in memory. Pure.
 */
#ifndef CUDA_TRAFFIC_H
#define CUDA_TRAFFIC_H

#include "libworker/device/kernels.h"
#include "libworker/graph/op_call.h"

/* `traffic` has one kernel, and each tensor once. A tensor without dimensions is missing, or a
 * gradient that is not wanted. */
void traffic_add(const struct op_call *call, bool backward, struct device_traffic *traffic);

#endif
