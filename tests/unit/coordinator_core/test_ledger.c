/* Where a job's seconds went: the arithmetic, and stories with the exact milliseconds they leave.
 */
#include <string.h>

#include <criterion/criterion.h>

#include "coordinator/model/ledger.h"
#include "tests/unit/coordinator_core/story.h"

static struct story s;

static void begin(void)
{
    story_begin(&s);
}

static void finish(void)
{
    story_end(&s);
}

TestSuite(ledger, .init = begin, .fini = finish);

/* queue start productive checkpoint rework recovery hang */
static void expect_ms(const struct ledger *ledger, int64_t now_ms, const int64_t *want)
{
    int64_t got[LEDGER_COUNT], sum = 0;
    cr_expect_eq(ledger_read(ledger, now_ms, got), now_ms - ledger->begun_ms);
    for (int i = 0; i < LEDGER_COUNT; i++) {
        cr_expect_eq(got[i], want[i], "%s: %lld ms, not %lld",
                     ledger_phase_name((enum ledger_phase)i), (long long)got[i],
                     (long long)want[i]);
        sum += got[i];
    }
    cr_expect_eq(sum, now_ms - ledger->begun_ms);
}
#define EXPECT_MS(ledger, now_ms, ...)                                                             \
    expect_ms(ledger, now_ms, (const int64_t[LEDGER_COUNT]){__VA_ARGS__})

Test(ledger, each_phase_gets_its_time_and_time_never_runs_back)
{
    struct ledger ledger;
    ledger_begin(&ledger, 100);
    ledger_charge(&ledger, 150);
    ledger_enter(&ledger, LEDGER_START, 150);
    ledger_charge(&ledger, 130);
    EXPECT_MS(&ledger, 170, 50, 20);
    ledger_charge(&ledger, 170);
    ledger_shift(&ledger, -500);
    EXPECT_MS(&ledger, -330, 50, 20);
    ledger_close(&ledger);
    ledger_charge(&ledger, 9999);
    EXPECT_MS(&ledger, 70, 50, 20);
}

Test(ledger, a_pause_far_longer_than_its_steps_is_a_hang)
{
    struct ledger ledger;
    ledger_begin(&ledger, 0);
    ledger_enter(&ledger, LEDGER_PRODUCTIVE, 0);
    ledger_charge(&ledger, 500000);
    EXPECT_MS(&ledger, 500000, 0, 0, 500000); /* of a program whose steps nobody knows */
    ledger_step(&ledger, 50, 500000);
    cr_expect_eq(ledger.typical_step_ms, 10000);
    EXPECT_MS(&ledger, 700000, 0, 0, 700000);
    ledger_charge(&ledger, 800000);
    EXPECT_MS(&ledger, 800000, 0, 0, 700000, 0, 0, 0, 100000);
    ledger_step(&ledger, 51, 800000); /* it goes on */
    EXPECT_MS(&ledger, 810000, 0, 0, 710000, 0, 0, 0, 100000);
}

Test(ledger, a_minute_is_no_hang_however_short_its_steps)
{
    struct ledger ledger;
    ledger_begin(&ledger, 0);
    ledger_enter(&ledger, LEDGER_PRODUCTIVE, 0);
    ledger_charge(&ledger, 100);
    ledger_step(&ledger, 10, 100);
    EXPECT_MS(&ledger, 60100, 0, 0, 60100);
    EXPECT_MS(&ledger, 60101, 0, 0, 60100, 0, 0, 0, 1);
}

Test(ledger, what_it_stood_still_to_save_was_not_productive)
{
    struct ledger ledger;
    ledger_begin(&ledger, 0);
    ledger_enter(&ledger, LEDGER_PRODUCTIVE, 0);
    ledger_charge(&ledger, 1000);
    ledger_saved(&ledger, 300);
    EXPECT_MS(&ledger, 1000, 0, 0, 700, 300);
    ledger_saved(&ledger, 5000); /* no more than there was */
    ledger_saved(&ledger, -5000);
    EXPECT_MS(&ledger, 1000, 0, 0, 0, 1000);
}

static void pass(int64_t ms)
{
    story_wait(&s, ms);
}

#define EXPECT_JOB(id, ...) EXPECT_MS(&story_job(&s, id)->ledger, s.now_ms, __VA_ARGS__)

Test(ledger, a_restart_costs_recovery_and_the_steps_it_does_again)
{
    const struct story_spec one = {.name = "one", .nodes_min = 1, .nodes_max = 1, .restart_max = 5};
    story_node_up(&s, "a", 1);
    story_submit(&s, &one);
    story_follow(&s);
    story_submit(&s, &one);
    pass(5000);
    story_exit(&s, "j1", 0, 0);
    story_follow(&s);
    cr_assert_eq(story_job(&s, "j2")->state, JOB_RUNNING);
    EXPECT_JOB("j2", 5000);
    pass(2000);
    story_progress(&s, "j2", 10);
    story_commit(&s, "j2", 0, 1, 10);
    pass(2000);
    story_progress(&s, "j2", 20);
    pass(1000);
    EXPECT_JOB("j2", 5000, 0, 5000);
    story_exit(&s, "j2", 0, 1);
    story_follow(&s);
    cr_assert_eq(story_job(&s, "j2")->state, JOB_RUNNING);
    pass(3000);
    story_progress(&s, "j2", 12);
    EXPECT_JOB("j2", 5000, 0, 5000, 0, 0, 3000);
    pass(1000);
    story_progress(&s, "j2", 25);
    EXPECT_JOB("j2", 5000, 0, 5000, 0, 1000, 3000);
    cr_expect_eq(story_job(&s, "j2")->ledger.rework_steps, 10, "steps 11 to 20");
    pass(4000);
    story_exit(&s, "j2", 0, 0);
    EXPECT_MS(&story_job(&s, "j2")->ledger, 18000, 5000, 0, 9000, 0, 1000, 3000);
    cr_expect(story_job(&s, "j2")->ledger.closed);
    int64_t ms[LEDGER_COUNT];
    cr_expect_eq(ledger_read(&story_job(&s, "j2")->ledger, s.now_ms + 99999, ms), 18000);
}

/* Its processes run, and import what they need: that is known to be its start when a step is. */
Test(ledger, what_a_reporting_program_does_before_its_first_step_is_its_start)
{
    const struct story_spec one = {.name = "one", .nodes_min = 1, .nodes_max = 1, .restart_max = 5};
    s.unaware = true;
    story_node_up(&s, "a", 1);
    story_submit(&s, &one);
    story_follow(&s);
    pass(UNAWARE_AFTER_MS);
    cr_assert_eq(story_job(&s, "j1")->state, JOB_RUNNING);
    pass(5000);
    EXPECT_JOB("j1", 0, UNAWARE_AFTER_MS, 5000);
    story_progress(&s, "j1", 1);
    EXPECT_JOB("j1", 0, UNAWARE_AFTER_MS + 5000, 0);
    pass(3000);
    story_progress(&s, "j1", 2);
    EXPECT_JOB("j1", 0, UNAWARE_AFTER_MS + 5000, 3000);
    story_exit(&s, "j1", 0, 1);
    story_follow(&s);
    pass(UNAWARE_AFTER_MS);
    cr_assert_eq(story_job(&s, "j1")->state, JOB_RUNNING);
    pass(5000);
    story_progress(&s, "j1", 1);
    pass(500);
    EXPECT_JOB("j1", 0, UNAWARE_AFTER_MS + 5000, 3000, 0, 500, UNAWARE_AFTER_MS + 5000);
}

Test(ledger, survivors_lose_no_step_and_do_none_again)
{
    const struct story_spec pair = {.name = "pair", .nodes_min = 1, .nodes_max = 2};
    story_node_up(&s, "a", 1);
    story_node_up(&s, "b", 1);
    story_submit(&s, &pair);
    story_follow(&s);
    pass(1000);
    story_progress(&s, "j1", 5);
    story_node_dies(&s, "b");
    pass(LEASE_MS + 1000);
    cr_assert_eq(story_job(&s, "j1")->current.world, 1);
    story_progress(&s, "j1", 6);
    const struct ledger *ledger = &story_job(&s, "j1")->ledger;
    cr_expect_eq(ledger->rework_steps, 0);
    cr_expect_eq(ledger->ms[LEDGER_REWORK], 0);
    cr_expect_geq(ledger->ms[LEDGER_RECOVERY], 1000);
    cr_expect_eq(ledger->phase, LEDGER_PRODUCTIVE);
}

Test(ledger, who_gives_way_waits_in_the_queue_not_in_recovery)
{
    story_node_up(&s, "a", 1);
    story_submit(&s, &(struct story_spec){.name = "low", .nodes_min = 1});
    story_follow(&s);
    story_progress(&s, "j1", 3);
    pass(2000);
    story_submit(&s, &(struct story_spec){.name = "high", .nodes_min = 1, .priority = 9});
    story_follow(&s);
    cr_assert_eq(story_job(&s, "j1")->state, JOB_QUEUED);
    cr_assert_eq(story_job(&s, "j2")->state, JOB_RUNNING);
    int64_t before_ms[LEDGER_COUNT], after_ms[LEDGER_COUNT];
    (void)ledger_read(&story_job(&s, "j1")->ledger, s.now_ms, before_ms);
    pass(7000);
    (void)ledger_read(&story_job(&s, "j1")->ledger, s.now_ms, after_ms);
    cr_expect_eq(after_ms[LEDGER_QUEUE] - before_ms[LEDGER_QUEUE], 7000);
    cr_expect_eq(after_ms[LEDGER_RECOVERY], 0);
}

Test(ledger, a_coordinator_that_kept_none_begins_with_what_is_known)
{
    story_node_up(&s, "a", 1);
    story_submit(&s, &(struct story_spec){.name = "old", .nodes_min = 1});
    story_follow(&s);
    struct job *job = story_job(&s, "j1");
    pass(5000);
    memset(&job->ledger, 0, sizeof(job->ledger));
    job->started_wall_ms = job->submitted_wall_ms + 1500;
    story_send(&s, &(struct event){.kind = EVENT_RESTORED});
    EXPECT_JOB("j1", 1500, 0, 3500);
}

/* A step each 100 ms, below the best one: time goes to rework until patience ends. */
static struct job *hang_in_rework(void)
{
    story_node_up(&s, "a", 1);
    story_submit(&s, &(struct story_spec){.name = "one", .nodes_min = 1, .restart_max = 5});
    story_follow(&s);
    pass(1000);
    story_progress(&s, "j1", 10);
    pass(99000);
    story_progress(&s, "j1", 1000);
    story_exit(&s, "j1", 0, 1);
    story_follow(&s);
    pass(1000);
    story_progress(&s, "j1", 1);
    pass(1000);
    story_progress(&s, "j1", 11);
    return story_job(&s, "j1");
}

Test(ledger, a_hang_stays_one_over_a_restart_of_the_coordinator)
{
    const struct job *job = hang_in_rework();
    pass(300000);
    int64_t before_ms[LEDGER_COUNT], after_ms[LEDGER_COUNT];
    (void)ledger_read(&job->ledger, s.now_ms, before_ms);
    cr_assert_geq(before_ms[LEDGER_HANG], 239000);
    story_job(&s, "j1")->ledger = s.stored_ledger;
    story_restart(&s, s.now_ms);
    pass(50000);
    (void)ledger_read(&job->ledger, s.now_ms, after_ms);
    cr_expect_eq(after_ms[LEDGER_HANG] - before_ms[LEDGER_HANG], 50000);
    cr_expect_eq(after_ms[LEDGER_REWORK], before_ms[LEDGER_REWORK]);
    story_progress(&s, "j1", 12);
    pass(1000);
    cr_expect_eq(job->ledger.hangs, false);
    (void)ledger_read(&job->ledger, s.now_ms, before_ms);
    cr_expect_eq(before_ms[LEDGER_HANG], after_ms[LEDGER_HANG]);
    cr_expect_eq(before_ms[LEDGER_REWORK], after_ms[LEDGER_REWORK] + 1000);
}

Test(ledger, a_hang_does_not_make_patience_longer_than_it_was)
{
    struct ledger ledger;
    ledger_begin(&ledger, 0);
    ledger_enter(&ledger, LEDGER_PRODUCTIVE, 0);
    ledger_charge(&ledger, 1000);
    ledger_step(&ledger, 10, 1000);
    ledger_charge(&ledger, 3601000); /* an hour */
    ledger_step(&ledger, 11, 3601000);
    cr_expect_leq(ledger.typical_step_ms, 100 + LEDGER_HANG_MIN_MS / 8);
}
