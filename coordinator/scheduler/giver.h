/* The gangs that could give way to one job, and what each has to give. Pure.
 *
 * What its tenant's guarantee covers a gang keeps. Whether it is covered depends on what else the
 * tenant is left with, so what a plan takes is counted here, gang by gang.
 */
#ifndef SCHEDULER_GIVER_H
#define SCHEDULER_GIVER_H

#include "coordinator/scheduler/pass.h"

struct giver {
    struct job *job;
    const int *places; /* the node of each of its workers in the view, -1 = none */
    int64_t lost_work;
    bool may_end;     /* and wait in the queue */
    bool may_shrink;  /* down to what it keeps, in place */
    bool may_restart; /* the same, but for that it has to end and start again */
    bool reclaimed;
    bool closed; /* it gives nothing more to anybody */
    /* what the plan takes, counted with giver_take */
    bool ends;
    int staying; /* slots it uses and would keep if nobody asked */
    int given;   /* of these, slots that are asked for */
    int nodes;   /* asked for that it trains on */
    int last;    /* the newest thing asked of it, by the planner's number; -1 = nothing */
    const struct tenant *before; /* whom it was asked for earlier in the pass, NULL = nobody */
};

struct givers {
    const struct pass *pass;
    const struct job *job; /* for which they are asked */
    bool owed;             /* its tenant is guaranteed what it wants */
    struct giver *all;     /* by job */
    int count;
    int *order; /* lowest priority first; of equals the least lost work, then the youngest */
    int *taken; /* by tenant: slots that are being left, or asked for */
};

/* All that could give anything, and all that were asked before in this pass. */
void givers_find(struct givers *givers, const struct pass *pass, const struct job *job);
void givers_fini(struct givers *givers);
struct giver *givers_get(const struct givers *givers,
                         const struct job *job); /* NULL = it is none */

/* So many of its slots are asked for (negative: they are not after all), and nodes it trains on. */
void giver_take(struct givers *givers, struct giver *giver, int slots, int nodes);
/* Its tenant's guarantee covers its minimum: it does not end, other than for its own tenant. */
bool giver_is_covered(const struct givers *givers, const struct giver *giver);
/* Nodes it has beyond its minimum and beyond what is covered: lent. */
int giver_surplus(const struct givers *givers, const struct giver *giver);
/* It is asked for what is covered by now, as others of its tenant give as well. */
bool giver_is_wronged(const struct givers *givers, const struct giver *giver);
/* It is not asked in that way again: one that would have ended starts again with fewer nodes, if it
 * may; else it gives no more than what it keeps spare. */
void giver_ask_less(struct giver *giver);

#endif
