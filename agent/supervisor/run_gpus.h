/* Keeps each job to the GPUs that its own workers have on this node, while workers come and go: a
 * gang that grows may copy to its new rank's GPU, one that shrinks gives the GPU back. What a
 * survivor has open stays open, so a rank that left a gang of CUDA programs may still be mapped
 * until they form anew. Loop thread; `runs` is the launcher's list.
 */
#ifndef SUPERVISOR_RUN_GPUS_H
#define SUPERVISOR_RUN_GPUS_H

#include "agent/supervisor/namespace.h"
#include "agent/supervisor/run.h"

/* Those of all of the job's runs that have not ended, and `more` (NULL = none). */
void run_gpus_of(const struct run *runs, const struct run *more, const char *job,
                 struct launch_gpus *ret);

/* To the cgroups and mounts of the job's runs, where they do not allow just these already. */
int run_gpus_apply(struct run *runs, const char *job, const struct launch_gpus *gpus,
                   const struct namespaces *have, struct error *err);

/* Both, when a run of the job has started or gone; what fails is tried again at the next. */
void run_gpus_keep(struct run *runs, const char *job, const struct namespaces *have);

#endif
