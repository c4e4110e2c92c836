/* Workers that fail: what it costs, who is the cause, when it ends. Stories
 * on virtual time: what happens, and the exact trace it leaves. */
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "coordinator/model/reason.h"
#include "coordinator/model/tenant.h"
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

TestSuite(failures, .init = begin, .fini = finish);

Test(failures, peers_that_lost_each_other_though_none_died_form_again_in_place)
{
    story_running_pair(&s, &story_rigid);
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
    story_wait(&s, BROKEN_TIMEOUT_MS + 1000);
    story_expect(&s, "j1 reforming peers_lost\nj1 running all_joined\n");
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->current.members[0], 1);
    cr_expect_eq(job->current.members[1], 2);
    cr_expect_eq(job->restarts, 1);
}

Test(failures, a_crashed_worker_is_replaced_on_its_node_with_its_rank)
{
    story_running_pair(&s, &story_rigid);
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

Test(failures, a_gang_that_does_not_know_us_restarts_whole_from_its_checkpoint)
{
    s.unaware = true;
    story_two_nodes(&s);
    story_submit(&s, &story_rigid);
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

Test(failures, a_crash_loop_stops_with_its_cause)
{
    story_running_pair(&s, &story_rigid);
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

Test(failures, progress_refunds_the_budget)
{
    story_running_pair(
        &s, &(struct story_spec){.name = "j", .nodes_min = 2, .nodes_max = 2, .restart_max = 2});
    for (int i = 1; i <= 6; i++) {
        story_progress(&s, "j1", (uint64_t)i * 10);
        story_exit(&s, "j1", 0, 7);
        story_follow(&s);
        story_wait(&s, 10000);
    }
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
    cr_expect_eq(story_job(&s, "j1")->restarts, 6);
}

Test(failures, the_budget_ends_a_job_that_makes_no_progress)
{
    story_running_pair(
        &s, &(struct story_spec){
                .name = "j", .nodes_min = 2, .nodes_max = 2, .restart_max = 2, .retry = true});
    for (int i = 1; i <= 3; i++) {
        story_exit(&s, "j1", 0, 7);
        story_follow(&s);
        story_wait(&s, 10000);
    }
    cr_expect_eq(story_job(&s, "j1")->state, JOB_FAILED);
    cr_expect_str_eq(story_job(&s, "j1")->reason.kind, "restart_budget");
}

Test(failures, backoff_holds_the_replacement_back)
{
    story_running_pair(
        &s, &(struct story_spec){.name = "j", .nodes_min = 2, .nodes_max = 2, .backoff = "4s..4s"});
    story_exit(&s, "j1", 0, 7);
    story_follow(&s);
    story_expect(&s, "j1 reforming worker_failed\nj1 running all_joined\n");
    story_exit(&s, "j1", 0, 7);
    story_wait(&s, 3000);
    story_expect(&s, "j1 reforming worker_failed\n");
    story_wait(&s, 2000);
    story_expect(&s, "j1 running all_joined\n");
}

/* None at first, then twice as long each time up to the most, and up to a tenth more. */
Test(failures, backoff_doubles_up_to_its_most)
{
    static const int64_t least_ms[] = {0, 2000, 4000, 5000, 5000};
    story_running_pair(&s, &(struct story_spec){.name = "j",
                                                .nodes_min = 2,
                                                .nodes_max = 2,
                                                .restart_max = 9,
                                                .retry = true,
                                                .backoff = "2s..5s"});
    for (size_t i = 0; i < sizeof(least_ms) / sizeof(least_ms[0]); i++) {
        story_exit(&s, "j1", 0, 7);
        int64_t delay_ms = story_job(&s, "j1")->backoff_until_ms - s.now_ms;
        cr_expect(delay_ms >= least_ms[i] && delay_ms <= least_ms[i] + least_ms[i] / 10,
                  "failure %zu: %lld ms", i + 1, (long long)delay_ms);
        story_follow(&s);
        story_wait(&s, 10000);
    }
}

Test(failures, who_was_killed_has_a_shells_code_for_it)
{
    struct story_node *node;
    story_running_pair(
        &s, &(struct story_spec){.name = "j", .nodes_min = 2, .nodes_max = 2, .restart_max = -1});
    struct story_worker *worker = story_worker(&s, "j1", 0, &node);
    worker->exited = true;
    worker->exit = (struct exit_info){.signal = 11, .wall_ms = s.now_ms};
    story_report(&s, node->name);
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_FAILED);
    cr_expect_eq(story_job(&s, "j1")->exit_code, 128 + 11);
}

Test(failures, one_failure_that_kills_all_ranks_is_charged_once)
{
    story_running_pair(&s, &story_rigid);
    story_exit(&s, "j1", 0, 7);
    story_exit(&s, "j1", 1, 7);
    story_follow(&s);
    story_wait(&s, 3000);
    cr_expect_eq(story_job(&s, "j1")->restarts, 1);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
}

Test(failures, a_join_timeout_names_the_ranks)
{
    story_two_nodes(&s);
    story_submit(&s, &story_rigid);
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

Test(failures, the_first_exit_by_wall_time_is_the_cause)
{
    story_running_pair(
        &s, &(struct story_spec){
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

/* Heard of in one report: who ended because a peer did is no cause, however early it noticed. */
static void two_end_in_one_report(const struct exit_info *first, const struct exit_info *second)
{
    story_node_up(&s, "c", 2);
    story_submit(&s, &(struct story_spec){.name = "j",
                                          .nodes_min = 1,
                                          .nodes_max = 1,
                                          .workers = 2,
                                          .restart_max = -1,
                                          .elastic = "off"});
    story_follow(&s);
    cr_assert_eq(story_job(&s, "j1")->state, JOB_RUNNING);
    struct story_worker *workers[] = {story_worker(&s, "j1", 0, NULL),
                                      story_worker(&s, "j1", 1, NULL)};
    workers[0]->exited = workers[1]->exited = true;
    workers[0]->exit = *first;
    workers[1]->exit = *second;
    story_report(&s, "c");
    story_follow(&s);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_FAILED);
}

Test(failures, who_failed_by_itself_is_the_cause_though_a_peer_ended_before)
{
    two_end_in_one_report(&(struct exit_info){.code = EXIT_PEER_LOST, .wall_ms = 1000},
                          &(struct exit_info){.code = 9, .wall_ms = 1005});
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->exit_code, 9);
    cr_expect(strstr(job->reason.text, "rank 1 on c: exited with code 9"), "%s", job->reason.text);
}

Test(failures, of_two_that_failed_by_themselves_the_earlier_is_the_cause)
{
    two_end_in_one_report(&(struct exit_info){.code = 8, .wall_ms = 1005},
                          &(struct exit_info){.code = 9, .wall_ms = 1000});
    cr_expect_eq(story_job(&s, "j1")->exit_code, 9);
}

static void ends(const char *id, int rank, const struct exit_info *exit)
{
    struct story_node *node;
    struct story_worker *worker = story_worker(&s, id, rank, &node);
    worker->exited = true;
    worker->exit = *exit;
    worker->exit.wall_ms = s.now_ms;
    story_report(&s, node->name);
    story_follow(&s);
}

Test(failures, what_is_counted_of_a_tenant_outlives_its_jobs)
{
    story_running_pair(&s, &story_rigid);
    story_exit(&s, "j1", 1, 3);
    story_follow(&s);
    const struct tenant *tenant = cluster_tenant(s.cluster, "default");
    cr_expect_eq(tenant->restarts, 1);
    cr_expect_eq(tenant->recoveries, 1);
    story_cancel(&s, "j1");
    story_wait(&s, 60000);
    cluster_remove_job(s.cluster, story_job(&s, "j1"));
    cr_expect_eq(tenant->restarts, 1);
    cr_expect_eq(tenant->recoveries, 1);
}

Test(failures, the_last_lines_of_what_failed_first_stay_with_the_reason)
{
    story_running_pair(
        &s, &(struct story_spec){.name = "j", .nodes_min = 2, .nodes_max = 2, .restart_max = -1});
    ends("j1", 1, &(struct exit_info){.code = 9, .last_output = "reading\nno such file: x\n"});
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->state, JOB_FAILED);
    cr_expect_str_eq(job->reason.output, "reading\nno such file: x\n");
    cr_expect_str_eq(story_records(&s, "worker_exited")->newest.reason.kind, "stopped",
                     "rank 0 was asked to");
    cr_expect_str_eq(story_records(&s, "worker_exited")->newest.reason.output, "");
    struct reason reasons[2];
    cr_assert_geq(core_why(s.cluster, job, reasons, 2), 1);
    cr_expect_str_eq(reasons[0].output, job->reason.output);
}

Test(failures, of_long_output_whole_lines_are_kept)
{
    struct reason reason = {0};
    char output[REASON_OUTPUT_BYTES * 2], wide[REASON_OUTPUT_BYTES * 2];
    size_t used = 0;
    for (int line = 0; used < sizeof(output) - 64; line++)
        used += (size_t)sprintf(output + used, "line %d of the output\n", line);
    reason_output(&reason, output);
    cr_expect_lt(strlen(reason.output), sizeof(reason.output));
    cr_expect_gt(strlen(reason.output), sizeof(reason.output) - 30);
    cr_expect(strncmp(reason.output, "line ", 5) == 0, "%.20s", reason.output);
    cr_expect_str_eq(output + used - strlen(reason.output), reason.output);
    for (size_t i = 0; i + 2 < sizeof(wide); i += 2)
        memcpy(wide + i, "ä", 3);
    reason_output(&reason, wide);
    cr_expect_eq(strlen(reason.output) % 2, 0, "no half character");
    cr_expect_gt(strlen(reason.output), sizeof(reason.output) - 4);
}

Test(failures, an_error_that_trying_again_cannot_mend_ends_the_job_at_once)
{
    const struct {
        int code;
        const char *kind, *hint;
    } all[] = {{EXIT_CONFIG, "refused", "correct the setting"},
               {EXIT_USAGE_ERROR, "refused", "correct the setting"},
               {EXIT_NOT_FOUND, "start_failed", "correct command"},
               {EXIT_NOT_EXECUTABLE, "start_failed", "chmod +x"}};
    story_two_nodes(&s);
    for (int i = 0; i < 4; i++) {
        char id[8];
        (void)snprintf(id, sizeof(id), "j%d", i + 1);
        story_submit(&s, &story_rigid);
        story_follow(&s);
        ends(id, 1, &(struct exit_info){.code = all[i].code, .last_output = "why\n"});
        const struct job *job = story_job(&s, id);
        cr_expect_eq(job->state, JOB_FAILED, "code %d", all[i].code);
        cr_expect_eq(job->restarts, 0);
        cr_expect_eq(job->exit_code, all[i].code);
        cr_expect_str_eq(job->reason.kind, all[i].kind);
        cr_expect_eq(job->reason.rank, 1);
        cr_expect(strstr(job->reason.hint, all[i].hint), "%s", job->reason.hint);
        cr_expect_str_eq(job->reason.output, "why\n");
    }
}

Test(failures, who_has_trained_with_them_is_not_ended_by_its_settings)
{
    story_running_pair(&s, &story_rigid);
    story_progress(&s, "j1", 10);
    ends("j1", 1, &(struct exit_info){.code = EXIT_CONFIG});
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
    cr_expect_eq(story_job(&s, "j1")->restarts, 1);
}

Test(failures, a_start_that_may_succeed_later_is_tried_again)
{
    enum { OS_ERROR = 71 };
    story_running_pair(&s, &story_rigid);
    struct story_node *node;
    story_worker(&s, "j1", 1, &node)->start_error = "port busy";
    ends("j1", 1, &(struct exit_info){.code = OS_ERROR});
    cr_expect_str_eq(story_records(&s, "worker_exited")->newest.reason.kind, "worker_failed");
    cr_expect(strstr(story_records(&s, "worker_exited")->newest.reason.text, "port busy"), "%s",
              story_records(&s, "worker_exited")->newest.reason.text);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RUNNING);
    cr_expect_eq(story_job(&s, "j1")->restarts, 1);
}

Test(failures, the_first_exit_is_the_cause_also_of_a_crash_loop)
{
    story_running_pair(&s, &(struct story_spec){
                               .name = "j", .nodes_min = 2, .nodes_max = 2, .elastic = "restart"});
    for (int i = 0; i < CRASH_LOOP_LIMIT; i++) {
        struct story_node *a, *b;
        struct story_worker *first = story_worker(&s, "j1", 1, &b);
        struct story_worker *second = story_worker(&s, "j1", 0, &a);
        first->exited = second->exited = true;
        first->exit = (struct exit_info){.code = 9, .wall_ms = s.now_ms};
        second->exit = (struct exit_info){.code = 3, .wall_ms = s.now_ms + 1};
        story_report(&s, a->name);
        story_report(&s, b->name);
        story_follow(&s);
        story_wait(&s, 10000);
    }
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->state, JOB_FAILED);
    cr_expect_str_eq(job->reason.kind, "crash_loop");
    cr_expect(strstr(job->reason.text, "rank 1 on b: exited with code 9 (3 times"), "%s",
              job->reason.text);
    cr_expect_eq(job->exit_code, 9);
}

/* Of this generation nobody has said that its ranks are lost. */
Test(failures, what_peers_said_in_an_earlier_generation_is_no_verdict)
{
    story_running_pair(&s, &story_rigid);
    struct story_worker *a = story_worker(&s, "j1", 0, NULL);
    a->broken = 1;
    a->lost_ranks[0] = 1;
    a->lost_count = 1;
    story_wait(&s, BROKEN_TIMEOUT_MS + 1000);
    story_expect(&s, "j1 reforming peers_lost\nj1 running all_joined\n");
    story_gone(&s, "b");
    story_expect(&s, "b unreachable connection_lost\n");
}

/* Patience with the others begins when the first finishes. */
Test(failures, who_finishes_late_leaves_the_others_all_their_time)
{
    story_running_pair(&s, &story_rigid);
    story_wait(&s, FINISH_TIMEOUT_MS - 10000);
    story_exit(&s, "j1", 0, 0);
    story_wait(&s, FINISH_TIMEOUT_MS - 1000);
    story_expect(&s, "");
    story_wait(&s, 2000);
    cr_expect(strstr(s.trace, "j1 restarting finish_timeout\n"), "%s", s.trace);
}

Test(failures, who_listens_elsewhere_by_now_is_found_there)
{
    story_running_pair(&s, &story_rigid);
    story_worker(&s, "j1", 0, NULL)->never_joins = true;
    story_exit(&s, "j1", 1, 3);
    story_follow(&s);
    const struct job *job = story_job(&s, "j1");
    struct story_worker *newcomer = &story_node(&s, "b")->workers[0];
    cr_assert_eq(newcomer->joining, 2);
    newcomer->endpoint = "tcp://b:77";
    story_report(&s, "b");
    cr_expect_str_eq(job_worker(job, newcomer->uid)->endpoint, "tcp://b:77");
}
