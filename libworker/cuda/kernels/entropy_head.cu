#include "libworker/cuda/kernels/entropy_head.h"

#include <math.h>

#include "libworker/cuda/kernels/element.h"
#include "libworker/cuda/kernels/warp.h"

enum { ROW_THREADS = 512, ROW_WARPS = ROW_THREADS / WARP, ROW_BLOCKS_MAX = 1 << 20 };

/* The sum of exp(x - top) over some elements, and the sum of x - top. */
struct row_sums {
    float top, sum, total;
    int count;
};

/* Of both; an empty part has count 0. */
static __device__ inline struct row_sums joined(struct row_sums a, struct row_sums b)
{
    float top = fmaxf(a.top, b.top);
    float from_a = a.count ? a.top - top : 0, from_b = b.count ? b.top - top : 0;
    return {top, (a.count ? a.sum * expf(from_a) : 0) + (b.count ? b.sum * expf(from_b) : 0),
            a.total + (float)a.count * from_a + (b.total + (float)b.count * from_b),
            a.count + b.count};
}

static __device__ inline struct row_sums from_lane(struct row_sums a, int distance)
{
    return {__shfl_xor_sync(0xffffffffu, a.top, distance),
            __shfl_xor_sync(0xffffffffu, a.sum, distance),
            __shfl_xor_sync(0xffffffffu, a.total, distance),
            __shfl_xor_sync(0xffffffffu, a.count, distance)};
}

/* Sums of the row, the same for all threads: lanes in pairs, then warps in order. */
static __device__ inline struct row_sums sums_of_row(const float *x, int64_t classes,
                                                     struct row_sums *warps)
{
    struct row_sums own = {-INFINITY, 0, 0, 0};
    for (int64_t i = threadIdx.x; i < classes; i += ROW_THREADS) {
        struct row_sums one = {x[i], 1, 0, 1};
        own = joined(own, one);
    }
    for (int distance = 1; distance < WARP; distance *= 2) {
        struct row_sums other = from_lane(own, distance);
        own = threadIdx.x & (unsigned)distance ? joined(other, own) : joined(own, other);
    }
    __syncthreads(); /* the row before has been read */
    if (threadIdx.x % WARP == 0)
        warps[threadIdx.x / WARP] = own;
    __syncthreads();
    own = warps[0];
    for (int i = 1; i < ROW_WARPS; i++)
        own = joined(own, warps[i]);
    return own;
}

static __device__ inline float weight_of(const float *weights, int32_t target)
{
    return weights && target >= 0 ? weights[target] : 1;
}

static __device__ inline float loss_of(const struct head_rows *h, const struct row_sums *sums,
                                       const float *x, int32_t target)
{
    if (target < 0)
        return 0;
    float chosen = x[target] - sums->top, spread = h->smoothing * sums->total / (float)h->classes;
    float loss = logf(sums->sum) - (1 - h->smoothing) * chosen - spread;
    return loss * weight_of(h->weights, target);
}

static __global__ void __launch_bounds__(ROW_THREADS) losses_kernel(const struct head_rows h)
{
    GPU_SHARED(struct row_sums, warps, ROW_WARPS);
    for (int64_t r = blockIdx.x; r < h.rows; r += gridDim.x) {
        const float *x = h.logits + r * h.stride;
        int32_t target = h.targets[r];
        struct row_sums sums = sums_of_row(x, h.classes, warps);
        if (threadIdx.x == 0)
            element_write((void *)(uintptr_t)h.losses.at, h.losses.type, r,
                          loss_of(&h, &sums, x, target));
        float spread = h.smoothing / (float)h.classes, factor = 1 / sums.sum;
        for (int64_t i = threadIdx.x; h.slopes.at && i < h.classes; i += ROW_THREADS) {
            float wanted = (i == target ? 1 - h.smoothing : 0) + spread;
            float slope = target < 0 ? 0 : expf(x[i] - sums.top) * factor - wanted;
            element_write((void *)(uintptr_t)h.slopes.at, h.slopes.type, r * h.slopes_stride + i,
                          slope);
        }
    }
}

void head_losses(const struct head_rows *h, cudaStream_t stream)
{
    int64_t most = ROW_BLOCKS_MAX, blocks = h->rows < most ? h->rows : most;
    if (blocks > 0)
        GPU_LAUNCH(losses_kernel, dim3((unsigned)blocks), dim3(ROW_THREADS), 0, stream, *h);
}

static __device__ inline float factor_of(const struct head_factors *f, int64_t row)
{
    int32_t target = f->targets[row];
    return f->dlosses[row] * weight_of(f->weights, target);
}

static __global__ void __launch_bounds__(LOOP_THREADS)
    scale_kernel(const struct head_factors f, struct typed_array to, struct typed_array from)
{
    for (int64_t i = loop_first(); i < f.rows * f.width; i += loop_step())
        element_write((void *)(uintptr_t)to.at, to.type, i,
                      element_read(from.at, from.type, i) * factor_of(&f, i / f.width));
}

static __global__ void __launch_bounds__(LOOP_THREADS)
    add_kernel(const struct head_factors f, float *dx, const float *products, bool add)
{
    for (int64_t i = loop_first(); i < f.rows * f.width; i += loop_step()) {
        float x = products[i] * factor_of(&f, i / f.width);
        dx[i] = add ? dx[i] + x : x;
    }
}

void head_scale(const struct head_factors *f, struct typed_array to, struct typed_array from,
                cudaStream_t stream)
{
    if (f->rows > 0)
        GPU_LAUNCH(scale_kernel, loop_blocks(f->rows * f->width), dim3(LOOP_THREADS), 0, stream, *f,
                   to, from);
}

void head_add(const struct head_factors *f, float *dx, const float *products, bool add,
              cudaStream_t stream)
{
    if (f->rows > 0)
        GPU_LAUNCH(add_kernel, loop_blocks(f->rows * f->width), dim3(LOOP_THREADS), 0, stream, *f,
                   dx, products, add);
}
