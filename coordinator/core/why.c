#include "coordinator/core/why.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "common/base/str.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/resize.h"
#include "coordinator/core/stall.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"
#include "coordinator/model/tenant.h"
#include "coordinator/scheduler/gpu_pick.h"
#include "coordinator/scheduler/plan.h"

static bool explain_backoff(const struct cluster *cluster, const struct job *job,
                            struct reason *ret)
{
    int64_t left_ms = job->backoff_until_ms - cluster_now(cluster);
    if (job->state != JOB_RESTARTING || left_ms <= 0)
        return false;
    reason_set(ret, REASON_BACKOFF, "starts again in %lld s: it failed %d time%s without progress",
               (long long)(left_ms + 999) / 1000, job->restarts_without_progress,
               str_plural(job->restarts_without_progress));
    reason_hint(ret, "restart.backoff sets how long it waits; the cause is in its history");
    return true;
}

static int explain_place(const struct cluster *cluster, const struct job *job, struct reason *ret,
                         int max)
{
    struct what_if as_it_is = {.job = job};
    struct forecast *forecast = malloc(sizeof(*forecast));
    insist(forecast);
    (void)scheduler_plan(cluster, &as_it_is, forecast, NULL);
    int count = forecast->reasons_count < max ? forecast->reasons_count : max;
    memcpy(ret, forecast->reasons, sizeof(*ret) * (size_t)count);
    forecast_fini(forecast);
    free(forecast);
    return count;
}

/* Names the jobs that have the nodes of a gang that waits again. */
static bool explain_preemption(const struct cluster *cluster, const struct job *job,
                               struct reason *ret)
{
    const struct job *to = cluster_job(cluster, job->preempted_by);
    const struct checkpoint *from = job_last_checkpoint(job);
    if (!job->preempted_by[0])
        return false;
    char id[REASON_NAME_MAX], name[REASON_NAME_MAX];
    reason_set(ret, REASON_PREEMPTED, "gave its nodes to job %s%s%s%s",
               reason_name_job(to, job->preempted_by, id), to ? " (" : "",
               to ? reason_name_job(to, to->spec->name, name) : "", to ? ")" : "");
    if (from)
        reason_hint(ret, "it continues from its checkpoint of step %llu when there is room",
                    (unsigned long long)from->step);
    else
        reason_hint(ret, "it starts from the beginning when there is room; with checkpoint.dir it "
                         "would continue");
    return true;
}

/* Workers that start beside a gang that trains. */
static bool explain_newcomers(const struct job *job, struct reason *ret)
{
    const struct group *group = &job->forming;
    const char *node = "";
    int count = 0, nodes = 0;
    if (job->state != JOB_RUNNING || !group->generation)
        return false;
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        if (group_rank_of(&job->current, worker->uid) >= 0)
            continue;
        count++;
        if (strcmp(node, worker->node) != 0)
            nodes++;
        node = worker->node;
    }
    char where[NAME_LENGTH_MAX + 1];
    if (nodes == 1)
        (void)str_copy(where, sizeof(where), node);
    else
        (void)str_printf(where, sizeof(where), "%d nodes", nodes);
    if (job_is_moving(job)) {
        reason_set(
            ret, REASON_NODE_DRAINED,
            "moves off a node that is being emptied: %d worker%s on %s start%s, and training "
            "continues until %s ready",
            count, str_plural(count), where, count == 1 ? "s" : "",
            count == 1 ? "it is" : "all are");
        return true;
    }
    reason_set(ret, REASON_GROWING,
               "has %d of up to %d nodes: %d worker%s on %s start%s, and join%s when %s ready",
               job->current.nodes, job->spec->nodes_max, count, str_plural(count), where,
               count == 1 ? "s" : "", count == 1 ? "s" : "", count == 1 ? "it is" : "all are");
    return true;
}

/* Explains why a running gang has less than its maximum, although growth is tried each time slots
 * become free. */
static bool explain_growth(const struct cluster *cluster, const struct job *job, struct reason *ret)
{
    const struct tenant *tenant = job->tenant;
    int each = job->spec->workers_per_node * job->spec->resources.slots;
    int64_t left_ms = job->grow_after_ms - cluster_now(cluster);
    if (job->state != JOB_RUNNING || job->spec->elastic == ELASTIC_OFF ||
        job->current.nodes >= job->spec->nodes_max)
        return false;
    if (tenant->limit_slots && tenant->slots_used + each > tenant->limit_slots) {
        reason_set(ret, REASON_TENANT_LIMIT,
                   "has %d of up to %d nodes: tenant %s may use %d slots at once and has %d in use",
                   job->current.nodes, job->spec->nodes_max, tenant->name, tenant->limit_slots,
                   tenant->slots_used);
        reason_hint(ret, "it grows when other jobs of the tenant end, or with a higher limit");
    } else if (left_ms > 0 && !resize_restarts(job)) {
        reason_set(ret, REASON_GROW_FAILED, "tries to grow again in %lld s: it failed %d times",
                   (long long)(left_ms + 999) / 1000, job->grow_failures);
        reason_hint(ret, "`muster events %s` shows why the new workers did not join", job->id);
    } else {
        return false;
    }
    return true;
}

static int64_t silence_left_s(const struct cluster *cluster, const struct job *job)
{
    int64_t left_ms = resize_silence_ends(job) - cluster_now(cluster);
    return left_ms > 0 ? (left_ms + 999) / 1000 : 0;
}

/* A gang that was scaled down while it is silent. */
static bool explain_silence(const struct cluster *cluster, const struct job *job,
                            struct reason *ret)
{
    int64_t left_s = silence_left_s(cluster, job);
    if (!left_s || !job->nodes_max || job->current.nodes <= job->nodes_max)
        return false;
    reason_set(ret, REASON_SCALED,
               "has %d nodes and is to have %d: its program has said nothing yet and may be "
               "importing; in %lld s it starts again with %d",
               job->current.nodes, job->nodes_max, (long long)left_s, job->nodes_max);
    reason_hint(ret, "a program that joins before gives the nodes back in place (docs/report.md)");
    return true;
}

/* The same for a gang that has to restart in order to grow. */
static bool explain_resize(const struct cluster *cluster, const struct job *job, struct reason *ret)
{
    int64_t left_ms = resize_due(job) - cluster_now(cluster);
    if (!resize_may_grow(job))
        return false;
    if (job->capacity_since_ms) {
        reason_set(ret, REASON_GROWING,
                   "has %d of up to %d nodes: starts again from its checkpoint with more in %lld s",
                   job->current.nodes, job->spec->nodes_max,
                   left_ms > 0 ? (long long)(left_ms + 999) / 1000 : 0);
        if (silence_left_s(cluster, job))
            reason_hint(ret,
                        "its program has said nothing yet and may be importing; one that joins "
                        "before grows in place (docs/report.md)");
        else
            reason_hint(ret, "`muster scale %s %d..%d` does it at once", job->id,
                        job->spec->nodes_min, job->spec->nodes_max);
    } else {
        reason_set(ret, REASON_GROWING, "has %d of up to %d nodes", job->current.nodes,
                   job->spec->nodes_max);
        reason_hint(ret,
                    "it starts again from its checkpoint with more when nodes have been free for "
                    "%d s and no job waits for such as it has",
                    RESIZE_CAPACITY_MS / 1000);
    }
    return true;
}

/* Explains the spare nodes of a running gang, or why it has none. */
static bool explain_spares(const struct job *job, struct reason *ret)
{
    int nodes = 0, wanted = job->spec->spares;
    if (job->state != JOB_RUNNING || wanted == 0)
        return false;
    for (int i = 0; i < job->workers_count; i++) {
        if (job->workers[i].spare && job->workers[i].local_rank == 0 &&
            worker_living(&job->workers[i]))
            nodes++;
    }
    reason_set(ret, REASON_SPARE, "keeps %d of %d spare node%s", nodes, wanted, str_plural(wanted));
    if (job->spec->elastic != ELASTIC_IN_PLACE)
        reason_hint(ret, "only gangs that are elastic in place use spares");
    else if (job->current.nodes < job->spec->nodes_max)
        reason_hint(ret, "the gang has less than its max: nodes that get free go there first");
    else if (nodes < wanted)
        reason_hint(ret, "no node is free for it, or its tenant's limit is reached");
    return true;
}

struct node_ring { /* the ranks of a job on one node, by local rank */
    const struct node *node;
    struct gpu_links links;
    int slots[GPU_LINKS_MAX], count;
    uint8_t slowest;
};

static bool read_ring(const struct cluster *cluster, const struct job *job, const char *name,
                      struct node_ring *ret)
{
    bool has[GPU_LINKS_MAX] = {false};
    int each = job->spec->workers_per_node;
    *ret = (struct node_ring){.node = cluster_node(cluster, name)};
    if (each > GPU_LINKS_MAX || !ret->node || !gpu_links_of(ret->node, &ret->links))
        return false;
    for (int i = 0; i < job->workers_count; i++) {
        const struct worker *worker = &job->workers[i];
        if (!worker_living(worker) || worker->spare || strcmp(worker->node, name) != 0 ||
            worker->local_rank >= each || worker->slot >= ret->links.gpus ||
            has[worker->local_rank])
            continue;
        has[worker->local_rank] = true;
        ret->slots[worker->local_rank] = worker->slot;
        ret->count++;
    }
    ret->slowest = ret->count == each ? gpu_ring_slowest(&ret->links, ret->slots, each) : 0;
    return ret->count == each;
}

/* What the same ranks would have if the node were idle; 0 = the same. */
static uint8_t idle_ring(const struct node_ring *ring, int each)
{
    int slots[GPU_LINKS_MAX];
    int slots_count = ring->node->slots < ring->links.gpus ? ring->node->slots : ring->links.gpus;
    struct gpu_request idle = {.workers = ring->count, .each = each};
    for (int slot = 0; slot < slots_count; slot++)
        idle.free |= UINT64_C(1) << slot;
    bool picked = gpu_pick(&ring->links, &idle, slots);
    uint8_t slowest = picked ? gpu_ring_slowest(&ring->links, slots, ring->count) : 0;
    return slowest > ring->slowest ? slowest : 0;
}

static void write_ring(const struct node_ring *ring, int each, struct reason *ret)
{
    char slowest[GPU_LINK_WORD_BYTES], best[GPU_LINK_WORD_BYTES];
    struct buf indexes = {0};
    uint8_t idle = idle_ring(ring, each);
    for (int i = 0; i < ring->count; i++)
        (void)buf_printf(&indexes, "%s%d", i ? ", " : "", ring->node->gpus[ring->slots[i]].index);
    gpu_link_write(ring->slowest, slowest);
    gpu_link_write(idle, best);
    reason_set(ret, REASON_GPU_LINKS, "on %s its ranks have the GPUs %s: the slowest link is %s",
               ring->node->name, buf_cstr(&indexes), slowest);
    if (idle)
        reason_hint(ret, "idle, the node would have had GPUs with %s: others used some of them",
                    best);
    buf_fini(&indexes);
}

/* How the GPUs of a running gang are connected, on the node where that is worst. */
static bool explain_links(const struct cluster *cluster, const struct job *job, struct reason *ret)
{
    struct node_ring ring, worst = {.count = 0};
    if (job->state != JOB_RUNNING || job->spec->workers_per_node < 2)
        return false;
    for (int i = 0; i < job->workers_count; i++)
        if (job->workers[i].local_rank == 0 &&
            read_ring(cluster, job, job->workers[i].node, &ring) &&
            (!worst.count || ring.slowest < worst.slowest))
            worst = ring;
    if (worst.count)
        write_ring(&worst, job->spec->resources.slots, ret);
    return worst.count > 0;
}

/* Remove reasons with equal text. */
static int without_repeats(struct reason *reasons, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        bool said = false;
        for (int j = 0; j < kept; j++)
            said = said || strcmp(reasons[j].text, reasons[i].text) == 0;
        if (!said && kept++ != i)
            reasons[kept - 1] = reasons[i];
    }
    return kept;
}

/* Their hangs are not noticed. */
static bool reports_nothing(const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        if (job->workers[i].reports || job->workers[i].aware)
            return false;
    return job->state == JOB_RUNNING && job->step == 0;
}

int core_why(const struct cluster *cluster, const struct job *job, struct reason *ret, int max)
{
    if (max <= 0)
        return 0;
    bool places =
        job->state == JOB_QUEUED || (job->state == JOB_RESTARTING && !job_living_workers(job));
    int count = 0;
    if (places && !explain_backoff(cluster, job, ret))
        count = explain_place(cluster, job, ret, max);
    else if (places)
        count = 1;
    if (places && count < max)
        count += explain_preemption(cluster, job, &ret[count]);
    if (core_stalled(job, ret))
        count = 1;
    if (count == 0 || (count < max && job->state == JOB_REFORMING))
        ret[count++] = job->reason;
    if (count == 1 && reports_nothing(job) && !ret->hint[0])
        reason_hint(ret,
                    "it reports no steps, so no hang is noticed: `muster stacks %s` shows "
                    "where each rank is",
                    job->id);
    if (count < max &&
        (explain_newcomers(job, &ret[count]) || explain_growth(cluster, job, &ret[count]) ||
         explain_resize(cluster, job, &ret[count]) || explain_silence(cluster, job, &ret[count])))
        count++;
    if (count < max)
        count += explain_spares(job, &ret[count]);
    if (count < max)
        count += explain_links(cluster, job, &ret[count]);
    return without_repeats(ret, count);
}
