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

Test(scheduler, refuses_schedules_that_make_no_sense)
{
    struct wk_optimizer *o = optimizer();
    struct wk_scheduler *s = NULL;
    static const struct wk_schedule_options wrong[] = {
        {WK_SCHEDULE_COSINE, 4, 4, 0},      {WK_SCHEDULE_LINEAR, -1, 10, 0},
        {WK_SCHEDULE_LINEAR, 0, 0, 0},      {WK_SCHEDULE_CONSTANT, 0, 0, 1.5},
        {WK_SCHEDULE_CONSTANT, 0, 0, -0.5}, {(enum wk_schedule_kind)7, 0, 10, 0},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        cr_expect_eq(wk_scheduler_new(o, &wrong[i], &s), WK_EINVAL, "%zu", i);
    cr_expect_eq(wk_scheduler_new(NULL, &(struct wk_schedule_options){0}, &s), WK_EINVAL);
    cr_expect_null(s);
    wk_optimizer_free(o);
}
