/* Why a request could not be placed, as reasons that a person can act on. Pure. */
#ifndef SCHEDULER_EXPLAIN_H
#define SCHEDULER_EXPLAIN_H

#include "coordinator/scheduler/request.h"
#include "coordinator/scheduler/view.h"

/* The first blocker that would remain if all before it in this list were solved: no_nodes,
 * constraint_unmet, too_large, topology_unmet, too_few_nodes, behind, waiting_for_slots. */
void explain_refusal(struct view *view, const struct request *request, struct reason *ret);

/* All blockers, at most `max`; returns their number. */
int explain_all(struct view *view, const struct request *request, struct reason *ret, int max);

/* The first blocker that stays even if nothing runs. False: there is none. */
bool explain_permanent(struct view *view, const struct request *request, struct reason *ret);

#endif
