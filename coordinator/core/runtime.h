/* The time that max_runtime limits: while a job has nodes, from its first run. It does not count
 * while the job waits for nodes again, after preemption or for a restart without free nodes. */
#ifndef CORE_RUNTIME_H
#define CORE_RUNTIME_H

#include "coordinator/core/step_state.h"

void runtime_count(struct step *step, struct job *job); /* it runs, or is started again */
void runtime_pause(struct step *step, struct job *job); /* it has no slots any more */
void runtime_restored(struct step *step, struct job *job);
/* Ends the job when its time is over. Before that it sends the early signal of the spec, once: when
 * it is due, or as soon as the whole gang runs. */
void runtime_settle(struct step *step, struct job *job);
int64_t runtime_signal_at_ms(const struct job *job); /* 0 = not now: none, sent, or not running */

#endif
