/* Why a worker is asked to stop: the situation of its job or its node, as a sentence for its
 * program and for the event log. Names of jobs are marked for reason_show. Pure.
 */
#ifndef MODEL_STOP_REASON_H
#define MODEL_STOP_REASON_H

#include "coordinator/model/cluster.h"

enum { STOP_REASON_MAX = 400 };

void worker_stop_reason(const struct cluster *cluster, const struct job *job,
                        const struct worker *worker, char ret[STOP_REASON_MAX + 1]);

#endif
