/* The coordinator itself restarts, or stands still for a while. Stories
 * on virtual time: what happens, and the exact trace it leaves. */
#include <string.h>

#include <criterion/criterion.h>

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

TestSuite(restarts, .init = begin, .fini = finish);

Test(restarts, a_coordinator_restart_changes_nothing)
{
    story_running_pair(&s, &story_pair);
    const struct job *job = story_job(&s, "j1");
    uint64_t generation = job->current.generation;
    story_send(&s, &(struct event){.kind = EVENT_RESTORED});
    story_expect(&s, "a unreachable coordinator_restarted\nb unreachable coordinator_restarted\n");
    story_wait(&s, 10000);
    story_expect(&s, "a ready reported\nb ready reported\n");
    cr_expect_eq(job->current.generation, generation);
    cr_expect_eq(job->workers_count, 2);
}

Test(restarts, silence_after_a_restart_is_no_verdict)
{
    story_running_pair(&s, &story_pair);
    struct story_worker *survivor = story_worker(&s, "j1", 0, NULL);
    story_send(&s, &(struct event){.kind = EVENT_RESTORED});
    s.trace[0] = 0;
    survivor->broken = 1;
    survivor->lost_ranks[0] = 1;
    survivor->lost_count = 1;
    story_report(&s, "a");
    story_expect(&s, "a ready reported\n");
    story_exit(&s, "j1", 1, 3);
    story_follow(&s);
    story_expect(&s, "b ready reported\nj1 reforming worker_failed\nj1 running all_joined\n");
}

/* Whoever broke it is charged; that a node is away is not. */
Test(restarts, a_break_waits_for_the_verdict_on_a_node_that_is_silent)
{
    story_running_pair(&s, &story_rigid);
    story_send(&s, &(struct event){.kind = EVENT_RESTORED});
    s.trace[0] = 0;
    struct story_worker *survivor = story_worker(&s, "j1", 0, NULL);
    survivor->broken = 1;
    survivor->lost_ranks[0] = 1;
    survivor->lost_count = 1;
    s.nodes[1].silent = true;
    story_wait(&s, BROKEN_TIMEOUT_MS + 2000);
    story_expect(&s, "a ready reported\n");
    story_wait(&s, RESTORED_LEASE_MS);
    story_expect(&s, "b lost lease_expired\nj1 restarting node_lost\n");
    cr_expect_eq(story_job(&s, "j1")->restarts, 0);
}

static void pause_of_the_coordinator(int64_t ms)
{
    s.now_ms += ms;
    story_send(&s, &(struct event){.kind = EVENT_TICK});
    for (int i = 0; i < s.nodes_count; i++) /* what had queued up is heard one by one */
        story_report(&s, s.nodes[i].name);
}

Test(restarts, a_pause_of_the_coordinator_is_nobody_elses_silence)
{
    story_running_pair(&s, &story_pair);
    story_wait(&s, 5000);
    for (int64_t ms = 500; ms <= 60000; ms += 167) {
        pause_of_the_coordinator(ms);
        story_wait(&s, 1000 + ms % 7);
    }
    story_expect(&s, "");
    cr_expect_eq(story_job(&s, "j1")->current.generation, 1);
    story_node_dies(&s, "b");
    pause_of_the_coordinator(100);
    story_wait(&s, LEASE_MS + 1000);
    cr_expect(strstr(s.trace, "b lost lease_expired\n"), "%s", s.trace);
}

Test(restarts, a_pause_just_over_the_lease_hears_first_what_has_queued_up)
{
    story_running_pair(&s, &story_pair);
    story_wait(&s, 5000);
    const struct node *b = cluster_node(s.cluster, "b");
    for (int late_ms = PUNCTUAL_MS + 1; late_ms < 2000; late_ms += 13) {
        while (b->timer.key < b->lease_until_ms) { /* until the next look is the verdict */
            s.now_ms = core_wake_at(s.cluster);
            story_send(&s, &(struct event){.kind = EVENT_TICK});
        }
        s.now_ms = b->lease_until_ms + late_ms;
        story_report(&s, "a"); /* its turn comes first, and time with it */
        s.now_ms += 5;
        story_report(&s, "b");
        story_wait(&s, 1000);
    }
    story_expect(&s, "");
}

Test(restarts, a_pause_while_a_gang_forms_takes_no_time_from_it)
{
    story_running_pair(&s, &story_rigid);
    story_worker(&s, "j1", 0, NULL)->never_joins = true;
    story_exit(&s, "j1", 1, 3);
    story_follow(&s);
    pause_of_the_coordinator(START_TIMEOUT_MS + 1000);
    story_worker(&s, "j1", 0, NULL)->never_joins = false;
    story_follow(&s);
    story_expect(&s, "j1 reforming worker_failed\nj1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->restarts, 1);
}

Test(restarts, a_pause_while_some_have_finished_takes_no_time_from_the_others)
{
    story_running_pair(&s, &story_rigid);
    story_exit(&s, "j1", 0, 0);
    pause_of_the_coordinator(FINISH_TIMEOUT_MS + 1000);
    story_wait(&s, FINISH_TIMEOUT_MS - 2000);
    story_expect(&s, "");
    story_wait(&s, 3000);
    cr_expect(strstr(s.trace, "j1 restarting finish_timeout\n"), "%s", s.trace);
}

Test(restarts, after_a_restart_agents_have_time_to_find_us)
{
    story_running_pair(&s, &story_pair);
    story_send(&s, &(struct event){.kind = EVENT_RESTORED});
    s.trace[0] = 0;
    story_report(&s, "a");
    s.nodes[1].silent = true;
    story_wait(&s, RESTORED_LEASE_MS - 1500);
    s.nodes[1].silent = false;
    story_wait(&s, 2000);
    story_expect(&s, "a ready reported\nb ready reported\n");
    s.nodes[0].silent = s.nodes[1].silent = true;
    story_wait(&s, LEASE_MS + 1000);
    story_expect(&s, "a lost lease_expired\nb lost lease_expired\nj1 restarting node_lost\n");
}

/* The monotonic clock of another life begins anew, after a restart of the machine from nothing. */
enum { BEFORE_MS = 10 * 24 * 3600 * 1000, AFTER_MS = 5000 };

Test(restarts, max_runtime_counts_from_the_first_start)
{
    s.now_ms = BEFORE_MS;
    story_running_pair(&s,
                       &(struct story_spec){.name = "long", .nodes_min = 2, .max_runtime = "30s"});
    story_wait(&s, 20000);
    story_restart(&s, AFTER_MS);
    s.trace[0] = 0;
    story_wait(&s, 8000);
    story_expect(&s, "a ready reported\nb ready reported\n");
    story_wait(&s, 4000);
    story_expect(&s, "j1 stopping max_runtime\nj1 failed max_runtime\n");
}

/* While nobody was there to see it; a deadline of 0 would be none. */
Test(restarts, max_runtime_may_be_over_before_the_coordinator_is_back)
{
    story_running_pair(&s,
                       &(struct story_spec){.name = "long", .nodes_min = 2, .max_runtime = "30s"});
    s.wall_offset_ms += 30000 + AFTER_MS;
    story_restart(&s, AFTER_MS);
    s.trace[0] = 0;
    story_wait(&s, 2000);
    cr_expect(strstr(s.trace, "j1 failed max_runtime\n"), "%s", s.trace);
}

Test(restarts, a_backoff_lasts_no_longer_than_its_most)
{
    s.now_ms = BEFORE_MS;
    story_running_pair(
        &s, &(struct story_spec){.name = "j", .nodes_min = 2, .nodes_max = 2, .backoff = "4s..4s"});
    for (int i = 0; i < 2; i++) {
        story_exit(&s, "j1", 0, 7);
        story_follow(&s);
    }
    cr_assert_eq(story_job(&s, "j1")->state, JOB_REFORMING);
    story_restart(&s, AFTER_MS);
    story_wait(&s, 3000);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_REFORMING);
    story_wait(&s, 2000);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
}

Test(restarts, growth_is_tried_again_within_its_longest_wait)
{
    s.now_ms = BEFORE_MS;
    story_running_pair(&s, &(struct story_spec){.name = "three", .nodes_min = 2, .nodes_max = 3});
    s.nodes[2].breaks = true;
    story_node_up(&s, "c", 1);
    cr_assert_gt(story_job(&s, "j1")->grow_after_ms, s.now_ms);
    s.nodes[2].breaks = false;
    story_restart(&s, AFTER_MS);
    story_wait(&s, GROW_BACKOFF_MAX_MS + 1000);
    cr_expect_eq(story_job(&s, "j1")->current.world, 3);
}

Test(restarts, who_does_not_end_is_named_in_the_next_life)
{
    s.now_ms = BEFORE_MS;
    story_running_pair(&s, &story_rigid);
    struct story_worker *stuck = story_worker(&s, "j1", 1, NULL);
    stuck->ignores_term = true;
    stuck->term_at = INT64_MAX / 2;
    story_cancel(&s, "j1");
    story_wait(&s, 5000);
    story_restart(&s, AFTER_MS);
    story_wait(&s, STOP_GRACE_MS + STOP_SLACK_MS + 1000);
    cr_expect_eq(story_records(&s, "stop_overdue")->count, 1);
}

Test(restarts, a_recovery_across_one_is_no_shorter_than_nothing)
{
    s.now_ms = BEFORE_MS;
    story_running_pair(&s, &story_rigid);
    story_progress(&s, "j1", 10);
    story_worker(&s, "j1", 0, NULL)->never_joins = true;
    story_exit(&s, "j1", 1, 3);
    story_follow(&s);
    story_restart(&s, AFTER_MS);
    story_worker(&s, "j1", 0, NULL)->never_joins = false;
    story_wait(&s, 3000);
    story_progress(&s, "j1", 11);
    cr_assert_eq(story_job(&s, "j1")->recoveries, 1);
    cr_expect_eq(story_job(&s, "j1")->last_recovery_ms, 3000);
}

Test(restarts, who_does_not_join_has_its_time_from_then_on)
{
    s.now_ms = BEFORE_MS;
    story_running_pair(&s, &story_rigid);
    story_worker(&s, "j1", 0, NULL)->never_joins = true;
    story_exit(&s, "j1", 1, 3);
    story_follow(&s);
    story_restart(&s, AFTER_MS);
    s.trace[0] = 0;
    story_wait(&s, SURVIVOR_TIMEOUT_MS - 1000);
    story_expect(&s, "a ready reported\nb ready reported\n");
    story_wait(&s, 3000);
    cr_expect(strstr(s.trace, "j1 restarting join_timeout\n"), "%s", s.trace);
}

Test(restarts, who_does_not_finish_has_its_time_from_then_on)
{
    s.now_ms = BEFORE_MS;
    story_running_pair(&s, &story_rigid);
    story_exit(&s, "j1", 0, 0);
    story_restart(&s, AFTER_MS);
    s.trace[0] = 0;
    story_wait(&s, FINISH_TIMEOUT_MS - 1000);
    story_expect(&s, "a ready reported\nb ready reported\n");
    story_wait(&s, 2000);
    cr_expect(strstr(s.trace, "j1 restarting finish_timeout\n"), "%s", s.trace);
}
