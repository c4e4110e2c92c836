#include "coordinator/api_rpc/access.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hex.h"
#include "common/base/map.h"
#include "common/base/meant.h"
#include "common/base/str.h"

struct entry {
    struct store_token token; /* first member: callers have pointers to it */
    int64_t stored_use_wall_ms;
    bool seen; /* while loading */
};

struct access {
    struct strmap tokens;  /* hex of the hash -> struct entry */
    struct strmap tenants; /* name -> struct store_tenant */
    struct strmap nodes;   /* key -> struct store_token */
};

static int out_of_memory(struct error *err)
{
    return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
}

unsigned access_role(const char *name)
{
#define X(upper, bit, lower, bound)                                                                \
    if (name[0] == #lower[0] && strcmp(name, #lower) == 0)                                         \
        return bit;
    ACCESS_ROLES(X)
#undef X
    return 0;
}

bool access_role_bound(unsigned role)
{
#define X(upper, bit, lower, bound)                                                                \
    if (role == (bit))                                                                             \
        return bound;
    ACCESS_ROLES(X)
#undef X
    return false;
}

void access_role_names(unsigned roles, char *ret, size_t size)
{
    size_t used = 0;
    unsigned left = roles;
    ret[0] = 0;
#define X(upper, bit, lower, bound)                                                                \
    if (roles & (bit)) {                                                                           \
        left &= ~(unsigned)(bit);                                                                  \
        (void)str_printf(ret + used, size - used, "%s%s",                                          \
                         !used  ? ""                                                               \
                         : left ? ", "                                                             \
                                : " or ",                                                          \
                         #lower);                                                                  \
        used = strlen(ret);                                                                        \
    }
    ACCESS_ROLES(X)
#undef X
}

int access_new(struct access **ret, struct error *err)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : out_of_memory(err);
}

void access_free(struct access *access)
{
    if (!access)
        return;
    strmap_free_values(&access->tokens);
    strmap_free_values(&access->tenants);
    strmap_free_values(&access->nodes);
    free(access);
}

static struct entry *find_token(const struct access *access, const uint8_t hash[TOKEN_HASH_BYTES])
{
    char name[2 * TOKEN_HASH_BYTES + 1];
    hex_encode(hash, TOKEN_HASH_BYTES, name);
    return strmap_get(&access->tokens, name);
}

int access_put_token(struct access *access, const struct store_token *token, struct error *err)
{
    char name[2 * TOKEN_HASH_BYTES + 1];
    struct entry *entry = find_token(access, token->hash);
    if (!entry) {
        if (strmap_count(&access->tokens) >= STORE_TOKENS_MAX)
            return error_set(err, E_RESOURCE_EXHAUSTED, "more than %d tokens", STORE_TOKENS_MAX);
        entry = calloc(1, sizeof(*entry));
        hex_encode(token->hash, sizeof(token->hash), name);
        if (!entry || strmap_set(&access->tokens, name, entry, NULL)) {
            free(entry);
            return out_of_memory(err);
        }
    }
    entry->token = *token;
    entry->stored_use_wall_ms = token->used_wall_ms;
    entry->seen = true;
    return 0;
}

int access_put_node(struct access *access, const char *key, const char *node, struct error *err)
{
    struct store_token *known = strmap_get(&access->nodes, key);
    if (!known) {
        known = calloc(1, sizeof(*known));
        if (!known || strmap_set(&access->nodes, key, known, NULL)) {
            free(known);
            return out_of_memory(err);
        }
    }
    known->revoked_wall_ms = 0;
    (void)str_copy(known->role, sizeof(known->role), "agent");
    (void)str_copy(known->name, sizeof(known->name), node);
    (void)str_printf(known->id, sizeof(known->id), "%.*s", STORE_TOKEN_ID_MAX, key);
    return 0;
}

/* Its memory stays: open calls may point to it. */
void access_forget_node(struct access *access, const char *key)
{
    struct store_token *known = strmap_get(&access->nodes, key);
    if (known)
        known->revoked_wall_ms = 1;
}

void access_forget_nodes(struct access *access)
{
    for (struct map_entry *e = strmap_first(&access->nodes); e; e = map_next(e))
        ((struct store_token *)e->value)->revoked_wall_ms = 1;
}

bool access_free_nodes(struct access *access, const struct map *pointed_to, store_token_fn fn,
                       void *arg)
{
    bool left = false;
    for (struct map_entry *e = strmap_first(&access->nodes), *next; e; e = next) {
        struct store_token *known = e->value;
        next = map_next(e);
        if (access_node_is_valid(known))
            continue;
        if (map_find(pointed_to, (uint64_t)(uintptr_t)known)) {
            left = true;
            continue;
        }
        fn(arg, known);
        strmap_remove(&access->nodes, e->name);
        free(known);
    }
    return left;
}

const struct store_token *access_node(const struct access *access, const char *key)
{
    const struct store_token *known = strmap_get(&access->nodes, key);
    return known && access_node_is_valid(known) ? known : NULL;
}

bool access_node_is_valid(const struct store_token *node)
{
    return !node->revoked_wall_ms;
}

int access_put_tenant(struct access *access, const struct store_tenant *tenant, struct error *err)
{
    struct store_tenant *known = strmap_get(&access->tenants, tenant->name);
    if (!known) {
        if (strmap_count(&access->tenants) >= STORE_TENANTS_MAX)
            return error_set(err, E_RESOURCE_EXHAUSTED, "more than %d tenants", STORE_TENANTS_MAX);
        known = calloc(1, sizeof(*known));
        if (!known || strmap_set(&access->tenants, tenant->name, known, NULL)) {
            free(known);
            return out_of_memory(err);
        }
    }
    *known = *tenant;
    return 0;
}

struct loading {
    struct access *access;
    struct error *err;
    int rc;
};

static void load_token(void *arg, const struct store_token *token)
{
    struct loading *loading = arg;
    if (!loading->rc)
        loading->rc = access_put_token(loading->access, token, loading->err);
}

static void load_tenant(void *arg, const struct store_tenant *tenant)
{
    struct loading *loading = arg;
    if (!loading->rc)
        loading->rc = access_put_tenant(loading->access, tenant, loading->err);
}

int access_load(struct access *access, struct store *store, struct error *err)
{
    struct loading loading = {.access = access, .err = err};
    for (struct map_entry *e = strmap_first(&access->tokens); e; e = map_next(e))
        ((struct entry *)e->value)->seen = false;
    strmap_free_values(&access->tenants);
    int rc = store->verbs->list_tokens(store, load_token, &loading, err);
    if (!rc)
        rc = store->verbs->list_tenants(store, load_tenant, &loading, err);
    for (struct map_entry *e = strmap_first(&access->tokens); e; e = map_next(e)) {
        struct entry *entry = e->value;
        if (!entry->seen)
            entry->token.revoked_wall_ms = 1;
    }
    if (rc)
        return rc;
    return loading.rc;
}

bool access_is_valid(const struct store_token *token, int64_t wall_ms)
{
    return token->revoked_wall_ms == 0 &&
           (token->expires_wall_ms == 0 || wall_ms < token->expires_wall_ms);
}

int access_identify(struct access *access, const char *plain, int64_t wall_ms,
                    const struct store_token **ret, struct error *err)
{
    if (!plain || !*plain) {
        error_set(err, E_UNAUTHENTICATED, "this call needs a token");
        error_hint(err, "pass --token, MUSTER_TOKEN or 'Authorization: Bearer ...'");
        return E_UNAUTHENTICATED;
    }
    int rc = token_check(plain, NULL, err);
    if (rc)
        return rc;
    uint8_t hash[TOKEN_HASH_BYTES];
    token_hash(plain, hash);
    struct entry *entry = find_token(access, hash);
    if (!entry)
        return error_set(err, E_UNAUTHENTICATED, "this token is not known here");
    if (!access_is_valid(&entry->token, wall_ms))
        return error_set(err, E_UNAUTHENTICATED, "this token %s",
                         entry->token.revoked_wall_ms ? "was revoked" : "has expired");
    entry->token.used_wall_ms = wall_ms;
    *ret = &entry->token;
    return 0;
}

void access_name_token(const char *plain, struct store_token *ret)
{
    token_hash(plain, ret->hash);
    hex_encode(ret->hash, STORE_TOKEN_ID_MAX / 2, ret->id);
}

const struct store_token *access_token(const struct access *access, const char *id, int64_t wall_ms)
{
    const struct store_token *named = NULL;
    for (struct map_entry *e = strmap_first(&access->tokens); e; e = map_next(e)) {
        const struct store_token *token = &((struct entry *)e->value)->token;
        if (strcmp(token->id, id) == 0)
            return token;
        if (strcmp(token->name, id) == 0 && access_is_valid(token, wall_ms))
            named = token;
    }
    return named;
}

int access_count_valid(const struct access *access, unsigned role, int64_t wall_ms)
{
    int count = 0;
    for (struct map_entry *e = strmap_first(&access->tokens); e; e = map_next(e)) {
        const struct store_token *token = &((struct entry *)e->value)->token;
        if (access_role(token->role) == role && access_is_valid(token, wall_ms))
            count++;
    }
    return count;
}

static int by_age(const void *left, const void *right)
{
    const struct store_token *a = *(const struct store_token *const *)left;
    const struct store_token *b = *(const struct store_token *const *)right;
    if (a->created_wall_ms != b->created_wall_ms)
        return a->created_wall_ms < b->created_wall_ms ? -1 : 1;
    return strcmp(a->id, b->id);
}

const struct store_token **access_tokens(const struct access *access)
{
    const struct store_token **ret = calloc(strmap_count(&access->tokens) + 1, sizeof(void *));
    size_t count = 0;
    for (struct map_entry *e = ret ? strmap_first(&access->tokens) : NULL; e; e = map_next(e))
        ret[count++] = e->value;
    if (ret)
        qsort(ret, count, sizeof(void *), by_age);
    return ret;
}

int access_tokens_count(const struct access *access)
{
    return (int)strmap_count(&access->tokens);
}

const struct store_tenant *access_tenant(const struct access *access, const char *name)
{
    return strmap_get(&access->tenants, name);
}

const struct store_tenant *access_first_tenant(const struct access *access)
{
    struct map_entry *e = strmap_first(&access->tenants);
    return e ? e->value : NULL;
}

const struct store_tenant *access_next_tenant(const struct access *access,
                                              const struct store_tenant *tenant)
{
    struct map_entry *e = map_next(strmap_find(&access->tenants, tenant->name));
    return e ? e->value : NULL;
}

int access_no_tenant(const struct access *access, const char *name, struct error *err)
{
    const char *names[STORE_TENANTS_MAX + 1];
    int count = 0;
    for (struct map_entry *e = strmap_first(&access->tenants); e; e = map_next(e))
        names[count++] = e->name;
    names[count] = NULL;
    error_set(err, E_NOT_FOUND, "no tenant is named '%.80s'", name);
    error_field(err, "tenant");
    if (!meant_hint(err, name, names))
        error_hint(err, "muster tenant list shows them");
    return E_NOT_FOUND;
}

bool access_flush_uses(struct access *access, int64_t by_ms, store_token_fn fn, void *arg)
{
    bool more = false;
    for (struct map_entry *e = strmap_first(&access->tokens); e; e = map_next(e)) {
        struct entry *entry = e->value;
        int64_t newer_ms = entry->token.used_wall_ms - entry->stored_use_wall_ms;
        if (newer_ms >= by_ms) {
            entry->stored_use_wall_ms = entry->token.used_wall_ms;
            fn(arg, &entry->token);
        } else if (newer_ms > 0) {
            more = true;
        }
    }
    return more;
}
