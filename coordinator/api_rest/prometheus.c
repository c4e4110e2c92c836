#include "coordinator/api_rest/prometheus.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/api_rpc/service.h"
#include "coordinator/core/stall.h"
#include "coordinator/model/cluster.h"
#include "coordinator/model/cluster_pass.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/tenant.h"

#define COUNTED(upper, lower) COUNTED_JOB_##upper,
enum { JOB_STATES(COUNTED) JOB_STATE_COUNT };
#undef COUNTED
#define COUNTED(upper, lower) COUNTED_NODE_##upper,
enum { NODE_STATES(COUNTED) NODE_STATE_COUNT };
#undef COUNTED

struct totals {
    uint64_t jobs[JOB_STATE_COUNT], nodes[NODE_STATE_COUNT];
    uint64_t restarts, recoveries, workers, stalled;
    uint64_t slots, slots_used;
    struct {
        uint64_t read, lost, faulty, slowed, held, percent, percents, memory_used, memory;
        uint64_t nvlinks;
    } gpus; /* of all nodes that are not lost */
};

static void count_gpus(const struct node *node, struct totals *ret)
{
    for (int i = 0; i < node->gpus_count; i++) {
        const struct gpu_now *now = &node->gpus[i].now;
        if (now->known && !now->lost)
            ret->gpus.read++;
        if (now->lost)
            ret->gpus.lost++;
        if (node->gpus[i].held)
            ret->gpus.held++;
        if (now->xid || now->ecc_errors)
            ret->gpus.faulty++;
        if (now->slowed_by_heat || now->slowed_by_power)
            ret->gpus.slowed++;
        if (now->known && !now->lost && now->used_percent >= 0) {
            ret->gpus.percent += (uint64_t)now->used_percent;
            ret->gpus.percents++;
        }
        ret->gpus.nvlinks += now->known && !now->lost && node->gpus[i].nvlinks > 0
                                 ? (uint64_t)node->gpus[i].nvlinks
                                 : 0;
        ret->gpus.memory_used += now->known ? (uint64_t)now->memory_used_bytes : 0;
        ret->gpus.memory += now->known ? (uint64_t)node->gpus[i].memory_bytes : 0;
    }
}

static void count_jobs(const struct cluster *cluster, const char *tenant, struct totals *ret)
{
    struct reason reason;
    for (const struct job *job = cluster_first_job(cluster); job;
         job = cluster_next_job(cluster, job)) {
        if (tenant && strcmp(tenant, job->spec->tenant) != 0)
            continue;
        ret->jobs[job->state]++;
        if (!job_state_ended(job->state)) {
            ret->workers += (uint64_t)job->current.world;
            ret->stalled += core_stalled(job, &reason);
        }
    }
    for (const struct node *node = cluster_first_node(cluster); node;
         node = cluster_next_node(cluster, node)) {
        ret->nodes[node->state]++;
        if (node->state != NODE_LOST)
            count_gpus(node, ret);
        if (node->state == NODE_READY) {
            ret->slots += (uint64_t)node->slots;
            ret->slots_used += (uint64_t)node->slots_used;
        }
    }
    for (const struct tenant *one = cluster_first_tenant(cluster); one;
         one = cluster_next_tenant(cluster, one)) {
        if (tenant && strcmp(tenant, one->name) != 0)
            continue;
        ret->restarts += one->restarts;
        ret->recoveries += one->recoveries;
    }
}

static void write_head(struct buf *out, const char *name, const char *type, const char *help)
{
    (void)buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_number(struct buf *out, const char *name, const char *type, const char *help,
                         uint64_t value)
{
    write_head(out, name, type, help);
    (void)buf_printf(out, "%s %" PRIu64 "\n", name, value);
}

static void write_gpus(struct buf *out, const struct totals *totals)
{
    write_number(out, "muster_gpus", "gauge", "GPUs that agents read.", totals->gpus.read);
    write_number(out, "muster_gpus_lost", "gauge", "GPUs that cannot be read any more.",
                 totals->gpus.lost);
    write_number(out, "muster_gpus_faulty", "gauge",
                 "GPUs with a critical error (Xid) or uncorrected errors of memory.",
                 totals->gpus.faulty);
    write_number(out, "muster_gpus_held", "gauge",
                 "GPUs that get no job, as memory of ended workers is still in use.",
                 totals->gpus.held);
    write_number(out, "muster_gpus_slowed", "gauge",
                 "GPUs whose clock heat or a power limit holds down.", totals->gpus.slowed);
    write_head(out, "muster_gpus_used_ratio", "gauge",
               "Share of time with a kernel running, mean of the GPUs that tell it.");
    if (totals->gpus.percents)
        (void)buf_printf(out, "muster_gpus_used_ratio %.4f\n",
                         (double)totals->gpus.percent / 100 / (double)totals->gpus.percents);
    write_number(out, "muster_gpus_memory_bytes", "gauge", "Memory of GPUs.", totals->gpus.memory);
    write_number(out, "muster_gpus_memory_used_bytes", "gauge", "Memory of GPUs in use.",
                 totals->gpus.memory_used);
    write_number(out, "muster_gpus_nvlinks", "gauge", "Active NVLinks of GPUs that agents read.",
                 totals->gpus.nvlinks);
}

int prometheus_render(const struct cluster *cluster, const struct service_stats *stats, bool ready,
                      const char *tenant, struct buf *out)
{
    struct totals totals = {0};
    count_jobs(cluster, tenant, &totals);
    write_head(out, "muster_jobs", "gauge", "Jobs by state.");
    for (int i = 0; i < JOB_STATE_COUNT; i++)
        (void)buf_printf(out, "muster_jobs{state=\"%s\"} %" PRIu64 "\n",
                         job_state_name((enum job_state)i), totals.jobs[i]);
    write_head(out, "muster_nodes", "gauge", "Nodes by state.");
    for (int i = 0; i < NODE_STATE_COUNT; i++)
        (void)buf_printf(out, "muster_nodes{state=\"%s\"} %" PRIu64 "\n",
                         node_state_name((enum node_state)i), totals.nodes[i]);
    write_number(out, "muster_slots", "gauge", "Slots of ready nodes.", totals.slots);
    write_number(out, "muster_slots_used", "gauge", "Slots of ready nodes in use.",
                 totals.slots_used);
    write_number(out, "muster_workers", "gauge", "Workers of jobs that have not ended.",
                 totals.workers);
    write_number(out, "muster_jobs_stalled", "gauge",
                 "Running jobs with ranks that wait for others.", totals.stalled);
    write_number(out, "muster_restarts_total", "counter", "Restarts of jobs.", totals.restarts);
    write_number(out, "muster_recoveries_total", "counter", "Generations formed after a failure.",
                 totals.recoveries);
    if (tenant)
        return buf_failed(out) ? E_RESOURCE_EXHAUSTED : 0;
    write_gpus(out, &totals);
    write_number(out, "muster_passes_total", "counter", "Passes over the queue.",
                 cluster_passes(cluster));
    write_number(out, "muster_calls_total", "counter", "Calls of all services.", stats->calls);
    write_number(out, "muster_calls_failed_total", "counter", "Calls answered with an error.",
                 stats->failures);
    write_number(out, "muster_http_answers_shared_total", "counter",
                 "Requests answered as the same one before was, without a call.", stats->shared);
    write_number(out, "muster_calls_open", "gauge", "Calls not answered yet, long polls included.",
                 stats->open);
    write_number(out, "muster_metrics_memory_bytes", "gauge", "Series of metrics held in memory.",
                 stats->metrics_memory_bytes);
    write_head(out, "muster_limit", "gauge", "Limit of what callers may hold open.");
    for (int i = 0; i < LIMIT_COUNT; i++)
        (void)buf_printf(out, "muster_limit{name=\"%s\"} %d\n", limit_name((enum limit)i),
                         limit_number((enum limit)i));
    write_head(out, "muster_limit_refused_total", "counter", "What a limit turned away.");
    for (int i = 0; i < LIMIT_COUNT; i++)
        (void)buf_printf(out, "muster_limit_refused_total{name=\"%s\"} %" PRIu64 "\n",
                         limit_name((enum limit)i), stats->refused[i]);
    write_number(out, "muster_ready", "gauge", "1 while changes are accepted.", ready);
    return buf_failed(out) ? E_RESOURCE_EXHAUSTED : 0;
}
