/* What a caller of one tenant may see. Loop thread only. */
#ifndef API_RPC_SCOPE_H
#define API_RPC_SCOPE_H

#include <stdbool.h>

#include "common/base/arena.h"
#include "coordinator/api_rpc/open_call.h"
#include "coordinator/core/action.h"
#include "coordinator/model/cluster.h"
#include "proto/client.pb-c.h"
#include "proto/job.pb-c.h"

extern const char scope_others[]; /* replaces the names of other tenants' jobs */

const char *scope_tenant(const struct service_call *call); /* NULL = all */
bool scope_sees_job(const struct service_call *call, const struct job *job);
bool scope_sees_event(const struct service_call *call, const struct record *record);

/* Called for every answered message of its kind, for every caller. Removes names of other tenants'
 * jobs, and all marks. False if memory is out. `reason` may be NULL. */
bool scope_reason(const struct service_call *call, struct arena *arena, Muster__Reason *reason);
bool scope_job(const struct service_call *call, struct arena *arena, Muster__Job *message);
bool scope_node(const struct service_call *call, struct arena *arena, Muster__Node *node);

#endif
