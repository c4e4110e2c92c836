/* Passes of the program's own in bf16 and fp16: they train as those of our own models do, which is
 * the same bits where they are the same code, under every strategy, on 1 to 3 ranks, with and
 * without accumulation; and what a program is spared (widening, scaling) is what it would have
 * done.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <worker/parallel.h>

#include "tests/lib/check.h"
#include "tests/numeric/train/variant.h"

enum { TAKES_BOTH = WK_TAKES_BF16 | WK_TAKES_F16, RANKS = 3 };

static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
static const char *const windows[] = {"1", "2"};
static const char *const precisions[] = {"bf16", "fp16"};

static struct outcome one, other;

static double unit_of(const char *precision)
{
    return precision[0] == 'b' ? 0x1p-8 : 0x1p-11;
}

/* Call `check` under every strategy, on every number of ranks, with and without accumulation; with
 * each of the two ddp in one process comes first. */
static void everywhere(struct variant v, void (*check)(struct variant v))
{
    for (int w = 0; w < 2; w++)
        for (int s = 0; s < 4; s++)
            for (v.ranks = 1; v.ranks <= RANKS; v.ranks++) {
                v.strategy = strategies[s];
                v.accumulation = windows[w];
                check(v);
            }
}

static void same(const struct variant *a, const struct variant *b)
{
    variant_run(a, &one);
    variant_run(b, &other);
    if (!outcome_same_bits(&one, &other))
        fprintf(stderr, "%s, %s on %d, accumulation %s: losses %.1e apart\n", a->precision,
                a->strategy, a->ranks, a->accumulation, outcome_apart(&one, &other).losses);
    CHECK(outcome_same_bits(&one, &other));
    CHECK(one.skipped == other.skipped && one.scale == other.scale);
}

/* `v` with the passes of our model as the program's. */
static struct variant borrowing(struct variant v, unsigned narrow, enum borrowed_how how)
{
    v.borrowed = true;
    v.narrow = narrow;
    v.how = how;
    return v;
}

static void as_ours(struct variant v)
{
    struct variant own = borrowing(v, TAKES_BOTH | WK_GIVES_FLOAT, BORROWED_PLAIN);
    same(&v, &own);
}

static void the_same_code_gives_the_same_bits_as_our_model(void)
{
    static const char *const all[] = {"no", "bf16", "fp16"};
    for (int p = 0; p < 3; p++)
        everywhere((struct variant){.precision = all[p], .no_clip = true}, as_ours);
}

/* Far too high a scale: most steps at the start are skipped, by the same verdict everywhere. */
static void overflows_on_purpose(struct variant v)
{
    as_ours(v);
    CHECK(one.skipped > 5 && isfinite(one.losses[VARIANT_STEPS]));
}

static void overflows_are_skipped_as_with_our_model(void)
{
    struct variant v = {.precision = "fp16", .no_clip = true, .scale = "1099511627776"};
    everywhere(v, overflows_on_purpose);
}

static void widened(struct variant v)
{
    struct variant spared = borrowing(v, 0, BORROWED_PLAIN);
    struct variant itself = borrowing(v, TAKES_BOTH | WK_GIVES_FLOAT, BORROWED_WIDENS);
    same(&spared, &itself);
}

/* The loss scale is a power of two: multiplying behind the passes is multiplying before them. */
static void floats_hold_the_rounded_numbers(void)
{
    for (int p = 0; p < 2; p++)
        everywhere((struct variant){.precision = precisions[p]}, widened);
}

static void given_narrow(struct variant v)
{
    struct variant narrow = borrowing(v, TAKES_BOTH, BORROWED_PLAIN);
    struct variant rounding = borrowing(v, TAKES_BOTH | WK_GIVES_FLOAT, BORROWED_ROUNDS);
    same(&narrow, &rounding);
}

static void gradients_given_narrow_are_floats_rounded_once(void)
{
    for (int p = 0; p < 2; p++)
        everywhere((struct variant){.precision = precisions[p]}, given_narrow);
}

static void also_where_sums_are_narrow(void)
{
    for (int p = 0; p < 2; p++)
        for (int s = 1; s < 4; s++) {
            struct variant v = {.precision = precisions[p],
                                .strategy = strategies[s],
                                .accumulation = "2",
                                .ranks = 2,
                                .low_gradients = "true",
                                .scale = p == 1 ? "1024" : NULL};
            given_narrow(v);
            widened(v);
            v.no_clip = true;
            as_ours(v);
        }
}

/* Bounds as in test_precision.c: of sums in another order, and of gradients that are rounded, of
 * which every rank's is.
 */
static const struct kind {
    const char *what;
    unsigned narrow;
    double losses, norms; /* in units of the type */
} kinds[] = {
    {"floats", 0, 1. / 32, .5},
    {"bits", TAKES_BOTH | WK_GIVES_FLOAT, 1. / 32, .5},
    {"bits both ways", TAKES_BOTH, 1, 4},
    {"the other type's bits", WK_TAKES_F16, 1, 4},
};

static void like_one_process(const struct kind *kind, struct variant v)
{
    if (v.ranks == 1 && v.strategy == strategies[0])
        variant_run(&v, &one);
    CHECK(one.losses[VARIANT_STEPS] < one.losses[1]);
    variant_run(&v, &other);
    struct apart apart = outcome_apart(&one, &other);
    double unit = unit_of(v.precision);
    printf("%s, %s, %s on %d, accumulation %s: losses %.1e, norms %.1e\n", v.precision, kind->what,
           v.strategy, v.ranks, v.accumulation, apart.losses, apart.norms);
    CHECK(apart.losses < kind->losses * unit && apart.norms < kind->norms * unit);
}

static const struct kind *kind_now;

static void like_one(struct variant v)
{
    like_one_process(kind_now, v);
}

static void programs_train_as_one_process(void)
{
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (int p = 0; p < 2; p++) {
            kind_now = &kinds[k];
            everywhere((struct variant){.precision = precisions[p],
                                        .custom = true,
                                        .narrow = kinds[k].narrow},
                       like_one);
        }
}

/* Parameters are rounded in every kind, and the gradients that come in float alike. */
static void kinds_differ_where_they_should(void)
{
    struct variant v = {.strategy = "ddp", .ranks = 1, .custom = true, .precision = "bf16"};
    variant_run(&v, &one);
    v.precision = "no";
    variant_run(&v, &other);
    double apart = outcome_apart(&one, &other).losses;
    CHECK(apart > 0 && apart < 2 * unit_of("bf16"));
}

static void replicas_and_hooks(void)
{
    for (int p = 0; p < 2; p++) {
        struct variant v = {.precision = precisions[p], .ranks = 4, .no_clip = true};
        for (int s = 1; s < 4; s++) {
            v.strategy = strategies[s];
            v.replicas = "2";
            as_ours(v);
            widened(v);
        }
        v = (struct variant){.precision = precisions[p], .ranks = 2, .no_clip = true};
        v.strategy = "ddp";
        static const char *const hooks[] = {"fp16", "bf16", "powersgd"};
        for (int h = 0; h < 3; h++) {
            v.hook = hooks[h];
            widened(v);
            given_narrow(v);
        }
    }
}

/* Kinds of buffers differ in what fsdp does with a block. */
static void by_block(struct variant v)
{
    static const unsigned narrow[] = {TAKES_BOTH | WK_GIVES_FLOAT, TAKES_BOTH, 0};
    bool all = v.precision[0] != 'n' && v.strategy == strategies[3];
    for (int k = 0; k < (all ? 3 : 1); k++) {
        struct variant whole = borrowing(v, narrow[k], BORROWED_PLAIN), blocks = whole;
        blocks.by_block = true;
        same(&whole, &blocks);
    }
}

static void passes_by_block_have_the_same_bits(void)
{
    static const char *const all[] = {"no", "bf16", "fp16"};
    for (int p = 0; p < 3; p++)
        everywhere((struct variant){.precision = all[p], .no_clip = true}, by_block);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(the_same_code_gives_the_same_bits_as_our_model),
        CHECK_CASE(overflows_are_skipped_as_with_our_model),
        CHECK_CASE(floats_hold_the_rounded_numbers),
        CHECK_CASE(gradients_given_narrow_are_floats_rounded_once),
        CHECK_CASE(also_where_sums_are_narrow),
        CHECK_CASE(programs_train_as_one_process),
        CHECK_CASE(kinds_differ_where_they_should),
        CHECK_CASE(replicas_and_hooks),
        CHECK_CASE(passes_by_block_have_the_same_bits),
        {0},
    };
    return check_all(cases, argc, argv);
}
