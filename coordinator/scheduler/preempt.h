/* Chooses victims so that a waiting job can start. Pure. In this order:
 *
 *     0. gangs of lower priority give up their spare nodes
 *     1. elastic gangs above their minimum give nodes back, to any job of their own or a higher
 *        priority: the nodes above the minimum were idle capacity, lent
 *     2. whole gangs of a lower priority end, those with the least work since their last checkpoint
 *        first
 *     3. a tenant's guarantee is reclaimed in the same two ways from tenants that use more than
 *        their guarantee, whatever the priority
 *
 * A victim keeps what its tenant's guarantee covers, unless the waiting job belongs to that tenant:
 * it is neither ended nor shrunk below that. Some gangs cannot shrink in place, because they are
 * not elastic in place or their program does not use libworker. They end as in 2 and 3, but only if
 * they find a place with fewer nodes at once.
 *
 * Nothing is taken if the result would not be enough, if workers that are already leaving are
 * enough, or if another job would get the room (trial.h).
 *
 * Example: tenants A and B are guaranteed 4 nodes each of 8, and all jobs have one priority. An
 * elastic gang of A runs on all 8, with a minimum of 2. A job of B needs 4 nodes, which B's
 * guarantee covers. A uses 4 more than its own guarantee, so the gang gives back 4 in place and
 * keeps 4.
 */
#ifndef SCHEDULER_PREEMPT_H
#define SCHEDULER_PREEMPT_H

#include "coordinator/scheduler/pass.h"

/* Find victims so that the job, the next in queue order, can start; or find that workers already
 * leaving are enough, and add it to pass->rooms. Returns the number of new concessions at the end
 * of pass->given.
 *
 * At most PASS_ROOMS_MAX jobs per pass get room, and at most PASS_TRIES_MAX attempts may fail. Each
 * plan includes what earlier jobs get and give; a gang that ends for one job is taken by no other.
 * The time is near linear in nodes, workers and concessions.
 */
int preempt_try(struct pass *pass, const struct job *job);

/* True if the job could use this node and no job before it has a claim on it. Also for defrag.h. */
bool preempt_is_useful(const struct pass *pass, const struct job *job,
                       const struct view_node *node);

/* True if it can continue in place right now with fewer nodes. */
bool preempt_may_shrink(const struct job *job);

/* Slot-milliseconds of work that it would repeat. */
int64_t preempt_lost_work(const struct job *job, int64_t wall_ms);

#endif
