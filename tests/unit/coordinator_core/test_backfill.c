/* Backfill never delays the reserved start of the job in front: while every job keeps to its
 * max_runtime and no node fails, that start moves nearer or stays, whatever comes behind it, and
 * when the time has come the job runs. Over many clusters, by the state machine itself.
 */
#include <stdio.h>

#include <criterion/criterion.h>

#include "common/base/rng.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/scheduler/scheduler.h"
#include "tests/unit/coordinator_core/story.h"

enum { SEEDS = 300, ARRIVALS = 25 };

static struct story s;

struct front { /* who is watched */
    char id[32];
    int64_t reserved_ms;
};

static void random_nodes(struct rng *rng)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    int count = 2 + (int)rng_below(rng, 4);
    for (int i = 0; i < count; i++) {
        story_node_label(&s, names[i], "rack", i % 2 ? "r1" : "r2");
        story_node_up(&s, names[i], 1 + (int)rng_below(rng, 3));
    }
}

/* All say how long they run, but for some that come late and so must not go in between. */
static void arrive(struct rng *rng, bool late)
{
    static const char *const times[] = {"1m", "3m", "10m", "1h"};
    static const char *const elastic[] = {"in_place", "off"};
    int min = 1 + (int)rng_below(rng, 3);
    bool bounded = !late || rng_below(rng, 4) > 0;
    struct story_spec spec = {.name = "job",
                              .nodes_min = min,
                              .nodes_max = min + (int)rng_below(rng, 2),
                              .workers = 1 + (int)rng_below(rng, 2),
                              .elastic = elastic[rng_below(rng, 2)],
                              .topology = rng_below(rng, 5) ? NULL : "rack",
                              .max_runtime = bounded ? times[rng_below(rng, 4)] : NULL};
    if (strcmp(spec.elastic, "off") == 0)
        spec.nodes_max = spec.nodes_min;
    story_submit(&s, &spec);
    story_follow(&s);
}

static void watch(struct front *front)
{
    const struct job *first = cluster_first_waiting(s.cluster);
    *front = (struct front){.reserved_ms = INT64_MAX};
    if (first)
        (void)snprintf(front->id, sizeof(front->id), "%s", first->id);
}

static void check(struct front *front, unsigned seed)
{
    const struct job *job = story_job(&s, front->id);
    if (job->state != JOB_QUEUED) {
        cr_assert_leq(s.now_ms, front->reserved_ms, "seed %u: %s started %lld ms late", seed,
                      front->id, (long long)(s.now_ms - front->reserved_ms));
        watch(front);
        return;
    }
    if (!job->starts_at_ms)
        return; /* one that runs said nothing of its end */
    cr_assert_leq(job->starts_at_ms, front->reserved_ms, "seed %u: %s is delayed by %lld ms", seed,
                  front->id, (long long)(job->starts_at_ms - front->reserved_ms));
    front->reserved_ms = job->starts_at_ms;
}

static void run(unsigned seed, int *ret_reserved)
{
    struct rng rng;
    struct front front;
    rng_seed(&rng, seed);
    story_begin(&s);
    random_nodes(&rng);
    for (int i = 0; i < 6; i++)
        arrive(&rng, false);
    watch(&front);
    for (int i = 0; i < ARRIVALS && front.id[0]; i++) {
        check(&front, seed);
        if (front.id[0])
            *ret_reserved += story_job(&s, front.id)->starts_at_ms > 0;
        arrive(&rng, true);
        story_wait(&s, 1000 * (1 + (int64_t)rng_below(&rng, 30)));
    }
    story_end(&s);
}

Test(backfill, never_delays_the_job_in_front)
{
    int reserved = 0;
    for (unsigned seed = 1; seed <= SEEDS; seed++)
        run(seed, &reserved);
    cr_expect_gt(reserved, 10 * SEEDS / 2, "only %d looks were at a reserved start", reserved);
}
