/* A pass over things as they would be: jobs gone, nodes drained or added. Pure; for plan.c. */
#ifndef SCHEDULER_WHAT_IF_H
#define SCHEDULER_WHAT_IF_H

#include "coordinator/scheduler/plan.h"

struct displaced { /* a gang that a drain ends: it waits in the queue as this copy of its job */
    struct job copy;
    const struct job *job;
    bool again; /* it finds a place at once */
};

struct altered { /* what the pass borrows while it is at work */
    struct absence absent;
    const struct job *jobs[WHAT_IF_MAX + WHAT_IF_DISPLACED_MAX];
    struct displaced displaced[WHAT_IF_DISPLACED_MAX];
    int displaced_count;
    struct node *added[WHAT_IF_ADDED_MAX];
    int added_count;
};

/* Before the first pass_next. Effects on gangs that shrink and move go to `ret`. `altered` is
 * zeroed; altered_fini after the pass, whatever this returned. */
int what_if_apply(struct pass *pass, const struct what_if *what_if, struct altered *altered,
                  struct forecast *ret, struct error *err);
void altered_fini(struct altered *altered);

/* NULL: not a copy of a displaced job. */
struct displaced *altered_find(struct altered *altered, const struct job *copy);

void forecast_add(struct forecast *forecast, const struct effect *effect);

#endif
