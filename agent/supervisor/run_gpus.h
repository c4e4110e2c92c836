/* Limits each job to the GPUs of its own workers on this node, while workers start and end. A
 * growing gang may copy to its new rank's GPU; a shrinking gang loses access to a GPU. What a
 * survivor has open stays open, so a GPU that left a gang of CUDA programs may stay mapped until
 * the gang re-forms. Loop thread; `runs` is the launcher's list. */
#ifndef SUPERVISOR_RUN_GPUS_H
#define SUPERVISOR_RUN_GPUS_H

#include "agent/supervisor/namespace.h"
#include "agent/supervisor/run.h"

/* The GPUs of all the job's runs that have not ended, and `more` (NULL = none). */
void run_gpus_of(const struct run *runs, const struct run *more, const char *job,
                 struct launch_gpus *ret);

/* Set them in the cgroups and mounts of the job's runs that allow a different set. */
int run_gpus_apply(struct run *runs, const char *job, const struct launch_gpus *gpus,
                   const struct namespaces *have, struct error *err);

/* Both, after a run of the job has started or ended. A failure is retried at the next call. */
void run_gpus_keep(struct run *runs, const char *job, const struct namespaces *have);

#endif
