/* What would happen to one job, now or after a change. `why` and `plan` run the same pass that
 * places jobs. Pure. */
#ifndef SCHEDULER_PLAN_H
#define SCHEDULER_PLAN_H

#include "coordinator/scheduler/preempt.h"

enum {
    WHAT_IF_MAX = 16, /* limit for each: jobs removed, tenants removed, nodes drained, kinds of
                       * nodes added */
    WHAT_IF_ADDED_MAX = 512, /* nodes added in total */
    PLAN_REASONS_MAX = 8,
    PLAN_DEPTH_MAX = 2000,   /* jobs in front that are examined */
    PLAN_EFFECTS_MAX = 1000, /* effects that are listed; the others are counted */
};

struct more_nodes {
    const struct node *like; /* with the size and labels of this one, and ready */
    int count;
};

struct what_if {             /* zeroed: no change */
    const struct job *job;   /* a waiting job, or NULL */
    const struct spec *spec; /* replaces the job's own; without a job, one not submitted yet */
    const struct node *drained[WHAT_IF_MAX]; /* gangs there move, shrink or restart */
    int drained_count;
    const struct job *gone[WHAT_IF_MAX]; /* their resources and places in the queue are free */
    int gone_count;
    const struct tenant *gone_tenants[WHAT_IF_MAX]; /* with all of their jobs */
    int gone_tenants_count;
    struct more_nodes added[WHAT_IF_MAX];
    int added_count;
};

struct effect { /* on another job */
    enum effect_kind {
        EFFECT_STARTS,   /* it stops waiting */
        EFFECT_SHRINKS,  /* continues in place without `node` */
        EFFECT_MOVES,    /* continues in place, with another node for `node` */
        EFFECT_RESTARTS, /* ends and restarts from its checkpoint, at once or when its victims have
                          * given way */
        EFFECT_WAITS,    /* ends, and waits in the queue */
    } kind;
    const struct job *job;
    const struct node *node; /* of SHRINKS and MOVES */
    bool gives_way;          /* for the job in question; false: caused by the change */
};

struct forecast {
    bool starts;                             /* at once */
    struct placement placement;              /* where, if it starts */
    bool makes_room;                         /* it starts when its victims have given way */
    int64_t starts_at_ms;                    /* loop time, if it does not start; 0 = unknown */
    int ahead;                               /* waiting jobs before it */
    struct reason reasons[PLAN_REASONS_MAX]; /* every blocker, each with its solution */
    int reasons_count;
    struct effect effects[PLAN_EFFECTS_MAX];
    int effects_count;
    int effects_left_out; /* number of effects beyond those */
};

const char *effect_name(enum effect_kind kind); /* "starts" */

/* Without job and spec: the effects of the change on other jobs. E_FAILED_PRECONDITION (nothing was
 * filled) if the job could never run here. Call forecast_fini after a result of 0. */
int scheduler_plan(const struct cluster *cluster, const struct what_if *what_if,
                   struct forecast *ret, struct error *err);
void forecast_fini(struct forecast *forecast);

#endif
