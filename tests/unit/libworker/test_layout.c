/* Where memory lies: pieces that are needed at one time never overlap, and little is wasted. */
#include <criterion/criterion.h>

#include "common/base/rng.h"
#include "libworker/graph/layout.h"

enum { PIECES = 400, TIMES = 300 };

static int meet(const struct storage *a, const struct storage *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static int overlap(const struct storage *a, const struct storage *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* The most bytes that are needed at one time: no region is smaller. */
static size_t needed(const struct storage *s, int n)
{
    size_t most = 0;
    for (int t = 0; t < TIMES; t++) {
        size_t sum = 0;
        for (int i = 0; i < n; i++)
            sum += s[i].first <= t && t <= s[i].last ? s[i].bytes : 0;
        most = sum > most ? sum : most;
    }
    return most;
}

Test(layout, pieces_of_one_time_lie_apart)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct storage s[PIECES];
        struct rng rng;
        rng_seed(&rng, seed);
        for (int i = 0; i < PIECES; i++) {
            s[i].first = (int)rng_below(&rng, TIMES);
            s[i].last = s[i].first + (int)rng_below(&rng, (uint64_t)(TIMES - s[i].first));
            s[i].bytes = 1 + rng_below(&rng, 5000);
        }
        size_t region = layout_place(s, PIECES);
        cr_expect_geq(region, needed(s, PIECES));
        for (int i = 0; i < PIECES; i++) {
            cr_assert_leq(s[i].offset + s[i].bytes, region);
            cr_assert_eq(s[i].offset % LAYOUT_ALIGN_BYTES, 0);
            for (int j = 0; j < i; j++)
                cr_assert(!meet(&s[i], &s[j]) || !overlap(&s[i], &s[j]), "seed %d: %d and %d",
                          (int)seed, i, j);
        }
    }
}

/* As of a network: what a layer keeps, its gradients while they pass, and one large head. */
Test(layout, a_network_wastes_little)
{
    enum { LAYERS = 40 };
    struct storage s[3 * LAYERS + 1];
    int n = 0, end = 2 * LAYERS + 2;
    for (int i = 0; i < LAYERS; i++) {
        s[n++] = (struct storage){.bytes = 64000, .first = i, .last = end - i};
        s[n++] = (struct storage){.bytes = 12800, .first = i, .last = i + 1};
        s[n++] = (struct storage){.bytes = 12800, .first = end - i - 1, .last = end - i};
    }
    s[n++] = (struct storage){.bytes = 640000, .first = LAYERS, .last = LAYERS + 1};
    cr_expect_leq((double)layout_place(s, n), 1.02 * (double)needed(s, n));
}

Test(layout, what_no_launch_touches_takes_nothing)
{
    struct storage s[2] = {{.bytes = 100, .first = 1, .last = 0}, {.bytes = 0, .first = 0}};
    cr_expect_eq(layout_place(s, 2), 0);
    cr_expect_eq(layout_place(s, 0), 0);
}
