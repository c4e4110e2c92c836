/* Events about jobs, and the dispatch of what follows from a job's state. */
#ifndef CORE_JOB_H
#define CORE_JOB_H

#include "coordinator/core/step_state.h"

void job_submit(struct step *step);
void job_cancel(struct step *step);
void job_stacks(struct step *step);  /* by EVENT_JOB_STACKS */
void job_channel(struct step *step); /* by EVENT_JOB_CHANNEL */
void job_restored(struct step *step, struct job *job);
void job_resumed(struct step *step, struct job *job); /* the coordinator itself was paused */
void job_settle(struct step *step, struct job *job);

#endif
