/* The fast CPU kernels: plain loops that both compilers turn into vector code. Each is checked
 * against the kernel of the same name in reference.c by tests/numeric/nn/kernels.c.
 *
 * Built once per instruction set with KERNEL_FAST_TABLE naming the table (cpu.h). `omp simd` only
 * permits reordering a reduction; there are no threads.
 */
/* GCC otherwise computes the ends of a clamp separately, and for every lane. Where an end is
 * denormal, each vector then costs a hundred cycles (GELU took 8 times as long). */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-thread-jumps")
#endif

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/kernel/cpu/attention_tiles.h"
#include "libworker/kernel/cpu/blas.h"
#include "libworker/kernel/cpu/cpu.h"
#include "libworker/kernel/cpu/curves.h"
#include "libworker/kernel/cpu/fast_few.h"
#include "libworker/kernel/cpu/fast_layers.h"
#include "libworker/kernel/cpu/fast_math.h"
#include "libworker/kernel/cpu/fast_stream.h"
#include "libworker/kernel/cpu/fast_update.h"
#include "libworker/kernel/cpu/fast_windows.h"
#include "libworker/kernel/cpu/onednn.h"

/* The product without a BLAS: panels of op(b) are copied so that the innermost loop runs along rows
 * for every transposition. They stay in the second-level cache while all rows of c pass. */
enum { PANEL_K = 64, PANEL_N = 256 };

static void copy_panel(const struct kernel_gemm *g, int64_t l0, int64_t j0, const int64_t size[2],
                       float panel[PANEL_K][PANEL_N])
{
    for (int64_t l = 0; l < size[0]; l++) {
        for (int64_t j = 0; j < size[1]; j++)
            panel[l][j] = g->transpose_b ? g->b[(j0 + j) * g->ldb + l0 + l]
                                         : g->b[(l0 + l) * g->ldb + j0 + j];
    }
}

static void add_panel(const struct kernel_gemm *g, int64_t l0, int64_t j0, const int64_t size[2],
                      float panel[PANEL_K][PANEL_N])
{
    for (int64_t i = 0; i < g->m; i++) {
        float *restrict c = g->c + i * g->ldc + j0;
        for (int64_t l = 0; l < size[0]; l++) {
            float a = g->alpha *
                      (g->transpose_a ? g->a[(l0 + l) * g->lda + i] : g->a[i * g->lda + l0 + l]);
            const float *restrict b = panel[l];
            for (int64_t j = 0; j < size[1]; j++)
                c[j] += a * b[j];
        }
    }
}

static void gemm_without_blas(const struct kernel_gemm *g)
{
    float panel[PANEL_K][PANEL_N];
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->n; j++)
            g->c[i * g->ldc + j] = g->beta != 0 ? g->beta * g->c[i * g->ldc + j] : 0.0f;
    }
    for (int64_t j0 = 0; j0 < g->n; j0 += PANEL_N) {
        for (int64_t l0 = 0; l0 < g->k; l0 += PANEL_K) {
            int64_t size[2] = {g->k - l0 < PANEL_K ? g->k - l0 : PANEL_K,
                               g->n - j0 < PANEL_N ? g->n - j0 : PANEL_N};
            copy_panel(g, l0, j0, size, panel);
            add_panel(g, l0, j0, size, panel);
        }
    }
}

static void gemm(const struct kernel_gemm *g)
{
    if (g->m <= 0 || g->n <= 0)
        return;
    if (KERNEL_FAST_WITHOUT_BLAS || !blas_gemm(g))
        gemm_without_blas(g);
}

/* Room for tiles of factors widened to float, and the library that multiplies bf16 as it is. */
enum { TILE_M = 512, TILE_N = 512, TILE_K = 256 };

struct kernel_room {
    struct onednn *library; /* NULL where it or the instruction is missing */
    float a[TILE_M * TILE_K], b[TILE_K * TILE_N];
};

static struct kernel_room *room_new(void)
{
    struct kernel_room *room = malloc(sizeof(*room));
    if (room)
        room->library = KERNEL_FAST_WITHOUT_BLAS ? NULL : onednn_new();
    return room;
}

static void room_free(struct kernel_room *room)
{
    if (room)
        onednn_free(room->library);
    free(room);
}

/* out[rows, cols] without padding, from the part of a matrix that starts at x. */
static void widen_tile(float *out, const uint16_t *x, int64_t ld, const struct kernel_gemm_low *g,
                       const int64_t size[2])
{
    for (int64_t i = 0; i < size[0]; i++)
        widen(out + i * size[1], g->type, x + i * ld, (size_t)size[1]);
}

/* One tile of c, from b's tile in the room; size is {m, n, k} and at {i, j, l}. */
static void tile_product(struct kernel_room *room, const struct kernel_gemm_low *g,
                         const int64_t at[3], const int64_t size[3])
{
    bool turned = g->transpose_a;
    int64_t a_size[2] = {turned ? size[2] : size[0], turned ? size[0] : size[2]};
    const uint16_t *a = g->a + (turned ? at[2] * g->lda + at[0] : at[0] * g->lda + at[2]);
    widen_tile(room->a, a, g->lda, g, a_size);
    gemm(&(struct kernel_gemm){.transpose_a = turned,
                               .transpose_b = g->transpose_b,
                               .m = size[0],
                               .n = size[1],
                               .k = size[2],
                               .alpha = 1,
                               .beta = g->add || at[2] > 0 ? 1 : 0,
                               .a = room->a,
                               .lda = a_size[1],
                               .b = room->b,
                               .ldb = g->transpose_b ? size[2] : size[1],
                               .c = g->c + at[0] * g->ldc + at[1],
                               .ldc = g->ldc});
}

static int64_t at_most(int64_t left, int64_t most)
{
    return left < most ? left : most;
}

static void gemm_low(struct kernel_room *room, const struct kernel_gemm_low *g)
{
    if (g->m <= 0 || g->n <= 0 || (room->library && onednn_gemm(room->library, g)))
        return;
    if (few_rows(g)) {
        few_product(g, room->a, TILE_M * TILE_K / FEW_TURNED);
        return;
    }
    for (int64_t j = 0; j < g->n; j += TILE_N) {
        for (int64_t l = 0; l < g->k; l += TILE_K) {
            int64_t n = at_most(g->n - j, TILE_N), k = at_most(g->k - l, TILE_K);
            bool turned = g->transpose_b;
            const uint16_t *b = g->b + (turned ? j * g->ldb + l : l * g->ldb + j);
            widen_tile(room->b, b, g->ldb, g, (int64_t[]){turned ? n : k, turned ? k : n});
            for (int64_t i = 0; i < g->m; i += TILE_M)
                tile_product(room, g, (int64_t[]){i, j, l},
                             (int64_t[]){at_most(g->m - i, TILE_M), n, k});
        }
    }
}

static void bias_fill(float *out, const float *bias, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(out + r * cols, bias, (size_t)cols * sizeof(*out));
}

/* Four rows at a time: the sums are loaded and stored a quarter as often. */
static void bias_backward(float *restrict dbias, const float *restrict dout, int64_t rows,
                          int64_t cols)
{
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const float *d = dout + r * cols;
        for (int64_t i = 0; i < cols; i++)
            dbias[i] += (d[i] + d[cols + i]) + (d[2 * cols + i] + d[3 * cols + i]);
    }
    for (; r < rows; r++) {
        for (int64_t i = 0; i < cols; i++)
            dbias[i] += dout[r * cols + i];
    }
}

static void fill(float *x, float value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = value;
}

static void add(float *restrict y, const float *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] += x[i];
}

static void scale(float *x, float factor, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] *= factor;
}

/* A sum for each place in a block, so that no addition waits for the one before it and nothing is
 * added up between the requests.
 */
static double sum_squares(const float *x, size_t count)
{
    enum { BLOCK = 2 * STREAM_BLOCK, AHEAD = 2048 };
    double sums[BLOCK] = {0}, total = 0;
    size_t done = 0;
    for (; count - done >= BLOCK; done += BLOCK) {
        stream_ask(x + done, AHEAD, STREAM_FIRST);
        stream_ask(x + done + STREAM_BLOCK, AHEAD, STREAM_FIRST);
        for (size_t i = 0; i < BLOCK; i++)
            sums[i] += (double)x[done + i] * (double)x[done + i];
    }
    for (size_t i = 0; i < BLOCK; i++)
        total += sums[i];
    for (; done < count; done++)
        total += (double)x[done] * (double)x[done];
    return total;
}

static void norm_row(const float *restrict x, const struct kernel_norm *n, float *restrict out,
                     int64_t r)
{
    const float *restrict weight = n->weight;
    const float *restrict bias = n->bias;
    int64_t width = n->width;
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; i++)
        sum += x[i];
    float mean = sum / (float)width;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    float rstd = 1.0f / sqrtf(squares / (float)width + n->epsilon);
    for (int64_t i = 0; i < width; i++)
        out[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
    n->mean[r] = mean;
    n->rstd[r] = rstd;
}

static void norm_forward(const struct kernel_norm *n, float *out)
{
    for (int64_t r = 0; r < n->rows; r++)
        norm_row(n->x + r * n->width, n, out + r * n->width, r);
}

static void norm_backward(const struct kernel_norm *n, const float *dout, float *dx,
                          float *restrict dweight, float *restrict dbias)
{
    const float *restrict weight = n->weight;
    int64_t width = n->width;
    for (int64_t r = 0; r < n->rows; r++) {
        const float *restrict x = n->x + r * width;
        const float *restrict dy = dout + r * width;
        float *restrict d = dx + r * width;
        float mean = n->mean[r], rstd = n->rstd[r], sum_g = 0, sum_gx = 0;
#pragma omp simd reduction(+ : sum_g, sum_gx)
        for (int64_t i = 0; i < width; i++) {
            float g = dy[i] * weight[i];
            sum_g += g;
            sum_gx += g * (x[i] - mean);
        }
        float mean_g = sum_g / (float)width, mean_gx = sum_gx * rstd / (float)width;
        for (int64_t i = 0; i < width; i++) {
            float normal = (x[i] - mean) * rstd;
            d[i] += (dy[i] * weight[i] - mean_g - normal * mean_gx) * rstd;
            dweight[i] += dy[i] * normal;
            dbias[i] += dy[i];
        }
    }
}

/* 0.5 (1 + tanh(u)) is sigmoid(2u); u = sqrt(2 / pi) (x + 0.044715 x^3). */
static const float GELU_LINEAR = 1.5957691216057308f;
static const float GELU_CUBIC = 0.07135481282713793f;
static const float GELU_LOWEST = -10.06f, GELU_HIGHEST = 9.98f;

static inline float gelu_2u(float v)
{
    return v * (GELU_LINEAR + GELU_CUBIC * v * v);
}

static void gelu_forward(float *restrict out, const float *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float v = fast_at_least(x[i], GELU_LOWEST);
        out[i] = v * fast_sigmoid(gelu_2u(fast_at_most(v, GELU_HIGHEST))).value;
    }
}

/* dx may be dout, so the loop states that iterations are independent instead of `restrict`. */
static void gelu_backward(float *dx, const float *x, const float *dout, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float v = fast_at_most(fast_at_least(x[i], GELU_LOWEST), GELU_HIGHEST);
        struct fast_sigmoid s = fast_sigmoid(gelu_2u(v));
        float turn = v * (GELU_LINEAR + 3.0f * GELU_CUBIC * v * v);
        dx[i] = dout[i] * (s.value * (1.0f + s.rest * turn));
    }
}

/* row[count] becomes exp(factor * (row - max)), 0 where that is about denormal; returns the sum. */
static float exponentials(float *row, int64_t count, float factor, float max)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) {
        float u = factor * (row[i] - max), e = fast_exp(u);
        e = u < -87.0f ? 0.0f : e;
        row[i] = e;
        sum += e;
    }
    return sum;
}

/* Entries that row r sees. */
static int64_t seen_by(const struct kernel_causal *c, int64_t r)
{
    return c->first + r + 1 < c->cols ? c->first + r + 1 : c->cols;
}

static void softmax_causal(const struct kernel_causal *c, float *scores)
{
    for (int64_t r = 0; r < c->rows; r++) {
        float *row = scores + r * c->ld;
        int64_t seen = seen_by(c, r);
        float inverse = 1.0f / exponentials(row, seen, c->scale, fast_row_max(row, seen));
        for (int64_t i = 0; i < seen; i++)
            row[i] *= inverse;
        memset(row + seen, 0, (size_t)(c->cols - seen) * sizeof(*row));
    }
}

static void softmax_causal_backward(const struct kernel_causal *c, float *dprobs,
                                    const float *probs)
{
    const float factor = c->scale;
    for (int64_t r = 0; r < c->rows; r++) {
        float *restrict dp = dprobs + r * c->ld;
        const float *restrict p = probs + r * c->ld;
        int64_t seen = seen_by(c, r);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < seen; i++)
            sum += p[i] * dp[i];
        for (int64_t i = 0; i < seen; i++)
            dp[i] = factor * p[i] * (dp[i] - sum);
        memset(dp + seen, 0, (size_t)(c->cols - seen) * sizeof(*dp));
    }
}

static double cross_entropy_forward(const struct kernel_entropy *e, float *logits)
{
    double loss = 0;
    int64_t vocab = e->vocab;
    for (int64_t r = 0; r < e->rows; r++) {
        float *row = logits + r * vocab;
        int32_t target = e->targets[r];
        float chosen = target < 0 ? 0.0f : row[target], max = fast_row_max(row, vocab), total = 0;
        if (e->smoothing > 0) {
#pragma omp simd reduction(+ : total)
            for (int64_t i = 0; i < vocab; i++)
                total += row[i] - max;
        }
        float sum = exponentials(row, vocab, 1.0f, max);
        float inverse = 1.0f / sum;
        for (int64_t i = 0; i < vocab; i++)
            row[i] *= inverse;
        double kept = 1.0 - (double)e->smoothing;
        double spread = (double)e->smoothing * (double)total / (double)vocab;
        if (target >= 0)
            loss += log((double)sum) - kept * ((double)chosen - (double)max) - spread;
    }
    return loss;
}

static void cross_entropy_backward(const struct kernel_entropy *e, float *probs, float factor)
{
    const float spread = e->smoothing / (float)e->vocab;
    for (int64_t r = 0; r < e->rows; r++) {
        float *row = probs + r * e->vocab;
        int32_t target = e->targets[r];
        if (target < 0) {
            fill(row, 0, (size_t)e->vocab);
            continue;
        }
        row[target] -= 1.0f - e->smoothing;
        for (int64_t i = 0; i < e->vocab; i++)
            row[i] = (row[i] - spread) * factor;
    }
}

static void embedding_forward(float *restrict out, const int32_t *index, const float *table,
                              const float *positions, const int64_t size[3])
{
    int64_t rows = size[0], length = size[1], width = size[2];
    for (int64_t r = 0; r < rows; r++) {
        const float *restrict token = table + index[r] * width;
        if (!positions) {
            memcpy(out + r * width, token, (size_t)width * sizeof(*out));
            continue;
        }
        const float *restrict position = positions + r % length * width;
        for (int64_t i = 0; i < width; i++)
            out[r * width + i] = token[i] + position[i];
    }
}

static void embedding_backward(float *dtable, float *dpositions, const int32_t *index,
                               const float *dout, const int64_t size[3])
{
    int64_t rows = size[0], length = size[1], width = size[2];
    for (int64_t r = 0; r < rows; r++) {
        const float *restrict d = dout + r * width;
        add(dtable + index[r] * width, d, (size_t)width);
        if (dpositions)
            add(dpositions + r % length * width, d, (size_t)width);
    }
}

const struct kernel_table KERNEL_FAST_TABLE = {
    .name = KERNEL_FAST_NAME,
    .gemm = gemm,
    .bias_fill = bias_fill,
    .bias_backward = bias_backward,
    .fill = fill,
    .add = add,
    .scale = scale,
    .sum_squares = sum_squares,
    .norm_forward = norm_forward,
    .norm_backward = norm_backward,
    .gelu_forward = gelu_forward,
    .gelu_backward = gelu_backward,
    .softmax_causal = softmax_causal,
    .softmax_causal_backward = softmax_causal_backward,
    .attention = &KERNEL_FAST_ATTENTION,
    .curves = &KERNEL_FAST_CURVES,
    .cross_entropy_forward = cross_entropy_forward,
    .cross_entropy_backward = cross_entropy_backward,
    .embedding_forward = embedding_forward,
    .embedding_backward = embedding_backward,
    .room_new = room_new,
    .room_free = room_free,
    .gemm_low = gemm_low,
    .rms_forward = rms_forward,
    .rms_backward = rms_backward,
    .rope = rope,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
    .windows_forward = windows_forward,
    .windows_backward = windows_backward,
    .adamw = adamw,
    .sgd = sgd,
    .lion = lion,
    .factored_moments = factored_moments,
    .factored_squares = factored_squares,
    .factored_apply = factored_apply,
    .blend = blend,
    .dropout = dropout,
    .narrow = narrow,
    .narrow_stream = narrow_stream,
    .widen = widen,
};
