#include "libworker/cuda/kernels/softmax.h"

#include <math.h>

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/rows.h"

namespace
{

/* Of a row: its largest element, and the sum of exp(x - most). */
struct powers {
    float most, sum;
};

/* exp(x - most), where most is minus infinity as long as nothing larger was seen. */
static __device__ __forceinline__ float power_from(float x, float most)
{
    return x == most ? 1.0f : expf(x - most);
}

/* The sum is kept in units of exp(most): a larger element makes it smaller. */
static __device__ __forceinline__ void powers_add(struct powers *p, float x)
{
    if (x > p->most) {
        p->sum = p->sum * (p->sum > 0 ? expf(p->most - x) : 0.0f) + 1.0f;
        p->most = x;
    } else {
        p->sum += power_from(x, p->most);
    }
}

/* A row without any finite element has no softmax: its sum is NaN. */
static __device__ __forceinline__ struct powers powers_of(struct gpu_value x, int64_t row,
                                                          int64_t width, float *room)
{
    struct powers own = {-INFINITY, 0};
    for (int64_t at = 0; at < width; at += span_step()) {
        struct span s = span_at(at, width);
        float values[SPAN];
        span_read(s, x, row * width, values);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++) {
            if (j < s.count)
                powers_add(&own, values[j]);
        }
    }
    float most = row_max(own.most, room);
    own.sum = own.sum == 0.0f ? 0.0f : own.sum * power_from(own.most, most);
    own.sum = row_sum(own.sum, room);
    own.most = most;
    if (!isfinite(most))
        own.sum = NAN;
    return own;
}

__global__ void softmax_rows(struct gpu_rows r, struct gpu_value x, struct gpu_value out)
{
    GPU_SHARED(float, room, ROWS_ROOM);
    for (int64_t row = rows_first(); row < r.rows; row += rows_step()) {
        struct powers p = powers_of(x, row, r.width, room);
        float inverse = 1.0f / p.sum;
        for (int64_t at = 0; at < r.width; at += span_step()) {
            struct span s = span_at(at, r.width);
            float values[SPAN];
            span_read(s, x, row * r.width, values);
            GPU_UNROLL
            for (int j = 0; j < SPAN; j++)
                values[j] = expf(values[j] - p.most) * inverse;
            span_write(s, out, row * r.width, values);
        }
    }
}

__global__ void softmax_rows_back(struct gpu_rows r, struct gpu_value y, const float *dout,
                                  struct gpu_gradient dx)
{
    GPU_SHARED(float, room, ROWS_ROOM);
    for (int64_t row = rows_first(); row < r.rows; row += rows_step()) {
        float sum = 0;
        for (int64_t at = 0; at < r.width; at += span_step()) {
            struct span s = span_at(at, r.width);
            float p[SPAN], d[SPAN];
            span_read(s, y, row * r.width, p);
            span_read(s, floats_value(dout), row * r.width, d);
            GPU_UNROLL
            for (int j = 0; j < SPAN; j++)
                sum += j < s.count ? p[j] * d[j] : 0.0f;
        }
        sum = row_sum(sum, room);
        for (int64_t at = 0; at < r.width; at += span_step()) {
            struct span s = span_at(at, r.width);
            float p[SPAN], d[SPAN];
            span_read(s, y, row * r.width, p);
            span_read(s, floats_value(dout), row * r.width, d);
            GPU_UNROLL
            for (int j = 0; j < SPAN; j++)
                d[j] = p[j] * (d[j] - sum);
            span_gradient(s, dx, row * r.width, d);
        }
    }
}

/* What the row's loss is multiplied by. */
static __device__ __forceinline__ float weight_of(const struct gpu_entropy &e, int32_t target)
{
    return e.weights && target >= 0 ? e.weights[target] : 1.0f;
}

/* The sum of x - most over the row, for smoothing. */
static __device__ __forceinline__ float total_of(const struct gpu_entropy &e,
                                                 struct gpu_value logits, int64_t row,
                                                 struct powers p, float *room)
{
    float total = 0;
    for (int64_t at = 0; at < e.classes; at += span_step()) {
        struct span s = span_at(at, e.classes);
        float x[SPAN];
        span_read(s, logits, row * e.classes, x);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            total += j < s.count ? x[j] - p.most : 0.0f;
    }
    return row_sum(total, room);
}

__global__ void entropy_rows(struct gpu_entropy e, struct gpu_value logits, struct gpu_value losses,
                             float *log_sums)
{
    GPU_SHARED(float, room, ROWS_ROOM);
    for (int64_t row = rows_first(); row < e.rows; row += rows_step()) {
        struct powers p = powers_of(logits, row, e.classes, room);
        int32_t target = e.targets[row];
        float chosen = target < 0 ? 0.0f : value_read(logits, row * e.classes + target) - p.most;
        float log_sum = logf(p.sum), loss = log_sum - (1.0f - e.smoothing) * chosen;
        if (e.smoothing > 0.0f)
            loss -= e.smoothing * total_of(e, logits, row, p, room) / (float)e.classes;
        loss = target < 0 ? 0.0f : loss * weight_of(e, target);
        if (threadIdx.x == 0) {
            value_write(losses, row, loss);
            if (log_sums)
                log_sums[row] = p.most + log_sum;
        }
    }
}

__global__ void entropy_rows_back(struct gpu_entropy e, struct gpu_value logits,
                                  const float *log_sums, const float *dlosses,
                                  struct gpu_gradient dlogits)
{
    float spread = e.smoothing / (float)e.classes;
    for (int64_t row = rows_first(); row < e.rows; row += rows_step()) {
        int32_t target = e.targets[row];
        float factor = dlosses[row] * weight_of(e, target), log_sum = log_sums[row];
        for (int64_t at = 0; at < e.classes; at += span_step()) {
            struct span s = span_at(at, e.classes);
            float d[SPAN];
            span_read(s, logits, row * e.classes, d);
            GPU_UNROLL
            for (int j = 0; j < SPAN; j++) {
                float kept = span_index(s, j) == target ? 1.0f - e.smoothing : 0.0f;
                float share = expf(d[j] - log_sum);
                d[j] = target < 0 ? 0.0f : ((share - kept) - spread) * factor;
            }
            span_gradient(s, dlogits, row * e.classes, d);
        }
    }
}

/* log p - log q of an element: both from the largest of their rows. */
static __device__ __forceinline__ float log_quotient(float teacher, struct powers p, float student,
                                                     struct powers q)
{
    return ((teacher - p.most) - (student - q.most)) - (logf(p.sum) - logf(q.sum));
}

__global__ void divergence_rows(struct gpu_divergence d, struct gpu_value losses)
{
    GPU_SHARED(float, room, ROWS_ROOM);
    for (int64_t row = rows_first(); row < d.rows; row += rows_step()) {
        struct powers p = powers_of(d.teacher, row, d.classes, room);
        struct powers q = powers_of(d.student, row, d.classes, room);
        float sum = 0;
        for (int64_t at = 0; at < d.classes; at += span_step()) {
            struct span s = span_at(at, d.classes);
            float teacher[SPAN], student[SPAN];
            span_read(s, d.teacher, row * d.classes, teacher);
            span_read(s, d.student, row * d.classes, student);
            GPU_UNROLL
            for (int j = 0; j < SPAN; j++) {
                float share = expf(teacher[j] - p.most) / p.sum;
                if (j < s.count && share != 0.0f)
                    sum += share * log_quotient(teacher[j], p, student[j], q);
            }
        }
        sum = row_sum(sum, room);
        if (threadIdx.x == 0)
            value_write(losses, row, sum);
    }
}

__global__ void divergence_rows_back(struct gpu_divergence d, const float *dlosses,
                                     struct gpu_gradient dstudent)
{
    GPU_SHARED(float, room, ROWS_ROOM);
    for (int64_t row = rows_first(); row < d.rows; row += rows_step()) {
        struct powers p = powers_of(d.teacher, row, d.classes, room);
        struct powers q = powers_of(d.student, row, d.classes, room);
        for (int64_t at = 0; at < d.classes; at += span_step()) {
            struct span s = span_at(at, d.classes);
            float teacher[SPAN], student[SPAN];
            span_read(s, d.teacher, row * d.classes, teacher);
            span_read(s, d.student, row * d.classes, student);
            GPU_UNROLL
            for (int j = 0; j < SPAN; j++)
                student[j] = dlosses[row] * (expf(student[j] - q.most) / q.sum -
                                             expf(teacher[j] - p.most) / p.sum);
            span_gradient(s, dstudent, row * d.classes, student);
        }
    }
}

} // namespace

extern "C" void gpu_softmax_forward(const struct gpu_rows *r, struct gpu_value x,
                                    struct gpu_value out, cudaStream_t stream)
{
    struct rows_shape shape = rows_shape_of(r->rows, r->width);
    if (r->rows && r->width)
        GPU_LAUNCH(softmax_rows, shape.grid, shape.block, 0, stream, *r, x, out);
}

extern "C" void gpu_softmax_backward(const struct gpu_rows *r, struct gpu_value y,
                                     const float *dout, struct gpu_gradient dx, cudaStream_t stream)
{
    struct rows_shape shape = rows_shape_of(r->rows, r->width);
    if (r->rows && r->width)
        GPU_LAUNCH(softmax_rows_back, shape.grid, shape.block, 0, stream, *r, y, dout, dx);
}

extern "C" void gpu_entropy_forward(const struct gpu_entropy *e, struct gpu_value logits,
                                    struct gpu_value losses, float *log_sums, cudaStream_t stream)
{
    struct rows_shape shape = rows_shape_of(e->rows, e->classes);
    if (e->rows && e->classes)
        GPU_LAUNCH(entropy_rows, shape.grid, shape.block, 0, stream, *e, logits, losses, log_sums);
}

extern "C" void gpu_entropy_backward(const struct gpu_entropy *e, struct gpu_value logits,
                                     const float *log_sums, const float *dlosses,
                                     struct gpu_gradient dlogits, cudaStream_t stream)
{
    struct rows_shape shape = rows_shape_of(e->rows, e->classes);
    if (e->rows && e->classes)
        GPU_LAUNCH(entropy_rows_back, shape.grid, shape.block, 0, stream, *e, logits, log_sums,
                   dlosses, dlogits);
}

extern "C" void gpu_divergence_forward(const struct gpu_divergence *d, struct gpu_value losses,
                                       cudaStream_t stream)
{
    struct rows_shape shape = rows_shape_of(d->rows, d->classes);
    if (d->rows && d->classes)
        GPU_LAUNCH(divergence_rows, shape.grid, shape.block, 0, stream, *d, losses);
}

extern "C" void gpu_divergence_backward(const struct gpu_divergence *d, const float *dlosses,
                                        struct gpu_gradient dstudent, cudaStream_t stream)
{
    struct rows_shape shape = rows_shape_of(d->rows, d->classes);
    if (d->rows && d->classes)
        GPU_LAUNCH(divergence_rows_back, shape.grid, shape.block, 0, stream, *d, dlosses, dstudent);
}
