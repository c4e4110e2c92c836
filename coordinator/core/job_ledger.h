/* The phase of a job in its ledger. Time is constant within a step, so each job that a step touched
 * is charged once, at the end of the step, for the phase before it. */
#ifndef CORE_JOB_LEDGER_H
#define CORE_JOB_LEDGER_H

#include "coordinator/model/cluster.h"

/* Charge the time since the job was last touched. True if its phase changed, which must be
 * stored. */
bool job_ledger_follow(struct job *job, int64_t now_ms);
/* The first step of programs that report without joining: the time since they run was their start.
 */
void job_ledger_started(struct job *job, int64_t now_ms, int64_t wall_ms);
void job_ledger_restored(struct job *job, int64_t now_ms, int64_t wall_ms);

#endif
