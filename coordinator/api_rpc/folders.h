/* Which folders a tenant's jobs may keep checkpoints in. A folder belongs to the tenant below whose
 * prefixes it is; where nobody has it by prefix, to the tenant of the newest job that is remembered
 * in it. Paths are compared by what they mean; nothing looks at links. Loop thread only.
 */
#ifndef API_RPC_FOLDERS_H
#define API_RPC_FOLDERS_H

#include "coordinator/api_rpc/service.h"
#include "coordinator/store/store.h"

/* A member may submit this. E_PERMISSION_DENIED naming checkpoint.dir. */
int folders_allow_job(struct service *service, const struct store_tenant *tenant,
                      const struct spec *spec, struct error *err);

/* A worker of job `id` may say that it wrote a checkpoint at `path`: below the job's own folder; of
 * a job whose spec names none, where a member may. 0 if there is no such job: others say that.
 * E_PERMISSION_DENIED. */
int folders_allow_commit(struct service *service, const char *id, const char *path,
                         struct error *err);

#endif
