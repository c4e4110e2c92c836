#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/link/held.h"
#include "common/rpc/message.h"
#include "tests/unit/coordinator_api/world.h"

enum { LARGE_JOBS = 32, LARGE_WORKERS = 8 };

TestSuite(large_specs, .init = world_open, .fini = world_close);

/* Workers of jobs with specs as large as they may be: what they share goes once, in as many answers
 * as it takes, and no answer is too large to be sent. */
static void submit_large(int job)
{
    enum { SETTINGS = 200, VALUE_BYTES = 1000 };
    static char value[VALUE_BYTES + 1], keys[SETTINGS][8];
    Muster__JobSpec__EnvEntry env[SETTINGS], *list[SETTINGS];
    Muster__JobSpec__Range nodes = MUSTER__JOB_SPEC__RANGE__INIT;
    Muster__SubmitJobRequest message = MUSTER__SUBMIT_JOB_REQUEST__INIT;
    struct answer answer;
    char name[16];
    (void)snprintf(name, sizeof(name), "large-%d", job);
    memset(value, 'x', VALUE_BYTES);
    Muster__JobSpec spec = spec_of(name);
    for (int i = 0; i < SETTINGS; i++) {
        muster__job_spec__env_entry__init(&env[i]);
        (void)snprintf(keys[i], sizeof(keys[i]), "V%03d", i);
        env[i].key = keys[i];
        env[i].value = value;
        list[i] = &env[i];
    }
    nodes.min = nodes.max = 1;
    spec.nodes = &nodes;
    spec.env = list;
    spec.n_env = SETTINGS;
    spec.workers_per_node = LARGE_WORKERS;
    message.spec = &spec;
    client(&world, "SubmitJob", &message, &answer);
    answer_fini(&answer);
}

/* Polls as an agent does until it has all; returns how many answers that took. */
static int poll_all(struct held *held, uint64_t *version, size_t *ret_assignments)
{
    bool incomplete = *version == 0;
    for (int round = 1;; round++) {
        struct answer answer;
        struct arena arena = {0};
        Muster__NodePollRequest message = poll_message(*version);
        message.incomplete = incomplete;
        cr_assert_eq(held_fill(held, &arena, &message), 0);
        const Muster__NodePollAnswer *got = agent(&world, "Poll", &message, &answer);
        cr_assert_lt(protobuf_c_message_get_packed_size(&got->base), RPC_PAYLOAD_MAX_BYTES);
        cr_assert_eq(held_merge(held, got, NULL), 0);
        cr_assert_lt(round, 20, "no progress");
        *version = got->version;
        incomplete = got->incomplete;
        *ret_assignments = got->n_assignments;
        for (size_t i = 0; i < got->n_assignments && !incomplete; i++)
            cr_assert_not_null(held_find(held, got->assignments[i]->job)->spec);
        if (!incomplete)
            held_keep_only(held, got);
        answer_fini(&answer);
        arena_fini(&arena);
        if (!incomplete)
            return round;
    }
}

Test(large_specs, a_node_is_told_of_many_large_jobs_in_several_answers)
{
    struct held held = {0};
    uint64_t version = 0;
    size_t assignments = 0;
    struct answer cancelled;
    register_node_of(7, LARGE_JOBS * LARGE_WORKERS);
    for (int job = 0; job < LARGE_JOBS; job++)
        submit_large(job);
    int rounds = poll_all(&held, &version, &assignments);
    cr_expect_eq(assignments, (size_t)LARGE_JOBS * LARGE_WORKERS, "%zu", assignments);
    cr_expect(rounds >= 3 && rounds <= 5, "%d answers for %d jobs", rounds, LARGE_JOBS);
    Muster__CancelJobRequest cancel = MUSTER__CANCEL_JOB_REQUEST__INIT;
    cancel.id = (char *)"large-3";
    client(&world, "CancelJob", &cancel, &cancelled);
    answer_fini(&cancelled);
    cr_expect_eq(poll_all(&held, &version, &assignments), 1, "it holds them all");
    cr_expect_eq(assignments, (size_t)LARGE_JOBS * LARGE_WORKERS, "they are still to be stopped");
    world_restart(&world);
    cr_expect_gt(poll_all(&held, &version, &assignments), 1, "of another life: all again");
    held_fini(&held);
}

Test(large_specs, a_list_of_large_jobs_comes_in_more_pages)
{
    char cursor[32] = "";
    size_t seen = 0, pages = 0;
    for (int job = 0; job < LARGE_JOBS; job++)
        submit_large(job);
    do {
        struct answer answer;
        Muster__ListJobsRequest message = MUSTER__LIST_JOBS_REQUEST__INIT;
        message.cursor = cursor;
        const Muster__ListJobsAnswer *got = client(&world, "ListJobs", &message, &answer);
        cr_assert(got, "%s", answer.err.text);
        cr_assert_gt(got->n_jobs, 0u);
        cr_assert_lt(protobuf_c_message_get_packed_size(&got->base), RPC_PAYLOAD_MAX_BYTES);
        for (size_t i = 0; i < got->n_jobs; i++, seen++) {
            char name[24];
            (void)snprintf(name, sizeof(name), "large-%d", LARGE_JOBS - 1 - (int)seen);
            cr_assert_str_eq(got->jobs[i]->spec->name, name);
        }
        (void)snprintf(cursor, sizeof(cursor), "%s", got->next_cursor);
        answer_fini(&answer);
        pages++;
    } while (*cursor);
    cr_assert_eq(seen, (size_t)LARGE_JOBS);
    cr_assert_gt(pages, 1u);
}

Test(large_specs, an_overview_of_large_jobs_shows_the_first_of_them)
{
    struct answer answer;
    Muster__OverviewRequest message = MUSTER__OVERVIEW_REQUEST__INIT;
    for (int job = 0; job < LARGE_JOBS; job++)
        submit_large(job);
    message.limit = 100;
    const Muster__OverviewAnswer *got = client(&world, "Overview", &message, &answer);
    cr_assert(got, "%s", answer.err.text);
    cr_assert_lt(protobuf_c_message_get_packed_size(&got->base), RPC_PAYLOAD_MAX_BYTES);
    cr_assert_eq(got->jobs->waiting, (uint32_t)LARGE_JOBS);
    cr_assert_geq(got->n_queue, 2u);
    cr_assert_lt(got->n_queue, (size_t)LARGE_JOBS);
    answer_fini(&answer);
}
