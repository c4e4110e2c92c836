/* The part of the fast kernels that updates parameters and converts them: one pass over memory
 * each. Included by fast.c only, which is built once per instruction set.
 */
#ifndef KERNEL_CPU_FAST_UPDATE_H
#define KERNEL_CPU_FAST_UPDATE_H

#include <math.h>

#include "libworker/kernel/cpu/fast_stream.h"
#include "libworker/kernel/kernel.h"
#include "libworker/precision/half.h"
#include "libworker/precision/noise.h"

static void narrow(uint16_t *restrict out, enum wk_dtype type, const float *restrict x,
                   size_t count)
{
    if (type == WK_BF16) {
        for (size_t i = 0; i < count; i++)
            out[i] = bf16_of_f32(x[i]);
    } else {
        for (size_t i = 0; i < count; i++)
            out[i] = f16_of_f32(x[i]);
    }
}

/* low[from, end) from x[from, end), a block or what is left of one: a whole block is a line. */
static inline void narrow_block(uint16_t *restrict low, enum wk_dtype type, const float *restrict x,
                                size_t from, size_t end)
{
    uint16_t block[STREAM_BLOCK];
    if (end - from < STREAM_BLOCK) {
        narrow(low + from, type, x + from, end - from);
        return;
    }
    narrow(block, type, x + from, STREAM_BLOCK);
    stream_line(low + from, block);
}

/* The end of the block that begins at `from`; the first is short if lines of `low` require that. */
static inline size_t block_end(const uint16_t *low, size_t from, size_t count)
{
    size_t odd = (uintptr_t)(low + from) % STREAM_LINE_BYTES;
    size_t most = low && odd ? (STREAM_LINE_BYTES - odd) / sizeof(*low) : STREAM_BLOCK;
    return count - from < most ? count : from + most;
}

static void narrow_stream(uint16_t *restrict out, enum wk_dtype type, const float *restrict x,
                          size_t count)
{
    for (size_t from = 0, end; from < count; from = end) {
        end = block_end(out, from, count);
        narrow_block(out, type, x, from, end);
    }
    stream_end();
}

/* Before a block: returns its end, and requests data needed a little later. */
static inline size_t update_begin(const struct kernel_update *u, size_t from)
{
    enum { AHEAD = 512 };
    stream_ask(u->params + from, AHEAD, STREAM_SECOND);
    stream_ask(u->grads + from, AHEAD, STREAM_SECOND);
    for (int i = 0; i < 2; i++) {
        if (u->state[i])
            stream_ask(u->state[i] + from, AHEAD, STREAM_SECOND);
    }
    return block_end(u->low, from, u->count);
}

/* After a block: its copy. `params` is the pointer that the block was written through: no other may
 * read what a restricted one has written. */
static inline void update_end(const struct kernel_update *u, const float *params, size_t from,
                              size_t end)
{
    if (!u->low)
        return;
    narrow_block(u->low, u->type, params, from, end);
    if (end == u->count)
        stream_end();
}

/* Not inline: its arithmetic stays between what turns flushing on and off. */
__attribute__((noinline)) static void adamw_blocks(const struct kernel_adamw *a,
                                                   const struct kernel_update *u)
{
    const struct kernel_adamw o = *a;
    const size_t count = u->count; /* in a local: stores to the arrays might change it */
    float *restrict params = u->params;
    const float *restrict grads = u->grads;
    float *restrict m = u->state[0];
    float *restrict v = u->state[1];
    for (size_t from = 0, end; from < count; from = end) {
        end = update_begin(u, from);
        for (size_t i = from; i < end; i++) {
            float g = grads[i] * o.grad_scale + o.l2 * params[i];
            float mean = o.beta1 * m[i] + (1.0f - o.beta1) * g;
            float square = o.beta2 * v[i] + (1.0f - o.beta2) * g * g;
            m[i] = mean;
            v[i] = square;
            params[i] =
                params[i] * o.keep - o.step_size * mean / (sqrtf(square) * o.inv_root2 + o.epsilon);
        }
        update_end(u, params, from, end);
    }
}

static void adamw(const struct kernel_adamw *a, const struct kernel_update *u)
{
    unsigned before = flush_begin();
    adamw_blocks(a, u);
    flush_end(before);
}

__attribute__((noinline)) static void sgd_plain(const struct kernel_sgd *s,
                                                const struct kernel_update *u)
{
    const struct kernel_sgd o = *s;
    const size_t count = u->count; /* in a local: stores to the arrays might change it */
    float *restrict params = u->params;
    const float *restrict grads = u->grads;
    for (size_t from = 0, end; from < count; from = end) {
        end = update_begin(u, from);
        for (size_t i = from; i < end; i++)
            params[i] -= o.rate * (grads[i] * o.grad_scale + o.weight_decay * params[i]);
        update_end(u, params, from, end);
    }
}

__attribute__((noinline)) static void sgd_momentum(const struct kernel_sgd *s,
                                                   const struct kernel_update *u)
{
    const struct kernel_sgd o = *s;
    const size_t count = u->count; /* in a local: stores to the arrays might change it */
    float *restrict params = u->params;
    const float *restrict grads = u->grads;
    float *restrict momentum = u->state[0];
    float kept = o.first ? 0.0f : o.momentum;
    float ahead = o.nesterov ? 1.0f : 0.0f, behind = o.nesterov ? o.momentum : 1.0f;
    for (size_t from = 0, end; from < count; from = end) {
        end = update_begin(u, from);
        for (size_t i = from; i < end; i++) {
            float g = grads[i] * o.grad_scale + o.weight_decay * params[i];
            float moved = kept * momentum[i] + g;
            momentum[i] = moved;
            params[i] -= o.rate * (ahead * g + behind * moved);
        }
        update_end(u, params, from, end);
    }
}

static void sgd(const struct kernel_sgd *s, const struct kernel_update *u)
{
    unsigned before = flush_begin();
    if (s->momentum == 0)
        sgd_plain(s, u);
    else
        sgd_momentum(s, u);
    flush_end(before);
}

__attribute__((noinline)) static void lion_blocks(const struct kernel_lion *l,
                                                  const struct kernel_update *u)
{
    const struct kernel_lion o = *l;
    const size_t count = u->count; /* in a local: stores to the arrays might change it */
    float *restrict params = u->params;
    const float *restrict grads = u->grads;
    float *restrict momentum = u->state[0];
    for (size_t from = 0, end; from < count; from = end) {
        end = update_begin(u, from);
        for (size_t i = from; i < end; i++) {
            float g = grads[i] * o.grad_scale;
            float c = o.beta1 * momentum[i] + (1.0f - o.beta1) * g;
            float sign = c > 0.0f ? 1.0f : (c < 0.0f ? -1.0f : c); /* NaN stays */
            params[i] = params[i] * o.keep - o.rate * sign;
            momentum[i] = o.beta2 * momentum[i] + (1.0f - o.beta2) * g;
        }
        update_end(u, params, from, end);
    }
}

static void lion(const struct kernel_lion *l, const struct kernel_update *u)
{
    unsigned before = flush_begin();
    lion_blocks(l, u);
    flush_end(before);
}

static void factored_moments(const struct kernel_factored *f, float decay, float epsilon)
{
    float *restrict col = f->col;
    const int64_t cols = f->cols;
    const float scaled = f->grad_scale;
    const float fresh = 1.0f - decay, share = fresh / (float)f->rows;
    for (int64_t j = 0; j < cols; j++)
        col[j] = decay * col[j] + fresh * epsilon;
    for (int64_t i = 0; i < f->rows; i++) {
        const float *restrict g = f->grads + i * f->cols;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < cols; j++) {
            float square = g[j] * scaled * (g[j] * scaled);
            sum += square;
            col[j] += share * square;
        }
        if (f->row)
            f->row[i] = decay * f->row[i] + fresh * (sum / (float)f->cols + epsilon);
    }
}

static double factored_squares(const struct kernel_factored *f, const float *rows,
                               const float *restrict cols)
{
    double total = 0;
    for (int64_t i = 0; i < f->rows; i++) {
        const float *restrict g = f->grads + i * f->cols;
        float factor = f->grad_scale * rows[i], sum = 0;
        const int64_t count = f->cols;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < count; j++) {
            float u = g[j] * factor * cols[j];
            sum += u * u;
        }
        total += (double)sum;
    }
    return total;
}

static void factored_apply(const struct kernel_factored *f, const float *rows,
                           const float *restrict cols, const struct kernel_blend *keep_step,
                           float *params)
{
    const struct kernel_blend k = *keep_step;
    for (int64_t i = 0; i < f->rows; i++) {
        const float *restrict g = f->grads + i * f->cols;
        float *restrict p = params + i * f->cols;
        float factor = k.b * f->grad_scale * rows[i];
        const int64_t count = f->cols;
        for (int64_t j = 0; j < count; j++)
            p[j] = p[j] * k.a - factor * g[j] * cols[j];
    }
}

/* out may be x or y, so the loop states that iterations are independent instead of `restrict`. */
static void blend(float *out, const struct kernel_blend *b, const float *x, const float *y,
                  size_t count)
{
    const struct kernel_blend k = *b;
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        out[i] = k.a * x[i] + k.b * y[i];
}

static void dropout(float *x, size_t count, uint64_t key, float keep)
{
    const uint64_t limit = (uint64_t)((double)keep * 0x1p32); /* kept below it */
    const float grown = 1.0f / keep;
    for (size_t i = 0; i < count; i++)
        x[i] = noise_bits(key, i) < limit ? x[i] * grown : 0.0f;
}

static void widen(float *restrict out, enum wk_dtype type, const uint16_t *restrict x, size_t count)
{
    if (type == WK_BF16) {
        for (size_t i = 0; i < count; i++)
            out[i] = f32_of_bf16(x[i]);
    } else {
        for (size_t i = 0; i < count; i++)
            out[i] = f32_of_f16(x[i]);
    }
}

#endif
