/* Guarantees and limits of tenants. A new limit does not affect running jobs. */
#ifndef CORE_TENANT_H
#define CORE_TENANT_H

#include "coordinator/core/step_state.h"

void tenant_set(struct step *step); /* by EVENT_TENANT_SET */

#endif
