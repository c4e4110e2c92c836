/* Secrets of tenants in SQLite: sealed values and when they changed. */
#include "coordinator/store/store_sqlite_secrets.h"

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/store/store_sqlite_state.h"

int store_sqlite_put_secret(struct store *store, const struct store_secret *secret,
                            struct error *err)
{
    struct store_sqlite *self = self_of(store);
    insist(self->in_transaction);
    sqlite3_stmt *stmt = statement(self, S_PUT_SECRET);
    bind_text(stmt, 1, secret->tenant);
    bind_text(stmt, 2, secret->name);
    bind_text(stmt, 3, secret->created_by);
    bind_text(stmt, 4, secret->changed_by);
    sqlite3_bind_int64(stmt, 5, secret->created_wall_ms);
    sqlite3_bind_int64(stmt, 6, secret->changed_wall_ms);
    sqlite3_bind_int64(stmt, 7, secret->used_wall_ms);
    sqlite3_bind_blob64(stmt, 8, secret->sealed, secret->sealed_bytes, SQLITE_STATIC);
    return run(self, stmt, "write secret", err);
}

int store_sqlite_remove_secret(struct store *store, const char *tenant, const char *name,
                               struct error *err)
{
    struct store_sqlite *self = self_of(store);
    insist(self->in_transaction);
    sqlite3_stmt *stmt = statement(self, S_REMOVE_SECRET);
    bind_text(stmt, 1, tenant);
    bind_text(stmt, 2, name);
    return run(self, stmt, "remove secret", err);
}

#define COPY(to, stmt, at) (void)str_copy(to, sizeof(to), column(stmt, at))

int store_sqlite_list_secrets(struct store *store, store_secret_fn fn, void *arg, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    sqlite3_stmt *stmt = statement(self, S_SECRETS);
    int step;
    while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct store_secret secret = {
            .created_wall_ms = sqlite3_column_int64(stmt, 4),
            .changed_wall_ms = sqlite3_column_int64(stmt, 5),
            .used_wall_ms = sqlite3_column_int64(stmt, 6),
            .sealed = sqlite3_column_blob(stmt, 7),
            .sealed_bytes = (size_t)sqlite3_column_bytes(stmt, 7),
        };
        COPY(secret.tenant, stmt, 0);
        COPY(secret.name, stmt, 1);
        COPY(secret.created_by, stmt, 2);
        COPY(secret.changed_by, stmt, 3);
        fn(arg, &secret);
    }
    sqlite3_reset(stmt);
    return step == SQLITE_DONE ? 0 : store_sqlite_error(self->db, step, "list secrets", err);
}
