#include "coordinator/scheduler/pass.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"
#include "coordinator/model/tenant.h"
#include "coordinator/scheduler/explain.h"
#include "coordinator/scheduler/filter.h"
#include "coordinator/scheduler/reserve.h"

void pass_init(struct pass *pass, const struct cluster *cluster, int64_t now_ms)
{
    memset(pass, 0, sizeof(*pass));
    view_init(&pass->view, cluster, now_ms);
    queue_init(&pass->queue, cluster, now_ms);
}

void pass_fini(struct pass *pass)
{
    view_fini(&pass->view);
    queue_fini(&pass->queue);
    parts_fini(&pass->parts);
    free(pass->refusals);
    free(pass->evictions);
}

struct job *pass_next(struct pass *pass)
{
    return queue_next(&pass->queue);
}

bool pass_goes_on(struct pass *pass)
{
    bool left = pass->view.available > 0;
    if (pass->tries + pass->nominated_count > 0)
        pass->refused++;
    if (!left)
        pass->examined_full++;
    return pass->refused <= PASS_DEPTH_MAX &&
           (left || pass->examined_full <= PASS_TRIES_MAX + pass->nominated_count);
}

bool pass_is_ready(const struct pass *pass, const struct job *job)
{
    for (int i = 0; job->state == JOB_RESTARTING && i < job->workers_count; i++)
        if (job->workers[i].state != WORKER_EXITED)
            return false;
    return job->state == JOB_QUEUED || job->backoff_until_ms <= pass->view.now_ms;
}

static const struct reason *refused_before(const struct pass *pass, const struct request *request)
{
    for (int i = 0; i < pass->refusals_count; i++)
        if (!pass->refusals[i].reopened &&
            pass->refusals[i].release_at_ms <= request->release_at_ms &&
            request_is_same(pass->refusals[i].spec, request->spec))
            return &pass->refusals[i].reason;
    return NULL;
}

static void remember_refusal(struct pass *pass, const struct request *request,
                             const struct reason *reason)
{
    if (pass->refusals_count == PASS_REFUSALS_MAX)
        return;
    pass->refusals = array_reserve(pass->refusals, pass->refusals_count, &pass->refusals_capacity,
                                   sizeof(*pass->refusals));
    pass->refusals[pass->refusals_count++] = (struct refusal){
        .spec = request->spec, .release_at_ms = request->release_at_ms, .reason = *reason};
}

static void refuse_limit(const struct pass *pass, const struct job *job, struct reason *ret)
{
    const struct tenant *tenant = job->tenant;
    int needs = queue_slots_of(job->spec, job->spec->nodes_min);
    reason_set(ret, REASON_TENANT_LIMIT,
               "needs %d slot%s; tenant %s may use %d at once and has %d in use", needs,
               str_plural(needs), tenant->name, tenant->limit_slots,
               pass->queue.lines[tenant->number].slots);
    reason_hint(ret, "it starts when other jobs of the tenant end, or with a higher limit");
}

static void init_request(const struct pass *pass, const struct job *job, struct request *ret)
{
    *ret = (struct request){.spec = job->spec,
                            .nodes_min = job->spec->nodes_min,
                            .nodes_max = job->spec->nodes_max,
                            .sequence = job->sequence,
                            .release_at_ms = scheduler_release_at(job, pass->view.now_ms),
                            .least = true};
}

void pass_try(struct pass *pass, const struct job *job, struct verdict *ret)
{
    struct request request;
    *ret = (struct verdict){0};
    init_request(pass, job, &request);
    int allowed = queue_nodes_allowed(&pass->queue, job->tenant, job->spec, request.nodes_max);
    if (allowed < request.nodes_min) {
        refuse_limit(pass, job, &ret->reason);
        queue_unclaim(&pass->queue, job);
        ret->limited = true;
        return;
    }
    request.nodes_max = allowed;
    const struct reason *before = refused_before(pass, &request);
    if (before) {
        ret->reason = *before;
        return;
    }
    ret->placed = scheduler_place(&pass->view, &request, &ret->placement, &ret->reason);
    if (ret->placed) {
        queue_charge(&pass->queue, job->tenant, queue_slots_of(job->spec, ret->placement.count));
        return;
    }
    ret->fresh = true;
    remember_refusal(pass, &request, &ret->reason);
    if (pass->reservations >= PASS_RESERVATIONS_MAX)
        return;
    if (!pass->parts.all)
        parts_find(&pass->parts, &pass->view);
    int64_t at_ms = scheduler_reserve(&pass->view, &pass->parts, job, &request);
    if (at_ms > 0)
        pass->reserved[pass->reserved_count++] = job;
    if (at_ms > 0)
        pass->reservations++;
    ret->starts_at_ms = at_ms == INT64_MAX ? 0 : at_ms;
}

bool pass_explains_more(struct pass *pass)
{
    pass->refused++;
    return pass->refused <= PASS_FRONT_REASONS_MAX;
}

bool pass_explain(struct pass *pass, const struct job *job, struct reason *ret)
{
    struct request request;
    init_request(pass, job, &request);
    if (queue_nodes_allowed(&pass->queue, job->tenant, job->spec, request.nodes_max) <
        request.nodes_min) {
        refuse_limit(pass, job, ret);
        queue_unclaim(&pass->queue, job);
        return true;
    }
    const struct reason *before = refused_before(pass, &request);
    if (before) {
        *ret = *before;
        return true;
    }
    pass->explained++;
    if (pass->explained > PASS_EXPLAINED_MAX)
        return false;
    explain_refusal(&pass->view, &request, ret);
    remember_refusal(pass, &request, ret);
    return true;
}

void pass_add_eviction(struct pass *pass, const struct eviction *eviction)
{
    pass->evictions = array_reserve(pass->evictions, pass->evictions_count,
                                    &pass->evictions_capacity, sizeof(*pass->evictions));
    pass->evictions[pass->evictions_count++] = *eviction;
    pass->moved |= eviction->moves;
}

void pass_nominate(struct pass *pass, const struct job *job)
{
    int kept = 0;
    insist(pass->nominated_count < PASS_NOMINATED_MAX);
    pass->nominated[pass->nominated_count++] = job;
    queue_charge(&pass->queue, job->tenant, queue_slots_of(job->spec, job->spec->nodes_min));
    for (int i = 0; i < pass->reserved_count; i++)
        if (pass->reserved[i] != job)
            pass->reserved[kept++] = pass->reserved[i];
    pass->reserved_count = kept;
    for (int i = 0; i < pass->refusals_count; i++)
        pass->refusals[i].reopened |= request_is_same(pass->refusals[i].spec, job->spec);
}

/* The topology value that the placed nodes share. */
static const char *topology_value_of(const struct pass *pass, const struct job *job,
                                     const struct placement *placement)
{
    const struct view_node *node = view_find(&pass->view, placement->nodes[0].name);
    return job->spec->topology[0] ? node_label(node->node, job->spec->topology) : NULL;
}

static bool place_more(struct pass *pass, const struct job *job, struct request *request,
                       struct placement *ret)
{
    request->nodes_max =
        queue_nodes_allowed(&pass->queue, job->tenant, job->spec, request->nodes_max);
    if (request->nodes_max < request->nodes_min || pass->view.available == 0 ||
        !scheduler_place(&pass->view, request, ret, NULL))
        return false;
    queue_charge(&pass->queue, job->tenant, queue_slots_of(job->spec, ret->count));
    return true;
}

void pass_extend(struct pass *pass, const struct job *job, struct placement *placement)
{
    struct placement more = {0};
    struct request request;
    init_request(pass, job, &request);
    request.nodes_min = 1;
    request.nodes_max = job->spec->nodes_max - placement->count;
    request.least = false;
    request.avoid_placed = placement;
    request.together = topology_value_of(pass, job, placement);
    if (place_more(pass, job, &request, &more))
        placement_join(placement, &more);
}

/* Nodes reserved for a waiting job are not available to growing jobs, however soon they end:
 * victims may be making room for it right now. */
static void request_more(const struct pass *pass, const struct job *job, struct request *ret)
{
    init_request(pass, job, ret);
    ret->nodes_min = 1;
    ret->least = false;
    ret->release_at_ms = 0;
    ret->avoid = job;
}

bool pass_grow(struct pass *pass, const struct job *job, int least, const char *together,
               struct placement *ret)
{
    struct request request;
    int nodes = job->forming.generation ? job->forming.nodes : job->current.nodes;
    request_more(pass, job, &request);
    request.nodes_min = least;
    request.nodes_max = job->spec->nodes_max - nodes;
    request.together = together;
    return place_more(pass, job, &request, ret);
}

bool pass_spare(struct pass *pass, const struct job *job, int nodes, const char *together,
                struct placement *ret)
{
    struct request request;
    request_more(pass, job, &request);
    request.nodes_max = nodes;
    request.together = together;
    return place_more(pass, job, &request, ret);
}
