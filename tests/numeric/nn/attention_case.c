#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/precision/half.h"
#include "tests/numeric/nn/attention_case.h"
#include "tests/numeric/nn/fixture.h"

enum { MARK = 0xa5, GAP = 3 };

/* The strides, positions and heads of an array, and its type. */
struct view {
    const char *name;
    void *base;
    struct attention_stride stride;
    int64_t positions, heads;
    enum wk_dtype type;
};

static struct view view_of(const struct attention_case *c, enum attention_array array)
{
    const struct kernel_attention *a = &c->a;
    const struct attention_data *d = &c->data;
    const struct view views[ARRAYS] = {
        {"q", (void *)d->q, a->q, a->length, a->heads, a->type},
        {"k", (void *)d->k, a->k, a->keys, a->kv_heads, a->type},
        {"v", (void *)d->v, a->v, a->keys, a->kv_heads, a->type},
        {"out", d->out, a->out, a->length, a->heads, a->type},
        {"dout", (void *)d->dout, a->out, a->length, a->heads, a->grad_type},
        {"dq", d->dq, a->q, a->length, a->heads, a->grad_type},
        {"dk", d->dk, a->k, a->keys, a->kv_heads, a->grad_type},
        {"dv", d->dv, a->v, a->keys, a->kv_heads, a->grad_type},
    };
    return views[array];
}

static int64_t place_in(const struct view *v, int64_t size, int64_t i)
{
    int64_t width = v->heads * size, row = i / width;
    return row / v->positions * v->stride.sample + row % v->positions * v->stride.row + i % width;
}

size_t attention_count(const struct attention_case *c, enum attention_array array)
{
    struct view v = view_of(c, array);
    return (size_t)(c->a.samples * v.positions * v.heads * c->a.size);
}

/* Elements up to the last one. */
static size_t extent(const struct attention_case *c, enum attention_array array)
{
    struct view v = view_of(c, array);
    size_t count = attention_count(c, array);
    return count ? (size_t)place_in(&v, c->a.size, (int64_t)count - 1) + 1 : 0;
}

double *attention_values(const struct attention_case *c, enum attention_array array)
{
    struct view v = view_of(c, array);
    size_t count = attention_count(c, array);
    double *values = malloc((count + 1) * sizeof(*values));
    for (size_t i = 0; i < count; i++) {
        int64_t at = place_in(&v, c->a.size, (int64_t)i);
        if (v.type == WK_F32)
            values[i] = (double)((float *)v.base)[at];
        else
            values[i] = (double)(v.type == WK_BF16 ? f32_of_bf16(((uint16_t *)v.base)[at])
                                                   : f32_of_f16(((uint16_t *)v.base)[at]));
    }
    return values;
}

void attention_set(struct attention_case *c, enum attention_array array, const double *values)
{
    struct view v = view_of(c, array);
    for (size_t i = 0; i < attention_count(c, array); i++) {
        int64_t at = place_in(&v, c->a.size, (int64_t)i);
        float value = (float)values[i];
        if (v.type == WK_F32)
            ((float *)v.base)[at] = value;
        else
            ((uint16_t *)v.base)[at] = v.type == WK_BF16 ? bf16_of_f32(value) : f16_of_f32(value);
    }
}

static bool is_marked(const void *x, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)x)[i] != MARK)
            return false;
    return true;
}

/* Such arrays have no gaps. */
static bool is_joined(const struct attention_case *c)
{
    return !c->memory[ARRAY_K];
}

int64_t attention_strays(const struct attention_case *c, enum attention_array array)
{
    struct view v = view_of(c, array);
    size_t bytes = wk_dtype_bytes(v.type), count = extent(c, array), strays = 0;
    bool *belongs = calloc(count + 1, sizeof(*belongs));
    for (size_t i = 0; i < attention_count(c, array); i++)
        belongs[place_in(&v, c->a.size, (int64_t)i)] = true;
    for (size_t i = 0; i < count; i++) {
        if (!belongs[i] && !is_joined(c) && !is_marked((char *)v.base + i * bytes, bytes))
            strays++;
    }
    free(belongs);
    return (int64_t)strays;
}

static void *marked(size_t bytes)
{
    void *memory = malloc(bytes + !bytes);
    memset(memory, MARK, bytes);
    return memory;
}

static void fill_random(struct attention_case *c, enum attention_array array)
{
    static const char *const names[] = {"q", "k", "v", "out", "dout"};
    size_t count = attention_count(c, array);
    float *normal = fixture_normal(names[array], count, 1);
    double *values = malloc((count + 1) * sizeof(*values));
    for (size_t i = 0; i < count; i++)
        values[i] = (double)normal[i];
    attention_set(c, array, values);
    free(normal);
    free(values);
}

/* Documents of the given length, the last of a sample as long as what is left, shifted by sample.
 */
static void fill_starts(struct attention_case *c, int64_t document)
{
    struct kernel_attention *a = &c->a;
    c->starts = malloc(((size_t)(a->samples * a->length) + 1) * sizeof(*c->starts));
    for (int64_t i = 0; i < a->samples * a->length; i++) {
        int64_t at = a->keys - a->length + i % a->length, shift = i / a->length;
        int64_t start = (at + shift) / document * document - shift;
        c->starts[i] = (int32_t)(start > 0 ? start : 0);
    }
    a->starts = c->starts;
}

static void arrays_apart(struct attention_case *c)
{
    struct kernel_attention *a = &c->a;
    int64_t q_row = a->heads * a->size + GAP, k_row = a->kv_heads * a->size + 2 * GAP;
    a->q = (struct attention_stride){q_row, (a->length + 1) * q_row};
    a->k = (struct attention_stride){k_row, (a->keys + 2) * k_row};
    a->v = (struct attention_stride){k_row + 1, (a->keys + 2) * (k_row + 1)};
    a->out = (struct attention_stride){q_row + 1, (a->length + 1) * (q_row + 1)};
    for (int i = 0; i < ARRAYS; i++)
        c->memory[i] = marked(extent(c, (enum attention_array)i) *
                              wk_dtype_bytes(view_of(c, (enum attention_array)i).type));
    c->data.q = c->memory[ARRAY_Q];
    c->data.k = c->memory[ARRAY_K];
    c->data.v = c->memory[ARRAY_V];
    c->data.dq = c->memory[ARRAY_DQ];
    c->data.dk = c->memory[ARRAY_DK];
    c->data.dv = c->memory[ARRAY_DV];
}

static void arrays_joined(struct attention_case *c)
{
    struct kernel_attention *a = &c->a;
    int64_t row = (a->heads + 2 * a->kv_heads) * a->size, out_row = a->heads * a->size;
    size_t count = (size_t)(a->samples * a->length * row);
    size_t k = (size_t)(a->heads * a->size), v = k + (size_t)(a->kv_heads * a->size);
    size_t bytes = wk_dtype_bytes(a->type), grad_bytes = wk_dtype_bytes(a->grad_type);
    a->q = a->k = a->v = (struct attention_stride){row, a->length * row};
    a->out = (struct attention_stride){out_row, a->length * out_row};
    char *qkv = c->memory[ARRAY_Q] = marked(count * bytes);
    char *dqkv = c->memory[ARRAY_DQ] = marked(count * grad_bytes);
    c->memory[ARRAY_OUT] = marked(extent(c, ARRAY_OUT) * bytes);
    c->memory[ARRAY_DOUT] = marked(extent(c, ARRAY_DOUT) * grad_bytes);
    c->data.q = qkv;
    c->data.k = qkv + k * bytes;
    c->data.v = qkv + v * bytes;
    c->data.dq = dqkv;
    c->data.dk = dqkv + k * grad_bytes;
    c->data.dv = dqkv + v * grad_bytes;
}

struct attention_case *attention_case_new(const struct attention_shape *s, enum wk_dtype type,
                                          enum wk_dtype grad_type)
{
    struct attention_case *c = calloc(1, sizeof(*c));
    c->a = (struct kernel_attention){
        .samples = s->samples,
        .length = s->length,
        .keys = s->keys,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .size = s->size,
        .type = type,
        .grad_type = grad_type,
        .scale = 1.0f / sqrtf((float)s->size),
        .causal = !s->full,
        .window = s->window,
        .keep = s->keep > 0 ? s->keep : 1.0f,
        .key = 0x1234,
        .first_sample = 5,
        .first_head = 2,
    };
    if (s->joined)
        arrays_joined(c);
    else
        arrays_apart(c);
    c->data.out = c->memory[ARRAY_OUT];
    c->data.dout = c->memory[ARRAY_DOUT];
    c->data.lse = c->lse = marked((size_t)(s->samples * s->heads * s->length) * sizeof(float));
    for (int i = ARRAY_Q; i <= ARRAY_V; i++)
        fill_random(c, (enum attention_array)i);
    fill_random(c, ARRAY_DOUT);
    if (s->document)
        fill_starts(c, s->document);
    return c;
}

void attention_case_free(struct attention_case *c)
{
    for (int i = 0; i < ARRAYS; i++)
        free(c->memory[i]);
    free(c->starts);
    free(c->lse);
    free(c);
}

static void *scratch_new(const struct kernel_attention *a, bool backward)
{
    size_t bytes = attention_scratch_bytes(a, backward);
    void *scratch = malloc(bytes);
    memset(scratch, 0xff, bytes);
    return scratch;
}

void attention_case_forward(struct attention_case *c, const struct kernel_table *kernels)
{
    c->data.scratch = scratch_new(&c->a, false);
    kernels->attention->forward(&c->a, &c->data);
    free(c->data.scratch);
}

void attention_case_backward(struct attention_case *c, const struct kernel_table *kernels)
{
    c->data.scratch = scratch_new(&c->a, true);
    kernels->attention->backward(&c->a, &c->data);
    free(c->data.scratch);
}

void attention_case_run(struct attention_case *c, const struct kernel_table *kernels)
{
    attention_case_forward(c, kernels);
    attention_case_backward(c, kernels);
}

/* at: {sample, head, query, key position} */
double attention_share(const struct attention_case *c, const int64_t at[4])
{
    const struct kernel_attention *a = &c->a;
    int64_t before = a->keys - a->length, query = before + at[2];
    if (a->causal && at[3] > query)
        return -1;
    if (a->window && llabs(at[3] - query) >= a->window)
        return -1;
    if (a->starts) {
        const int32_t *starts = a->starts + at[0] * a->length;
        if (at[3] < starts[at[2]] || (at[3] > query && starts[at[3] - before] > query))
            return -1;
    }
    uint64_t row = attention_row_key(a->key, a->first_sample + at[0], a->first_head + at[1], query);
    bool kept = (double)noise_bits(row, (uint64_t)at[3]) < (double)a->keep * 0x1p32;
    return kept ? 1 / (double)a->keep : 0;
}

struct attention_exact attention_exact_new(const struct attention_case *c)
{
    size_t rows = (size_t)(c->a.samples * c->a.heads * c->a.length);
    size_t q = attention_count(c, ARRAY_Q), k = attention_count(c, ARRAY_K);
    return (struct attention_exact){
        .q = attention_values(c, ARRAY_Q),
        .k = attention_values(c, ARRAY_K),
        .v = attention_values(c, ARRAY_V),
        .dout = attention_values(c, ARRAY_DOUT),
        .out = calloc(q + 1, sizeof(double)),
        .lse = calloc(rows + 1, sizeof(double)),
        .out_terms = calloc(q + 1, sizeof(double)),
        .dq_terms = calloc(q + 1, sizeof(double)),
        .dk_terms = calloc(k + 1, sizeof(double)),
        .dv_terms = calloc(k + 1, sizeof(double)),
    };
}

void attention_exact_free(struct attention_exact *e)
{
    double *all[] = {e->q,         e->k,        e->v,        e->dout,     e->out,
                     e->out_terms, e->dq_terms, e->dk_terms, e->dv_terms, e->lse};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        free(all[i]);
}

/* Where the rows of a query and of a key are in the copies. */
static int64_t query_row(const struct kernel_attention *a, const int64_t at[4])
{
    return ((at[0] * a->length + at[2]) * a->heads + at[1]) * a->size;
}

static int64_t key_row(const struct kernel_attention *a, const int64_t at[4])
{
    return ((at[0] * a->keys + at[3]) * a->kv_heads + at[1] / (a->heads / a->kv_heads)) * a->size;
}

static double dot(const double *x, const double *y, int64_t n, bool absolute)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += absolute ? fabs(x[i] * y[i]) : x[i] * y[i];
    return sum;
}

/* The row's exponentials of scores and their sum's log. */
static double row_lse(const struct attention_exact *e, const struct attention_case *c,
                      int64_t at[4])
{
    const struct kernel_attention *a = &c->a;
    double sum = 0;
    for (at[3] = 0; at[3] < a->keys; at[3]++)
        if (attention_share(c, at) >= 0)
            sum += exp((double)a->scale *
                       dot(e->q + query_row(a, at), e->k + key_row(a, at), a->size, false));
    return log(sum);
}

/* Every row: at is {sample, head, query, -}. */
static void row_at(const struct kernel_attention *a, int64_t row, int64_t at[4])
{
    at[0] = row / (a->heads * a->length);
    at[1] = row / a->length % a->heads;
    at[2] = row % a->length;
}

void attention_exact_forward(struct attention_exact *e, const struct attention_case *c)
{
    const struct kernel_attention *a = &c->a;
    for (int64_t row = 0; row < a->samples * a->heads * a->length; row++) {
        int64_t at[4];
        row_at(a, row, at);
        double lse = e->lse[row] = row_lse(e, c, at);
        double *out = e->out + query_row(a, at), *terms = e->out_terms + query_row(a, at);
        memset(out, 0, (size_t)a->size * sizeof(*out));
        memset(terms, 0, (size_t)a->size * sizeof(*out));
        for (at[3] = 0; at[3] < a->keys; at[3]++) {
            const double *q = e->q + query_row(a, at), *k = e->k + key_row(a, at);
            double share = attention_share(c, at),
                   size = (double)a->scale * dot(q, k, a->size, true);
            double p = share < 0 ? 0 : exp((double)a->scale * dot(q, k, a->size, false) - lse);
            for (int64_t d = 0; d < a->size && share > 0; d++) {
                out[d] += p * share * e->v[key_row(a, at) + d];
                terms[d] += p * share * fabs(e->v[key_row(a, at) + d]);
            }
            e->score_terms = share >= 0 ? fmax(e->score_terms, size) : e->score_terms;
        }
    }
}

void attention_exact_terms(struct attention_exact *e, const struct attention_case *c)
{
    const struct kernel_attention *a = &c->a;
    for (int64_t row = 0; row < a->samples * a->heads * a->length; row++) {
        int64_t at[4];
        row_at(a, row, at);
        int64_t i = query_row(a, at);
        double delta = dot(e->dout + i, e->out + i, a->size, true);
        for (at[3] = 0; at[3] < a->keys; at[3]++) {
            int64_t j = key_row(a, at);
            double share = attention_share(c, at);
            double scale = (double)a->scale;
            double p = exp(scale * dot(e->q + i, e->k + j, a->size, false) - e->lse[row]);
            double ds = scale * p * (share * dot(e->dout + i, e->v + j, a->size, true) + delta);
            for (int64_t d = 0; d < a->size && share >= 0; d++) {
                e->dq_terms[i + d] += ds * fabs(e->k[j + d]);
                e->dk_terms[j + d] += ds * fabs(e->q[i + d]);
                e->dv_terms[j + d] += p * share * fabs(e->dout[i + d]);
            }
        }
    }
}
