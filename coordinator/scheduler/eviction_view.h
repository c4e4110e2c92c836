/* The nodes as they will be after the evictions of a pass. Pure.
 *
 * Victims may make room for several jobs in one pass: each plan includes what the jobs before it
 * will use.
 */
#ifndef SCHEDULER_EVICTION_VIEW_H
#define SCHEDULER_EVICTION_VIEW_H

#include "coordinator/scheduler/pass.h"

/* A copy of the pass's view (view_fini) in the future: leaving workers have ended, the evictions
 * of this pass are done, and the jobs they are for have started. Reservations for these jobs have
 * ended. Requires the pass's parts. */
void eviction_view_init(const struct pass *pass, struct view *ret);

/* The job starts when the leaving workers have ended. Reserve its nodes; the pass may then
 * evict for equal jobs. `view` is the future view. */
void eviction_view_nominate(struct pass *pass, const struct job *job, struct view *view);

#endif
