/* Attention's kernels for the device, emulated, against attention by its definition in double and
 * the plain kernels: every mask, groups, packed documents, a cache, dropout, heads of every padded
 * size, in every type. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/cuda/kernels/attention.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/nn/attention_case.h"

/* Shapes that cross tiles of 16, 32 and 64 rows, with each mask. */
static const struct attention_shape shapes[] = {
    {.name = "one", .samples = 1, .length = 1, .keys = 1, .heads = 1, .kv_heads = 1, .size = 1},
    {.name = "short", .samples = 2, .length = 7, .keys = 7, .heads = 2, .kv_heads = 2, .size = 5},
    {.name = "joined, groups",
     .samples = 2,
     .length = 70,
     .keys = 70,
     .heads = 4,
     .kv_heads = 2,
     .size = 16,
     .joined = true},
    {.name = "head of 64",
     .samples = 1,
     .length = 130,
     .keys = 130,
     .heads = 1,
     .kv_heads = 1,
     .size = 64,
     .joined = true},
    {.name = "head of 80",
     .samples = 1,
     .length = 66,
     .keys = 66,
     .heads = 1,
     .kv_heads = 1,
     .size = 80,
     .joined = true},
    {.name = "head of 128, full",
     .samples = 1,
     .length = 35,
     .keys = 35,
     .heads = 2,
     .kv_heads = 1,
     .size = 128,
     .full = true},
    {.name = "head of 250",
     .samples = 1,
     .length = 34,
     .keys = 34,
     .heads = 1,
     .kv_heads = 1,
     .size = 250},
    {.name = "full",
     .samples = 2,
     .length = 67,
     .keys = 67,
     .heads = 2,
     .kv_heads = 1,
     .size = 9,
     .full = true},
    {.name = "window",
     .samples = 1,
     .length = 150,
     .keys = 150,
     .heads = 1,
     .kv_heads = 1,
     .size = 8,
     .window = 37},
    {.name = "window beyond all",
     .samples = 1,
     .length = 9,
     .keys = 5,
     .heads = 1,
     .kv_heads = 1,
     .size = 8,
     .window = INT64_MAX,
     .full = true},
    {.name = "window of one",
     .samples = 1,
     .length = 70,
     .keys = 70,
     .heads = 1,
     .kv_heads = 1,
     .size = 8,
     .window = 1},
    {.name = "window both ways",
     .samples = 1,
     .length = 100,
     .keys = 100,
     .heads = 1,
     .kv_heads = 1,
     .size = 8,
     .window = 50,
     .full = true},
    {.name = "documents",
     .samples = 2,
     .length = 140,
     .keys = 140,
     .heads = 2,
     .kv_heads = 1,
     .size = 8,
     .document = 71},
    {.name = "documents, full",
     .samples = 2,
     .length = 140,
     .keys = 140,
     .heads = 1,
     .kv_heads = 1,
     .size = 8,
     .document = 45,
     .full = true},
    {.name = "documents of one",
     .samples = 1,
     .length = 12,
     .keys = 12,
     .heads = 1,
     .kv_heads = 1,
     .size = 4,
     .document = 1},
    {.name = "window, documents",
     .samples = 1,
     .length = 120,
     .keys = 120,
     .heads = 1,
     .kv_heads = 1,
     .size = 8,
     .document = 90,
     .window = 60},
    {.name = "cache",
     .samples = 2,
     .length = 3,
     .keys = 140,
     .heads = 4,
     .kv_heads = 2,
     .size = 24},
    {.name = "one query",
     .samples = 2,
     .length = 1,
     .keys = 200,
     .heads = 4,
     .kv_heads = 1,
     .size = 64},
    {.name = "cache, documents",
     .samples = 1,
     .length = 70,
     .keys = 130,
     .heads = 1,
     .kv_heads = 1,
     .size = 12,
     .document = 50},
    {.name = "more queries than keys",
     .samples = 1,
     .length = 120,
     .keys = 50,
     .heads = 1,
     .kv_heads = 1,
     .size = 12},
    {.name = "across",
     .samples = 1,
     .length = 120,
     .keys = 50,
     .heads = 2,
     .kv_heads = 2,
     .size = 12,
     .full = true},
    {.name = "dropout",
     .samples = 2,
     .length = 70,
     .keys = 70,
     .heads = 4,
     .kv_heads = 2,
     .size = 8,
     .keep = 0.8f},
    {.name = "cache, dropout",
     .samples = 1,
     .length = 40,
     .keys = 70,
     .heads = 1,
     .kv_heads = 1,
     .size = 8,
     .keep = 0.5f},
};
enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

static struct head_array array_of(const void *at, enum wk_dtype type, struct attention_stride s)
{
    return (struct head_array){.at = at, .type = type, .row = s.row, .sample = s.sample};
}

/* The same attention as the device has it. `lands` is where gradients go. */
static struct attention_call call_of(const struct attention_case *c, bool adds)
{
    const struct kernel_attention *a = &c->a;
    const struct attention_data *d = &c->data;
    return (struct attention_call){
        .samples = a->samples,
        .heads = a->heads,
        .kv_heads = a->kv_heads,
        .length = (int)a->length,
        .keys = (int)a->keys,
        .size = (int)a->size,
        .scale = a->scale,
        .causal = a->causal,
        .window = a->window < INT32_MAX ? (int)a->window : INT32_MAX,
        .starts = a->starts,
        .keep = a->keep,
        .key = a->key,
        .first_sample = a->first_sample,
        .first_head = a->first_head,
        .type = a->type,
        .q = array_of(d->q, a->type, a->q),
        .k = array_of(d->k, a->type, a->k),
        .v = array_of(d->v, a->type, a->v),
        .out = array_of(d->out, a->type, a->out),
        .dout = array_of(d->dout, a->grad_type, a->out),
        .lse = d->lse,
        .dq = {d->dq, adds},
        .dk = {d->dk, adds},
        .dv = {d->dv, adds},
    };
}

static void forward(struct attention_case *c)
{
    struct attention_call call = call_of(c, false);
    attention_device_forward(&call, NULL);
}

/* Scratch memory of exactly its size, full of NaN. */
static void backward(struct attention_case *c, bool adds)
{
    struct attention_call call = call_of(c, adds);
    size_t bytes = attention_device_scratch(&call);
    call.scratch = malloc(bytes + !bytes);
    memset(call.scratch, 0xff, bytes);
    attention_device_backward(&call, NULL);
    free(call.scratch);
}

static double unit_of(enum wk_dtype type)
{
    if (type == WK_F32)
        return 0;
    return type == WK_BF16 ? ROUNDING_BF16 : ROUNDING_F16;
}

/* As the bounds of tests/numeric/nn/test_attention.c, for tiles of 16 keys, and what tensor cores
 * round before they multiply: forward the probabilities, backward dout and the scores' gradients.
 */
struct bound {
    double terms, element;
};

static struct bound bound_of(const struct attention_case *c, const struct attention_exact *e,
                             bool back)
{
    const struct kernel_attention *a = &c->a;
    double size = (double)a->size, keys = (double)a->keys;
    double queries = (double)(a->length * (a->heads / a->kv_heads));
    double roundings = 3 * size + 2 * keys + queries + 8 + 5 * (1 + keys / 16);
    double lse = e->score_terms + log(keys + 1), unit = unit_of(a->type);
    return (struct bound){
        rounding_bound(roundings) + e->score_terms * rounding_bound(size + 2) +
            lse * rounding_bound(1) + (back ? 2 : 1) * unit,
        back ? 0 : 2 * unit,
    };
}

static void expect_near(const struct attention_case *c, enum attention_array array,
                        const double *expected, const double *terms, struct bound bound,
                        const char *what)
{
    double worst = 0, *ours = attention_values(c, array);
    size_t at = 0, count = attention_count(c, array);
    for (size_t i = 0; i < count; i++) {
        double most = bound.terms * terms[i] + bound.element * fabs(expected[i]) + 1e-30;
        double off = fabs(ours[i] - expected[i]) / most;
        if (!(off <= worst)) {
            worst = off;
            at = i;
        }
    }
    cr_expect(worst <= 1, "%s: element %zu is %.9g, expected %.9g: %.2f times the bound", what, at,
              count ? ours[at] : 0, count ? expected[at] : 0, worst);
    cr_expect_eq(attention_strays(c, array), 0, "%s: others were written", what);
    if (getenv("SHOW"))
        fprintf(stderr, "%s: %.3f\n", what, worst);
    free(ours);
}

static const enum attention_array gradients[] = {ARRAY_DQ, ARRAY_DK, ARRAY_DV};

static void expect_lse(const struct attention_case *c, const struct attention_exact *e,
                       const char *what)
{
    double most = bound_of(c, e, false).terms - unit_of(c->a.type);
    for (int64_t i = 0; i < c->a.samples * c->a.heads * c->a.length; i++) {
        double ours = (double)c->lse[i];
        cr_expect(ours == e->lse[i] || fabs(ours - e->lse[i]) <= most,
                  "%s: the lse of row %d is %.9g, expected %.9g", what, (int)i, ours, e->lse[i]);
    }
}

/* Forward by itself; backward from the plain out and lse, and against the plain gradients. */
static void check_shape(const struct attention_shape *shape, enum wk_dtype type)
{
    char what[160];
    struct attention_case *c = attention_case_new(shape, type, WK_F32);
    struct attention_exact e = attention_exact_new(c);
    const double *terms[3] = {e.dq_terms, e.dk_terms, e.dv_terms};
    attention_exact_forward(&e, c);
    attention_exact_terms(&e, c);
    (void)snprintf(what, sizeof(what), "%s, %s: out", shape->name, wk_dtype_name(type));
    forward(c);
    expect_near(c, ARRAY_OUT, e.out, e.out_terms, bound_of(c, &e, false), what);
    expect_lse(c, &e, what);
    attention_case_run(c, kernel_reference());
    double *plain[3];
    for (int i = 0; i < 3; i++)
        plain[i] = attention_values(c, gradients[i]);
    backward(c, false);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(what, sizeof(what), "%s, %s: d%c", shape->name, wk_dtype_name(type),
                       "qkv"[i]);
        expect_near(c, gradients[i], plain[i], terms[i], bound_of(c, &e, true), what);
        free(plain[i]);
    }
    attention_exact_free(&e);
    attention_case_free(c);
}

Test(cuda_attention, every_mask_in_f32)
{
    for (size_t i = 0; i < SHAPES; i++)
        check_shape(&shapes[i], WK_F32);
}

Test(cuda_attention, every_mask_in_bf16)
{
    for (size_t i = 0; i < SHAPES; i++)
        check_shape(&shapes[i], WK_BF16);
}

Test(cuda_attention, every_mask_in_f16)
{
    for (size_t i = 0; i < SHAPES; i++)
        check_shape(&shapes[i], WK_F16);
}
