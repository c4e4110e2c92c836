/* What every .cu file includes first. Under nvcc these are CUDA's headers; other C++ compilers take
 * the header that the build names in GPU_EMULATION, so that the same kernels run in tests without a
 * GPU. Kernels keep to this:
 *
 *     GPU_LAUNCH(kernel<T>, grid, block, shared_bytes, stream, arguments...)
 *         the one way to launch. A grid is not empty: with nothing to do, launch nothing. An error
 *         stays in cudaGetLastError(), which the queue reads after each operation.
 *     GPU_SHARED(float, name, count)       an array in shared memory, aligned to 16 bytes
 *     GPU_SHARED_DYNAMIC(float, name)      what the launch asked for, aligned to 128 bytes
 *     GPU_UNROLL                           before a loop: unroll it
 *
 * Blocks have whole warps. A mask names exactly the lanes that reach the operation. All threads of
 * a block reach each barrier; none ends before. Sums have a fixed order; no atomics on floats. PTX
 * is only in inline functions with an emulated body (kernels/mma.h, kernels/async.h).
 */
#ifndef CUDA_GPU_H
#define CUDA_GPU_H

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_UNROLL                    _Pragma("unroll")
#define GPU_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define GPU_SHARED_DYNAMIC(type, name)                                                             \
    extern __shared__ __align__(128) unsigned char gpu_shared_dynamic[];                           \
    type *name = reinterpret_cast<type *>(gpu_shared_dynamic)
#define GPU_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                 \
    gpu_launch(kernel, {grid, block, (size_t)(shared_bytes)}, stream, ##__VA_ARGS__)

struct gpu_size {
    dim3 grid, block;
    size_t shared_bytes;
};

template <class T> struct gpu_same {
    typedef T type;
};

/* More than 48 KiB of shared memory must be asked for. */
template <class... P>
void gpu_launch(void (*kernel)(P...), const gpu_size &size, cudaStream_t stream,
                typename gpu_same<P>::type... arguments)
{
    const size_t free_bytes = 48 << 10;
    void *pointers[] = {static_cast<void *>(&arguments)..., nullptr};
    const void *function = reinterpret_cast<const void *>(kernel);
    cudaError_t rc = cudaSuccess;
    if (size.shared_bytes > free_bytes)
        rc = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)size.shared_bytes);
    if (rc == cudaSuccess)
        (void)cudaLaunchKernel(function, size.grid, size.block, pointers, size.shared_bytes,
                               stream);
}

#else
#include GPU_EMULATION
#endif

typedef __nv_bfloat16 gpu_bf16;
typedef __half gpu_f16;

/* Elements of any type as f32, and back to nearest even. */
static __device__ __forceinline__ float gpu_float(float value)
{
    return value;
}
static __device__ __forceinline__ float gpu_float(gpu_bf16 value)
{
    return __bfloat162float(value);
}
static __device__ __forceinline__ float gpu_float(gpu_f16 value)
{
    return __half2float(value);
}

template <class T> __device__ T gpu_from(float value);
template <> __device__ __forceinline__ float gpu_from<float>(float value)
{
    return value;
}
template <> __device__ __forceinline__ gpu_bf16 gpu_from<gpu_bf16>(float value)
{
    return __float2bfloat16_rn(value);
}
template <> __device__ __forceinline__ gpu_f16 gpu_from<gpu_f16>(float value)
{
    return __float2half_rn(value);
}

#endif
