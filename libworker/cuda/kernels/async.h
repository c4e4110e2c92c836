/* Copies from global into shared memory beside computation (cp.async, PTX ISA 9.7.9.25). A thread
 * sees its own copies when it has waited for them, the others' after a barrier from then on:
 *
 *     gpu_copy_async(to, from);  gpu_copy_commit();          one group
 *     gpu_copy_wait<1>();                                    at most one group is under way
 *     __syncthreads();
 */
#ifndef KERNELS_ASYNC_H
#define KERNELS_ASYNC_H

#include "libworker/cuda/gpu.h"

/* 16 bytes, both sides aligned to 16. Of the source the first `bytes` are read (0: none), the rest
 * becomes 0. */
static __device__ __forceinline__ void gpu_copy_async(void *to, const void *from, int bytes = 16)
{
#ifdef __CUDA_ARCH__
    unsigned shared = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
                 "r"(bytes)
                 : "memory");
#elif !defined(__CUDACC__)
    struct emulated_copy copy = {to, from, (unsigned)bytes, 16};
    emulated_copy_add(&copy);
#endif
}

static __device__ __forceinline__ void gpu_copy_commit()
{
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.commit_group;" ::: "memory");
#elif !defined(__CUDACC__)
    emulated_copy_commit();
#endif
}

template <int GROUPS> static __device__ __forceinline__ void gpu_copy_wait()
{
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
#elif !defined(__CUDACC__)
    emulated_copy_wait(GROUPS);
#endif
}

#endif
