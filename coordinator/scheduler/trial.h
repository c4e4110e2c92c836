/* The dry run before an eviction: a pass over the cluster as it will be then. A victim that ends
 * waits in the queue again and its tenant uses less. Both can change the order of the queue.
 * Without the dry run a gang could end for another, find its own place free, start, and end again.
 * Pure. */
#ifndef SCHEDULER_TRIAL_H
#define SCHEDULER_TRIAL_H

#include "coordinator/scheduler/preempt.h"

/* True if the job is placed after the eviction. The leaving workers, the concessions of this pass
 * and those in `given` are then done. Jobs that got room earlier, and each victim that `returns`,
 * must be placed too. `pass` is the running pass, with its parts; it does not change. */
bool trial_places(const struct pass *pass, const struct job *job, const struct concession *given,
                  int count);

#endif
