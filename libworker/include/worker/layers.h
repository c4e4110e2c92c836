/* The layers that our models are made of, for passes of the program's own (worker/parallel.h): pure
 * functions on the program's memory, with the kernels that are fast on this CPU.
 *
 * Everything is float and row-major; sizes are elements. A layer is a struct of its sizes and of
 * where its parameters and their gradients lie, usually wk_parameter_data and wk_parameter_grad of
 * this pass. Nothing is kept between calls: what a backward call needs of its forward call stands
 * among its arguments. Outputs are overwritten, dx among them; gradients of parameters are added
 * to. Buffers do not overlap. A bias is NULL where there is none; in linear and convolution `dx`
 * and `dbias` are NULL where they are not wanted.
 *
 * Any thread; sums are taken in an order that follows from the sizes, so the same call gives the
 * same bits on the same CPU. Calls return 0, WK_EINVAL for sizes, tokens or targets that cannot be,
 * or WK_ENOMEM; wk_last_error(NULL) has the sentence, and nothing was written then.
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

/* Layer norm over rows of `width` (Ba et al. 2016); without a bias RMS norm (Zhang and Sennrich
 * 2019), which takes no mean off. */
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

/* Causal attention (Vaswani et al. 2017) of `heads` queries, which share `kv_heads` keys and values
 * (Ainslie et al. 2023), each of `size`: out[samples, length, heads * size] of qkv[samples, length,
 * (heads + 2 kv_heads) * size], queries, keys and values side by side. */
struct wk_attention {
    int64_t samples, length, heads, kv_heads, size;
    float *probs; /* [samples, heads, length, length], written forward and read backward */
};
WK_API int wk_attention_forward(const struct wk_attention *attention, float *out, const float *qkv);
WK_API int wk_attention_backward(const struct wk_attention *attention, float *dqkv,
                                 const float *qkv, const float *dout);

/* Rotary positions (Su et al. 2021) as HuggingFace's Llama has them: turns the first `heads`
 * vectors of `size` in each row of x[rows, stride], in place, row r by the angles of r % length;
 * `back` turns the other way, which is the backward pass. */
struct wk_rope {
    int64_t length, heads, size, stride;
    const float *cos, *sin; /* [length, size / 2] */
};
WK_API int wk_rope(const struct wk_rope *rope, float *x, int64_t rows, bool back);

/* Its tables, once: position p turns pair i by p theta^(-2 i / size); theta is 10000 usually. */
WK_API void wk_rope_angles(float *cos, float *sin, int64_t length, int64_t size, double theta);

/* GELU by the tanh formula (Hendrycks and Gimpel 2016). */
WK_API void wk_gelu_forward(float *y, const float *x, size_t count);
WK_API void wk_gelu_backward(float *dx, const float *x, const float *dy, size_t count);

/* SwiGLU (Shazeer 2020): y[rows, inner] = gate * sigmoid(gate) * up of x[rows, 2 * inner], which
 * has gate and up side by side; dx as x. */
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

/* Softmax and cross-entropy of x[rows, classes], in place: forward makes probabilities of logits
 * and gives the rows' losses summed; backward makes the logits' gradient, times `scale`, of those.
 * A target of WK_IGNORED (worker/nn.h) counts nothing; a share `smoothing` of the others is spread
 * over all classes. The gradient of a mean over a global batch is that of scale = 1 / denominator.
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
