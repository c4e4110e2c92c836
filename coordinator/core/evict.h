/* Performs evictions: elastic gangs release nodes in place; whole gangs end with grace to save, and
 * wait in the queue again. */
#ifndef CORE_EVICT_H
#define CORE_EVICT_H

#include "coordinator/core/step_state.h"
#include "coordinator/scheduler/pass.h"

/* Evict gangs and free nodes for waiting jobs. The evictions of one gang for one job are
 * adjacent. */
void evict_perform(struct step *step, const struct eviction *evictions, int count);
void evict_settle(struct step *step, struct job *job); /* in JOB_PREEMPTING */
void evict_all(struct step *step);                     /* by EVENT_HALT */

#endif
