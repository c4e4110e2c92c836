#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/nn/model.h"
#include "libworker/optim/optimizer.h"
#include "tests/lib/rounding.h"

enum { COUNT = 150, UPDATE = 8 }; /* roundings of one element's update */

/* A matrix, a vector, another matrix: segments of which the middle one does not decay. */
static const struct param params[3] = {
    {.name = "a", .dims = 2, .count = 60, .offset = 0, .decay = true},
    {.name = "b", .dims = 1, .count = 11, .offset = 60},
    {.name = "c", .dims = 2, .count = COUNT - 71, .offset = 71, .decay = true},
};

static const struct wk_adamw_options adamw = {0.01, 0.9, 0.95, 1e-8, 0.1};

static float pattern(int i, int salt)
{
    return (float)((i * 7919 + salt * 104729) % 2003 - 1001) / 1001.0f;
}

static struct wk_optimizer *bound(int rc, struct wk_optimizer *o, size_t first, size_t count)
{
    cr_assert_eq(rc, 0);
    cr_assert_eq(optimizer_bind(o, params, 3, first, count, NULL), 0);
    return o;
}

static struct wk_optimizer *new_adamw(size_t first, size_t count)
{
    struct wk_optimizer *o = NULL;
    int rc = wk_adamw_new(&adamw, &o);
    return bound(rc, o, first, count);
}

/* Algorithm 2 of Loshchilov and Hutter in double, element by element, written from the paper. */
static void adamw_in_double(double x[COUNT], double m[COUNT], double v[COUNT], int t, double scale)
{
    for (int i = 0; i < COUNT; i++) {
        double g = (double)pattern(i, t) * scale;
        bool decays = i < 60 || i >= 71;
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.95 * v[i] + 0.05 * g * g;
        double m_hat = m[i] / (1 - pow(0.9, t)), v_hat = v[i] / (1 - pow(0.95, t));
        x[i] -= 0.01 * (m_hat / (sqrt(v_hat) + 1e-8) + (decays ? 0.1 : 0.0) * x[i]);
    }
}

Test(adamw, follows_the_paper_in_double)
{
    double x[COUNT], m[COUNT] = {0}, v[COUNT] = {0};
    float ours[COUNT], grads[COUNT];
    struct wk_optimizer *o = new_adamw(0, COUNT);
    for (int i = 0; i < COUNT; i++)
        x[i] = ours[i] = pattern(i, 0);
    for (int t = 1; t <= 50; t++) {
        double scale = t % 3 ? 1 : 0.25;
        for (int i = 0; i < COUNT; i++)
            grads[i] = pattern(i, t);
        adamw_in_double(x, m, v, t, scale);
        cr_assert_eq(optimizer_step(o, ours, grads, (float)scale, NULL), 0);
    }
    for (int i = 0; i < COUNT; i++)
        cr_expect_float_eq(ours[i], x[i], rounding_bound(50 * UPDATE) * fmax(1, fabs(x[i])),
                           "[%d] %.8g, not %.8g", i, ours[i], x[i]);
    cr_expect_eq(o->steps, 50);
    wk_optimizer_free(o);
}

Test(optimizer, decay_skips_vectors)
{
    float ours[COUNT], grads[COUNT] = {0};
    struct wk_optimizer *o = new_adamw(0, COUNT);
    cr_expect_eq(o->n_segments, 3);
    for (int i = 0; i < COUNT; i++)
        ours[i] = 1;
    cr_assert_eq(optimizer_step(o, ours, grads, 1, NULL), 0);
    cr_expect_float_eq(ours[0], 0.999, rounding_bound(UPDATE));
    cr_expect_eq(ours[60], 1);
    cr_expect_eq(ours[70], 1);
    cr_expect_float_eq(ours[71], 0.999, rounding_bound(UPDATE));
    wk_optimizer_free(o);
}

/* Any partition of the range, each part with an optimizer of its own, is the whole: what ZeRO does.
 */
static void check_parts(const size_t *cuts, int n)
{
    float whole[COUNT], parts[COUNT], grads[COUNT];
    struct wk_optimizer *o = new_adamw(0, COUNT), *part[4];
    for (int i = 0; i < COUNT; i++)
        whole[i] = parts[i] = pattern(i, 0);
    for (int i = 0; i < n; i++)
        part[i] = new_adamw(cuts[i], cuts[i + 1] - cuts[i]);
    for (int t = 1; t <= 5; t++) {
        for (int i = 0; i < COUNT; i++)
            grads[i] = pattern(i, t);
        cr_assert_eq(optimizer_step(o, whole, grads, 1, NULL), 0);
        for (int i = 0; i < n; i++)
            cr_assert_eq(optimizer_step(part[i], parts + cuts[i], grads + cuts[i], 1, NULL), 0);
    }
    for (int i = 0; i < COUNT; i++)
        cr_expect_float_eq(parts[i], whole[i], rounding_bound(5 * UPDATE) * fabs(whole[i]), "[%d]",
                           i);
    for (int i = 0; i < n; i++)
        wk_optimizer_free(part[i]);
    wk_optimizer_free(o);
}

Test(optimizer, parts_make_the_whole)
{
    check_parts((const size_t[]){0, 75, 150}, 2);
    check_parts((const size_t[]){0, 60, 71, 150}, 3);
    check_parts((const size_t[]){0, 1, 65, 65, 150}, 4);
}

Test(optimizer, state_has_checkpoint_names)
{
    struct wk_optimizer *o = new_adamw(0, COUNT), *sgd;
    cr_expect_str_eq(optimizer_state_name(o, 0), "exp_avg");
    cr_expect_str_eq(optimizer_state_name(o, 1), "exp_avg_sq");
    cr_expect_null(optimizer_state_name(o, 2));
    wk_optimizer_free(o);
    cr_assert_eq(wk_sgd_new(&(struct wk_sgd_options){.rate = 1}, &sgd), 0);
    cr_expect_null(optimizer_state_name(sgd, 0));
    wk_optimizer_free(sgd);
}

/* Copying steps and state into a fresh optimizer continues as if nothing had happened. */
Test(optimizer, continues_from_saved_state)
{
    float a[COUNT], b[COUNT], grads[COUNT];
    struct wk_optimizer *first = new_adamw(0, COUNT), *second = new_adamw(0, COUNT);
    for (int i = 0; i < COUNT; i++) {
        a[i] = pattern(i, 0);
        grads[i] = pattern(i, 1);
    }
    for (int t = 0; t < 3; t++)
        cr_assert_eq(optimizer_step(first, a, grads, 1, NULL), 0);
    memcpy(b, a, sizeof(b));
    second->steps = first->steps;
    for (int i = 0; i < 2; i++)
        memcpy(second->state[i], first->state[i], COUNT * sizeof(float));
    cr_assert_eq(optimizer_step(first, a, grads, 1, NULL), 0);
    cr_assert_eq(optimizer_step(second, b, grads, 1, NULL), 0);
    cr_expect_eq(memcmp(a, b, sizeof(a)), 0);
    wk_optimizer_free(first);
    wk_optimizer_free(second);
}

Test(optimizer, refuses_what_cannot_be)
{
    struct wk_optimizer *o = NULL;
    float x = 0;
    struct error err = {0};
    cr_expect_eq(wk_adamw_new(&(struct wk_adamw_options){0, 0.9, 0.9, 1e-8, 0}, &o), WK_EINVAL);
    cr_expect_eq(wk_adamw_new(&(struct wk_adamw_options){1, 1, 0.9, 1e-8, 0}, &o), WK_EINVAL);
    cr_expect_eq(wk_adamw_new(&(struct wk_adamw_options){1, 0.9, 0.9, 1e-8, NAN}, &o), WK_EINVAL);
    cr_expect_eq(wk_sgd_new(&(struct wk_sgd_options){.rate = 1, .nesterov = true}, &o), WK_EINVAL);
    cr_expect_eq(wk_sgd_new(&(struct wk_sgd_options){.rate = -1}, &o), WK_EINVAL);
    cr_expect_null(o);
    cr_assert_eq(wk_adamw_new(&adamw, &o), 0);
    cr_expect_eq(optimizer_step(o, &x, &x, 1, &err), WK_ESTATE);
    cr_expect_neq(err.text[0], 0);
    cr_expect_eq(optimizer_bind(o, params, 3, 100, 51, &err), WK_EINVAL);
    cr_expect_eq(optimizer_bind(o, params, 3, 151, 0, &err), WK_EINVAL);
    wk_optimizer_free(o);
    wk_optimizer_free(NULL);
}
