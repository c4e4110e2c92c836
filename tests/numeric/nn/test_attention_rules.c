/* What attention promises beside right numbers: whose dropout, equal bits, rows that see nothing,
 * linear memory.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/rounding.h"
#include "tests/numeric/nn/attention_case.h"
#include "tests/numeric/nn/fixture.h"

typedef void rule_fn(const struct kernel_table *kernels);

static void every_table(rule_fn *rule)
{
    const struct kernel_table *kernels;
    for (int i = 0; (kernels = kernel_cpu_variant(i)); i++)
        rule(kernels);
}

/* With the identity as values, out is the row of probabilities. */
static void check_mask(const struct kernel_table *kernels)
{
    static const enum wk_dtype types[] = {WK_F32, WK_BF16, WK_F16};
    const struct attention_shape shape = {.samples = 2,
                                          .length = 200,
                                          .keys = 200,
                                          .heads = 2,
                                          .kv_heads = 1,
                                          .size = 200,
                                          .keep = 0.7f};
    for (size_t type = 0; type < 3; type++) {
        struct attention_case *c = attention_case_new(&shape, types[type], WK_F32);
        double *v = calloc(attention_count(c, ARRAY_V), sizeof(*v)), *out;
        for (int64_t i = 0; i < 2 * 200; i++)
            v[i * 200 + i % 200] = 1;
        attention_set(c, ARRAY_V, v);
        attention_case_forward(c, kernels);
        out = attention_values(c, ARRAY_OUT);
        int64_t kept = 0, seen = 0;
        for (int64_t i = 0; i < (int64_t)attention_count(c, ARRAY_OUT); i++) {
            const int64_t at[4] = {i / (400 * 200), i / 200 % 2, i / 400 % 200, i % 200};
            double share = attention_share(c, at);
            cr_assert_eq(out[i] != 0, share > 0, "%s: element %d", kernels->name, (int)i);
            if (share > 0)
                kept++;
            if (share >= 0)
                seen++;
        }
        /* a binomial share of 0.7, within 6 standard deviations */
        cr_expect_float_eq((double)kept / (double)seen, 0.7, 6 * sqrt(0.21 / (double)seen));
        free(v);
        free(out);
        attention_case_free(c);
    }
}

Test(attention_rules, dropout_is_of_the_element_in_every_type)
{
    every_table(check_mask);
}

static const enum attention_array results[] = {ARRAY_OUT, ARRAY_DQ, ARRAY_DK, ARRAY_DV};

/* Sample `sample` of all and the only one of `one` have equal bits. */
static void expect_sample(const struct attention_case *all, const struct attention_case *one,
                          int64_t sample)
{
    for (size_t i = 0; i < 4; i++) {
        size_t count = attention_count(one, results[i]);
        double *a = attention_values(all, results[i]), *b = attention_values(one, results[i]);
        cr_expect_eq(memcmp(a + (size_t)sample * count, b, count * sizeof(*a)), 0,
                     "result %d of sample %d", (int)i, (int)sample);
        free(a);
        free(b);
    }
}

static void copy_sample(const struct attention_case *all, struct attention_case *one,
                        int64_t sample, enum attention_array array)
{
    double *values = attention_values(all, array);
    attention_set(one, array, values + (size_t)sample * attention_count(one, array));
    free(values);
}

static void check_dealing(const struct kernel_table *kernels)
{
    struct attention_shape shape = {.samples = 3,
                                    .length = 110,
                                    .keys = 110,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .size = 18,
                                    .keep = 0.9f};
    struct attention_case *all = attention_case_new(&shape, WK_F32, WK_F32);
    attention_case_run(all, kernels);
    shape.samples = 1;
    for (int64_t sample = 0; sample < 3; sample++) {
        struct attention_case *one = attention_case_new(&shape, WK_F32, WK_F32);
        one->a.first_sample = all->a.first_sample + sample;
        copy_sample(all, one, sample, ARRAY_Q);
        copy_sample(all, one, sample, ARRAY_K);
        copy_sample(all, one, sample, ARRAY_V);
        copy_sample(all, one, sample, ARRAY_DOUT);
        attention_case_run(one, kernels);
        expect_sample(all, one, sample);
        attention_case_free(one);
    }
    attention_case_free(all);
}

Test(attention_rules, samples_have_equal_bits_however_they_are_dealt)
{
    every_table(check_dealing);
}

/* Twice, with scratch memory at another alignment and with other remains in it. */
static void check_repeats(const struct kernel_table *kernels)
{
    const struct attention_shape shape = {.samples = 1,
                                          .length = 401,
                                          .keys = 401,
                                          .heads = 2,
                                          .kv_heads = 2,
                                          .size = 40,
                                          .joined = true};
    struct attention_case *a = attention_case_new(&shape, WK_F32, WK_F32);
    struct attention_case *b = attention_case_new(&shape, WK_F32, WK_F32);
    attention_case_run(a, kernels);
    size_t bytes = attention_scratch_bytes(&b->a, true);
    char *memory = malloc(bytes + sizeof(float));
    memset(memory, 0x3f, bytes + sizeof(float));
    b->data.scratch = memory + sizeof(float);
    kernels->attention->forward(&b->a, &b->data);
    kernels->attention->backward(&b->a, &b->data);
    expect_sample(a, b, 0);
    free(memory);
    attention_case_free(a);
    attention_case_free(b);
}

Test(attention_rules, runs_have_equal_bits)
{
    every_table(check_repeats);
}

/* Five queries before the first key see none. */
static void check_masked(const struct kernel_table *kernels)
{
    const struct attention_shape shape = {
        .samples = 1, .length = 9, .keys = 4, .heads = 1, .kv_heads = 1, .size = 8};
    struct attention_case *c = attention_case_new(&shape, WK_F32, WK_F32);
    attention_case_run(c, kernels);
    double *out = attention_values(c, ARRAY_OUT), *dq = attention_values(c, ARRAY_DQ);
    for (int64_t i = 0; i < 9; i++) {
        cr_expect_eq(c->lse[i] == -INFINITY, i < 5);
        for (int64_t d = 0; d < 8; d++) {
            cr_expect_eq(out[i * 8 + d] == 0, i < 5, "%s", kernels->name);
            cr_expect(i >= 5 ? isfinite(dq[i * 8 + d]) : dq[i * 8 + d] == 0);
        }
    }
    free(out);
    free(dq);
    attention_case_free(c);
}

Test(attention_rules, a_row_that_sees_nothing_is_zero)
{
    every_table(check_masked);
}

/* No sample: nothing is touched. No query: the keys' gradients are 0. No key: so is out. */
static void check_empty(const struct kernel_table *kernels)
{
    struct attention_shape shape = {.length = 5, .keys = 5, .heads = 2, .kv_heads = 1, .size = 8};
    struct attention_case *none = attention_case_new(&shape, WK_F32, WK_F32);
    attention_case_run(none, kernels);
    attention_case_free(none);
    shape.samples = 2;
    shape.length = 0;
    struct attention_case *queries = attention_case_new(&shape, WK_F32, WK_F32);
    attention_case_run(queries, kernels);
    double *dk = attention_values(queries, ARRAY_DK);
    for (size_t i = 0; i < attention_count(queries, ARRAY_DK); i++)
        cr_expect_eq(dk[i], 0);
    free(dk);
    attention_case_free(queries);
    shape.length = 5;
    shape.keys = 0;
    struct attention_case *keys = attention_case_new(&shape, WK_F32, WK_F32);
    attention_case_run(keys, kernels);
    double *out = attention_values(keys, ARRAY_OUT);
    for (size_t i = 0; i < attention_count(keys, ARRAY_OUT); i++)
        cr_expect_eq(out[i], 0);
    free(out);
    attention_case_free(keys);
}

Test(attention_rules, nothing_is_allowed)
{
    every_table(check_empty);
}

/* Large scores: the exponentials of all but the largest are 0, and nothing overflows. */
static void check_large(const struct kernel_table *kernels)
{
    const struct attention_shape shape = {
        .samples = 1, .length = 420, .keys = 420, .heads = 1, .kv_heads = 1, .size = 16};
    struct attention_case *c = attention_case_new(&shape, WK_F32, WK_F32);
    c->a.scale = 1e4f;
    attention_case_run(c, kernels);
    for (size_t i = 0; i < 4; i++) {
        double *x = attention_values(c, results[i]);
        for (size_t j = 0; j < attention_count(c, results[i]); j++)
            cr_assert(isfinite(x[j]), "%s: result %d", kernels->name, (int)i);
        free(x);
    }
    attention_case_free(c);
}

Test(attention_rules, large_scores_do_not_overflow)
{
    every_table(check_large);
}

/* A length whose probabilities would fill a GiB. With values of 1 every out is 1, and the sum of dv
 * over keys is that of dout over queries: off by the roundings of 16384 terms of about 1. */
Test(attention_rules, long_rows_need_linear_memory)
{
    enum { LENGTH = 16384, SIZE = 8 };
    const struct attention_shape shape = {
        .samples = 1, .length = LENGTH, .keys = LENGTH, .heads = 1, .kv_heads = 1, .size = SIZE};
    struct attention_case *c = attention_case_new(&shape, WK_F32, WK_F32);
    size_t count = attention_count(c, ARRAY_V), bytes = attention_scratch_bytes(&c->a, true);
    double *v = malloc(count * sizeof(*v));
    for (size_t i = 0; i < count; i++)
        v[i] = 1;
    attention_set(c, ARRAY_V, v);
    attention_case_run(c, kernel_cpu());
    double *out = attention_values(c, ARRAY_OUT), *dv = attention_values(c, ARRAY_DV);
    double *dout = attention_values(c, ARRAY_DOUT), sums[2][SIZE] = {{0}};
    for (size_t i = 0; i < count; i++) {
        cr_assert_float_eq(out[i], 1, rounding_bound(2 * LENGTH));
        sums[0][i % SIZE] += dv[i];
        sums[1][i % SIZE] += dout[i];
    }
    for (size_t i = 0; i < SIZE; i++)
        cr_expect_float_eq(sums[0][i], sums[1][i], LENGTH * rounding_bound(LENGTH));
    c->a.length = c->a.keys = 2 * LENGTH;
    cr_expect_lt(attention_scratch_bytes(&c->a, true), 2 * bytes);
    cr_expect_lt(bytes, 64 * LENGTH * SIZE * sizeof(float));
    free(v);
    free(out);
    free(dv);
    free(dout);
    attention_case_free(c);
}
