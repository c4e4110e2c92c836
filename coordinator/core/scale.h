/* Changes the number of nodes of an existing job. An elastic gang releases nodes or grows as soon
 * as possible, in place or by a restart (resize.h). A running gang does not end for a larger
 * minimum before there are nodes for it. */
#ifndef CORE_SCALE_H
#define CORE_SCALE_H

#include "coordinator/core/step_state.h"

void job_scale(struct step *step); /* by EVENT_JOB_SCALE */
/* Release the nodes above the requested count as soon as possible. */
void scale_settle(struct step *step, struct job *job);

#endif
