#include <criterion/criterion.h>
#include <math.h>

#include "libworker/optim/clip.h"
#include "tests/lib/rounding.h"

Test(clip, leaves_small_gradients_alone)
{
    cr_expect_eq(clip_factor(0.5, 1), 1);
    cr_expect_eq(clip_factor(0, 1), 1);
}

Test(clip, shrinks_large_ones_to_the_limit)
{
    cr_expect_float_eq(clip_factor(4, 1) * 4, 1, 1e-6);
    cr_expect_lt(clip_factor(4, 1) * 4, 1);
}

Test(clip, shows_norms_that_are_no_numbers)
{
    cr_expect(isnan(clip_factor(NAN, 1)));
    cr_expect(isnan(clip_factor(INFINITY, 1)));
}

/* Beside 2^24, a square of 2^-12 would be lost in single precision, a million times. */
Test(clip, sums_in_double)
{
    static float grads[1 << 20];
    grads[0] = 4096;
    for (int i = 1; i < 1 << 20; i++)
        grads[i] = 1.0f / 64;
    double expected = 4096.0 * 4096 + ((1 << 20) - 1) / 4096.0;
    cr_expect_float_eq(clip_sum_squares(kernel_cpu(), grads, 1 << 20), expected, 1e-6);
}
