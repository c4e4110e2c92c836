/* Permissions: the tokens and tenants, in memory as stored.
 *
 *       admin     everything                      agent   the Nodes service, and nothing else
 *       operator  nodes; reads everything         worker  is known to its agent, never here
 *       member    jobs of its tenant              viewer  reads its tenant's jobs
 *
 * A token keeps its place in memory until access_free, the entry of a node's key until
 * access_free_nodes, so open calls may point at theirs. A revoked or expired token is no longer
 * valid. Owned by the service; loop thread only.
 */
#ifndef API_RPC_ACCESS_H
#define API_RPC_ACCESS_H

#include <stdbool.h>

#include "common/base/map.h"
#include "coordinator/store/store.h"

struct access;

/* One X per role: enum word, name, whether it is bound to one tenant. */
#define ACCESS_ROLES(X)                                                                            \
    X(ADMIN, 1, admin, false)                                                                      \
    X(OPERATOR, 2, operator, false)                                                                \
    X(MEMBER, 4, member, true)                                                                     \
    X(VIEWER, 8, viewer, true)                                                                     \
    X(AGENT, 16, agent, false)

enum access_role { /* bits, so that a method can list the roles that may call it */
#define X(upper, bit, lower, bound) ACCESS_##upper = bit,
                   ACCESS_ROLES(X)
#undef X
                       ACCESS_READERS =
                           ACCESS_ADMIN | ACCESS_OPERATOR | ACCESS_MEMBER | ACCESS_VIEWER,
};

/* 0 for an unknown role. */
unsigned access_role(const char *name);
bool access_role_bound(unsigned role); /* true if it belongs to one tenant */

/* "admin, operator or member": for messages. */
void access_role_names(unsigned roles, char *ret, size_t size);

int access_new(struct access **ret, struct error *err);
void access_free(struct access *access); /* NULL is allowed */

/* Load all from the store. Tokens that are not in the store become invalid. */
int access_load(struct access *access, struct store *store, struct error *err);

/* The token with that plain text, noting its use. E_UNAUTHENTICATED if it is unknown, revoked or
 * expired. */
int access_identify(struct access *access, const char *plain, int64_t wall_ms,
                    const struct store_token **ret, struct error *err);
bool access_is_valid(const struct store_token *token, int64_t wall_ms);

/* Copies; replaces one with the same hash. E_RESOURCE_EXHAUSTED beyond STORE_TOKENS_MAX. */
int access_put_token(struct access *access, const struct store_token *token, struct error *err);

/* By id, or by name among the valid ones. NULL if there is none. */
const struct store_token *access_token(const struct access *access, const char *id,
                                       int64_t wall_ms);
int access_count_valid(const struct access *access, unsigned role, int64_t wall_ms);

/* Fill hash and id from the plain text. */
void access_name_token(const char *plain, struct store_token *ret);

/* All, oldest first: an array of access_tokens_count pointers that the caller frees. NULL: memory
 * is out. */
const struct store_token **access_tokens(const struct access *access);
int access_tokens_count(const struct access *access);

/* Nodes are identified by the key that their agents prove. Each node has an entry of role agent
 * with the node's name and no secret; one key belongs to one node. E_RESOURCE_EXHAUSTED. */
int access_put_node(struct access *access, const char *key, const char *node, struct error *err);
void access_forget_node(struct access *access, const char *key);
void access_forget_nodes(struct access *access); /* all of them */
/* Free the entries of removed keys, except those with an address that is a key of `pointed_to`.
 * Each is passed to `fn` first. True if some are left. */
bool access_free_nodes(struct access *access, const struct map *pointed_to, store_token_fn fn,
                       void *arg);
const struct store_token *access_node(const struct access *access, const char *key);
bool access_node_is_valid(const struct store_token *node); /* its key was not removed */

int access_put_tenant(struct access *access, const struct store_tenant *tenant, struct error *err);
const struct store_tenant *access_tenant(const struct access *access, const char *name);
const struct store_tenant *access_first_tenant(const struct access *access);
const struct store_tenant *access_next_tenant(const struct access *access,
                                              const struct store_tenant *tenant);
/* E_NOT_FOUND with the nearest name. */
int access_no_tenant(const struct access *access, const char *name, struct error *err);

/* Call `fn` for each token with a last use at least `by_ms` newer than stored; it then counts as
 * stored. True if others remain. */
bool access_flush_uses(struct access *access, int64_t by_ms, store_token_fn fn, void *arg);

#endif
