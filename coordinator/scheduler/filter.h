/* Can this node, by itself: labels, size, what is free. Pure. */
#ifndef SCHEDULER_FILTER_H
#define SCHEDULER_FILTER_H

#include "coordinator/scheduler/scheduler.h"

/* The node's label, NULL if it has none of that name. "node" is its own name. */
const char *node_label(const struct node *node, const char *key);

/* NULL if all constraints hold, else the first that does not. */
const struct pair *unmet_constraint(const struct node *node, const struct spec *spec);

/* Large enough for workers_per_node workers when empty. */
bool node_large_enough(const struct node *node, const struct spec *spec);

/* Room for workers_per_node workers in what is free; their first slots to ret_slots (may be NULL).
 */
bool node_has_room(const struct view_node *node, const struct spec *spec, int *ret_slots);

/* The request does not want this node: its job is there already. */
bool node_is_avoided(const struct view_node *node, const struct request *request);

#endif
