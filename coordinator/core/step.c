#include "coordinator/core/step.h"

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/checkpoint.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/core/evict.h"
#include "coordinator/core/job.h"
#include "coordinator/core/job_ledger.h"
#include "coordinator/core/job_size.h"
#include "coordinator/core/lease.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/node.h"
#include "coordinator/core/node_forget.h"
#include "coordinator/core/place.h"
#include "coordinator/core/scale.h"
#include "coordinator/core/step_state.h"
#include "coordinator/core/tenant.h"
#include "coordinator/model/cluster_pass.h"
#include "coordinator/model/cluster_timers.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/tenant.h"

enum {
    ROUNDS_MAX = 1000, /* settle and place feed each other; each round must end something */
    RESTART_LEAP = 1 << 20,
};

static void handle_due(struct step *step)
{
    struct node *node;
    struct job *job;
    while ((node = cluster_due_node(step->cluster, step->now_ms)))
        node_lease_due(step, node);
    while ((job = cluster_due_job(step->cluster, step->now_ms))) {
        step_revisit(step, job);
        step->wants_pass = step->wants_pass || job->waiting || job->grow_after_ms <= step->now_ms;
    }
}

/* No report was processed while the coordinator itself was paused (stopped, swapped out, its
 * machine asleep): every deadline for a report starts again. */
static void notice_absence(struct step *step)
{
    int64_t due_ms = core_wake_at(step->cluster);
    if (due_ms == INT64_MAX || step->now_ms - due_ms < ABSENCE_MS)
        return;
    for (struct node *node = cluster_first_node(step->cluster); node;
         node = cluster_next_node(step->cluster, node))
        if (node->state != NODE_LOST)
            node_grant_lease(step, node, LEASE_MS);
    for (struct job *job = cluster_first_active_job(step->cluster); job;
         job = cluster_next_active_job(step->cluster, job))
        job_resumed(step, job);
}

static void handle_restored(struct step *step)
{
    cluster_rebuild_use(step->cluster, step->now_ms, step->wall_ms);
    for (struct node *node = cluster_first_node(step->cluster); node;
         node = cluster_next_node(step->cluster, node))
        node_restored(step, node);
    for (struct job *job = cluster_first_job(step->cluster); job;
         job = cluster_next_job(step->cluster, job))
        job_size_apply(step, job); /* specs are stored as submitted */
    for (struct job *job = cluster_first_active_job(step->cluster); job;
         job = cluster_next_active_job(step->cluster, job))
        job_restored(step, job);
    step->wants_pass = true;
}

static void dispatch_event(struct step *step)
{
    switch (step->event->kind) {
    case EVENT_TICK:
    case EVENT_PASS:
        break; /* every step handles what is due, and makes a wanted pass */
    case EVENT_RESTORED:
        handle_restored(step);
        break;
    case EVENT_NODE_REGISTER:
        node_register(step);
        break;
    case EVENT_NODE_REPORT:
        node_report(step);
        break;
    case EVENT_NODE_GONE:
        node_gone(step);
        break;
    case EVENT_NODE_SET:
        node_command(step);
        break;
    case EVENT_JOB_SUBMIT:
        job_submit(step);
        break;
    case EVENT_JOB_CANCEL:
        job_cancel(step);
        break;
    case EVENT_CHECKPOINT:
        checkpoint_commit(step);
        break;
    case EVENT_JOB_SCALE:
        job_scale(step);
        break;
    case EVENT_JOB_STACKS:
        job_stacks(step);
        break;
    case EVENT_JOB_CHANNEL:
        job_channel(step);
        break;
    case EVENT_HALT:
        evict_all(step);
        break;
    case EVENT_TENANT_SET:
        tenant_set(step);
        break;
    case EVENT_NODES_FORGET:
        nodes_forget(step);
        break;
    }
}

static void settle_all(struct step *step)
{
    bool later = step->event->pass_later;
    step->wants_pass = step->wants_pass || cluster_wants_pass(step->cluster);
    for (int round = 0; step->to_settle.count > 0 || (step->wants_pass && !later); round++) {
        insist(round < ROUNDS_MAX);
        for (struct map_entry *e; (e = map_first(&step->to_settle));) {
            struct job *job = e->value;
            map_remove(&step->to_settle, job->sequence);
            job_settle(step, job);
        }
        if (step->wants_pass && !later) {
            step->wants_pass = false;
            place_waiting(step);
        }
    }
    cluster_want_pass(step->cluster, step->wants_pass);
}

/* Versions that stay ahead of those an earlier life of this coordinator used without storing. Wall
 * time rises faster than versions. If it jumped back, a leap exceeds the versions used between two
 * times a job is stored. */
static uint64_t next_version(const struct step *step, uint64_t version)
{
    bool restart = step->event->kind == EVENT_RESTORED;
    uint64_t floor = restart && step->wall_ms > 0 ? (uint64_t)step->wall_ms : 0;
    uint64_t next = version + (restart ? RESTART_LEAP : 1);
    return next > floor ? next : floor;
}

/* Step reports do not settle the job, so set its timer for the hang limit here. */
static void watch_for_hang(struct step *step, struct job *job)
{
    int64_t at_ms = ledger_hangs_at_ms(&job->ledger);
    bool sooner = heap_contains(&job->timer) && job->timer.key <= at_ms;
    if (job->state == JOB_RUNNING && at_ms != INT64_MAX && !sooner)
        cluster_wake_job(step->cluster, job, at_ms);
}

static void emit_actions(struct step *step)
{
    for (struct map_entry *e = map_first(&step->to_store); e; e = map_next(e))
        step_show(step, e->value);
    for (struct map_entry *e = map_first(&step->to_show); e; e = map_next(e)) {
        struct job *job = e->value;
        if (job_ledger_follow(job, step->now_ms))
            step_store(step, job);
        watch_for_hang(step, job);
        job->version = next_version(step, job->version);
        (void)str_copy(actions_add(step->ret, ACTION_JOB_CHANGED)->job, sizeof(job->id), job->id);
    }
    for (struct map_entry *e = map_first(&step->to_store); e; e = map_next(e)) {
        struct job *job = e->value;
        (void)str_copy(actions_add(step->ret, ACTION_STORE_JOB)->job, sizeof(job->id), job->id);
    }
    for (struct map_entry *e = strmap_first(&step->reassigned); e; e = map_next(e)) {
        struct node *node = cluster_node(step->cluster, e->name);
        if (!node)
            continue;
        node->desired_version = next_version(step, node->desired_version);
        (void)str_copy(actions_add(step->ret, ACTION_NODE_CHANGED)->node, sizeof(node->name),
                       node->name);
    }
    for (struct map_entry *e = strmap_first(&step->nodes); e; e = map_next(e))
        (void)str_copy(actions_add(step->ret, ACTION_STORE_NODE)->node, NAME_LENGTH_MAX + 1,
                       e->name);
    int64_t wake = core_wake_at(step->cluster);
    if (wake != INT64_MAX)
        actions_add(step->ret, ACTION_WAKE_AT)->at_ms = wake;
}

void coordinator_step(struct cluster *cluster, const struct event *event, struct actions *ret)
{
    struct step step = {.cluster = cluster,
                        .event = event,
                        .ret = ret,
                        .now_ms = event->now_ms,
                        .wall_ms = event->wall_ms};
    cluster_set_now(cluster, event->now_ms, event->wall_ms);
    notice_absence(&step);
    dispatch_event(&step);
    handle_due(&step);
    settle_all(&step);
    emit_actions(&step);
    map_fini(&step.to_settle);
    map_fini(&step.to_store);
    map_fini(&step.to_show);
    strmap_fini(&step.nodes);
    strmap_fini(&step.reassigned);
}

int64_t core_wake_at(const struct cluster *cluster)
{
    return cluster_next_wake(cluster);
}
