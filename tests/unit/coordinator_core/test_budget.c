/* What failures cost: programs that tell no steps, failures of the program itself, and ranks that
 * keep their nodes when the gang starts again. Stories on virtual time. */
#include <signal.h>
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

TestSuite(budget, .init = begin, .fini = finish);

enum { PAUSE_MS = 14000, HOUR_MS = 3600 * 1000 };

static const struct story_spec restarts_whole = {
    .name = "torch", .nodes_min = 2, .nodes_max = 2, .elastic = "restart"};
static const struct story_spec runs_once = {
    .name = "once", .nodes_min = 2, .nodes_max = 2, .stops = true};

/* A gang whose program tells us nothing. */
static struct job *running_silently(const struct story_spec *spec)
{
    s.unaware = true;
    story_two_nodes(&s);
    story_submit(&s, spec);
    story_follow(&s);
    story_wait(&s, UNAWARE_AFTER_MS + 1000);
    story_expect(&s, "j1 queued submitted\nj1 starting placed\nj1 running all_started\n");
    return story_job(&s, "j1");
}

static void kill_and_wait(int rank, int64_t ms)
{
    story_kill(&s, "j1", rank, SIGKILL);
    story_follow(&s);
    story_wait(&s, ms);
}

Test(budget, a_silent_program_that_ran_for_a_while_is_in_no_crash_loop)
{
    struct job *job = running_silently(&restarts_whole);
    story_wait(&s, PAUSE_MS);
    for (int i = 0; i < CRASH_LOOP_LIMIT; i++)
        kill_and_wait(1, 2 * PAUSE_MS);
    cr_expect_eq(job->state, JOB_RUNNING, "%s", job->reason.text);
    cr_expect_eq(job->restarts, CRASH_LOOP_LIMIT);
}

Test(budget, run_time_refunds_the_budget_of_a_silent_program)
{
    struct job *job = running_silently(&restarts_whole);
    for (int i = 0; i < 20; i++) {
        story_wait(&s, HOUR_MS);
        kill_and_wait(1, PAUSE_MS);
    }
    cr_expect_eq(job->state, JOB_RUNNING, "%s", job->reason.text);
    cr_expect_eq(job->restarts, 20);
    cr_expect_eq(job->restarts_without_progress, 1);
}

Test(budget, a_refund_outlives_the_coordinator)
{
    struct job *job = running_silently(&restarts_whole);
    for (int i = 0; i < 8; i++) {
        story_wait(&s, REFUND_AFTER_MS - 5000);
        story_restart(&s, s.now_ms + 1000);
        story_wait(&s, 10000);
        kill_and_wait(1, PAUSE_MS);
    }
    cr_expect_eq(job->state, JOB_RUNNING, "%s", job->reason.text);
}

Test(budget, a_silent_program_without_refund_ends_with_its_cause)
{
    struct job *job = running_silently(&restarts_whole);
    for (int i = 0; i < 6; i++)
        kill_and_wait(1, 60000);
    cr_expect_eq(job->state, JOB_FAILED);
    cr_expect_str_eq(job->reason.kind, "restart_budget");
    cr_expect(strstr(job->reason.text, "(after 5 restarts, none of which ran for 10 minutes)"),
              "%s", job->reason.text);
}

Test(budget, a_silent_program_that_dies_soon_after_each_start_is_in_a_crash_loop)
{
    struct job *job = running_silently(&restarts_whole);
    for (int i = 0; i < CRASH_LOOP_LIMIT; i++) {
        story_exit(&s, "j1", 1, 1);
        story_follow(&s);
        story_wait(&s, 6000);
    }
    cr_expect_eq(job->state, JOB_FAILED);
    cr_expect_str_eq(job->reason.kind, "crash_loop");
    cr_expect(strstr(job->reason.text, "(3 times in a row, each within 10 s of its start)"), "%s",
              job->reason.text);
}

Test(budget, a_program_that_fails_is_not_tried_again_unless_asked)
{
    struct job *job = running_silently(&runs_once);
    story_exit(&s, "j1", 1, 3);
    story_follow(&s);
    story_expect(&s, "j1 stopping worker_failed\nj1 failed worker_failed\n");
    cr_expect_eq(job->exit_code, 3);
    cr_expect_eq(job->restarts, 0);
    cr_expect(strstr(job->reason.hint, "--on-failure retry"), "%s", job->reason.hint);
}

/* A rank that will have ended a second before the next one is heard. */
static struct story_node *ended_before(int rank, const struct exit_info *exit)
{
    struct story_node *node;
    struct story_worker *worker = story_worker(&s, "j1", rank, &node);
    worker->exited = true;
    worker->exit = *exit;
    worker->exit.wall_ms = s.now_ms + s.wall_offset_ms - 1000;
    return node;
}

/* In place, and where the whole gang would start again. */
static void fails_after_its_victim(const char *elastic, const char *trace)
{
    story_running_pair(
        &s, &(struct story_spec){
                .name = "j", .nodes_min = 2, .nodes_max = 2, .elastic = elastic, .stops = true});
    const struct story_node *b = ended_before(1, &(struct exit_info){.code = 9});
    story_exit(&s, "j1", 0, EXIT_PEER_LOST);
    story_report(&s, b->name);
    story_follow(&s);
    story_expect(&s, trace);
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->exit_code, 9);
    cr_expect(strstr(job->reason.text, "rank 1 on b: exited with code 9"), "%s", job->reason.text);
    cr_expect(strstr(job->reason.hint, "--on-failure retry"), "%s", job->reason.hint);
}

Test(budget, a_failure_that_is_heard_after_its_victim_is_not_tried_again_either)
{
    fails_after_its_victim("in_place", "j1 reforming peers_lost\nj1 stopping worker_failed\n"
                                       "j1 failed worker_failed\n");
}

Test(budget, nor_is_one_whose_victim_would_have_started_all_again)
{
    fails_after_its_victim("off", "j1 restarting peers_lost\nj1 stopping worker_failed\n"
                                  "j1 failed worker_failed\n");
}

Test(budget, who_fails_with_a_killed_peer_after_a_victim_is_started_again)
{
    story_two_nodes(&s);
    story_node_up(&s, "c", 1);
    story_submit(&s,
                 &(struct story_spec){
                     .name = "j", .nodes_min = 3, .nodes_max = 3, .elastic = "off", .stops = true});
    story_follow(&s);
    const struct story_node *failed = ended_before(1, &(struct exit_info){.code = 1});
    const struct story_node *killed = ended_before(2, &(struct exit_info){.signal = SIGKILL});
    story_exit(&s, "j1", 0, EXIT_PEER_LOST);
    story_report(&s, killed->name);
    story_report(&s, failed->name);
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
    cr_expect_eq(story_job(&s, "j1")->restarts, 1);
}

Test(budget, a_bug_ends_it_by_a_signal_too)
{
    struct job *job = running_silently(&runs_once);
    story_kill(&s, "j1", 0, SIGSEGV);
    story_follow(&s);
    cr_expect_eq(job->state, JOB_FAILED);
    cr_expect_eq(job->exit_code, 128 + SIGSEGV);
}

Test(budget, who_is_killed_from_outside_is_started_again)
{
    struct job *job = running_silently(&runs_once);
    story_wait(&s, PAUSE_MS);
    kill_and_wait(1, PAUSE_MS);
    kill_and_wait(0, PAUSE_MS);
    cr_expect_eq(job->state, JOB_RUNNING);
    cr_expect_eq(job->restarts, 2);
}

Test(budget, a_lost_node_is_not_the_programs_failure)
{
    struct job *job = running_silently(&runs_once);
    story_node_up(&s, "c", 1);
    s.trace[0] = 0;
    story_node_dies(&s, "b");
    story_exit(&s, "j1", 0, 1); /* its connection to rank 1 is reset: heard before the verdict */
    story_follow(&s);
    story_expect(&s, "b unreachable connection_lost\nj1 stopping worker_failed\n");
    story_wait(&s, LEASE_MS + UNAWARE_AFTER_MS + 2000);
    story_expect(&s, "b lost lease_expired\nj1 restarting worker_lost\nj1 starting placed\n"
                     "j1 running all_started\n");
    cr_expect_eq(job->restarts, 1);
}

Test(budget, who_dies_of_a_killed_peer_is_heard_first_and_excused)
{
    struct job *job = running_silently(&runs_once);
    story_node_up(&s, "c", 1);
    struct story_node *b;
    struct story_worker *killed = story_worker(&s, "j1", 1, &b);
    killed->exited = true;
    killed->exit = (struct exit_info){.signal = SIGKILL, .wall_ms = s.now_ms + s.wall_offset_ms};
    story_exit(&s, "j1", 0, 1);
    cr_expect_eq(job->state, JOB_STOPPING);
    story_report(&s, b->name);
    story_follow(&s);
    story_wait(&s, UNAWARE_AFTER_MS + 2000);
    cr_expect_eq(job->state, JOB_RUNNING, "%s", job->reason.text);
    cr_expect_eq(job->restarts, 1);
}

/* What we tell to stop ends by our own signals: that excuses nothing, whatever its clock says. */
Test(budget, our_own_signals_are_no_excuse)
{
    struct job *job = running_silently(&runs_once);
    story_worker(&s, "j1", 0, NULL)->ignores_term = true;
    story_exit(&s, "j1", 1, 3);
    s.wall_offset_ms -= 60000;
    story_wait(&s, STOP_GRACE_MS + 3000);
    cr_expect_eq(job->state, JOB_FAILED, "%s", job->reason.text);
    cr_expect_eq(job->exit_code, 3);
}

Test(budget, cancelled_while_it_may_be_excused_it_stays_ended)
{
    struct job *job = running_silently(&runs_once);
    story_node_dies(&s, "b");
    story_exit(&s, "j1", 0, 1);
    story_cancel(&s, "j1");
    story_wait(&s, LEASE_MS + 2000);
    cr_expect(job_state_ended(job->state));
}

Test(budget, an_excuse_outlives_the_coordinator)
{
    struct job *job = running_silently(&runs_once);
    story_node_up(&s, "c", 1);
    story_node_dies(&s, "b");
    story_exit(&s, "j1", 0, 1);
    story_restart(&s, s.now_ms);
    story_wait(&s, RESTORED_LEASE_MS + UNAWARE_AFTER_MS + 2000);
    cr_expect_eq(job->state, JOB_RUNNING, "%s", job->reason.text);
}

Test(budget, a_charge_is_taken_back_when_the_node_proves_lost)
{
    struct job *job = running_silently(&restarts_whole);
    story_node_up(&s, "c", 1);
    kill_and_wait(0, PAUSE_MS);
    cr_assert_eq(job->restarts_without_progress, 1);
    story_node_dies(&s, "b");
    story_exit(&s, "j1", 0, 1); /* its connection to rank 1 is reset */
    story_follow(&s);
    cr_expect_eq(job->state, JOB_RESTARTING);
    cr_expect_eq(job->restarts_without_progress, 2);
    story_wait(&s, LEASE_MS + UNAWARE_AFTER_MS + 2000);
    cr_expect_eq(job->state, JOB_RUNNING, "%s", job->reason.text);
    cr_expect_eq(job->restarts_without_progress, 1);
}

Test(budget, a_lost_node_does_not_spend_the_last_restart)
{
    struct job *job = running_silently(&(struct story_spec){
        .name = "torch", .nodes_min = 2, .nodes_max = 2, .elastic = "restart", .restart_max = 1});
    story_node_up(&s, "c", 1);
    kill_and_wait(0, PAUSE_MS);
    cr_assert_eq(job->state, JOB_RUNNING);
    story_node_dies(&s, "b");
    story_exit(&s, "j1", 0, 1);
    story_follow(&s);
    cr_expect_eq(job->state, JOB_STOPPING);
    story_wait(&s, LEASE_MS + UNAWARE_AFTER_MS + 2000);
    cr_expect_eq(job->state, JOB_RUNNING, "%s", job->reason.text);
}

Test(budget, who_ends_for_a_drain_and_loses_its_node_has_nothing_to_take_back)
{
    struct job *job = running_silently(&restarts_whole);
    story_node_up(&s, "c", 1);
    kill_and_wait(0, PAUSE_MS);
    story_worker(&s, "j1", 1, NULL)->ignores_term = true;
    story_node_set(&s, "a", NODE_DRAIN);
    story_follow(&s);
    cr_assert_eq(job->state, JOB_RESTARTING);
    story_node_dies(&s, "b");
    story_wait(&s, LEASE_MS + 2000);
    cr_expect_eq(job->restarts_without_progress, 1);
}

Test(budget, restart_off_is_off_for_a_lost_node_too)
{
    struct job *job = running_silently(
        &(struct story_spec){.name = "off", .nodes_min = 2, .nodes_max = 2, .restart_max = -1});
    story_node_up(&s, "c", 1);
    story_node_dies(&s, "b");
    story_wait(&s, LEASE_MS + 2000);
    cr_expect_eq(job->state, JOB_FAILED);
    cr_expect_str_eq(job->reason.kind, "node_lost");
}

static const char *node_of(int rank)
{
    const struct job *job = story_job(&s, "j1");
    return job_worker(job, job->current.members[rank])->node;
}

Test(budget, ranks_stay_with_their_nodes_when_the_gang_starts_again)
{
    s.unaware = true;
    story_node_up(&s, "b", 2);
    story_node_up(&s, "c", 2);
    story_submit(&s, &(struct story_spec){.name = "torch",
                                          .nodes_min = 2,
                                          .nodes_max = 3,
                                          .workers = 2,
                                          .slots = 1,
                                          .elastic = "restart"});
    story_follow(&s);
    story_wait(&s, UNAWARE_AFTER_MS + 1000);
    cr_assert_str_eq(node_of(2), "c");
    story_node_up(&s, "a", 2); /* whose name comes first */
    story_kill(&s, "j1", 0, SIGKILL);
    story_follow(&s);
    story_wait(&s, UNAWARE_AFTER_MS + 5000);
    const struct job *job = story_job(&s, "j1");
    cr_assert_eq(job->state, JOB_RUNNING);
    cr_assert_eq(job->current.world, 6);
    for (int rank = 0; rank < 6; rank++) {
        static const char *const nodes[] = {"b", "c", "a"};
        cr_expect_str_eq(node_of(rank), nodes[rank / 2], "rank %d", rank);
        cr_expect_eq(job_worker(job, job->current.members[rank])->local_rank, rank % 2);
        cr_expect_eq(job->current.places[rank].node_rank, rank / 2);
    }
    story_node_dies(&s,
                    "b"); /* the first one's ranks are free: others stay where the world allows */
    story_wait(&s, LEASE_MS + UNAWARE_AFTER_MS + 5000);
    cr_assert_eq(job->current.world, 4);
    cr_expect_str_eq(node_of(2), "c");
    cr_expect_str_eq(node_of(0), "a");
}
