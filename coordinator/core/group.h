/* One membership of a gang.
 *
 *    fresh gang, or a failure:            form (open) ─► all asked to join ─► published: forming
 *                                                        becomes current, membership is published
 *    survivors that are enough, and new workers that are not ready: published without those, which
 *                                         form the next one (newcomers.h) as growth
 *    growth: form (closed: only new workers know) ─► new ones asked to join ─► open ─► as above
 *    programs that never say Hello:       form (open) ─► all processes run ─► published, not joined
 *
 * A failure meanwhile makes a newer group (restart.h); generations only rise.
 */
#ifndef CORE_GROUP_H
#define CORE_GROUP_H

#include "coordinator/core/step_state.h"

/* Apply what follows from the state of the job's groups. */
void group_settle(struct step *step, struct job *job);
/* When group_settle may have something to do; INT64_MAX = not known. */
int64_t group_wake_at(const struct job *job);
void group_finished_reason(const struct group *group, struct reason *ret);

#endif
