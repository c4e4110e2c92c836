/* A pass over a changed state: jobs removed, nodes drained or added. Pure; for plan.c. */
#ifndef SCHEDULER_WHAT_IF_H
#define SCHEDULER_WHAT_IF_H

#include "coordinator/scheduler/forecast.h"
#include "coordinator/scheduler/pass.h"

enum {
    WHAT_IF_MAX = 16, /* limit for each: jobs removed, tenants removed, nodes drained, kinds of
                       * nodes added */
    WHAT_IF_ADDED_MAX = 512, /* nodes added in total */
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

#endif
