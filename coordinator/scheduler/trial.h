/* The proof before somebody gives way: a pass over things as they will be then. Who ends waits in
 * the queue again, its tenant uses less, and both may change who goes first; without the proof a
 * gang could end for another, find its own place free, and end again. Pure. */
#ifndef SCHEDULER_TRIAL_H
#define SCHEDULER_TRIAL_H

#include "coordinator/scheduler/preempt.h"

/* Once those who leave already, those who were asked in this pass and those who are to give way
 * have, the job is placed, and so are those that room was made for before and each that `returns`.
 * `pass` is the one at work, its parts have been found; it is not changed. */
bool trial_places(const struct pass *pass, const struct job *job, const struct concession *given,
                  int count);

#endif
