/* Rehearsals against figures that can be worked out by hand, and against queueing theory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "common/base/rng.h"
#include "coordinator/rehearsal/rehearsal.h"

enum { MINUTE_MS = 60000 };

static struct rehearsal_tenant tenants[2];
static struct rehearsal_node nodes[8];

static struct rehearsal cluster(int count, int slots)
{
    struct rehearsal ret = {.nodes = nodes, .nodes_count = count, .tenants = tenants};
    memset(nodes, 0, sizeof(nodes));
    memset(tenants, 0, sizeof(tenants));
    for (int i = 0; i < count; i++) {
        snprintf(nodes[i].name, sizeof(nodes[i].name), "n%d", i);
        nodes[i].slots = slots;
    }
    tenants[0] = (struct rehearsal_tenant){.name = "default", .weight = 1};
    tenants[1] = (struct rehearsal_tenant){.name = "other", .weight = 1};
    ret.tenants_count = 2;
    return ret;
}

static struct rehearsal_job job(const char *name, int submit_min, int duration_min, int max)
{
    struct rehearsal_job ret = {.tenant = "default",
                                .submit_ms = (int64_t)submit_min * MINUTE_MS,
                                .duration_ms = (int64_t)duration_min * MINUTE_MS,
                                .nodes_min = max,
                                .nodes_max = max,
                                .workers_per_node = 1,
                                .slots = 1};
    snprintf(ret.name, sizeof(ret.name), "%s", name);
    return ret;
}

static struct rehearsal_figures run(struct rehearsal *rehearsal)
{
    struct rehearsal_figures figures;
    struct error err = {0};
    cr_assert_eq(rehearsal_run(rehearsal, &figures, &err), 0, "%s", err.text);
    return figures;
}

Test(rehearsal, waits_and_utilisation_are_what_a_person_works_out)
{
    struct rehearsal life = cluster(2, 1);
    struct rehearsal_job jobs[] = {job("a", 0, 10, 1), job("b", 0, 20, 1), job("c", 2, 6, 1),
                                   job("d", 2, 4, 2)};
    life.jobs = jobs;
    life.jobs_count = 4;
    struct rehearsal_figures got = run(&life); /* c runs 10..16, d needs both: 20..24 */
    cr_expect_eq(got.done, 4);
    cr_expect_eq(jobs[2].start_ms, 10 * MINUTE_MS);
    cr_expect_eq(jobs[3].start_ms, 20 * MINUTE_MS);
    cr_expect_eq(got.makespan_ms, 24 * MINUTE_MS);
    cr_expect_eq(got.wait_mean_ms, (0 + 0 + 8 + 18) * MINUTE_MS / 4);
    cr_expect_eq(got.wait_median_ms, 0);
    cr_expect_eq(got.wait_p95_ms, 18 * MINUTE_MS);
    cr_expect_float_eq(got.utilisation, (10 + 20 + 6 + 8) / 48.0, 1e-9);
    cr_expect_float_eq(got.slowdown_mean, (1 + 1 + 14 / 6.0 + 22 / 4.0) / 4, 1e-9);
}

Test(rehearsal, a_start_takes_its_time)
{
    struct rehearsal life = cluster(1, 1);
    struct rehearsal_job jobs[] = {job("a", 0, 10, 1)};
    life.jobs = jobs;
    life.jobs_count = 1;
    life.start_ms = 30000;
    (void)run(&life);
    cr_expect_eq(jobs[0].start_ms, 0);
    cr_expect_eq(jobs[0].end_ms, 10 * MINUTE_MS + 30000);
}

/* 60 node minutes: 10 alone with two nodes are 20 of them, and so on. */
Test(rehearsal, an_elastic_job_takes_as_much_longer_as_it_has_less)
{
    struct rehearsal life = cluster(2, 1);
    struct rehearsal_job jobs[] = {job("elastic", 0, 30, 2), job("urgent", 10, 10, 1)};
    jobs[0].nodes_min = 1;
    jobs[1].priority = 9;
    life.jobs = jobs;
    life.jobs_count = 2;
    struct rehearsal_figures got = run(&life);
    cr_expect_eq(jobs[1].start_ms, 10 * MINUTE_MS);
    cr_expect_eq(jobs[1].end_ms, 20 * MINUTE_MS);
    cr_expect_eq(jobs[0].end_ms, 35 * MINUTE_MS, "20 + 10 of 60 after 20 min, then two again");
    cr_expect_eq(got.resizes, 2);
    cr_expect_eq(got.preemptions, 0);
}

Test(rehearsal, who_gives_way_loses_nothing_and_comes_back)
{
    struct rehearsal life = cluster(1, 1);
    struct rehearsal_job jobs[] = {job("low", 0, 30, 1), job("high", 10, 5, 1)};
    jobs[1].priority = 9;
    life.jobs = jobs;
    life.jobs_count = 2;
    struct rehearsal_figures got = run(&life);
    cr_expect_eq(got.preemptions, 1);
    cr_expect_eq(jobs[1].start_ms, 10 * MINUTE_MS);
    cr_expect_eq(jobs[0].end_ms, 35 * MINUTE_MS);
}

Test(rehearsal, what_can_never_run_is_refused_and_what_runs_too_long_fails)
{
    struct rehearsal life = cluster(1, 1);
    struct rehearsal_job jobs[] = {job("wide", 0, 1, 2), job("late", 0, 10, 1)};
    jobs[1].max_runtime_ms = 5 * MINUTE_MS;
    life.jobs = jobs;
    life.jobs_count = 2;
    struct rehearsal_figures got = run(&life);
    cr_expect_eq(got.failed, 1);
    cr_expect_eq(got.done, 0);
}

Test(rehearsal, equal_weights_share_equally)
{
    enum { EACH = 40 };
    struct rehearsal life = cluster(2, 1);
    struct rehearsal_job *jobs = calloc((size_t)EACH * 2, sizeof(*jobs));
    for (int i = 0; i < EACH * 2; i++) {
        jobs[i] = job("j", 0, 30, 1);
        if (i % 2)
            snprintf(jobs[i].tenant, sizeof(jobs[i].tenant), "other");
    }
    life.jobs = jobs;
    life.jobs_count = EACH * 2;
    struct rehearsal_figures got = run(&life);
    cr_expect_float_eq(got.fairness, 1, 1e-6);
    cr_expect_float_eq(tenants[0].share, 0.5, 1e-6);
    free(jobs);
}

/* M/M/c, first come first served: mean wait = C(c, a) / (c mu - lambda), A. K. Erlang 1917. */
static double erlang_wait_ms(int servers, double load, double service_ms)
{
    double sum = 0, term = 1;
    for (int k = 0; k < servers; k++) {
        sum += term;
        term *= load / (k + 1);
    }
    double last = term * servers / (servers - load);
    return last / (sum + last) * service_ms / (servers - load);
}

Test(rehearsal, waits_of_a_random_queue_are_those_of_erlang)
{
    enum { JOBS = 20000, SERVERS = 4, SERVICE_MS = 60000 };
    static const double load = 2.8;
    struct rehearsal life = cluster(SERVERS, 1);
    struct rehearsal_job *jobs = calloc(JOBS, sizeof(*jobs));
    struct rng rng;
    double now_ms = 0;
    rng_seed(&rng, 11);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = job("q", 0, 0, 1);
        jobs[i].submit_ms = (int64_t)now_ms;
        jobs[i].duration_ms = (int64_t)(-SERVICE_MS * log(1 - rng_double(&rng)));
        now_ms += -SERVICE_MS / load * log(1 - rng_double(&rng));
    }
    life.jobs = jobs;
    life.jobs_count = JOBS;
    struct rehearsal_figures got = run(&life);
    double want_ms = erlang_wait_ms(SERVERS, load, SERVICE_MS);
    cr_expect_eq(got.done, JOBS);
    cr_expect_float_eq((double)got.wait_mean_ms, want_ms, 0.1 * want_ms);
    cr_expect_float_eq(got.utilisation, load / SERVERS, 0.02);
    free(jobs);
}
