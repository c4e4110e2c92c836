/* Tests of one node for a request: labels, size, free resources. Pure. */
#ifndef SCHEDULER_FILTER_H
#define SCHEDULER_FILTER_H

#include "coordinator/scheduler/request.h"
#include "coordinator/scheduler/view.h"

/* The first constraint that the node does not meet, or NULL. */
const struct pair *node_unmet_constraint(const struct node *node, const struct spec *spec);

/* Large enough for workers_per_node workers when empty. */
bool node_large_enough(const struct node *node, const struct spec *spec);

/* True if workers_per_node workers fit into the free resources. ret_slots (may be NULL) gets their
 * first slots by local rank, of GPUs those that are best connected (gpu_pick.h). */
bool node_fits_now(const struct view_node *node, const struct spec *spec, int *ret_slots);

/* True if the request excludes this node, because its job is already there. */
bool node_is_avoided(const struct view_node *node, const struct request *request);

/* True if the request could use the node in its present state in the view. */
bool node_is_candidate(const struct view_node *node, const struct request *request);

#endif
