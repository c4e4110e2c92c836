#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/rpc/message.h"
#include "coordinator/api_rpc/service.h"
#include "coordinator/driver.h"
#include "coordinator/store/store_memory.h"
#include "tests/unit/coordinator_api/world.h"

TestSuite(service, .init = world_open, .fini = world_close);

static void submit(const char *name, const char *key, struct answer *ret)
{
    submit_true(name, world.admin, key, ret);
}

static Muster__GetJobRequest job_named(const char *name)
{
    Muster__GetJobRequest message = MUSTER__GET_JOB_REQUEST__INIT;
    message.id = (char *)(uintptr_t)name;
    return message;
}

static void register_node(uint64_t incarnation)
{
    register_node_of(incarnation, 2);
}

static void expect_refused(const struct call *call, int code)
{
    struct answer answer;
    call_now(&world, call, &answer);
    cr_assert_eq(answer.err.code, code, "%s: got %s: %s", call->method, error_name(answer.err.code),
                 answer.err.text);
}

Test(service, each_role_has_its_methods)
{
    Muster__ListJobsRequest list = MUSTER__LIST_JOBS_REQUEST__INIT;
    Muster__NodePollRequest poll = poll_message(0);
    Muster__VersionRequest version = MUSTER__VERSION_REQUEST__INIT;
    struct call call = {
        .service = &muster__coordinator__descriptor, .method = "ListJobs", .message = &list.base};
    expect_refused(&call, E_UNAUTHENTICATED);
    call.token = "";
    expect_refused(&call, E_UNAUTHENTICATED);
    call.token = "mst_admin_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    expect_refused(&call, E_UNAUTHENTICATED);
    call.token = world.agent;
    expect_refused(&call, E_PERMISSION_DENIED);
    call = (struct call){.service = &muster__nodes__descriptor,
                         .method = "Poll",
                         .message = &poll.base,
                         .token = world.admin};
    expect_refused(&call, E_PERMISSION_DENIED);
    struct answer answer;
    call = (struct call){
        .service = &muster__coordinator__descriptor, .method = "Version", .message = &version.base};
    call_now(&world, &call, &answer);
    cr_assert(answer.message);
    cr_assert_str_eq(((Muster__VersionAnswer *)answer.message)->version, "test");
    answer_fini(&answer);
}

Test(service, same_key_same_job)
{
    struct answer first, second, third;
    submit("a", "k", &first);
    submit("a", "k", &second);
    submit("a", "other", &third);
    const Muster__Job *one = (void *)first.message, *two = (void *)second.message,
                      *three = (void *)third.message;
    cr_assert_str_eq(one->id, two->id);
    cr_assert_str_neq(one->id, three->id);
    world_restart(&world);
    answer_fini(&second);
    submit("a", "k", &second);
    cr_assert_str_eq(one->id, ((Muster__Job *)second.message)->id);
    answer_fini(&first);
    answer_fini(&second);
    answer_fini(&third);
}

static void submit_env(Muster__JobSpec *spec, char *first[2], char *second[2], struct answer *ret)
{
    Muster__JobSpec__EnvEntry a = MUSTER__JOB_SPEC__ENV_ENTRY__INIT, b = a;
    Muster__JobSpec__EnvEntry *env[] = {&a, &b};
    Muster__SubmitJobRequest message = MUSTER__SUBMIT_JOB_REQUEST__INIT;
    a.key = first[0];
    a.value = first[1];
    b.key = second[0];
    b.value = second[1];
    spec->env = env;
    spec->n_env = 2;
    message.spec = spec;
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "SubmitJob",
                        .message = &message.base,
                        .token = world.admin,
                        .key = "k"};
    call_now(&world, &call, ret);
}

Test(service, a_repeat_may_say_the_same_otherwise)
{
    char *one[] = {"ONE", "1"}, *two[] = {"TWO", "2"}, *other[] = {"TWO", "3"};
    struct answer first, again, different;
    Muster__JobSpec spec = spec_of("a"), said = spec_of("a");
    Muster__JobSpec__Range nodes = MUSTER__JOB_SPEC__RANGE__INIT;
    Muster__JobSpec__Restart restart = MUSTER__JOB_SPEC__RESTART__INIT;
    nodes.min = nodes.max = 1;
    restart.max = 5;
    restart.backoff = "1s..60s";
    said.tenant = "default";
    said.priority = "0";
    said.nodes = &nodes;
    said.restart = &restart;
    submit_env(&spec, one, two, &first);
    submit_env(&said, two, one, &again);
    cr_assert(again.message, "%s", again.err.text);
    cr_assert_str_eq(((Muster__Job *)first.message)->id, ((Muster__Job *)again.message)->id);
    submit_env(&said, one, other, &different);
    cr_assert_eq(different.err.code, E_FAILED_PRECONDITION, "another job was answered with this");
    answer_fini(&first);
    answer_fini(&again);
}

Test(service, bad_specs_name_the_field)
{
    struct answer answer;
    submit("No Good", NULL, &answer);
    cr_assert_eq(answer.err.code, E_INVALID_ARGUMENT);
    cr_assert_str_eq(answer.err.field, "name");
}

Test(service, nothing_is_kept_of_questions_whose_connection_is_gone)
{
    struct answer polled, gone, stays;
    struct service *service = coordinator_service(world.coordinator);
    struct service_stats stats;
    register_node(7);
    Muster__NodePollRequest message = poll_message(0);
    message = poll_message(
        ((const Muster__NodePollAnswer *)agent(&world, "Poll", &message, &polled))->version);
    struct call call = {.service = &muster__nodes__descriptor,
                        .method = "Poll",
                        .message = &message.base,
                        .token = world.agent,
                        .timeout_ms = 600000,
                        .peer = 8};
    call_start(&world, &call, &gone);
    call.peer = 9;
    call_start(&world, &call, &stays);
    world_run(&world, 10);
    service_stats(service, &stats);
    cr_assert_eq(stats.open, 2);
    service_peer_gone(service, 8);
    service_peer_gone(service, 8);
    service_stats(service, &stats);
    cr_assert_eq(stats.open, 1);
    cr_assert_eq(stats.waiting, 1);
    cr_assert(gone.done && gone.err.code == E_CANCELLED);
    cr_assert_not(stays.done);
    answer_fini(&polled);
}

Test(service, nodes_are_told_what_to_run_when_it_changes)
{
    struct answer polled, waiting, submitted;
    register_node(7);
    Muster__NodePollRequest message = poll_message(0);
    const Muster__NodePollAnswer *got = agent(&world, "Poll", &message, &polled);
    cr_assert_eq(got->n_assignments, 0);
    message = poll_message(got->version);
    struct call call = {.service = &muster__nodes__descriptor,
                        .method = "Poll",
                        .message = &message.base,
                        .token = world.agent,
                        .timeout_ms = 30000};
    call_start(&world, &call, &waiting);
    world_run(&world, 1000);
    cr_assert_not(waiting.done, "answered although nothing changed");
    submit("a", NULL, &submitted);
    cr_assert(waiting.done && waiting.message, "%s", waiting.err.text);
    got = (void *)waiting.message;
    cr_assert_eq(got->n_assignments, 1);
    const Muster__Assignment *assignment = got->assignments[0];
    cr_assert_str_eq(assignment->job, ((Muster__Job *)submitted.message)->id);
    cr_assert_eq(got->n_shared, 1);
    cr_assert_str_eq(got->shared[0]->spec->command[0], "true");
    cr_assert(strncmp(assignment->token, "mst_worker_", 11) == 0);
    cr_assert_eq(assignment->secret.len, 32u);
    cr_assert_str_eq(assignment->master_addr, "127.0.0.1");
    cr_assert(assignment->master_port >= 30000 && assignment->master_port <= 30010);
    cr_assert_eq(assignment->world, 1u);
    answer_fini(&polled);
    answer_fini(&waiting);
    answer_fini(&submitted);
}

/* A number of an earlier run must not be taken for one of this. */
Test(service, a_poll_from_before_a_restart_is_answered_at_once)
{
    struct answer before, after;
    register_node(7);
    Muster__NodePollRequest message = poll_message(0);
    const Muster__NodePollAnswer *got = agent(&world, "Poll", &message, &before);
    message = poll_message(got->version);
    world_restart(&world);
    int64_t start_ms = world.now_ms;
    agent(&world, "Poll", &message, &after);
    cr_assert_lt(world.now_ms - start_ms, 10);
    answer_fini(&before);
    answer_fini(&after);
}

Test(service, another_incarnation_is_fenced_and_a_stranger_must_register)
{
    struct answer answer;
    Muster__NodePollRequest message = poll_message(0);
    struct call call = {.service = &muster__nodes__descriptor,
                        .method = "Poll",
                        .message = &message.base,
                        .token = world.agent};
    expect_refused(&call, E_NOT_FOUND);
    register_node(7);
    register_node(8);
    expect_refused(&call, E_ABORTED);
    (void)answer;
}

Test(service, long_polls_answer_shortly_before_their_deadline)
{
    struct answer submitted, watched;
    submit("a", NULL, &submitted);
    const Muster__Job *job = (void *)submitted.message;
    Muster__WatchJobRequest message = MUSTER__WATCH_JOB_REQUEST__INIT;
    message.id = job->id;
    message.version = job->version;
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "WatchJob",
                        .message = &message.base,
                        .token = world.admin,
                        .timeout_ms = 2000};
    int64_t start_ms = world.now_ms;
    call_now(&world, &call, &watched);
    cr_assert(watched.message);
    int64_t waited = world.now_ms - start_ms;
    cr_assert(waited > 1700 && waited < 1900, "waited %lld", (long long)waited);
    answer_fini(&submitted);
    answer_fini(&watched);
}

Test(service, watchers_hear_of_changes)
{
    struct answer submitted, watched, cancelled;
    submit("a", NULL, &submitted);
    const Muster__Job *job = (void *)submitted.message;
    Muster__WatchJobRequest message = MUSTER__WATCH_JOB_REQUEST__INIT;
    message.id = job->id;
    message.version = job->version;
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "WatchJob",
                        .message = &message.base,
                        .token = world.admin};
    call_start(&world, &call, &watched);
    world_run(&world, 100);
    cr_assert_not(watched.done);
    Muster__CancelJobRequest cancel = MUSTER__CANCEL_JOB_REQUEST__INIT;
    cancel.id = "a";
    client(&world, "CancelJob", &cancel, &cancelled);
    cr_assert(watched.done && watched.message);
    cr_assert_eq(((Muster__Job *)watched.message)->state, MUSTER__JOB__STATE__cancelled);
    answer_fini(&submitted);
    answer_fini(&watched);
    answer_fini(&cancelled);
}

/* What clients see is never ahead of the disk. */
Test(service, a_failed_commit_is_answered_with_the_error_and_seen_by_nobody)
{
    struct answer kept, refused, read, answer;
    submit("kept", NULL, &kept);
    store_memory_fail_commits(world.store, 1, E_RESOURCE_EXHAUSTED);
    Muster__JobSpec spec = spec_of("lost");
    Muster__SubmitJobRequest message = MUSTER__SUBMIT_JOB_REQUEST__INIT;
    message.spec = &spec;
    Muster__ListJobsRequest list = MUSTER__LIST_JOBS_REQUEST__INIT;
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "SubmitJob",
                        .message = &message.base,
                        .token = world.admin};
    call_start(&world, &call, &refused);
    call.method = "ListJobs"; /* in the same turn as the submit */
    call.message = &list.base;
    call_start(&world, &call, &read);
    world_run(&world, 1);
    cr_assert_eq(refused.err.code, E_RESOURCE_EXHAUSTED, "%s", refused.err.text);
    cr_assert(read.message);
    cr_assert_eq(((Muster__ListJobsAnswer *)read.message)->n_jobs, 1u);
    cr_assert_str_eq(((Muster__ListJobsAnswer *)read.message)->jobs[0]->spec->name, "kept");
    cr_assert_not(coordinator_ready(world.coordinator, NULL));
    submit("refused", NULL, &answer);
    cr_assert_eq(answer.err.code, E_RESOURCE_EXHAUSTED);
    world_run(&world, DRIVER_RETRY_MS + 2);
    cr_assert(coordinator_ready(world.coordinator, NULL));
    submit("later", NULL, &answer);
    cr_assert(answer.message, "%s", answer.err.text);
    answer_fini(&kept);
    answer_fini(&read);
    answer_fini(&answer);
}

Test(service, refuses_until_the_store_works_and_restarts_as_it_was)
{
    struct answer answer;
    submit("kept", NULL, &answer);
    answer_fini(&answer);
    store_memory_fail_commits(world.store, 4, E_UNAVAILABLE);
    submit("lost", NULL, &answer);
    cr_assert_eq(answer.err.code, E_UNAVAILABLE);
    world_run(&world, 2 * DRIVER_RETRY_MS);
    cr_assert_not(coordinator_ready(world.coordinator, NULL));
    world_run(&world, 2 * DRIVER_RETRY_MS + 10);
    cr_assert(coordinator_ready(world.coordinator, NULL));
    world_restart(&world);
    Muster__GetJobRequest message = job_named("kept");
    client(&world, "GetJob", &message, &answer);
    answer_fini(&answer);
    message = job_named("lost");
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "GetJob",
                        .message = &message.base,
                        .token = world.admin};
    expect_refused(&call, E_NOT_FOUND);
}

/* Neither writable nor readable: better no answer than one that may be ahead of the disk. */
Test(service, reads_are_refused_while_the_store_cannot_be_read_either)
{
    struct answer answer;
    Muster__ListJobsRequest list = MUSTER__LIST_JOBS_REQUEST__INIT;
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "ListJobs",
                        .message = &list.base,
                        .token = world.admin};
    store_memory_fail_commits(world.store, 1, E_UNAVAILABLE);
    store_memory_fail_loads(world.store, 2, E_UNAVAILABLE);
    submit("lost", NULL, &answer);
    cr_assert_eq(answer.err.code, E_UNAVAILABLE);
    expect_refused(&call, E_UNAVAILABLE);
    world_run(&world, 2 * DRIVER_RETRY_MS + 10);
    const Muster__ListJobsAnswer *got = client(&world, "ListJobs", &list, &answer);
    cr_assert_eq(got->n_jobs, 0);
    answer_fini(&answer);
}

Test(service, a_connection_that_ends_takes_its_node_with_it)
{
    struct answer answer;
    Muster__ListNodesRequest list = MUSTER__LIST_NODES_REQUEST__INIT;
    register_node(7);
    service_peer_gone(coordinator_service(world.coordinator), 99); /* somebody else */
    const Muster__ListNodesAnswer *got = client(&world, "ListNodes", &list, &answer);
    cr_assert_eq(got->nodes[0]->state, MUSTER__NODE__STATE__ready);
    answer_fini(&answer);
    service_peer_gone(coordinator_service(world.coordinator), 1);
    got = client(&world, "ListNodes", &list, &answer);
    cr_assert_eq(got->nodes[0]->state, MUSTER__NODE__STATE__unreachable, "state %d",
                 got->nodes[0]->state);
    answer_fini(&answer);
}

static void expect_uses(const Muster__Node *node)
{
    cr_assert_eq(node->n_uses, 2);
    cr_assert_eq(node->slots_used, 2);
    for (int i = 0; i < 2; i++) {
        cr_expect_str_eq(node->uses[i]->name, i ? "b" : "a");
        cr_expect_str_eq(node->uses[i]->job, node->jobs[i]);
        cr_expect_eq(node->uses[i]->slots, 1);
    }
}

Test(service, nodes_tell_what_each_job_uses)
{
    struct answer first, second, answer;
    Muster__ListNodesRequest list = MUSTER__LIST_NODES_REQUEST__INIT;
    Muster__SetNodeRequest cordon = MUSTER__SET_NODE_REQUEST__INIT;
    register_node(7);
    submit("a", NULL, &first);
    submit("b", NULL, &second);
    const Muster__ListNodesAnswer *got = client(&world, "ListNodes", &list, &answer);
    expect_uses(got->nodes[0]);
    answer_fini(&answer);
    cordon.name = "n1";
    cordon.action = "cordon";
    expect_uses(client(&world, "SetNode", &cordon, &answer));
    answer_fini(&answer);
    answer_fini(&first);
    answer_fini(&second);
}

struct worker_end {
    uint64_t uid;
    int signal; /* 0 = it ended well */
    bool last;  /* its agent says that there is no more */
};

/* A worker of the job has written a line and ended. */
static void report_worker_end(const char *job, uint64_t sequence, const struct worker_end *end)
{
    struct answer answer;
    Muster__Exit ended = MUSTER__EXIT__INIT;
    Muster__WorkerStatus worker = MUSTER__WORKER_STATUS__INIT;
    Muster__WorkerStatus *workers[] = {&worker};
    Muster__LogLine line = MUSTER__LOG_LINE__INIT;
    Muster__LogLine *lines[] = {&line};
    Muster__LogChunk chunk = MUSTER__LOG_CHUNK__INIT;
    Muster__LogChunk *chunks[] = {&chunk};
    Muster__NodeReport message = MUSTER__NODE_REPORT__INIT;
    worker.job = chunk.job = (char *)(uintptr_t)job;
    worker.uid = chunk.uid = end->uid;
    worker.pid = 4;
    worker.state = MUSTER__WORKER__STATE__exited;
    worker.exit = &ended;
    ended.signal = end->signal;
    line.text = "bye";
    chunk.lines = lines;
    chunk.n_lines = 1;
    chunk.last = end->last;
    message.node = "n1";
    message.incarnation = 7;
    message.sequence = sequence;
    message.workers = workers;
    message.n_workers = 1;
    message.logs = chunks;
    message.n_logs = 1;
    agent(&world, "Report", &message, &answer);
    answer_fini(&answer);
}

static void report_end(const char *job, uint64_t sequence, bool last)
{
    report_worker_end(job, sequence, &(struct worker_end){.uid = 1, .last = last});
}

/* Milliseconds until a follower of the job hears that all is told. */
static int64_t followed_until_ms(const char *job)
{
    struct answer followed;
    Muster__GetLogsRequest message = MUSTER__GET_LOGS_REQUEST__INIT;
    int64_t start_ms = world.now_ms;
    message.id = (char *)(uintptr_t)job;
    message.rank = -1;
    message.follow = true;
    for (bool ended = false; !ended; answer_fini(&followed)) {
        const Muster__GetLogsAnswer *got = client(&world, "GetLogs", &message, &followed);
        message.cursor = got->cursor;
        ended = got->ended;
    }
    return world.now_ms - start_ms;
}

Test(service, followers_of_a_job_that_never_ran_are_let_go_at_once)
{
    struct answer submitted, cancelled;
    submit("a", NULL, &submitted);
    Muster__CancelJobRequest cancel = MUSTER__CANCEL_JOB_REQUEST__INIT;
    cancel.id = "a";
    client(&world, "CancelJob", &cancel, &cancelled);
    cr_assert_lt(followed_until_ms("a"), 50);
    answer_fini(&submitted);
    answer_fini(&cancelled);
}

Test(service, followers_of_an_ended_job_are_let_go_once_all_its_output_is_there)
{
    struct answer told, silent;
    register_node(7);
    submit("a", NULL, &told);
    const char *id = ((Muster__Job *)told.message)->id;
    report_end(id, 1, true);
    cr_expect_lt(followed_until_ms(id), 50, "its agent said that this was all");
    submit("b", NULL, &silent);
    id = ((Muster__Job *)silent.message)->id;
    report_end(id, 2, false);
    int64_t ms = followed_until_ms(id);
    cr_expect(ms > 200 && ms < 500, "an older agent does not say so: %lld ms", (long long)ms);
    answer_fini(&told);
    answer_fini(&silent);
}

Test(service, followers_wait_for_the_output_of_earlier_generations_too)
{
    struct answer submitted;
    register_node(7);
    submit("a", NULL, &submitted);
    const char *id = ((Muster__Job *)submitted.message)->id;
    report_worker_end(id, 1, &(struct worker_end){.uid = 1, .signal = SIGKILL});
    report_worker_end(id, 2, &(struct worker_end){.uid = 2, .last = true});
    int64_t ms = followed_until_ms(id);
    cr_expect(ms > 200 && ms < 500, "the first worker's agent may have more: %lld ms",
              (long long)ms);
    answer_fini(&submitted);
}

static void report_lines(const char *job, uint64_t uid, uint64_t sequence, uint64_t offset)
{
    struct answer answer;
    Muster__LogLine line = MUSTER__LOG_LINE__INIT;
    Muster__LogLine *lines[] = {&line};
    Muster__LogChunk chunk = MUSTER__LOG_CHUNK__INIT;
    Muster__LogChunk *chunks[] = {&chunk};
    Muster__MetricSample sample = MUSTER__METRIC_SAMPLE__INIT;
    Muster__MetricSample *samples[] = {&sample};
    Muster__NodeReport message = MUSTER__NODE_REPORT__INIT;
    line.text = "hello";
    chunk.job = (char *)(uintptr_t)job;
    chunk.uid = uid;
    chunk.offset = offset;
    chunk.lines = lines;
    chunk.n_lines = 1;
    sample.job = (char *)(uintptr_t)job;
    sample.generation = 1;
    sample.step = offset + 1;
    sample.name = "loss";
    sample.value = 2.5;
    message.node = "n1";
    message.incarnation = 7;
    message.sequence = sequence;
    message.logs = chunks;
    message.n_logs = 1;
    message.metrics = samples;
    message.n_metrics = 1;
    const Muster__NodeReportAnswer *got = agent(&world, "Report", &message, &answer);
    cr_assert_eq(got->sequence, sequence, "not acknowledged");
    answer_fini(&answer);
}

Test(service, output_reaches_followers_once_though_reports_repeat)
{
    struct answer submitted, read, followed, metrics;
    register_node(7);
    submit("a", NULL, &submitted);
    const char *id = ((Muster__Job *)submitted.message)->id;
    report_lines(id, 1, 1, 0);
    report_lines(id, 1, 1, 0);
    Muster__GetLogsRequest message = MUSTER__GET_LOGS_REQUEST__INIT;
    message.id = "a";
    message.rank = -1;
    const Muster__GetLogsAnswer *got = client(&world, "GetLogs", &message, &read);
    cr_assert_eq(got->n_lines, 1u);
    cr_assert_str_eq(got->lines[0]->text, "hello");
    cr_assert_not(got->ended);
    message.cursor = got->cursor;
    message.follow = true;
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "GetLogs",
                        .message = &message.base,
                        .token = world.admin};
    call_start(&world, &call, &followed);
    world_run(&world, 50);
    cr_assert_not(followed.done);
    report_lines(id, 1, 2, 1);
    cr_assert(followed.done && followed.message);
    cr_assert_eq(((Muster__GetLogsAnswer *)followed.message)->n_lines, 1u);
    Muster__GetMetricsRequest metrics_message = MUSTER__GET_METRICS_REQUEST__INIT;
    metrics_message.id = "a";
    const Muster__GetMetricsAnswer *series =
        client(&world, "GetMetrics", &metrics_message, &metrics);
    cr_assert_eq(series->n_series, 1u);
    cr_assert_eq(series->series[0]->n_points, 2u);
    answer_fini(&submitted);
    answer_fini(&read);
    answer_fini(&followed);
    answer_fini(&metrics);
}

Test(service, pages_of_jobs_meet_without_gap_or_overlap)
{
    for (int i = 0; i < 25; i++) {
        char name[16];
        struct answer answer;
        snprintf(name, sizeof name, "job-%d", i);
        submit(name, NULL, &answer);
        answer_fini(&answer);
    }
    char cursor[32] = "";
    int next = 24, pages = 0;
    do {
        struct answer answer;
        Muster__ListJobsRequest message = MUSTER__LIST_JOBS_REQUEST__INIT;
        message.limit = 10;
        message.cursor = cursor;
        message.state = "queued";
        const Muster__ListJobsAnswer *got = client(&world, "ListJobs", &message, &answer);
        for (size_t i = 0; i < got->n_jobs; i++) {
            char name[16];
            snprintf(name, sizeof name, "job-%d", next--);
            cr_assert_str_eq(got->jobs[i]->spec->name, name);
        }
        snprintf(cursor, sizeof cursor, "%s", got->next_cursor);
        answer_fini(&answer);
        pages++;
    } while (*cursor);
    cr_assert(next == -1 && pages == 3);
}

Test(service, events_are_followed)
{
    struct answer followed, submitted;
    Muster__ListEventsRequest message = MUSTER__LIST_EVENTS_REQUEST__INIT;
    message.follow = true;
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "ListEvents",
                        .message = &message.base,
                        .token = world.admin};
    call_start(&world, &call, &followed);
    world_run(&world, 20);
    cr_assert_not(followed.done);
    submit("a", NULL, &submitted);
    cr_assert(followed.done && followed.message);
    const Muster__ListEventsAnswer *got = (void *)followed.message;
    cr_assert_geq(got->n_events, 1u);
    cr_assert_eq(got->next, got->events[got->n_events - 1]->seq);
    answer_fini(&followed);
    answer_fini(&submitted);
}
