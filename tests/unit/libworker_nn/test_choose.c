/* Which token is drawn, beside a plain reference: sort, cut, normalise, walk. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "libworker/nn/choose.h"
#include "libworker/nn/random.h"

enum { VOCAB = 40, CHANCES = 2000 };

struct candidate {
    double chance;
    int token;
};

static int likelier(const void *a, const void *b)
{
    double x = ((const struct candidate *)a)->chance, y = ((const struct candidate *)b)->chance;
    return (x < y) - (x > y);
}

static void normalise(struct candidate *c, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += c[i].chance;
    for (int i = 0; i < n; i++)
        c[i].chance /= sum;
}

/* The chance of each token by the definition; all logits differ. */
static void reference(const float *logits, const struct choice *how, double ret[VOCAB])
{
    struct candidate c[VOCAB];
    int n = VOCAB, kept = 0;
    for (int i = 0; i < VOCAB; i++) {
        c[i] = (struct candidate){exp((double)logits[i] / how->temperature), i};
        ret[i] = 0;
    }
    qsort(c, VOCAB, sizeof(c[0]), likelier);
    n = how->top_k > 0 && how->top_k < n ? how->top_k : n;
    normalise(c, n);
    for (double sum = 0; kept < n && (how->top_p == 0 || sum < how->top_p); kept++)
        sum += c[kept].chance;
    normalise(c, kept);
    for (int i = 0; i < kept; i++)
        ret[c[i].token] = c[i].chance;
}

/* Tokens are drawn in the order of their numbers, each by its share of [0, 1). */
static void expect_like_reference(const float *logits, const struct choice *how)
{
    double chances[VOCAB];
    float room[VOCAB];
    reference(logits, how, chances);
    for (int i = 0; i < CHANCES; i++) {
        double chance = (i + 0.5) / CHANCES, end = 0;
        int32_t token = choose_token(logits, VOCAB, how, chance, room);
        cr_assert(token >= 0 && token < VOCAB);
        cr_expect_gt(chances[token], 0, "%d at top_p %g", token, how->top_p);
        for (int t = 0; t <= token; t++)
            end += chances[t];
        cr_expect(chance <= end + 1e-9 && chance >= end - chances[token] - 1e-9,
                  "%d by %g at top_k %d, top_p %g", token, chance, how->top_k, how->top_p);
    }
}

Test(choose, draws_as_a_plain_reference_does)
{
    static const double shares[] = {0, 0.001, 0.3, 0.5, 0.9, 0.999, 1};
    static const int numbers[] = {0, 1, 5, VOCAB};
    float logits[VOCAB];
    for (uint64_t seed = 0; seed < 3; seed++) {
        for (uint64_t i = 0; i < VOCAB; i++)
            logits[i] = (float)(6 * random_uniform(seed, i));
        for (int p = 0; p < 7; p++) {
            for (int k = 0; k < 4; k++)
                expect_like_reference(logits, &(struct choice){0.7, numbers[k], shares[p]});
        }
    }
}

/* The fewest whose share is at least p: 8/15, 4/15, 2/15, 1/15. */
Test(choose, takes_the_fewest_that_have_the_share)
{
    static const float logits[4] = {0, 3 * (float)M_LN2, (float)M_LN2, 2 * (float)M_LN2};
    static const struct {
        double top_p;
        int n;
    } cases[] = {{0.5, 1}, {0.54, 2}, {0.79, 2}, {0.81, 3}, {0.93, 3}, {0.94, 4}};
    float room[4];
    for (int c = 0; c < 6; c++) {
        bool seen[4] = {false};
        int n = 0;
        for (int i = 0; i < 1000; i++)
            seen[choose_token(logits, 4, &(struct choice){1, 0, cases[c].top_p}, i / 1000.0,
                              room)] = true;
        for (int i = 0; i < 4; i++)
            n += seen[i] ? 1 : 0;
        cr_expect_eq(n, cases[c].n, "%g: %d", cases[c].top_p, n);
    }
}

Test(choose, equals_are_candidates_together)
{
    static const float logits[4] = {1, 2, 2, 0};
    bool seen[4] = {false};
    float room[4];
    for (int i = 0; i < 100; i++)
        seen[choose_token(logits, 4, &(struct choice){1, 0, 0.1}, i / 100.0, room)] = true;
    cr_expect(!seen[0] && seen[1] && seen[2] && !seen[3]);
    cr_expect_eq(choose_token(logits, 4, &(struct choice){0, 0, 0}, 0.9, room), 1);
}
