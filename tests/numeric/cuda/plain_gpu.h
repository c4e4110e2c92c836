/* A device of the host's memory that has the module's kernels: each launch runs to its end at once,
 * emulated (plain_emulated.c) or on this machine's GPU (cuda/real/plain_real.c). For tests of
 * kernels by their results; the order of queues and memory of its own are tested over the fake
 * runtime. One at a time. */
#ifndef NUMERIC_PLAIN_GPU_H
#define NUMERIC_PLAIN_GPU_H

#include "libworker/device/device.h"

/* A queue on a device of its own. */
struct queue *plain_gpu_open(void);
/* One that has no kernel for launches whose name ends in this. */
struct queue *plain_gpu_without(const char *end);
void plain_gpu_close(struct queue *queue);

/* How a launch runs, of the program's choice. */
struct cuda_launch;
void plain_gpu_run(const struct cuda_launch *launch, const void *args);

#endif
