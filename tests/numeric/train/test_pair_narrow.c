/* Two language models in one program, with products of narrow numbers: every strategy trains both
 * as one process does, and in fp16 each has a loss scale of its own. Apart from test_pair.c because
 * the library behind products in bf16 has threads' races of its own, which the thread sanitizer
 * reports.
 */
#include <math.h>

#include "tests/lib/check.h"
#include "tests/numeric/train/pair_gang.h"

static void both_step_in(const char *precision, const char *accumulation)
{
    struct pair like = {0};
    pair_set(&like, "mixed_precision", precision);
    pair_set(&like, "gradient_accumulation_steps", accumulation);
    matrix(like, precision);
}

static void both_step_in_bf16(void)
{
    both_step_in("bf16", "1");
    both_step_in("bf16", "2");
}

static void both_step_in_fp16(void)
{
    both_step_in("fp16", "1");
    both_step_in("fp16", "2");
}

/* Far too high at the start: each model skips steps until its own scale fits it. */
static void overflows_of_each_are_its_own_everywhere(void)
{
    struct pair like = {0};
    pair_set(&like, "mixed_precision", "fp16");
    pair_set(&like, "loss_scale.initial", "1099511627776");
    matrix(like, "fp16, skipping");
    CHECK(one.skipped > 10 && one.scales[0] != one.scales[1]);
    CHECK(isfinite(one.losses[0][PAIR_STEPS]) && isfinite(one.losses[1][PAIR_STEPS]));
}

static void sums_in_narrow_types(void)
{
    struct pair like = {0};
    pair_set(&like, "strategy", "ddp");
    pair_set(&like, "mixed_precision", "fp16");
    run_one(&like);
    pair_set(&like, "low_gradients", "true");
    pair_set(&like, "loss_scale.initial", "1024");
    one.scales[0] = one.scales[1] = 1024;
    for (int s = 1; s < 4; s++) {
        struct bounds bounds = {0x1p-11, 4 * 0x1p-11, 1};
        like.settings[0].value = strategies[s];
        check_like_one(run(&like, 3), &bounds, "narrow sums");
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(both_step_in_bf16),
        CHECK_CASE(both_step_in_fp16),
        CHECK_CASE(overflows_of_each_are_its_own_everywhere),
        CHECK_CASE(sums_in_narrow_types),
        {NULL, NULL},
    };
    return check_all(cases, argc, argv);
}
