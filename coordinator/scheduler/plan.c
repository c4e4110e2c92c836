#include "coordinator/scheduler/plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "coordinator/model/reason.h"
#include "coordinator/scheduler/explain.h"

enum { NAMED_MAX = 3 };

struct ahead { /* those in the queue before it */
    const struct job *named[NAMED_MAX];
    int count;
};

static void apply(struct pass *pass, const struct what_if *what_if)
{
    for (int i = 0; i < what_if->drained_count; i++) {
        struct view_node *node = view_find(&pass->view, what_if->drained[i]->name);
        if (node)
            view_drain(&pass->view, node);
    }
    for (int i = 0; i < what_if->gone_count; i++) {
        const struct job *job = what_if->gone[i];
        for (int w = 0; w < job->workers_count; w++) {
            const struct worker *worker = &job->workers[w];
            if (worker->state == WORKER_EXITED)
                continue;
            view_release(&pass->view, job, worker);
            queue_given(&pass->queue, job->tenant, -job->spec->resources.slots);
        }
        queue_leave_out(&pass->queue, job);
    }
}

/* Everybody before it in the queue is served; what is left is what it finds. */
static bool advance(struct pass *pass, const struct job *job, struct ahead *ret)
{
    struct verdict verdict;
    for (struct job *next; (next = pass_next(pass));) {
        if (next == job)
            return true;
        if (ret->count >= PLAN_DEPTH_MAX)
            return false;
        pass_try(pass, next, &verdict);
        if (!verdict.placed && ret->count < NAMED_MAX)
            ret->named[ret->count] = next;
        ret->count += !verdict.placed;
        placement_fini(&verdict.placement);
    }
    return false;
}

static enum reason_kind why_before(const struct job *a, const struct job *b)
{
    if (queue_is_owed(a->tenant, a->spec) && !queue_is_owed(b->tenant, b->spec))
        return REASON_QUOTA;
    if (a->spec->priority != b->spec->priority)
        return REASON_PRIORITY;
    return a->tenant != b->tenant ? REASON_FAIR_SHARE : REASON_BEHIND;
}

static void explain_ahead(const struct job *job, const struct ahead *ahead, struct reason *ret)
{
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; i < ahead->count && i < NAMED_MAX && used < sizeof names - 1; i++) {
        const struct job *other = ahead->named[i];
        if (str_printf(names + used, sizeof names - used, "%s%s (%s, priority %d)", i ? ", " : "",
                       other->id, other->spec->name, other->spec->priority) < 0)
            break;
        used = strlen(names);
    }
    enum reason_kind kind = why_before(ahead->named[0], job);
    reason_set(ret, kind, "%d job%s before it in the queue: %s%s", ahead->count,
               ahead->count == 1 ? " waits" : "s wait", names,
               ahead->count > NAMED_MAX ? " and others" : "");
    if (kind == REASON_QUOTA)
        reason_hint(ret, "those are guaranteed to their tenants; it uses what they leave");
    else if (kind == REASON_FAIR_SHARE)
        reason_hint(ret, "tenant %s has used more for its weight; that fades with time",
                    job->tenant->name);
    else
        reason_hint(ret, "a higher priority, or max_runtime short enough to fit in between, would "
                         "bring it forward");
}

static int compare(const void *a, const void *b)
{
    const struct job *x = *(struct job *const *)a, *y = *(struct job *const *)b;
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

/* Running jobs on nodes it could use that need not give way. */
static bool explain_holders(const struct pass *pass, const struct job *job, struct reason *ret)
{
    const struct job *found[64];
    char names[256] = "";
    int count = 0;
    size_t used = 0;
    for (struct job *other = cluster_first_active_job(pass->view.cluster);
         other && count < (int)(sizeof found / sizeof found[0]);
         other = cluster_next_active_job(pass->view.cluster, other))
        if (other->current.generation && other->spec->priority >= job->spec->priority)
            found[count++] = other;
    if (count == 0)
        return false;
    qsort(found, (size_t)count, sizeof(const struct job *), compare);
    for (int i = 0; i < count && i < NAMED_MAX && used < sizeof names - 1; i++) {
        if (str_printf(names + used, sizeof names - used, "%s%s (%s, priority %d)", i ? ", " : "",
                       found[i]->id, found[i]->spec->name, found[i]->spec->priority) < 0)
            break;
        used = strlen(names);
    }
    reason_set(ret, REASON_PRIORITY,
               "%d running job%s of its own or a higher priority need not "
               "give way: %s%s",
               count, count == 1 ? "" : "s", names, count > NAMED_MAX ? " and others" : "");
    reason_hint(ret, "a priority above theirs would make them give way");
    return true;
}

static bool explain_health(const struct pass *pass, struct reason *ret)
{
    const struct node *first = NULL;
    int count = 0;
    for (int i = 0; i < pass->view.count; i++) {
        const struct node *node = pass->view.nodes[i].node;
        bool well = node->state == NODE_READY;
        if (!well && !first)
            first = node;
        count += !well;
    }
    if (count == 0)
        return false;
    reason_set(ret, REASON_NODE_HEALTH, "%d node%s not ready: %s is %s (%.200s)", count,
               count == 1 ? " is" : "s are", first->name, node_state_name(first->state),
               first->reason.text);
    (void)str_copy(ret->node, sizeof ret->node, first->name);
    reason_hint(ret, "bring them back, or uncordon what was cordoned");
    return true;
}

static bool is_about_slots(const struct forecast *forecast)
{
    for (int i = 0; i < forecast->reasons_count; i++)
        if (strcmp(forecast->reasons[i].kind, reason_name(REASON_WAITING_FOR_SLOTS)) == 0)
            return true;
    return false;
}

static bool is_impossible(const struct forecast *forecast)
{
    static const enum reason_kind never[] = {REASON_CONSTRAINT_UNMET, REASON_TOO_LARGE};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        if (strcmp(forecast->reasons[0].kind, reason_name(never[i])) == 0)
            return true;
    return false;
}

static void explain(struct pass *pass, const struct job *job, const struct verdict *verdict,
                    const struct ahead *ahead, struct forecast *ret)
{
    struct request request = {.spec = job->spec,
                              .nodes_min = job->spec->nodes_min,
                              .nodes_max = job->spec->nodes_max,
                              .sequence = job->sequence};
    if (verdict->limited)
        ret->reasons[ret->reasons_count++] = verdict->reason;
    else
        ret->reasons_count = explain_all(&pass->view, &request, ret->reasons, PLAN_REASONS_MAX);
    if (is_impossible(ret))
        return;
    if (ahead->count > 0 && ret->reasons_count < PLAN_REASONS_MAX)
        explain_ahead(job, ahead, &ret->reasons[ret->reasons_count++]);
    if (is_about_slots(ret) && ret->reasons_count < PLAN_REASONS_MAX)
        ret->reasons_count += explain_holders(pass, job, &ret->reasons[ret->reasons_count]);
    if (ret->reasons_count < PLAN_REASONS_MAX)
        ret->reasons_count += explain_health(pass, &ret->reasons[ret->reasons_count]);
}

static void add_estimate(const struct pass *pass, struct forecast *forecast)
{
    char hint[sizeof forecast->reasons[0].hint];
    struct reason *first = &forecast->reasons[0];
    if (!forecast->starts_at_ms || forecast->reasons_count == 0)
        return;
    int64_t left_s = (forecast->starts_at_ms - pass->view.now_ms) / 1000;
    (void)str_copy(hint, sizeof hint, first->hint);
    reason_hint(first,
                "%.160s; at the latest in about %lld s if those who run keep to their "
                "max_runtime",
                hint, (long long)left_s);
}

static void look(struct pass *pass, const struct job *job, struct forecast *ret)
{
    struct verdict verdict = {0};
    struct ahead ahead = {0};
    if (!advance(pass, job, &ahead)) {
        ret->ahead = ahead.count;
        explain_ahead(job, &ahead, &ret->reasons[ret->reasons_count++]);
        return;
    }
    ret->ahead = ahead.count;
    pass_try(pass, job, &verdict);
    ret->starts = verdict.placed;
    if (verdict.placed) {
        pass_extend(pass, job, &verdict.placement);
        ret->placement = verdict.placement;
        return;
    }
    ret->starts_at_ms = verdict.starts_at_ms;
    explain(pass, job, &verdict, &ahead, ret);
    if (!verdict.limited)
        ret->concessions_count = preempt_plan(pass, job, ret->concessions, PLAN_CONCESSIONS_MAX);
    add_estimate(pass, ret);
}

/* A job for the duration of a what-if. */
static struct job stand_in(const struct cluster *cluster, const struct what_if *what_if)
{
    struct job job = {.sequence = UINT64_MAX >> 17, .state = JOB_QUEUED};
    if (what_if->job)
        job = *what_if->job;
    job.spec = (struct spec *)(uintptr_t)what_if->spec;
    job.tenant = cluster_tenant(cluster, job.spec->tenant);
    if (!job.tenant)
        job.tenant = cluster_tenant(cluster, "default");
    return job;
}

int scheduler_plan(const struct cluster *cluster, const struct what_if *what_if,
                   struct forecast *ret, struct error *err)
{
    struct pass pass;
    struct job other;
    const struct job *job = what_if->job;
    insist(job || what_if->spec);
    if (what_if->spec && scheduler_possible(cluster, what_if->spec, err) < 0)
        return E_FAILED_PRECONDITION;
    memset(ret, 0, sizeof *ret);
    pass_init(&pass, cluster, cluster_now(cluster));
    if (what_if->spec) {
        if (job)
            queue_leave_out(&pass.queue, job);
        other = stand_in(cluster, what_if);
        job = &other;
        pass.queue.extra = job;
    }
    apply(&pass, what_if);
    look(&pass, job, ret);
    pass_fini(&pass);
    return 0;
}

void forecast_fini(struct forecast *forecast)
{
    placement_fini(&forecast->placement);
}
