/* The nodes as they will be when the room for some jobs has been made. Pure.
 *
 * Several gangs may get room in one pass: each plan includes what the earlier ones will use.
 */
#ifndef SCHEDULER_ROOM_H
#define SCHEDULER_ROOM_H

#include "coordinator/scheduler/pass.h"

/* True if the worker will be gone: it was asked to stop, or its node is being given back. */
bool room_is_left(const struct worker *worker);

/* A copy of the pass's view (view_fini) in the future: leaving workers have ended, the concessions
 * of this pass are given, and the jobs they are for have started. Reservations for these jobs are
 * gone. Requires the pass's parts. */
void room_view(const struct pass *pass, struct view *ret);

/* The job starts when the leaving workers have ended. Reserve its nodes; the pass may then make
 * room for equal jobs. `view` is the future view. */
void room_note(struct pass *pass, const struct job *job, struct view *view);

#endif
