/* The life of jobs as stories on virtual time: what happens, and the exact trace it leaves. */
#include <string.h>

#include <criterion/criterion.h>

#include <stdio.h>

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

TestSuite(stories, .init = begin, .fini = finish);

static void two_nodes(void)
{
    story_node_up(&s, "a", 1);
    story_node_up(&s, "b", 1);
    story_expect(&s, "a ready reported\nb ready reported\n");
}

/* A running elastic gang of one worker on each of a and b. */
static void running_pair(const struct story_spec *spec)
{
    two_nodes();
    story_submit(&s, spec);
    story_follow(&s);
    story_expect(&s, "j1 queued submitted\nj1 starting placed\nj1 running all_joined\n");
}

static const struct story_spec pair = {.name = "pair", .nodes_min = 1, .nodes_max = 2};
static const struct story_spec rigid = {.name = "rigid", .nodes_min = 2, .nodes_max = 2};

Test(stories, a_job_runs_and_succeeds)
{
    running_pair(&rigid);
    story_progress(&s, "j1", 10);
    cr_expect_eq(story_job(&s, "j1")->step, 10);
    story_exit(&s, "j1", 0, 0);
    story_expect(&s, "");
    story_exit(&s, "j1", 1, 0);
    story_expect(&s, "j1 succeeded succeeded\n");
    cr_expect_eq(story_job(&s, "j1")->exit_code, 0);
    story_follow(&s);
    cr_expect_eq(s.nodes[0].workers_count, 0, "the agent was told to forget");
}

Test(stories, a_gang_waits_for_all_of_its_nodes_and_then_starts)
{
    story_node_up(&s, "a", 2);
    story_node_up(&s, "b", 1);
    story_submit(&s, &(struct story_spec){.name = "small", .nodes_min = 1, .slots = 2});
    story_follow(&s);
    story_submit(&s, &rigid);
    struct job *job = story_job(&s, "j2");
    cr_expect_eq(job->state, JOB_QUEUED);
    cr_expect_str_eq(job->reason.kind, "waiting_for_slots");
    cr_expect(strstr(job->reason.text, "small"), "names who holds them: %s", job->reason.text);
    s.trace[0] = 0;
    story_exit(&s, "j1", 0, 0);
    story_follow(&s);
    story_expect(&s, "j1 succeeded succeeded\nj2 starting placed\nj2 running all_joined\n");
    cr_expect_eq(job->current.world, 2);
}

Test(stories, a_lost_node_shrinks_the_gang_in_place_and_a_returning_one_grows_it)
{
    running_pair(&pair);
    story_progress(&s, "j1", 5);
    story_node_dies(&s, "b");
    story_wait(&s, LEASE_MS + 1000);
    story_expect(&s, "b unreachable connection_lost\nb lost lease_expired\n"
                     "j1 reforming node_lost\nj1 running all_joined\n");
    struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->current.world, 1);
    cr_expect_eq(job->restarts, 0, "a lost node costs nothing");
    cr_expect_eq(job->recoveries, 1);
    story_register(&s, "b", true);
    story_follow(&s);
    story_expect(&s, "b ready reported\nj1 reforming growing\nj1 running all_joined\n");
    cr_expect_eq(job->current.world, 2);
    cr_expect_eq(job->step, 5);
}

Test(stories, peers_that_lost_its_ranks_make_a_gone_node_lost_at_once)
{
    running_pair(&pair);
    struct story_worker *survivor = story_worker(&s, "j1", 0, NULL);
    story_node_dies(&s, "b");
    survivor->broken = 1;
    survivor->lost_ranks[0] = 1;
    survivor->lost_count = 1;
    story_report(&s, "a");
    story_follow(&s);
    story_expect(&s, "b unreachable connection_lost\nb lost peers_saw_it_die\n"
                     "j1 reforming node_lost\nj1 running all_joined\n");
}

Test(stories, peers_that_lost_each_other_though_none_died_form_again_in_place)
{
    running_pair(&rigid);
    struct story_worker *a = story_worker(&s, "j1", 0, NULL);
    story_commit(&s, "j1", 0, 1, 100);
    a->broken = 1;
    a->lost_ranks[0] = 1;
    a->lost_count = 1;
    story_report(&s, "a");
    story_commit(&s, "j1", 0, 1, 200);
    cr_expect_eq(s.error.code, E_ABORTED, "a broken generation commits nothing");
    story_commit(&s, "j1", 0, 1, 100);
    cr_expect_eq(s.error.code, 0, "this one was taken before, only the answer was lost");
    story_expect(&s, "");
    story_wait(&s, BROKEN_PATIENCE_MS + 1000);
    story_expect(&s, "j1 reforming peers_lost\nj1 running all_joined\n");
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->current.members[0], 1);
    cr_expect_eq(job->current.members[1], 2);
    cr_expect_eq(job->restarts, 1);
}

Test(stories, a_cluster_that_stops_lets_jobs_save_and_the_next_life_goes_on)
{
    running_pair(&pair);
    struct event halt = {.kind = EVENT_HALT};
    story_worker(&s, "j1", 0, NULL)->ignores_term = true; /* it saves first */
    story_send(&s, &halt);
    story_submit(&s, &(struct story_spec){.name = "late", .nodes_min = 1});
    story_follow(&s);
    story_commit(&s, "j1", 0, 1, 70);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    story_exit(&s, "j1", 0, 75);
    story_follow(&s);
    story_expect(&s, "j1 preempting halted\nj2 queued submitted\nj1 restarting halted\n");
    cr_expect_eq(core_living(s.cluster), 0);
    cr_expect_eq(story_job(&s, "j1")->restarts, 0);
    story_wait(&s, 5000);
    story_expect(&s, "");
}

static void waits(int rank, const char *communicator, uint64_t sequence, uint32_t for_rank)
{
    struct collective_wait *wait = &story_worker(&s, "j1", rank, NULL)->wait;
    *wait = (struct collective_wait){.sequence = sequence,
                                     .bytes = 26214400,
                                     .waited_ms = 12000 + rank,
                                     .ranks = {for_rank},
                                     .ranks_named = 1,
                                     .ranks_count = 1};
    snprintf(wait->communicator, sizeof wait->communicator, "%s", communicator);
    snprintf(wait->operation, sizeof wait->operation,
             "all_reduce #%llu (sum of 6553600 f32, 26214400 bytes)", (unsigned long long)sequence);
}

static void expect_why(const char *kind, const char *text)
{
    struct reason reason;
    story_report(&s, "a");
    story_report(&s, "b");
    cr_assert_eq(core_why(s.cluster, story_job(&s, "j1"), &reason, 1), 1);
    cr_expect_str_eq(reason.kind, kind);
    cr_expect_str_eq(reason.text, text);
}

Test(stories, who_keeps_a_gang_waiting_is_named)
{
    static const struct story_spec four = {
        .name = "four", .nodes_min = 2, .nodes_max = 2, .workers = 2, .slots = 1, .restart_max = 3};
    story_node_up(&s, "a", 2);
    story_node_up(&s, "b", 2);
    story_submit(&s, &four);
    story_follow(&s);
    story_progress(&s, "j1", 410);
    expect_why("all_joined", "all 4 ranks have joined generation 1");
    waits(0, "world", 1841, 2);
    waits(1, "world", 1841, 0); /* it hears of rank 2 through rank 0 only */
    waits(3, "world", 1841, 2);
    expect_why("stalled", "rank 2 (node b) has not entered all_reduce #1841 (25.0 MiB) of 'world' "
                          "for 12 s; ranks 0, 1 and 3 wait; last step 410");
    waits(2, "world", 1840, 0); /* what it said before it was stopped */
    expect_why("stalled", "rank 2 (node b) has not entered all_reduce #1841 (25.0 MiB) of 'world' "
                          "for 12 s; ranks 0, 1 and 3 wait; last step 410");
    for (int rank = 1; rank < 4; rank++)
        story_worker(&s, "j1", rank, NULL)->wait.waited_ms = 0;
    waits(0, "world", 5, 1);
    waits(1, "world/axis 0", 3, 0);
    expect_why("stalled",
               "ranks 0 and 1 wait for each other for 12 s: rank 0 in all_reduce #5 "
               "(25.0 MiB) of 'world', rank 1 in all_reduce #3 (25.0 MiB) of 'world/axis 0'; "
               "last step 410");
    for (int rank = 0; rank < 2; rank++)
        story_worker(&s, "j1", rank, NULL)->wait.waited_ms = 0;
    expect_why("all_joined", "all 4 ranks have joined generation 1");
}

Test(stories, an_agent_that_returns_within_its_lease_costs_nothing)
{
    running_pair(&pair);
    story_gone(&s, "b");
    story_wait(&s, 1500);
    story_register(&s, "b", true);
    story_follow(&s);
    story_expect(&s, "b unreachable connection_lost\nb ready reported\n");
    cr_expect_eq(story_job(&s, "j1")->current.generation, 1);
}

Test(stories, a_crashed_worker_is_replaced_on_its_node_with_its_rank)
{
    running_pair(&rigid);
    uint64_t survivor = story_job(&s, "j1")->current.members[0];
    story_exit(&s, "j1", 1, 3);
    story_follow(&s);
    story_expect(&s, "j1 reforming worker_failed\nj1 running all_joined\n");
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->current.members[0], survivor);
    cr_expect_eq(job->current.members[1], 3);
    cr_expect_eq(job->current.generation, 2);
    cr_expect_eq(job->restarts, 1);
}

Test(stories, a_gang_that_does_not_know_us_restarts_whole_from_its_checkpoint)
{
    s.unaware = true;
    two_nodes();
    story_submit(&s, &rigid);
    story_follow(&s);
    story_wait(&s, UNAWARE_AFTER_MS + 1000);
    story_expect(&s, "j1 queued submitted\nj1 starting placed\nj1 running all_started\n");
    story_commit(&s, "j1", 0, 1, 40);
    cr_assert_eq(s.error.code, 0, "%s", s.error.text);
    story_exit(&s, "j1", 1, 1);
    story_follow(&s);
    story_wait(&s, UNAWARE_AFTER_MS + 1000);
    story_expect(&s, "j1 restarting worker_failed\nj1 starting placed\nj1 running all_started\n");
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->step, 40);
    cr_expect_eq(job->current.generation, 2);
    cr_expect_eq(job->workers_count, 2, "the old ones are forgotten");
}

Test(stories, a_crash_loop_stops_with_its_cause)
{
    running_pair(&rigid);
    for (int i = 0; i < CRASH_LOOP_LIMIT; i++) {
        story_exit(&s, "j1", 1, 7);
        story_follow(&s);
        story_wait(&s, 10000);
    }
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->state, JOB_FAILED);
    cr_expect_str_eq(job->reason.kind, "crash_loop");
    cr_expect(strstr(job->reason.text, "exited with code 7"), "%s", job->reason.text);
    cr_expect_eq(job->reason.rank, 1);
    cr_expect_eq(job->exit_code, 7);
}

Test(stories, progress_refunds_the_budget)
{
    running_pair(
        &(struct story_spec){.name = "j", .nodes_min = 2, .nodes_max = 2, .restart_max = 2});
    for (int i = 1; i <= 6; i++) {
        story_progress(&s, "j1", (uint64_t)i * 10);
        story_exit(&s, "j1", 0, 7);
        story_follow(&s);
        story_wait(&s, 10000);
    }
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
    cr_expect_eq(story_job(&s, "j1")->restarts, 6);
}

Test(stories, the_budget_ends_a_job_that_makes_no_progress)
{
    running_pair(&(struct story_spec){
        .name = "j", .nodes_min = 2, .nodes_max = 2, .restart_max = 2, .retry = true});
    for (int i = 1; i <= 3; i++) {
        story_exit(&s, "j1", 0, 7);
        story_follow(&s);
        story_wait(&s, 10000);
    }
    cr_expect_eq(story_job(&s, "j1")->state, JOB_FAILED);
    cr_expect_str_eq(story_job(&s, "j1")->reason.kind, "restart_budget");
}

Test(stories, backoff_holds_the_replacement_back)
{
    running_pair(
        &(struct story_spec){.name = "j", .nodes_min = 2, .nodes_max = 2, .backoff = "4s..4s"});
    story_exit(&s, "j1", 0, 7);
    story_follow(&s);
    story_expect(&s, "j1 reforming worker_failed\nj1 running all_joined\n");
    story_exit(&s, "j1", 0, 7);
    story_wait(&s, 3000);
    story_expect(&s, "j1 reforming worker_failed\n");
    story_wait(&s, 2000);
    story_expect(&s, "j1 running all_joined\n");
}

Test(stories, one_failure_that_kills_all_ranks_is_charged_once)
{
    running_pair(&rigid);
    story_exit(&s, "j1", 0, 7);
    story_exit(&s, "j1", 1, 7);
    story_follow(&s);
    story_wait(&s, 3000);
    cr_expect_eq(story_job(&s, "j1")->restarts, 1);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
}

Test(stories, cancel_ends_a_worker_that_ignores_it)
{
    running_pair(&rigid);
    story_worker(&s, "j1", 1, NULL)->ignores_term = true;
    story_cancel(&s, "j1");
    story_follow(&s);
    story_expect(&s, "j1 stopping cancelled\n");
    story_wait(&s, STOP_GRACE_MS - 2000);
    story_expect(&s, "");
    story_wait(&s, 4000);
    story_expect(&s, "j1 cancelled cancelled\n");
    story_cancel(&s, "j1");
    cr_expect_eq(s.error.code, 0, "cancelling twice is fine");
}

static int kept_checkpoints(const char *id)
{
    const struct job *job = story_job(&s, id);
    int kept = 0;
    for (int i = 0; i < job->checkpoints_count; i++)
        kept += !job_checkpoint_spare(job, i);
    return kept;
}

Test(stories, a_stale_checkpoint_is_refused)
{
    running_pair(&pair);
    story_commit(&s, "j1", 0, 1, 100);
    cr_assert_eq(s.error.code, 0, "%s", s.error.text);
    story_exit(&s, "j1", 1, 3);
    story_commit(&s, "j1", 0, 1, 200);
    cr_expect_eq(s.error.code, E_ABORTED, "the generation is broken");
    story_follow(&s);
    story_commit(&s, "j1", 0, 1, 200);
    cr_expect_eq(s.error.code, E_ABORTED, "the generation is over");
    story_commit(&s, "j1", 0, 2, 200);
    cr_expect_eq(s.error.code, 0);
    story_commit(&s, "j1", 0, 2, 200);
    cr_expect_eq(s.error.code, 0, "told twice");
    story_commit(&s, "j1", 0, 2, 300);
    cr_expect_eq(s.pruned, 1);
    cr_expect_str_eq(s.pruned_first, "/ckpt/step-00000100");
    cr_expect_eq(kept_checkpoints("j1"), 2);
    s.pruned = 0;
    story_commit(&s, "j1", 0, 2, 300);
    cr_expect_eq(s.pruned, 1, "the answer was lost: who asks again is told again");
    story_commit(&s, "j1", 0, 2, 400);
    cr_expect_eq(s.pruned, 1, "only what is new");
    cr_expect_str_eq(s.pruned_first, "/ckpt/step-00000200");
    cr_expect_eq(kept_checkpoints("j1"), 2);
}

Test(stories, a_checkpoint_of_a_later_generation_supersedes_higher_steps_of_earlier_ones)
{
    running_pair(&pair);
    story_commit(&s, "j1", 0, 1, 100);
    story_commit(&s, "j1", 0, 1, 200);
    story_exit(&s, "j1", 1, 3);
    story_follow(&s);
    s.pruned = 0;
    story_commit(&s, "j1", 0, 2, 150); /* 200 was damaged: they went on from 100 */
    cr_assert_eq(s.error.code, 0);
    cr_expect_eq(job_last_checkpoint(story_job(&s, "j1"))->step, 150);
    cr_expect_eq(s.pruned, 1);
    cr_expect_str_eq(s.pruned_first, "/ckpt/step-00000200");
    cr_expect_eq(kept_checkpoints("j1"), 2);
    story_commit(&s, "j1", 0, 2, 200); /* the same folder, written anew */
    cr_expect_eq(s.pruned, 1);
    cr_expect_str_eq(s.pruned_first, "/ckpt/step-00000100");
    cr_expect_eq(job_last_checkpoint(story_job(&s, "j1"))->generation, 2);
    cr_expect_eq(kept_checkpoints("j1"), 2);
}

Test(stories, a_gang_that_ends_may_save_though_its_ranks_leave_one_by_one)
{
    running_pair(&rigid);
    struct story_worker *saves = story_worker(&s, "j1", 0, NULL);
    saves->ignores_term = true;
    story_cancel(&s, "j1");
    story_follow(&s);
    saves->broken = 1;
    saves->lost_ranks[0] = 1;
    saves->lost_count = 1;
    story_report(&s, "a");
    story_commit(&s, "j1", 0, 1, 100);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    cr_expect_eq(kept_checkpoints("j1"), 1);
    saves->ignores_term = false;
    story_wait(&s, 2000);
    story_expect(&s, "j1 stopping cancelled\nj1 cancelled cancelled\n");
}

Test(stories, survivors_in_a_long_phase_of_their_own_are_waited_for)
{
    running_pair(&rigid);
    struct story_worker *evaluates = story_worker(&s, "j1", 0, NULL);
    evaluates->never_joins = true;
    story_exit(&s, "j1", 1, 3);
    story_wait(&s, SURVIVOR_TIMEOUT_MS / 2);
    story_expect(&s, "j1 reforming worker_failed\n");
    struct reason reasons[2];
    cr_assert_eq(core_why(s.cluster, story_job(&s, "j1"), reasons, 2), 2);
    cr_expect_str_eq(reasons[0].text,
                     "waits for rank 0 (node a) to join generation 2; 1 of 2 have");
    cr_expect_str_eq(reasons[1].kind, "worker_failed");
    cr_expect(strstr(reasons[1].hint, "muster logs j1 --rank 1"), "%s", reasons[1].hint);
    evaluates->never_joins = false;
    story_wait(&s, 2000);
    story_expect(&s, "j1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->restarts, 1);
    evaluates->never_joins = true;
    story_exit(&s, "j1", 1, 4);
    story_wait(&s, SURVIVOR_TIMEOUT_MS - 2000);
    story_expect(&s, "j1 reforming worker_failed\n");
    story_wait(&s, 4000);
    cr_expect(strstr(s.trace, "j1 restarting join_timeout\n"), "%s", s.trace);
}

Test(stories, a_survivor_its_peers_gave_up_has_less_time)
{
    running_pair(&rigid);
    story_worker(&s, "j1", 1, NULL)->never_joins = true; /* hangs */
    struct story_worker *a = story_worker(&s, "j1", 0, NULL);
    a->broken = 1;
    a->lost_ranks[0] = 1;
    a->lost_count = 1;
    story_report(&s, "a");
    story_wait(&s, BROKEN_PATIENCE_MS + JOIN_TIMEOUT_MS - 1000);
    story_expect(&s, "j1 reforming peers_lost\n");
    story_wait(&s, 3000);
    cr_expect(strstr(s.trace, "j1 restarting join_timeout\n"), "%s", s.trace);
}

Test(stories, growth_waits_for_who_is_busy)
{
    running_pair(&(struct story_spec){.name = "three", .nodes_min = 2, .nodes_max = 3});
    struct story_worker *evaluates = story_worker(&s, "j1", 0, NULL);
    evaluates->never_joins = true;
    story_node_up(&s, "c", 1);
    story_wait(&s, START_TIMEOUT_MS + 10000);
    story_expect(&s, "c ready reported\nj1 reforming growing\n");
    evaluates->never_joins = false;
    story_wait(&s, 2000);
    story_expect(&s, "j1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 3);
    cr_expect_eq(story_job(&s, "j1")->restarts, 0);
}

Test(stories, a_coordinator_restart_changes_nothing)
{
    running_pair(&pair);
    const struct job *job = story_job(&s, "j1");
    uint64_t generation = job->current.generation;
    story_send(&s, &(struct event){.kind = EVENT_RESTORED});
    story_expect(&s, "a unreachable coordinator_restarted\nb unreachable coordinator_restarted\n");
    story_wait(&s, 10000);
    story_expect(&s, "a ready reported\nb ready reported\n");
    cr_expect_eq(job->current.generation, generation);
    cr_expect_eq(job->workers_count, 2);
}

Test(stories, repeated_and_late_reports_change_nothing)
{
    running_pair(&pair);
    struct worker_report gone = {.job = "j1", .uid = 1, .state = WORKER_STARTING, .endpoint = ""};
    struct event late = {.kind = EVENT_NODE_REPORT, .request = 99};
    late.node_report.node = "a";
    late.node_report.incarnation = s.nodes[0].incarnation;
    late.node_report.sequence = 1;
    late.node_report.workers = &gone;
    late.node_report.workers_count = 0;
    int versions = s.versions;
    story_send(&s, &late);
    late.node_report.workers_count = 1;
    story_send(&s, &late);
    story_report(&s, "a");
    s.nodes[0].sequence--;
    story_report(&s, "a");
    story_expect(&s, "");
    cr_expect_eq(s.versions, versions, "nothing was to be told to an agent");
}

Test(stories, an_old_agent_is_fenced)
{
    running_pair(&pair);
    uint64_t old = s.nodes[1].incarnation;
    story_register(&s, "b", true);
    uint64_t present = s.nodes[1].incarnation;
    s.nodes[1].incarnation = old;
    story_report(&s, "b");
    cr_expect_eq(s.error.code, E_ABORTED);
    story_register(&s, "b", false);
    cr_expect_eq(s.error.code, E_ABORTED, "its registration came late");
    s.nodes[1].incarnation = present;
    s.nodes[1].sequence = 0;
    story_report(&s, "b");
    cr_expect_eq(s.error.code, 0);
    story_expect(&s, "");
}

Test(stories, a_join_timeout_names_the_ranks)
{
    two_nodes();
    story_submit(&s, &rigid);
    struct story_node *b = story_node(&s, "b");
    b->silent = true; /* follows only after its worker was made deaf */
    story_follow(&s);
    b->silent = false;
    b->workers[0] = (struct story_worker){.uid = 2, .job = "j1", .never_joins = true};
    b->workers_count = 1;
    story_report(&s, "b");
    s.trace[0] = 0;
    story_wait(&s, START_TIMEOUT_MS - 2000);
    story_expect(&s, "");
    story_wait(&s, 4000);
    cr_expect(strstr(s.trace, "j1 restarting join_timeout\n"), "%s", s.trace);
    cr_expect_eq(story_job(&s, "j1")->restarts, 1);
}

Test(stories, the_first_exit_by_wall_time_is_the_cause)
{
    running_pair(&(struct story_spec){
        .name = "j", .nodes_min = 2, .nodes_max = 2, .restart_max = -1, .elastic = "off"});
    struct story_node *b = story_node(&s, "b");
    b->workers[0].exited = true;
    b->workers[0].exit = (struct exit_info){.code = 9, .wall_ms = s.now_ms};
    story_exit(&s, "j1", 0, EXIT_PEER_LOST);
    story_report(&s, "b");
    story_follow(&s);
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->state, JOB_FAILED);
    cr_expect_eq(job->exit_code, 9);
    cr_expect(strstr(job->reason.text, "code 9"), "%s", job->reason.text);
}

Test(stories, submitting_with_one_key_twice_makes_one_job)
{
    two_nodes();
    story_submit_key(&s, &pair, "key");
    cr_expect_not(s.repeated);
    story_submit_key(&s, &pair, "key");
    cr_expect(s.repeated);
    cr_expect_str_eq(s.answered, "j1");
    story_submit_key(&s, &rigid, "key");
    cr_expect_eq(s.error.code, E_FAILED_PRECONDITION);
    cr_expect_eq(cluster_jobs_count(s.cluster), 1);
}

Test(stories, a_lost_node_below_the_minimum_is_replaced_by_a_free_one)
{
    running_pair(&rigid);
    story_node_up(&s, "c", 1);
    s.trace[0] = 0;
    story_node_dies(&s, "b");
    story_wait(&s, LEASE_MS + 1000);
    story_expect(&s, "b unreachable connection_lost\nb lost lease_expired\n"
                     "j1 reforming node_lost\nj1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 2);
}

Test(stories, a_replacement_is_not_put_where_a_dead_worker_is_replaced)
{
    story_node_up(&s, "a", 2);
    story_node_up(&s, "b", 2);
    story_node_up(&s, "c", 2);
    story_submit(&s, &(struct story_spec){.name = "three", .nodes_min = 3, .nodes_max = 3});
    story_follow(&s);
    s.trace[0] = 0;
    story_gone(&s, "c");
    struct story_worker *a = story_worker(&s, "j1", 0, NULL), *b = story_worker(&s, "j1", 1, NULL);
    b->exited = true;
    b->exit = (struct exit_info){.code = 1, .wall_ms = 1};
    a->broken = 1;
    a->lost_ranks[0] = 1;
    a->lost_ranks[1] = 2;
    a->lost_count = 2;
    story_report(&s, "a");
    story_report(&s, "b");
    story_follow(&s);
    story_expect(&s, "c unreachable connection_lost\nc lost peers_saw_it_die\n"
                     "j1 restarting node_lost\n");
}

Test(stories, a_registration_that_comes_again_late_says_nothing_of_now)
{
    running_pair(&pair);
    int count = s.nodes[1].workers_count;
    s.nodes[1].workers_count = 0;
    story_register(&s, "b", false);
    s.nodes[1].workers_count = count;
    story_wait(&s, 2000);
    story_expect(&s, "");
    cr_expect_eq(story_job(&s, "j1")->current.generation, 1);
}

static void remember_generation(void *arg, const struct assignment *assignment)
{
    if (assignment->stop)
        *(uint64_t *)arg = assignment->generation;
}

Test(stories, a_worker_told_of_a_generation_is_stopped_in_it)
{
    running_pair(&rigid);
    story_worker(&s, "j1", 0, NULL)->never_joins = true;
    story_exit(&s, "j1", 1, 3);
    cr_assert_eq(story_job(&s, "j1")->forming.generation, 2);
    story_cancel(&s, "j1");
    uint64_t generation = 0;
    cluster_assignments(s.cluster, "a", remember_generation, &generation);
    cr_expect_eq(generation, 2);
}

Test(stories, silence_after_a_restart_is_no_verdict)
{
    running_pair(&pair);
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

Test(stories, without_a_free_node_the_gang_waits_and_starts_again)
{
    running_pair(&rigid);
    story_node_dies(&s, "b");
    story_wait(&s, LEASE_MS + 1000);
    story_expect(&s, "b unreachable connection_lost\nb lost lease_expired\n"
                     "j1 restarting node_lost\n");
    cr_expect_str_eq(story_job(&s, "j1")->reason.kind, "too_few_nodes");
    story_register(&s, "b", true);
    story_follow(&s);
    story_expect(&s, "b ready reported\nj1 starting placed\nj1 running all_joined\n");
}

Test(stories, a_node_that_returns_with_old_workers_gets_new_ones_when_they_have_ended)
{
    running_pair(&pair);
    story_gone(&s, "b");
    story_wait(&s, LEASE_MS + 1000);
    s.trace[0] = 0;
    s.nodes[1].workers[0].ignores_term = true;
    story_register(&s, "b", true);
    story_expect(&s, "b joining clearing\n");
    story_follow(&s);
    story_wait(&s, STOP_GRACE_MS + 1000);
    story_expect(&s, "b ready reported\nj1 reforming growing\nj1 running all_joined\n");
}

Test(stories, draining_moves_a_gang_away)
{
    running_pair(&pair);
    story_node_set(&s, "b", NODE_DRAIN);
    story_follow(&s);
    story_expect(&s, "b draining administrator\nj1 reforming node_drained\n"
                     "j1 running all_joined\n");
    cr_expect_eq(story_node(&s, "b")->workers_count, 0);
    story_node_set(&s, "b", NODE_UNCORDON);
    story_follow(&s);
    story_expect(&s, "b ready reported\nj1 reforming growing\nj1 running all_joined\n");
}

Test(stories, growth_that_fails_leaves_the_gang_alone)
{
    running_pair(&(struct story_spec){.name = "three", .nodes_min = 2, .nodes_max = 3});
    s.nodes_count++;
    s.nodes[2] = (struct story_node){.name = "c", .incarnation = 9, .slots = 1, .up = true};
    story_register(&s, "c", false);
    cr_assert_eq(story_job(&s, "j1")->forming.generation, 2);
    s.nodes[2].workers[0] = (struct story_worker){
        .uid = 3, .job = "j1", .exited = true, .exit = {.code = 1, .wall_ms = 1}};
    s.nodes[2].workers_count = 1;
    story_report(&s, "c");
    story_follow(&s);
    story_expect(&s, "c ready reported\n");
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->current.generation, 1);
    cr_expect_eq(job->forming.generation, 0);
    cr_expect_eq(job->restarts, 0);
    story_wait(&s, GROW_BACKOFF_MS + 2000);
    story_expect(&s, "j1 reforming growing\nj1 running all_joined\n");
    cr_expect_eq(job->current.world, 3);
}

Test(stories, a_job_longer_than_max_runtime_fails_with_that_reason)
{
    running_pair(&(struct story_spec){.name = "long", .nodes_min = 2, .max_runtime = "5s"});
    story_wait(&s, 4000);
    story_expect(&s, "");
    story_wait(&s, 2000);
    story_expect(&s, "j1 stopping max_runtime\nj1 failed max_runtime\n");
}

Test(stories, a_program_that_is_slow_to_say_hello_is_given_its_membership_later)
{
    s.unaware = true;
    two_nodes();
    story_submit(&s, &rigid);
    story_follow(&s);
    story_wait(&s, UNAWARE_AFTER_MS + 1000);
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->state, JOB_RUNNING);
    cr_expect_not(job->current.joined);
    s.unaware = false;
    story_wait(&s, 2000);
    cr_expect(job->current.joined);
    cr_expect_eq(job->current.generation, 1);
    story_exit(&s, "j1", 1, 3);
    story_follow(&s);
    cr_expect_eq(job->current.members[0], 1, "now a failure is mended in place");
    cr_expect_eq(job->current.generation, 2);
}

Test(stories, a_rigid_gang_leaves_a_drained_node_and_waits)
{
    running_pair(&(struct story_spec){.name = "r", .nodes_min = 2, .elastic = "off"});
    story_node_set(&s, "b", NODE_DRAIN);
    story_follow(&s);
    story_expect(&s, "b draining administrator\nj1 restarting node_drained\n");
    cr_expect_eq(story_job(&s, "j1")->restarts, 0);
    story_node_set(&s, "b", NODE_UNCORDON);
    story_follow(&s);
    story_expect(&s, "b ready reported\nj1 starting placed\nj1 running all_joined\n");
}

Test(stories, a_job_cancelled_in_the_queue_ends_at_once)
{
    story_submit(&s, &pair);
    story_expect(&s, "j1 queued submitted\n");
    cr_expect_str_eq(story_job(&s, "j1")->reason.kind, "no_nodes");
    story_cancel(&s, "j1");
    story_expect(&s, "j1 cancelled cancelled\n");
}

Test(stories, a_worker_has_started_when_its_process_is_known)
{
    story_node_up(&s, "a", 1);
    story_submit(&s, &(struct story_spec){.name = "one", .nodes_min = 1});
    struct story_node *a = story_node(&s, "a");
    a->workers[0] = (struct story_worker){.uid = 1, .job = "j1", .unborn = true};
    a->workers_count = 1;
    story_report(&s, "a");
    cr_expect_eq(story_job(&s, "j1")->workers[0].state, WORKER_ASSIGNED);
    a->workers[0].unborn = false;
    story_report(&s, "a");
    cr_expect_eq(story_job(&s, "j1")->workers[0].state, WORKER_STARTING);
}

Test(stories, one_worker_is_spoken_of_as_one)
{
    story_node_up(&s, "a", 1);
    story_submit(&s, &(struct story_spec){.name = "one", .nodes_min = 1});
    const struct job *job = story_job(&s, "j1");
    cr_expect_str_eq(job->reason.text, "1 worker is being started on 1 node");
    story_follow(&s);
    cr_expect_str_eq(job->reason.text, "its rank has joined generation 1");
    story_exit(&s, "j1", 0, 0);
    cr_expect_str_eq(job->reason.text, "its rank finished");
}

Test(stories, empty_jobs_end_as_soon_as_they_end)
{
    s.unaware = true;
    s.finish = true;
    two_nodes();
    story_submit(&s, &rigid);
    story_follow(&s);
    story_expect(&s, "j1 queued submitted\nj1 starting placed\nj1 running all_started\n"
                     "j1 succeeded succeeded\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 2, "as many as there were");
    cr_expect_gt(story_job(&s, "j1")->started_wall_ms, 0);
}

Test(stories, ports_are_not_shared_on_one_address)
{
    story_node_up(&s, "a", 2);
    story_submit(&s, &(struct story_spec){.name = "x", .nodes_min = 1});
    story_submit(&s, &(struct story_spec){.name = "y", .nodes_min = 1});
    story_follow(&s);
    int x = story_job(&s, "j1")->current.master_port, y = story_job(&s, "j2")->current.master_port;
    cr_expect(x >= 20000 && x <= 20099 && y >= 20000 && y <= 20099);
    cr_expect_neq(x, y);
}

static void pause_of_the_coordinator(int64_t ms)
{
    s.now_ms += ms;
    story_send(&s, &(struct event){.kind = EVENT_TICK});
    for (int i = 0; i < s.nodes_count; i++) /* what had queued up is heard one by one */
        story_report(&s, s.nodes[i].name);
}

Test(stories, a_pause_of_the_coordinator_is_nobody_elses_silence)
{
    running_pair(&pair);
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

Test(stories, a_pause_just_over_the_lease_hears_first_what_has_queued_up)
{
    running_pair(&pair);
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

Test(stories, a_pause_while_a_gang_forms_takes_no_time_from_it)
{
    running_pair(&rigid);
    story_worker(&s, "j1", 0, NULL)->never_joins = true;
    story_exit(&s, "j1", 1, 3);
    story_follow(&s);
    pause_of_the_coordinator(START_TIMEOUT_MS + 1000);
    story_worker(&s, "j1", 0, NULL)->never_joins = false;
    story_follow(&s);
    story_expect(&s, "j1 reforming worker_failed\nj1 running all_joined\n");
    cr_expect_eq(story_job(&s, "j1")->restarts, 1);
}

Test(stories, after_a_restart_agents_have_time_to_find_us)
{
    running_pair(&pair);
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
