/* The plain functions of one element: libm's, in double. */
#include <math.h>

#include "libworker/kernel/cpu/curves.h"

static const double ROOT_HALF = 0.70710678118654752440;
static const double ROOT_TWO_PI_INVERSE = 0.39894228040143267794;

/* x * s, if s approaches 0 faster than x infinity. */
static double share_of(double x, double s)
{
    return s > 0 || isnan(s) ? x * s : 0;
}

static void tanh_plain(float *out, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)tanh((double)x[i]);
}

static double sigmoid_of(double x)
{
    return 1 / (1 + exp(-x));
}

static void sigmoid_plain(float *out, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)sigmoid_of((double)x[i]);
}

static void silu_plain(float *out, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)share_of((double)x[i], sigmoid_of((double)x[i]));
}

static void silu_slope_plain(float *dx, const float *x, const float *dout, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double v = (double)x[i], s = sigmoid_of(v), bend = s * sigmoid_of(-v);
        dx[i] = (float)((double)dout[i] * (s + share_of(v, bend)));
    }
}

static void softplus_rest_plain(float *out, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)log1p(exp(-fabs((double)x[i])));
}

/* The share of a normal distribution that is below x. */
static double below(double x)
{
    return 0.5 * erfc(-x * ROOT_HALF);
}

static void gelu_erf_plain(float *out, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)share_of((double)x[i], below((double)x[i]));
}

static void gelu_erf_slope_plain(float *dx, const float *x, const float *dout, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double v = (double)x[i], density = ROOT_TWO_PI_INVERSE * exp(-0.5 * v * v);
        dx[i] = (float)((double)dout[i] * (below(v) + share_of(v, density)));
    }
}

/* log(sum of exp(x)), from the largest, which no power exceeds. */
static double log_sum(const float *x, int64_t classes)
{
    double most = (double)x[0];
    for (int64_t i = 1; i < classes; i++)
        most = (double)x[i] > most ? (double)x[i] : most;
    double sum = exp((double)x[0] - most);
    for (int64_t i = 1; i < classes; i++)
        sum += exp((double)x[i] - most);
    return most + log(sum);
}

static double divergence_plain(const struct kernel_divergence *d)
{
    double q = log_sum(d->student, d->classes), p = log_sum(d->teacher, d->classes), sum = 0;
    for (int64_t i = 0; i < d->classes; i++) {
        double log_p = (double)d->teacher[i] - p, share = exp(log_p);
        if (share != 0)
            sum += share * (log_p - ((double)d->student[i] - q));
    }
    return sum;
}

static void divergence_slope_plain(const struct kernel_divergence *d, float dloss, float *dstudent)
{
    double q = log_sum(d->student, d->classes), p = log_sum(d->teacher, d->classes);
    for (int64_t i = 0; i < d->classes; i++)
        dstudent[i] = (float)((double)dloss *
                              (exp((double)d->student[i] - q) - exp((double)d->teacher[i] - p)));
}

const struct curve_kernels curves_reference = {
    .tanh = tanh_plain,
    .sigmoid = sigmoid_plain,
    .softplus_rest = softplus_rest_plain,
    .silu = silu_plain,
    .gelu_erf = gelu_erf_plain,
    .silu_slope = silu_slope_plain,
    .gelu_erf_slope = gelu_erf_slope_plain,
    .divergence = divergence_plain,
    .divergence_slope = divergence_slope_plain,
};
