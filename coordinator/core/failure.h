/* Which failure stopped a gang: the worker that failed first, a node that leaves, or a deadline
 * that has passed. restart.h has the consequence, budget.h the cost. */
#ifndef CORE_FAILURE_H
#define CORE_FAILURE_H

#include "coordinator/core/step_state.h"

struct failure { /* why the gang cannot continue unchanged */
    struct reason reason;
    bool charged;     /* costs a restart */
    bool hopeless;    /* it would fail again: do not restart */
    bool own;         /* caused by the program itself, as far as is known (budget.h) */
    bool excused;     /* another rank was lost or killed from outside */
    bool lost;        /* its end is unknown: lost with its node, or without a trace */
    bool whole;       /* no survivor may stay: the whole gang starts again */
    bool growth_only; /* only new workers of a growing gang are affected */
    bool drained;     /* all members live, and those that leave are on drained nodes */
    char cause[64];   /* equal text for equal causes */
    int64_t wall_ms;
    int64_t lived_ms; /* time since the failed worker's start */
    int exit_code;
};

bool failure_find(struct step *step, const struct job *job, struct failure *ret);

/* How this worker ended, as a reason with a hint. */
void failure_describe(const struct job *job, const struct worker *worker, struct reason *ret);

/* A gang leaves this node because it is drained. */
void failure_describe_drain(const struct node *node, struct reason *ret);

/* Lower is nearer to the root cause: 0 failed by itself, 1 failed because a peer did, 2 lost with
 * its node. */
int failure_distance(const struct worker *worker);

/* The cause is not the program: its node, a peer, a signal from outside, or the worker never
 * began. */
bool exit_is_external(const struct exit_info *exit);

#endif
