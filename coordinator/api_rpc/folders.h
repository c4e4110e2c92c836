/* The folders in which a tenant's jobs may keep checkpoints. A folder belongs to the tenant with a
 * prefix above it. Without such a tenant it belongs to the tenant of the newest remembered job in
 * it. Paths are compared by meaning, without following links. Loop thread only. */
#ifndef API_RPC_FOLDERS_H
#define API_RPC_FOLDERS_H

#include "coordinator/model/cluster.h"
#include "coordinator/store/store.h"

struct service;

/* 0 if a member may submit this. E_PERMISSION_DENIED naming checkpoint.dir. */
int folders_allow_job(struct service *service, const struct store_tenant *tenant,
                      const struct spec *spec, struct error *err);

/* 0 if a worker of job `id` may report a checkpoint at `path`: below the job's own folder, or, for
 * a job without one, where a member may. 0 also if the job does not exist, because others report
 * that. E_PERMISSION_DENIED. */
int folders_allow_commit(struct service *service, const char *id, const char *path,
                         struct error *err);

#endif
