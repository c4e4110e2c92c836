#include "libworker/cuda/kernels/elements.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/flat.h"
#include "libworker/cuda/kernels/round.h"

namespace
{

enum {
    PUT_COUNT = 960, /* floats that a launch takes along: parameters have 4096 bytes */
    MOVE_THREADS = 1024,
    MOVE_APART = 1 << 18, /* elements: pieces of this many, or more, are copied by all blocks */
};

static __device__ __forceinline__ void fill(struct gpu_gradient x, float value, int64_t count)
{
    for (int64_t at = flat_first(); at < count; at += flat_step()) {
        float values[SPAN];
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            values[j] = value;
        span_gradient(flat_span(at, count), x, 0, values);
    }
}

__global__ void floats_fill(struct gpu_gradient x, float value, int64_t count)
{
    fill(x, value, count);
}

__global__ void floats_fill_from(struct gpu_gradient x, const double *value, int64_t count)
{
    fill(x, (float)*value, count);
}

struct put_args {
    float *to;
    int count;
    float numbers[PUT_COUNT];
};

__global__ void numbers_put(struct put_args a)
{
    for (int i = (int)threadIdx.x; i < a.count; i += (int)blockDim.x)
        a.to[i] = a.numbers[i];
}

__global__ void floats_scale(float *x, float factor, int64_t count)
{
    for (int64_t at = flat_first(); at < count; at += flat_step()) {
        struct span s = flat_span(at, count);
        float values[SPAN];
        span_read(s, floats_value(x), 0, values);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            values[j] *= factor;
        span_write(s, floats_value(x), 0, values);
    }
}

__global__ void values_add(struct gpu_value to, struct gpu_value from, int64_t count)
{
    for (int64_t at = flat_first(); at < count; at += flat_step()) {
        struct span s = flat_span(at, count);
        float sum[SPAN], more[SPAN];
        span_read(s, to, 0, sum);
        span_read(s, from, 0, more);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            sum[j] += more[j];
        span_write(s, to, 0, sum);
    }
}

__global__ void values_convert(struct gpu_value to, struct gpu_value from, int64_t count)
{
    for (int64_t at = flat_first(); at < count; at += flat_step()) {
        struct span s = flat_span(at, count);
        float values[SPAN];
        span_read(s, from, 0, values);
        span_write(s, to, 0, values);
    }
}

__global__ void narrow_by_chance(struct gpu_chances c)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < c.count;
         i += (int64_t)gridDim.x * blockDim.x)
        c.to[i] = round_by_chance(c.from[i], c.noise, c.first + (uint64_t)i);
}

__global__ void values_limit(struct gpu_limit l)
{
    if (!(*l.finite > 0))
        return;
    float limit = (float)(l.most / *l.scale);
    for (int64_t at = flat_first(); at < l.count; at += flat_step()) {
        struct span s = flat_span(at, l.count);
        float x[SPAN];
        span_read(s, l.x, 0, x);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++) {
            x[j] = x[j] > limit ? limit : x[j];
            x[j] = x[j] < -limit ? -limit : x[j];
        }
        span_write(s, l.x, 0, x);
    }
}

/* The two do not overlap. */
template <class T> __global__ void elements_copy(T *to, const T *from, int64_t count)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x)
        to[i] = from[i];
}

/* One block reads a piece before it writes it. */
template <class T> __global__ void elements_shift(T *to, const T *from, int64_t count)
{
    for (int64_t at = 0; at < count; at += blockDim.x) {
        int64_t i = at + threadIdx.x;
        T element = i < count ? from[i] : T(0);
        __syncthreads();
        if (i < count)
            to[i] = element;
        __syncthreads();
    }
}

/* In pieces of the distance between the two, which do not overlap, unless they are small. */
template <class T> void move_back(T *to, const T *from, int64_t count, cudaStream_t stream)
{
    int64_t apart = from - to;
    if (apart < count && apart < MOVE_APART) {
        GPU_LAUNCH(elements_shift<T>, dim3(1), dim3(MOVE_THREADS), 0, stream, to, from, count);
        return;
    }
    for (int64_t at = 0, n; at < count; at += n) {
        n = count - at < apart ? count - at : apart;
        GPU_LAUNCH(elements_copy<T>, flat_grid(n), dim3(FLAT_THREADS), 0, stream, to + at,
                   from + at, n);
    }
}

} // namespace

extern "C" void gpu_fill(struct gpu_gradient x, float value, int64_t count, cudaStream_t stream)
{
    if (count)
        GPU_LAUNCH(floats_fill, flat_grid(count), dim3(FLAT_THREADS), 0, stream, x, value, count);
}

extern "C" void gpu_fill_from(struct gpu_gradient x, const double *value, int64_t count,
                              cudaStream_t stream)
{
    if (count)
        GPU_LAUNCH(floats_fill_from, flat_grid(count), dim3(FLAT_THREADS), 0, stream, x, value,
                   count);
}

extern "C" void gpu_zero(void *at, size_t bytes, cudaStream_t stream)
{
    struct gpu_gradient x = {(float *)at, false};
    gpu_fill(x, 0.0f, (int64_t)(bytes / sizeof(float)), stream);
}

extern "C" void gpu_numbers_put(float *to, const float *from, int64_t count, cudaStream_t stream)
{
    for (int64_t at = 0; at < count; at += PUT_COUNT) {
        struct put_args a = {
            to + at, (int)(count - at < PUT_COUNT ? count - at : (int64_t)PUT_COUNT), {}};
        memcpy(a.numbers, from + at, (size_t)a.count * sizeof(float));
        GPU_LAUNCH(numbers_put, dim3(1), dim3(FLAT_THREADS), 0, stream, a);
    }
}

extern "C" void gpu_scale(float *x, float factor, int64_t count, cudaStream_t stream)
{
    if (count)
        GPU_LAUNCH(floats_scale, flat_grid(count), dim3(FLAT_THREADS), 0, stream, x, factor, count);
}

extern "C" void gpu_add(struct gpu_value to, struct gpu_value from, int64_t count,
                        cudaStream_t stream)
{
    if (count)
        GPU_LAUNCH(values_add, flat_grid(count), dim3(FLAT_THREADS), 0, stream, to, from, count);
}

extern "C" void gpu_convert(struct gpu_value to, struct gpu_value from, int64_t count,
                            cudaStream_t stream)
{
    if (count)
        GPU_LAUNCH(values_convert, flat_grid(count), dim3(FLAT_THREADS), 0, stream, to, from,
                   count);
}

extern "C" void gpu_narrow_by_chance(const struct gpu_chances *c, cudaStream_t stream)
{
    if (c->count)
        GPU_LAUNCH(narrow_by_chance, flat_grid(c->count), dim3(FLAT_THREADS), 0, stream, *c);
}

extern "C" void gpu_limit_values(const struct gpu_limit *l, cudaStream_t stream)
{
    if (l->count)
        GPU_LAUNCH(values_limit, flat_grid(l->count), dim3(FLAT_THREADS), 0, stream, *l);
}

extern "C" void gpu_move_back(void *to, const void *from, size_t bytes, size_t element,
                              cudaStream_t stream)
{
    if (to == from || bytes == 0)
        return;
    if (element == sizeof(uint32_t))
        move_back((uint32_t *)to, (const uint32_t *)from, (int64_t)(bytes / element), stream);
    else
        move_back((uint16_t *)to, (const uint16_t *)from, (int64_t)(bytes / element), stream);
}
