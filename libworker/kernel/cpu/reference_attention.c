/* Attention as it is defined: no tiles, every probability computed where it is used, sums in
 * double. */
#include <math.h>
#include <stdlib.h>

#include "libworker/kernel/cpu/attention_tiles.h"
#include "libworker/precision/half.h"

/* One head of one sample: where its arrays start. */
struct place {
    const struct kernel_attention *a;
    const struct attention_data *data;
    int64_t sample, head;
    int64_t q, k, v, out; /* the first element of each array */
    const float *lse;
};

static double element(const void *x, enum wk_dtype type, int64_t i)
{
    if (type == WK_F32)
        return ((const float *)x)[i];
    uint16_t half = ((const uint16_t *)x)[i];
    return type == WK_BF16 ? f32_of_bf16(half) : f32_of_f16(half);
}

static void put(void *x, enum wk_dtype type, int64_t i, double value)
{
    if (type == WK_F32)
        ((float *)x)[i] = (float)value;
    else
        ((uint16_t *)x)[i] = type == WK_BF16 ? bf16_of_f32((float)value) : f16_of_f32((float)value);
}

static struct place place_of(const struct kernel_attention *a, const struct attention_data *data,
                             int64_t sample, int64_t head)
{
    int64_t kv_head = head / (a->heads / a->kv_heads);
    return (struct place){
        .a = a,
        .data = data,
        .sample = sample,
        .head = head,
        .q = sample * a->q.sample + head * a->size,
        .k = sample * a->k.sample + kv_head * a->size,
        .v = sample * a->v.sample + kv_head * a->size,
        .out = sample * a->out.sample + head * a->size,
        .lse = data->lse + (sample * a->heads + head) * a->length,
    };
}

static bool sees(const struct place *p, int64_t i, int64_t j)
{
    const struct kernel_attention *a = p->a;
    int64_t before = a->keys - a->length, at = before + i;
    if ((a->causal && j > at) || (a->window > 0 && llabs(at - j) >= a->window))
        return false;
    if (!a->starts)
        return true;
    const int32_t *starts = a->starts + p->sample * a->length;
    return j >= starts[i] && (j <= at || starts[j - before] == starts[i]);
}

/* scale * q[i] k[j] */
static double score(const struct place *p, int64_t i, int64_t j)
{
    const struct kernel_attention *a = p->a;
    double sum = 0;
    for (int64_t d = 0; d < a->size; d++)
        sum += element(p->data->q, a->type, p->q + i * a->q.row + d) *
               element(p->data->k, a->type, p->k + j * a->k.row + d);
    return a->scale * sum;
}

/* What dropout multiplies a probability by. */
static double share_kept(const struct place *p, int64_t i, int64_t j)
{
    const struct kernel_attention *a = p->a;
    uint64_t row = attention_row_key(a->key, a->first_sample + p->sample, a->first_head + p->head,
                                     a->keys - a->length + i);
    if (a->keep >= 1)
        return 1;
    return attention_kept(row, j, attention_limit(a->keep)) ? 1 / (double)a->keep : 0;
}

static void row_forward(const struct place *p, int64_t i)
{
    const struct kernel_attention *a = p->a;
    double max = -INFINITY, sum = 0, out[ATTENTION_SIZE_MAX] = {0};
    bool any = false;
    for (int64_t j = 0; j < a->keys; j++) {
        any |= sees(p, i, j);
        max = sees(p, i, j) ? fmax(max, score(p, i, j)) : max;
    }
    for (int64_t j = 0; j < a->keys; j++) {
        double weight = sees(p, i, j) ? exp(score(p, i, j) - max) : 0;
        double kept = weight > 0 || isnan(weight) ? weight * share_kept(p, i, j) : 0;
        sum += weight;
        for (int64_t d = 0; d < a->size && kept != 0; d++)
            out[d] += kept * element(p->data->v, a->type, p->v + j * a->v.row + d);
    }
    for (int64_t d = 0; d < a->size; d++)
        put(p->data->out, a->type, p->out + i * a->out.row + d, any ? out[d] / sum : 0);
    p->data->lse[(p->sample * a->heads + p->head) * a->length + i] =
        any ? (float)(max + log(sum)) : -INFINITY;
}

static void forward(const struct kernel_attention *a, const struct attention_data *data)
{
    for (int64_t s = 0; s < a->samples; s++) {
        for (int64_t h = 0; h < a->heads; h++) {
            struct place p = place_of(a, data, s, h);
            for (int64_t i = 0; i < a->length; i++)
                row_forward(&p, i);
        }
    }
}

/* The sum over d of dout[i] and a row of another array. */
static double along_dout(const struct place *p, int64_t i, const void *x, int64_t at)
{
    double sum = 0;
    for (int64_t d = 0; d < p->a->size; d++)
        sum += element(p->data->dout, p->a->grad_type, p->out + i * p->a->out.row + d) *
               element(x, p->a->type, at + d);
    return sum;
}

/* The probability of key j after dropout, and the gradient of its score; both 0 where query i does
 * not see it. */
struct pair {
    double kept, dscore;
};

static struct pair pair_at(const struct place *p, int64_t i, int64_t j)
{
    const struct kernel_attention *a = p->a;
    if (!sees(p, i, j))
        return (struct pair){0, 0};
    double prob = exp(score(p, i, j) - p->lse[i]), share = share_kept(p, i, j);
    double dprob = share * along_dout(p, i, p->data->v, p->v + j * a->v.row);
    double delta = along_dout(p, i, p->data->out, p->out + i * a->out.row);
    return (struct pair){prob * share, prob * (dprob - delta)};
}

static void row_dq(const struct place *p, int64_t i)
{
    const struct kernel_attention *a = p->a;
    double dq[ATTENTION_SIZE_MAX] = {0};
    for (int64_t j = 0; j < a->keys; j++) {
        double dscore = pair_at(p, i, j).dscore;
        for (int64_t d = 0; d < a->size && dscore != 0; d++)
            dq[d] += a->scale * dscore * element(p->data->k, a->type, p->k + j * a->k.row + d);
    }
    for (int64_t d = 0; d < a->size; d++)
        put(p->data->dq, a->grad_type, p->q + i * a->q.row + d, dq[d]);
}

static void row_dk_dv(const struct kernel_attention *a, const struct attention_data *data,
                      const int64_t at[3])
{
    int64_t sample = at[0], kv_head = at[1], j = at[2], group = a->heads / a->kv_heads;
    double dk[ATTENTION_SIZE_MAX] = {0}, dv[ATTENTION_SIZE_MAX] = {0};
    for (int64_t i = 0; i < group * a->length; i++) {
        struct place p = place_of(a, data, sample, kv_head * group + i / a->length);
        struct pair pair = pair_at(&p, i % a->length, j);
        int64_t q = p.q + i % a->length * a->q.row, out = p.out + i % a->length * a->out.row;
        for (int64_t d = 0; d < a->size && pair.dscore != 0; d++)
            dk[d] += a->scale * pair.dscore * element(data->q, a->type, q + d);
        for (int64_t d = 0; d < a->size && pair.kept != 0; d++)
            dv[d] += pair.kept * element(data->dout, a->grad_type, out + d);
    }
    struct place p = place_of(a, data, sample, kv_head * group);
    for (int64_t d = 0; d < a->size; d++) {
        put(data->dk, a->grad_type, p.k + j * a->k.row + d, dk[d]);
        put(data->dv, a->grad_type, p.v + j * a->v.row + d, dv[d]);
    }
}

static void backward(const struct kernel_attention *a, const struct attention_data *data)
{
    for (int64_t s = 0; s < a->samples; s++) {
        for (int64_t h = 0; h < a->heads; h++) {
            struct place p = place_of(a, data, s, h);
            for (int64_t i = 0; i < a->length; i++)
                row_dq(&p, i);
        }
        for (int64_t i = 0; i < a->kv_heads * a->keys; i++)
            row_dk_dv(a, data, (int64_t[]){s, i / a->keys, i % a->keys});
    }
}

const struct attention_kernels attention_reference = {forward, backward};
