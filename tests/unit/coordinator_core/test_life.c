/* The life of jobs: queue, start, end, and what is told of them on the way. Stories
 * on virtual time: what happens, and the exact trace it leaves. */
#include <math.h>
#include <stdio.h>
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

TestSuite(jobs, .init = begin, .fini = finish);

Test(jobs, a_job_runs_and_succeeds)
{
    story_running_pair(&s, &story_rigid);
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

Test(jobs, a_gang_waits_for_all_of_its_nodes_and_then_starts)
{
    story_node_up(&s, "a", 2);
    story_node_up(&s, "b", 1);
    story_submit(&s, &(struct story_spec){.name = "small", .nodes_min = 1, .slots = 2});
    story_follow(&s);
    story_submit(&s, &story_rigid);
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

/* Who holds what it waits for changes often and is shown; the kind of its reason is stored too. */
Test(jobs, what_kind_of_reason_a_job_waits_for_is_stored)
{
    story_node_up(&s, "a", 1);
    story_submit(&s, &(struct story_spec){.name = "first", .nodes_min = 1, .slots = 1});
    story_submit(&s, &(struct story_spec){.name = "second", .nodes_min = 1, .slots = 1});
    story_submit(&s, &(struct story_spec){.name = "third", .nodes_min = 1, .slots = 1});
    story_follow(&s);
    const struct job *third = story_job(&s, "j3");
    cr_expect_str_eq(third->reason.kind, "waiting_for_slots");
    cr_expect(strstr(story_text(&s, &third->reason), "in use by first"), "%s", third->reason.text);
    uint64_t version = third->version;
    story_exit(&s, "j1", 0, 0);
    cr_expect_str_eq(third->reason.kind, "waiting_for_slots");
    cr_expect_null(strstr(third->reason.text, "first"), "%s", third->reason.text);
    cr_expect_gt(third->version, version);
    cr_expect_null(strstr(s.stored, " j3 "), "%s", s.stored);
    story_node_set(&s, "a", NODE_CORDON);
    cr_expect_str_neq(third->reason.kind, "waiting_for_slots");
    cr_expect(strstr(s.stored, " j3 "), "%s", s.stored);
}

Test(jobs, a_cluster_that_stops_lets_jobs_save_and_the_next_life_goes_on)
{
    story_running_pair(&s, &story_pair);
    struct event halt = {.kind = EVENT_HALT};
    story_worker(&s, "j1", 0, NULL)->ignores_term = true; /* it saves first */
    story_send(&s, &halt);
    story_submit(&s, &(struct story_spec){.name = "late", .nodes_min = 1});
    story_follow(&s);
    story_commit(&s, "j1", 0, 1, 70);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    story_exit(&s, "j1", 0, 75);
    story_follow(&s);
    story_expect(&s, "j1 preempting halted\nj2 queued submitted\nj1 queued halted\n");
    cr_expect_eq(cluster_living_workers(s.cluster), 0);
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
    snprintf(wait->communicator, sizeof(wait->communicator), "%s", communicator);
    snprintf(wait->operation, sizeof(wait->operation),
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

Test(jobs, who_keeps_a_gang_waiting_is_named)
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
    waits(1, "world", 0, 3); /* connecting */
    struct collective_wait *wait = &story_worker(&s, "j1", 1, NULL)->wait;
    wait->bytes = 0;
    snprintf(wait->operation, sizeof(wait->operation), "connect");
    expect_why("stalled", "rank 3 (node b) has not entered connect of 'world' for 12 s; rank 1 "
                          "waits; last step 410");
}

static void four_train(void)
{
    static const struct story_spec four = {
        .name = "four", .nodes_min = 2, .nodes_max = 2, .workers = 2, .slots = 1, .restart_max = 3};
    story_node_up(&s, "a", 2);
    story_node_up(&s, "b", 2);
    story_submit(&s, &four);
    story_follow(&s);
    story_progress(&s, "j1", 10);
    story_wait(&s, 10000);
    story_progress(&s, "j1", 1010);
}

static void expect_stalls(int begun, int over)
{
    cr_expect_eq(story_records(&s, "stalled")->count, begun);
    cr_expect_eq(story_records(&s, "stall_over")->count, over);
    cr_expect_eq(story_job(&s, "j1")->stalled_wall_ms != 0, begun > over);
}

Test(jobs, a_gang_that_waits_for_long_is_said_to_stand_still_once)
{
    four_train();
    waits(0, "world", 7, 2);
    story_worker(&s, "j1", 0, NULL)->wait.waited_ms = STALL_MIN_MS - 1;
    story_wait(&s, 3000);
    expect_stalls(0, 0);
    waits(0, "world", 7, 2);
    story_wait(&s, 3000);
    expect_stalls(1, 0);
    const struct reason *why = &story_records(&s, "stalled")->newest.reason;
    cr_expect_str_eq(why->kind, "stalled");
    cr_expect_str_eq(why->node, "b");
    cr_expect_eq(why->rank, 2);
    cr_expect(strstr(why->text, "rank 2 (node b) has not entered all_reduce #7"), "%s", why->text);
    int64_t for_ms = s.now_ms + s.wall_offset_ms - story_job(&s, "j1")->stalled_wall_ms;
    cr_expect(for_ms >= 12000 && for_ms <= 15000, "%lld", (long long)for_ms);
    story_wait(&s, 20000);
    expect_stalls(1, 0);
    story_worker(&s, "j1", 0, NULL)->wait.waited_ms = 0;
    story_wait(&s, 1000);
    expect_stalls(1, 1);
    cr_expect_str_eq(story_records(&s, "stall_over")->newest.reason.kind, "stall_over");
}

/* Agents have found the stacks of ranks that wait, when these became silent. */
Test(jobs, a_stall_asks_for_stacks_unless_all_ranks_wait)
{
    four_train();
    for (int rank = 0; rank < 4; rank++) {
        waits(rank, "", 0, (uint32_t)rank);
        story_worker(&s, "j1", rank, NULL)->wait.waited_ms = STALL_MIN_MS - 1000;
    }
    story_wait(&s, 1000); /* both nodes have reported it */
    for (int rank = 0; rank < 4; rank++)
        story_worker(&s, "j1", rank, NULL)->wait.waited_ms = STALL_MIN_MS;
    story_wait(&s, 1000);
    expect_stalls(1, 0);
    cr_expect_eq(story_job(&s, "j1")->stacks_wall_ms, 0);
    for (int rank = 0; rank < 4; rank++)
        story_worker(&s, "j1", rank, NULL)->wait.waited_ms = 0;
    story_progress(&s, "j1", 1011);
    story_wait(&s, STALL_MIN_MS + 3000);
    expect_stalls(1, 1);
    waits(0, "world", 7, 2);
    story_worker(&s, "j1", 0, NULL)->wait.waited_ms = STALL_MIN_MS;
    story_wait(&s, 1000);
    expect_stalls(2, 1);
    int64_t asked_ms = story_job(&s, "j1")->stacks_wall_ms;
    cr_expect(asked_ms > 0);
    story_wait(&s, 20000);
    cr_expect_eq(story_job(&s, "j1")->stacks_wall_ms, asked_ms, "once a stall");
}

Test(jobs, a_step_ends_a_stall_though_somebody_waits_again)
{
    four_train();
    waits(0, "world", 7, 2);
    story_wait(&s, 3000);
    expect_stalls(1, 0);
    story_worker(&s, "j1", 0, NULL)->wait.waited_ms = 2000;
    story_progress(&s, "j1", 1011);
    expect_stalls(1, 1);
    story_wait(&s, 3000);
    expect_stalls(1, 1);
}

/* The rank that was stopped tells of a step before the others tell that they wait no more. */
Test(jobs, a_wait_from_before_a_stall_ended_begins_no_other)
{
    four_train();
    waits(0, "world", 7, 2);
    story_wait(&s, 3000);
    expect_stalls(1, 0);
    story_progress(&s, "j1", 1011);
    story_report(&s, "a");
    expect_stalls(1, 1);
    story_worker(&s, "j1", 0, NULL)->wait.waited_ms = 0;
    story_wait(&s, STALL_MIN_MS + 3000);
    waits(0, "world", 9, 2); /* a new one, for 12 s */
    story_worker(&s, "j1", 0, NULL)->wait.waited_ms = STALL_MIN_MS;
    story_wait(&s, 1000);
    expect_stalls(2, 1);
}

Test(jobs, a_stall_outlives_the_coordinator_until_each_rank_was_heard)
{
    four_train();
    waits(0, "world", 7, 2);
    story_wait(&s, 3000);
    expect_stalls(1, 0);
    for (int rank = 0; rank < 4; rank++) { /* what is derived is gone */
        struct worker *worker = &story_job(&s, "j1")->workers[rank];
        worker->wait = (struct collective_wait){0};
        worker->stamp = 0;
    }
    story_restart(&s, s.now_ms);
    story_report(&s, "b");
    expect_stalls(1, 0);
    story_report(&s, "a");
    story_wait(&s, 1000);
    expect_stalls(1, 0);
    story_worker(&s, "j1", 0, NULL)->wait.waited_ms = 0;
    story_wait(&s, 1000);
    expect_stalls(1, 1);
}

/* Its patience counts from the last step, not from the coordinator's start. */
Test(jobs, a_stall_becomes_a_hang_though_the_coordinator_starts_again)
{
    four_train();
    waits(0, "world", 7, 2);
    story_wait(&s, 3000);
    expect_stalls(1, 0);
    story_restart(&s, s.now_ms);
    story_wait(&s, LEDGER_HANG_MIN_MS - 2000);
    cr_expect(story_job(&s, "j1")->ledger.hangs);
    expect_stalls(1, 0);
}

Test(jobs, figures_of_an_earlier_life_are_not_shown_as_those_of_now)
{
    four_train();
    struct job *job = story_job(&s, "j1");
    job->loss = 1.8059;
    story_restart(&s, s.now_ms);
    cr_expect(isnan(job->loss), "stored when an earlier generation ended");
    job->loss = 2.0368;
    waits(0, "world", 7, 2);
    story_wait(&s, 3000);
    story_restart(&s, s.now_ms);
    cr_expect_float_eq(job->loss, 2.0368, 1e-9, "stored when it began to stand still");
}

Test(jobs, a_gang_whose_ranks_all_stop_is_said_to_stand_still)
{
    four_train();
    story_wait(&s, LEDGER_HANG_MIN_MS - 2000);
    expect_stalls(0, 0);
    story_wait(&s, 4000);
    expect_stalls(1, 0);
    cr_expect(story_job(&s, "j1")->ledger.hangs);
    expect_why("stalled",
               "no step completes and no rank reports that it waits; the last step is 1010, "
               "steps took 0.002 s");
    story_exit(&s, "j1", 1, 1);
    story_follow(&s);
    expect_stalls(1, 1);
}

Test(jobs, cancel_ends_a_worker_that_ignores_it)
{
    story_running_pair(&s, &story_rigid);
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

/* It outlives SIGKILL too, as a process that hangs in the kernel does. */
Test(jobs, who_does_not_end_is_named_once)
{
    story_running_pair(&s, &story_rigid);
    struct story_worker *stuck = story_worker(&s, "j1", 1, NULL);
    stuck->ignores_term = true;
    stuck->term_at = INT64_MAX / 2;
    story_cancel(&s, "j1");
    story_wait(&s, STOP_GRACE_MS + STOP_SLACK_MS - 1000);
    cr_expect_eq(story_records(&s, "stop_overdue")->count, 0);
    story_wait(&s, 2000);
    const struct story_records *overdue = story_records(&s, "stop_overdue");
    cr_assert_eq(overdue->count, 1);
    cr_expect_str_eq(overdue->newest.job, "j1");
    cr_expect_str_eq(overdue->newest.node, "b");
    cr_expect_str_eq(overdue->newest.reason.text, "rank 1 on b does not end (asked to end)");
    cr_expect_str_eq(overdue->newest.reason.hint, "look at process 102 on that node");
    story_wait(&s, 2 * (STOP_GRACE_MS + STOP_SLACK_MS));
    cr_expect_eq(overdue->count, 1);
    story_expect(&s, "j1 stopping cancelled\n");
    stuck->term_at = 1;
    story_wait(&s, 1000);
    story_expect(&s, "j1 cancelled cancelled\n");
}

Test(jobs, submitting_with_one_key_twice_makes_one_job)
{
    story_two_nodes(&s);
    story_submit_key(&s, &story_pair, "key");
    cr_expect_not(s.repeated);
    story_submit_key(&s, &story_pair, "key");
    cr_expect(s.repeated);
    cr_expect_str_eq(s.answered, "j1");
    story_submit_key(&s, &story_rigid, "key");
    cr_expect_eq(s.error.code, E_FAILED_PRECONDITION);
    cr_expect_eq(cluster_jobs_count(s.cluster), 1);
    char key[sizeof((struct job *)0)->idempotency_key + 1] = {0};
    memset(key, 'k', sizeof(key) - 2);
    story_submit_key(&s, &story_pair, key);
    story_submit_key(&s, &story_pair, key);
    cr_expect(s.repeated, "the longest there may be");
    key[sizeof(key) - 2] = 'k';
    story_submit_key(&s, &story_pair, key);
    cr_expect_eq(s.error.code, E_INVALID_ARGUMENT);
    cr_expect_eq(cluster_jobs_count(s.cluster), 2);
}

Test(jobs, a_cancelled_one_has_the_code_of_ctrl_c_and_an_ended_one_is_not_cancelled)
{
    story_running_pair(&s, &(struct story_spec){.name = "j", .nodes_min = 2, .restart_max = -1});
    story_cancel(&s, "j1");
    story_wait(&s, 3000);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_CANCELLED);
    cr_expect_eq(story_job(&s, "j1")->exit_code, 130);
    story_cancel(&s, "j1");
    cr_expect_eq(s.error.code, 0, "it is what was asked for");
    story_submit(&s,
                 &(struct story_spec){.name = "k", .nodes_min = 1, .restart_max = -1, .slots = 1});
    story_follow(&s);
    story_exit(&s, "j2", 0, 7);
    story_wait(&s, 3000);
    cr_assert_eq(story_job(&s, "j2")->state, JOB_FAILED);
    story_cancel(&s, "j2");
    cr_expect_eq(s.error.code, E_FAILED_PRECONDITION);
    cr_expect_eq(story_job(&s, "j2")->exit_code, 7);
}

Test(jobs, a_job_longer_than_max_runtime_fails_with_that_reason)
{
    story_running_pair(&s,
                       &(struct story_spec){.name = "long", .nodes_min = 2, .max_runtime = "5s"});
    story_wait(&s, 4000);
    story_expect(&s, "");
    story_wait(&s, 2000);
    story_expect(&s, "j1 stopping max_runtime\nj1 failed max_runtime\n");
    cr_expect_eq(story_job(&s, "j1")->exit_code, 1, "no rank had another");
}

Test(jobs, a_program_that_is_slow_to_say_hello_is_given_its_membership_later)
{
    s.unaware = true;
    story_two_nodes(&s);
    story_submit(&s, &story_rigid);
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

Test(jobs, a_program_that_says_nothing_is_known_for_it_when_its_last_process_has_had_time)
{
    s.unaware = true;
    story_two_nodes(&s);
    story_submit(&s, &story_rigid);
    struct story_node *b = story_node(&s, "b");
    b->workers[0] = (struct story_worker){.uid = 2, .job = "j1", .unborn = true};
    b->workers_count = 1;
    story_follow(&s);
    story_wait(&s, UNAWARE_AFTER_MS + 3000);
    b->workers[0].unborn = false;
    story_report(&s, "b");
    story_wait(&s, UNAWARE_AFTER_MS - 500);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_STARTING);
    story_wait(&s, 1000);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
}

Test(jobs, a_job_cancelled_in_the_queue_ends_at_once)
{
    story_submit(&s, &story_pair);
    story_expect(&s, "j1 queued submitted\n");
    cr_expect_str_eq(story_job(&s, "j1")->reason.kind, "no_nodes");
    story_cancel(&s, "j1");
    story_expect(&s, "j1 cancelled cancelled\n");
}

Test(jobs, a_worker_has_started_when_its_process_is_known)
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

/* Stopped, or not able to start, before it was one. */
Test(jobs, a_worker_that_never_was_a_process_has_not_started)
{
    story_node_up(&s, "a", 1);
    story_submit(&s, &(struct story_spec){.name = "one", .nodes_min = 1});
    struct story_node *a = story_node(&s, "a");
    a->workers[0] = (struct story_worker){.uid = 1, .job = "j1", .unborn = true, .stopping = true};
    a->workers_count = 1;
    story_report(&s, "a");
    cr_expect_eq(story_records(&s, "worker_started")->count, 0);
    a->workers[0].exited = true;
    story_report(&s, "a");
    cr_expect_eq(story_records(&s, "worker_started")->count, 0);
    cr_expect_eq(story_records(&s, "worker_exited")->count, 1);
}

Test(jobs, one_worker_is_spoken_of_as_one)
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

Test(jobs, empty_jobs_end_as_soon_as_they_end)
{
    s.unaware = true;
    s.finish = true;
    story_two_nodes(&s);
    story_submit(&s, &story_rigid);
    story_follow(&s);
    story_expect(&s, "j1 queued submitted\nj1 starting placed\nj1 running all_started\n"
                     "j1 succeeded succeeded\n");
    cr_expect_eq(story_job(&s, "j1")->current.world, 2, "as many as there were");
    cr_expect_gt(story_job(&s, "j1")->started_wall_ms, 0);
}

Test(jobs, ports_are_not_shared_on_one_address)
{
    story_node_up(&s, "a", 2);
    story_submit(&s, &(struct story_spec){.name = "x", .nodes_min = 1});
    story_submit(&s, &(struct story_spec){.name = "y", .nodes_min = 1});
    story_follow(&s);
    int x = story_job(&s, "j1")->current.master_port, y = story_job(&s, "j2")->current.master_port;
    cr_expect(x >= 20000 && x <= 20099 && y >= 20000 && y <= 20099);
    cr_expect_neq(x, y);
}
