/* Hot spares: a gang of full size keeps additional nodes. Their slots belong to workers that are in
 * no group and unknown to agents, and count for the tenant like others. A gang that loses a node
 * uses them before any other search. They join the next group if it has fewer nodes than its
 * minimum; otherwise the gang grows while it trains. */
#ifndef CORE_SPARE_H
#define CORE_SPARE_H

#include "coordinator/core/formation.h"
#include "coordinator/core/step_state.h"
#include "coordinator/scheduler/scheduler.h"

/* Release one worker's slots of a spare node; `why` is logged with the event. */
void spare_end(struct step *step, struct job *job, struct worker *worker, const char *why);
/* Release spare nodes that the job may not keep any longer or no longer asks for. */
void spare_settle(struct step *step, struct job *job);
/* Number of missing spare nodes; 0 if the job may have none now. */
int spare_wanted(const struct job *job);
void spare_add(struct step *step, struct job *job, const struct placement *placement);
/* New workers on at most `nodes` of its spare nodes; returns the number of nodes. They stay
 * reserved until spare_use: nothing is placed in between. */
int spare_find(struct step *step, const struct job *job, int nodes, struct newcomer *ret,
               int *ret_count);
void spare_use(struct step *step, struct job *job, const struct newcomer *newcomers, int count);

#endif
