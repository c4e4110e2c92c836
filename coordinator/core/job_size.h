/* The number of nodes that a job asks for. `scale` can change it while the job runs. */
#ifndef CORE_JOB_SIZE_H
#define CORE_JOB_SIZE_H

#include "coordinator/core/step_state.h"

/* Apply the last requested node counts to job->spec, as far as the running gang allows. */
void job_size_apply(struct step *step, struct job *job);

#endif
