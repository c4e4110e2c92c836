/* The consequence of a failure: survivors continue in place, the whole gang restarts from its
 * checkpoint, or the job ends. failure.h finds the failure, budget.h has its cost. */
#ifndef CORE_RESTART_H
#define CORE_RESTART_H

#include "coordinator/core/failure.h"
#include "coordinator/core/step_state.h"

void restart_recover(struct step *step, struct job *job, struct failure *failure);
/* End the whole gang and start it again when there are free nodes. */
void restart_again(struct step *step, struct job *job, const struct reason *reason);
/* New workers were to replace some (move.h), and need not: the gang stays as it is. */
void restart_stay(struct step *step, struct job *job);
void restart_settle(struct step *step, struct job *job); /* in JOB_RESTARTING */

#endif
