/* The possible victims of preemption for one job, and what each can release. Pure.
 *
 * A gang keeps what its tenant's guarantee covers. How much that is depends on what else the tenant
 * keeps, so all that the plan preempts is counted here, gang by gang.
 */
#ifndef SCHEDULER_VICTIM_H
#define SCHEDULER_VICTIM_H

#include "coordinator/scheduler/pass.h"

struct victim {
    struct job *job;
    const int *places; /* the node of each of its workers in the view, -1 = none */
    int64_t lost_work;
    bool may_end;     /* evict it into the queue */
    bool may_shrink;  /* in place, down to its minimum */
    bool may_restart; /* the same, but it has to end and start again */
    bool reclaimed;
    bool closed; /* it may lose nothing more */
    /* what the plan preempts, counted by victim_charge */
    bool ends;
    int staying;     /* slots it uses and would keep without this plan */
    int taken;       /* of these, slots that the plan preempts */
    int nodes_taken; /* nodes that the plan preempts of those it trains on */
    int last;        /* the latest thing it loses, by the planner's number; -1 = none */
    const struct tenant *earlier_tenant; /* evicted for it earlier in the pass; NULL = none */
};

struct victims {
    const struct pass *pass;
    const struct job *job; /* the job that waits for nodes */
    bool guaranteed;       /* the job fits into its tenant's guarantee */
    struct victim *all;    /* by job */
    int count;
    int *order; /* lowest priority first; then the least lost work, then the youngest */
    int *taken; /* by tenant: slots that are being left, or are preempted */
};

/* Collect all possible victims, and all gangs that were victims earlier in this pass. */
void victims_find(struct victims *victims, const struct pass *pass, const struct job *job);
void victims_fini(struct victims *victims);
struct victim *victims_get(const struct victims *victims,
                           const struct job *job); /* NULL = not a possible victim */

/* The plan preempts this many of its slots, and nodes it trains on. Negative: fewer than before. */
void victim_charge(struct victims *victims, struct victim *victim, int slots, int nodes);
/* True if its tenant's guarantee covers its minimum. Such a gang ends only for its own tenant. */
bool victim_is_guaranteed(const struct victims *victims, const struct victim *victim);
/* Nodes beyond both its minimum and its tenant's guarantee: borrowed capacity. */
int victim_borrowed_nodes(const struct victims *victims, const struct victim *victim);
/* The plan leaves it with less than the guarantee covers, because it preempts other gangs of the
 * tenant too. */
bool victim_is_below_guarantee(const struct victims *victims, const struct victim *victim);
/* Released: it does not lose the same again. A gang that would have ended restarts with fewer
 * nodes if it may. Any other gang loses only its spare nodes. */
void victim_release(struct victim *victim);

/* True if the job could use this node and no job before it has a claim on it. */
bool victim_node_is_useful(const struct pass *pass, const struct job *job,
                           const struct view_node *node);

/* True if the gang can continue in place right now with fewer nodes. */
bool job_may_shrink(const struct job *job);

#endif
