/* How the GPUs of a node are connected, when that changes: the change is recorded in one sentence.
 * The next placements go by the new links; gangs that run keep their GPUs. */
#ifndef CORE_NODE_LINKS_H
#define CORE_NODE_LINKS_H

#include "coordinator/core/step_state.h"

/* Record how the links of `now`, by slot, differ from the node's. Nothing is recorded if its GPUs
 * are other ones, and of links that were not known before or are not known now. */
void node_note_links(struct step *step, const struct node *node, const struct gpu *now, int count);

/* Let the node have the links of its report. Those of another number of GPUs are ignored. */
void node_set_links(struct step *step, struct node *node);

#endif
