/* The possible victims of preemption for one job, and what each can give up. Pure.
 *
 * A gang keeps what its tenant's guarantee covers. The cover depends on what else the tenant keeps,
 * so the plan's takings are counted here, gang by gang.
 */
#ifndef SCHEDULER_GIVER_H
#define SCHEDULER_GIVER_H

#include "coordinator/scheduler/pass.h"

struct giver {
    struct job *job;
    const int *places; /* the node of each of its workers in the view, -1 = none */
    int64_t lost_work;
    bool may_end;     /* evict it into the queue */
    bool may_shrink;  /* in place, down to its minimum */
    bool may_restart; /* the same, but it has to end and start again */
    bool reclaimed;
    bool closed; /* nothing more may be taken from it */
    /* what the plan takes, counted by giver_take */
    bool ends;
    int staying; /* slots it uses and would keep without this plan */
    int given;   /* of these, slots that the plan takes */
    int nodes;   /* nodes that the plan takes of those it trains on */
    int last;    /* the latest thing taken from it, by the planner's number; -1 = none */
    const struct tenant *before; /* the tenant it gave to earlier in the pass; NULL = none */
};

struct givers {
    const struct pass *pass;
    const struct job *job; /* the job that needs room */
    bool owed;             /* the job fits into its tenant's guarantee */
    struct giver *all;     /* by job */
    int count;
    int *order; /* lowest priority first; then the least lost work, then the youngest */
    int *taken; /* by tenant: slots that are being left, or are taken */
};

/* Collect all possible victims, and all gangs that gave something earlier in this pass. */
void givers_find(struct givers *givers, const struct pass *pass, const struct job *job);
void givers_fini(struct givers *givers);
struct giver *givers_get(const struct givers *givers,
                         const struct job *job); /* NULL = not a possible victim */

/* The plan takes this many of its slots, and nodes it trains on. Negative: it releases them again.
 */
void giver_take(struct givers *givers, struct giver *giver, int slots, int nodes);
/* Its tenant's guarantee covers its minimum: it ends only for its own tenant. */
bool giver_is_covered(const struct givers *givers, const struct giver *giver);
/* Nodes beyond both its minimum and its tenant's guarantee: lent nodes. */
int giver_surplus(const struct givers *givers, const struct giver *giver);
/* The plan now takes what the guarantee covers, because other gangs of the tenant give too. */
bool giver_is_wronged(const struct givers *givers, const struct giver *giver);
/* Do not ask the same of it again. A gang that would have ended restarts with fewer nodes if it
 * may. Any other gang gives only its spare nodes. */
void giver_ask_less(struct giver *giver);

#endif
