#include <criterion/criterion.h>

#include <worker/error.h>

#include "libworker/optim/schedule.h"

static void expect_factors(const struct wk_schedule_options *options, const int64_t *steps,
                           const double *factors, int n)
{
    for (int i = 0; i < n; i++)
        cr_expect_float_eq(schedule_factor(options, steps[i]), factors[i], 1e-12,
                           "step %lld: %.15g, not %.15g", (long long)steps[i],
                           schedule_factor(options, steps[i]), factors[i]);
}

Test(schedule, constant)
{
    struct wk_schedule_options o = {.kind = WK_SCHEDULE_CONSTANT};
    expect_factors(&o, (int64_t[]){0, 1, 1000000}, (double[]){1, 1, 1}, 3);
}

Test(schedule, constant_after_warm_up)
{
    struct wk_schedule_options o = {.kind = WK_SCHEDULE_CONSTANT, .warmup_steps = 4};
    expect_factors(&o, (int64_t[]){0, 1, 3, 4, 99}, (double[]){0.25, 0.5, 1, 1, 1}, 5);
}

Test(schedule, linear_from_warm_up_to_the_floor)
{
    struct wk_schedule_options o = {WK_SCHEDULE_LINEAR, 2, 12, 0.2};
    expect_factors(&o, (int64_t[]){0, 1, 2, 7, 11, 12, 500},
                   (double[]){0.5, 1, 1, 0.6, 0.28, 0.2, 0.2}, 7);
}

/* The rates of 20 steps as PyTorch trained with, over its base rate 0.003. */
Test(schedule, cosine_from_warm_up_to_the_floor)
{
    struct wk_schedule_options o = {WK_SCHEDULE_COSINE, 4, 20, 0.1};
    expect_factors(&o, (int64_t[]){0, 3, 4, 5, 12, 19, 20, 21},
                   (double[]){0.25, 1, 1, 0.002974060128544361 / 0.003, 0.55,
                              0.00032593987145563896 / 0.003, 0.1, 0.1},
                   8);
}

Test(schedule, stable_then_decaying)
{
    struct wk_schedule_options o = {
        .kind = WK_SCHEDULE_WSD, .warmup_steps = 2, .total_steps = 12, .decay_steps = 4};
    o.min_ratio = 0.2;
    expect_factors(&o, (int64_t[]){0, 1, 2, 8, 9, 10, 11, 12, 99},
                   (double[]){0.5, 1, 1, 1, 0.8, 0.6, 0.4, 0.2, 0.2}, 9);
    o.root = true;
    o.min_ratio = 0;
    expect_factors(&o, (int64_t[]){8, 9, 12}, (double[]){1, 0.5, 0}, 3);
}

/* torch 1.13: OneCycleLR(max_lr=1, total_steps=20, pct_start=0.25, div_factor=25,
 * final_div_factor=100).
 */
Test(schedule, one_cycle_as_torch)
{
    static const double torch[20] = {0.04,
                                     0.180588745030457,
                                     0.52,
                                     0.859411254969543,
                                     1.0,
                                     0.989078170846756,
                                     0.956790019729772,
                                     0.904546693788599,
                                     0.834631477058157,
                                     0.7501,
                                     0.654646693788599,
                                     0.552443325941173,
                                     0.447956674058827,
                                     0.345753306211401,
                                     0.2503,
                                     0.165768522941843,
                                     0.0958533062114013,
                                     0.043609980270228,
                                     0.0113218291532439,
                                     0.0004};
    struct wk_schedule_options o = {.kind = WK_SCHEDULE_ONE_CYCLE,
                                    .warmup_steps = 5,
                                    .total_steps = 20,
                                    .initial_ratio = 1.0 / 25,
                                    .min_ratio = 1.0 / 2500};
    for (int64_t step = 0; step < 20; step++)
        expect_factors(&o, &step, &torch[step], 1);
    expect_factors(&o, (int64_t[]){20, 50}, (double[]){0.0004, 0.0004}, 2);
}

static double power_of(void *base, int64_t step)
{
    double factor = 1;
    for (int64_t i = 0; i < step; i++)
        factor *= *(const double *)base;
    return factor;
}

Test(schedule, a_function_of_the_program)
{
    double base = 0.9;
    struct wk_schedule_options o = {
        .kind = WK_SCHEDULE_LAMBDA, .warmup_steps = 2, .lambda = power_of, .arg = &base};
    expect_factors(&o, (int64_t[]){0, 1, 4}, (double[]){0.5, 0.9, 0.6561}, 3);
}

/* torch 1.13: SequentialLR of LinearLR(0.25, total_iters=3) and CosineAnnealingLR(6, eta_min=0.1).
 */
Test(schedule, one_after_the_other)
{
    static const double torch[10] = {
        0.25, 0.5, 0.75, 1.0, 0.939711431702997, 0.775, 0.55, 0.325, 0.160288568297003, 0.1};
    const struct wk_schedule_options parts[2] = {
        {.kind = WK_SCHEDULE_CONSTANT, .warmup_steps = 4},
        {.kind = WK_SCHEDULE_COSINE, .total_steps = 6, .min_ratio = 0.1},
    };
    struct wk_schedule_options o = {
        .kind = WK_SCHEDULE_SEQUENCE, .parts = parts, .n_parts = 2, .ends = {3}};
    for (int64_t step = 0; step < 10; step++)
        expect_factors(&o, &step, &torch[step], 1);
}

/* Each part counts from its own start. */
Test(schedule, three_after_each_other)
{
    const struct wk_schedule_options parts[3] = {
        {.kind = WK_SCHEDULE_LINEAR, .total_steps = 2},
        {.kind = WK_SCHEDULE_LINEAR, .total_steps = 4},
        {.kind = WK_SCHEDULE_CONSTANT, .warmup_steps = 2},
    };
    struct wk_schedule_options o = {
        .kind = WK_SCHEDULE_SEQUENCE, .parts = parts, .n_parts = 3, .ends = {2, 5}};
    expect_factors(&o, (int64_t[]){0, 1, 2, 3, 4, 5, 6, 7},
                   (double[]){1, 0.5, 1, 0.75, 0.5, 0.5, 1, 1}, 8);
}

Test(schedule, several_at_once)
{
    double base = 0.5;
    const struct wk_schedule_options parts[2] = {
        {.kind = WK_SCHEDULE_LAMBDA, .lambda = power_of, .arg = &base},
        {.kind = WK_SCHEDULE_LINEAR, .total_steps = 4},
    };
    struct wk_schedule_options o = {.kind = WK_SCHEDULE_PRODUCT, .parts = parts, .n_parts = 2};
    expect_factors(&o, (int64_t[]){0, 1, 2, 4}, (double[]){1, 0.375, 0.125, 0}, 4);
}

static struct wk_optimizer *optimizer(void)
{
    struct wk_optimizer *o;
    cr_assert_eq(wk_sgd_new(&(struct wk_sgd_options){.rate = 2}, &o), 0);
    return o;
}

Test(scheduler, moves_its_optimizer_one_step_at_a_time)
{
    struct wk_optimizer *o = optimizer();
    struct wk_scheduler *s;
    struct wk_schedule_options options = {WK_SCHEDULE_LINEAR, 2, 4, 0};
    cr_assert_eq(wk_scheduler_new(o, &options, &s), 0);
    static const double rates[] = {1, 2, 2, 1, 0, 0};
    for (int step = 0; step < 6; step++) {
        cr_expect_float_eq(wk_optimizer_rate(o), rates[step], 1e-12);
        scheduler_advance(s);
    }
    scheduler_set_step(s, 3);
    cr_expect_float_eq(wk_optimizer_rate(o), 1, 1e-12);
    wk_scheduler_free(s);
    wk_scheduler_free(NULL);
    wk_optimizer_free(o);
}

/* The parts are copied: the caller's may go. */
Test(scheduler, keeps_its_parts)
{
    struct wk_optimizer *o = optimizer();
    struct wk_scheduler *s;
    struct wk_schedule_options parts[2] = {{.kind = WK_SCHEDULE_LINEAR, .total_steps = 2},
                                           {.kind = WK_SCHEDULE_CONSTANT}};
    struct wk_schedule_options options = {
        .kind = WK_SCHEDULE_SEQUENCE, .parts = parts, .n_parts = 2, .ends = {2}};
    cr_assert_eq(wk_scheduler_new(o, &options, &s), 0);
    parts[0].total_steps = 1000;
    scheduler_set_step(s, 1);
    cr_expect_float_eq(wk_optimizer_rate(o), 1, 1e-12);
    wk_scheduler_free(s);
    wk_optimizer_free(o);
}

Test(scheduler, refuses_schedules_that_make_no_sense)
{
    struct wk_optimizer *o = optimizer();
    struct wk_scheduler *s = NULL;
    static const struct wk_schedule_options nested[] = {{.kind = WK_SCHEDULE_PRODUCT}}, fine[2];
    static const struct wk_schedule_options wrong[] = {
        {WK_SCHEDULE_COSINE, 4, 4, 0},
        {WK_SCHEDULE_LINEAR, -1, 10, 0},
        {WK_SCHEDULE_LINEAR, 0, 0, 0},
        {WK_SCHEDULE_CONSTANT, 0, 0, 1.5},
        {WK_SCHEDULE_CONSTANT, 0, 0, -0.5},
        {(enum wk_schedule_kind)99, 0, 10, 0},
        {WK_SCHEDULE_WSD, 2, 10, 0, .decay_steps = 9},
        {WK_SCHEDULE_WSD, 2, 10, 0},
        {WK_SCHEDULE_ONE_CYCLE, 0, 10, 0},
        {WK_SCHEDULE_LAMBDA},
        {.kind = WK_SCHEDULE_PRODUCT},
        {.kind = WK_SCHEDULE_SEQUENCE, .parts = nested, .n_parts = 1},
        {.kind = WK_SCHEDULE_SEQUENCE, .parts = fine, .n_parts = 2, .ends = {0}},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        cr_expect_eq(wk_scheduler_new(o, &wrong[i], &s), WK_EINVAL, "%zu", i);
    cr_expect_eq(wk_scheduler_new(NULL, &(struct wk_schedule_options){0}, &s), WK_EINVAL);
    cr_expect_null(s);
    wk_optimizer_free(o);
}
