/* A Llama with grouped queries, their norms and biases trains as in one process: under every
 * strategy, in float, bf16 and fp16, with and without accumulation, on 1 to 4 ranks.
 */
#include <stdio.h>

#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/train/toy.h"
#include "tests/numeric/train/variant.h"

static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};

/* As test_strategies.c and test_precision.c have them for the GPT, which has more products. A norm
 * of the gradient is off by a whole step of the narrow type, which is two roundings, where another
 * order of sums carries values across the middle between two numbers. */
static struct apart bounds_of(const char *precision)
{
    struct toy_bounds wide = toy_bounds(VARIANT_STEPS);
    double unit = precision[0] == 'b' ? ROUNDING_BF16 : ROUNDING_F16;
    if (precision[0] == 'n')
        return (struct apart){wide.losses, wide.norms, wide.weights, wide.weights};
    return (struct apart){unit / 32, 2 * unit, VARIANT_STEPS * 3e-3, unit / 64};
}

static void compare(const struct variant *v, const struct outcome *one)
{
    static struct outcome other;
    struct apart most = bounds_of(v->precision);
    variant_run(v, &other);
    struct apart apart = outcome_apart(one, &other);
    printf("%s, %s on %d, accumulation %s: losses %.1e, norms %.1e, weights %.1e, %.1e on "
           "average\n",
           v->precision, v->strategy, v->ranks, v->accumulation, apart.losses, apart.norms,
           apart.weights, apart.mean_weight);
    CHECK(other.skipped == 0);
    CHECK(apart.losses < most.losses && apart.norms < most.norms);
    CHECK(apart.weights < most.weights && apart.mean_weight < most.mean_weight);
}

static void train_every_way(const char *precision, const char *accumulation)
{
    static struct outcome one;
    struct variant v = {.llama = true,
                        .strategy = "ddp",
                        .ranks = 1,
                        .precision = precision,
                        .accumulation = accumulation};
    variant_run(&v, &one);
    CHECK(one.losses[VARIANT_STEPS] < one.losses[1]);
    for (int s = 0; s < 4; s++)
        for (int ranks = 1; ranks <= VARIANT_RANKS_MAX; ranks++) {
            v.strategy = strategies[s];
            v.ranks = ranks;
            compare(&v, &one);
        }
}

static void a_llama_trains_as_in_one_process(void)
{
    train_every_way("no", "1");
    train_every_way("no", "3");
}

static void a_llama_trains_in_bf16_as_in_one_process(void)
{
    train_every_way("bf16", "1");
    train_every_way("bf16", "3");
}

static void a_llama_trains_in_fp16_as_in_one_process(void)
{
    train_every_way("fp16", "1");
    train_every_way("fp16", "3");
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(a_llama_trains_as_in_one_process),
        CHECK_CASE(a_llama_trains_in_bf16_as_in_one_process),
        CHECK_CASE(a_llama_trains_in_fp16_as_in_one_process),
        {0},
    };
    return check_all(cases, argc, argv);
}
