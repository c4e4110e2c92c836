/* What the launches of an update move (optim/launches.h): the `traffic` of their lines (launch.h).
 * Counted from the kernels' code. */
#ifndef CUDA_UPDATE_TRAFFIC_H
#define CUDA_UPDATE_TRAFFIC_H

#include "libworker/device/kernels.h"

void traffic_squares(const void *clip_args, struct device_traffic *t);
void traffic_segment(const void *update_args, struct device_traffic *t);
void traffic_segments(const void *together_args, struct device_traffic *t);
void traffic_adafactor(const void *update_args, struct device_traffic *t);
void traffic_muon(const void *update_args, struct device_traffic *t);

#endif
