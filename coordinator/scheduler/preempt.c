#include "coordinator/scheduler/preempt.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "coordinator/model/query.h"
#include "coordinator/scheduler/defrag.h"
#include "coordinator/scheduler/dry_run.h"
#include "coordinator/scheduler/eviction_view.h"
#include "coordinator/scheduler/fit.h"
#include "coordinator/scheduler/victim.h"

struct taking { /* one thing that a victim loses */
    struct victim *victim;
    int node;     /* index in the view; -1 = the gang ends */
    int before;   /* the taking before it from the same gang, -1 = none */
    bool spare;   /* a spare node, on which it does not train */
    bool earlier; /* for another job in this pass */
    bool dropped; /* not needed after all */
};

enum round { ROUND_SPARES, ROUND_SHRINK, ROUND_END, ROUNDS };

struct plan {
    struct view view; /* as if all that the plan preempts were free */
    struct fit fit;   /* of the job in it */
    struct request request;
    const struct pass *pass;
    const struct job *job;
    struct victims victims;
    struct taking *takings;
    int takings_count, takings_capacity;
    int *visited; /* by node: `visit` where the present victim already loses it by the plan */
    int visit;
    int round, at; /* position of the search */
};

static bool is_useful_node(const struct plan *plan, int node)
{
    return node >= 0 && victim_node_is_useful(plan->pass, plan->job, &plan->view.nodes[node]);
}

/* Free one worker's slots in the view, or occupy them again. */
static int set_worker_slots(struct plan *plan, const struct job *job, int node, int slot,
                            bool free_them)
{
    if (free_them)
        view_release_slots(&plan->view, &plan->view.nodes[node], job, slot);
    else
        view_occupy_slots(&plan->view, &plan->view.nodes[node], job, slot);
    return free_them ? job->spec->resources.slots : -job->spec->resources.slots;
}

/* Take it or return it: update the view, the fit and the victim's account. */
static void apply_taking(struct plan *plan, const struct taking *taking, bool taken)
{
    const struct job *job = taking->victim->job;
    const struct parts *parts = &plan->pass->parts;
    int slots = 0, nodes = 0;
    if (taking->node < 0) {
        taking->victim->ends = taken;
        for (int i = 0; i < job->workers_count; i++) {
            int node = taking->victim->places[i];
            if (node < 0 || worker_is_leaving(&job->workers[i]))
                continue;
            slots += set_worker_slots(plan, job, node, job->workers[i].slot, taken);
            fit_update(&plan->fit, node);
        }
    } else {
        for (int i = parts->first[taking->node]; i < parts->first[taking->node + 1]; i++)
            if (parts->all[i].job == job && !worker_is_leaving(parts->all[i].worker))
                slots += set_worker_slots(plan, job, taking->node, parts->all[i].slot, taken);
        fit_update(&plan->fit, taking->node);
        if (!taking->spare)
            nodes = taken ? 1 : -1;
    }
    victim_charge(&plan->victims, taking->victim, slots, nodes);
}

static struct taking *add_taking(struct plan *plan, struct victim *victim, int node, bool spare)
{
    plan->takings = array_reserve(plan->takings, plan->takings_count, &plan->takings_capacity,
                                  sizeof(*plan->takings));
    struct taking *taking = &plan->takings[plan->takings_count];
    *taking =
        (struct taking){.victim = victim, .node = node, .before = victim->last, .spare = spare};
    victim->last = plan->takings_count++;
    return taking;
}

static void drop_taking(struct plan *plan, struct taking *taking)
{
    taking->dropped = true;
    apply_taking(plan, taking, false);
}

/* True if that is enough. */
static bool take_node(struct plan *plan, struct victim *victim, int node, bool spare)
{
    apply_taking(plan, add_taking(plan, victim, node, spare), true);
    plan->visited[node] = plan->visit;
    return fit_holds(&plan->fit);
}

/* Mark the nodes that this victim already loses by the plan. */
static void visit_taken_nodes(struct plan *plan, const struct victim *victim)
{
    plan->visit++;
    for (int i = victim->last; i >= 0; i = plan->takings[i].before)
        if (!plan->takings[i].dropped && plan->takings[i].node >= 0)
            plan->visited[plan->takings[i].node] = plan->visit;
}

/* Nodes with the highest ranks first, that of rank 0 last. */
static bool shrink_victim(struct plan *plan, struct victim *victim)
{
    const struct job *job = victim->job;
    int borrowed = victim_borrowed_nodes(&plan->victims, victim);
    if (borrowed <= 0)
        return false;
    visit_taken_nodes(plan, victim);
    for (int rank = job->current.world - 1; rank >= 0 && borrowed > 0; rank--) {
        const struct worker *worker = job_worker(job, job->current.members[rank]);
        int node = worker ? victim->places[worker - job->workers] : -1;
        if (!is_useful_node(plan, node) || plan->visited[node] == plan->visit)
            continue;
        borrowed--;
        if (take_node(plan, victim, node, false))
            return true;
    }
    return false;
}

/* Take its spare nodes. */
static bool take_spares(struct plan *plan, struct victim *victim)
{
    const struct job *job = victim->job;
    bool marked = false;
    for (int i = 0; i < job->workers_count; i++) {
        const struct worker *worker = &job->workers[i];
        int node = victim->places[i];
        if (!worker->spare || worker->state == WORKER_EXITED || !is_useful_node(plan, node))
            continue;
        if (!marked)
            visit_taken_nodes(plan, victim);
        marked = true;
        if (plan->visited[node] != plan->visit && take_node(plan, victim, node, true))
            return true;
    }
    return false;
}

static bool uses_useful_node(const struct plan *plan, const struct victim *victim)
{
    for (int i = 0; i < victim->job->workers_count; i++)
        if (victim->job->workers[i].state != WORKER_EXITED &&
            is_useful_node(plan, victim->places[i]))
            return true;
    return false;
}

/* The whole gang ends, which includes the nodes that it already loses. */
static void end_victim(struct plan *plan, struct victim *victim)
{
    for (int i = victim->last; i >= 0; i = plan->takings[i].before)
        if (!plan->takings[i].dropped)
            drop_taking(plan, &plan->takings[i]);
    apply_taking(plan, add_taking(plan, victim, -1, false), true);
}

/* The whole gang, or only what is not guaranteed if it restarts with the rest. */
static bool evict_victim(struct plan *plan, struct victim *victim)
{
    bool guaranteed = victim_is_guaranteed(&plan->victims, victim);
    if (victim->may_restart && (guaranteed || !victim->may_end))
        return shrink_victim(plan, victim);
    if (guaranteed || !victim->may_end || !uses_useful_node(plan, victim))
        return false;
    end_victim(plan, victim);
    return fit_holds(&plan->fit);
}

static bool try_victim(struct plan *plan, struct victim *victim)
{
    if (victim->closed || victim->ends)
        return false;
    if (plan->round == ROUND_SPARES)
        return take_spares(plan, victim);
    if (plan->round == ROUND_SHRINK)
        return victim->may_shrink && shrink_victim(plan, victim);
    return evict_victim(plan, victim);
}

/* Continues where it stopped before. */
static bool search_victims(struct plan *plan)
{
    if (fit_holds(&plan->fit))
        return true;
    for (; plan->round < ROUNDS; plan->round++, plan->at = 0)
        for (; plan->at < plan->victims.count; plan->at++)
            if (try_victim(plan, &plan->victims.all[plan->victims.order[plan->at]]))
                return true;
    return false;
}

/* It may still lose its spare nodes. False: it was preempted for another job before, and that
 * stays. */
static bool release_victim(struct plan *plan, struct victim *victim)
{
    for (int i = victim->last; i >= 0; i = plan->takings[i].before) {
        struct taking *taking = &plan->takings[i];
        if (taking->earlier)
            return false;
        if (!taking->dropped && !taking->spare)
            drop_taking(plan, taking);
    }
    victim_release(victim);
    return true;
}

/* Release victims that are below their guarantee, in the order they were chosen. Each
 * release leaves the tenant more, so that its other gangs may be within the guarantee again. */
static bool release_unfair(struct plan *plan, int *ret_count)
{
    *ret_count = 0;
    for (int i = 0; i < plan->takings_count; i++) {
        struct victim *victim = plan->takings[i].victim;
        if (plan->takings[i].dropped || !victim_is_below_guarantee(&plan->victims, victim))
            continue;
        if (!release_victim(plan, victim))
            return false;
        ++*ret_count;
    }
    return true;
}

/* Whether a gang is left below its guarantee is known only when the plan is complete. Release such
 * gangs and continue the search where it stopped. At the end of the list start once more from the
 * front, because a release lets other gangs of that tenant be victims. A gang is released at most
 * twice, so this terminates. */
static bool search_fairly(struct plan *plan)
{
    int count = 0, released = 0;
    for (;;) {
        if (search_victims(plan)) {
            if (!release_unfair(plan, &count))
                return false;
            if (count == 0)
                return true;
            released += count;
        } else if (released > 0) {
            released = plan->round = plan->at = 0;
        } else {
            return false;
        }
    }
}

/* Drop takings that are not needed, the costliest first. */
static void drop_needless(struct plan *plan)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = plan->takings_count - 1; i >= 0; i--) {
            struct taking *taking = &plan->takings[i];
            if (taking->earlier || taking->dropped || (taking->node < 0) != (pass == 0))
                continue;
            apply_taking(plan, taking, false);
            taking->dropped = fit_holds(&plan->fit);
            if (!taking->dropped)
                apply_taking(plan, taking, true);
        }
}

/* True if the gang has to restart in order to lose nodes, so that it ends as a whole. */
static bool returns_smaller(const struct plan *plan, const struct victim *victim)
{
    for (int i = victim->last; i >= 0 && victim->may_restart; i = plan->takings[i].before)
        if (!plan->takings[i].dropped && plan->takings[i].node >= 0 && !plan->takings[i].spare)
            return true;
    return false;
}

static int write_evictions_of(const struct plan *plan, struct victim *victim, struct eviction *ret)
{
    int count = 0;
    struct eviction eviction = {.job = victim->job,
                                .to = plan->job,
                                .reclaimed = victim->reclaimed,
                                .returns = returns_smaller(plan, victim)};
    for (int i = victim->last; i >= 0; i = plan->takings[i].before) {
        const struct taking *taking = &plan->takings[i];
        if (taking->dropped || taking->earlier)
            continue;
        eviction.node =
            taking->node < 0 || eviction.returns ? NULL : plan->view.nodes[taking->node].node;
        ret[count++] = eviction;
    }
    victim->last = -1; /* already written */
    for (int a = 0, b = count - 1; a < b; a++, b--) {
        struct eviction swapped = ret[a];
        ret[a] = ret[b];
        ret[b] = swapped;
    }
    return eviction.returns && count > 0 ? 1 : count;
}

/* Write the evictions in the order of their victims; those of one gang are adjacent. */
static int write_evictions(struct plan *plan, struct eviction *ret)
{
    int count = 0;
    for (int i = 0; i < plan->takings_count; i++)
        if (!plan->takings[i].dropped && !plan->takings[i].earlier)
            count += write_evictions_of(plan, plan->takings[i].victim, ret + count);
    return count;
}

/* Add the evictions for earlier jobs of this pass to the plan. */
static void apply_earlier(struct plan *plan)
{
    for (int i = 0; i < plan->pass->evictions_count; i++) {
        const struct eviction *eviction = &plan->pass->evictions[i];
        struct victim *victim = victims_get(&plan->victims, eviction->job);
        const struct parts *parts = &plan->pass->parts;
        int slots = victim->staying - victim->taken, node = -1, nodes = 0;
        bool kept = false;
        if (eviction->node) {
            node = (int)(view_find(&plan->view, eviction->node->name) - plan->view.nodes);
            slots = 0;
            for (int p = parts->first[node]; p < parts->first[node + 1]; p++) {
                const struct worker *worker = parts->all[p].worker;
                if (parts->all[p].job != eviction->job || worker_is_leaving(worker))
                    continue;
                slots += eviction->job->spec->resources.slots;
                kept |= worker->spare;
            }
            nodes = !kept;
        }
        add_taking(plan, victim, node, kept)->earlier = true;
        victim_charge(&plan->victims, victim, slots, nodes);
        victim->ends |= !eviction->node;
        if (!victim->earlier_tenant || victim->earlier_tenant == victim->job->tenant)
            victim->earlier_tenant = eviction->to->tenant;
    }
}

static void plan_init(struct plan *plan, const struct pass *pass, const struct job *job)
{
    *plan = (struct plan){.pass = pass, .job = job};
    plan->request = (struct request){.spec = job->spec,
                                     .sequence = job->sequence,
                                     .nodes_min = job->spec->nodes_min,
                                     .nodes_max = job->spec->nodes_min};
    eviction_view_init(pass, &plan->view);
    fit_init(&plan->fit, &plan->view, &plan->request);
}

static void plan_fini(struct plan *plan)
{
    view_fini(&plan->view);
    fit_fini(&plan->fit);
    victims_fini(&plan->victims);
    free(plan->takings);
    free(plan->visited);
}

/* Appends to pass->evictions. */
static bool plan_evictions(struct plan *plan, struct pass *pass)
{
    victims_find(&plan->victims, pass, plan->job);
    plan->visited = calloc((size_t)plan->view.count + 1, sizeof(*plan->visited));
    insist(plan->visited);
    apply_earlier(plan);
    if (plan->victims.count == 0 || !search_fairly(plan))
        return false;
    drop_needless(plan);
    struct eviction *evictions = calloc((size_t)plan->takings_count + 1, sizeof(*evictions));
    insist(evictions);
    int count = write_evictions(plan, evictions);
    bool placed = count > 0 && dry_run_places(pass, plan->job, evictions, count);
    for (int i = 0; i < count && placed; i++)
        pass_add_eviction(pass, &evictions[i]);
    free(evictions);
    return placed;
}

int preempt_try(struct pass *pass, const struct job *job)
{
    struct plan plan;
    int before = pass->evictions_count;
    if (pass->tries >= PASS_TRIES_MAX || pass->nominated_count == PASS_NOMINATED_MAX ||
        pass->moved || !pass->parts.all)
        return 0;
    plan_init(&plan, pass, job);
    bool found = fit_holds(&plan.fit) || plan_evictions(&plan, pass);
    if (found)
        eviction_view_nominate(pass, job, &plan.view);
    plan_fini(&plan);
    if (!found && before == 0)
        (void)defrag_plan(pass, job);
    if (!found)
        pass->tries++;
    return pass->evictions_count - before;
}
