/* The time that max_runtime limits: while a job has nodes, from its first run. It does not count
 * while the job waits for nodes again, after preemption or for a restart without free nodes. */
#ifndef CORE_RUNTIME_H
#define CORE_RUNTIME_H

#include "coordinator/core/step_state.h"

void runtime_count(struct step *step, struct job *job); /* it runs, or is started again */
void runtime_pause(struct step *step, struct job *job); /* it has no slots any more */
void runtime_restored(struct step *step, struct job *job);
void runtime_settle(struct step *step, struct job *job); /* ends the job when its time is over */

#endif
