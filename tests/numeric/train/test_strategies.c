/* Every strategy trains as one process does: the same losses, gradient norms and final weights,
 * with and without accumulation, on 1 to 4 ranks; and between strategies on the same ranks, the
 * same bits.
 */
#include <stdio.h>

#include "tests/lib/check.h"
#include "tests/numeric/train/toy.h"
#include "tests/numeric/train/variant.h"

static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};

static struct outcome one, other;

static void check_apart(const struct apart *apart)
{
    struct toy_bounds most = toy_bounds(VARIANT_STEPS);
    CHECK(apart->losses < most.losses && apart->norms < most.norms);
    CHECK(apart->weights < most.weights);
}

/* Adam divides by the square root of what may be rounding alone, so weights are compared loosely
 * where the order of sums differs, and by bits where it does not (zero2 and fsdp sum over ranks in
 * every pass of a window). */
static void compare_with_one_process(bool custom, const char *accumulation, int64_t batch)
{
    variant_run(&(struct variant){.strategy = "ddp",
                                  .ranks = 1,
                                  .accumulation = accumulation,
                                  .custom = custom,
                                  .batch = batch},
                &one);
    CHECK(one.losses[VARIANT_STEPS] < one.losses[1]);
    for (int s = 0; s < 4; s++)
        for (int ranks = 1; ranks <= VARIANT_RANKS_MAX; ranks++) {
            struct variant v = {.strategy = strategies[s],
                                .ranks = ranks,
                                .accumulation = accumulation,
                                .custom = custom,
                                .batch = batch};
            variant_run(&v, &other);
            struct apart apart = outcome_apart(&one, &other);
            printf("%s on %d, accumulation %s%s: losses %.1e, norms %.1e, weights %.1e\n",
                   v.strategy, ranks, accumulation, custom ? ", own passes" : "", apart.losses,
                   apart.norms, apart.weights);
            check_apart(&apart);
        }
}

static void strategies_equal_one_process(void)
{
    compare_with_one_process(false, "1", 0);
}

static void strategies_equal_one_process_with_accumulation(void)
{
    compare_with_one_process(false, "3", 0);
}

static void empty_shares_change_nothing(void)
{
    compare_with_one_process(false, "1", 3); /* 4 ranks: one has no sample */
}

static void programs_with_their_own_passes_are_cut_too(void)
{
    compare_with_one_process(true, "2", 0);
}

/* Two replicas of a model cut in two; the order of sums is another than that of one group. */
static void replicas_of_a_cut_model_equal_one_process(void)
{
    static const struct variant variants[] = {
        {.accumulation = "1"},
        {.accumulation = "3"},
        {.accumulation = "1", .batch = 3}, /* one rank has no sample */
        {.accumulation = "2", .custom = true},
        {.accumulation = "1", .reshard = "false", .prefetch = "0"},
        {.accumulation = "1", .replicas = "4"}, /* cut in one: nothing but replicas */
    };
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        struct variant v = variants[i];
        v.replicas = NULL;
        v.strategy = "ddp";
        v.ranks = 1;
        variant_run(&v, &one);
        for (int s = 1; s < 4; s++) {
            v = variants[i];
            v.strategy = strategies[s];
            v.replicas = v.replicas ? v.replicas : "2";
            v.ranks = VARIANT_RANKS_MAX;
            variant_run(&v, &other);
            struct apart apart = outcome_apart(&one, &other);
            printf("%s, %s replicas of 4 ranks, variant %zu: losses %.1e, norms %.1e, weights "
                   "%.1e\n",
                   v.strategy, v.replicas, i, apart.losses, apart.norms, apart.weights);
            check_apart(&apart);
        }
    }
}

static void same_bits(const struct variant *a, const struct variant *b)
{
    variant_run(a, &one);
    variant_run(b, &other);
    CHECK(outcome_same_bits(&one, &other));
}

static void strategies_give_the_same_bits_without_clipping(void)
{
    for (int ranks = 1; ranks <= VARIANT_RANKS_MAX; ranks++)
        for (int s = 1; s < 4; s++)
            same_bits(
                &(struct variant){.strategy = "ddp", .ranks = ranks, .no_clip = true},
                &(struct variant){.strategy = strategies[s], .ranks = ranks, .no_clip = true});
    same_bits(
        &(struct variant){.strategy = "ddp", .ranks = 2, .no_clip = true, .accumulation = "2"},
        &(struct variant){.strategy = "zero1", .ranks = 2, .no_clip = true, .accumulation = "2"});
}

static void fsdp_options_change_memory_not_bits(void)
{
    struct variant plain = {.strategy = "fsdp", .ranks = 2};
    for (int prefetch = 0; prefetch <= 4; prefetch += 2) {
        struct variant v = plain;
        char number[8];
        snprintf(number, sizeof(number), "%d", prefetch);
        v.prefetch = number;
        v.reshard = prefetch == 2 ? "false" : "true";
        same_bits(&plain, &v);
    }
}

static void activations_computed_again_are_the_same_bits(void)
{
    for (int s = 0; s < 4; s++)
        for (int narrow = 0; narrow < 2; narrow++) {
            struct variant plain = {.strategy = strategies[s], .ranks = 2, .accumulation = "2"};
            plain.precision = narrow ? "bf16" : "no";
            static const char *const policies[] = {"true", "operations", "440KiB"};
            for (int w = 0; w < 3; w++) {
                struct variant again = plain;
                again.recompute = policies[w];
                same_bits(&plain, &again);
            }
        }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(strategies_equal_one_process),
        CHECK_CASE(strategies_equal_one_process_with_accumulation),
        CHECK_CASE(empty_shares_change_nothing),
        CHECK_CASE(programs_with_their_own_passes_are_cut_too),
        CHECK_CASE(replicas_of_a_cut_model_equal_one_process),
        CHECK_CASE(strategies_give_the_same_bits_without_clipping),
        CHECK_CASE(fsdp_options_change_memory_not_bits),
        CHECK_CASE(activations_computed_again_are_the_same_bits),
        {0},
    };
    return check_all(cases, argc, argv);
}
