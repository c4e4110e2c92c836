/* Which agent may be which node. A node is who has its key. A name that is not taken goes to the
 * first key that comes with a token of role agent; of a name that is taken, also of a node from
 * before nodes had keys, the key decides. A key that was taken from a node (rekey) never is that
 * node again. Where connections prove no keys (ipc) the token decides each time.
 *
 * Each new key (without keys: each new name) counts as a use of its token, in the transaction of
 * its registration. Loop thread only.
 */
#ifndef API_RPC_JOIN_H
#define API_RPC_JOIN_H

#include "coordinator/api_rpc/service.h"
#include "coordinator/store/store.h"

struct service_call;

struct join {
    const struct store_token *caller; /* the token, or what stands for the node's key */
    bool is_new;                      /* set by join_check */
};

/* Before the registration's step. Gives `facts` its key. E_PERMISSION_DENIED and
 * E_UNAUTHENTICATED, which end an agent at its start, or E_ABORTED, which ends one that runs. */
int join_check(struct service *service, struct join *join, const char *key, struct node *facts,
               struct error *err);

/* After it, in the same turn, if `node` is what was asked for. `detail` is what the audit trail
 * says of the registration; the use is added to it. */
void join_count(struct service_call *call, const struct join *join, const struct node *node,
                const char *detail);

#endif
