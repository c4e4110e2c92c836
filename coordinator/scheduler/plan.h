/* What would happen to one job, now or after a change. `why` and `plan` run the same pass that
 * places jobs. Pure. */
#ifndef SCHEDULER_PLAN_H
#define SCHEDULER_PLAN_H

#include "coordinator/scheduler/forecast.h"
#include "coordinator/scheduler/what_if.h"

enum { PLAN_DEPTH_MAX = 2000 }; /* jobs in front that are examined */

/* Without job and spec: the effects of the change on other jobs. E_FAILED_PRECONDITION (nothing was
 * filled) if the job could never run here. Call forecast_fini after a result of 0. */
int scheduler_plan(const struct cluster *cluster, const struct what_if *what_if,
                   struct forecast *ret, struct error *err);

#endif
