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

static void expect_said_to_readers(const char *job, bool refused)
{
    struct answer answer;
    Muster__GetJobRequest get = job_named(job);
    Muster__OverviewRequest glance = MUSTER__OVERVIEW_REQUEST__INIT;
    const Muster__WhyJobAnswer *why = client(&world, "WhyJob", &get, &answer);
    cr_assert(why->n_reasons);
    cr_assert_eq(!strcmp(why->reasons[0]->kind, "changes_refused"), refused, "%s", why->summary);
    cr_assert_eq(!!strstr(why->summary, "kept is queued: the coordinator cannot store"), refused);
    answer_fini(&answer);
    const Muster__OverviewAnswer *seen = client(&world, "Overview", &glance, &answer);
    cr_assert_eq(!!strstr(seen->changes_refused, "cannot store changes"), refused);
    answer_fini(&answer);
    Muster__ListJobsRequest list = MUSTER__LIST_JOBS_REQUEST__INIT;
    const Muster__ListJobsAnswer *jobs = client(&world, "ListJobs", &list, &answer);
    cr_assert_eq(!!strstr(jobs->changes_refused, "cannot store changes"), refused);
    answer_fini(&answer);
    Muster__ListNodesRequest ask = MUSTER__LIST_NODES_REQUEST__INIT;
    const Muster__ListNodesAnswer *nodes = client(&world, "ListNodes", &ask, &answer);
    cr_assert_eq(!!strstr(nodes->changes_refused, "cannot store changes"), refused);
    answer_fini(&answer);
}

Test(service, says_why_nothing_starts_while_changes_are_refused)
{
    struct answer answer;
    submit("kept", NULL, &answer);
    answer_fini(&answer);
    expect_said_to_readers("kept", false);
    store_memory_fail_commits(world.store, 1, E_RESOURCE_EXHAUSTED);
    submit("lost", NULL, &answer);
    expect_said_to_readers("kept", true);
    world_run(&world, DRIVER_RETRY_MS + 2);
    expect_said_to_readers("kept", false);
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

Test(service, pages_of_jobs_meet_without_gap_or_overlap)
{
    for (int i = 0; i < 25; i++) {
        char name[16];
        struct answer answer;
        snprintf(name, sizeof(name), "job-%d", i);
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
            snprintf(name, sizeof(name), "job-%d", next--);
            cr_assert_str_eq(got->jobs[i]->spec->name, name);
        }
        snprintf(cursor, sizeof(cursor), "%s", got->next_cursor);
        answer_fini(&answer);
        pages++;
    } while (*cursor);
    cr_assert(next == -1 && pages == 3);
}
