#include <criterion/criterion.h>
#include <string.h>

#include "common/base/rng.h"

/* splitmix64(0) gives e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f, f88bb8a8724c81ec (the
 * published sequence); xoshiro256** over that state starts with rotl(s1 * 5, 7) * 9. */
Test(rng, the_state_is_splitmix_and_the_first_number_follows_from_it)
{
    struct rng rng;
    rng_seed(&rng, 0);
    cr_assert_eq(rng.state[0], 0xe220a8397b1dcdafu);
    cr_assert_eq(rng.state[1], 0x6e789e6aa1b965f4u);
    cr_assert_eq(rng.state[2], 0x06c45d188009454fu);
    cr_assert_eq(rng.state[3], 0xf88bb8a8724c81ecu);
    cr_assert_eq(rng_next(&rng), 0x99ec5f36cb75f2b4u);
    cr_assert_eq(rng_next(&rng), 0xbf6e1f784956452au);
    cr_assert_eq(rng_next(&rng), 0x1a5f849d4933e6e0u);
}

Test(rng, same_seed_same_numbers_other_seed_others)
{
    struct rng a, b, c;
    int same = 0;
    rng_seed(&a, 5);
    rng_seed(&b, 5);
    rng_seed(&c, 6);
    for (int i = 0; i < 100; i++) {
        uint64_t x = rng_next(&a);
        cr_assert_eq(x, rng_next(&b));
        same += x == rng_next(&c);
    }
    cr_assert_eq(same, 0);
}

Test(rng, ranges_are_kept_and_evenly_used)
{
    struct rng rng;
    int counts[7] = {0};
    rng_seed(&rng, 3);
    for (int i = 0; i < 70000; i++)
        counts[rng_below(&rng, 7)]++;
    for (int i = 0; i < 7; i++) /* 6 standard deviations around 10,000 */
        cr_assert(counts[i] > 9440 && counts[i] < 10560, "%d: %d", i, counts[i]);
    cr_assert_eq(rng_below(&rng, 1), 0);
    for (int i = 0; i < 1000; i++) {
        int64_t x = rng_between(&rng, -3, 3);
        cr_assert(x >= -3 && x <= 3);
        cr_assert_eq(rng_between(&rng, INT64_MIN, INT64_MIN), INT64_MIN);
        rng_between(&rng, INT64_MIN, INT64_MAX);
        cr_assert_lt(rng_below(&rng, (1ull << 63) + 1), (1ull << 63) + 1);
        double d = rng_double(&rng);
        cr_assert(d >= 0 && d < 1);
        cr_assert(rng_chance(&rng, 1.0));
        cr_assert_not(rng_chance(&rng, 0.0));
    }
}

Test(rng, a_large_range_has_no_favourites)
{
    /* Scaling 2^64 numbers down to 3/4 of them maps two of every four to a multiple of 3. */
    struct rng rng;
    int multiples = 0;
    rng_seed(&rng, 9);
    for (int i = 0; i < 30000; i++)
        multiples += rng_below(&rng, 3ull << 62) % 3 == 0;
    cr_assert(multiples > 9500 && multiples < 10500, "%d", multiples);
}

Test(rng, shuffle_is_a_permutation_and_every_place_is_reached)
{
    struct rng rng;
    int seen[5][5] = {{0}};
    rng_seed(&rng, 11);
    for (int round = 0; round < 5000; round++) {
        int items[5] = {0, 1, 2, 3, 4}, mask = 0;
        rng_shuffle(&rng, items, 5, sizeof(items[0]));
        for (int i = 0; i < 5; i++) {
            mask |= 1 << items[i];
            seen[i][items[i]]++;
        }
        cr_assert_eq(mask, 31);
    }
    for (int i = 0; i < 25; i++)
        cr_assert(seen[i / 5][i % 5] > 800 && seen[i / 5][i % 5] < 1200);
    rng_shuffle(&rng, NULL, 0, 4);
}

Test(rng, a_fork_is_another_stream_and_fill_covers_all_bytes)
{
    struct rng rng, child;
    unsigned char bytes[13] = {0};
    rng_seed(&rng, 1);
    rng_fork(&rng, &child);
    cr_assert_neq(rng_next(&rng), rng_next(&child));
    int touched[13] = {0};
    for (int round = 0; round < 50; round++) {
        rng_fill(&rng, bytes, sizeof(bytes));
        for (int i = 0; i < 13; i++)
            touched[i] |= bytes[i];
    }
    for (int i = 0; i < 13; i++)
        cr_assert_neq(touched[i], 0);
}
