/* Which way an all-reduce goes: the table, and what may be said instead of it. */
#include <criterion/criterion.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/comm/comm.h"
#include "libworker/comm/ways.h"

Test(ways, the_table_has_an_answer_for_every_world_and_size)
{
    for (int placement = PLACED_TOGETHER; placement <= PLACED_OTHERWISE; placement++)
        for (int world = 1; world <= COMM_WORLD_MAX; world++) {
            struct ways ways = ways_measured((enum placement)placement, world);
            cr_assert(ways.count >= 1 && ways.tcp_connections >= 1 && !ways.forced);
            for (size_t bytes = 0; bytes <= (size_t)1 << 32; bytes = bytes * 2 + 1) {
                enum way way = ways_at(&ways, bytes);
                cr_assert(way != WAY_DIRECT || bytes <= WAY_DIRECT_BYTES_MAX);
                cr_assert(way != WAY_CHAIN || placement == PLACED_APART);
                cr_assert(way != WAY_TWO_LEVELS || placement == PLACED_EVENLY);
            }
        }
}

Test(ways, each_goes_up_to_its_limit)
{
    struct ways ways = ways_measured(PLACED_APART, 4);
    cr_assert_eq(ways_parse(" direct:100  sliced:1MiB chain", PLACED_APART, &ways, NULL), 0);
    cr_assert(ways.forced);
    cr_assert_eq(ways_at(&ways, 0), WAY_DIRECT);
    cr_assert_eq(ways_at(&ways, 100), WAY_DIRECT);
    cr_assert_eq(ways_at(&ways, 101), WAY_SLICED);
    cr_assert_eq(ways_at(&ways, 1 << 20), WAY_SLICED);
    cr_assert_eq(ways_at(&ways, (1 << 20) + 1), WAY_CHAIN);
    cr_assert_eq(ways_at(&ways, SIZE_MAX), WAY_CHAIN);
}

Test(ways, what_is_not_possible_here_is_left_out)
{
    struct ways ways = ways_measured(PLACED_TOGETHER, 4);
    cr_assert_eq(ways_parse("direct:100 sliced:1K chain", PLACED_TOGETHER, &ways, NULL), 0);
    cr_assert_eq(ways_at(&ways, 1 << 20), WAY_SLICED);
    cr_assert_eq(ways_parse("direct:100 two_levels", PLACED_APART, &ways, NULL), 0);
    cr_assert_eq(ways_at(&ways, 100), WAY_DIRECT);
    cr_assert_eq(ways_at(&ways, 101), WAY_SLICED);
    cr_assert_eq(ways_parse("chain", PLACED_EVENLY, &ways, NULL), 0);
    cr_assert_eq(ways_at(&ways, 0), WAY_SLICED);
}

Test(ways, nonsense_is_refused_with_a_reason_and_changes_nothing)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"", "without a way"},
        {"   ", "without a way"},
        {"ring", "'ring' is no way"},
        {"sliced:", "is no number of bytes"},
        {"sliced:many chain", "is no number of bytes"},
        {"sliced:1M", "has no limit"},
        {"direct chain", "needs a limit"},
        {"sliced:1M direct:8K chain", "limits must rise"},
        {"direct:1M sliced", "goes up to"},
        {"direct:1 direct:2 direct:3 sliced", "more than"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct ways ways = ways_measured(PLACED_APART, 4), before = ways;
        struct error err = {0};
        cr_assert_eq(ways_parse(wrong[i].text, PLACED_APART, &ways, &err), WK_EINVAL, "\"%s\"",
                     wrong[i].text);
        cr_assert(strstr(err.text, wrong[i].why), "\"%s\": %s", wrong[i].text, err.text);
        cr_assert(memcmp(&ways, &before, sizeof(ways)) == 0);
    }
}
