/* How long one pass takes that makes room for a gang of N nodes out of 10,000, from which as many
 * others must be asked, a node each:
 *
 *   end     gangs of one node end
 *   shrink  100 elastic gangs of 101 nodes give nodes back
 *   wide    one elastic gang of all 10,000 nodes does, and keeps one at least
 *   two     two gangs of N / 2 nodes, by ending; how many of them get room is told on stderr
 *
 * Each is one coordinator_step: the search, the trial, and telling those who give way.
 */
#include <stdio.h>

#include "bench/scheduler/world.h"
#include "common/base/assert.h"
#include "coordinator/model/cluster_walk.h"

enum { NODES = 10000, SHRINK_NODES = 10100, ELASTIC = 101, ROUNDS = 3 };

enum kind { END, SHRINK, WIDE, TWO };

static struct job *submit(struct cluster *cluster, const char *priority, int min, int max)
{
    static const char *const command[] = {"train"};
    struct spec *spec;
    struct spec_input input = {.json = "{}",
                               .name = "job",
                               .tenant = "t0",
                               .command = command,
                               .command_count = 1,
                               .nodes_min = (uint32_t)min,
                               .nodes_max = (uint32_t)max,
                               .slots = 1,
                               .priority = priority};
    insist(spec_build(&input, &spec, NULL) == 0);
    return world_add_job(cluster, spec);
}

static struct cluster *full(enum kind kind)
{
    struct cluster *cluster = cluster_new(1);
    int nodes = kind == SHRINK ? SHRINK_NODES : NODES;
    int each = kind == SHRINK ? ELASTIC : kind == WIDE ? NODES : 1;
    world_add_nodes(cluster, nodes, 1);
    for (int i = 0; i < nodes / each; i++)
        (void)submit(cluster, "0", 1, each);
    (void)world_pass(cluster, 1000);
    for (struct job *job = cluster_first_job(cluster); job; job = cluster_next_job(cluster, job))
        world_run(cluster, job);
    return cluster;
}

static int asked(const struct cluster *cluster)
{
    int count = 0;
    for (const struct job *job = cluster_first_job(cluster); job;
         job = cluster_next_job(cluster, job))
        for (int i = 0; i < job->workers_count; i++)
            count += job->workers[i].leaving || job->workers[i].should_stop;
    return count;
}

static void measure(enum kind kind, int wanted)
{
    static const char *const names[] = {"end", "shrink", "wide", "two"};
    double worst = 0, best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        struct cluster *cluster = full(kind);
        int each = kind == TWO ? wanted / 2 : wanted;
        for (int i = 0; i < (kind == TWO ? 2 : 1); i++)
            (void)submit(cluster, "10", each, each);
        double took = world_pass(cluster, 2000);
        worst = took > worst ? took : worst;
        best = took < best ? took : best;
        if (round == 0)
            (void)fprintf(stderr, "%s %d: %d nodes were asked for\n", names[kind], wanted,
                          asked(cluster));
        cluster_free(cluster);
    }
    (void)printf("{\"bench\":\"scheduler\",\"metric\":\"room_%s_%d_of_10k_nodes\",\"ours\":%.4f,"
                 "\"best\":%.4f,\"peer\":null,\"peer_name\":null,\"ratio\":%.4f,\"unit\":\"s\","
                 "\"target\":{\"floor\":1.0,\"goal\":0.2,\"stretch\":0.05}}\n",
                 names[kind], wanted, worst, best, worst / 1.0);
    (void)fflush(stdout);
}

int main(void)
{
    static const int wanted[] = {1, 256, 1000, 5000, 10000};
    for (int i = 0; i < (int)(sizeof(wanted) / sizeof(wanted[0])); i++) {
        measure(END, wanted[i]);
        measure(SHRINK, wanted[i]);
        measure(WIDE, wanted[i] < NODES ? wanted[i] : NODES - 1);
        if (wanted[i] > 1)
            measure(TWO, wanted[i]);
    }
    return 0;
}
