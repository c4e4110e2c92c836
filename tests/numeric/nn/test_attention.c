/* Attention in tiles: the plain kernels against attention by its definition in double and slopes of
 * it, and every build against the plain kernels.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/rounding.h"
#include "tests/numeric/nn/attention_case.h"
#include "tests/numeric/nn/fixture.h"

/* Shapes that cross every boundary of a tile (96 queries, 384 keys, 64 keys at once, strips of 6),
 * with each mask. */
static const struct attention_shape shapes[] = {
    {.name = "one", .samples = 1, .length = 1, .keys = 1, .heads = 1, .kv_heads = 1, .size = 1},
    {.name = "short", .samples = 2, .length = 7, .keys = 7, .heads = 2, .kv_heads = 2, .size = 5},
    {.name = "joined",
     .samples = 2,
     .length = 130,
     .keys = 130,
     .heads = 3,
     .kv_heads = 3,
     .size = 32,
     .joined = true},
    {.name = "groups",
     .samples = 2,
     .length = 97,
     .keys = 97,
     .heads = 6,
     .kv_heads = 2,
     .size = 20,
     .joined = true},
    {.name = "long",
     .samples = 1,
     .length = 467,
     .keys = 467,
     .heads = 1,
     .kv_heads = 1,
     .size = 64},
    {.name = "full",
     .samples = 2,
     .length = 101,
     .keys = 101,
     .heads = 2,
     .kv_heads = 1,
     .size = 33,
     .full = true},
    {.name = "full, long",
     .samples = 1,
     .length = 193,
     .keys = 193,
     .heads = 1,
     .kv_heads = 1,
     .size = 16,
     .full = true},
    {.name = "window",
     .samples = 1,
     .length = 450,
     .keys = 450,
     .heads = 2,
     .kv_heads = 2,
     .size = 24,
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
     .length = 200,
     .keys = 200,
     .heads = 1,
     .kv_heads = 1,
     .size = 8,
     .window = 50,
     .full = true},
    {.name = "documents",
     .samples = 2,
     .length = 260,
     .keys = 260,
     .heads = 2,
     .kv_heads = 1,
     .size = 16,
     .document = 71},
    {.name = "documents, full",
     .samples = 2,
     .length = 260,
     .keys = 260,
     .heads = 1,
     .kv_heads = 1,
     .size = 16,
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
     .length = 200,
     .keys = 200,
     .heads = 1,
     .kv_heads = 1,
     .size = 16,
     .document = 90,
     .window = 60},
    {.name = "cache",
     .samples = 2,
     .length = 3,
     .keys = 400,
     .heads = 4,
     .kv_heads = 2,
     .size = 40},
    {.name = "one query",
     .samples = 2,
     .length = 1,
     .keys = 500,
     .heads = 4,
     .kv_heads = 1,
     .size = 64},
    {.name = "cache, window",
     .samples = 1,
     .length = 100,
     .keys = 460,
     .heads = 1,
     .kv_heads = 1,
     .size = 12,
     .window = 90},
    {.name = "cache, documents",
     .samples = 1,
     .length = 100,
     .keys = 160,
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
     .length = 140,
     .keys = 140,
     .heads = 4,
     .kv_heads = 2,
     .size = 16,
     .keep = 0.8f},
    {.name = "cache, dropout",
     .samples = 1,
     .length = 100,
     .keys = 130,
     .heads = 1,
     .kv_heads = 1,
     .size = 8,
     .keep = 0.5f},
    {.name = "dropout, full",
     .samples = 1,
     .length = 100,
     .keys = 100,
     .heads = 1,
     .kv_heads = 1,
     .size = 72,
     .keep = 0.3f,
     .full = true},
};
enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

static double unit_of(enum wk_dtype type)
{
    if (type == WK_F32)
        return ROUNDING_F32;
    return type == WK_BF16 ? ROUNDING_BF16 : ROUNDING_F16;
}

/* How far one element may be from another right one, as a share of the sum of the absolute values
 * of its terms: the error of a sum is relative to those, so that terms which cancel need no special
 * case. The roundings in float32, one after another, of which r(n) is the bound for n:
 *
 *  - A score is a sum of `size` products, scaled: off by r(size + 2) of the sum of its absolute
 *    terms, at most S. Its exponential is off by as much of itself.
 *  - An exponential: 8 of its own, and 5 more where the row's largest score changes with a tile.
 *  - The row's sum: `keys`. Its log is off by a rounding of itself, at most S + log(keys).
 *  - dout v and dout out: `size` each.
 *  - The last sum: `keys` for out and dq, the queries of a group for dk and dv.
 *
 * Then both sides are rounded to the type of the array: twice its unit of the element. */
struct bound {
    double terms, element;
};

static struct bound bound_of(const struct attention_case *c, const struct attention_exact *e,
                             enum wk_dtype type)
{
    const struct kernel_attention *a = &c->a;
    double size = (double)a->size, keys = (double)a->keys;
    double queries = (double)(a->length * (a->heads / a->kv_heads));
    double tiles = 1 + keys / 384;
    double roundings = 3 * size + 2 * keys + queries + 8 + 5 * tiles;
    double lse = e->score_terms + log(keys + 1);
    return (struct bound){
        rounding_bound(roundings) + e->score_terms * rounding_bound(size + 2) +
            lse * rounding_bound(1),
        type == WK_F32 ? 0 : 2 * unit_of(type),
    };
}

/* Element by element; `terms` NULL: the elements themselves. */
static void expect_near(const double *ours, const double *expected, const double *terms,
                        size_t count, struct bound bound, const char *what)
{
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        double most = bound.terms * (terms ? terms[i] : fabs(expected[i])) +
                      bound.element * fabs(expected[i]) + 1e-30;
        double off = fabs(ours[i] - expected[i]) / most;
        if (!(off <= worst)) {
            worst = off;
            at = i;
        }
    }
    cr_expect(worst <= 1, "%s: element %zu is %.9g, expected %.9g: %.2f times the bound", what, at,
              count ? ours[at] : 0, count ? expected[at] : 0, worst);
}

static void expect_array(const struct attention_case *c, enum attention_array array,
                         const double *expected, const double *terms, struct bound bound,
                         const char *what)
{
    double *ours = attention_values(c, array);
    expect_near(ours, expected, terms, attention_count(c, array), bound, what);
    free(ours);
}

static void expect_lse(const struct attention_case *c, const double *expected, double absolute,
                       const char *what)
{
    for (int64_t i = 0; i < c->a.samples * c->a.heads * c->a.length; i++) {
        double ours = (double)c->lse[i];
        cr_expect(ours == expected[i] || fabs(ours - expected[i]) <= absolute,
                  "%s: the lse of row %d is %.9g, expected %.9g", what, (int)i, ours, expected[i]);
    }
}

Test(attention, plain_forward_is_the_definition)
{
    for (size_t i = 0; i < SHAPES; i++) {
        struct attention_case *c = attention_case_new(&shapes[i], WK_F32, WK_F32);
        struct attention_exact e = attention_exact_new(c);
        attention_exact_forward(&e, c);
        attention_case_forward(c, kernel_reference());
        expect_array(c, ARRAY_OUT, e.out, e.out_terms, (struct bound){rounding_bound(1), 0},
                     shapes[i].name);
        expect_lse(c, e.lse, rounding_bound(1) * (e.score_terms + 7), shapes[i].name);
        cr_expect_eq(attention_strays(c, ARRAY_OUT), 0, "%s", shapes[i].name);
        attention_exact_free(&e);
        attention_case_free(c);
    }
}

/* The sum over out of dout * out, by its definition. */
static double loss(struct attention_exact *e, const struct attention_case *c)
{
    double sum = 0;
    attention_exact_forward(e, c);
    for (size_t i = 0; i < attention_count(c, ARRAY_OUT); i++)
        sum += e->dout[i] * e->out[i];
    return sum;
}

/* Differences over 2 STEP are off by STEP^2 and by double's rounding over STEP: 1e-9 of a loss of
 * hundreds. The gradient was rounded to float, from an out and an lse that were. */
static void expect_slopes(struct attention_exact *e, const struct attention_case *c, double *x,
                          enum attention_array gradient)
{
    const double step = 1e-5;
    double *ours = attention_values(c, gradient);
    size_t count = attention_count(c, gradient);
    for (size_t i = 0; i < count; i += 1 + count / 40) {
        double kept = x[i], up, down;
        x[i] = kept + step;
        up = loss(e, c);
        x[i] = kept - step;
        down = loss(e, c);
        x[i] = kept;
        cr_expect_float_eq(ours[i], (up - down) / (2 * step), 2e-6 * (1 + fabs(ours[i])),
                           "gradient %d, element %zu: %.9g, the slope is %.9g", (int)gradient, i,
                           ours[i], (up - down) / (2 * step));
    }
    free(ours);
}

Test(attention, plain_backward_is_the_slope)
{
    static const struct attention_shape small[] = {
        {.samples = 2, .length = 9, .keys = 9, .heads = 4, .kv_heads = 2, .size = 3},
        {.samples = 1, .length = 9, .keys = 9, .heads = 1, .kv_heads = 1, .size = 6, .full = true},
        {.samples = 1, .length = 12, .keys = 12, .heads = 1, .kv_heads = 1, .size = 4, .window = 3},
        {.samples = 2,
         .length = 12,
         .keys = 12,
         .heads = 2,
         .kv_heads = 1,
         .size = 4,
         .document = 5,
         .joined = true},
        {.samples = 1, .length = 5, .keys = 12, .heads = 2, .kv_heads = 2, .size = 4},
        {.samples = 1, .length = 12, .keys = 5, .heads = 1, .kv_heads = 1, .size = 4},
        {.samples = 2,
         .length = 14,
         .keys = 14,
         .heads = 2,
         .kv_heads = 1,
         .size = 4,
         .keep = 0.6f},
    };
    for (size_t i = 0; i < sizeof(small) / sizeof(*small); i++) {
        struct attention_case *c = attention_case_new(&small[i], WK_F32, WK_F32);
        struct attention_exact e = attention_exact_new(c);
        attention_case_run(c, kernel_reference());
        expect_slopes(&e, c, e.q, ARRAY_DQ);
        expect_slopes(&e, c, e.k, ARRAY_DK);
        expect_slopes(&e, c, e.v, ARRAY_DV);
        attention_exact_free(&e);
        attention_case_free(c);
    }
}

/* What one build's results are compared with. */
struct expected {
    struct attention_exact exact;
    double *gradients[3]; /* of the plain kernels */
};

static const enum attention_array gradients[] = {ARRAY_DQ, ARRAY_DK, ARRAY_DV};

/* Forward by itself, backward from the plain out and lse, which it leaves in the case. */
static void check_build(struct attention_case *c, const struct kernel_table *kernels,
                        const struct expected *expected, const char *name)
{
    const struct attention_exact *e = &expected->exact;
    const double *terms[3] = {e->dq_terms, e->dk_terms, e->dv_terms};
    struct bound bound = bound_of(c, e, c->a.type);
    char what[160];
    attention_case_forward(c, kernels);
    (void)snprintf(what, sizeof(what), "%s, %s, %s: out", kernels->name, name,
                   wk_dtype_name(c->a.type));
    expect_array(c, ARRAY_OUT, e->out, e->out_terms, bound, what);
    expect_lse(c, e->lse, bound.terms, what);
    cr_expect_eq(attention_strays(c, ARRAY_OUT), 0, "%s", what);

    attention_case_forward(c, kernel_reference());
    attention_case_backward(c, kernels);
    bound = bound_of(c, e, c->a.grad_type);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(what, sizeof(what), "%s, %s, %s: d%c", kernels->name, name,
                       wk_dtype_name(c->a.grad_type), "qkv"[i]);
        expect_array(c, gradients[i], expected->gradients[i], terms[i], bound, what);
        cr_expect_eq(attention_strays(c, gradients[i]), 0, "%s", what);
    }
}

static void check_case(const struct attention_shape *shape, enum wk_dtype type,
                       enum wk_dtype grad_type)
{
    struct attention_case *c = attention_case_new(shape, type, grad_type);
    struct expected expected = {.exact = attention_exact_new(c)};
    const struct kernel_table *kernels;
    attention_exact_forward(&expected.exact, c);
    attention_exact_terms(&expected.exact, c);
    attention_case_run(c, kernel_reference());
    for (int i = 0; i < 3; i++)
        expected.gradients[i] = attention_values(c, gradients[i]);
    for (int i = 1; (kernels = kernel_cpu_variant(i)); i++)
        check_build(c, kernels, &expected, shape->name);
    for (int i = 0; i < 3; i++)
        free(expected.gradients[i]);
    attention_exact_free(&expected.exact);
    attention_case_free(c);
}

Test(attention, every_build_in_float)
{
    for (size_t i = 0; i < SHAPES; i++)
        check_case(&shapes[i], WK_F32, WK_F32);
}

/* Every type of the values and of the gradients, also unlike ones. */
Test(attention, every_build_in_every_type)
{
    static const enum wk_dtype types[][2] = {
        {WK_BF16, WK_BF16}, {WK_F16, WK_F16}, {WK_BF16, WK_F32}, {WK_F32, WK_F16}};
    for (size_t i = 1; i < SHAPES; i += 3) {
        for (size_t j = 0; j < sizeof(types) / sizeof(*types); j++)
            check_case(&shapes[i], types[j][0], types[j][1]);
    }
}

/* Sizes of a head around every number of vectors. */
Test(attention, every_build_at_every_size)
{
    static const int64_t sizes[] = {1,  2,  3,  7,  8,  9,  15,  16,  17,  31,  32,  33,  47,  48,
                                    49, 63, 64, 65, 80, 96, 112, 127, 128, 129, 160, 200, 255, 256};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct attention_shape s = {.name = "size", .samples = 1, .length = 13, .keys = 70};
        s.heads = s.kv_heads = 2;
        s.size = sizes[i];
        check_case(&s, WK_F32, WK_F32);
    }
}

/* Lengths around every edge of a tile. */
Test(attention, every_build_at_every_length)
{
    static const int64_t lengths[] = {1,  2,  5,  6,   7,   63,  64,  65,
                                      95, 96, 97, 191, 193, 383, 384, 385};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        struct attention_shape s = {.name = "length", .samples = 1, .size = 3};
        s.heads = s.kv_heads = 1;
        s.length = s.keys = lengths[i];
        s.full = i % 2;
        check_case(&s, WK_F32, WK_F32);
    }
}
