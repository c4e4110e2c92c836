/* Which of the nodes that could, for a gang: all or none, near each other. Pure. */
#ifndef SCHEDULER_GANG_H
#define SCHEDULER_GANG_H

#include "coordinator/scheduler/scheduler.h"

/* Reorder `candidates` (indices into the view) so that the first n returned are the choice, at most
 * request->nodes_max; fewer than nodes_min returned means the gang cannot be whole. With a topology
 * all of one value, the value with the most nodes. Otherwise in as few racks (label "rack") as can
 * be: the tightest rack that holds all, else the roomiest first; in a rack the tightest nodes. */
int gang_choose(struct view *view, const struct request *request, int *candidates, int count);

/* Each node of the view has its `group` for this label: nodes of one value share a number below
 * view->groups, those without it have 0. */
void gang_number_groups(struct view *view, const char *label);

/* The largest number of candidates that share the topology's value (all, without a topology); they
 * come first then. */
int gang_largest_group(struct view *view, const struct request *request, int *candidates,
                       int count);

#endif
