#include "coordinator/scheduler/preempt.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "coordinator/scheduler/defrag.h"
#include "coordinator/scheduler/filter.h"
#include "coordinator/scheduler/fit.h"
#include "coordinator/scheduler/giver.h"
#include "coordinator/scheduler/room.h"
#include "coordinator/scheduler/trial.h"

struct gift { /* one thing taken from a victim */
    struct giver *giver;
    int node;     /* index in the view; -1 = the gang ends */
    int before;   /* the gift before this one from the same gang, -1 = none */
    bool spare;   /* a spare node, on which it does not train */
    bool earlier; /* taken for another job in this pass */
    bool dropped; /* not needed after all */
};

enum round { ROUND_SPARES, ROUND_SHRINK, ROUND_END, ROUNDS };

struct plan {
    struct view view; /* as if all gifts were free */
    struct fit fit;   /* of the job in it */
    struct request request;
    const struct pass *pass;
    const struct job *job;
    struct givers givers;
    struct gift *gifts;
    int gifts_count, gifts_capacity;
    int *stamps; /* by node: `stamp` where the present victim already gives */
    int stamp;
    int round, at; /* position of the search */
};

/* A node given back is free at once, so a job in front that can use it gets the reservation first.
 * Taken for a later job, it would only return to its giver. */
static bool goes_to_one_in_front(const struct pass *pass, const struct job *job,
                                 const struct node *node)
{
    for (int i = 0; i < pass->reserved_count; i++) {
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

static bool is_useful(const struct plan *plan, int node)
{
    return node >= 0 && preempt_is_useful(plan->pass, plan->job, &plan->view.nodes[node]);
}

/* Free one worker's slots in the view, or occupy them again. */
static int turn(struct plan *plan, const struct job *job, int node, int slot, bool free_them)
{
    if (free_them)
        view_release_slots(&plan->view, &plan->view.nodes[node], job, slot);
    else
        view_occupy_slots(&plan->view, &plan->view.nodes[node], job, slot);
    return free_them ? job->spec->resources.slots : -job->spec->resources.slots;
}

/* Add a gift or remove it, and update the view, the fit and the victim's account. */
static void make(struct plan *plan, const struct gift *gift, bool given)
{
    const struct job *job = gift->giver->job;
    const struct parts *parts = &plan->pass->parts;
    int slots = 0, nodes = 0;
    if (gift->node < 0) {
        gift->giver->ends = given;
        for (int i = 0; i < job->workers_count; i++) {
            int node = gift->giver->places[i];
            if (node < 0 || room_is_left(&job->workers[i]))
                continue;
            slots += turn(plan, job, node, job->workers[i].slot, given);
            fit_update(&plan->fit, node);
        }
    } else {
        for (int i = parts->first[gift->node]; i < parts->first[gift->node + 1]; i++)
            if (parts->all[i].job == job && !room_is_left(parts->all[i].worker))
                slots += turn(plan, job, gift->node, parts->all[i].slot, given);
        fit_update(&plan->fit, gift->node);
        if (!gift->spare)
            nodes = given ? 1 : -1;
    }
    giver_take(&plan->givers, gift->giver, slots, nodes);
}

static struct gift *note(struct plan *plan, struct giver *giver, int node, bool spare)
{
    plan->gifts =
        array_reserve(plan->gifts, plan->gifts_count, &plan->gifts_capacity, sizeof(*plan->gifts));
    struct gift *gift = &plan->gifts[plan->gifts_count];
    *gift = (struct gift){.giver = giver, .node = node, .before = giver->last, .spare = spare};
    giver->last = plan->gifts_count++;
    return gift;
}

static void take_back(struct plan *plan, struct gift *gift)
{
    gift->dropped = true;
    make(plan, gift, false);
}

/* True if that is enough. */
static bool ask_node(struct plan *plan, struct giver *giver, int node, bool spare)
{
    make(plan, note(plan, giver, node, spare), true);
    plan->stamps[node] = plan->stamp;
    return fit_holds(&plan->fit);
}

/* Mark the nodes that this victim already gives. */
static void mark_given(struct plan *plan, const struct giver *giver)
{
    plan->stamp++;
    for (int i = giver->last; i >= 0; i = plan->gifts[i].before)
        if (!plan->gifts[i].dropped && plan->gifts[i].node >= 0)
            plan->stamps[plan->gifts[i].node] = plan->stamp;
}

/* Nodes with the highest ranks first, that of rank 0 last. */
static bool shrink(struct plan *plan, struct giver *giver)
{
    const struct job *job = giver->job;
    int surplus = giver_surplus(&plan->givers, giver);
    if (surplus <= 0)
        return false;
    mark_given(plan, giver);
    for (int rank = job->current.world - 1; rank >= 0 && surplus > 0; rank--) {
        const struct worker *worker = job_worker(job, job->current.members[rank]);
        int node = worker ? giver->places[worker - job->workers] : -1;
        if (!is_useful(plan, node) || plan->stamps[node] == plan->stamp)
            continue;
        surplus--;
        if (ask_node(plan, giver, node, false))
            return true;
    }
    return false;
}

/* Spare nodes before nodes it trains on. */
static bool give_spares(struct plan *plan, struct giver *giver)
{
    const struct job *job = giver->job;
    bool marked = false;
    for (int i = 0; i < job->workers_count; i++) {
        const struct worker *worker = &job->workers[i];
        int node = giver->places[i];
        if (!worker->spare || worker->state == WORKER_EXITED || !is_useful(plan, node))
            continue;
        if (!marked)
            mark_given(plan, giver);
        marked = true;
        if (plan->stamps[node] != plan->stamp && ask_node(plan, giver, node, true))
            return true;
    }
    return false;
}

static bool is_on_useful(const struct plan *plan, const struct giver *giver)
{
    for (int i = 0; i < giver->job->workers_count; i++)
        if (giver->job->workers[i].state != WORKER_EXITED && is_useful(plan, giver->places[i]))
            return true;
    return false;
}

/* A gang that ends also gives the nodes that it would have given by shrinking. */
static void end(struct plan *plan, struct giver *giver)
{
    for (int i = giver->last; i >= 0; i = plan->gifts[i].before)
        if (!plan->gifts[i].dropped)
            take_back(plan, &plan->gifts[i]);
    make(plan, note(plan, giver, -1, false), true);
}

/* The whole gang, or only what is not covered if it restarts with the rest. */
static bool give_way(struct plan *plan, struct giver *giver)
{
    bool covered = giver_is_covered(&plan->givers, giver);
    if (giver->may_restart && (covered || !giver->may_end))
        return shrink(plan, giver);
    if (covered || !giver->may_end || !is_on_useful(plan, giver))
        return false;
    end(plan, giver);
    return fit_holds(&plan->fit);
}

static bool ask(struct plan *plan, struct giver *giver)
{
    if (giver->closed || giver->ends)
        return false;
    if (plan->round == ROUND_SPARES)
        return give_spares(plan, giver);
    if (plan->round == ROUND_SHRINK)
        return giver->may_shrink && shrink(plan, giver);
    return give_way(plan, giver);
}

/* Continues where it stopped before. */
static bool find(struct plan *plan)
{
    if (fit_holds(&plan->fit))
        return true;
    for (; plan->round < ROUNDS; plan->round++, plan->at = 0)
        for (; plan->at < plan->givers.count; plan->at++)
            if (ask(plan, &plan->givers.all[plan->givers.order[plan->at]]))
                return true;
    return false;
}

/* It may still give its spare nodes. False: it was taken for another job before, and that stays. */
static bool ask_less(struct plan *plan, struct giver *giver)
{
    for (int i = giver->last; i >= 0; i = plan->gifts[i].before) {
        struct gift *gift = &plan->gifts[i];
        if (gift->earlier)
            return false;
        if (!gift->dropped && !gift->spare)
            take_back(plan, gift);
    }
    giver_ask_less(giver);
    return true;
}

/* Release victims that give what their guarantee covers, in the order they were chosen. Each
 * release leaves the tenant more, so that its other gangs may be within the guarantee again. */
static bool let_off(struct plan *plan, int *ret_count)
{
    *ret_count = 0;
    for (int i = 0; i < plan->gifts_count; i++) {
        struct giver *giver = plan->gifts[i].giver;
        if (plan->gifts[i].dropped || !giver_is_wronged(&plan->givers, giver))
            continue;
        if (!ask_less(plan, giver))
            return false;
        ++*ret_count;
    }
    return true;
}

/* Whether a gang gives more than its guarantee allows is known only when the plan is complete.
 * Release such gangs and continue the search where it stopped. At the end of the list start once
 * more from the front, because a release lets other gangs of that tenant give. A gang is released
 * at most twice, so this terminates. */
static bool find_fairly(struct plan *plan)
{
    int count = 0, let_off_count = 0;
    for (;;) {
        if (find(plan)) {
            if (!let_off(plan, &count))
                return false;
            if (count == 0)
                return true;
            let_off_count += count;
        } else if (let_off_count > 0) {
            let_off_count = plan->round = plan->at = 0;
        } else {
            return false;
        }
    }
}

/* Drop gifts that are not needed, the costliest first. */
static void spare(struct plan *plan)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = plan->gifts_count - 1; i >= 0; i--) {
            struct gift *gift = &plan->gifts[i];
            if (gift->earlier || gift->dropped || (gift->node < 0) != (pass == 0))
                continue;
            make(plan, gift, false);
            gift->dropped = fit_holds(&plan->fit);
            if (!gift->dropped)
                make(plan, gift, true);
        }
}

/* True if the gang has to restart in order to give nodes, so that it ends as a whole. */
static bool returns(const struct plan *plan, const struct giver *giver)
{
    for (int i = giver->last; i >= 0 && giver->may_restart; i = plan->gifts[i].before)
        if (!plan->gifts[i].dropped && plan->gifts[i].node >= 0 && !plan->gifts[i].spare)
            return true;
    return false;
}

static int tell_giver(const struct plan *plan, struct giver *giver, struct concession *ret)
{
    int count = 0;
    struct concession concession = {.job = giver->job,
                                    .to = plan->job,
                                    .reclaimed = giver->reclaimed,
                                    .returns = returns(plan, giver)};
    for (int i = giver->last; i >= 0; i = plan->gifts[i].before) {
        const struct gift *gift = &plan->gifts[i];
        if (gift->dropped || gift->earlier)
            continue;
        concession.node =
            gift->node < 0 || concession.returns ? NULL : plan->view.nodes[gift->node].node;
        ret[count++] = concession;
    }
    giver->last = -1; /* already written */
    for (int a = 0, b = count - 1; a < b; a++, b--) {
        struct concession swapped = ret[a];
        ret[a] = ret[b];
        ret[b] = swapped;
    }
    return concession.returns && count > 0 ? 1 : count;
}

/* Write the concessions in the order of their victims; those of one gang are adjacent. */
static int tell(struct plan *plan, struct concession *ret)
{
    int count = 0;
    for (int i = 0; i < plan->gifts_count; i++)
        if (!plan->gifts[i].dropped && !plan->gifts[i].earlier)
            count += tell_giver(plan, plan->gifts[i].giver, ret + count);
    return count;
}

/* Apply the concessions of earlier jobs in this pass to the view. */
static void note_earlier(struct plan *plan)
{
    for (int i = 0; i < plan->pass->given_count; i++) {
        const struct concession *given = &plan->pass->given[i];
        struct giver *giver = givers_get(&plan->givers, given->job);
        const struct parts *parts = &plan->pass->parts;
        int slots = giver->staying - giver->given, node = -1, nodes = 0;
        bool kept = false;
        if (given->node) {
            node = (int)(view_find(&plan->view, given->node->name) - plan->view.nodes);
            slots = 0;
            for (int p = parts->first[node]; p < parts->first[node + 1]; p++) {
                const struct worker *worker = parts->all[p].worker;
                if (parts->all[p].job != given->job || room_is_left(worker))
                    continue;
                slots += given->job->spec->resources.slots;
                kept |= worker->spare;
            }
            nodes = !kept;
        }
        note(plan, giver, node, kept)->earlier = true;
        giver_take(&plan->givers, giver, slots, nodes);
        giver->ends |= !given->node;
        if (!giver->before || giver->before == giver->job->tenant)
            giver->before = given->to->tenant;
    }
}

static void begin(struct plan *plan, const struct pass *pass, const struct job *job)
{
    *plan = (struct plan){.pass = pass, .job = job};
    plan->request = (struct request){.spec = job->spec,
                                     .sequence = job->sequence,
                                     .nodes_min = job->spec->nodes_min,
                                     .nodes_max = job->spec->nodes_min};
    room_view(pass, &plan->view);
    fit_init(&plan->fit, &plan->view, &plan->request);
}

static void finish(struct plan *plan)
{
    view_fini(&plan->view);
    fit_fini(&plan->fit);
    givers_fini(&plan->givers);
    free(plan->gifts);
    free(plan->stamps);
}

/* Appends to pass->given. */
static bool seek(struct plan *plan, struct pass *pass)
{
    givers_find(&plan->givers, pass, plan->job);
    plan->stamps = calloc((size_t)plan->view.count + 1, sizeof(*plan->stamps));
    insist(plan->stamps);
    note_earlier(plan);
    if (plan->givers.count == 0 || !find_fairly(plan))
        return false;
    spare(plan);
    struct concession *given = calloc((size_t)plan->gifts_count + 1, sizeof(*given));
    insist(given);
    int count = tell(plan, given);
    bool placed = count > 0 && trial_places(pass, plan->job, given, count);
    for (int i = 0; i < count && placed; i++)
        pass_note_given(pass, &given[i]);
    free(given);
    return placed;
}

int preempt_try(struct pass *pass, const struct job *job)
{
    struct plan plan;
    int before = pass->given_count;
    if (pass->tries >= PASS_TRIES_MAX || pass->rooms_count == PASS_ROOMS_MAX || pass->moved ||
        !pass->parts.all)
        return 0;
    begin(&plan, pass, job);
    bool found = fit_holds(&plan.fit) || seek(&plan, pass);
    if (found)
        room_note(pass, job, &plan.view);
    finish(&plan);
    if (!found && before == 0)
        (void)defrag_plan(pass, job);
    pass->tries += !found;
    return pass->given_count - before;
}
