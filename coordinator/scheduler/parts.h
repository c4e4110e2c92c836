/* The workers on each node, computed once per pass. Asking the jobs of each node instead would read
 * a large gang once per node. Pure. */
#ifndef SCHEDULER_PARTS_H
#define SCHEDULER_PARTS_H

#include "coordinator/scheduler/view.h"

struct part { /* a worker that has not ended */
    const struct job *job;
    const struct worker *worker;
    int slot; /* its first slot */
    bool leaving;
};

struct parts {
    struct part *all; /* NULL: not computed yet */
    int *first;       /* workers on node i of the view: all[first[i]] up to all[first[i + 1]] */
    int *places; /* the node of each worker, -1 = none, in the order of begun jobs and workers */
};

/* Starts from zeroed memory. From now on the view's nodes and the jobs' workers must keep their
 * places. Workers that the view makes absent are included. */
void parts_find(struct parts *parts, const struct view *view);
void parts_fini(struct parts *parts);

#endif
