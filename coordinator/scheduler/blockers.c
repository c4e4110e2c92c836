#include "coordinator/scheduler/blockers.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/reason.h"
#include "coordinator/model/tenant.h"
#include "coordinator/scheduler/explain.h"

static enum reason_kind why_before(const struct job *a, const struct job *b)
{
    if (queue_is_guaranteed(a->tenant, a->spec) && !queue_is_guaranteed(b->tenant, b->spec))
        return REASON_QUOTA;
    if (a->spec->priority != b->spec->priority)
        return REASON_PRIORITY;
    return a->tenant != b->tenant ? REASON_FAIR_SHARE : REASON_BEHIND;
}

void blockers_ahead(const struct job *job, const struct ahead *ahead, struct reason *ret)
{
    char names[384] = "", id[REASON_NAME_MAX], name[REASON_NAME_MAX];
    size_t used = 0;
    for (int i = 0; i < ahead->count && i < BLOCKERS_NAMED_MAX && used < sizeof(names) - 1; i++) {
        const struct job *other = ahead->named[i];
        if (str_printf(names + used, sizeof(names) - used, "%s%s (%s, priority %d)", i ? ", " : "",
                       reason_name_job(other, other->id, id),
                       reason_name_job(other, other->spec->name, name), other->spec->priority))
            break;
        used = strlen(names);
    }
    enum reason_kind kind = why_before(ahead->named[0], job);
    reason_set(ret, kind, "%d job%s before it in the queue: %s%s", ahead->count,
               ahead->count == 1 ? " waits" : "s wait", names,
               ahead->count > BLOCKERS_NAMED_MAX ? " and others" : "");
    if (kind == REASON_QUOTA)
        reason_hint(ret, "those are guaranteed to their tenants; it uses what they leave");
    else if (kind == REASON_FAIR_SHARE)
        reason_hint(ret, "tenant %s has used more for its weight; that fades with time",
                    job->tenant->name);
    else
        reason_hint(ret, "a higher priority, or max_runtime short enough to fit in between, would "
                         "bring it forward");
}

static int compare_jobs(const void *a, const void *b)
{
    const struct job *x = *(struct job *const *)a, *y = *(struct job *const *)b;
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

/* Running jobs with the same or a higher priority: it cannot preempt them by priority. */
static bool explain_holders(const struct pass *pass, const struct job *job, struct reason *ret)
{
    const struct job *found[64];
    char names[384] = "", id[REASON_NAME_MAX], name[REASON_NAME_MAX];
    int count = 0;
    size_t used = 0;
    for (struct job *other = cluster_first_begun_job(pass->view.cluster);
         other && count < (int)(sizeof(found) / sizeof(found[0]));
         other = cluster_next_begun_job(pass->view.cluster, other))
        if (other->current.generation && other->spec->priority >= job->spec->priority &&
            !view_is_absent(&pass->view, other))
            found[count++] = other;
    if (count == 0)
        return false;
    qsort(found, (size_t)count, sizeof(const struct job *), compare_jobs);
    for (int i = 0; i < count && i < BLOCKERS_NAMED_MAX && used < sizeof(names) - 1; i++) {
        if (str_printf(names + used, sizeof(names) - used, "%s%s (%s, priority %d)", i ? ", " : "",
                       reason_name_job(found[i], found[i]->id, id),
                       reason_name_job(found[i], found[i]->spec->name, name),
                       found[i]->spec->priority))
            break;
        used = strlen(names);
    }
    reason_set(ret, REASON_PRIORITY,
               "%d running job%s of its own or a higher priority cannot be preempted: %s%s", count,
               str_plural(count), names, count > BLOCKERS_NAMED_MAX ? " and others" : "");
    reason_hint(ret, "with a higher priority than theirs it could preempt them");
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
        if (!well)
            count++;
    }
    if (count == 0)
        return false;
    reason_set(ret, REASON_NODE_HEALTH, "%d node%s not ready: %s is %s (%.200s)", count,
               count == 1 ? " is" : "s are", first->name, node_state_name(first->state),
               first->reason.text);
    (void)str_copy(ret->node, sizeof(ret->node), first->name);
    if (count == 1)
        reason_hint(ret, "bring it back, or uncordon it if it was cordoned");
    else
        reason_hint(ret, "bring them back, or uncordon what was cordoned");
    return true;
}

static bool is_kind(const struct reason *reason, enum reason_kind kind)
{
    return strcmp(reason->kind, reason_name(kind)) == 0;
}

static bool is_about_slots(const struct reason *reasons, int count)
{
    for (int i = 0; i < count; i++)
        if (is_kind(&reasons[i], REASON_WAITING_FOR_SLOTS))
            return true;
    return false;
}

static void add_estimate(const struct pass *pass, int64_t starts_at_ms, struct reason *first)
{
    char hint[sizeof(first->hint)];
    if (!starts_at_ms)
        return;
    int64_t left_s = (starts_at_ms - pass->view.now_ms) / 1000;
    (void)str_copy(hint, sizeof(hint), first->hint);
    reason_hint(first,
                "%.160s; at the latest in about %lld s if those who run keep to their "
                "max_runtime",
                hint, (long long)left_s);
}

int blockers_explain(struct pass *pass, const struct job *job, const struct verdict *verdict,
                     const struct ahead *ahead, struct reason *ret, int max)
{
    struct request request = {.spec = job->spec,
                              .nodes_min = job->spec->nodes_min,
                              .nodes_max = job->spec->nodes_max,
                              .sequence = job->sequence};
    int count = 0;
    if (max <= 0)
        return 0;
    if (verdict->limited)
        ret[count++] = verdict->reason;
    else
        count = explain_all(&pass->view, &request, ret, max);
    if (!is_kind(&ret[0], REASON_CONSTRAINT_UNMET) && !is_kind(&ret[0], REASON_TOO_LARGE)) {
        if (ahead->count > 0 && count < max)
            blockers_ahead(job, ahead, &ret[count++]);
        if (is_about_slots(ret, count) && count < max)
            count += explain_holders(pass, job, &ret[count]);
        if (count < max)
            count += explain_health(pass, &ret[count]);
    }
    add_estimate(pass, verdict->starts_at_ms, &ret[0]);
    return count;
}
