/* The coordinator's core: one event in, the cluster changed, actions out. Pure: no clock, no I/O,
 * no randomness except the cluster's own seeded stream. The same events produce the same actions.
 * Loop thread.
 *
 *     event -> node.h / job.h / checkpoint.h   record the event's facts
 *           -> job_settle                      per touched job: apply what follows from its state
 *           -> place_waiting                   give free nodes to waiting jobs and to growth
 *           -> invariant.h                     (debug, simulation) check the whole cluster
 *
 * Files call downwards only, or to the right in their row:
 *
 *     step
 *     job, place                               events about jobs; the pass over the queue
 *     node, node_forget, scale, tenant,        other events, and a question
 *       checkpoint, why
 *     evict, resize, report, group             what follows from evictions, reports, groups
 *     restart, reform, lease, runtime,         a failure, a lost node, a limit; new workers that
 *       newcomers                              survivors do not wait for
 *     stop, spare                              how workers and jobs end
 *     budget, job_state, node_state            the cost of a failure; changes of state
 *     failure, formation, stall_watch          what failed; the next group; stalls
 *     dirty_set, answer, deadline, ...         the step's own notes, and arithmetic
 *
 * Many events share one pass over the queue: they set pass_later, and EVENT_PASS follows them. The
 * driver makes it at the end of its turn.
 *
 * A step looks only at the present state, never at earlier events. Repeated, late and lost reports
 * therefore do no harm.
 */
#ifndef CORE_STEP_H
#define CORE_STEP_H

#include <stdint.h>

#include "coordinator/core/action.h"
#include "coordinator/core/event.h"
#include "coordinator/core/limits.h"

/* Appends to ret. Each event with a request gets exactly one ACTION_ANSWER. */
void coordinator_step(struct cluster *cluster, const struct event *event, struct actions *ret);

/* The latest time for the next EVENT_TICK; INT64_MAX = no timer is set. It is also the last
 * ACTION_WAKE_AT of a step. */
int64_t core_wake_at(const struct cluster *cluster);

#endif
