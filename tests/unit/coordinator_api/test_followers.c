/* What is followed: changes, events, output, and when that ends. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/rpc/message.h"
#include "coordinator/api_rpc/service.h"
#include "coordinator/driver.h"
#include "coordinator/store/store_memory.h"
#include "tests/unit/coordinator_api/world.h"

TestSuite(followers, .init = world_open, .fini = world_close);

static void submit(const char *name, const char *key, struct answer *ret)
{
    submit_true(name, world.admin, key, ret);
}

static void register_node(uint64_t incarnation)
{
    register_node_of(incarnation, 2);
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

Test(followers, followers_of_a_job_that_never_ran_are_let_go_at_once)
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

Test(followers, followers_of_an_ended_job_are_let_go_once_all_its_output_is_there)
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
    cr_expect(ms >= 3000 && ms < 3500, "it is waited for as long as a node may be silent: %lld ms",
              (long long)ms);
    answer_fini(&told);
    answer_fini(&silent);
}

Test(followers, what_a_slow_agent_still_owes_of_an_ended_job_is_waited_for)
{
    struct answer submitted, followed;
    register_node(7);
    submit("a", NULL, &submitted);
    const char *id = ((Muster__Job *)submitted.message)->id;
    report_end(id, 1, false);
    Muster__GetLogsRequest message = MUSTER__GET_LOGS_REQUEST__INIT;
    message.id = (char *)(uintptr_t)id;
    message.rank = -1;
    message.follow = true;
    const Muster__GetLogsAnswer *got = client(&world, "GetLogs", &message, &followed);
    message.cursor = got->cursor;
    answer_fini(&followed);
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "GetLogs",
                        .message = &message.base,
                        .token = world.admin};
    call_start(&world, &call, &followed);
    world_run(&world, 2000);
    cr_assert_not(followed.done, "its agent may be as late as that");
    report_lines(id, 1, 2, 1);
    cr_assert(followed.done && followed.message);
    got = (const void *)followed.message;
    cr_expect_eq(got->n_lines, 1u);
    cr_expect_not(got->ended, "there may be more");
    answer_fini(&submitted);
    answer_fini(&followed);
}

Test(followers, followers_wait_for_the_output_of_earlier_generations_too)
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

Test(followers, output_reaches_followers_once_though_reports_repeat)
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

Test(followers, watchers_hear_of_changes)
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

Test(followers, events_are_followed)
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
