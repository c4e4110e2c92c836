/* The nodes as they will be once the room that is being made is there. Pure.
 *
 * Several gangs may get room in one pass: each counts with what those before it will have taken.
 */
#ifndef SCHEDULER_ROOM_H
#define SCHEDULER_ROOM_H

#include "coordinator/scheduler/pass.h"

/* It will not be there: it was told to end, or its node is being given back. */
bool room_is_left(const struct worker *worker);

/* A copy of the pass's view (view_fini) as if those who leave had left, those who were asked in
 * this pass had given, and those it was for had started; what is kept for these is kept no more.
 * The pass's parts have been found. */
void room_view(const struct pass *pass, struct view *ret);

/* The job starts when those who leave have: what it then starts on is kept for it, and the pass
 * goes on to make room for others like it. `view` is as it will be then. */
void room_note(struct pass *pass, const struct job *job, struct view *view);

#endif
