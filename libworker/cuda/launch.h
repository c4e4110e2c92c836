/* What a step enqueues besides operations, on a GPU: kernels of the launches that graph/launches.h,
 * optim/launches.h and parallel/launches.h name. `args` are those that stand there. The functions
 * run on the host, never wait and read no memory of the device. Their lines in launch_list.h make
 * them part of the module. One thread.
 */
#ifndef CUDA_LAUNCH_H
#define CUDA_LAUNCH_H

#include "libworker/cuda/cuda.h"
#include "libworker/device/kernels.h"

struct cuda_launch {
    const char *name;
    void (*run)(const void *args, struct cuda_queue *queue);
    int kernels; /* that it enqueues, for estimates; 0: one */
    /* For estimates: change `traffic`, which has `kernels`, and each range of the launch once.
     * NULL: it is that. */
    void (*traffic)(const void *args, struct device_traffic *traffic);
};

#endif
