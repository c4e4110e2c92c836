/* An overview of the cluster: counts of everything, and the first entries of each list. */
#include <math.h>

#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/job_query.h"
#include "coordinator/api_rpc/scope.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/wire.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/scheduler/queue.h"

enum {
    OVERVIEW_DEFAULT = 20,
    OVERVIEW_MAX = 100,
    LIST_BYTES = WIRE_LIST_MAX_BYTES / 3, /* of each list; enough for two of the largest specs */
};

struct glance {
    struct service_call *call;
    struct arena arena;
    uint32_t limit;
    Muster__OverviewAnswer answer;
    Muster__OverviewAnswer__Jobs jobs;
    Muster__OverviewAnswer__Nodes nodes;
    const struct job *running[OVERVIEW_MAX], *ended[OVERVIEW_MAX];
    uint32_t running_count, ended_count;
    bool failed;
};

static void count_job_state(Muster__OverviewAnswer__Jobs *jobs, enum job_state state)
{
    jobs->all++;
    if (!job_state_ended(state))
        jobs->active++;
    switch (state) {
#define X(upper, lower)                                                                            \
    case JOB_##upper:                                                                              \
        jobs->lower++;                                                                             \
        return;
        JOB_STATES(X)
#undef X
    }
}

static void count_node_state(Muster__OverviewAnswer__Nodes *nodes, enum node_state state)
{
    nodes->all++;
    switch (state) {
#define X(upper, lower)                                                                            \
    case NODE_##upper:                                                                             \
        nodes->lower++;                                                                            \
        return;
        NODE_STATES(X)
#undef X
    }
}

/* Insert into a list that is sorted and keeps the first `limit`. */
static void keep_first(const struct job **list, uint32_t *count, uint32_t limit,
                       const struct job *job,
                       bool (*goes_before)(const struct job *, const struct job *))
{
    if (*count == limit && !goes_before(job, list[limit - 1]))
        return;
    uint32_t at = *count < limit ? (*count)++ : limit - 1;
    for (; at > 0 && goes_before(job, list[at - 1]); at--)
        list[at] = list[at - 1];
    list[at] = job;
}

static bool runs_before(const struct job *a, const struct job *b)
{
    bool still_a = a->stalled_wall_ms, still_b = b->stalled_wall_ms;
    return still_a != still_b ? still_a : a->sequence > b->sequence;
}

static bool ended_before(const struct job *a, const struct job *b)
{
    if (a->ended_wall_ms != b->ended_wall_ms)
        return a->ended_wall_ms > b->ended_wall_ms;
    return a->sequence > b->sequence;
}

/* A restarting job has slots until its workers have ended. */
static bool is_waiting(const struct job *job)
{
    return job->waiting && job->current.world == 0;
}

static void count_waiting(struct glance *glance, const struct job *job)
{
    int64_t *since = &glance->answer.waiting_since_wall_ms;
    glance->jobs.waiting++;
    if (!*since || job->submitted_wall_ms < *since)
        *since = job->submitted_wall_ms;
}

static void count_job(struct glance *glance, const struct job *job)
{
    count_job_state(&glance->jobs, job->state);
    if (job->stalled_wall_ms != 0)
        glance->jobs.stalled++;
    if (job_state_ended(job->state)) {
        keep_first(glance->ended, &glance->ended_count, glance->limit, job, ended_before);
        return;
    }
    if (is_waiting(job)) {
        count_waiting(glance, job);
        return;
    }
    keep_first(glance->running, &glance->running_count, glance->limit, job, runs_before);
    if (job->state == JOB_RUNNING && !job->stalled_wall_ms && isfinite(job->tokens_per_second))
        glance->answer.tokens_per_second += job->tokens_per_second;
}

static void count_all(struct glance *glance)
{
    const struct cluster *cluster = service_cluster(glance->call->service);
    for (const struct job *job = cluster_first_job(cluster); job;
         job = cluster_next_job(cluster, job))
        if (scope_sees_job(glance->call, job))
            count_job(glance, job);
    for (const struct node *node = cluster_first_node(cluster); node;
         node = cluster_next_node(cluster, node)) {
        count_node_state(&glance->nodes, node->state);
        if (node->state == NODE_READY) {
            glance->answer.slots += (uint32_t)node->slots;
            glance->answer.slots_used += (uint32_t)node->slots_used;
        }
    }
}

/* NULL: failure, or the list has reached its size. */
static Muster__Job *show_job(struct glance *glance, const struct job *job, size_t *left)
{
    Muster__Job *ret = service_show_job(glance->call->service, &glance->arena, job, false);
    if (!ret || !scope_job(glance->call, &glance->arena, ret)) {
        glance->failed = true;
        return NULL;
    }
    size_t size = protobuf_c_message_get_packed_size(&ret->base);
    if (size > *left)
        return NULL;
    *left -= size;
    return ret;
}

static Muster__Job **show_all(struct glance *glance, const struct job *const *list, uint32_t count,
                              size_t *ret_shown)
{
    Muster__Job **ret = arena_pointers(&glance->arena, count);
    size_t shown = 0, left = LIST_BYTES;
    glance->failed |= !ret;
    while (ret && shown < count && (ret[shown] = show_job(glance, list[shown], &left)))
        shown++;
    *ret_shown = shown;
    return ret;
}

/* False: the list has reached its size. */
static bool add_place(struct glance *glance, const struct job *job, uint32_t number, size_t *left)
{
    Muster__OverviewAnswer__Place *place = arena_alloc(&glance->arena, sizeof(*place));
    if (!place) {
        glance->failed = true;
        return false;
    }
    muster__overview_answer__place__init(place);
    place->place = number;
    place->job = show_job(glance, job, left);
    if (place->job)
        glance->answer.queue[glance->answer.n_queue++] = place;
    return place->job;
}

/* In the scheduler's own order, which a caller could not reproduce. */
static void show_queue(struct glance *glance)
{
    struct service *service = glance->call->service;
    struct queue queue = {0};
    glance->answer.queue = arena_pointers(&glance->arena, glance->limit);
    glance->failed |= !glance->answer.queue;
    queue_init(&queue, service_cluster(service), service_now_ms(service));
    const struct job *job;
    uint32_t number = 0, wanted = glance->jobs.waiting;
    wanted = wanted < glance->limit ? wanted : glance->limit;
    size_t left = LIST_BYTES;
    bool fits = true;
    while (fits && !glance->failed && glance->answer.n_queue < wanted &&
           (job = queue_next(&queue))) {
        number += is_waiting(job);
        if (is_waiting(job) && scope_sees_job(glance->call, job))
            fits = add_place(glance, job, number, &left);
    }
    queue_fini(&queue);
}

void call_overview(struct service *service, struct service_call *call, bool last_chance)
{
    (void)last_chance;
    const Muster__OverviewRequest *message = (const void *)call->request;
    uint32_t limit = message->limit ? message->limit : OVERVIEW_DEFAULT;
    struct glance glance = {.call = call,
                            .limit = limit < OVERVIEW_MAX ? limit : OVERVIEW_MAX,
                            .answer = MUSTER__OVERVIEW_ANSWER__INIT,
                            .jobs = MUSTER__OVERVIEW_ANSWER__JOBS__INIT,
                            .nodes = MUSTER__OVERVIEW_ANSWER__NODES__INIT};
    struct error err = {0};
    arena_init(&glance.arena, WIRE_ARENA_MAX_BYTES);
    count_all(&glance);
    glance.answer.changes_refused = service_changes_refused(service, &err);
    glance.answer.jobs = &glance.jobs;
    glance.answer.nodes = &glance.nodes;
    glance.answer.running =
        show_all(&glance, glance.running, glance.running_count, &glance.answer.n_running);
    glance.answer.ended =
        show_all(&glance, glance.ended, glance.ended_count, &glance.answer.n_ended);
    show_queue(&glance);
    if (glance.failed) {
        error_set(&err, E_RESOURCE_EXHAUSTED, "the answer is too large");
        service_fail(call, &err);
    } else {
        service_answer(call, &glance.answer.base);
    }
    arena_fini(&glance.arena);
}
