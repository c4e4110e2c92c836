/* Who is on which node, for one pass: found once, where a look at each node's jobs would go through
 * large gangs once for every node. Pure.
 */
#ifndef SCHEDULER_PARTS_H
#define SCHEDULER_PARTS_H

#include "coordinator/scheduler/scheduler.h"

struct part { /* a worker that has not ended */
    const struct job *job;
    const struct worker *worker;
    int slot; /* the first of its slots */
    bool leaving;
};

struct parts {
    struct part *all; /* NULL: not found yet */
    int *first;       /* those on node i of the view: all[first[i]] up to all[first[i + 1]] */
    int *places; /* the node of each worker, -1 = none, in the order of begun jobs and workers */
};

/* Zeroed memory. The view's nodes keep their places from now on, and jobs their workers; what it
 * makes absent is in it. */
void parts_find(struct parts *parts, const struct view *view);
void parts_fini(struct parts *parts);

#endif
