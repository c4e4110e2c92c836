/* What-if: the answer is what then really happens, and nothing happens by asking. */
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "common/base/rng.h"
#include "coordinator/core/step.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/tenant.h"
#include "coordinator/scheduler/plan.h"
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

TestSuite(plan, .init = begin, .fini = finish);

static void nodes(int count)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < count; i++)
        story_node_up(&s, names[i], 1);
    s.trace[0] = 0;
}

static void submit(const char *name, int min, int max, const char *max_runtime)
{
    story_submit(&s,
                 &(struct story_spec){
                     .name = name, .nodes_min = min, .nodes_max = max, .max_runtime = max_runtime});
    story_follow(&s);
}

static struct forecast ask(const struct what_if *what_if)
{
    struct forecast forecast;
    struct error err = {0};
    cr_assert_eq(scheduler_plan(s.cluster, what_if, &forecast, &err), 0, "%s", err.text);
    return forecast;
}

/* "starts a b" or "waits waiting_for_slots", then what others notice: for failures and traces. */
static const char *tell(struct forecast *forecast)
{
    static char text[2048];
    size_t used = 0;
#define ADD(...) used += (size_t)snprintf(text + used, sizeof(text) - used, __VA_ARGS__)
    ADD("%s", forecast->starts ? "starts" : forecast->waits_for_victims ? "makes_room" : "waits");
    for (int i = 0; i < forecast->placement.count; i++)
        ADD(" %s", forecast->placement.nodes[i].name);
    if (!forecast->starts && !forecast->waits_for_victims && forecast->reasons_count > 0)
        ADD(" %s", forecast->reasons[0].kind);
    for (int i = 0; i < forecast->effects_count; i++) {
        const struct effect *effect = &forecast->effects[i];
        ADD("; %s %s%s%s", effect->job->id, effect_name(effect->kind), effect->node ? " " : "",
            effect->node ? effect->node->name : "");
    }
#undef ADD
    forecast_fini(forecast);
    return text;
}

static void expect(const struct what_if *what_if, const char *expected)
{
    struct forecast forecast = ask(what_if);
    const char *seen = tell(&forecast);
    cr_expect_str_eq(seen, expected, "expected: %s\nseen:     %s", expected, seen);
}

Test(plan, another_size_a_drained_node_an_absent_job)
{
    nodes(2);
    submit("holder", 1, 1, "1h");
    submit("gang", 2, 2, NULL);
    const struct job *gang = story_job(&s, "j2");
    struct forecast forecast = ask(&(struct what_if){.job = gang});
    cr_expect_eq(forecast.starts_at_ms, story_job(&s, "j1")->runtime_deadline_ms + END_SLACK_MS);
    cr_expect(strstr(forecast.reasons[0].hint, "at the latest"), "%s", forecast.reasons[0].hint);
    cr_expect_str_eq(tell(&forecast), "waits waiting_for_slots");
    struct spec *smaller = spec_resize(gang->spec, 1, 1);
    struct what_if other = {.job = gang, .spec = smaller};
    expect(&other, "starts b");
    other.drained[other.drained_count++] = cluster_node(s.cluster, "b");
    expect(&other, "waits waiting_for_slots");
    expect(&(struct what_if){.job = gang, .gone = {story_job(&s, "j1")}, .gone_count = 1},
           "starts a b");
    expect(&(struct what_if){.job = gang,
                             .gone_tenants = {cluster_tenant(s.cluster, "default")},
                             .gone_tenants_count = 1},
           "starts a b");
    spec_release(smaller);
    cr_expect_eq(gang->state, JOB_QUEUED, "a plan changes nothing");
}

/* Each list has its limit, and a job that is asked about comes on top of them. */
Test(plan, as_many_gone_as_can_be_asked_for)
{
    struct what_if what_if = {.gone_count = WHAT_IF_MAX};
    nodes(1);
    submit("holder", 1, 1, NULL);
    submit("next", 1, 1, NULL);
    what_if.job = story_job(&s, "j2");
    for (int i = 0; i < WHAT_IF_MAX; i++)
        what_if.gone[i] = story_job(&s, "j1");
    expect(&what_if, "starts a");
}

Test(plan, nodes_that_are_not_there_yet)
{
    nodes(1);
    submit("holder", 1, 1, NULL);
    submit("next", 1, 1, NULL);
    const struct node *a = cluster_node(s.cluster, "a");
    struct spec *pair =
        story_spec_build(&(struct story_spec){.name = "pair", .nodes_min = 2, .nodes_max = 2});
    struct forecast forecast;
    struct error err = {0};
    cr_expect_eq(scheduler_plan(s.cluster, &(struct what_if){.spec = pair}, &forecast, &err),
                 E_FAILED_PRECONDITION);
    expect(&(struct what_if){.spec = pair, .added = {{a, 2}}, .added_count = 1},
           "waits waiting_for_slots; j2 starts");
    expect(&(struct what_if){.spec = pair, .added = {{a, 3}}, .added_count = 1},
           "starts a+2 a+3; j2 starts");
    expect(&(struct what_if){.added = {{a, 1}}, .added_count = 1}, "waits; j2 starts");
    cr_expect_eq(
        scheduler_plan(s.cluster,
                       &(struct what_if){.added = {{a, WHAT_IF_ADDED_MAX + 1}}, .added_count = 1},
                       &forecast, &err),
        E_INVALID_ARGUMENT);
    spec_release(pair);
}

Test(plan, what_a_drain_does_to_those_on_the_node)
{
    nodes(3);
    submit("elastic", 1, 2, NULL);
    submit("rigid", 1, 1, NULL);
    expect(&(struct what_if){.drained = {cluster_node(s.cluster, "b")}, .drained_count = 1},
           "waits; j1 shrinks b");
    expect(&(struct what_if){.drained = {cluster_node(s.cluster, "c")}, .drained_count = 1},
           "waits; j1 shrinks b; j2 restarts");
    story_node_up(&s, "d", 1);
    submit("late", 1, 1, NULL);
    s.trace[0] = 0;
    expect(&(struct what_if){.drained = {cluster_node(s.cluster, "c")}, .drained_count = 1},
           "waits; j1 shrinks b; j2 restarts");
    story_cancel(&s, "j3");
    story_follow(&s);
    story_scale(&s, "j1", 1, 2);
    story_follow(&s);
    expect(&(struct what_if){.drained = {cluster_node(s.cluster, "c")}, .drained_count = 1},
           "waits; j2 restarts");
}

Test(plan, what_is_said_of_a_drain_is_what_happens)
{
    nodes(3);
    submit("pair", 2, 2, NULL);
    expect(&(struct what_if){.drained = {cluster_node(s.cluster, "b")}, .drained_count = 1},
           "waits; j1 moves b");
    s.trace[0] = 0;
    story_node_set(&s, "b", NODE_DRAIN);
    story_follow(&s);
    story_expect(&s, "b draining administrator\nj1 reforming node_drained\n"
                     "j1 running all_joined\nb drained administrator\n");
}

/* Unlike `scale`, a drain and a preemption do not wait for the first word of its program. */
Test(plan, a_silent_gang_starts_again_at_once_as_it_is_said)
{
    s.unaware = true;
    nodes(2);
    submit("torch", 1, 2, NULL);
    story_wait(&s, UNAWARE_AFTER_MS + 1000);
    cr_assert_eq(story_job(&s, "j1")->current.nodes, 2);
    expect(&(struct what_if){.drained = {cluster_node(s.cluster, "b")}, .drained_count = 1},
           "waits; j1 restarts");
    s.trace[0] = 0;
    story_node_set(&s, "b", NODE_DRAIN);
    story_follow(&s);
    cr_expect(strstr(s.trace, "j1 restarting node_drained\n"), "%s", s.trace);
}

Test(plan, a_drain_that_ends_many_gangs_is_thought_through)
{
    enum { GANGS = STORY_WORKERS_MAX - 10, FREE = 5 };
    static struct forecast forecast;
    int again = 0;
    story_node_up(&s, "a", GANGS);
    for (int i = 0; i < GANGS; i++)
        submit("many", 1, 1, NULL);
    story_node_up(&s, "b", FREE);
    forecast =
        ask(&(struct what_if){.drained = {cluster_node(s.cluster, "a")}, .drained_count = 1});
    cr_assert_eq(forecast.effects_count, GANGS);
    for (int i = 0; i < GANGS; i++) {
        again += forecast.effects[i].kind == EFFECT_RESTARTS;
        cr_assert(i == 0 ||
                  forecast.effects[i].job->sequence > forecast.effects[i - 1].job->sequence);
    }
    cr_assert_eq(again, FREE);
    cr_assert_eq(forecast.effects_left_out, 0);
    forecast_fini(&forecast);
}

/* Those left out are counted. */
Test(plan, more_effects_than_are_told_are_counted)
{
    static struct forecast forecast;
    for (int i = 0; i < PLAN_EFFECTS_MAX + 7; i++)
        forecast_add(&forecast, &(struct effect){.kind = EFFECT_WAITS});
    cr_assert_eq(forecast.effects_count, PLAN_EFFECTS_MAX);
    cr_assert_eq(forecast.effects_left_out, 7);
}

Test(plan, one_that_a_drain_ends_takes_the_place_of_a_lower_priority)
{
    nodes(2);
    submit("low", 1, 1, NULL);
    story_submit(&s, &(struct story_spec){.name = "high", .nodes_min = 1, .priority = 10});
    story_follow(&s);
    expect(&(struct what_if){.drained = {cluster_node(s.cluster, "a")}, .drained_count = 1},
           "waits; j1 waits");
    struct what_if drain = {.drained = {cluster_node(s.cluster, "b")}, .drained_count = 1};
    struct spec *lower = story_spec_build(&(struct story_spec){.name = "last", .nodes_min = 1});
    expect(&drain, "waits; j1 waits; j2 restarts");
    drain.spec = lower;
    expect(&drain, "waits waiting_for_slots; j1 waits; j2 restarts");
    spec_release(lower);
    s.trace[0] = 0;
    story_node_set(&s, "b", NODE_DRAIN);
    story_follow(&s);
    story_expect(&s, "b draining administrator\nj2 restarting node_drained\n"
                     "b drained administrator\nj1 preempting preempted\n"
                     "j1 queued preempted\nj2 starting placed\nj2 running all_joined\n");
}

Test(plan, who_would_make_room)
{
    nodes(2);
    submit("elastic", 1, 2, NULL);
    struct spec *one = story_spec_build(&(struct story_spec){.name = "one", .nodes_min = 1});
    expect(&(struct what_if){.spec = one}, "makes_room; j1 shrinks b");
    struct spec *two = story_spec_build(
        &(struct story_spec){.name = "two", .nodes_min = 2, .nodes_max = 2, .priority = 10});
    expect(&(struct what_if){.spec = two}, "makes_room; j1 waits");
    /* Who is gone gives nothing twice. */
    expect(&(struct what_if){.spec = two, .gone = {story_job(&s, "j1")}, .gone_count = 1},
           "starts a b");
    spec_release(one);
    spec_release(two);
}

/* Worlds of many kinds: each job is planned for, then submitted. */

static const char *pick(struct rng *rng, const char *const *from, int count)
{
    return from[rng_below(rng, (uint64_t)count)];
}

static void random_world(struct rng *rng)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    static const char *const racks[] = {"r1", "r2"};
    int count = 2 + (int)rng_below(rng, 5);
    story_tenant(&s, "red", 1, (int)rng_below(rng, 4), 0);
    story_tenant(&s, "blue", 2, 0, 2 + (int)rng_below(rng, 4));
    for (int i = 0; i < count; i++) {
        story_node_label(&s, names[i], "rack", pick(rng, racks, 2));
        story_node_up(&s, names[i], 1 + (int)rng_below(rng, 3));
    }
}

static struct story_spec random_job(struct rng *rng)
{
    static const char *const tenants[] = {"red", "blue", "green"};
    static const char *const elastic[] = {"in_place", "in_place", "restart", "off"};
    static const char *const times[] = {NULL, "1m", "20m", "2h"};
    static const char *const topologies[] = {NULL, NULL, NULL, "rack"};
    int min = 1 + (int)rng_below(rng, 3);
    struct story_spec job = {.name = "job",
                             .nodes_min = min,
                             .nodes_max = min + (int)rng_below(rng, 3),
                             .workers = 1 + (int)rng_below(rng, 2),
                             .slots = 1,
                             .priority = 10 * (int)rng_below(rng, 3),
                             .tenant = pick(rng, tenants, 3),
                             .elastic = pick(rng, elastic, 4),
                             .spares = rng_below(rng, 3) == 0,
                             .topology = pick(rng, topologies, 4),
                             .max_runtime = pick(rng, times, 4)};
    if (strcmp(job.elastic, "off") == 0)
        job.nodes_max = job.nodes_min;
    return job;
}

static void end_one(struct rng *rng)
{
    int skip = (int)rng_below(rng, 4);
    for (struct job *job = cluster_first_active_job(s.cluster); job;
         job = cluster_next_active_job(s.cluster, job))
        if (job->state == JOB_RUNNING && skip-- == 0) {
            story_cancel(&s, job->id);
            return;
        }
}

/* Where a job is being started, as the plan tells it. */
static void tell_started(const struct job *job, char *ret, size_t size)
{
    size_t used = (size_t)snprintf(ret, size, "starts");
    for (const struct node *node = cluster_first_node(s.cluster); node;
         node = cluster_next_node(s.cluster, node))
        if (map_get(&node->jobs, job->sequence))
            used += (size_t)snprintf(ret + used, size - used, " %s", node->name);
}

/* Those who were not told to go and now are. */
static bool gives_way(const struct effect *effect)
{
    if (effect->kind == EFFECT_WAITS || effect->kind == EFFECT_RESTARTS)
        return effect->job->state == JOB_PREEMPTING || effect->job->state == JOB_RESTARTING;
    for (int i = 0; i < effect->job->workers_count; i++) {
        const struct worker *worker = &effect->job->workers[i];
        if (strcmp(worker->node, effect->node->name) == 0 && worker->state != WORKER_EXITED &&
            !worker->leaving)
            return false; /* spares leave at once, others in their time */
    }
    return true;
}

static void check_against(const struct forecast *forecast, const struct job *job, unsigned seed)
{
    char seen[512], planned[512] = "";
    if (forecast->starts) {
        struct forecast copy = {.starts = true, .placement = forecast->placement};
        tell_started(job, seen, sizeof(seen));
        size_t used = (size_t)snprintf(planned, sizeof(planned), "starts");
        for (int i = 0; i < copy.placement.count; i++)
            used += (size_t)snprintf(planned + used, sizeof(planned) - used, " %s",
                                     copy.placement.nodes[i].name);
        cr_assert_str_eq(seen, planned, "seed %u, %s: planned: %s, seen: %s", seed, job->id,
                         planned, seen);
        return;
    }
    if (forecast->waits_for_victims && job->state == JOB_STARTING)
        return; /* spares are given at once */
    cr_assert_eq(job->state, JOB_QUEUED, "seed %u: %s was to wait", seed, job->id);
    if (forecast->ahead == 0) /* else it may be told what one before it was told */
        cr_assert_str_eq(job->reason.kind, forecast->reasons[0].kind, "seed %u, %s: %s | %s", seed,
                         job->id, job->reason.text, forecast->reasons[0].text);
    /* A pass that has nothing left to give ends before it comes to all. */
    if (job->starts_at_ms && !forecast->waits_for_victims)
        cr_assert_eq(job->starts_at_ms, forecast->starts_at_ms,
                     "seed %u, %s: %lld | %lld (now %lld)", seed, job->id,
                     (long long)job->starts_at_ms, (long long)forecast->starts_at_ms,
                     (long long)s.now_ms);
    for (int i = 0; i < forecast->effects_count; i++)
        cr_assert(gives_way(&forecast->effects[i]), "seed %u: %s was to give way to %s", seed,
                  forecast->effects[i].job->id, job->id);
}

static void plan_and_submit(struct rng *rng, unsigned seed)
{
    struct forecast forecast;
    struct error err = {0};
    struct story_spec facts = random_job(rng);
    struct spec *spec = story_spec_build(&facts);
    int rc = scheduler_plan(s.cluster, &(struct what_if){.spec = spec}, &forecast, &err);
    spec_release(spec);
    story_submit(&s, &facts);
    cr_assert_eq(rc, s.error.code, "seed %u: %s | %s", seed, err.text, s.error.text);
    if (rc < 0) {
        cr_assert_str_eq(err.text, s.error.text);
        return;
    }
    const struct job *job = story_job(&s, s.answered);
    check_against(&forecast, job, seed);
    bool waits = forecast.waits_for_victims;
    s.trace[0] = 0;
    forecast_fini(&forecast);
    story_follow(&s);
    /* While gangs end one worker after another, one of a tenant that was at its limit may start. */
    if (waits)
        cr_assert(job->state != JOB_QUEUED || strstr(s.trace, " starting placed"),
                  "seed %u: room was made for %s in vain", seed, job->id);
}

Test(plan, the_answer_is_what_then_happens)
{
    for (unsigned seed = 1; seed <= 500; seed++) {
        struct rng rng;
        finish();
        begin();
        rng_seed(&rng, seed);
        random_world(&rng);
        for (int i = 0; i < 12; i++) {
            plan_and_submit(&rng, seed);
            if (rng_below(&rng, 3) == 0)
                end_one(&rng);
            story_wait(&s, 1000);
        }
    }
}
