/* What would happen to one job, now or if things were otherwise: `why` and `plan` through the same
 * pass that places jobs. Pure. */
#ifndef SCHEDULER_PLAN_H
#define SCHEDULER_PLAN_H

#include "coordinator/scheduler/preempt.h"

enum {
    WHAT_IF_MAX = 16, /* jobs gone, tenants gone, nodes drained, kinds of nodes added: each */
    WHAT_IF_ADDED_MAX = 512, /* nodes added, in all */
    PLAN_REASONS_MAX = 8,
    PLAN_DEPTH_MAX = 2000,   /* jobs in front that are looked at */
    PLAN_EFFECTS_MAX = 1000, /* effects that are told; the others are counted */
};

struct more_nodes {
    const struct node *like; /* as large and labelled as this one, and ready */
    int count;
};

struct what_if {             /* zeroed: as things are */
    const struct job *job;   /* one that waits, or NULL */
    const struct spec *spec; /* in place of the job's own; without a job, one not submitted yet */
    const struct node *drained[WHAT_IF_MAX]; /* who is there moves, shrinks or starts again */
    int drained_count;
    const struct job *gone[WHAT_IF_MAX]; /* what they use is free, what they wait for is too */
    int gone_count;
    const struct tenant *gone_tenants[WHAT_IF_MAX]; /* all of their jobs */
    int gone_tenants_count;
    struct more_nodes added[WHAT_IF_MAX];
    int added_count;
};

struct effect { /* on another job */
    enum effect_kind {
        EFFECT_STARTS,   /* it waits no longer */
        EFFECT_SHRINKS,  /* goes on in place without `node` */
        EFFECT_MOVES,    /* goes on in place, with another node for `node` */
        EFFECT_RESTARTS, /* ends, and starts again from its checkpoint at once, or as soon as those
                            who give way to it have */
        EFFECT_WAITS,    /* ends, and waits in the queue */
    } kind;
    const struct job *job;
    const struct node *node; /* of SHRINKS and MOVES */
    bool gives_way;          /* for the job that was asked about; else it is due to the change */
};

struct forecast {
    bool starts;                /* at once */
    struct placement placement; /* where, if it starts */
    bool makes_room;            /* it starts once those who give way have */
    int64_t starts_at_ms;       /* loop time, if it does not start; 0 = nobody can say */
    int ahead;                  /* jobs that wait before it */
    struct reason reasons[PLAN_REASONS_MAX]; /* every blocker, each with what would unblock it */
    int reasons_count;
    struct effect effects[PLAN_EFFECTS_MAX];
    int effects_count;
    int effects_left_out; /* more than those */
};

const char *effect_name(enum effect_kind kind); /* "starts" */

/* Without job and spec: what the change does to the others. E_FAILED_PRECONDITION (nothing was
 * filled) if it could never run here. forecast_fini after 0. */
int scheduler_plan(const struct cluster *cluster, const struct what_if *what_if,
                   struct forecast *ret, struct error *err);
void forecast_fini(struct forecast *forecast);

#endif
