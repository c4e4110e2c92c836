/* Functions of one element and their slopes. NaN stays NaN; SiLU, both GELUs and their slopes are 0
 * at minus infinity. They are computed in f32, with the functions of CUDA's library within 2 units
 * of the last place.
 *
 * Bytes that one element moves, values of v bytes: forward v + v; backward v + 4 + 4, 4 more where
 * it adds; scale's backward 4 + 4. A dx in bf16 or f16 is 2 instead of 4.
 */
#ifndef CUDA_KERNELS_CURVE_H
#define CUDA_KERNELS_CURVE_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

enum gpu_curve_kind {
    CURVE_RELU,       /* backward reads its result, as that of leaky_relu, tanh and sigmoid */
    CURVE_LEAKY_RELU, /* `number` is the slope below 0 */
    CURVE_SCALE,      /* by `number`; backward reads no value */
    CURVE_TANH,
    CURVE_SIGMOID,
    CURVE_SILU, /* backward reads its input, as those of the GELUs */
    CURVE_GELU, /* by the tanh formula */
    CURVE_GELU_ERF,
};

struct gpu_curve {
    enum gpu_curve_kind kind;
    float number;
    int64_t count;
    enum wk_dtype
        low; /* the type of dx, which is not added to then; WK_F32: it is a gradient in f32 */
};

/* out = curve(x); out may be x. */
void gpu_curve_forward(const struct gpu_curve *curve, struct gpu_value out, struct gpu_value x,
                       cudaStream_t stream);
/* dx = or += dout * the slope at `kept`, the input or the result. */
void gpu_curve_backward(const struct gpu_curve *curve, struct gpu_gradient dx,
                        struct gpu_value kept, const float *dout, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
