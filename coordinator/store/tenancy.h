/* The rows of the store about rights: tokens, tenants, and tenants' secrets. Plain
 * data, copied in and out of the store (store.h).
 */
#ifndef STORE_TENANCY_H
#define STORE_TENANCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/token.h"
#include "coordinator/model/quota.h"

enum {
    STORE_TOKENS_MAX = 10000,
    STORE_TOKEN_ID_MAX = TOKEN_ID_MAX,
    STORE_TOKEN_NAME_MAX = 63,
    STORE_TENANTS_MAX = 1000,
    STORE_TENANT_MAX = 63,
    STORE_PREFIXES_MAX = 1023,
    STORE_SECRETS_MAX = 20000,
    STORE_SECRET_NAME_MAX = 63,
};

struct store_token {
    uint8_t hash[TOKEN_HASH_BYTES];
    char id[STORE_TOKEN_ID_MAX + 1]; /* start of the hash: names it, is no secret */
    char name[STORE_TOKEN_NAME_MAX + 1];
    char role[TOKEN_ROLE_MAX + 1];
    char tenant[STORE_TENANT_MAX + 1]; /* "" = not of one tenant */
    int64_t created_wall_ms;
    int64_t expires_wall_ms, revoked_wall_ms, used_wall_ms; /* 0 = never */
    int64_t uses, uses_max; /* of role agent: new nodes it let in; how many it may, 0 = any */
};

struct store_tenant {
    char name[STORE_TENANT_MAX + 1];
    int weight, guaranteed_slots, limit_slots; /* limit 0 = none */
    struct quotas quotas;
    /* Folders below which its jobs may keep checkpoints, absolute, a line each; "" = any that no
     * other tenant has. */
    char checkpoint_prefixes[STORE_PREFIXES_MAX + 1];
    int64_t created_wall_ms;
};

struct store_secret { /* a named value of a tenant, sealed (common/env/seal.h) */
    char tenant[STORE_TENANT_MAX + 1];
    char name[STORE_SECRET_NAME_MAX + 1];
    char created_by[STORE_TOKEN_NAME_MAX + 1]; /* names of tokens */
    char changed_by[STORE_TOKEN_NAME_MAX + 1];
    int64_t created_wall_ms, changed_wall_ms;
    int64_t used_wall_ms;  /* about, 0 = never */
    const uint8_t *sealed; /* borrowed for the call */
    size_t sealed_bytes;
};

typedef void (*store_token_fn)(void *arg, const struct store_token *token);
typedef void (*store_tenant_fn)(void *arg, const struct store_tenant *tenant);
typedef void (*store_secret_fn)(void *arg, const struct store_secret *secret);

#endif
