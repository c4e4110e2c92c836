/* The dirty set of a step: which jobs and nodes must be settled, stored or shown before it ends.
 * step.c turns the set into actions after everything is settled. */
#ifndef CORE_DIRTY_SET_H
#define CORE_DIRTY_SET_H

#include "coordinator/core/step_state.h"

/* Settle the job later in this step, and store it. Each call may be repeated. */
void step_settle(struct step *step, struct job *job);
/* Settle it without storing it. */
void step_revisit(struct step *step, struct job *job);
void step_store(struct step *step, struct job *job);
void step_show(struct step *step, struct job *job);
void step_store_node(struct step *step, struct node *node);
/* The assignments changed: of a node, or of all nodes of a group. */
void step_reassign_node(struct step *step, const char *node);
void step_reassign_group(struct step *step, const struct job *job, const struct group *group);
/* The agents find the stacks of its programs and add them to its output (docs/report.md). */
void step_request_stacks(struct step *step, struct job *job);

#endif
