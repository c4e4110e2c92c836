/* Chooses victims so that a waiting job can start. Pure. In this order:
 *
 *     0. gangs of lower priority lose their spare nodes
 *     1. elastic gangs above their minimum lose nodes, to any job of their own or a higher
 *        priority: the nodes above the minimum are borrowed capacity
 *     2. whole gangs of a lower priority end, those with the least work since their last checkpoint
 *        first
 *     3. a tenant's guarantee is reclaimed in the same two ways from tenants that use more than
 *        their guarantee, whatever the priority
 *
 * A victim keeps what its tenant's guarantee covers: it is neither ended nor shrunk below that. The
 * only exception is a waiting job of the same tenant. Some gangs cannot shrink in place, because
 * they are not elastic in place or their program does not use libworker. They end as in 2 and 3,
 * but only if they find a place with fewer nodes at once.
 *
 * Nothing is preempted if the result would not be enough, if workers that are already leaving are
 * enough, or if another job would get the nodes (dry_run.h).
 *
 * Example: six nodes of one slot, no guarantees. Three gangs run:
 *
 *     gang   priority   nodes          may lose
 *     low    1          3, minimum 1   two nodes in place, or all by its end
 *     even   5          2, minimum 1   one node in place
 *     high   9          1, minimum 1   nothing
 *
 *     job `new` of priority 5 waits
 *       and needs 2 nodes    low shrinks to 1 node, because its priority is the lowest
 *       and needs 3 nodes    low shrinks to 1 node, even to 1 node
 *       and needs 4 nodes    low ends as well: what it lost by shrinking is part of its end
 *       and needs 5 nodes    nothing: `high` and one node of `even` cannot be taken
 *
 * Example with guarantees: tenants A and B are guaranteed 4 of 8 nodes each, and all jobs have one
 * priority. An elastic gang of A runs on all 8, with a minimum of 2. A job of B needs 4 nodes. The
 * guarantee of B covers them. A uses 4 more than its own guarantee, so the gang loses 4 in place
 * and keeps 4.
 */
#ifndef SCHEDULER_PREEMPT_H
#define SCHEDULER_PREEMPT_H

#include "coordinator/scheduler/pass.h"

/* Find victims so that the job, the next in queue order, can start; or find that workers already
 * leaving are enough, and nominate it. Returns the number of new evictions at the end of
 * pass->evictions.
 *
 * At most PASS_NOMINATED_MAX jobs per pass are nominated, and at most PASS_TRIES_MAX searches may
 * fail. Each plan includes what earlier jobs get and what their victims lose; a gang that ends for
 * one job is a victim of no other. The time is near linear in nodes, workers and evictions.
 */
int preempt_try(struct pass *pass, const struct job *job);

#endif
