#include "libworker/cuda/kernels/factored.h"

#include <math.h>

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/columns.h"
#include "libworker/cuda/kernels/rows.h"

namespace
{

enum { THREADS = 256, BLOCK_ELEMENTS = 16 * THREADS };

/* In the room after the partial sums. */
enum number { NUMBER_KEEP, NUMBER_STEP };

static __device__ __forceinline__ bool applies(const struct gpu_factored &f)
{
    return !f.factor.applies || *f.factor.applies > 0;
}

static __device__ __forceinline__ float scale_of(const struct gpu_factored &f)
{
    return f.factor.scale ? (float)*f.factor.scale : f.factor.value;
}

static __device__ __forceinline__ float decay_of(const struct gpu_factored &f)
{
    return f.decay_at ? *f.decay_at : f.decay;
}

static __device__ __forceinline__ float moved(float before, float decay, double mean, float epsilon)
{
    return (float)((double)decay * (double)before + (double)(1 - decay) * (mean + (double)epsilon));
}

static __device__ __forceinline__ double square_of(float grad, float scale)
{
    double g = (double)grad * (double)scale;
    return g * g;
}

/* A block has a row. */
__global__ void row_moments(struct gpu_factored f)
{
    GPU_SHARED(double, room, 32);
    if (!applies(f))
        return;
    float scale = scale_of(f);
    for (int64_t row = blockIdx.x; row < f.rows; row += gridDim.x) {
        double sum = 0;
        for (int64_t j = threadIdx.x; j < f.cols; j += THREADS)
            sum += square_of(f.grads[row * f.cols + j], scale);
        sum = block_sum_double(sum, room);
        if (threadIdx.x == 0)
            f.row[row] = moved(f.row[row], decay_of(f), sum / (double)f.cols, f.epsilon1);
    }
}

/* A block has 32 columns. */
__global__ void col_moments(struct gpu_factored f)
{
    GPU_SHARED(double, room, COLUMNS_STRIDES *COLUMNS_TILE);
    if (!applies(f))
        return;
    float scale = scale_of(f);
    int64_t column = columns_own();
    double sum = 0;
    for (int64_t i = threadIdx.y; column < f.cols && i < f.rows; i += COLUMNS_STRIDES)
        sum += square_of(f.grads[i * f.cols + column], scale);
    sum = columns_join(sum, room);
    if (threadIdx.y == 0 && column < f.cols)
        f.col[column] = moved(f.col[column], decay_of(f), sum / (double)f.rows, f.epsilon1);
}

/* 1 / sqrt(row[i] / mean of row) and 1 / sqrt(col[j]). One block. */
__global__ void inverse_roots(struct gpu_factored f)
{
    GPU_SHARED(double, room, 32);
    if (!applies(f))
        return;
    double mean = 0;
    for (int64_t i = threadIdx.x; f.row && i < f.rows; i += THREADS)
        mean += (double)f.row[i] / (double)f.rows;
    mean = block_sum_double(mean, room);
    for (int64_t i = threadIdx.x; i < f.rows; i += THREADS)
        f.scratch[i] = f.row ? (float)sqrt(mean / (double)f.row[i]) : 1.0f;
    for (int64_t j = threadIdx.x; j < f.cols; j += THREADS)
        f.scratch[f.rows + j] = 1.0f / sqrtf(f.col[j]);
}

/* Partial sums of the parameters' squares and of the update's. */
__global__ void step_partials(struct gpu_factored f)
{
    GPU_SHARED(double, room, 32);
    if (!applies(f))
        return;
    float scale = scale_of(f);
    double params = 0, updates = 0;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < f.rows * f.cols;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t row = i / f.cols;
        double root = (double)f.scratch[row] * (double)f.scratch[f.rows + i - row * f.cols];
        updates += square_of(f.grads[i], scale) * root * root;
        if (f.relative)
            params += (double)f.params[i] * (double)f.params[i];
    }
    params = block_sum_double(params, room);
    updates = block_sum_double(updates, room);
    if (threadIdx.x)
        return;
    f.room[blockIdx.x] = params;
    f.room[FACTORED_PARTIALS + blockIdx.x] = updates;
}

/* The step's size. One block. */
__global__ void step_numbers(struct gpu_factored f, int partials)
{
    GPU_SHARED(double, room, 32);
    if (!applies(f))
        return;
    double params = 0, updates = 0, count = (double)(f.rows * f.cols);
    double rate = f.rate_at ? *f.rate_at : f.rate;
    for (int i = (int)threadIdx.x; i < partials; i += THREADS) {
        params += f.room[i];
        updates += f.room[FACTORED_PARTIALS + i];
    }
    params = block_sum_double(params, room);
    updates = block_sum_double(updates, room);
    if (f.relative)
        rate *= fmax(f.epsilon2, sqrt(params / count));
    double step = rate, root = sqrt(updates / count);
    if (f.clip > 0)
        step /= isnan(root) ? root : fmax(1.0, root / f.clip);
    if (threadIdx.x)
        return;
    f.room[2 * FACTORED_PARTIALS + NUMBER_KEEP] = 1 - rate * f.weight_decay;
    f.room[2 * FACTORED_PARTIALS + NUMBER_STEP] = step;
}

__global__ void step_apply(struct gpu_factored f)
{
    if (!applies(f))
        return;
    const double *numbers = f.room + 2 * FACTORED_PARTIALS;
    float scale = scale_of(f), keep = (float)numbers[NUMBER_KEEP];
    float step = (float)numbers[NUMBER_STEP];
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < f.rows * f.cols;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t row = i / f.cols;
        float u = f.grads[i] * scale * f.scratch[row] * f.scratch[f.rows + i - row * f.cols];
        f.params[i] = f.params[i] * keep - step * u;
    }
}

unsigned blocks_of(int64_t count)
{
    int64_t blocks = (count + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;
    return blocks < FACTORED_PARTIALS ? (unsigned)blocks : (unsigned)FACTORED_PARTIALS;
}

} // namespace

extern "C" int gpu_adafactor_partials(int64_t count)
{
    return (int)blocks_of(count);
}

extern "C" void gpu_adafactor(const struct gpu_factored *f, cudaStream_t stream)
{
    unsigned blocks = blocks_of(f->rows * f->cols);
    if (blocks == 0)
        return;
    if (f->row)
        GPU_LAUNCH(row_moments, dim3(rows_blocks(f->rows)), dim3(THREADS), 0, stream, *f);
    GPU_LAUNCH(col_moments, dim3(columns_blocks(f->cols)), columns_block(), 0, stream, *f);
    GPU_LAUNCH(inverse_roots, dim3(1), dim3(THREADS), 0, stream, *f);
    if (f->relative || f->clip > 0)
        GPU_LAUNCH(step_partials, dim3(blocks), dim3(THREADS), 0, stream, *f);
    GPU_LAUNCH(step_numbers, dim3(1), dim3(THREADS), 0, stream, *f,
               f->relative || f->clip > 0 ? (int)blocks : 0);
    GPU_LAUNCH(step_apply, dim3(blocks), dim3(THREADS), 0, stream, *f);
}
