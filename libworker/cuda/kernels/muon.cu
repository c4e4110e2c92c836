#include "libworker/cuda/kernels/muon.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/flat.h"
#include "libworker/cuda/kernels/rows.h"

namespace
{

/* In the room after the partial sums: what the update is multiplied by. */
enum { LENGTH = MUON_PARTIALS };

static __device__ __forceinline__ bool applies(const struct gpu_muon &m)
{
    return !m.factor.applies || *m.factor.applies > 0;
}

/* Each block leaves its part of the sum of the update's squares. */
__global__ void move_momentum(struct gpu_muon m)
{
    GPU_SHARED(double, room, 32);
    if (!applies(m))
        return;
    float scale = m.factor.scale ? (float)*m.factor.scale : m.factor.value;
    float fresh = (1 - m.decay) * scale;
    double sum = 0;
    for (int64_t at = flat_first(); at < m.count; at += flat_step()) {
        struct span s = flat_span(at, m.count);
        float grads[SPAN], momentum[SPAN], update[SPAN];
        span_read(s, floats_value(m.grads), 0, grads);
        span_read(s, floats_value(m.momentum), 0, momentum);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++) {
            momentum[j] = m.decay * momentum[j] + fresh * grads[j];
            update[j] = m.nesterov ? fresh * grads[j] + m.decay * momentum[j] : momentum[j];
            sum += j < s.count ? (double)update[j] * (double)update[j] : 0.0;
        }
        span_write(s, floats_value(m.momentum), 0, momentum);
        span_write(s, floats_value(m.update), 0, update);
    }
    sum = block_sum_double(sum, room);
    if (threadIdx.x == 0)
        m.room[blockIdx.x] = sum;
}

/* One block. */
__global__ void measure_update(struct gpu_muon m, int partials)
{
    GPU_SHARED(double, room, 32);
    if (!applies(m))
        return;
    double sum = 0;
    for (int i = (int)threadIdx.x; i < partials; i += FLAT_THREADS)
        sum += m.room[i];
    sum = block_sum_double(sum, room);
    if (threadIdx.x == 0)
        m.room[LENGTH] = 1 / (sqrt(sum) + m.epsilon);
}

__global__ void scale_update(struct gpu_muon m)
{
    if (!applies(m))
        return;
    float factor = (float)m.room[LENGTH];
    for (int64_t at = flat_first(); at < m.count; at += flat_step()) {
        struct span s = flat_span(at, m.count);
        float update[SPAN];
        span_read(s, floats_value(m.update), 0, update);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            update[j] *= factor;
        span_write(s, floats_value(m.update), 0, update);
    }
}

__global__ void apply_update(struct gpu_muon m)
{
    if (!applies(m))
        return;
    struct kernel_blend step = m.step_at ? *m.step_at : m.step;
    for (int64_t at = flat_first(); at < m.count; at += flat_step()) {
        struct span s = flat_span(at, m.count);
        float params[SPAN], update[SPAN];
        span_read(s, floats_value(m.params), 0, params);
        span_read(s, floats_value(m.update), 0, update);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            params[j] = step.a * params[j] + step.b * update[j];
        span_write(s, floats_value(m.params), 0, params);
    }
}

dim3 blocks_of(int64_t count)
{
    dim3 grid = flat_grid(count);
    unsigned most = MUON_PARTIALS;
    return grid.x < most ? grid : dim3(most);
}

} // namespace

extern "C" int gpu_muon_partials(int64_t count)
{
    return (int)blocks_of(count).x;
}

extern "C" void gpu_muon_begin(const struct gpu_muon *m, cudaStream_t stream)
{
    dim3 grid = blocks_of(m->count);
    GPU_LAUNCH(move_momentum, grid, dim3(FLAT_THREADS), 0, stream, *m);
    GPU_LAUNCH(measure_update, dim3(1), dim3(FLAT_THREADS), 0, stream, *m, (int)grid.x);
    GPU_LAUNCH(scale_update, grid, dim3(FLAT_THREADS), 0, stream, *m);
}

extern "C" void gpu_muon_end(const struct gpu_muon *m, cudaStream_t stream)
{
    GPU_LAUNCH(apply_update, blocks_of(m->count), dim3(FLAT_THREADS), 0, stream, *m);
}
