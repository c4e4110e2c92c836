/* Deadlines of a group. Pure. INT64_MAX means no deadline. */
#ifndef CORE_DEADLINE_H
#define CORE_DEADLINE_H

#include "coordinator/model/cluster.h"

/* When the first member that has not asked to join is late. */
int64_t group_join_deadline(const struct job *job, const struct group *group);

/* The worker has not asked to join, and at now_ms its time for that is over. */
bool group_join_overdue(const struct job *job, const struct group *group,
                        const struct worker *worker, int64_t now_ms);

/* The deadline of a broken group in which no worker died, or of one where some ranks finished and
 * the others make no progress. */
int64_t group_progress_deadline(const struct job *job);

#endif
