/* The plain kernels: what each operation means, written once without any thought of speed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/kernel/cpu/attention_tiles.h"
#include "libworker/kernel/cpu/cpu.h"
#include "libworker/kernel/cpu/curves.h"
#include "libworker/precision/half.h"
#include "libworker/precision/noise.h"

static const double GELU_SCALE = 0.79788456080286535588; /* sqrt(2 / pi) */
static const double GELU_CUBIC = 0.044715;

static void gemm(const struct kernel_gemm *g)
{
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < g->k; l++) {
                double a = g->transpose_a ? g->a[l * g->lda + i] : g->a[i * g->lda + l];
                double b = g->transpose_b ? g->b[j * g->ldb + l] : g->b[l * g->ldb + j];
                sum += a * b;
            }
            float *c = &g->c[i * g->ldc + j];
            *c = (float)(g->alpha * sum + (g->beta != 0 ? (double)g->beta * *c : 0));
        }
    }
}

static void bias_fill(float *out, const float *bias, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows * cols; i++)
        out[i] = bias[i % cols];
}

static void bias_backward(float *dbias, const float *dout, int64_t rows, int64_t cols)
{
    for (int64_t j = 0; j < cols; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += dout[i * cols + j];
        dbias[j] += (float)sum;
    }
}

static void fill(float *x, float value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = value;
}

static void add(float *y, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] += x[i];
}

static void scale(float *x, float factor, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] *= factor;
}

static double sum_squares(const float *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i] * x[i];
    return sum;
}

static void norm_forward(const struct kernel_norm *n, float *out)
{
    for (int64_t r = 0; r < n->rows; r++) {
        const float *x = n->x + r * n->width;
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n->width; i++)
            mean += x[i] / (double)n->width;
        for (int64_t i = 0; i < n->width; i++)
            variance += (x[i] - mean) * (x[i] - mean) / (double)n->width;
        double rstd = 1 / sqrt(variance + n->epsilon);
        for (int64_t i = 0; i < n->width; i++)
            out[r * n->width + i] = (float)((x[i] - mean) * rstd * n->weight[i] + n->bias[i]);
        n->mean[r] = (float)mean;
        n->rstd[r] = (float)rstd;
    }
}

static void norm_backward(const struct kernel_norm *n, const float *dout, float *dx, float *dweight,
                          float *dbias)
{
    for (int64_t r = 0; r < n->rows; r++) {
        const float *x = n->x + r * n->width;
        const float *dy = dout + r * n->width;
        double mean_g = 0, mean_gx = 0;
        for (int64_t i = 0; i < n->width; i++) {
            double g = (double)dy[i] * n->weight[i];
            mean_g += g / (double)n->width;
            mean_gx += g * (x[i] - n->mean[r]) * n->rstd[r] / (double)n->width;
        }
        for (int64_t i = 0; i < n->width; i++) {
            double normal = (x[i] - n->mean[r]) * n->rstd[r];
            double g = (double)dy[i] * n->weight[i];
            dx[r * n->width + i] += (float)((g - mean_g - normal * mean_gx) * n->rstd[r]);
            dweight[i] += (float)(dy[i] * normal);
            dbias[i] += dy[i];
        }
    }
}

static void rms_forward(const struct kernel_norm *n, float *out)
{
    for (int64_t r = 0; r < n->rows; r++) {
        const float *x = n->x + r * n->width;
        double square = 0;
        for (int64_t i = 0; i < n->width; i++)
            square += (double)x[i] * x[i] / (double)n->width;
        double rstd = 1 / sqrt(square + n->epsilon);
        for (int64_t i = 0; i < n->width; i++)
            out[r * n->width + i] = (float)(x[i] * rstd * n->weight[i]);
        n->rstd[r] = (float)rstd;
    }
}

static void rms_backward(const struct kernel_norm *n, const float *dout, float *dx, float *dweight)
{
    for (int64_t r = 0; r < n->rows; r++) {
        const float *x = n->x + r * n->width;
        const float *dy = dout + r * n->width;
        double mean = 0, rstd = n->rstd[r];
        for (int64_t i = 0; i < n->width; i++)
            mean += (double)dy[i] * n->weight[i] * x[i] * rstd / (double)n->width;
        for (int64_t i = 0; i < n->width; i++) {
            double normal = x[i] * rstd;
            dx[r * n->width + i] += (float)(((double)dy[i] * n->weight[i] - normal * mean) * rstd);
            dweight[i] += (float)(dy[i] * normal);
        }
    }
}

static void rope(const struct kernel_rope *o, float *x)
{
    int64_t half = o->size / 2;
    for (int64_t r = 0; r < o->rows; r++) {
        for (int64_t i = 0; i < o->heads * half; i++) {
            int64_t angle = r % o->length * half + i % half;
            float *a = x + r * o->stride + i / half * o->size + i % half, *b = a + half;
            double c = o->cos[angle], s = o->back ? -o->sin[angle] : o->sin[angle];
            double first = *a * c - *b * s, second = *b * c + *a * s;
            *a = (float)first;
            *b = (float)second;
        }
    }
}

/* x * s, if s approaches 0 faster than x infinity. */
static double share(double x, double s)
{
    return s > 0 || isnan(s) ? x * s : 0;
}

static void swiglu_forward(float *out, const float *x, int64_t rows, int64_t inner)
{
    for (int64_t i = 0; i < rows * inner; i++) {
        const float *gate = x + i / inner * 2 * inner + i % inner;
        out[i] = (float)(share(gate[0], 1 / (1 + exp(-(double)gate[0]))) * gate[inner]);
    }
}

static void swiglu_backward(float *dx, const float *x, const float *dout, const int64_t size[2])
{
    int64_t rows = size[0], inner = size[1];
    for (int64_t i = 0; i < rows * inner; i++) {
        int64_t at = i / inner * 2 * inner + i % inner;
        double gate = x[at], up = x[at + inner], sigmoid = 1 / (1 + exp(-gate));
        double rest = 1 / (1 + exp(gate)); /* of the sigmoid to 1 */
        dx[at] = (float)(dout[i] * up * (sigmoid + share(gate, sigmoid * rest)));
        dx[at + inner] = (float)(dout[i] * share(gate, sigmoid));
    }
}

/* 0.5 (1 + tanh(u)) is the sigmoid of 2u, which has no cancellation. */
static void gelu_forward(float *out, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double v = x[i], u = GELU_SCALE * (v + GELU_CUBIC * v * v * v);
        out[i] = (float)share(v, 1 / (1 + exp(-2 * u)));
    }
}

static void gelu_backward(float *dx, const float *x, const float *dout, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double v = x[i], u = GELU_SCALE * (v + GELU_CUBIC * v * v * v);
        double sigmoid = 1 / (1 + exp(-2 * u)), rest = 1 / (1 + exp(2 * u));
        double turn = 2 * GELU_SCALE * (v + 3 * GELU_CUBIC * v * v * v);
        dx[i] = (float)(dout[i] * (sigmoid + share(turn, sigmoid * rest)));
    }
}

static double row_max(const float *x, int64_t count)
{
    double max = -INFINITY;
    for (int64_t i = 0; i < count; i++)
        max = x[i] > max ? x[i] : max;
    return max;
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
        double max = row_max(row, seen), sum = 0;
        for (int64_t i = 0; i < seen; i++)
            sum += exp(c->scale * (row[i] - max));
        for (int64_t i = 0; i < seen; i++)
            row[i] = (float)(exp(c->scale * (row[i] - max)) / sum);
        for (int64_t i = seen; i < c->cols; i++)
            row[i] = 0;
    }
}

static void softmax_causal_backward(const struct kernel_causal *c, float *dprobs,
                                    const float *probs)
{
    for (int64_t r = 0; r < c->rows; r++) {
        float *dp = dprobs + r * c->ld;
        const float *p = probs + r * c->ld;
        int64_t seen = seen_by(c, r);
        double sum = 0;
        for (int64_t i = 0; i < seen; i++)
            sum += (double)p[i] * dp[i];
        for (int64_t i = 0; i < c->cols; i++)
            dp[i] = i < seen ? (float)(c->scale * p[i] * (dp[i] - sum)) : 0;
    }
}

static double cross_entropy_forward(const struct kernel_entropy *e, float *logits)
{
    double loss = 0;
    for (int64_t r = 0; r < e->rows; r++) {
        float *row = logits + r * e->vocab;
        int32_t target = e->targets[r];
        double max = row_max(row, e->vocab), chosen = target < 0 ? 0 : row[target] - max;
        double sum = 0, total = 0; /* sum is at least 1, by the largest */
        for (int64_t i = 0; i < e->vocab; i++) {
            sum += exp(row[i] - max);
            total += row[i] - max;
        }
        for (int64_t i = 0; i < e->vocab; i++)
            row[i] = (float)(exp(row[i] - max) / sum);
        double spread = e->smoothing * total / (double)e->vocab;
        if (target >= 0)
            loss += sum > 0 ? log(sum) - (1 - e->smoothing) * chosen - spread : NAN;
    }
    return loss;
}

static void cross_entropy_backward(const struct kernel_entropy *e, float *probs, float factor)
{
    for (int64_t r = 0; r < e->rows; r++) {
        int32_t target = e->targets[r];
        for (int64_t i = 0; i < e->vocab; i++) {
            double wanted = (1 - e->smoothing) * (i == target) + e->smoothing / (double)e->vocab;
            float *p = &probs[r * e->vocab + i];
            *p = target < 0 ? 0 : (float)((*p - wanted) * factor);
        }
    }
}

static void embedding_forward(float *out, const int32_t *index, const float *table,
                              const float *positions, const int64_t size[3])
{
    int64_t rows = size[0], length = size[1], width = size[2];
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < width; i++)
            out[r * width + i] =
                table[index[r] * width + i] + (positions ? positions[r % length * width + i] : 0);
    }
}

static void embedding_backward(float *dtable, float *dpositions, const int32_t *index,
                               const float *dout, const int64_t size[3])
{
    int64_t rows = size[0], length = size[1], width = size[2];
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < width; i++) {
            dtable[index[r] * width + i] += dout[r * width + i];
            if (dpositions)
                dpositions[r % length * width + i] += dout[r * width + i];
        }
    }
}

static int64_t windows_across(const struct kernel_windows *w)
{
    return (w->width + 2 * w->padding - w->kernel) / w->stride + 1;
}

static int64_t windows_of(const struct kernel_windows *w)
{
    return ((w->height + 2 * w->padding - w->kernel) / w->stride + 1) * windows_across(w);
}

/* The image's element at row `row` of window `window`, or -1 outside it. */
static int64_t window_element(const struct kernel_windows *w, int64_t row, int64_t window)
{
    int64_t across = windows_across(w);
    int64_t channel = row / (w->kernel * w->kernel), place = row % (w->kernel * w->kernel);
    int64_t y = window / across * w->stride + place / w->kernel - w->padding;
    int64_t x = window % across * w->stride + place % w->kernel - w->padding;
    bool inside = y >= 0 && y < w->height && x >= 0 && x < w->width;
    return inside ? (channel * w->height + y) * w->width + x : -1;
}

static void windows_forward(const struct kernel_windows *w, float *columns, const float *image)
{
    for (int64_t row = 0; row < w->channels * w->kernel * w->kernel; row++) {
        for (int64_t i = 0; i < windows_of(w); i++) {
            int64_t element = window_element(w, row, i);
            columns[row * w->ld + i] = element < 0 ? 0 : image[element];
        }
    }
}

static void windows_backward(const struct kernel_windows *w, float *image, float *columns)
{
    for (int64_t row = 0; row < w->channels * w->kernel * w->kernel; row++) {
        for (int64_t i = 0; i < windows_of(w); i++) {
            int64_t element = window_element(w, row, i);
            if (element >= 0)
                image[element] += columns[row * w->ld + i];
        }
    }
}

static struct kernel_room *room_new(void)
{
    return malloc(1);
}

static void room_free(struct kernel_room *room)
{
    free(room);
}

static float widened(enum wk_dtype type, uint16_t x)
{
    return type == WK_BF16 ? f32_of_bf16(x) : f32_of_f16(x);
}

static void gemm_low(struct kernel_room *room, const struct kernel_gemm_low *g)
{
    (void)room;
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < g->k; l++) {
                uint16_t a = g->transpose_a ? g->a[l * g->lda + i] : g->a[i * g->lda + l];
                uint16_t b = g->transpose_b ? g->b[j * g->ldb + l] : g->b[l * g->ldb + j];
                sum += (double)widened(g->type, a) * (double)widened(g->type, b);
            }
            float *c = &g->c[i * g->ldc + j];
            *c = (float)(sum + (g->add ? (double)*c : 0));
        }
    }
}

static void narrow(uint16_t *out, enum wk_dtype type, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = type == WK_BF16 ? bf16_of_f32(x[i]) : f16_of_f32(x[i]);
}

static void copy_low(const struct kernel_update *u)
{
    if (u->low)
        narrow(u->low, u->type, u->params, u->count);
}

static void adamw(const struct kernel_adamw *a, const struct kernel_update *u)
{
    float *m = u->state[0], *v = u->state[1];
    for (size_t i = 0; i < u->count; i++) {
        float g = u->grads[i] * a->grad_scale + a->l2 * u->params[i];
        m[i] = a->beta1 * m[i] + (1 - a->beta1) * g;
        v[i] = a->beta2 * v[i] + (1 - a->beta2) * g * g;
        float root = sqrtf(v[i]) * a->inv_root2 + a->epsilon;
        u->params[i] = u->params[i] * a->keep - a->step_size * m[i] / root;
    }
    copy_low(u);
}

static void sgd(const struct kernel_sgd *s, const struct kernel_update *u)
{
    float *momentum = u->state[0];
    for (size_t i = 0; i < u->count; i++) {
        float g = u->grads[i] * s->grad_scale + s->weight_decay * u->params[i];
        if (s->momentum != 0) {
            momentum[i] = s->first ? g : s->momentum * momentum[i] + g;
            g = s->nesterov ? g + s->momentum * momentum[i] : momentum[i];
        }
        u->params[i] -= s->rate * g;
    }
    copy_low(u);
}

static void lion(const struct kernel_lion *l, const struct kernel_update *u)
{
    float *m = u->state[0];
    for (size_t i = 0; i < u->count; i++) {
        float g = u->grads[i] * l->grad_scale;
        float c = l->beta1 * m[i] + (1 - l->beta1) * g;
        float sign = (float)((c > 0) - (c < 0));
        u->params[i] = u->params[i] * l->keep - l->rate * (isnan(c) ? c : sign);
        m[i] = l->beta2 * m[i] + (1 - l->beta2) * g;
    }
    copy_low(u);
}

static double squared(const struct kernel_factored *f, int64_t i, int64_t j)
{
    double g = (double)f->grads[i * f->cols + j] * (double)f->grad_scale;
    return g * g;
}

static void factored_moments(const struct kernel_factored *f, float decay, float epsilon)
{
    for (int64_t i = 0; f->row && i < f->rows; i++) {
        double mean = 0;
        for (int64_t j = 0; j < f->cols; j++)
            mean += squared(f, i, j) / (double)f->cols;
        f->row[i] = (float)(decay * f->row[i] + (1 - decay) * (mean + epsilon));
    }
    for (int64_t j = 0; j < f->cols; j++) {
        double mean = 0;
        for (int64_t i = 0; i < f->rows; i++)
            mean += squared(f, i, j) / (double)f->rows;
        f->col[j] = (float)(decay * f->col[j] + (1 - decay) * (mean + epsilon));
    }
}

static double factored_squares(const struct kernel_factored *f, const float *rows,
                               const float *cols)
{
    double sum = 0;
    for (int64_t i = 0; i < f->rows; i++) {
        for (int64_t j = 0; j < f->cols; j++) {
            double factor = (double)rows[i] * (double)cols[j];
            sum += squared(f, i, j) * factor * factor;
        }
    }
    return sum;
}

static void factored_apply(const struct kernel_factored *f, const float *rows, const float *cols,
                           const struct kernel_blend *keep_step, float *params)
{
    for (int64_t i = 0; i < f->rows; i++) {
        for (int64_t j = 0; j < f->cols; j++) {
            int64_t at = i * f->cols + j;
            float u = f->grads[at] * f->grad_scale * rows[i] * cols[j];
            params[at] = params[at] * keep_step->a - keep_step->b * u;
        }
    }
}

static void blend(float *out, const struct kernel_blend *b, const float *x, const float *y,
                  size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = b->a * x[i] + b->b * y[i];
}

static void dropout(float *x, size_t count, uint64_t key, float keep)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (double)noise_bits(key, i) < (double)keep * 0x1p32 ? x[i] / keep : 0;
}

static void widen(float *out, enum wk_dtype type, const uint16_t *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = type == WK_BF16 ? f32_of_bf16(x[i]) : f32_of_f16(x[i]);
}

static const struct kernel_table reference = {
    .name = "reference",
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
    .attention = &attention_reference,
    .curves = &curves_reference,
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
    .narrow_stream = narrow,
    .widen = widen,
};

const struct kernel_table *kernel_reference(void)
{
    return &reference;
}
