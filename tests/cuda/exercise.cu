#include "tests/cuda/exercise.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/async.h"
#include "libworker/cuda/kernels/mma.h"
#include "libworker/cuda/kernels/warp.h"

/* Rows of shared memory are 16 elements for ldmatrix: two matrices of 8 x 8 side by side. */
template <class T> static __global__ void multiply(float *d, const T *a, const T *b, const float *c)
{
    GPU_SHARED(T, left, 16 * 16);
    GPU_SHARED(T, right, 16 * 8);
    int lane = (int)threadIdx.x, row = lane / 4, pair = lane % 4 * 2;
    for (int i = lane; i < 16 * 16; i += WARP)
        left[i] = a[i];
    for (int i = lane; i < 16 * 8; i += WARP)
        right[i] = b[i];
    __syncwarp();
    uint32_t x[4], y[4];
    gpu_load_matrices<false>(x, left + (lane % 16) * 16 + lane / 16 * 8);
    gpu_load_matrices<true>(y, right + (lane % 16) * 8);
    float sum[4];
    for (int i = 0; i < 4; i++)
        sum[i] = c[(row + i / 2 * 8) * 8 + pair + i % 2];
    gpu_mma<T>(sum, x, y);
    for (int i = 0; i < 4; i++)
        d[(row + i / 2 * 8) * 8 + pair + i % 2] = sum[i];
}

void exercise_mma(int is_bf16, float *d, const uint16_t *a, const uint16_t *b, const float *c)
{
    if (is_bf16)
        GPU_LAUNCH(multiply<gpu_bf16>, 1, WARP, 0, NULL, d, (const gpu_bf16 *)a,
                   (const gpu_bf16 *)b, c);
    else
        GPU_LAUNCH(multiply<gpu_f16>, 1, WARP, 0, NULL, d, (const gpu_f16 *)a, (const gpu_f16 *)b,
                   c);
}

static __global__ void reduce(double *out, float *largest, const float *x)
{
    GPU_SHARED(double, sums, WARPS_MAX);
    GPU_SHARED(float, most, WARPS_MAX);
    float value = x[blockIdx.x * blockDim.x + threadIdx.x];
    double sum = block_sum((double)value, sums);
    float top = block_reduce<largest_of>(value, -INFINITY, most);
    if (threadIdx.x == 0) {
        out[blockIdx.x] = sum;
        largest[blockIdx.x] = top;
    }
}

void exercise_reduce(double *out, float *largest, const float *x, int blocks, int threads)
{
    GPU_LAUNCH(reduce, blocks, threads, 0, NULL, out, largest, x);
}

static __global__ void indices(uint64_t *at)
{
    uint64_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    uint64_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    uint64_t threads = (uint64_t)blockDim.x * blockDim.y * blockDim.z;
    at[block * threads + thread] = block << 32 | thread;
}

void exercise_index(uint64_t *at, const unsigned grid[3], const unsigned block[3])
{
    GPU_LAUNCH(indices, dim3(grid[0], grid[1], grid[2]), dim3(block[0], block[1], block[2]), 0,
               NULL, at);
}

static __global__ void lanes(int64_t *out)
{
    const unsigned all = 0xffffffffu;
    int lane = (int)threadIdx.x;
    int64_t *own = out + lane * EXERCISE_LANE_VALUES;
    own[0] = __shfl_sync(all, lane * 3, 7);
    own[1] = __shfl_up_sync(all, lane * 3, 2u, 8);
    own[2] = __shfl_down_sync(all, (double)lane, 5u) > 30;
    own[3] = __shfl_xor_sync(all, lane, 9, 16);
    own[4] = __ballot_sync(all, lane % 3 == 0);
    own[5] = lane < 10 ? __any_sync(0x3ffu, lane == 9) : __all_sync(~0x3ffu, lane > 9);
    own[6] = __shfl_sync(all, lane, lane + 1, 4);
    own[7] = __syncthreads_count(lane % 5 == 0);
}

void exercise_lanes(int64_t *out)
{
    GPU_LAUNCH(lanes, 1, WARP, 0, NULL, out);
}

/* Two stages: the next tile is under way while this one is written. */
static __global__ void stages(float *y, const float *x, int count)
{
    enum { TILE = 4 * WARP };
    GPU_SHARED_DYNAMIC(float, tile);
    int at = 4 * (int)threadIdx.x, tiles = (count + TILE - 1) / TILE;
    for (int i = 0; i <= tiles; i++) {
        if (i < tiles)
            gpu_copy_async(tile + i % 2 * TILE + at, i * TILE + at < count ? x + i * TILE + at : x,
                           i * TILE + at < count ? 16 : 0);
        gpu_copy_commit();
        gpu_copy_wait<1>();
        __syncthreads();
        for (int k = (int)threadIdx.x; i && k < TILE && (i - 1) * TILE + k < count; k += WARP)
            y[(i - 1) * TILE + k] = tile[(i - 1) % 2 * TILE + k];
        __syncthreads();
    }
}

void exercise_copies(float *y, const float *x, int count)
{
    GPU_LAUNCH(stages, 1, WARP, 2 * 4 * WARP * sizeof(float), NULL, y, x, count);
}

static __global__ void counts_of(int *counts, const int *values, int count)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count)
        atomicAdd(counts + values[i] % 8, 1);
}

void exercise_counts(int *counts, const int *values, int count)
{
    GPU_LAUNCH(counts_of, (count + 63) / 64, 64, 0, NULL, counts, values, count);
}

static __global__ void store(float *y, float value)
{
    *y = value;
}

void exercise_store(float *y, float value, void *stream)
{
    GPU_LAUNCH(store, 1, 1, 0, (cudaStream_t)stream, y, value);
}
