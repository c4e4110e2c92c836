/* What would happen to one job, now or if things were otherwise: `why` and `plan` through the same
 * pass that places jobs. Pure. */
#ifndef SCHEDULER_PLAN_H
#define SCHEDULER_PLAN_H

#include "coordinator/scheduler/preempt.h"

enum {
    WHAT_IF_MAX = 8, /* jobs gone, nodes drained: each */
    PLAN_REASONS_MAX = 8,
    PLAN_DEPTH_MAX = 2000, /* jobs in front that are looked at */
    PLAN_CONCESSIONS_MAX = 32,
};

struct what_if {             /* zeroed but for job or spec: as things are */
    const struct job *job;   /* one that waits; NULL = `spec` is of a job that was not submitted */
    const struct spec *spec; /* in place of the job's own: other sizes, constraints, priority */
    const struct node *drained[WHAT_IF_MAX];
    int drained_count;
    const struct job *gone[WHAT_IF_MAX]; /* what they use is free, what they wait for is too */
    int gone_count;
};

struct forecast {
    bool starts;                /* at once */
    struct placement placement; /* where, if it starts */
    int concessions_count;      /* who would give way, if it does not */
    struct concession concessions[PLAN_CONCESSIONS_MAX];
    int64_t starts_at_ms;                    /* loop time; 0 = nobody can say */
    int ahead;                               /* jobs that wait before it */
    struct reason reasons[PLAN_REASONS_MAX]; /* every blocker, each with what would unblock it */
    int reasons_count;
};

/* E_FAILED_PRECONDITION (nothing was filled) if it could never run here. forecast_fini after 0. */
int scheduler_plan(const struct cluster *cluster, const struct what_if *what_if,
                   struct forecast *ret, struct error *err);
void forecast_fini(struct forecast *forecast);

#endif
