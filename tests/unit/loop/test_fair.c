/* Work of many on a loop with its own clock: each piece takes as long as it says. */
#include <criterion/criterion.h>

#include "common/env/env.h"
#include "common/loop/fair.h"

enum { TURN_MS = 10, PIECES = 400, OWNERS = 20 };

struct piece {
    struct list link;
    uint64_t whose;
    int64_t takes_ms;
    int again; /* how often it is handed in once more */
    int64_t done_ms;
};

static struct {
    struct loop *loop;
    struct fair fair;
    struct piece pieces[PIECES];
    int count, done;
    int64_t now_ms, turn_began_ms, longest_turn_ms;
    int turns;
} w;

static int64_t now(void *self)
{
    (void)self;
    return w.now_ms;
}

static void work(void *arg, struct list *item)
{
    struct piece *piece = list_entry(item, struct piece, link);
    (void)arg;
    w.now_ms += piece->takes_ms;
    if (piece->again-- > 0) {
        fair_ready(&w.fair, piece->whose, &piece->link);
        return;
    }
    piece->done_ms = w.now_ms;
    w.done++;
}

static void turn_end(void *arg)
{
    (void)arg;
    int64_t took_ms = w.now_ms - w.turn_began_ms;
    w.longest_turn_ms = took_ms > w.longest_turn_ms ? took_ms : w.longest_turn_ms;
    w.turn_began_ms = w.now_ms;
    w.turns++;
}

static struct clock world_clock = {.now_ms = now};

static void setup(void)
{
    w.now_ms = w.turn_began_ms = 1000;
    cr_assert_eq(loop_new_simulated(world_clock, &w.loop, NULL), 0);
    fair_init(&w.fair, w.loop, TURN_MS, work, NULL);
    loop_on_turn_end(w.loop, turn_end, NULL);
}

static void teardown(void)
{
    fair_fini(&w.fair);
    loop_free(w.loop);
}

TestSuite(fair, .init = setup, .fini = teardown);

static struct piece *ask(uint64_t whose, int64_t takes_ms)
{
    struct piece *piece = &w.pieces[w.count++];
    piece->whose = whose;
    piece->takes_ms = takes_ms;
    list_init(&piece->link);
    return piece;
}

static void hand_in(void *arg)
{
    struct piece *piece = arg;
    fair_ready(&w.fair, piece->whose, &piece->link);
}

static void post(uint64_t whose, int64_t takes_ms)
{
    loop_post(w.loop, hand_in, ask(whose, takes_ms));
}

Test(fair, what_comes_to_nobody_s_queue_is_done_at_once)
{
    struct piece *piece = ask(1, 3);
    hand_in(piece);
    cr_assert_eq(piece->done_ms, 1003);
    cr_assert_eq(loop_turn(w.loop), INT64_MAX); /* and nothing is armed for it */
}

Test(fair, a_turn_takes_its_time_and_the_piece_at_hand)
{
    for (int i = 0; i < 300; i++)
        post((uint64_t)i % OWNERS, 4);
    (void)loop_turn(w.loop);
    cr_assert_eq(w.done, 300);
    cr_assert_leq(w.longest_turn_ms, TURN_MS + 4);
    cr_assert_geq(w.turns, 300 * 4 / (TURN_MS + 4));
}

Test(fair, a_question_waits_for_newcomers_only)
{
    for (int i = 0; i < 300; i++)
        post((uint64_t)i % OWNERS + 1, 4);
    struct piece *question = ask(99, 0);
    struct loop_timer later = {0};
    loop_timer_set(w.loop, &later, 1500, hand_in, question); /* 1,200 ms of work in all */
    (void)loop_turn(w.loop);
    cr_assert_geq(question->done_ms, 1500);
    cr_assert_leq(question->done_ms, 1500 + 2 * (TURN_MS + 4));
}

Test(fair, an_item_with_more_work_waits_behind_others)
{
    struct piece *large = ask(1, 5);
    large->again = 50;
    loop_post(w.loop, hand_in, large);
    for (int i = 0; i < 10; i++)
        post(2, 1);
    (void)loop_turn(w.loop);
    cr_assert_eq(w.done, 11);
    for (int i = 1; i <= 10; i++)
        cr_assert_lt(w.pieces[i].done_ms, 1100, "piece %d at %d", i, (int)w.pieces[i].done_ms);
    cr_assert_geq(large->done_ms, 1250);
}

Test(fair, what_waits_is_handed_in_once_and_may_be_taken_back)
{
    struct piece *whole_turn = ask(1, TURN_MS), *twice = ask(2, 0), *back = ask(3, 0);
    hand_in(whole_turn);
    hand_in(twice);
    hand_in(twice);
    hand_in(back);
    cr_assert_eq(w.done, 1);
    list_remove(&back->link);
    (void)loop_turn(w.loop);
    cr_assert_eq(w.done, 2);
    cr_assert_eq(back->done_ms, 0);
}
