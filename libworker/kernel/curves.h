/* Functions of one element and their slopes, and the divergence of two softmaxes. Part of the
 * kernel table; the plain ones (cpu/reference_curves.c) are libm's in double.
 *
 * Constant tables, any thread; nothing fails. `out` may be x, and `dx` may be `dout` or x (in
 * place). NaN stays NaN. No function of the C library decides a bit, as its own differ between CPUs
 * with and without FMA. So a table computes the same on all CPUs that can run it.
 *
 * Accuracy, of the exact value, for all floats (tests/numeric/nn/test_curves.c). One unit is 2^-24,
 * half the distance from 1 to the next float. What is below 2^-118 may be 0.
 *
 *     tanh 4    sigmoid 4    softplus_rest 5    silu 5    gelu_erf 10
 *     slopes of silu and gelu_erf: 6 and 10, relative to the sum of their two terms' sizes
 */
#ifndef KERNEL_CURVES_H
#define KERNEL_CURVES_H

#include <stddef.h>
#include <stdint.h>

/* out[count] from x[count]. */
typedef void curve_fn(float *out, const float *x, size_t count);
/* dx[count] = dout * the slope at x. */
typedef void curve_slope_fn(float *dx, const float *x, const float *dout, size_t count);

/* One row of logits [classes], at least one, of a student and of a teacher. */
struct kernel_divergence {
    int64_t classes;
    const float *student, *teacher;
};

struct curve_kernels {
    curve_fn *tanh, *sigmoid;

    /* log(1 + exp(-|x|)): what softplus, log(1 + exp(x)), is above max(x, 0). */
    curve_fn *softplus_rest;

    /* SiLU, x sigmoid(x) (Elfwing et al. 2017), and GELU by the normal distribution's function
     * (Hendrycks and Gimpel 2016). Both and their slopes are 0 at minus infinity. */
    curve_fn *silu, *gelu_erf;
    curve_slope_fn *silu_slope, *gelu_erf_slope;

    /* The sum of p (log p - log q) over the classes, p and q being the softmaxes of teacher and
     * student (Kullback and Leibler 1951). A class without any chance for the teacher adds nothing.
     * In double, within 2^-40 of the largest difference of logits. */
    double (*divergence)(const struct kernel_divergence *divergence);
    /* dstudent[classes] = dloss * (q - p). */
    void (*divergence_slope)(const struct kernel_divergence *divergence, float dloss,
                             float *dstudent);
};

#endif
