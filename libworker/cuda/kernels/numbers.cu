#include "libworker/cuda/kernels/numbers.h"

#include <math.h>

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/flat.h"
#include "libworker/cuda/kernels/rows.h"
#include "libworker/optim/verdict.h"

namespace
{

enum { BLOCK_ELEMENTS = 4 * FLAT_THREADS * SPAN }; /* of a block at least, if there are as many */

__global__ void sum_partials(struct gpu_sum s)
{
    GPU_SHARED(double, room, 32);
    double sum = 0;
    for (int64_t at = flat_first(); at < s.count; at += flat_step()) {
        struct span span = flat_span(at, s.count);
        float x[SPAN];
        span_read(span, s.x, 0, x);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            sum += s.squares ? (double)x[j] * (double)x[j] : (double)x[j];
    }
    sum = block_sum_double(sum, room);
    if (threadIdx.x == 0)
        s.partials[blockIdx.x] = sum;
}

__global__ void sum_end(struct gpu_sum s, int partials)
{
    GPU_SHARED(double, room, 32);
    double sum = 0;
    for (int i = (int)threadIdx.x; i < partials; i += FLAT_THREADS)
        sum += s.partials[i];
    sum = block_sum_double(sum, room);
    if (threadIdx.x == 0)
        *s.ret = s.add ? *s.ret + sum : sum;
}

__global__ void total_of(struct gpu_total t)
{
    double total = 0;
    for (int i = 0; i < t.n; i++)
        total += t.sums[i] * t.weights[i] / t.divisors[i];
    if (threadIdx.x == 0)
        *t.to = total;
}

/* As clip_factor of optim/clip.h. */
static __device__ double clip_factor_of(double norm, double most, double epsilon)
{
    if (!isfinite(norm))
        return NAN;
    double factor = most / (norm + epsilon);
    return factor < 1 ? factor : 1;
}

__global__ void verdict_step(struct gpu_verdict_step s)
{
    struct verdict_values *v = s.at;
    if (threadIdx.x)
        return;
    switch (s.what) {
    case GPU_ADD_LOSS:
        v->loss = (double)((float)v->loss + (float)(v->pass * s.number));
        return;
    case GPU_OPEN:
        v->scale = s.number;
        v->norm = 0;
        v->finite = s.flag ? 1 : 0;
        return;
    case GPU_MEASURE:
        v->norm = sqrt(v->squares) * v->scale;
        if (s.flag)
            v->finite = isfinite(v->squares) ? 1 : 0;
        return;
    case GPU_CLIP:
        v->scale *= clip_factor_of(v->norm, s.number, s.epsilon);
        return;
    case GPU_JUDGE:
        v->applies = v->finite > 0 && isfinite(v->scale) && isfinite(s.number + v->loss) ? 1 : 0;
        return;
    }
}

} // namespace

extern "C" int gpu_sum_partials(int64_t count)
{
    int64_t blocks = (count + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;
    return blocks < NUMBERS_PARTIALS ? (int)blocks : (int)NUMBERS_PARTIALS;
}

extern "C" void gpu_sum_up(const struct gpu_sum *s, cudaStream_t stream)
{
    int blocks = gpu_sum_partials(s->count);
    if (blocks)
        GPU_LAUNCH(sum_partials, dim3((unsigned)blocks), dim3(FLAT_THREADS), 0, stream, *s);
    GPU_LAUNCH(sum_end, dim3(1), dim3(FLAT_THREADS), 0, stream, *s, blocks);
}

extern "C" void gpu_total_up(const struct gpu_total *t, cudaStream_t stream)
{
    GPU_LAUNCH(total_of, dim3(1), dim3(32), 0, stream, *t);
}

extern "C" void gpu_verdict_run(const struct gpu_verdict_step *s, cudaStream_t stream)
{
    GPU_LAUNCH(verdict_step, dim3(1), dim3(32), 0, stream, *s);
}
