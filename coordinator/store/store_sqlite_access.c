/* Tokens, tenants and the audit trail in SQLite. */
#include "coordinator/store/store_sqlite_access.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "coordinator/store/store_sqlite_state.h"

int store_sqlite_put_token(struct store *store, const struct store_token *token, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    insist(self->in_transaction);
    sqlite3_stmt *stmt = statement(self, S_PUT_TOKEN);
    sqlite3_bind_blob(stmt, 1, token->hash, sizeof(token->hash), SQLITE_STATIC);
    bind_text(stmt, 2, token->id);
    bind_text(stmt, 3, token->name);
    bind_text(stmt, 4, token->role);
    bind_text(stmt, 5, token->tenant);
    sqlite3_bind_int64(stmt, 6, token->created_wall_ms);
    sqlite3_bind_int64(stmt, 7, token->expires_wall_ms);
    sqlite3_bind_int64(stmt, 8, token->revoked_wall_ms);
    sqlite3_bind_int64(stmt, 9, token->used_wall_ms);
    sqlite3_bind_int64(stmt, 10, token->uses);
    sqlite3_bind_int64(stmt, 11, token->uses_max);
    return run(self, stmt, "write token", err);
}

static const char prefixes_name[] = "checkpoint_prefixes";

static int put_setting(struct store_sqlite *self, const struct store_tenant *tenant,
                       const char *name, const char *value, struct error *err)
{
    sqlite3_stmt *stmt = statement(self, S_PUT_SETTING);
    bind_text(stmt, 1, tenant->name);
    bind_text(stmt, 2, name);
    bind_text(stmt, 3, value);
    return run(self, stmt, "write setting of a tenant", err);
}

static int put_settings(struct store_sqlite *self, const struct store_tenant *tenant,
                        struct error *err)
{
    char value[24];
    sqlite3_stmt *stmt = statement(self, S_FORGET_SETTINGS);
    bind_text(stmt, 1, tenant->name);
    int rc = run(self, stmt, "forget settings of a tenant", err);
    for (int i = 0; !rc && i < QUOTA_COUNT; i++) {
        if (!tenant->quotas.set[i])
            continue;
        (void)str_printf(value, sizeof(value), "%lld", (long long)tenant->quotas.limit[i]);
        rc = put_setting(self, tenant, quota_name((enum quota)i), value, err);
    }
    if (!rc && tenant->checkpoint_prefixes[0])
        rc = put_setting(self, tenant, prefixes_name, tenant->checkpoint_prefixes, err);
    return rc;
}

int store_sqlite_put_tenant(struct store *store, const struct store_tenant *tenant,
                            struct error *err)
{
    struct store_sqlite *self = self_of(store);
    insist(self->in_transaction);
    sqlite3_stmt *stmt = statement(self, S_PUT_TENANT);
    bind_text(stmt, 1, tenant->name);
    sqlite3_bind_int(stmt, 2, tenant->weight);
    sqlite3_bind_int(stmt, 3, tenant->guaranteed_slots);
    sqlite3_bind_int(stmt, 4, tenant->limit_slots);
    sqlite3_bind_int64(stmt, 5, tenant->created_wall_ms);
    int rc = run(self, stmt, "write tenant", err);
    if (rc)
        return rc;
    return put_settings(self, tenant, err);
}

static int run_with(struct store_sqlite *self, enum statement which, int64_t number,
                    const char *what, struct error *err)
{
    sqlite3_stmt *stmt = statement(self, which);
    sqlite3_bind_int64(stmt, 1, number);
    return run(self, stmt, what, err);
}

/* Changes that are older than the STORE_AUDIT_KEPT_MAX newest ones, in whole blocks. */
static int forget_old_changes(struct store_sqlite *self, struct error *err)
{
    sqlite3_stmt *stmt = statement(self, S_OLD_BLOCK);
    sqlite3_bind_int(stmt, 1, STORE_AUDIT_KEPT_MAX);
    int step = sqlite3_step(stmt);
    int64_t last = step == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
    sqlite3_reset(stmt);
    if (step != SQLITE_ROW)
        return store_sqlite_error(self->db, step, "find old audit entries", err);
    if (last == 0)
        return 0;
    int rc = run_with(self, S_FORGET_AUDIT, last, "forget old audit entries", err);
    if (rc)
        return rc;
    return run_with(self, S_EMPTY_BLOCKS, last, "forget audit blocks", err);
}

/* A block ends here: how many changes it has, and what is too old now. */
static int forget_old_audit(struct store_sqlite *self, struct error *err)
{
    enum { FORGET_EVERY = 1024 };
    if (self->open_audit % FORGET_EVERY != 0)
        return 0;
    int64_t last = (int64_t)self->open_audit;
    int rc = run_with(self, S_ADD_BLOCK, last, "count audit entries", err);
    if (!rc)
        rc = run_with(self, S_FORGET_REFUSALS, STORE_REFUSALS_KEPT_MAX, "forget old refusals", err);
    if (!rc)
        rc = forget_old_changes(self, err);
    if (rc)
        return rc;
    return run(self, statement(self, S_JOIN_BLOCKS), "join audit blocks", err);
}

int store_sqlite_put_audit(struct store *store, const struct store_audit *entry, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    insist(self->in_transaction);
    sqlite3_stmt *stmt = statement(self, S_PUT_AUDIT);
    const char *const texts[] = {entry->token,   entry->token_name, entry->role,   entry->tenant,
                                 entry->carrier, entry->peer,       entry->method, entry->object,
                                 entry->result,  entry->text};
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)(self->open_audit + 1));
    sqlite3_bind_int64(stmt, 2, entry->wall_ms);
    for (int i = 0; i < (int)(sizeof(texts) / sizeof(*texts)); i++)
        bind_text(stmt, 3 + i, texts[i]);
    int rc = run(self, stmt, "write audit entry", err);
    if (rc)
        return rc;
    self->open_audit++;
    return forget_old_audit(self, err);
}

#define COPY(to, stmt, at) (void)str_copy(to, sizeof(to), column(stmt, at))

int store_sqlite_list_tokens(struct store *store, store_token_fn fn, void *arg, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    sqlite3_stmt *stmt = statement(self, S_TOKENS);
    int step;
    while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct store_token token = {
            .created_wall_ms = sqlite3_column_int64(stmt, 5),
            .expires_wall_ms = sqlite3_column_int64(stmt, 6),
            .revoked_wall_ms = sqlite3_column_int64(stmt, 7),
            .used_wall_ms = sqlite3_column_int64(stmt, 8),
            .uses = sqlite3_column_int64(stmt, 9),
            .uses_max = sqlite3_column_int64(stmt, 10),
        };
        if (sqlite3_column_bytes(stmt, 0) != TOKEN_HASH_BYTES)
            continue; /* matches no token anyway */
        memcpy(token.hash, sqlite3_column_blob(stmt, 0), TOKEN_HASH_BYTES);
        COPY(token.id, stmt, 1);
        COPY(token.name, stmt, 2);
        COPY(token.role, stmt, 3);
        COPY(token.tenant, stmt, 4);
        fn(arg, &token);
    }
    sqlite3_reset(stmt);
    return step == SQLITE_DONE ? 0 : store_sqlite_error(self->db, step, "list tokens", err);
}

/* A setting that is not known here (of a newer program) is left out. */
static int read_settings(struct store_sqlite *self, struct store_tenant *ret, struct error *err)
{
    sqlite3_stmt *stmt = statement(self, S_SETTINGS);
    enum quota quota;
    int64_t limit;
    int step;
    bind_text(stmt, 1, ret->name);
    while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
        if (strcmp(column(stmt, 0), prefixes_name) == 0)
            COPY(ret->checkpoint_prefixes, stmt, 1);
        else if (!quota_find(column(stmt, 0), &quota, NULL) &&
                 !parse_i64(column(stmt, 1), INT64_MIN, INT64_MAX, &limit, NULL))
            (void)quota_set(&ret->quotas, quota, limit, NULL);
    }
    sqlite3_reset(stmt);
    return step == SQLITE_DONE
               ? 0
               : store_sqlite_error(self->db, step, "list settings of a tenant", err);
}

int store_sqlite_list_tenants(struct store *store, store_tenant_fn fn, void *arg, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    sqlite3_stmt *stmt = statement(self, S_TENANTS);
    int step;
    while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct store_tenant tenant = {
            .weight = sqlite3_column_int(stmt, 1),
            .guaranteed_slots = sqlite3_column_int(stmt, 2),
            .limit_slots = sqlite3_column_int(stmt, 3),
            .created_wall_ms = sqlite3_column_int64(stmt, 4),
        };
        COPY(tenant.name, stmt, 0);
        int rc = read_settings(self, &tenant, err);
        if (rc) {
            sqlite3_reset(stmt);
            return rc;
        }
        fn(arg, &tenant);
    }
    sqlite3_reset(stmt);
    return step == SQLITE_DONE ? 0 : store_sqlite_error(self->db, step, "list tenants", err);
}

int store_sqlite_list_audit(struct store *store, const struct store_events_query *query,
                            store_audit_fn fn, void *arg, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    insist(query->limit > 0 && query->limit <= STORE_AUDIT_PAGE_MAX);
    sqlite3_stmt *stmt = statement(self, query->newest ? S_NEWEST_AUDIT : S_AUDIT);
    sqlite3_bind_int64(stmt, 1, query->after > INT64_MAX ? INT64_MAX : (int64_t)query->after);
    sqlite3_bind_int(stmt, 2, query->limit);
    int step;
    while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct store_audit entry = {
            .seq = (uint64_t)sqlite3_column_int64(stmt, 0),
            .wall_ms = sqlite3_column_int64(stmt, 1),
        };
        COPY(entry.token, stmt, 2);
        COPY(entry.token_name, stmt, 3);
        COPY(entry.role, stmt, 4);
        COPY(entry.tenant, stmt, 5);
        COPY(entry.carrier, stmt, 6);
        COPY(entry.peer, stmt, 7);
        COPY(entry.method, stmt, 8);
        COPY(entry.object, stmt, 9);
        COPY(entry.result, stmt, 10);
        COPY(entry.text, stmt, 11);
        fn(arg, &entry);
    }
    sqlite3_reset(stmt);
    return step == SQLITE_DONE ? 0 : store_sqlite_error(self->db, step, "list audit", err);
}
