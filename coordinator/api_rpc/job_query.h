/* What several call files ask about a job: which one a caller means, how it is shown, its tenant.
 * Loop thread only. */
#ifndef API_RPC_JOB_QUERY_H
#define API_RPC_JOB_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "coordinator/api_rpc/open_call.h"
#include "coordinator/model/cluster.h"
#include "proto/job.pb-c.h"

/* By id, or the newest of that name, among the jobs that the caller may see. err has E_NOT_FOUND,
 * equally for a missing and a hidden job. */
const struct job *service_find_job(struct service_call *call, const char *id, struct error *err);

/* A job as in lists, with its ledger; workers only on request. NULL if memory is out. */
Muster__Job *service_show_job(struct service *service, struct arena *arena, const struct job *job,
                              bool workers);

/* Set the tenant: the one the spec names, or its submitter's. err is set if the submitter may not
 * use it. The spec borrows it. */
int service_choose_tenant(struct service_call *call, Muster__JobSpec *spec, struct error *err);

#endif
