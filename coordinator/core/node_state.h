/* The states of one machine. node_state.c has the table of all moves; these are the usual ones:
 *
 *         registers          its old workers ended                             nothing runs there
 *   (new) ─────────► joining ─────────────────────► ready ◄─► cordoned ◄─► draining ─────► drained
 *                       ▲                             │           │            │              │
 *                       │                             └───────────┴─────┬──────┴──────────────┘
 *                       │                                               │ connection gone, or the
 *                       │ reports again                                 ▼ coordinator restarted
 *                      lost ◄───────────────────────────────────── unreachable (its workers go on)
 *                             lease expired, or its peers lost it
 *
 * An unreachable node that reports again returns to the state that its administrator set. A lost
 * node that reports again first ends the workers it still runs, then gets new ones. An uncordoned
 * node is ready from each of cordoned, draining and drained. */
#ifndef CORE_NODE_STATE_H
#define CORE_NODE_STATE_H

#include "coordinator/core/step_state.h"

/* A change of reason without a change of state is recorded if one of the two reasons is a process
 * that cannot be killed, or a node fault. */
void node_set_state(struct step *step, struct node *node, enum node_state state,
                    const struct reason *reason);

/* 0, or another number for each reason of a cordoned node that is not an administrator's. */
int node_own_reason(const struct reason *reason);

/* A worker could not be started on the node, for a cause in the node, not in the worker. The node
 * gets no work for a while, which doubles with each fault. */
void node_note_fault(struct step *step, const char *name, const char *why);

#endif
