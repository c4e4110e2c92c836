/* Who gives way so that a job that waits can start. Pure.
 *
 *   0. those below give what they keep spare
 *   1. elastic gangs above their minimum give nodes back, to any job of their own or a higher
 *      priority: what they had beyond it was idle capacity, lent
 *   2. whole gangs of a lower priority end, those with the least work since their last checkpoint
 *      first
 *   3. what a tenant is guaranteed is reclaimed in the same two ways from tenants that use more
 *      than they are guaranteed, whatever the priority
 *
 * What its tenant's guarantee covers a gang gives to nobody but its own tenant: it does not end,
 * nor has it fewer nodes than that. One with more that cannot shrink in place (its program does not
 * speak with us, or it is not elastic in place) ends as in 2 and 3, but only if it finds a place
 * with fewer nodes at once.
 *
 * Nobody gives anything if that would not be enough, if those who already leave are enough, or if
 * somebody else would take it (trial.h).
 */
#ifndef SCHEDULER_PREEMPT_H
#define SCHEDULER_PREEMPT_H

#include "coordinator/scheduler/pass.h"

/* Others give way so that the job, the next in the order of the queue, can start, or it is found
 * that those who leave already are enough: then it is among pass->rooms. Returns how many
 * concessions are new at the end of pass->given. For PASS_ROOMS_MAX jobs a pass, as long as no more
 * than PASS_TRIES_MAX were tried in vain. Each counts with what those before it get and give, and a
 * gang that ends for one is asked by no other. The time this takes is near linear in nodes, workers
 * and what is given. */
int preempt_try(struct pass *pass, const struct job *job);

/* For those who look for room too (defrag.h): the job could use this node, and nobody before it has
 * first call on it. */
bool preempt_is_useful(const struct pass *pass, const struct job *job,
                       const struct view_node *node);

/* It may go on in place with fewer nodes than it has, right now. */
bool preempt_may_shrink(const struct job *job);

/* Slot-milliseconds it would do again. */
int64_t preempt_lost_work(const struct job *job, int64_t wall_ms);

#endif
