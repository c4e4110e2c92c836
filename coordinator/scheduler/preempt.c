#include "coordinator/scheduler/preempt.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/scheduler/defrag.h"
#include "coordinator/scheduler/filter.h"
#include "coordinator/scheduler/trial.h"

struct giver { /* a gang that could give way */
    struct job *job;
    int64_t lost_work;
    bool may_end;     /* and wait in the queue */
    bool may_shrink;  /* down to what it keeps, in place */
    bool may_restart; /* the same, but for that it has to end and start again */
    bool reclaimed;
};

struct plan {
    struct view view; /* a copy, as if all that was conceded were free */
    struct request request;
    const struct pass *pass;
    const struct job *job;
    bool owed;
    int *leaving; /* slots by tenant: used by those who were told to end or to leave */
    struct concession *concessions;
    int count, max;
};

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

static bool leaves(const struct worker *worker)
{
    return worker->state != WORKER_EXITED && (worker->should_stop || worker->leaving);
}

static void release_leaving(struct view *view)
{
    for (struct job *job = cluster_first_begun_job(view->cluster); job;
         job = cluster_next_begun_job(view->cluster, job))
        for (int i = 0; !view_is_absent(view, job) && i < job->workers_count; i++)
            if (leaves(&job->workers[i]))
                view_release(view, job, &job->workers[i]);
}

static void copy_view(const struct view *from, struct view *to)
{
    struct view_node *nodes = to->nodes;
    int *roomy = to->roomy;
    *to = *from;
    to->nodes = nodes;
    to->roomy = roomy;
    memcpy(nodes, from->nodes, sizeof *nodes * (size_t)from->count);
    memcpy(roomy, from->roomy, sizeof *roomy * (size_t)from->roomy_count);
    release_leaving(to);
}

void preempt_view(const struct pass *pass, struct view *ret)
{
    ret->nodes = calloc((size_t)pass->view.count + 1, sizeof *ret->nodes);
    ret->roomy = calloc((size_t)pass->view.count + 1, sizeof *ret->roomy);
    insist(ret->nodes && ret->roomy);
    copy_view(&pass->view, ret);
}

static int staying_slots(const struct job *job, const struct node *node)
{
    int slots = 0;
    for (int i = 0; i < job->workers_count; i++)
        if (job->workers[i].state != WORKER_EXITED && !leaves(&job->workers[i]) &&
            (!node || strcmp(job->workers[i].node, node->name) == 0))
            slots += job->spec->resources.slots;
    return slots;
}

static void count_leaving(struct plan *plan)
{
    for (const struct job *job = cluster_first_begun_job(plan->view.cluster); job;
         job = cluster_next_begun_job(plan->view.cluster, job))
        for (int i = 0; i < job->workers_count && !view_is_absent(&plan->view, job); i++)
            if (leaves(&job->workers[i]))
                plan->leaving[job->tenant->number] += job->spec->resources.slots;
}

/* As many nodes of the gang as what its tenant is guaranteed covers, also after what the plan takes
 * from that tenant: ended, they would be owed to it again at once. */
static int covered_nodes(const struct plan *plan, const struct job *job)
{
    const struct tenant *tenant = job->tenant;
    if (tenant == plan->job->tenant || tenant->guaranteed_slots == 0)
        return 0;
    int others = plan->pass->queue.lines[tenant->number].used - plan->leaving[tenant->number] -
                 staying_slots(job, NULL);
    for (int i = 0; i < plan->count; i++)
        if (plan->concessions[i].job->tenant == tenant && plan->concessions[i].job != job)
            others -= staying_slots(plan->concessions[i].job, plan->concessions[i].node);
    int slots = tenant->guaranteed_slots - others;
    return slots > 0 ? slots / queue_slots_of(job->spec, 1) : 0;
}

/* A gang runs with its minimum or not at all. */
static bool is_covered(const struct plan *plan, const struct job *job)
{
    return covered_nodes(plan, job) >= job->spec->nodes_min;
}

/* Nodes it has beyond its minimum and beyond what is covered: lent. */
static int surplus_of(const struct plan *plan, const struct job *job)
{
    int covered = covered_nodes(plan, job);
    return job->current.nodes - (covered > job->spec->nodes_min ? covered : job->spec->nodes_min);
}

/* With fewer nodes it has to start again: nobody re-forms it in place, now or later. */
static bool shrinks_by_restart(const struct job *job)
{
    return job->state == JOB_RUNNING && !job->forming.generation && !is_finishing(job) &&
           !(job->spec->elastic == ELASTIC_IN_PLACE && job->current.joined);
}

static bool make_giver(const struct plan *plan, struct job *job, struct giver *ret)
{
    bool running =
        job->state == JOB_STARTING || job->state == JOB_RUNNING || job->state == JOB_REFORMING;
    if (!running || is_finishing(job))
        return false;
    bool lower = job->spec->priority < plan->job->spec->priority;
    bool reclaims = plan->owed && job->tenant != plan->job->tenant;
    *ret = (struct giver){
        .job = job,
        .lost_work = preempt_lost_work(job, cluster_wall(plan->view.cluster)),
        .may_end = lower || reclaims,
        .may_shrink = preempt_may_shrink(job) && surplus_of(plan, job) > 0 &&
                      (job->spec->priority <= plan->job->spec->priority || reclaims),
        .may_restart = (lower || reclaims) && shrinks_by_restart(job),
        .reclaimed = reclaims && !lower,
    };
    bool lends = ret->may_restart && surplus_of(plan, job) > 0;
    return ret->may_shrink || (ret->may_end && (lends || !is_covered(plan, job)));
}

/* Lowest priority first; of equals the least lost work, then the youngest. */
static int compare(const void *a, const void *b)
{
    const struct giver *x = a, *y = b;
    if (x->job->spec->priority != y->job->spec->priority)
        return x->job->spec->priority < y->job->spec->priority ? -1 : 1;
    if (x->lost_work != y->lost_work)
        return x->lost_work < y->lost_work ? -1 : 1;
    return x->job->sequence > y->job->sequence ? -1 : 1;
}

static struct giver *find_givers(const struct plan *plan, int *ret_count)
{
    int count = 0, capacity = 0;
    struct giver *givers = NULL, giver;
    for (struct job *job = cluster_first_begun_job(plan->view.cluster); job;
         job = cluster_next_begun_job(plan->view.cluster, job)) {
        if (view_is_absent(&plan->view, job) || !make_giver(plan, job, &giver))
            continue;
        if (count == capacity) {
            capacity = capacity * 2 + 16;
            struct giver *more = realloc(givers, sizeof *givers * (size_t)capacity);
            insist(more);
            givers = more;
        }
        givers[count++] = giver;
    }
    if (count > 0)
        qsort(givers, (size_t)count, sizeof *givers, compare);
    *ret_count = count;
    return givers;
}

/* What somebody gives back is free at once, so a job in front that can use it has it reserved
 * first; given for one behind, it would only go back to who gave it. */
static bool goes_to_one_in_front(const struct pass *pass, const struct job *job,
                                 const struct node *node)
{
    for (int i = 0; i < pass->reservations; i++) {
        const struct job *other = pass->reserved[i];
        if (other != job && !unmet_constraint(node, other->spec) &&
            node_large_enough(node, other->spec))
            return true;
    }
    return false;
}

bool preempt_is_useful(const struct pass *pass, const struct job *job, const struct view_node *node)
{
    return node && node->open && (!node->held_for || node->held_for == job->sequence) &&
           !goes_to_one_in_front(pass, job, node->node) &&
           !unmet_constraint(node->node, job->spec) && node_large_enough(node->node, job->spec);
}

static bool is_useful(const struct plan *plan, const struct view_node *node)
{
    return preempt_is_useful(plan->pass, plan->job, node);
}

static bool is_conceded(const struct plan *plan, const struct job *job, const char *node)
{
    for (int i = 0; i < plan->count; i++)
        if (plan->concessions[i].job == job &&
            (!plan->concessions[i].node || strcmp(plan->concessions[i].node->name, node) == 0))
            return true;
    return false;
}

/* The view as of the pass, without those who leave already and those who are to. */
static void renew(struct plan *plan)
{
    struct view *to = &plan->view;
    copy_view(&plan->pass->view, to);
    for (int c = 0; c < plan->count; c++) {
        const struct concession *concession = &plan->concessions[c];
        for (int i = 0; i < concession->job->workers_count; i++) {
            const struct worker *worker = &concession->job->workers[i];
            if (!leaves(worker) &&
                (!concession->node || strcmp(worker->node, concession->node->name) == 0))
                view_release(to, concession->job, worker);
        }
    }
}

static void concede(struct plan *plan, const struct giver *giver, const struct node *node)
{
    struct job *job = giver->job;
    for (int i = 0; i < job->workers_count; i++)
        if (!leaves(&job->workers[i]) && (!node || strcmp(job->workers[i].node, node->name) == 0))
            view_release(&plan->view, job, &job->workers[i]);
    plan->concessions[plan->count++] = (struct concession){
        .job = job, .node = node, .reclaimed = giver->reclaimed, .returns = giver->may_restart};
}

static void drop(struct plan *plan, int at)
{
    plan->count--;
    memmove(plan->concessions + at, plan->concessions + at + 1,
            sizeof *plan->concessions * (size_t)(plan->count - at));
}

/* Its nodes with the highest ranks go first, that of rank 0 last. */
static bool shrink(struct plan *plan, const struct giver *giver)
{
    const struct group *group = &giver->job->current;
    int surplus = surplus_of(plan, giver->job);
    for (int rank = group->world - 1; rank >= 0 && surplus > 0 && plan->count < plan->max; rank--) {
        const struct worker *worker = job_worker(giver->job, group->members[rank]);
        const struct view_node *node = worker ? view_find(&plan->view, worker->node) : NULL;
        if (!is_useful(plan, node) || is_conceded(plan, giver->job, worker->node))
            continue;
        concede(plan, giver, node->node);
        surplus--;
        if (scheduler_fits(&plan->view, &plan->request))
            return true;
    }
    return false;
}

/* What it keeps in case a node is lost goes before what it trains on. */
static bool give_spares(struct plan *plan, const struct giver *giver)
{
    for (int i = 0; i < giver->job->workers_count && plan->count < plan->max; i++) {
        const struct worker *worker = &giver->job->workers[i];
        const struct view_node *node = view_find(&plan->view, worker->node);
        if (!worker->spare || worker->state == WORKER_EXITED || !is_useful(plan, node) ||
            is_conceded(plan, giver->job, worker->node))
            continue;
        concede(plan, giver, node->node);
        if (scheduler_fits(&plan->view, &plan->request))
            return true;
    }
    return false;
}

static bool is_on_useful(const struct plan *plan, const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        if (job->workers[i].state != WORKER_EXITED &&
            is_useful(plan, view_find(&plan->view, job->workers[i].node)))
            return true;
    return false;
}

/* A gang that ends gives what it would have given back by shrinking too. */
static void end(struct plan *plan, const struct giver *giver)
{
    for (int i = plan->count - 1; i >= 0; i--)
        if (plan->concessions[i].job == giver->job)
            drop(plan, i);
    plan->concessions[plan->count++] =
        (struct concession){.job = giver->job, .reclaimed = giver->reclaimed};
    renew(plan);
}

/* As a whole, or what it has beyond what is covered if it comes back without. */
static bool give_way(struct plan *plan, const struct giver *giver)
{
    bool covered = is_covered(plan, giver->job);
    if (giver->may_restart && (covered || !giver->may_end))
        return shrink(plan, giver);
    if (covered || !giver->may_end || !is_on_useful(plan, giver->job))
        return false;
    end(plan, giver);
    return scheduler_fits(&plan->view, &plan->request);
}

static bool find(struct plan *plan, const struct giver *givers, int count)
{
    for (int i = 0; i < count && plan->count < plan->max; i++)
        if (give_spares(plan, &givers[i]))
            return true;
    for (int i = 0; i < count && plan->count < plan->max; i++)
        if (givers[i].may_shrink && shrink(plan, &givers[i]))
            return true;
    for (int i = 0; i < count && plan->count < plan->max; i++)
        if (give_way(plan, &givers[i]))
            return true;
    return false;
}

static bool is_spare_on(const struct job *job, const struct node *node)
{
    for (int i = 0; i < job->workers_count; i++)
        if (job->workers[i].spare && strcmp(job->workers[i].node, node->name) == 0)
            return true;
    return false;
}

/* It gives what is covered now that others of its tenant give as well; -1 = nobody does. */
static int find_covered(const struct plan *plan)
{
    for (int i = 0; i < plan->count; i++) {
        const struct job *job = plan->concessions[i].job;
        int covered = covered_nodes(plan, job), least = job->spec->nodes_min;
        int has = job->current.nodes > least ? job->current.nodes : least, left = has;
        for (int c = 0; c < plan->count; c++)
            if (plan->concessions[c].job == job && !plan->concessions[c].node)
                left = 0;
            else if (plan->concessions[c].job == job)
                left -= !is_spare_on(job, plan->concessions[c].node);
        if (covered >= least && left < covered && left < has)
            return i;
    }
    return -1;
}

static void ask_less(struct giver *giver)
{
    giver->may_restart = giver->may_restart && giver->may_end;
    giver->may_end = giver->may_shrink = false;
}

/* Who was asked too much is known only when all is found: then once more. */
static bool find_fairly(struct plan *plan, struct giver *givers, int count)
{
    enum { AGAIN_MAX = 8 };
    for (int again = 0; again < AGAIN_MAX; again++) {
        if (!find(plan, givers, count))
            return false;
        int at = find_covered(plan);
        if (at < 0)
            return true;
        for (int i = 0; i < count; i++)
            if (givers[i].job == plan->concessions[at].job)
                ask_less(&givers[i]);
        plan->count = 0;
        renew(plan);
    }
    return false;
}

/* What is not needed after all is not asked for: the costliest are spared first. */
static void spare(struct plan *plan)
{
    enum { SPARE_MAX = 64 };
    int tried = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = plan->count - 1; i >= 0 && tried < SPARE_MAX; i--) {
            struct concession concession = plan->concessions[i];
            if ((concession.node == NULL) != (pass == 0))
                continue;
            tried++;
            drop(plan, i);
            renew(plan);
            if (!scheduler_fits(&plan->view, &plan->request))
                plan->concessions[plan->count++] = concession;
        }
}

/* Who has to start again for the nodes it gives ends as a whole. */
static void gather_returning(struct plan *plan)
{
    for (int i = 0; i < plan->count; i++) {
        if (!plan->concessions[i].returns || !plan->concessions[i].node ||
            is_spare_on(plan->concessions[i].job, plan->concessions[i].node))
            continue;
        plan->concessions[i].node = NULL;
        for (int c = plan->count - 1; c >= 0; c--)
            if (c != i && plan->concessions[c].job == plan->concessions[i].job) {
                drop(plan, c);
                i -= c < i;
            }
    }
}

static bool is_owed(const struct pass *pass, const struct job *job)
{
    int slots = pass->queue.lines[job->tenant->number].slots;
    return slots + queue_slots_of(job->spec, job->spec->nodes_min) <= job->tenant->guaranteed_slots;
}

int preempt_try(struct pass *pass, const struct job *job, struct concession *ret, int max)
{
    if (pass->tries++ >= PASS_TRIES_MAX || pass->conceded)
        return 0;
    int count = preempt_plan(pass, job, ret, max);
    if (count == 0)
        count = defrag_plan(pass, job, ret, max);
    pass->conceded = count > 0;
    return count;
}

int preempt_plan(const struct pass *pass, const struct job *job, struct concession *ret, int max)
{
    struct plan plan = {.pass = pass, .job = job, .concessions = ret, .max = max};
    int givers_count = 0;
    plan.owed = is_owed(pass, job);
    plan.request = (struct request){.spec = job->spec,
                                    .sequence = job->sequence,
                                    .nodes_min = job->spec->nodes_min,
                                    .nodes_max = job->spec->nodes_min};
    plan.view.cluster = pass->view.cluster;
    plan.view.absent = pass->view.absent;
    plan.leaving = calloc((size_t)pass->queue.count + 1, sizeof *plan.leaving);
    insist(plan.leaving);
    count_leaving(&plan);
    struct giver *givers = find_givers(&plan, &givers_count);
    if (givers_count > 0) {
        preempt_view(pass, &plan.view);
        if (scheduler_fits(&plan.view, &plan.request) || !find_fairly(&plan, givers, givers_count))
            plan.count = 0;
        else
            spare(&plan);
        gather_returning(&plan);
        if (plan.count > 0 && !trial_places(pass, job, ret, plan.count))
            plan.count = 0;
        view_fini(&plan.view);
    }
    free(givers);
    free(plan.leaving);
    return plan.count;
}
