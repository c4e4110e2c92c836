/* Which agent may register as which node. A node is identified by its key. A free name is given to
 * the first key with a token of role agent. For a used name the key decides, also if the
 * node is from before nodes had keys. A key removed from a node (rekey) is never accepted for that
 * node again. Where connections prove no keys (ipc) the token decides each time.
 *
 * Each new key (without keys: each new name) counts as a use of its token, in the transaction of
 * its registration. Loop thread only.
 */
#ifndef API_RPC_JOIN_H
#define API_RPC_JOIN_H

#include "coordinator/model/cluster.h"
#include "coordinator/store/store.h"

struct service;
struct service_call;

struct join {
    const struct store_token *caller; /* the token, or the entry of the node's key */
    bool is_new;                      /* set by join_check */
};

/* Call before the registration's step. Sets the key in `facts`. E_PERMISSION_DENIED and
 * E_UNAUTHENTICATED end an agent at its start; E_ABORTED ends a running one. */
int join_check(struct service *service, struct join *join, const char *key, struct node *facts,
               struct error *err);

/* Call after it, in the same turn, if `node` is the requested one. `detail` is the audit trail's
 * text about the registration; the use is added to it. */
void join_count(struct service_call *call, const struct join *join, const struct node *node,
                const char *detail);

#endif
