/* What would happen to a job and to others: the answer of plan.h. Pure. */
#ifndef SCHEDULER_FORECAST_H
#define SCHEDULER_FORECAST_H

#include "coordinator/scheduler/request.h"

enum {
    PLAN_REASONS_MAX = 8,
    PLAN_EFFECTS_MAX = 1000, /* effects that are listed; the others are counted */
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
    bool waits_for_victims;                  /* it starts when its victims have given way */
    int64_t starts_at_ms;                    /* loop time, if it does not start; 0 = unknown */
    int ahead;                               /* waiting jobs before it */
    struct reason reasons[PLAN_REASONS_MAX]; /* every blocker, each with its solution */
    int reasons_count;
    struct effect effects[PLAN_EFFECTS_MAX];
    int effects_count;
    int effects_left_out; /* number of effects beyond those */
};

const char *effect_name(enum effect_kind kind); /* "starts" */

void forecast_fini(struct forecast *forecast);
void forecast_add(struct forecast *forecast, const struct effect *effect);

#endif
