/* The fast functions of one element, built once per instruction set with KERNEL_FAST_CURVES naming
 * the object (cpu/curves.h). Loops without calls and branches, which the compiler makes vectors of.
 * Checked against the exact values by test_curves.c.
 */
/* As in fast.c: otherwise the ends of a clamp are computed for every lane. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-thread-jumps")
#endif

#include <math.h>
#include <string.h>

#include "libworker/kernel/cpu/curves.h"
#include "libworker/kernel/cpu/fast_double.h"
#include "libworker/kernel/cpu/fast_math.h"

/* With m = exp(2 |x|) - 1 it is m / (m + 2), which cancels nowhere; beyond 9.1 it is 1. */
static void tanh_fast(float *out, const float *x, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float twice = 2.0f * fast_at_most(fabsf(x[i]), 9.1f);
        struct fast_power e = fast_power(twice);
        float m = e.power * e.above + (e.power - 1.0f);
        out[i] = copysignf(m / (m + 2.0f), x[i]);
    }
}

static void sigmoid_fast(float *out, const float *x, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float v = fast_at_least(x[i], FAST_SILU_LOWEST);
        out[i] = fast_sigmoid(fast_at_most(v, FAST_SILU_HIGHEST)).value;
    }
}

/* log(1 + y) is 2 artanh(s) with s = y / (2 + y), at most 1/3: a series in s^2. Its next term is a
 * quarter of a unit. Beyond the edge y is below 2^-118. */
static void softplus_rest_fast(float *out, const float *x, size_t count)
{
    const float edge = 81.8f;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float size = fabsf(x[i]), y = fast_exp_inside(-fast_at_most(size, edge));
        y = size > edge ? 0.0f : y;
        float s = y / (2.0f + y), square = s * s;
        float p = 1.0f / 13.0f;
        p = p * square + 1.0f / 11.0f;
        p = p * square + 1.0f / 9.0f;
        p = p * square + 1.0f / 7.0f;
        p = p * square + 1.0f / 5.0f;
        p = p * square + 1.0f / 3.0f;
        out[i] = 2.0f * (s + s * (square * p));
    }
}

static void silu_fast(float *out, const float *x, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float v = fast_at_least(x[i], FAST_SILU_LOWEST);
        out[i] = v * fast_sigmoid(fast_at_most(v, FAST_SILU_HIGHEST)).value;
    }
}

static void silu_slope_fast(float *dx, const float *x, const float *dout, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float v = fast_at_most(fast_at_least(x[i], FAST_SILU_LOWEST), FAST_SILU_HIGHEST);
        struct fast_sigmoid s = fast_sigmoid(v);
        dx[i] = dout[i] * (s.value * (1.0f + v * s.rest));
    }
}

/* Beyond it exp(-x^2 / 2) is 0 here. */
static const float GELU_EDGE = 13.28f;

struct gelu_tail {
    float fall, share; /* exp(-x^2 / 2); what multiplied by it is the normal's share above |x| */
};

/* The share above |x| is t P(t) exp(-x^2 / 2) with t = 1 / (1 + 0.3 |x|). P is by least squares
 * with weights that even out the largest relative errors, which are 0.06 units. The square of the
 * first 12 bits of x is exact, so the exponential of a large square is as good as a small one's. */
static inline struct gelu_tail gelu_tail_of(float size)
{
    uint32_t bits;
    memcpy(&bits, &size, sizeof(bits));
    bits &= 0xfffff000u;
    float high;
    memcpy(&high, &bits, sizeof(high));
    float rest = (size - high) * (size + high);
    struct fast_power e = fast_power_exact(-0.5f * (high * high), -0.5f * rest);
    float t = 1.0f / (1.0f + 0.3f * size);
    float p = -0.0205846559f;
    p = p * t + 0.112217128f;
    p = p * t - 0.227679595f;
    p = p * t + 0.19104211f;
    p = p * t - 0.0787777975f;
    p = p * t + 0.0957932919f;
    p = p * t + 0.0785218552f;
    p = p * t + 0.110205546f;
    p = p * t + 0.119575612f;
    p = p * t + 0.119686484f;
    return (struct gelu_tail){(e.above + 1.0f) * e.power, t * p};
}

static void gelu_erf_fast(float *out, const float *x, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float v = fast_at_least(x[i], -GELU_EDGE);
        struct gelu_tail tail = gelu_tail_of(fast_at_most(fabsf(v), GELU_EDGE));
        float left = v * tail.share * tail.fall, right = v * (1.0f - tail.share * tail.fall);
        out[i] = v < 0.0f ? left : right;
    }
}

static void gelu_erf_slope_fast(float *dx, const float *x, const float *dout, size_t count)
{
    const float root_two_pi_inverse = 0.39894228040143268f;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float v = fast_at_most(fast_at_least(x[i], -GELU_EDGE), GELU_EDGE);
        struct gelu_tail tail = gelu_tail_of(fabsf(v));
        float above = tail.share * tail.fall, below = v < 0.0f ? above : 1.0f - above;
        dx[i] = dout[i] * (below + v * root_two_pi_inverse * tail.fall);
    }
}

/* log of the sum of exponentials of a row, its parts. */
struct row_power {
    double most, sum;
};

static struct row_power row_power_of(const float *x, int64_t classes)
{
    struct row_power row = {(double)fast_row_max(x, classes), 0};
    const double most = row.most;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < classes; i++)
        sum += fast_exp_double((double)x[i] - most);
    row.sum = sum;
    return row;
}

/* log(sum of exp(x)) */
static double row_log(const struct row_power *row)
{
    return row->most + log(row->sum);
}

/* With e = exp(t - most of t): sum of e (t - s) by the sum of e, and the difference of both rows'
 * logs of sums. */
static double divergence_fast(const struct kernel_divergence *d)
{
    const float *s = d->student, *t = d->teacher;
    const double most = (double)fast_row_max(t, d->classes);
    double sum = 0, apart = 0;
#pragma omp simd reduction(+ : sum, apart)
    for (int64_t i = 0; i < d->classes; i++) {
        double e = fast_exp_double((double)t[i] - most), by = e * ((double)t[i] - (double)s[i]);
        sum += e;
        apart += e == 0 ? 0 : by;
    }
    const struct row_power student = row_power_of(s, d->classes), teacher = {most, sum};
    return apart / sum + (row_log(&student) - row_log(&teacher));
}

static void divergence_slope_fast(const struct kernel_divergence *d, float dloss, float *dstudent)
{
    const struct row_power student = row_power_of(d->student, d->classes);
    const struct row_power teacher = row_power_of(d->teacher, d->classes);
    const float *s = d->student, *t = d->teacher;
    const double q_share = (double)dloss / student.sum, p_share = (double)dloss / teacher.sum;
    const double q_most = student.most, p_most = teacher.most;
#pragma omp simd
    for (int64_t i = 0; i < d->classes; i++) {
        double q = q_share * fast_exp_double((double)s[i] - q_most);
        dstudent[i] = (float)(q - p_share * fast_exp_double((double)t[i] - p_most));
    }
}

const struct curve_kernels KERNEL_FAST_CURVES = {
    .tanh = tanh_fast,
    .sigmoid = sigmoid_fast,
    .softplus_rest = softplus_rest_fast,
    .silu = silu_fast,
    .gelu_erf = gelu_erf_fast,
    .silu_slope = silu_slope_fast,
    .gelu_erf_slope = gelu_erf_slope_fast,
    .divergence = divergence_fast,
    .divergence_slope = divergence_slope_fast,
};
