/* How long one scheduling pass takes: 10,000 jobs wait, 5,000 nodes of 8 slots in racks of 32, ten
 * tenants, three priorities, gangs of 1..16 nodes, half of them with a max_runtime.
 *
 *   fill     the cluster is empty: as many gangs as fit are placed, the rest wait with reasons
 *   full     nothing is free: reservations, backfill and who could give way are looked for
 *   trickle  half of the jobs have ended: their slots meet those who wait
 *
 * Each is one coordinator_step: the search, and making or refusing. Floor, goal and stretch are of
 * a machine, not of a peer: there is none that shows one pass alone.
 */
#include <stdio.h>

#include "bench/scheduler/world.h"
#include "common/base/assert.h"
#include "common/base/rng.h"
#include "common/base/str.h"
#include "coordinator/model/cluster_walk.h"

enum { NODES = 5000, JOBS = 10000, SLOTS = 8, TENANTS = 10, ROUNDS = 5 };

static struct spec *draw_spec(struct rng *rng)
{
    static const char *const command[] = {"train"};
    static const uint32_t sizes[] = {1, 1, 1, 2, 2, 4, 8, 16};
    static const uint32_t slots[] = {1, 2, 4, 8};
    char tenant[16], priority[8];
    struct spec *spec;
    uint32_t nodes = sizes[rng_below(rng, 8)];
    (void)str_printf(tenant, sizeof(tenant), "t%d", (int)rng_below(rng, TENANTS));
    (void)str_printf(priority, sizeof(priority), "%d", (int)rng_below(rng, 3) * 10);
    struct spec_input input = {.json = "{}",
                               .name = "job",
                               .tenant = tenant,
                               .command = command,
                               .command_count = 1,
                               .nodes_min = nodes,
                               .nodes_max = rng_chance(rng, 0.3) ? nodes * 2 : nodes,
                               .slots = slots[rng_below(rng, 4)],
                               .priority = priority,
                               .max_runtime = rng_chance(rng, 0.5) ? "1h" : NULL,
                               .topology = rng_chance(rng, 0.2) ? "rack" : NULL};
    insist(spec_build(&input, &spec, NULL) == 0);
    return spec;
}

static void add_jobs(struct cluster *cluster, struct rng *rng)
{
    for (int i = 0; i < JOBS; i++)
        (void)world_add_job(cluster, draw_spec(rng));
}

static int running(const struct cluster *cluster)
{
    int count = 0;
    for (const struct job *job = cluster_first_job(cluster); job;
         job = cluster_next_job(cluster, job))
        count += job->state == JOB_STARTING;
    return count;
}

/* Every second gang ends, as far as slots are concerned. */
static void end_half(struct cluster *cluster)
{
    int number = 0;
    for (struct job *job = cluster_first_job(cluster); job; job = cluster_next_job(cluster, job)) {
        if (job->state != JOB_STARTING || number++ % 2)
            continue;
        world_end(cluster, job, false);
    }
}

static void print(const char *metric, double worst_s, double best_s)
{
    (void)printf("{\"bench\":\"scheduler\",\"metric\":\"%s\",\"ours\":%.4f,\"best\":%.4f,"
                 "\"peer\":null,\"peer_name\":null,\"ratio\":%.4f,\"unit\":\"s\","
                 "\"target\":{\"floor\":1.0,\"goal\":0.2,\"stretch\":0.05}}\n",
                 metric, worst_s, best_s, worst_s / 1.0);
}

int main(void)
{
    static const char *const metrics[] = {"pass_fill_10k_jobs_5k_nodes",
                                          "pass_full_10k_jobs_5k_nodes",
                                          "pass_trickle_10k_jobs_5k_nodes"};
    double worst[3] = {0}, best[3] = {1e9, 1e9, 1e9};
    for (int round = 0; round < ROUNDS; round++) {
        struct cluster *cluster = cluster_new(1);
        struct rng rng;
        double took[3];
        rng_seed(&rng, (uint64_t)round + 1);
        world_add_nodes(cluster, NODES, SLOTS);
        add_jobs(cluster, &rng);
        took[0] = world_pass(cluster, 1000);
        (void)fprintf(stderr, "round %d: %d gangs placed\n", round, running(cluster));
        took[1] = world_pass(cluster, 2000);
        end_half(cluster);
        took[2] = world_pass(cluster, 3000);
        for (int i = 0; i < 3; i++) {
            worst[i] = took[i] > worst[i] ? took[i] : worst[i];
            best[i] = took[i] < best[i] ? took[i] : best[i];
        }
        cluster_free(cluster);
    }
    for (int i = 0; i < 3; i++)
        print(metrics[i], worst[i], best[i]);
    return 0;
}
