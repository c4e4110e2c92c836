#include <criterion/criterion.h>

#include "common/base/turns.h"

enum { PIECES = 64 };

struct piece {
    struct list link;
    char whose;
};

static struct turns turns;
static struct piece pieces[PIECES];
static int count;

static void setup(void)
{
    turns_init(&turns);
    count = 0;
}

static void teardown(void)
{
    turns_fini(&turns);
}

TestSuite(turns, .init = setup, .fini = teardown);

static void ask(char whose, int times)
{
    for (; times; times--) {
        struct piece *piece = &pieces[count++ % PIECES];
        piece->whose = whose;
        list_init(&piece->link);
        turns_add(&turns, (uint64_t)whose, &piece->link);
    }
}

/* Whose the next is, which takes so long; 0 = nobody's. */
static char take(int64_t ms)
{
    struct list *item = turns_next(&turns);
    if (!item)
        return 0;
    turns_charge(&turns, ms);
    return list_entry(item, struct piece, link)->whose;
}

Test(turns, one_owner_s_pieces_come_in_their_order)
{
    ask('a', 3);
    for (int i = 0; i < 3; i++) {
        struct list *item = turns_next(&turns);
        cr_assert_eq(item, &pieces[i].link);
        cr_assert(list_empty(item));
    }
    cr_assert_null(turns_next(&turns));
    cr_assert(turns_empty(&turns));
}

Test(turns, who_asks_now_and_then_goes_before_those_who_always_ask)
{
    ask('a', 20);
    ask('b', 20);
    for (int i = 0; i < 8; i++)
        cr_assert_neq(take(TURNS_QUANTUM_MS), 0);
    ask('q', 1);
    cr_assert_eq(take(0), 'q');
}

Test(turns, time_is_shared_not_pieces)
{
    int took_ms[2] = {0};
    ask('a', 32); /* of 8 ms each */
    ask('b', 32); /* of 1 ms each */
    for (int i = 0; i < 36; i++) {
        struct list *item = turns_next(&turns);
        bool a = list_entry(item, struct piece, link)->whose == 'a';
        turns_charge(&turns, a ? 8 : 1);
        took_ms[!a] += a ? 8 : 1;
    }
    cr_assert_leq(took_ms[0] - took_ms[1], 8, "a had %d ms, b %d", took_ms[0], took_ms[1]);
    cr_assert_leq(took_ms[1] - took_ms[0], 8, "a had %d ms, b %d", took_ms[0], took_ms[1]);
}

Test(turns, who_comes_back_at_once_is_not_new)
{
    ask('b', 10);
    cr_assert_eq(take(TURNS_QUANTUM_MS), 'b');
    cr_assert_eq(take(0), 'b'); /* new no more */
    ask('a', 1);
    cr_assert_eq(take(TURNS_QUANTUM_MS), 'a'); /* its quantum, with nothing left to ask */
    cr_assert_eq(take(0), 'b');
    ask('a', 1); /* before it was forgotten */
    ask('c', 1);
    cr_assert_eq(take(1), 'c');
}

Test(turns, a_debt_has_an_end)
{
    ask('a', 2);
    ask('b', 50);
    cr_assert_eq(take(100000), 'a');
    int before = 0;
    while (take(TURNS_QUANTUM_MS) == 'b')
        before++;
    cr_assert_leq(before, TURNS_DEBT_MAX_MS / TURNS_QUANTUM_MS + 1);
}

Test(turns, what_is_taken_back_does_not_come)
{
    ask('a', 3);
    list_remove(&pieces[1].link);
    (void)turns_next(&turns);
    cr_assert_eq(turns_next(&turns), &pieces[2].link);
    cr_assert_null(turns_next(&turns));
}

Test(turns, what_waits_at_the_end_is_let_go)
{
    ask('a', 2);
    ask('b', 1);
    turns_fini(&turns);
    cr_assert(list_empty(&pieces[0].link));
    cr_assert(list_empty(&pieces[2].link));
    turns_init(&turns);
}
