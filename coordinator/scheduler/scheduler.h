/* Places gangs: a view of the nodes, and one request after another in queue order, each placed
 * whole or not at all. Pure arithmetic on the view; core turns placements into workers.
 *
 *     view.h            the free resources now
 *     scheduler_place   filter (constraints, size, state) -> gang (all or none, near each other,
 *                       tightest first) -> removed from the view; or a typed reason
 *     reserve.h         when and where a job that must wait will start; later jobs do not delay it
 *     queue.h           the order: guarantee, priority, fair share, arrival
 *     pass.h            all of these together, for core, for `why` and for what-if
 *     preempt.h         evicts victims for a job that waits
 *
 * Every order is decided: nodes by rack, free slots, then name; topology groups by size, then
 * value.
 */
#ifndef SCHEDULER_SCHEDULER_H
#define SCHEDULER_SCHEDULER_H

#include "coordinator/scheduler/request.h"
#include "coordinator/scheduler/view.h"

enum {
    START_SLACK_MS = 60000, /* at most, from placed to running: its runtime counts from then */
    END_SLACK_MS = 40000,   /* from the end of its runtime to free slots: grace and slack */
};

/* Place as many workers as fit on between nodes_min and nodes_max nodes. True: ret_placement is
 * filled (placement_fini) and removed from the view. False: ret_reason (may be NULL) has the
 * blocker, and the view is unchanged. */
bool scheduler_place(struct view *view, const struct request *request,
                     struct placement *ret_placement, struct reason *ret_reason);
/* True if it would be placed. For nodes that change one by one: fit.h. */
bool scheduler_fits(struct view *view, const struct request *request);

/* The latest time at which a job releases its nodes, if it starts now or has started. INT64_MAX =
 * no max_runtime. */
int64_t scheduler_release_at(const struct job *job, int64_t now_ms);

#endif
