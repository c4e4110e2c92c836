/* All blockers of a waiting job, as reasons that a person can act on. They are what the pass found,
 * the jobs before it, the jobs that use what it needs, and faults. Pure. */
#ifndef SCHEDULER_BLOCKERS_H
#define SCHEDULER_BLOCKERS_H

#include "coordinator/scheduler/pass.h"

enum { BLOCKERS_NAMED_MAX = 3 };

struct ahead { /* waiting jobs before it in the queue */
    const struct job *named[BLOCKERS_NAMED_MAX];
    int count;
};

/* Explain a job that was just refused with this verdict. Returns the number of reasons written to
 * ret; the first has the estimated start. */
int blockers_explain(struct pass *pass, const struct job *job, const struct verdict *verdict,
                     const struct ahead *ahead, struct reason *ret, int max);
/* Explain only that other jobs are before it; there must be some. */
void blockers_ahead(const struct job *job, const struct ahead *ahead, struct reason *ret);

#endif
