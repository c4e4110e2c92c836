/* Chooses the nodes of a gang among the candidates: all or none, near each other. Pure. */
#ifndef SCHEDULER_GANG_H
#define SCHEDULER_GANG_H

#include "coordinator/scheduler/request.h"
#include "coordinator/scheduler/view.h"

/* Reorder `candidates` (indices into the view): the first n, where n is the result, are the choice.
 * n is at most request->nodes_max. Less than nodes_min means that the gang cannot be whole.
 *
 * With a topology all nodes share one value, the value with the most nodes. Without one the gang
 * uses as few racks (label "rack") as possible: the tightest rack that is large enough, else the
 * roomiest first. Within a rack the tightest nodes are first.
 */
int gang_choose(struct view *view, const struct request *request, int *candidates, int count);

/* Set `group` of each node for this label. Nodes of one value share a number below view->groups;
 * nodes without the label have 0. */
void gang_number_groups(struct view *view, const char *label);

/* The largest number of candidates that share a topology value (all, without a topology). They are
 * moved to the front. */
int gang_largest_group(struct view *view, const struct request *request, int *candidates,
                       int count);

#endif
