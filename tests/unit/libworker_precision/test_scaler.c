#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/precision/scaler.h"

static struct scaler usual(void)
{
    struct scaler s;
    cr_assert_eq(scaler_init(&s, NULL, NULL), 0);
    return s;
}

static bool skipped(struct scaler *s, bool finite)
{
    bool skip = false;
    cr_assert_eq(scaler_update(s, finite, &skip, NULL), 0);
    return skip;
}

/* Gradients finite, NaN, NaN, finite: as torch's GradScaler. */
Test(scaler, skips_steps_that_overflow)
{
    struct scaler s = usual();
    cr_expect_eq(s.scale, 65536);
    cr_expect_not(skipped(&s, true));
    cr_expect(skipped(&s, false));
    cr_expect_eq(s.scale, 32768);
    cr_expect(skipped(&s, false));
    cr_expect_eq(s.scale, 16384);
    cr_expect_not(skipped(&s, true));
    cr_expect_eq(s.scale, 16384);
    cr_expect_eq(s.skipped, 2);
}

Test(scaler, doubles_after_2000_clean_steps)
{
    struct scaler s = usual();
    for (int i = 1; i < 2000; i++)
        cr_assert_not(skipped(&s, true));
    cr_expect_eq(s.scale, 65536);
    cr_expect_not(skipped(&s, true));
    cr_expect_eq(s.scale, 131072);
    for (int i = 0; i < 1999; i++)
        cr_assert_not(skipped(&s, true));
    cr_expect(skipped(&s, false)); /* counts anew */
    cr_expect_eq(s.scale, 65536);
    for (int i = 0; i < 1999; i++)
        cr_assert_not(skipped(&s, true));
    cr_expect_eq(s.scale, 65536);
}

Test(scaler, gives_up_when_every_step_overflows)
{
    struct scaler s = usual();
    struct error err = {0};
    bool skip = false;
    int rc = 0, steps = 0;
    for (; !rc && steps < 100; steps++)
        rc = scaler_update(&s, false, &skip, &err);
    cr_expect_eq(rc, WK_EOVERFLOW);
    cr_expect_eq(steps, 31); /* 2^16 to 2^-14, and once more */
    cr_expect_not_null(strstr(err.text, "loss scale"));
}

Test(scaler, does_not_grow_out_of_range)
{
    struct scaler s;
    struct wk_scaler_options o = {.interval = 1, .growth = 1024};
    cr_assert_eq(scaler_init(&s, &o, NULL), 0);
    for (int i = 0; i < 1000; i++)
        cr_assert_not(skipped(&s, true));
    cr_expect(isfinite((float)s.scale));
}

Test(scaler, refuses_numbers_that_make_no_sense)
{
    static const struct wk_scaler_options wrong[] = {
        {.initial = -1}, {.initial = INFINITY}, {.growth = 1},   {.backoff = 1},
        {.backoff = -1}, {.interval = -3},      {.least = 1e30}, {.initial = NAN},
    };
    struct scaler s;
    struct error err = {0};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        cr_expect_eq(scaler_init(&s, &wrong[i], &err), WK_EINVAL, "%zu", i);
}
