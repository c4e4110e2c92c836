/* Losses of each element or row. */
#include <math.h>

#include "tests/numeric/graph/harness.h"

static struct wk_tensor *squared_error(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return wk_op_squared_error(in[0], in[1]);
}

static void squared_error_reference(const struct reference *r)
{
    for (int64_t i = 0; i < r->call->out[0].count; i++)
        r->out[i] = (r->in[0][i] - r->in[1][i]) * (r->in[0][i] - r->in[1][i]);
}

static struct wk_tensor *binary(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return wk_op_binary_cross_entropy(in[0], in[1]);
}

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* -t log s(x) - (1 - t) log s(-x). */
static void binary_reference(const struct reference *r)
{
    for (int64_t i = 0; i < r->call->out[0].count; i++) {
        double x = r->in[0][i], t = r->in[1][i];
        r->out[i] = t * softplus(-x) + (1 - t) * softplus(x);
    }
}

static struct wk_tensor *kl_divergence(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return wk_op_kl_divergence(in[0], in[1]);
}

static double log_sum(const double *x, int64_t n)
{
    double sum = 0, most = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i] - most);
    return most + log(sum);
}

static void kl_divergence_reference(const struct reference *r)
{
    int64_t n = r->call->in[0].shape[r->call->in[0].dims - 1];
    for (int64_t i = 0; i < r->call->out[0].count; i++) {
        const double *student = r->in[0] + i * n, *teacher = r->in[1] + i * n;
        double q = log_sum(student, n), p = log_sum(teacher, n);
        for (int64_t k = 0; k < n; k++)
            r->out[i] += exp(teacher[k] - p) * (teacher[k] - p - student[k] + q);
    }
}

#define ROW  WK_SHAPE(WK_SAMPLES, WK_LENGTH, 7)
#define LONG WK_SHAPE(WK_SAMPLES, 2100)

const struct op_case cases_losses[] = {
    {"squared_error", "small", squared_error, .in = {{ROW}, {ROW}},
     .reference = squared_error_reference},
    {"squared_error", "above a tile", squared_error, .in = {{LONG}, {LONG}},
     .reference = squared_error_reference},
    {"binary_cross_entropy", "small", binary, .in = {{ROW}, {ROW, FILL_SHARE}},
     .reference = binary_reference},
    {"binary_cross_entropy", "extreme", binary, .in = {{ROW, FILL_EXTREME}, {ROW, FILL_SHARE}},
     .reference = binary_reference},
    {"kl_divergence", "small", kl_divergence, .in = {{ROW}, {ROW}},
     .reference = kl_divergence_reference},
    {"kl_divergence", "extreme", kl_divergence, .in = {{ROW, FILL_EXTREME}, {ROW}},
     .reference = kl_divergence_reference},
    {"kl_divergence", "above a tile", kl_divergence, .in = {{LONG}, {LONG}},
     .reference = kl_divergence_reference},
    {0},
};
