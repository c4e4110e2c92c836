/* The kernels of attention.h for one engine; attention_bf16.cu and its siblings are their uses. */
#ifndef CUDA_KERNELS_ATTENTION_KERNELS_H
#define CUDA_KERNELS_ATTENTION_KERNELS_H

#include "libworker/cuda/kernels/attention_backward.h"
#include "libworker/cuda/kernels/attention_forward.h"
#include "libworker/cuda/kernels/attention_launch.h"

template <class E, int D>
static void launch_sized(const struct attention_call *a, enum attention_kernel kernel,
                         int64_t samples, cudaStream_t stream)
{
    enum { OWN = attention_sizes<E, D>::OWN, THREADS = attention_sizes<E, D>::THREADS };
    bool keys = kernel == ATTENTION_KEYS;
    int64_t tiles = ((keys ? a->keys : a->length) + OWN - 1) / OWN;
    int64_t parts = keys ? attention_sizes<E, D>::KEY_PARTS : attention_sizes<E, D>::ROW_PARTS;
    int64_t blocks = samples * tiles * parts * (keys ? a->kv_heads : a->heads);
    switch (kernel) {
    case ATTENTION_FORWARD:
        GPU_LAUNCH((forward_kernel<E, D>), dim3((unsigned)blocks), dim3(THREADS), 0, stream, *a);
        break;
    case ATTENTION_KEYS:
        GPU_LAUNCH((keys_kernel<E, D>), dim3((unsigned)blocks), dim3(THREADS), 0, stream, *a);
        break;
    case ATTENTION_QUERIES:
        GPU_LAUNCH((queries_kernel<E, D>), dim3((unsigned)blocks), dim3(THREADS), 0, stream, *a);
        break;
    }
}

template <class E>
static void launch_engine(const struct attention_call *a, enum attention_kernel kernel,
                          int64_t samples, cudaStream_t stream)
{
    if (a->size <= 64)
        launch_sized<E, 64>(a, kernel, samples, stream);
    else if (a->size <= 128)
        launch_sized<E, 128>(a, kernel, samples, stream);
    else
        launch_sized<E, 256>(a, kernel, samples, stream);
}

#endif
