/* Whether a gang fits, followed while nodes change one after another: giving way looks at the same
 * cluster once for each that could give. Pure.
 */
#ifndef SCHEDULER_FIT_H
#define SCHEDULER_FIT_H

#include "coordinator/scheduler/scheduler.h"

struct fit {                       /* zeroed memory is fine for fit_fini */
    struct view *view;             /* borrowed */
    const struct request *request; /* borrowed */
    bool *candidate;               /* by node */
    int *sizes;                    /* candidates that may come together */
    int whole;                     /* how many of these are enough */
};

void fit_init(struct fit *fit, struct view *view, const struct request *request);
void fit_fini(struct fit *fit);
/* This node of the view has changed. O(1). */
void fit_update(struct fit *fit, int index);
/* What scheduler_fits says of the view. O(1). */
bool fit_holds(const struct fit *fit);

#endif
