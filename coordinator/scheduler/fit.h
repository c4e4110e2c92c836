/* Whether a gang fits, updated while nodes change one after another. Preemption asks this about the
 * same cluster once for each possible victim. Pure. */
#ifndef SCHEDULER_FIT_H
#define SCHEDULER_FIT_H

#include "coordinator/scheduler/request.h"
#include "coordinator/scheduler/view.h"

struct fit {                       /* zeroed memory is allowed in fit_fini */
    struct view *view;             /* borrowed */
    const struct request *request; /* borrowed */
    bool *candidate;               /* by node */
    int *sizes;                    /* candidates that can be used together */
    int whole;                     /* the number of these that is enough */
};

void fit_init(struct fit *fit, struct view *view, const struct request *request);
void fit_fini(struct fit *fit);
/* This node of the view has changed. O(1). */
void fit_update(struct fit *fit, int index);
/* The result of scheduler_fits for the view. O(1). */
bool fit_holds(const struct fit *fit);

#endif
