/* The simulated loop, and with the same code the real one where nothing needs a thread. */
#include <criterion/criterion.h>
#include <string.h>

#include "common/loop/loop.h"
#include "common/loop/mailbox.h"

struct world {
    struct loop *loop;
    struct loop_timer timers[8];
    int64_t now_ms;
    char trace[256];
    int turns;
};

struct step {
    struct world *world;
    char name;
};

static int64_t world_now(void *self)
{
    return ((struct world *)self)->now_ms;
}

static void note(void *arg)
{
    struct step *step = arg;
    size_t length = strlen(step->world->trace);
    step->world->trace[length] = step->name;
    step->world->trace[length + 1] = '\0';
}

static struct world world;
static struct clock world_clock;
static struct step a = {&world, 'a'}, b = {&world, 'b'}, c = {&world, 'c'}, d = {&world, 'd'};

static void setup(void)
{
    world = (struct world){.now_ms = 1000};
    world_clock = (struct clock){.self = &world, .now_ms = world_now};
    cr_assert_eq(loop_new_simulated(world_clock, &world.loop, NULL), 0);
}

static void teardown(void)
{
    loop_free(world.loop);
}

TestSuite(loop, .init = setup, .fini = teardown);

static void arm(int i, int64_t due_ms, struct step *step)
{
    loop_timer_set(world.loop, &world.timers[i], due_ms, note, step);
}

Test(loop, timers_fire_by_deadline_then_in_the_order_they_were_armed)
{
    arm(0, 1020, &a);
    arm(1, 1010, &b);
    arm(2, 1020, &c);
    arm(3, 1005, &d);
    cr_assert_eq(loop_turn(world.loop), 1005);
    cr_assert_str_eq(world.trace, "");
    world.now_ms = 1020;
    cr_assert_eq(loop_turn(world.loop), INT64_MAX);
    cr_assert_str_eq(world.trace, "dbac");
    cr_assert_not(loop_timer_armed(&world.timers[0]));
}

Test(loop, after_a_stall_what_has_arrived_goes_before_what_is_overdue)
{
    arm(0, 1010, &a);
    loop_post(world.loop, note, &b);
    world.now_ms = 1010 + LOOP_LATE_MS - 1;
    loop_turn(world.loop);
    cr_expect_str_eq(world.trace, "ab", "in time: %s", world.trace);
    arm(0, 2000, &c);
    loop_post(world.loop, note, &d);
    world.now_ms = 2000 + LOOP_LATE_MS;
    loop_turn(world.loop);
    cr_expect_str_eq(world.trace, "abdc", "late: %s", world.trace);
}

Test(loop, rearming_moves_a_timer_to_the_end_of_its_deadline)
{
    arm(0, 1010, &a);
    arm(1, 1010, &b);
    arm(0, 1010, &a);
    world.now_ms = 1010;
    loop_turn(world.loop);
    cr_assert_str_eq(world.trace, "ba");
}

Test(loop, a_cancelled_timer_never_fires)
{
    loop_timer_cancel(world.loop, &world.timers[7]);
    arm(0, 1010, &a);
    arm(1, 1010, &b);
    cr_assert(loop_timer_armed(&world.timers[0]));
    loop_timer_cancel(world.loop, &world.timers[0]);
    world.now_ms = 2000;
    loop_turn(world.loop);
    cr_assert_str_eq(world.trace, "b");
}

static void cancel_next(void *arg)
{
    note(arg);
    loop_timer_cancel(world.loop, &world.timers[1]);
}

Test(loop, a_timer_can_cancel_another_one_that_is_due_in_the_same_turn)
{
    loop_timer_set(world.loop, &world.timers[0], 1010, cancel_next, &a);
    arm(1, 1010, &b);
    arm(2, 1010, &c);
    world.now_ms = 1010;
    loop_turn(world.loop);
    cr_assert_str_eq(world.trace, "ac");
}

static void rearm_now(void *arg)
{
    note(arg);
    if (strlen(world.trace) < 5)
        loop_timer_set(world.loop, &world.timers[0], loop_now_ms(world.loop), rearm_now, arg);
    loop_post(world.loop, note, &b);
}

Test(loop, a_timer_armed_for_now_waits_until_the_mailbox_had_its_turn)
{
    loop_timer_set(world.loop, &world.timers[0], 1000, rearm_now, &a);
    loop_turn(world.loop);
    cr_assert_str_eq(world.trace, "ababab");
}

static void postpone_other(void *arg)
{
    note(arg);
    loop_timer_set(world.loop, &world.timers[1], 1050, note, &b);
}

Test(loop, a_due_timer_can_be_postponed_by_an_earlier_one)
{
    loop_timer_set(world.loop, &world.timers[0], 1001, postpone_other, &a);
    arm(1, 1002, &b);
    world.now_ms = 1002;
    cr_assert_eq(loop_turn(world.loop), 1050);
    cr_assert_str_eq(world.trace, "a");
}

static void post_more(void *arg)
{
    note(arg);
    loop_post(world.loop, note, &d);
}

Test(loop, posts_run_in_order_and_never_inside_the_call_that_posted)
{
    loop_post(world.loop, post_more, &a);
    loop_post(world.loop, note, &b);
    cr_assert_str_eq(world.trace, "");
    loop_turn(world.loop);
    cr_assert_str_eq(world.trace, "abd");
}

static void end_of_turn(void *arg)
{
    (void)arg;
    world.turns++;
    note(&(struct step){&world, '.'});
}

Test(loop, the_end_of_a_turn_is_announced_only_if_something_ran)
{
    loop_on_turn_end(world.loop, end_of_turn, NULL);
    loop_turn(world.loop);
    cr_assert_eq(world.turns, 0);
    arm(0, 1000, &a);
    loop_post(world.loop, post_more, &b);
    loop_turn(world.loop);
    cr_assert_str_eq(world.trace, "ab.d.");
}

static void post_for_ever(void *arg)
{
    world.turns++;
    loop_post(world.loop, post_for_ever, arg);
}

Test(loop, a_turn_that_never_ends_is_cut_off)
{
    loop_post(world.loop, post_for_ever, NULL);
    cr_assert_eq(loop_turn(world.loop), 1000);
    cr_assert_eq(world.turns, LOOP_PASSES_MAX);
}

static void check_time_stands(void *arg)
{
    int64_t before = loop_now_ms(world.loop);
    world.now_ms += 100;
    cr_assert_eq(loop_now_ms(world.loop), before);
    note(arg);
}

Test(loop, time_stands_still_during_a_turn)
{
    loop_post(world.loop, check_time_stands, &a);
    arm(0, 1100, &b);
    loop_turn(world.loop);
    cr_assert_str_eq(world.trace, "ab", "the second pass of loop_turn sees the new time");
}

Test(loop, offloaded_work_runs_inline_and_its_end_is_a_message)
{
    loop_offload(world.loop, note, note, &a);
    cr_assert_str_eq(world.trace, "a");
    loop_turn(world.loop);
    cr_assert_str_eq(world.trace, "aa");
}

static void never_called(void *arg, int fd, uint32_t events)
{
    (void)arg;
    (void)fd;
    (void)events;
    cr_assert_fail("called");
}

Test(loop, descriptors_cannot_be_watched_in_simulation)
{
    cr_assert_eq(loop_watch(world.loop, 0, 1, never_called, NULL, NULL), E_FAILED_PRECONDITION);
    loop_unwatch(world.loop, 0);
}

static void count(void *arg)
{
    (void)arg;
    world.turns++;
}

Test(loop, more_posts_than_the_mailbox_holds_do_not_block_its_own_thread)
{
    for (int i = 0; i < LOOP_MAILBOX_MAX + 10; i++)
        loop_post(world.loop, count, NULL);
    loop_turn(world.loop);
    cr_assert_eq(world.turns, LOOP_MAILBOX_MAX + 10);
}

Test(loop, freeing_disarms_what_is_left)
{
    struct loop *loop;
    cr_assert_eq(loop_new_simulated(world_clock, &loop, NULL), 0);
    loop_timer_set(loop, &world.timers[0], 5000, note, &a);
    loop_post(loop, note, &b);
    loop_free(loop);
    loop_free(NULL);
    cr_assert_not(loop_timer_armed(&world.timers[0]));
    cr_assert_str_eq(world.trace, "");
}

static void take_a_second(void *arg)
{
    (void)arg;
    world.now_ms += LOOP_SLOW_MS;
}

static void keep_times(void *arg, const struct loop_turn *turn)
{
    *(struct loop_turn *)arg = *turn;
    world.turns++;
}

Test(loop, a_slow_turn_is_told_with_the_stage_that_took_the_time)
{
    struct loop_turn times = {0};
    loop_on_slow_turn(world.loop, keep_times, &times);
    loop_post(world.loop, note, &a);
    loop_turn(world.loop);
    cr_expect_eq(world.turns, 0, "a quick turn was told");
    loop_post(world.loop, take_a_second, NULL);
    loop_turn(world.loop);
    cr_expect_eq(world.turns, 1);
    cr_expect(times.posts_ms == LOOP_SLOW_MS && times.timers_ms == 0 && times.end_ms == 0);
    loop_timer_set(world.loop, &world.timers[0], world.now_ms, take_a_second, NULL);
    loop_turn(world.loop);
    cr_expect(world.turns == 2 && times.timers_ms == LOOP_SLOW_MS && times.posts_ms == 0);
    loop_on_turn_end(world.loop, take_a_second, NULL);
    loop_post(world.loop, note, &a);
    loop_turn(world.loop);
    cr_expect(world.turns == 3 && times.end_ms == LOOP_SLOW_MS && times.posts_ms == 0);
}
