#include "coordinator/scheduler/giver.h"

#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "coordinator/scheduler/preempt.h"
#include "coordinator/scheduler/room.h"

static bool is_finishing(const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        if (job->workers[i].state == WORKER_EXITED && job->workers[i].exit.code == 0 &&
            job->workers[i].exit.signal == 0)
            return true;
    return false;
}

bool preempt_may_shrink(const struct job *job)
{
    return job->state == JOB_RUNNING && job->spec->elastic == ELASTIC_IN_PLACE &&
           job->current.joined && !job->current.broken && !job->forming.generation &&
           !is_finishing(job);
}

int64_t preempt_lost_work(const struct job *job, int64_t wall_ms)
{
    const struct checkpoint *last = job_last_checkpoint(job);
    int64_t since_ms = job->started_wall_ms ? job->started_wall_ms : wall_ms;
    if (last && last->wall_ms > since_ms)
        since_ms = last->wall_ms;
    int64_t span_ms = wall_ms > since_ms ? wall_ms - since_ms : 0;
    return span_ms * job->current.world * job->spec->resources.slots;
}

/* With fewer nodes it has to restart: it cannot re-form in place, now or later. */
static bool shrinks_by_restart(const struct job *job)
{
    return job->state == JOB_RUNNING && !job->forming.generation && !is_finishing(job) &&
           !(job->spec->elastic == ELASTIC_IN_PLACE && job->current.joined);
}

/* The number of the gang's nodes that its tenant's guarantee covers, after everything taken from
 * that tenant. If they were ended, the tenant could reclaim them at once. */
static int covered_nodes(const struct givers *givers, const struct giver *giver,
                         const struct tenant *receiver)
{
    const struct tenant *tenant = giver->job->tenant;
    if (tenant == receiver || tenant->guaranteed_slots == 0)
        return 0;
    int others = givers->pass->queue.lines[tenant->number].used - givers->taken[tenant->number] -
                 (giver->staying - giver->given);
    int slots = tenant->guaranteed_slots - others;
    return slots > 0 ? slots / queue_slots_of(giver->job->spec, 1) : 0;
}

/* A gang runs with its minimum or not at all. */
bool giver_is_covered(const struct givers *givers, const struct giver *giver)
{
    return covered_nodes(givers, giver, givers->job->tenant) >= giver->job->spec->nodes_min;
}

int giver_surplus(const struct givers *givers, const struct giver *giver)
{
    int covered = covered_nodes(givers, giver, givers->job->tenant);
    int least = giver->job->spec->nodes_min;
    return giver->job->current.nodes - giver->nodes - (covered > least ? covered : least);
}

bool giver_is_wronged(const struct givers *givers, const struct giver *giver)
{
    const struct tenant *receiver = giver->before ? giver->before : givers->job->tenant;
    int covered = covered_nodes(givers, giver, receiver), least = giver->job->spec->nodes_min;
    int has = giver->job->current.nodes > least ? giver->job->current.nodes : least;
    int left = giver->ends ? 0 : has - giver->nodes;
    return covered >= least && left < covered && left < has;
}

void giver_ask_less(struct giver *giver)
{
    giver->may_restart = giver->may_restart && giver->may_end;
    giver->may_end = giver->may_shrink = false;
}

void giver_take(struct givers *givers, struct giver *giver, int slots, int nodes)
{
    giver->given += slots;
    giver->nodes += nodes;
    givers->taken[giver->job->tenant->number] += slots;
}

static bool make_giver(const struct givers *givers, struct giver *giver)
{
    struct job *job = giver->job;
    const struct spec *wants = givers->job->spec;
    bool running =
        job->state == JOB_STARTING || job->state == JOB_RUNNING || job->state == JOB_REFORMING;
    if (!running || is_finishing(job))
        return false;
    bool lower = job->spec->priority < wants->priority;
    bool reclaims = givers->owed && job->tenant != givers->job->tenant;
    bool surplus = giver_surplus(givers, giver) > 0;
    giver->lost_work = preempt_lost_work(job, cluster_wall(givers->pass->view.cluster));
    giver->may_end = lower || reclaims;
    giver->may_shrink =
        preempt_may_shrink(job) && surplus && (job->spec->priority <= wants->priority || reclaims);
    giver->may_restart = (lower || reclaims) && shrinks_by_restart(job);
    giver->reclaimed = reclaims && !lower;
    return giver->may_shrink || (giver->may_end && ((giver->may_restart && surplus) ||
                                                    !giver_is_covered(givers, giver)));
}

/* Slots it uses: those being left count as taken, the others are returned. */
static int count_slots(struct givers *givers, const struct job *job)
{
    int staying = 0, each = job->spec->resources.slots;
    for (int i = 0; i < job->workers_count; i++)
        if (room_is_left(&job->workers[i]))
            givers->taken[job->tenant->number] += each;
        else if (job->workers[i].state != WORKER_EXITED)
            staying += each;
    return staying;
}

static int compare(const void *a, const void *b)
{
    const struct giver *x = *(const struct giver *const *)a, *y = *(const struct giver *const *)b;
    if (x->job->spec->priority != y->job->spec->priority)
        return x->job->spec->priority < y->job->spec->priority ? -1 : 1;
    if (x->lost_work != y->lost_work)
        return x->lost_work < y->lost_work ? -1 : 1;
    return x->job->sequence > y->job->sequence ? -1 : 1;
}

static void sort(struct givers *givers)
{
    const struct giver **by_rank = calloc((size_t)givers->count + 1, sizeof(struct giver *));
    givers->order = calloc((size_t)givers->count + 1, sizeof(*givers->order));
    insist(by_rank && givers->order);
    for (int i = 0; i < givers->count; i++)
        by_rank[i] = &givers->all[i];
    if (givers->count > 0)
        qsort(by_rank, (size_t)givers->count, sizeof(struct giver *), compare);
    for (int i = 0; i < givers->count; i++)
        givers->order[i] = (int)(by_rank[i] - givers->all);
    free(by_rank);
}

/* All begun jobs, with the slots that each uses. */
static int count_all(struct givers *givers)
{
    const struct view *view = &givers->pass->view;
    const int *places = givers->pass->parts.places;
    int count = 0, capacity = 0;
    for (struct job *job = cluster_first_begun_job(view->cluster); job;
         places += job->workers_count, job = cluster_next_begun_job(view->cluster, job)) {
        if (view_is_absent(view, job))
            continue;
        givers->all = array_reserve(givers->all, count, &capacity, sizeof(*givers->all));
        givers->all[count++] = (struct giver){
            .job = job, .places = places, .staying = count_slots(givers, job), .last = -1};
    }
    return count;
}

void givers_find(struct givers *givers, const struct pass *pass, const struct job *job)
{
    struct map asked = {0};
    int slots = pass->queue.lines[job->tenant->number].slots;
    *givers = (struct givers){.pass = pass, .job = job};
    givers->owed =
        slots + queue_slots_of(job->spec, job->spec->nodes_min) <= job->tenant->guaranteed_slots;
    givers->taken = calloc((size_t)pass->queue.count + 1, sizeof(*givers->taken));
    insist(givers->taken);
    int begun = count_all(givers);
    for (int i = 0; i < pass->given_count; i++)
        insist(map_set(&asked, pass->given[i].job->sequence, pass->given[i].job, NULL) == 0);
    for (int i = 0; i < begun; i++) {
        struct giver giver = givers->all[i];
        bool was_asked = asked.count > 0 && map_get(&asked, giver.job->sequence);
        bool could = make_giver(givers, &giver);
        if (!could && !was_asked)
            continue;
        if (was_asked)
            giver.may_end = giver.may_restart = false;
        giver.closed = !could;
        givers->all[givers->count++] = giver;
    }
    map_fini(&asked);
    sort(givers);
}

void givers_fini(struct givers *givers)
{
    free(givers->all);
    free(givers->order);
    free(givers->taken);
    *givers = (struct givers){0};
}

struct giver *givers_get(const struct givers *givers, const struct job *job)
{
    int low = 0, high = givers->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (givers->all[middle].job->sequence == job->sequence)
            return &givers->all[middle];
        if (givers->all[middle].job->sequence < job->sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
