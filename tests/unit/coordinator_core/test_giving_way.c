/* Gangs that give way to others, as stories with exact traces: which one, what it keeps, and what
 * it is told of it. */
#include <string.h>

#include <criterion/criterion.h>

#include "coordinator/scheduler/scheduler.h"
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

TestSuite(giving_way, .init = begin, .fini = finish);

static void nodes(int count)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < count; i++)
        story_node_up(&s, names[i], 1);
    s.trace[0] = 0;
}

static void submit(const char *name, int min, int max, int priority)
{
    story_submit(&s, &(struct story_spec){
                         .name = name, .nodes_min = min, .nodes_max = max, .priority = priority});
    story_follow(&s);
}

static enum job_state state(const char *id)
{
    return story_job(&s, id)->state;
}

Test(giving_way, the_one_with_the_least_lost_work_gives_way)
{
    nodes(2);
    submit("saved", 1, 1, 0);
    submit("unsaved", 1, 1, 0);
    story_wait(&s, 60000);
    story_commit(&s, "j1", 0, 1, 50);
    s.trace[0] = 0;
    submit("urgent", 1, 1, 100);
    story_expect(&s, "j3 queued submitted\nj1 preempting preempted\nj1 queued preempted\n"
                     "j3 starting placed\nj3 running all_joined\n");
    cr_expect_eq(state("j2"), JOB_RUNNING);
}

Test(giving_way, equal_priority_never_ends_anybody)
{
    nodes(1);
    submit("first", 1, 1, 50);
    submit("second", 1, 1, 50);
    cr_expect_eq(state("j1"), JOB_RUNNING);
    struct reason reasons[8];
    int count = core_why(s.cluster, story_job(&s, "j2"), reasons, 8);
    cr_assert_eq(count, 2);
    cr_expect_str_eq(reasons[0].kind, "waiting_for_slots");
    cr_expect_str_eq(reasons[1].kind, "priority");
    cr_expect(strstr(story_text(&s, &reasons[1]), "j1 (first, priority 50)"), "%s",
              reasons[1].text);
}

Test(giving_way, a_preempted_gang_may_save_while_its_grace_lasts)
{
    nodes(1);
    submit("low", 1, 1, 0);
    story_worker(&s, "j1", 0, NULL)->ignores_term = true;
    submit("urgent", 1, 1, 100);
    cr_expect_eq(state("j1"), JOB_PREEMPTING);
    story_commit(&s, "j1", 0, 1, 77);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    s.trace[0] = 0;
    story_wait(&s, STOP_GRACE_MS + 2000);
    story_expect(&s, "j1 queued preempted\nj2 starting placed\nj2 running all_joined\n");
    story_exit(&s, "j2", 0, 0);
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j1")->step, 77, "it goes on from what it saved");
}

Test(giving_way, a_coordinator_restart_while_somebody_gives_way_changes_nothing)
{
    nodes(1);
    submit("low", 1, 1, 0);
    story_worker(&s, "j1", 0, NULL)->ignores_term = true;
    submit("urgent", 1, 1, 100);
    s.trace[0] = 0;
    story_send(&s, &(struct event){.kind = EVENT_RESTORED});
    story_wait(&s, STOP_GRACE_MS + 2000);
    cr_expect_eq(state("j2"), JOB_RUNNING);
    cr_expect_eq(state("j1"), JOB_QUEUED);
}

Test(giving_way, who_gave_way_is_queued_and_says_for_whom_and_since_when)
{
    nodes(1);
    submit("low", 1, 1, 0);
    story_commit(&s, "j1", 0, 1, 77);
    submit("urgent", 1, 1, 100);
    story_wait(&s, 2000);
    const struct job *low = story_job(&s, "j1");
    cr_expect_eq(low->state, JOB_QUEUED);
    cr_expect_str_eq(low->preempted_by, "j2");
    cr_expect_gt(low->preempted_wall_ms, 0);
    submit("other", 1, 1, 0); /* a pass that looks at it again */
    cr_expect(strstr(story_text(&s, &low->reason), "preempted by job j2; "), "%s",
              low->reason.text);
    struct reason reasons[8];
    int count = core_why(s.cluster, low, reasons, 8);
    cr_assert_geq(count, 2);
    cr_expect_str_eq(reasons[count - 1].kind, "preempted");
    cr_expect(strstr(story_text(&s, &reasons[count - 1]), "job j2 (urgent)"), "%s",
              reasons[count - 1].text);
    cr_expect(strstr(reasons[count - 1].hint, "step 77"), "%s", reasons[count - 1].hint);
    cr_expect_str_eq(story_records(&s, "worker_exited")->newest.reason.kind, "stopped");
    const struct reason *stopped = &story_records(&s, "worker_exited")->newest.reason;
    cr_expect(strstr(story_text(&s, stopped), "preempted by job j2"), "%s", stopped->text);
    story_exit(&s, "j2", 0, 0);
    story_follow(&s);
    cr_expect_eq(low->state, JOB_RUNNING);
    cr_expect_str_eq(low->preempted_by, "");
    cr_expect_eq(low->preempted_wall_ms, 0);
}

Test(giving_way, a_gang_that_is_halted_while_it_shrinks_gave_way_to_nobody)
{
    nodes(2);
    submit("gang", 1, 2, 0);
    story_worker(&s, "j1", 1, NULL)->ignores_term = true; /* it leaves slowly */
    story_scale(&s, "j1", 1, 1);
    cr_expect_str_eq(story_job(&s, "j1")->beneficiary, "j1");
    story_send(&s, &(struct event){.kind = EVENT_HALT});
    story_wait(&s, 60000);
    const struct job *gang = story_job(&s, "j1");
    cr_expect_eq(gang->state, JOB_QUEUED);
    cr_expect_str_eq(gang->preempted_by, "", "to %s", gang->preempted_by);
}

/* It gives one job a node, and then all it has to another: a worker that left for the first does
 * not hide who has the rest. */
Test(giving_way, a_gang_that_ends_while_it_shrinks_says_for_whom_it_ended)
{
    nodes(2);
    submit("gang", 1, 2, 0);
    story_worker(&s, "j1", 0, NULL)->ignores_term = true;
    story_submit(&s, &(struct story_spec){.name = "one", .nodes_min = 1, .priority = 10});
    cr_expect_str_eq(story_job(&s, "j1")->beneficiary, "j2");
    story_submit(&s, &(struct story_spec){.name = "both", .nodes_min = 2, .priority = 20});
    cr_assert_eq(state("j1"), JOB_PREEMPTING);
    cr_expect_str_eq(story_job(&s, "j1")->beneficiary, "j3");
    story_exit(&s, "j1", 1, 0);
    story_exit(&s, "j1", 0, 75);
    cr_expect_eq(state("j1"), JOB_QUEUED);
    cr_expect_str_eq(story_job(&s, "j1")->preempted_by, "j3");
}

Test(giving_way, a_worker_given_back_is_no_failure)
{
    nodes(2);
    submit("elastic", 1, 2, 0);
    story_scale(&s, "j1", 1, 1);
    story_follow(&s);
    cr_expect_str_eq(story_records(&s, "worker_exited")->newest.reason.kind, "stopped");
    cr_expect_str_eq(story_records(&s, "worker_exited")->newest.reason.text,
                     "rank 1 was asked to stop (the job was scaled down, and node b is given "
                     "back): killed by signal 15");
}

/* It saves and exits with 0 when the others train without it already. */
Test(giving_way, a_worker_that_was_given_back_and_ends_well_does_not_keep_the_gang_small)
{
    nodes(2);
    submit("elastic", 1, 2, 0);
    struct story_worker *leaves = story_worker(&s, "j1", 1, NULL);
    leaves->ignores_term = true;
    story_scale(&s, "j1", 1, 1);
    story_follow(&s);
    const struct job *job = story_job(&s, "j1");
    cr_assert_eq(job->state, JOB_RUNNING);
    cr_assert_eq(job->current.world, 1);
    cr_assert_eq(job_living_workers(job), 2);
    leaves->exited = true;
    leaves->exit = (struct exit_info){.wall_ms = s.now_ms};
    story_report(&s, "b");
    story_scale(&s, "j1", 2, 2);
    story_follow(&s);
    cr_expect_eq(job->current.world, 2);
}

Test(giving_way, who_gave_way_and_is_back_may_grow)
{
    story_two_nodes(&s);
    story_submit(&s, &(struct story_spec){.name = "low", .nodes_min = 2, .nodes_max = 3});
    story_follow(&s);
    story_submit(
        &s, &(struct story_spec){.name = "high", .nodes_min = 2, .nodes_max = 2, .priority = 9});
    story_follow(&s);
    cr_assert_eq(story_job(&s, "j2")->state, JOB_RUNNING);
    story_exit(&s, "j2", 0, 0);
    story_exit(&s, "j2", 1, 0);
    story_follow(&s);
    cr_assert_eq(story_job(&s, "j1")->state, JOB_RUNNING);
    story_node_up(&s, "c", 1);
    story_wait(&s, 2000);
    cr_expect_eq(story_job(&s, "j1")->current.world, 3);
}

/* It saves and exits with 0 when it is told to stop; only its last step makes that the end. */
static void gives_way_at(uint64_t step, const char *trace)
{
    story_node_up(&s, "a", 1);
    story_submit(&s, &(struct story_spec){.name = "low", .nodes_min = 1});
    story_follow(&s);
    struct story_worker *worker = story_worker(&s, "j1", 0, NULL);
    worker->total_steps = 100;
    worker->ignores_term = true;
    story_progress(&s, "j1", step);
    story_submit(&s, &(struct story_spec){.name = "high", .nodes_min = 1, .priority = 9});
    s.trace[0] = 0;
    story_exit(&s, "j1", 0, 0);
    story_follow(&s);
    story_expect(&s, trace);
}

Test(giving_way, who_takes_its_last_step_while_it_gives_way_has_succeeded)
{
    gives_way_at(100, "j1 succeeded succeeded\nj2 starting placed\nj2 running all_joined\n");
}

Test(giving_way, who_exits_with_0_before_its_last_step_waits_again)
{
    gives_way_at(99, "j1 queued preempted\nj2 starting placed\nj2 running all_joined\n");
}

/* Ranks that end leave each other one by one: nothing is lost by that. */
Test(giving_way, who_gives_way_has_not_failed)
{
    story_running_pair(&s, &story_rigid);
    for (int rank = 0; rank < 2; rank++)
        story_worker(&s, "j1", rank, NULL)->ignores_term = true;
    story_submit(
        &s, &(struct story_spec){.name = "high", .nodes_min = 2, .nodes_max = 2, .priority = 9});
    story_worker(&s, "j1", 0, NULL)->broken = 1;
    story_report(&s, "a");
    cr_expect_eq(story_job(&s, "j1")->state, JOB_PREEMPTING);
    cr_expect_eq(story_job(&s, "j1")->broken_at_ms, 0);
}
