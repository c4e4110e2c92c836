/* When a node is presumed dead. A closed connection is a hint. A node is lost after silence for a
 * whole lease, or when the peers of its ranks report them lost.
 *
 * Silence does not count while a gang with ranks there completes steps: those ranks take part in
 * each step, and only their agent is unreachable. It does not count while the coordinator was not
 * listening. After its own pause every node gets a new lease, and a late check first processes the
 * reports that have arrived.
 */
#ifndef CORE_LEASE_H
#define CORE_LEASE_H

#include "coordinator/core/step_state.h"

void node_grant_lease(struct step *step, struct node *node, int64_t lease_ms);
/* The node's timer has fired: its lease may have expired. */
void node_lease_due(struct step *step, struct node *node);
/* The node is lost, and all of its workers. */
void node_lose(struct step *step, struct node *node, const struct reason *reason);
/* Peers reported its ranks lost: together with a closed connection the node is lost. */
bool node_peers_lost_it(const struct node *node);

#endif
