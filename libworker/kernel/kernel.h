/* The table of operations for models and optimizers. A back end is one such table; all of them pass
 * the same tests against the plain kernels (cpu/reference.c). A device's memory and copies are
 * outside this table.
 *
 * Tables are constant and shared by all threads. Matrices are row-major float32 in the back end's
 * memory; sizes are elements. Outputs must not overlap inputs except where "in place" is stated. No
 * kernel fails: the caller checks sizes, and 0 rows are allowed. NaN and infinity pass through.
 */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/types.h>

/* c[m, n] = alpha * op(a)[m, k] * op(b)[k, n] + beta * c; lda, ldb, ldc are row strides. beta 0
 * does not read c.
 */
struct kernel_gemm {
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    float alpha, beta;
    const float *a, *b;
    float *c;
    int64_t lda, ldb, ldc;
};

/* A back end's additional data for products (a library's handle, prepared plans, tiles); its own
 * type. One thread at a time. */
struct kernel_room;

/* Like kernel_gemm with bf16 or f16 factors: c[m, n] = op(a) op(b), added to c if `add`. Sums are
 * in float, so back ends differ only by their order. */
struct kernel_gemm_low {
    bool transpose_a, transpose_b, add;
    enum wk_dtype type; /* WK_BF16 or WK_F16 */
    int64_t m, n, k;
    const uint16_t *a, *b;
    float *c;
    int64_t lda, ldb, ldc;
};

/* Layer norm over the last dimension of x[rows, width] (Ba et al. 2016), or RMS norm (Zhang and
 * Sennrich 2019), which has no mean and no bias.
 */
struct kernel_norm {
    int64_t rows, width;
    float epsilon;
    const float *x;      /* [rows, width] */
    const float *weight; /* [width] */
    const float *bias;   /* [width]; unused backward */
    float *mean, *rstd;  /* [rows], written forward, read backward */
};

/* Rows of attention scores: row i is position first + i of its sequence and sees the first first +
 * i + 1 of `cols` entries. Rows are `ld` apart; probabilities are softmax(scale * scores). */
struct kernel_causal {
    int64_t first, rows, cols, ld;
    float scale;
};

/* Rotation by position-dependent angles, in place. x[rows, stride], row r at position r % length,
 * has `heads` vectors of `size` side by side. Elements i and i + size / 2 are rotated by angle
 * [position, i]. Source: Su et al. 2021, in the layout of HuggingFace's Llama. */
struct kernel_rope {
    int64_t rows, length, heads, size, stride;
    const float *cos, *sin; /* [length, size / 2] */
    bool back;              /* by the opposite angles, which is the backward pass */
};

/* logits[rows, vocab] against targets[rows]; a negative target is left out. A share `smoothing` of
 * the target is spread evenly over the vocabulary (Szegedy et al. 2016, section 7). */
struct kernel_entropy {
    int64_t rows, vocab;
    const int32_t *targets;
    float smoothing;
};

/* Windows of an image [channels, height, width] side by side: [channels * kernel * kernel,
 * out_height * out_width] with rows `ld` apart. Zeros outside the image. */
struct kernel_windows {
    int64_t channels, height, width, kernel, stride, padding, ld;
};

/* What an optimizer's kernel works on, all [count]. */
struct kernel_update {
    float *params;
    const float *grads;
    float *state[2];    /* Adam: first and second moment; SGD: momentum, NULL without one */
    uint16_t *low;      /* the parameters after it in `type`, past the caches; NULL: not wanted */
    enum wk_dtype type; /* WK_BF16 or WK_F16 */
    size_t count;
};

/* One Adam update; bias corrections are precomputed: step_size = rate / (1 - beta1^t), inv_root2 =
 * 1 / sqrt(1 - beta2^t). Decay is decoupled, keep = 1 - rate * weight_decay, or l2 * parameter is
 * added to the gradient.
 */
struct kernel_adamw {
    float beta1, beta2, epsilon, step_size, inv_root2, keep, grad_scale, l2;
};

/* Source: Chen et al. 2023, algorithm 2; state[0] is the momentum. */
struct kernel_lion {
    float beta1, beta2, rate, keep, grad_scale;
};

/* A second moment kept as means over rows and columns of grads[rows, cols] * grad_scale. A vector
 * is a matrix of one row without `row`. Source: Shazeer and Stern 2018, algorithm 4.
 */
struct kernel_factored {
    int64_t rows, cols;
    const float *grads;
    float *row, *col; /* [rows] or NULL, [cols] */
    float grad_scale;
};

struct kernel_blend {
    float a, b;
};

struct kernel_sgd {
    float rate, momentum, weight_decay, grad_scale;
    bool nesterov;
    bool first; /* the momentum buffer gets the gradient itself */
};

struct kernel_table {
    const char *name; /* "reference", "cpu-avx2" … */

    void (*gemm)(const struct kernel_gemm *gemm);

    /* Room for gemm_low, freed with room_free (NULL is fine); NULL when there is no memory. */
    struct kernel_room *(*room_new)(void);
    void (*room_free)(struct kernel_room *room);
    void (*gemm_low)(struct kernel_room *room, const struct kernel_gemm_low *gemm);

    /* out[rows, cols] = bias[cols] in each row. */
    void (*bias_fill)(float *out, const float *bias, int64_t rows, int64_t cols);
    /* dbias[cols] += sum over rows of dout[rows, cols]. */
    void (*bias_backward)(float *dbias, const float *dout, int64_t rows, int64_t cols);

    /* x[i] = value / y[i] += x[i] / x[i] *= factor / sum of x[i]^2 in double, same order every
     * time. */
    void (*fill)(float *x, float value, size_t count);
    void (*add)(float *y, const float *x, size_t count);
    void (*scale)(float *x, float factor, size_t count);
    double (*sum_squares)(const float *x, size_t count);

    /* out[rows, width] = (x - mean) * rstd * weight + bias. */
    void (*norm_forward)(const struct kernel_norm *norm, float *out);
    /* dx[rows, width] += …, dweight[width] += …, dbias[width] += …. */
    void (*norm_backward)(const struct kernel_norm *norm, const float *dout, float *dx,
                          float *dweight, float *dbias);

    /* out[rows, width] = x * rstd * weight, rstd = 1 / sqrt(mean of x^2 + epsilon); and its
     * backward. */
    void (*rms_forward)(const struct kernel_norm *norm, float *out);
    void (*rms_backward)(const struct kernel_norm *norm, const float *dout, float *dx,
                         float *dweight);

    void (*rope)(const struct kernel_rope *rope, float *x);

    /* SwiGLU (Shazeer 2020): x[rows, 2 * inner] has gate and up side by side; out[rows, inner] =
     * gate * sigmoid(gate) * up; dx has the shape of x. */
    void (*swiglu_forward)(float *out, const float *x, int64_t rows, int64_t inner);
    void (*swiglu_backward)(float *dx, const float *x, const float *dout, const int64_t size[2]);

    /* GELU by the tanh formula (Hendrycks and Gimpel 2016): out = gelu(x); dx = dout * gelu'(x),
     * for which dx may be dout (in place). At minus infinity both are 0, as SiLU's are.
     */
    void (*gelu_forward)(float *out, const float *x, size_t count);
    void (*gelu_backward)(float *dx, const float *x, const float *dout, size_t count);

    /* In place: scores become probabilities, zeros right of the mask up to `cols`. */
    void (*softmax_causal)(const struct kernel_causal *causal, float *scores);
    /* In place: dprobs becomes the gradient of the scores before scaling, zero where masked. */
    void (*softmax_causal_backward)(const struct kernel_causal *causal, float *dprobs,
                                    const float *probs);
    const struct attention_kernels *attention; /* in tiles: kernel/attention.h */
    const struct curve_kernels *curves;        /* functions of one element: kernel/curves.h */

    /* In place: logits become probabilities; returns the rows' losses summed. */
    double (*cross_entropy_forward)(const struct kernel_entropy *entropy, float *logits);
    /* In place: probabilities become the gradient of the logits times scale. */
    void (*cross_entropy_backward)(const struct kernel_entropy *entropy, float *probs, float scale);

    /* out[row] = table[index[row]] + positions[row % length] (rows of width floats); positions may
     * be NULL in both. */
    void (*embedding_forward)(float *out, const int32_t *index, const float *table,
                              const float *positions, const int64_t size[3]);
    /* dtable[index[row]] += dout[row], dpositions[row % length] += dout[row], in order of rows.
     * size is {rows, length, width} in both.
     */
    void (*embedding_backward)(float *dtable, float *dpositions, const int32_t *index,
                               const float *dout, const int64_t size[3]);

    /* cols from image; backward, image += cols at the same places, of which others may change. */
    void (*windows_forward)(const struct kernel_windows *windows, float *cols, const float *image);
    void (*windows_backward)(const struct kernel_windows *windows, float *image, float *cols);

    void (*adamw)(const struct kernel_adamw *adamw, const struct kernel_update *update);
    void (*sgd)(const struct kernel_sgd *sgd, const struct kernel_update *update);
    void (*lion)(const struct kernel_lion *lion, const struct kernel_update *update);

    /* row, col = decay * themselves + (1 - decay) * means of squared gradients + epsilon. */
    void (*factored_moments)(const struct kernel_factored *factored, float decay, float epsilon);
    /* Sum of squares of u[i, j] = gradient * rows[i] * cols[j]; params = params * keep - step * u.
     */
    double (*factored_squares)(const struct kernel_factored *factored, const float *rows,
                               const float *cols);
    void (*factored_apply)(const struct kernel_factored *factored, const float *rows,
                           const float *cols, const struct kernel_blend *keep_step, float *params);
    /* out = a * x + b * y; out may be x or y. */
    void (*blend)(float *out, const struct kernel_blend *blend, const float *x, const float *y,
                  size_t count);

    /* In place: x[i] becomes 0 with chance 1 - keep, else x[i] / keep; which of them depends on
     * (key, i) only. Source: Srivastava et al. 2014. */
    void (*dropout)(float *x, size_t count, uint64_t key, float keep);

    /* out = x in bf16 or f16, to nearest even. */
    void (*narrow)(uint16_t *out, enum wk_dtype type, const float *x, size_t count);
    /* The same bypassing the caches, for data that is not read soon. */
    void (*narrow_stream)(uint16_t *out, enum wk_dtype type, const float *x, size_t count);
    /* out = x in float. */
    void (*widen)(float *out, enum wk_dtype type, const uint16_t *x, size_t count);
};

/* The plain kernels: one obvious loop each, sums in double. What the others are checked against. */
const struct kernel_table *kernel_reference(void);

/* The fast kernels for this machine's best instruction set, or the table that the environment names
 * in this variable; an unknown name is ignored. */
#define KERNEL_VARIABLE "MUSTER_KERNELS"
const struct kernel_table *kernel_cpu(void);

/* The table of that name; NULL if this machine has none. */
const struct kernel_table *kernel_named(const char *name);

/* The widest vector instructions that this machine and its system can run, each including those
 * before it. */
enum kernel_simd { KERNEL_SSE, KERNEL_AVX, KERNEL_AVX2, KERNEL_AVX512 };
enum kernel_simd kernel_simd(void);

/* A sentence for the user if the library for products in float chose kernels of narrower
 * instructions than `simd`, with the variable to set. "" if it did not, or if the user has chosen
 * them (OPENBLAS_CORETYPE is set). */
enum { KERNEL_ADVICE_MAX = 320 };
void kernel_advice(enum kernel_simd simd, char ret[KERNEL_ADVICE_MAX]);

/* Let the library for products allocate its permanent memory, before memory is measured or short.
 * OpenBLAS allocates 128 MiB for each of its threads and at the first large product, and retries
 * for ever if refused. Not while another thread multiplies. WK_ENOMEM. */
int kernel_warm(const struct kernel_table *kernels);

/* Every table this machine can run, `reference` first and the best last; NULL past the last. A
 * machine that can run one can run those before it, and they are the same everywhere. */
const struct kernel_table *kernel_cpu_variant(int i);

#endif
