/* The device's graphs: CUDA graphs, captured from a queue's stream. While a stream is captured,
 * errors are kept aside and do not make the device fail (check.c): what cannot be captured is
 * enqueued as before. The device's thread. */
#ifndef CUDA_GRAPHS_H
#define CUDA_GRAPHS_H

#include "libworker/cuda/cuda.h"
#include "libworker/device/replay_ops.h"

extern const struct replay_ops cuda_replays;

#endif
