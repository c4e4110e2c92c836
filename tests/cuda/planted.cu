#include "tests/cuda/planted.h"

#include <stdlib.h>

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/async.h"
#include "libworker/cuda/kernels/warp.h"

enum { THREADS = 64, BLOCKS = 3, COUNT = THREADS * BLOCKS };

/* Arrays of the caller's, on the heap so that AddressSanitizer knows their ends. */
struct arrays {
    float *x, *y;
    arrays() : x((float *)malloc(COUNT * sizeof(float))), y((float *)malloc(COUNT * sizeof(float)))
    {
        for (int i = 0; i < COUNT; i++) {
            x[i] = (float)(i % 7 + i % THREADS);
            y[i] = -1;
        }
    }
    ~arrays()
    {
        free(x);
        free(y);
    }
    /* y has each block's x, moved by `by` within the block. */
    int moved(int by) const
    {
        for (int i = 0; i < COUNT; i++) {
            int from = i / THREADS * THREADS + (i + by) % THREADS;
            if (y[i] != x[from])
                return 1;
        }
        return 0;
    }
};

static __device__ int place()
{
    return (int)(blockIdx.x * blockDim.x + threadIdx.x);
}

static __global__ void missing_barrier(float *y, const float *x, int wrong)
{
    GPU_SHARED(float, tile, THREADS);
    int t = (int)threadIdx.x;
    tile[t] = x[place()];
    if (!wrong)
        __syncthreads();
    y[place()] = tile[(t + 40) % THREADS];
}

int planted_missing_barrier(int wrong)
{
    arrays a;
    GPU_LAUNCH(missing_barrier, BLOCKS, THREADS, 0, NULL, a.y, a.x, wrong);
    return a.moved(40);
}

/* Shared memory is written again while others still read it. */
static __global__ void missing_second_barrier(float *y, const float *x, int wrong)
{
    GPU_SHARED(float, tile, THREADS);
    int t = (int)threadIdx.x;
    float sum = 0;
    for (int round = 0; round < 2; round++) {
        tile[t] = x[place()] + (float)round;
        __syncthreads();
        sum += tile[(t + 40) % THREADS] - (float)round;
        if (!wrong)
            __syncthreads();
    }
    y[place()] = sum / 2;
}

int planted_missing_second_barrier(int wrong)
{
    arrays a;
    GPU_LAUNCH(missing_second_barrier, BLOCKS, THREADS, 0, NULL, a.y, a.x, wrong);
    return a.moved(40);
}

static __global__ void missing_warp_barrier(float *y, const float *x, int wrong)
{
    GPU_SHARED(float, tile, THREADS);
    int t = (int)threadIdx.x;
    tile[t] = x[place()];
    if (!wrong)
        __syncwarp();
    y[place()] = tile[t ^ 5];
}

int planted_missing_warp_barrier(int wrong)
{
    arrays a;
    GPU_LAUNCH(missing_warp_barrier, BLOCKS, THREADS, 0, NULL, a.y, a.x, wrong);
    for (int i = 0; i < COUNT; i++) {
        if (a.y[i] != a.x[i ^ 5])
            return 1;
    }
    return 0;
}

/* A sum that begins with what is there. */
static __global__ void uninitialised_shared(float *y, const float *x, int wrong)
{
    GPU_SHARED(float, sum, 1);
    if (threadIdx.x == 0 && !wrong)
        sum[0] = 0;
    if (threadIdx.x == 0)
        sum[0] += x[place()];
    __syncthreads();
    y[place()] = sum[0];
}

int planted_uninitialised_shared(int wrong)
{
    arrays a;
    GPU_LAUNCH(uninitialised_shared, BLOCKS, THREADS, 0, NULL, a.y, a.x, wrong);
    return a.y[5] != a.x[0];
}

static __global__ void global_past_the_end(float *y, const float *x, int wrong)
{
    if (place() < COUNT + wrong)
        y[place()] = x[place()];
}

int planted_global_past_the_end(int wrong)
{
    arrays a;
    GPU_LAUNCH(global_past_the_end, BLOCKS + 1, THREADS, 0, NULL, a.y, a.x, wrong);
    return a.moved(0);
}

static __global__ void shared_past_the_end(float *y, const float *x, int wrong)
{
    GPU_SHARED(float, tile, THREADS);
    float *at = tile;
    at[threadIdx.x + (unsigned)wrong] = x[place()];
    __syncthreads();
    y[place()] = at[threadIdx.x + (unsigned)wrong];
}

int planted_shared_past_the_end(int wrong)
{
    arrays a;
    GPU_LAUNCH(shared_past_the_end, BLOCKS, THREADS, 0, NULL, a.y, a.x, wrong);
    return a.moved(0);
}

static __global__ void dynamic_past_the_end(float *y, const float *x)
{
    GPU_SHARED_DYNAMIC(float, tile);
    tile[threadIdx.x] = x[place()];
    __syncthreads();
    y[place()] = tile[threadIdx.x];
}

int planted_dynamic_past_the_end(int wrong)
{
    arrays a;
    size_t bytes = (THREADS - (wrong ? 1 : 0)) * sizeof(float);
    GPU_LAUNCH(dynamic_past_the_end, BLOCKS, THREADS, bytes, NULL, a.y, a.x);
    return a.moved(0);
}

static __global__ void diverging_barrier(float *y, const float *x, int wrong)
{
    y[place()] = x[place()];
    if (!wrong || threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}

int planted_diverging_barrier(int wrong)
{
    arrays a;
    GPU_LAUNCH(diverging_barrier, BLOCKS, THREADS, 0, NULL, a.y, a.x, wrong);
    return a.moved(0);
}

static __global__ void early_end(float *y, const float *x, int wrong)
{
    y[place()] = x[place()];
    if (wrong && threadIdx.x > 40)
        return;
    __syncthreads();
}

int planted_early_end(int wrong)
{
    arrays a;
    GPU_LAUNCH(early_end, BLOCKS, THREADS, 0, NULL, a.y, a.x, wrong);
    return a.moved(0);
}

/* Only half of the warp comes to what names all of it. */
static __global__ void wrong_mask(float *y, const float *x, int wrong)
{
    float value = x[place()];
    if (threadIdx.x % 32 < 16)
        value = __shfl_sync(wrong ? 0xffffffffu : 0xffffu, value, 3);
    y[place()] = value;
}

int planted_wrong_mask(int wrong)
{
    arrays a;
    GPU_LAUNCH(wrong_mask, BLOCKS, THREADS, 0, NULL, a.y, a.x, wrong);
    return a.y[9] != a.x[3] || a.y[20] != a.x[20];
}

static __global__ void reads_outside_the_mask(float *y, const float *x, int wrong)
{
    float value = x[place()];
    if (threadIdx.x % 32 < 16)
        value = __shfl_sync(0xffffu, value, wrong ? 17 : 15);
    y[place()] = value;
}

int planted_reads_outside_the_mask(int wrong)
{
    arrays a;
    GPU_LAUNCH(reads_outside_the_mask, BLOCKS, THREADS, 0, NULL, a.y, a.x, wrong);
    return a.y[9] != a.x[15];
}

static __global__ void half_a_warp(float *y, const float *x)
{
    y[place()] = warp_sum(x[place()]);
}

int planted_half_a_warp(int wrong)
{
    arrays a;
    float sum = 0;
    for (int i = 0; i < 32; i++)
        sum += a.x[i];
    GPU_LAUNCH(half_a_warp, 1, wrong ? 48 : 64, 0, NULL, a.y, a.x);
    return a.y[9] != sum;
}

/* Lanes of one mask at different operations. */
static __global__ void two_operations(float *y, const float *x, int wrong)
{
    float value = x[place()];
    if (threadIdx.x % 2 || !wrong)
        value = __shfl_sync(0xffffffffu, value, 0);
    else
        value = (float)__any_sync(0xffffffffu, value > 0);
    y[place()] = value;
}

int planted_two_operations(int wrong)
{
    arrays a;
    GPU_LAUNCH(two_operations, BLOCKS, THREADS, 0, NULL, a.y, a.x, wrong);
    return a.y[9] != a.x[0];
}

/* Three lanes wait for each other in a ring. */
static __global__ void deadlock(float *y, const float *x, int wrong)
{
    const unsigned masks[] = {0x3, 0x6, 0x5};
    int lane = (int)threadIdx.x % 32;
    y[place()] = x[place()];
    if (lane < 3)
        __syncwarp(wrong ? masks[lane] : 0x7u);
}

int planted_deadlock(int wrong)
{
    arrays a;
    GPU_LAUNCH(deadlock, BLOCKS, THREADS, 0, NULL, a.y, a.x, wrong);
    return a.moved(0);
}

/* Each thread copies 16 bytes and reads what its neighbour copied. */
enum copy_mistake { COPY_RIGHT, COPY_NO_WAIT, COPY_NO_BARRIER, COPY_FORGOTTEN };

static __global__ void copies(float *y, const float *x, int mistake)
{
    GPU_SHARED(float, tile, THREADS);
    int t = (int)threadIdx.x;
    if (t < THREADS / 4) {
        gpu_copy_async(tile + 4 * t, x + place() / THREADS * THREADS + 4 * t);
        gpu_copy_commit();
    }
    if (mistake == COPY_FORGOTTEN) {
        y[place()] = x[place()];
        return;
    }
    if (mistake != COPY_NO_WAIT)
        gpu_copy_wait<0>();
    if (mistake != COPY_NO_BARRIER)
        __syncthreads();
    y[place()] = tile[(t + 40) % THREADS];
    gpu_copy_wait<0>();
}

static int run_copies(enum copy_mistake mistake, int by)
{
    arrays a;
    GPU_LAUNCH(copies, BLOCKS, THREADS, 0, NULL, a.y, a.x, mistake);
    return a.moved(by);
}

int planted_copy_not_waited_for(int wrong)
{
    return run_copies(wrong ? COPY_NO_WAIT : COPY_RIGHT, 40);
}

int planted_copy_without_barrier(int wrong)
{
    return run_copies(wrong ? COPY_NO_BARRIER : COPY_RIGHT, 40);
}

int planted_copy_forgotten(int wrong)
{
    return run_copies(wrong ? COPY_FORGOTTEN : COPY_RIGHT, wrong ? 0 : 40);
}

static __global__ void misaligned_vector(float *y, const float *x, int wrong)
{
    const float4 *from = reinterpret_cast<const float4 *>(x + wrong);
    float4 value = from[0];
    y[place()] = value.y;
}

int planted_misaligned_vector(int wrong)
{
    arrays a;
    GPU_LAUNCH(misaligned_vector, BLOCKS, THREADS, 0, NULL, a.y, a.x, wrong);
    return a.y[3] != a.x[1];
}

static __global__ void nothing(float *y)
{
    if (threadIdx.x == 0)
        y[0] = 1;
}

int planted_empty_grid(int wrong)
{
    arrays a;
    GPU_LAUNCH(nothing, wrong ? 0 : 1, 1, 0, NULL, a.y);
    return a.y[0] != 1;
}

int planted_large_block(int wrong)
{
    arrays a;
    GPU_LAUNCH(nothing, 1, dim3(32, wrong ? 33 : 1), 0, NULL, a.y);
    return a.y[0] != 1;
}

int planted_much_shared(int wrong)
{
    arrays a;
    GPU_LAUNCH(nothing, 1, 1, (227 << 10) + wrong, NULL, a.y);
    return a.y[0] != 1;
}

template <int BYTES> static __global__ void much_static(float *y)
{
    GPU_SHARED(unsigned char, tile, BYTES);
    tile[BYTES - 1] = 1;
    y[0] = (float)tile[BYTES - 1];
}

int planted_much_static(int wrong)
{
    arrays a;
    if (wrong)
        GPU_LAUNCH(much_static<(48 << 10) + 1>, 1, 1, 0, NULL, a.y);
    else
        GPU_LAUNCH(much_static<48 << 10>, 1, 1, 0, NULL, a.y);
    return a.y[0] != 1;
}

/* Blocks write one element without an order. */
static __global__ void racing_blocks(float *y, const float *x, int wrong)
{
    if (threadIdx.x == 0)
        y[wrong ? 0 : place()] = x[place()];
}

int planted_racing_blocks(int wrong)
{
    arrays a;
    GPU_LAUNCH(racing_blocks, BLOCKS, THREADS, 0, NULL, a.y, a.x, wrong);
    return a.y[0] != a.x[0];
}
