/* Parameter groups, low-precision copies, parts of the range, and state as checkpoints see it. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <worker/precision.h>

#include "libworker/nn/model.h"
#include "libworker/optim/optimizer.h"
#include "libworker/precision/half.h"
#include "tests/lib/rounding.h"

enum { COUNT = 150, ARENA = 160, UPDATE = 8 }; /* roundings of one element's update */

/* With a gap of ten elements behind "b.bias", as views that start on cache lines leave. */
static const struct param params[3] = {
    {.name = "a.weight", .dims = 2, .shape = {6, 10}, .count = 60, .decay = true},
    {.name = "b.bias", .dims = 1, .shape = {10}, .count = 10, .offset = 60},
    {.name = "c.weight", .dims = 2, .shape = {8, 10}, .count = 80, .offset = 80, .decay = true},
};

static float pattern(size_t i, int salt)
{
    return (float)(((int)i * 7919 + salt * 104729) % 2003 - 1001) / 1001.0f;
}

static struct wk_optimizer *make(int kind)
{
    struct wk_optimizer *o = NULL;
    const struct wk_adamw_options adam = {0.01, 0.9, 0.95, 1e-8, 0.1};
    const struct wk_lion_options lion = {0.01, 0.9, 0.99, 0.1};
    const struct wk_sgd_options sgd = {0.1, 0.9, true, 0.1};
    const struct wk_adafactor_options factor = {0.01, 0.8, 1e-30, 1e-3, 1, true, 0.1};
    const struct wk_muon_options muon = {.rate = 0.01, .momentum = 0.9, .others = adam};
    int rc = kind == 0   ? wk_adam_new(&adam, &o)
             : kind == 1 ? wk_adamw_new(&adam, &o)
             : kind == 2 ? wk_sgd_new(&sgd, &o)
             : kind == 3 ? wk_lion_new(&lion, &o)
             : kind == 4 ? wk_adafactor_new(&factor, &o)
                         : wk_muon_new(&muon, &o);
    cr_assert_eq(rc, 0);
    return o;
}

enum { KINDS = 6, ELEMENTWISE = 4 };

static void step(struct wk_optimizer *o, float *x, size_t first, int t)
{
    float grads[ARENA];
    for (size_t i = 0; i < ARENA; i++)
        grads[i] = pattern(i, t);
    cr_assert_eq(optimizer_step(o, x, grads + first, 1, NULL), 0);
}

static void start(float x[ARENA])
{
    for (size_t i = 0; i < ARENA; i++)
        x[i] = pattern(i, 99);
}

/* Whatever the cut, down to single elements: what ZeRO does. */
Test(parts, of_every_elementwise_optimizer_make_the_whole)
{
    static const size_t cuts[] = {0, 1, 59, 60, 65, 75, 81, 160};
    for (int kind = 0; kind < ELEMENTWISE; kind++) {
        float whole[ARENA], parts[ARENA];
        struct wk_optimizer *o = make(kind);
        cr_assert_eq(optimizer_bind(o, params, 3, 0, ARENA, NULL), 0);
        start(whole);
        start(parts);
        for (int t = 1; t <= 4; t++)
            step(o, whole, 0, t);
        for (size_t i = 0; i + 1 < sizeof(cuts) / sizeof(*cuts); i++) {
            struct wk_optimizer *part = make(kind);
            cr_assert_eq(optimizer_bind(part, params, 3, cuts[i], cuts[i + 1] - cuts[i], NULL), 0);
            for (int t = 1; t <= 4; t++)
                step(part, parts + cuts[i], cuts[i], t);
            wk_optimizer_free(part);
        }
        for (int p = 0; p < 3; p++)
            for (size_t i = params[p].offset; i < params[p].offset + params[p].count; i++)
                cr_assert_float_eq(parts[i], whole[i], rounding_bound(4 * UPDATE) * fabs(whole[i]),
                                   "%s [%zu] %g, not %g", o->ops->name, i, (double)parts[i],
                                   (double)whole[i]);
        wk_optimizer_free(o);
    }
}

/* Tensors of one kind with a gap between them: every element of both is updated. */
Test(parts, with_gaps_are_complete)
{
    static const struct param gapped[2] = {
        {.name = "a", .dims = 2, .shape = {2, 5}, .count = 10, .decay = true},
        {.name = "b", .dims = 2, .shape = {2, 5}, .count = 10, .offset = 16, .decay = true},
    };
    float x[26], grads[26] = {0};
    for (int i = 0; i < 26; i++)
        x[i] = 1;
    struct wk_optimizer *o = make(1);
    cr_assert_eq(optimizer_bind(o, gapped, 2, 0, 26, NULL), 0);
    cr_assert_eq(optimizer_step(o, x, grads, 1, NULL), 0);
    for (int i = 0; i < 26; i++)
        if (i < 10 || i >= 16)
            cr_expect_lt(x[i], 1, "[%d]", i);
    wk_optimizer_free(o);
}

Test(parts, are_refused_where_whole_tensors_are_needed)
{
    for (int kind = ELEMENTWISE; kind < KINDS; kind++) {
        struct wk_optimizer *o = make(kind);
        struct error err = {0};
        cr_expect(o->ops->whole_tensors);
        cr_expect_eq(optimizer_bind(o, params, 3, 0, 100, &err), WK_EUNSUPPORTED);
        cr_expect_not_null(strstr(err.text, "c.weight"), "%s", err.text);
        float x[ARENA];
        cr_expect_eq(optimizer_step(o, x, x, 1, NULL), WK_ESTATE);
        cr_expect_eq(optimizer_bind(o, params, 3, 0, 70, NULL), 0);
        wk_optimizer_free(o);
    }
}

Test(groups, change_rate_and_decay_by_name)
{
    float x[ARENA], grads[ARENA] = {0};
    struct wk_optimizer *o = make(1);
    cr_assert_eq(wk_optimizer_group(o, &(struct wk_group){"a.*", 0, -1}), 0);
    cr_assert_eq(wk_optimizer_group(o, &(struct wk_group){"*.bias", 10, 0.5}), 0);
    cr_assert_eq(wk_optimizer_group(o, &(struct wk_group){"*", 2, -1}), 0);
    cr_assert_eq(optimizer_bind(o, params, 3, 0, ARENA, NULL), 0);
    for (size_t i = 0; i < ARENA; i++)
        x[i] = 1;
    cr_assert_eq(optimizer_step(o, x, grads, 1, NULL), 0);
    cr_expect_eq(x[0], 1); /* frozen */
    cr_expect_float_eq(x[60], 1 - 10 * 0.01 * 0.5,
                       rounding_bound(UPDATE)); /* a vector that decays */
    cr_expect_float_eq(x[80], 1 - 2 * 0.01 * 0.1, rounding_bound(UPDATE));
    cr_expect_eq(wk_optimizer_group(o, &(struct wk_group){"*", 1, -1}), WK_ESTATE);
    wk_optimizer_free(o);
}

Test(groups, refuse_what_makes_no_sense)
{
    struct wk_optimizer *o = make(1);
    cr_expect_eq(wk_optimizer_group(o, &(struct wk_group){NULL, 1, -1}), WK_EINVAL);
    cr_expect_eq(wk_optimizer_group(o, &(struct wk_group){"*", -1, -1}), WK_EINVAL);
    cr_expect_eq(wk_optimizer_group(o, &(struct wk_group){"*", 1, NAN}), WK_EINVAL);
    char longest[WK_PATTERN_MAX + 1];
    memset(longest, 'a', WK_PATTERN_MAX);
    longest[WK_PATTERN_MAX] = 0;
    cr_expect_eq(wk_optimizer_group(o, &(struct wk_group){longest, 1, -1}), WK_EINVAL);
    for (int i = 0; i < WK_GROUPS_MAX; i++)
        cr_expect_eq(wk_optimizer_group(o, &(struct wk_group){"*", 1, -1}), 0);
    cr_expect_eq(wk_optimizer_group(o, &(struct wk_group){"*", 1, -1}), WK_ENOMEM);
    wk_optimizer_free(o);
}

/* An embedding, and a matrix whose group asks for it, go by Adam under Muon. */
Test(groups, muon_leaves_matrices_to_adam)
{
    struct param marked[3];
    memcpy(marked, params, sizeof(marked));
    marked[0].lookup = true;
    struct wk_optimizer *o = make(5);
    cr_assert_eq(wk_optimizer_group(o, &(struct wk_group){"c.*", 1, -1, true}), 0);
    cr_assert_eq(optimizer_bind(o, marked, 3, 0, ARENA, NULL), 0);
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(optimizer_state_view(o, 0, &marked[i]).dims, 0);
        cr_expect_eq(optimizer_state_view(o, 1, &marked[i]).count, marked[i].count);
    }
    wk_optimizer_free(o);
}

Test(copies, are_the_rounded_parameters_after_every_step)
{
    static const enum wk_dtype types[2] = {WK_BF16, WK_F16};
    for (int kind = 0; kind < KINDS; kind++) {
        for (int t = 0; t < 2; t++) {
            float x[ARENA];
            uint16_t low[ARENA], expected[ARENA];
            struct wk_optimizer *o = make(kind);
            struct optimizer_copy copy = {.low = low, .type = types[t]};
            cr_assert_eq(optimizer_bind(o, params, 3, 0, ARENA, NULL), 0);
            cr_assert_eq(optimizer_set_copy(o, &copy, NULL), 0);
            start(x);
            optimizer_write_copy(o, x);
            o->kernels->narrow(expected, types[t], x, ARENA);
            cr_expect_eq(memcmp(low, expected, sizeof(low)), 0);
            step(o, x, 0, 1);
            o->kernels->narrow(expected, types[t], x, ARENA);
            for (int p = 0; p < 3; p++)
                cr_expect_eq(memcmp(low + params[p].offset, expected + params[p].offset,
                                    params[p].count * 2),
                             0, "%s of %s", params[p].name, o->ops->name);
            wk_optimizer_free(o);
        }
    }
}

/* Rounding by chance depends on the element's place in the arena only, not on the cut. */
Test(copies, by_chance_are_the_same_in_parts)
{
    float whole[ARENA], parts[ARENA];
    uint16_t low[2][ARENA];
    struct wk_optimizer *o = make(1), *left = make(1), *right = make(1);
    struct optimizer_copy copy = {.low = low[0], .type = WK_BF16, .stochastic = true, .seed = 4};
    cr_assert_eq(optimizer_bind(o, params, 3, 0, ARENA, NULL), 0);
    cr_assert_eq(optimizer_bind(left, params, 3, 0, 77, NULL), 0);
    cr_assert_eq(optimizer_bind(right, params, 3, 77, ARENA - 77, NULL), 0);
    cr_assert_eq(optimizer_set_copy(o, &copy, NULL), 0);
    copy.low = low[1];
    cr_assert_eq(optimizer_set_copy(left, &copy, NULL), 0);
    copy.low = low[1] + 77;
    cr_assert_eq(optimizer_set_copy(right, &copy, NULL), 0);
    start(whole);
    start(parts);
    step(o, whole, 0, 1);
    step(left, parts, 0, 1);
    step(right, parts + 77, 77, 1);
    cr_expect_eq(memcmp(low[0] + 80, low[1] + 80, 80 * sizeof(uint16_t)), 0);
    for (size_t i = 80; i < ARENA; i++)
        cr_expect_leq(fabsf(f32_of_bf16(low[0][i]) - whole[i]), fabsf(whole[i]) / 128);
    wk_optimizer_free(o);
    wk_optimizer_free(left);
    wk_optimizer_free(right);
}

Test(copies, refuse_other_types)
{
    uint16_t low[ARENA];
    struct wk_optimizer *o = make(1);
    struct optimizer_copy copy = {.low = low, .type = WK_BF16};
    cr_expect_eq(optimizer_set_copy(o, &copy, NULL), WK_ESTATE);
    cr_assert_eq(optimizer_bind(o, params, 3, 0, ARENA, NULL), 0);
    copy.type = WK_F32;
    cr_expect_eq(optimizer_set_copy(o, &copy, NULL), WK_EINVAL);
    copy = (struct optimizer_copy){.low = low, .type = WK_F16, .stochastic = true};
    cr_expect_eq(optimizer_set_copy(o, &copy, NULL), WK_EINVAL);
    cr_expect_eq(optimizer_set_copy(o, &(struct optimizer_copy){0}, NULL), 0);
    wk_optimizer_free(o);
}

Test(state, views_cover_what_is_here)
{
    struct wk_optimizer *o = make(1);
    cr_assert_eq(optimizer_bind(o, params, 3, 50, 40, NULL), 0);
    struct optimizer_view a = optimizer_state_view(o, 0, &params[0]);
    struct optimizer_view b = optimizer_state_view(o, 1, &params[1]);
    struct optimizer_view c = optimizer_state_view(o, 1, &params[2]);
    cr_expect(a.dims == 2 && a.shape[1] == 10 && a.first == 50 && a.count == 10);
    cr_expect_eq(a.data, o->state[0]);
    cr_expect(b.first == 0 && b.count == 10 && b.data == o->state[1] + 10);
    cr_expect(c.first == 0 && c.count == 10 && c.data == o->state[1] + 30);
    wk_optimizer_free(o);
}

/* Rows plus columns instead of rows times columns, and a copy of it continues the training. */
Test(state, of_adafactor_is_small_and_complete)
{
    float x[ARENA], y[ARENA];
    struct wk_optimizer *first = make(4), *second = make(4);
    cr_assert_eq(optimizer_bind(first, params, 3, 0, ARENA, NULL), 0);
    cr_assert_eq(optimizer_bind(second, params, 3, 0, ARENA, NULL), 0);
    start(x);
    for (int t = 1; t < 4; t++)
        step(first, x, 0, t);
    memcpy(y, x, sizeof(y));
    second->steps = first->steps;
    size_t total = 0;
    for (int s = 0; s < first->ops->n_states; s++) {
        for (int p = 0; p < 3; p++) {
            struct optimizer_view from = optimizer_state_view(first, s, &params[p]);
            struct optimizer_view to = optimizer_state_view(second, s, &params[p]);
            cr_assert_eq(from.count, to.count);
            if (from.count)
                memcpy(to.data, from.data, from.count * sizeof(float));
            total += from.count;
        }
    }
    cr_expect_eq(total, 6 + 10 + 10 + 8 + 10);
    step(first, x, 0, 4);
    step(second, y, 0, 4);
    cr_expect_eq(memcmp(x, y, sizeof(x)), 0);
    wk_optimizer_free(first);
    wk_optimizer_free(second);
}
