/* A gang that leaves drained nodes, and cannot go on without others in their place. New workers
 * start there first, while all train on. Once these have asked to join, the gang re-forms: workers
 * on drained nodes end as after any drain, and new ones get their ranks
 * (docs/adr/0019-replacements-start-first.md).
 *
 *    drained ─► form (closed, without drained nodes) ─► new workers asked ─┬─► open: the others
 *         ▲           │ one fails                MOVE_PATIENCE_MS is over ─┘    are stopped
 *         └───────────┘ after MOVE_RETRY_MS
 *
 * MOVE_PATIENCE_MS counts from the drain, over all attempts. A drain that is undone ends the
 * new workers.
 */
#ifndef CORE_MOVE_H
#define CORE_MOVE_H

#include "coordinator/core/failure.h"
#include "coordinator/core/step_state.h"

/* New workers start (job_is_moving), and a member that is to leave may stay: its node is
 * drained no longer. */
bool move_is_void(const struct step *step, const struct job *job);
/* The time for it is over: the gang re-forms though new workers are not ready. */
bool move_is_overdue(const struct job *job, int64_t now_ms);
/* Replace those on drained nodes while the gang trains. False: it re-forms, or restarts, at once.
 * True, and no new worker starts: one has failed, and it is tried again later. */
bool move_begin(struct step *step, struct job *job, const struct failure *failure);
void move_failed(struct step *step, struct job *job); /* tried again, after a while */
/* Of a move under way: ask the members that it leaves out to end; the reason. */
void move_leave(struct step *step, struct job *job, struct reason *ret);
/* Call it while no member of the gang is on a drained node. */
void move_over(struct job *job);
/* No report was processed for a while: its time begins again. */
void move_resumed(struct job *job, int64_t now_ms);
int64_t move_wake_at(const struct job *job); /* INT64_MAX = there is none */

#endif
