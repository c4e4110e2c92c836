/* The dry run before an eviction: a pass over the cluster as it will be then. A victim that ends
 * waits in the queue again and its tenant uses less. Both can change the order of the queue.
 * Without the dry run a gang could end for another, find its own place free, start, and end again.
 * Pure. */
#ifndef SCHEDULER_DRY_RUN_H
#define SCHEDULER_DRY_RUN_H

#include "coordinator/scheduler/pass.h"

/* True if the job is placed after the eviction. The leaving workers, the evictions of this pass
 * and those in `evictions` are then done. Jobs nominated earlier, and each victim that `returns`,
 * must be placed too. `pass` is the running pass, with its parts; it does not change. */
bool dry_run_places(const struct pass *pass, const struct job *job,
                    const struct eviction *evictions, int count);

#endif
