/* Everything that keeps a job that waits from starting, in words a person can act on: what it finds
 * when its turn comes, who is before it, who holds what it needs, what is not well. Pure. */
#ifndef SCHEDULER_BLOCKERS_H
#define SCHEDULER_BLOCKERS_H

#include "coordinator/scheduler/pass.h"

enum { BLOCKERS_NAMED_MAX = 3 };

struct ahead { /* those that wait before it */
    const struct job *named[BLOCKERS_NAMED_MAX];
    int count;
};

/* The job was refused with this verdict just now. Returns how many of ret were filled; the first
 * carries the estimate of its start. */
int blockers_explain(struct pass *pass, const struct job *job, const struct verdict *verdict,
                     const struct ahead *ahead, struct reason *ret, int max);
/* Only that others are before it; there must be some. */
void blockers_ahead(const struct job *job, const struct ahead *ahead, struct reason *ret);

#endif
