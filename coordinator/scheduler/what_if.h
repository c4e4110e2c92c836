/* A pass over a changed state: jobs removed, nodes drained or added. Pure; for plan.c. */
#ifndef SCHEDULER_WHAT_IF_H
#define SCHEDULER_WHAT_IF_H

#include "coordinator/scheduler/plan.h"

struct displaced { /* a gang that a drain ends: it waits in the queue as this copy of its job */
    struct job copy;
    const struct job *job;
    bool again; /* it is placed at once */
    struct displaced *next;
};

struct altered { /* borrowed by the running pass */
    struct absence absent;
    struct displaced *displaced, *last; /* by number; at most one per slot of those nodes */
    struct map by_sequence;             /* the same */
    struct node *added[WHAT_IF_ADDED_MAX];
    int added_count;
};

/* Call before the first pass_next. Effects on gangs that shrink and move are added to `ret`.
 * `altered` is zeroed; call altered_fini after the pass, whatever the result. */
int what_if_apply(struct pass *pass, const struct what_if *what_if, struct altered *altered,
                  struct forecast *ret, struct error *err);
void altered_fini(struct altered *altered);

/* NULL: not a copy of a displaced job. */
struct displaced *altered_find(struct altered *altered, const struct job *copy);

void forecast_add(struct forecast *forecast, const struct effect *effect);

#endif
