/* The layers of our models, for a program's own passes (worker/parallel.h). They are pure functions
 * on the program's memory and use the kernels that are fast on this CPU.
 *
 * Everything is float and row-major; sizes are elements. A layer is a struct of its sizes and of
 * pointers to its parameters and their gradients, usually wk_parameter_data and wk_parameter_grad
 * of this pass. A backward call takes all it needs from its forward call as arguments; nothing is
 * kept between calls. Outputs, also dx, are overwritten; parameter gradients are added to. Buffers
 * do not overlap. A bias may be NULL. In linear and convolution `dx` and `dbias` may be NULL.
 *
 * Any thread. The order of sums depends on the sizes only, so the same call produces the same bits
 * on the same CPU. Calls return 0, WK_EINVAL for invalid sizes, tokens or targets, or WK_ENOMEM. On
 * failure nothing was written, and wk_last_error(NULL) has the sentence.
 */
#ifndef WORKER_LAYERS_H
#define WORKER_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* y[rows, out] = x[rows, in] weight + bias; weight[in, out], or [out, in] if `turned`. */
struct wk_linear {
    int64_t in, out;
    bool turned;
    const float *weight, *bias;
    float *dweight, *dbias;
};
WK_API int wk_linear_forward(const struct wk_linear *linear, float *y, const float *x,
                             int64_t rows);
WK_API int wk_linear_backward(const struct wk_linear *linear, float *dx, const float *x,
                              const float *dy, int64_t rows);

/* y[i] = table[tokens[i]] + positions[i % length], rows of `width`. */
struct wk_embedding {
    int64_t vocab, width, length;
    const float *table;     /* [vocab, width] */
    const float *positions; /* [length, width]; NULL: none */
    float *dtable, *dpositions;
};
WK_API int wk_embedding_forward(const struct wk_embedding *embedding, float *y,
                                const int32_t *tokens, int64_t count);
WK_API int wk_embedding_backward(const struct wk_embedding *embedding, const int32_t *tokens,
                                 const float *dy, int64_t count);

/* Layer norm over rows of `width` (Ba et al. 2016). Without a bias it is RMS norm (Zhang and
 * Sennrich 2019), which subtracts no mean. */
struct wk_norm {
    int64_t width;
    double epsilon; /* 1e-5; > 0 */
    const float *weight, *bias;
    float *dweight, *dbias;
    float *mean, *rstd; /* [rows] each, written forward and read backward; the program's */
};
WK_API int wk_norm_forward(const struct wk_norm *norm, float *y, const float *x, int64_t rows);
WK_API int wk_norm_backward(const struct wk_norm *norm, float *dx, const float *x, const float *dy,
                            int64_t rows);

/* Causal attention (Vaswani et al. 2017): out[samples, length, heads * size] of qkv[samples,
 * length, (heads + 2 kv_heads) * size], with queries, keys and values side by side. `heads` queries
 * share `kv_heads` keys and values (Ainslie et al. 2023), each of `size`. */
struct wk_attention {
    int64_t samples, length, heads, kv_heads, size;
    float *probs; /* [samples, heads, length, length], written forward and read backward */
};
WK_API int wk_attention_forward(const struct wk_attention *attention, float *out, const float *qkv);
WK_API int wk_attention_backward(const struct wk_attention *attention, float *dqkv,
                                 const float *qkv, const float *dout);

/* Rotary positions (Su et al. 2021) in the convention of HuggingFace's Llama. Rotates in place the
 * first `heads` vectors of `size` in each row of x[rows, stride]. Row r uses the angles of r %
 * length. `back` rotates the other way, which is the backward pass. */
struct wk_rope {
    int64_t length, heads, size, stride;
    const float *cos, *sin; /* [length, size / 2] */
};
WK_API int wk_rope(const struct wk_rope *rope, float *x, int64_t rows, bool back);

/* Fill its tables once. Position p rotates pair i by p theta^(-2 i / size); theta is usually 10000.
 */
WK_API void wk_rope_angles(float *cos, float *sin, int64_t length, int64_t size, double theta);

/* GELU by the tanh formula (Hendrycks and Gimpel 2016). */
WK_API void wk_gelu_forward(float *y, const float *x, size_t count);
WK_API void wk_gelu_backward(float *dx, const float *x, const float *dy, size_t count);

/* SwiGLU (Shazeer 2020): y[rows, inner] = gate * sigmoid(gate) * up of x[rows, 2 * inner], which
 * has gate and up side by side. dx has the shape of x. */
WK_API void wk_swiglu_forward(float *y, const float *x, int64_t rows, int64_t inner);
WK_API void wk_swiglu_backward(float *dx, const float *x, const float *dy, int64_t rows,
                               int64_t inner);

/* Two-dimensional convolution: y[samples, out, height', width'] of x[samples, channels, height,
 * width] and weight[out, channels, kernel, kernel], as torch's, zeros around the image. */
struct wk_conv {
    int64_t samples, channels, height, width;
    int64_t out, kernel, stride, padding;
    const float *weight, *bias;
    float *dweight, *dbias;
};
/* height' and width': (height + 2 padding - kernel) / stride + 1. */
WK_API int wk_conv_size(const struct wk_conv *conv, int64_t *ret_height, int64_t *ret_width);
WK_API int wk_conv_forward(const struct wk_conv *conv, float *y, const float *x);
WK_API int wk_conv_backward(const struct wk_conv *conv, float *dx, const float *x, const float *dy);

/* Softmax and cross-entropy of x[rows, classes], in place. Forward turns logits into probabilities
 * and returns the sum of the rows' losses. Backward turns the probabilities into the logits'
 * gradient, times `scale`. For a mean over a global batch use scale = 1 / denominator.
 *
 * A target of WK_IGNORED (worker/nn.h) does not count. A share `smoothing` of each other target is
 * spread over all classes.
 */
struct wk_cross_entropy {
    int64_t rows, classes;
    const int32_t *targets; /* [rows] */
    double smoothing;       /* in [0, 1) */
};
WK_API int wk_cross_entropy_forward(const struct wk_cross_entropy *entropy, float *x,
                                    double *ret_loss);
WK_API int wk_cross_entropy_backward(const struct wk_cross_entropy *entropy, float *x,
                                     double scale);

/* The sum of squares of difference = x - target; back dx = 2 * scale * difference. */
WK_API double wk_square_loss_forward(float *difference, const float *x, const float *target,
                                     size_t count);
WK_API void wk_square_loss_backward(float *dx, const float *difference, double scale, size_t count);

#ifdef __cplusplus
}
#endif

#endif
