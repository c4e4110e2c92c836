/* How a worker ends, and how a job stops. One file, because they call each other: the end of a
 * worker can stop its job, and a job that stops ends the workers that were not started yet. */
#ifndef CORE_STOP_H
#define CORE_STOP_H

#include "coordinator/core/step_state.h"

/* The worker has ended like this. Its slots are free. */
void worker_end(struct step *step, struct job *job, struct worker *worker,
                const struct exit_info *exit);
/* Ask the worker to end. */
void worker_stop(struct step *step, struct job *job, struct worker *worker);
/* Stop all workers; when they have ended, the job is in state `ending`. */
void job_stop(struct step *step, struct job *job, enum job_state ending,
              const struct reason *reason);
/* The last worker of a stopping job has ended. */
void job_end(struct step *step, struct job *job);

#endif
