#include "coordinator/scheduler/victim.h"

#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/query.h"
#include "coordinator/model/tenant.h"
#include "coordinator/scheduler/filter.h"

static bool any_exited_cleanly(const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        if (job->workers[i].state == WORKER_EXITED && job->workers[i].exit.code == 0 &&
            job->workers[i].exit.signal == 0)
            return true;
    return false;
}

bool job_may_shrink(const struct job *job)
{
    return job->state == JOB_RUNNING && job->spec->elastic == ELASTIC_IN_PLACE &&
           job->current.joined && !job->current.broken && !job->forming.generation &&
           !any_exited_cleanly(job);
}

static int64_t lost_work_of(const struct job *job, int64_t wall_ms)
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
    return job->state == JOB_RUNNING && !job->forming.generation && !any_exited_cleanly(job) &&
           !(job->spec->elastic == ELASTIC_IN_PLACE && job->current.joined);
}

/* The number of the gang's nodes that its tenant's guarantee covers, after all that the plan
 * preempts of that tenant. If they were ended, the tenant could reclaim them at once. */
static int guaranteed_nodes(const struct victims *victims, const struct victim *victim,
                            const struct tenant *receiver)
{
    const struct tenant *tenant = victim->job->tenant;
    if (tenant == receiver || tenant->guaranteed_slots == 0)
        return 0;
    int others = victims->pass->queue.lines[tenant->number].used - victims->taken[tenant->number] -
                 (victim->staying - victim->taken);
    int slots = tenant->guaranteed_slots - others;
    return slots > 0 ? slots / queue_slots_of(victim->job->spec, 1) : 0;
}

/* A gang runs with its minimum or not at all. */
bool victim_is_guaranteed(const struct victims *victims, const struct victim *victim)
{
    return guaranteed_nodes(victims, victim, victims->job->tenant) >= victim->job->spec->nodes_min;
}

int victim_borrowed_nodes(const struct victims *victims, const struct victim *victim)
{
    int guaranteed = guaranteed_nodes(victims, victim, victims->job->tenant);
    int least = victim->job->spec->nodes_min;
    return victim->job->current.nodes - victim->nodes_taken -
           (guaranteed > least ? guaranteed : least);
}

bool victim_is_below_guarantee(const struct victims *victims, const struct victim *victim)
{
    const struct tenant *receiver =
        victim->earlier_tenant ? victim->earlier_tenant : victims->job->tenant;
    int guaranteed = guaranteed_nodes(victims, victim, receiver),
        least = victim->job->spec->nodes_min;
    int has = victim->job->current.nodes > least ? victim->job->current.nodes : least;
    int left = victim->ends ? 0 : has - victim->nodes_taken;
    return guaranteed >= least && left < guaranteed && left < has;
}

void victim_release(struct victim *victim)
{
    victim->may_restart = victim->may_restart && victim->may_end;
    victim->may_end = victim->may_shrink = false;
}

void victim_charge(struct victims *victims, struct victim *victim, int slots, int nodes)
{
    victim->taken += slots;
    victim->nodes_taken += nodes;
    victims->taken[victim->job->tenant->number] += slots;
}

static bool init_victim(const struct victims *victims, struct victim *victim)
{
    struct job *job = victim->job;
    const struct spec *wants = victims->job->spec;
    bool running =
        job->state == JOB_STARTING || job->state == JOB_RUNNING || job->state == JOB_REFORMING;
    if (!running || any_exited_cleanly(job))
        return false;
    bool lower = job->spec->priority < wants->priority;
    bool reclaims = victims->guaranteed && job->tenant != victims->job->tenant;
    bool borrowed = victim_borrowed_nodes(victims, victim) > 0;
    victim->lost_work = lost_work_of(job, cluster_wall(victims->pass->view.cluster));
    victim->may_end = lower || reclaims;
    victim->may_shrink =
        job_may_shrink(job) && borrowed && (job->spec->priority <= wants->priority || reclaims);
    victim->may_restart = (lower || reclaims) && shrinks_by_restart(job);
    victim->reclaimed = reclaims && !lower;
    return victim->may_shrink || (victim->may_end && ((victim->may_restart && borrowed) ||
                                                      !victim_is_guaranteed(victims, victim)));
}

/* Slots it uses: those being left count as preempted, the others are returned. */
static int count_slots(struct victims *victims, const struct job *job)
{
    int staying = 0, each = job->spec->resources.slots;
    for (int i = 0; i < job->workers_count; i++)
        if (worker_is_leaving(&job->workers[i]))
            victims->taken[job->tenant->number] += each;
        else if (job->workers[i].state != WORKER_EXITED)
            staying += each;
    return staying;
}

static int compare_victims(const void *a, const void *b)
{
    const struct victim *x = *(const struct victim *const *)a,
                        *y = *(const struct victim *const *)b;
    if (x->job->spec->priority != y->job->spec->priority)
        return x->job->spec->priority < y->job->spec->priority ? -1 : 1;
    if (x->lost_work != y->lost_work)
        return x->lost_work < y->lost_work ? -1 : 1;
    return x->job->sequence > y->job->sequence ? -1 : 1;
}

static void sort_victims(struct victims *victims)
{
    const struct victim **by_rank = calloc((size_t)victims->count + 1, sizeof(struct victim *));
    victims->order = calloc((size_t)victims->count + 1, sizeof(*victims->order));
    insist(by_rank && victims->order);
    for (int i = 0; i < victims->count; i++)
        by_rank[i] = &victims->all[i];
    if (victims->count > 0)
        qsort(by_rank, (size_t)victims->count, sizeof(struct victim *), compare_victims);
    for (int i = 0; i < victims->count; i++)
        victims->order[i] = (int)(by_rank[i] - victims->all);
    free(by_rank);
}

/* All begun jobs, with the slots that each uses. */
static int add_begun_jobs(struct victims *victims)
{
    const struct view *view = &victims->pass->view;
    const int *places = victims->pass->parts.places;
    int count = 0, capacity = 0;
    for (struct job *job = cluster_first_begun_job(view->cluster); job;
         places += job->workers_count, job = cluster_next_begun_job(view->cluster, job)) {
        if (view_is_absent(view, job))
            continue;
        victims->all = array_reserve(victims->all, count, &capacity, sizeof(*victims->all));
        victims->all[count++] = (struct victim){
            .job = job, .places = places, .staying = count_slots(victims, job), .last = -1};
    }
    return count;
}

void victims_find(struct victims *victims, const struct pass *pass, const struct job *job)
{
    struct map asked = {0};
    int slots = pass->queue.lines[job->tenant->number].slots;
    *victims = (struct victims){.pass = pass, .job = job};
    victims->guaranteed =
        slots + queue_slots_of(job->spec, job->spec->nodes_min) <= job->tenant->guaranteed_slots;
    victims->taken = calloc((size_t)pass->queue.count + 1, sizeof(*victims->taken));
    insist(victims->taken);
    int begun = add_begun_jobs(victims);
    for (int i = 0; i < pass->evictions_count; i++)
        insist(map_set(&asked, pass->evictions[i].job->sequence, pass->evictions[i].job, NULL) ==
               0);
    for (int i = 0; i < begun; i++) {
        struct victim victim = victims->all[i];
        bool was_asked = asked.count > 0 && map_get(&asked, victim.job->sequence);
        bool could = init_victim(victims, &victim);
        if (!could && !was_asked)
            continue;
        if (was_asked)
            victim.may_end = victim.may_restart = false;
        victim.closed = !could;
        victims->all[victims->count++] = victim;
    }
    map_fini(&asked);
    sort_victims(victims);
}

void victims_fini(struct victims *victims)
{
    free(victims->all);
    free(victims->order);
    free(victims->taken);
    *victims = (struct victims){0};
}

struct victim *victims_get(const struct victims *victims, const struct job *job)
{
    int low = 0, high = victims->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (victims->all[middle].job->sequence == job->sequence)
            return &victims->all[middle];
        if (victims->all[middle].job->sequence < job->sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* A released node is free at once, so a job in front that can use it gets the reservation first.
 * Preempted for a later job, it would only return to its victim. */
static bool is_reserved_before(const struct pass *pass, const struct job *job,
                               const struct node *node)
{
    for (int i = 0; i < pass->reserved_count; i++) {
        const struct job *other = pass->reserved[i];
        if (other != job && !node_unmet_constraint(node, other->spec) &&
            node_large_enough(node, other->spec))
            return true;
    }
    return false;
}

bool victim_node_is_useful(const struct pass *pass, const struct job *job,
                           const struct view_node *node)
{
    return node && node->open && (!node->held_for || node->held_for == job->sequence) &&
           !is_reserved_before(pass, job, node->node) &&
           !node_unmet_constraint(node->node, job->spec) &&
           node_large_enough(node->node, job->spec);
}
