/* Why a job is where it is, for people. Pure. */
#ifndef CORE_WHY_H
#define CORE_WHY_H

#include "coordinator/model/cluster.h"

/* Every blocker of a waiting job, the ranks that stall a running one, or else the job's reason.
 * Returns the number written to ret. */
int core_why(const struct cluster *cluster, const struct job *job, struct reason *ret, int max);

#endif
