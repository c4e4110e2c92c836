/* The states of one job. Only job_set_state changes them, by a table of allowed moves.
 *
 *              placed            all joined             growth opened, or a failure
 *   queued ─────────► starting ───────────► running ◄────────────────────► reforming
 *                      ▲   │                   │                               │
 *               placed │   │ failure           │ failure that nobody survives  │
 *                      │   ▼                   ▼                               │
 *                      restarting ◄────────────────────────────────────────────┘
 *
 *   any of these ──► stopping (cancelled, out of restarts, out of time) ──► failed | cancelled
 *   stopping ──► restarting: its program had failed, and then it turns out that a rank was ended
 *   from outside before (budget.c)
 *   starting, running, reforming ──► succeeded when all ranks exit 0 (by stopping if others live)
 *
 *   starting, running, reforming ──► preempting (saves while its grace lasts) ──► queued:
 *   it was preempted by another job and waits again
 */
#ifndef CORE_JOB_STATE_H
#define CORE_JOB_STATE_H

#include "coordinator/core/step_state.h"

void job_set_state(struct step *step, struct job *job, enum job_state state,
                   const struct reason *reason);
/* Change only the reason. */
void job_set_reason(struct step *step, struct job *job, const struct reason *reason);

#endif
