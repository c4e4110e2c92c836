/* Shared by the files of store_sqlite: the prepared statements; opening a file (pragmas, integrity,
 * application, migrations); tokens, tenants and the audit trail. Only for them and their tests. */
#ifndef STORE_STORE_SQLITE_INTERNAL_H
#define STORE_STORE_SQLITE_INTERNAL_H

#include <sqlite3.h>

#include "common/base/error.h"
#include "coordinator/store/data_dir.h"
#include "coordinator/store/store.h"
#include "coordinator/store/store_guard.h"

/* clang-format off */
#define STATEMENTS(X)                                                                              \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(COMMIT, "COMMIT")                                                                            \
    X(ROLLBACK, "ROLLBACK")                                                                        \
    X(PUT_JOB, "INSERT INTO jobs (sequence, id, name, tenant, state, submitted_wall_ms,"           \
               " ended_wall_ms, secret, spec, document) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)"   \
               " ON CONFLICT (sequence) DO UPDATE SET state = ?5, ended_wall_ms = ?7,"             \
               " document = ?10")                                                                  \
    X(FORGET_JOB, "DELETE FROM jobs WHERE sequence = ?1")                                          \
    X(PUT_NODE, "INSERT INTO nodes (name, state, document) VALUES (?1,?2,?3)"                      \
                " ON CONFLICT (name) DO UPDATE SET state = ?2, document = ?3")                     \
    X(PUT_TOKEN, "INSERT INTO tokens (hash, id, name, role, tenant, created_wall_ms,"              \
                 " expires_wall_ms, revoked_wall_ms, used_wall_ms, uses, uses_max)"                \
                 " VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11) ON CONFLICT (hash) DO UPDATE SET"   \
                 " name = ?3, expires_wall_ms = ?7, revoked_wall_ms = ?8, used_wall_ms = ?9,"      \
                 " uses = ?10, uses_max = ?11")                                                    \
    X(PUT_TENANT, "INSERT INTO tenants (name, weight, guaranteed_slots, limit_slots,"              \
                  " created_wall_ms) VALUES (?1,?2,?3,?4,?5) ON CONFLICT (name) DO UPDATE SET"     \
                  " weight = ?2, guaranteed_slots = ?3, limit_slots = ?4")                         \
    X(PUT_AUDIT, "INSERT INTO audit (seq, wall_ms, token, token_name, role, tenant, carrier,"      \
                 " peer, method, object, result, text)"                                            \
                 " VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)")                               \
    X(FORGET_REFUSALS, "DELETE FROM audit WHERE result <> 'OK' AND seq <= coalesce((SELECT seq"    \
                       " FROM audit WHERE result <> 'OK' ORDER BY seq DESC"                        \
                       " LIMIT 1 OFFSET ?1), 0)")                                                  \
    X(FORGET_AUDIT, "DELETE FROM audit WHERE result = 'OK' AND seq <= coalesce((SELECT seq"        \
                    " FROM audit WHERE result = 'OK' ORDER BY seq DESC LIMIT 1 OFFSET ?1), 0)")    \
    X(LAST_AUDIT, "SELECT coalesce(max(seq), 0) FROM audit")                                       \
    X(AUDIT, "SELECT * FROM audit WHERE seq > ?1 ORDER BY seq LIMIT ?2")                           \
    X(NEWEST_AUDIT, "SELECT * FROM (SELECT * FROM audit WHERE seq > ?1 ORDER BY seq DESC"          \
                    " LIMIT ?2) ORDER BY seq")                                                     \
    X(PUT_META, "INSERT INTO meta (key, value) VALUES (?1,?2)"                                     \
                " ON CONFLICT (key) DO UPDATE SET value = ?2")                                     \
    X(RECORD, "INSERT INTO events (seq, wall_ms, kind, job, node, generation, from_state,"         \
              " to_state, reason, world) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)")                 \
    X(FORGET_EVENTS, "DELETE FROM events WHERE seq <= ?1")                                         \
    X(LAST_EVENT, "SELECT coalesce(max(seq), 0) FROM events")                                      \
    X(EVENTS, "SELECT seq, wall_ms, kind, job, node, generation, from_state, to_state, reason,"    \
              " world FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2")                           \
    X(EVENTS_OF, "SELECT seq, wall_ms, kind, job, node, generation, from_state, to_state, reason," \
                 " world FROM events WHERE job = ?3 AND seq > ?1 ORDER BY seq LIMIT ?2")           \
    X(NEWEST, "SELECT * FROM (SELECT seq, wall_ms, kind, job, node, generation, from_state,"       \
              " to_state, reason, world FROM events WHERE seq > ?1 ORDER BY seq DESC LIMIT ?2)"    \
              " ORDER BY seq")                                                                     \
    X(NEWEST_OF, "SELECT * FROM (SELECT seq, wall_ms, kind, job, node, generation, from_state,"    \
                 " to_state, reason, world FROM events WHERE job = ?3 AND seq > ?1"                \
                 " ORDER BY seq DESC LIMIT ?2) ORDER BY seq")                                      \
    X(JOBS, "SELECT id, secret, spec, document FROM jobs ORDER BY sequence")                       \
    X(NODES, "SELECT name, document FROM nodes ORDER BY name")                                     \
    X(TOKENS, "SELECT hash, id, name, role, tenant, created_wall_ms, expires_wall_ms,"             \
              " revoked_wall_ms, used_wall_ms, uses, uses_max FROM tokens"                         \
              " ORDER BY created_wall_ms, hash")                                                   \
    X(TENANTS, "SELECT name, weight, guaranteed_slots, limit_slots, created_wall_ms"               \
               " FROM tenants ORDER BY name")                                                      \
    X(FORGET_SETTINGS, "DELETE FROM tenant_settings WHERE tenant = ?1")                            \
    X(PUT_SETTING, "INSERT INTO tenant_settings (tenant, name, value) VALUES (?1,?2,?3)")          \
    X(SETTINGS, "SELECT name, value FROM tenant_settings WHERE tenant = ?1 ORDER BY name")         \
    X(PUT_SECRET, "INSERT INTO secrets (tenant, name, created_by, changed_by, created_wall_ms,"    \
                  " changed_wall_ms, used_wall_ms, sealed) VALUES (?1,?2,?3,?4,?5,?6,?7,?8)"       \
                  " ON CONFLICT (tenant, name) DO UPDATE SET created_by = ?3, changed_by = ?4,"    \
                  " created_wall_ms = ?5, changed_wall_ms = ?6, used_wall_ms = ?7, sealed = ?8")   \
    X(REMOVE_SECRET, "DELETE FROM secrets WHERE tenant = ?1 AND name = ?2")                        \
    X(SECRETS, "SELECT tenant, name, created_by, changed_by, created_wall_ms, changed_wall_ms,"    \
               " used_wall_ms, sealed FROM secrets ORDER BY tenant, name")                         \
    X(HISTORY_BEFORE, "SELECT number, seq FROM history WHERE number <= ?1"                         \
                      " ORDER BY number DESC LIMIT 1")                                             \
    X(HISTORY_LAST, "SELECT number, total FROM history ORDER BY number DESC LIMIT 1")              \
    X(HISTORY_LIGHT, "SELECT number, seq FROM history WHERE number > ?1 AND number <= ?2"          \
                     " AND total <= ?3 ORDER BY number DESC LIMIT 1")                              \
    X(FOLD_HISTORY, "DELETE FROM history WHERE number IN (SELECT old.number FROM"                  \
                    " (SELECT kind, key, max(number) AS number FROM history"                       \
                    " WHERE number > ?1 AND number <= ?2 GROUP BY kind, key) new"                  \
                    " JOIN history old ON old.kind = new.kind AND old.key = new.key"               \
                    " AND old.number < new.number)")                                               \
    X(FOLD_FORGOTTEN, "DELETE FROM history WHERE number > ?1 AND number <= ?2 AND document = ''")  \
    X(PAST_JOBS, "SELECT h.key, h.document, coalesce(j.spec, (SELECT spec FROM history g"          \
                 " WHERE g.kind = 'job' AND g.key = h.key AND g.document = ''"                     \
                 " ORDER BY g.number DESC LIMIT 1), ''), coalesce(j.document, '')"                 \
                 " FROM (SELECT key, max(number) AS number FROM history WHERE kind = 'job'"        \
                 " AND key > ?1 AND number <= ?2 GROUP BY key ORDER BY key LIMIT ?3) p"            \
                 " JOIN history h ON h.number = p.number"                                          \
                 " LEFT JOIN jobs j ON j.sequence = h.key ORDER BY h.key")                         \
    X(PAST_NODES, "SELECT h.key, h.document, '', coalesce(n.document, '')"                         \
                  " FROM (SELECT key, max(number) AS number FROM history WHERE kind = 'node'"      \
                  " AND key > ?1 AND number <= ?2 GROUP BY key ORDER BY key LIMIT ?3) p"           \
                  " JOIN history h ON h.number = p.number"                                         \
                  " LEFT JOIN nodes n ON n.name = h.key ORDER BY h.key")                           \
    X(PAST_TENANTS, "SELECT h.key, h.document, '', coalesce('{\"name\":\"' || t.name"              \
                   " || '\",\"weight\":' || t.weight || ',\"guaranteed_slots\":'"                  \
                   " || t.guaranteed_slots || ',\"limit_slots\":' || t.limit_slots"                \
                   " || ',\"created_wall_ms\":' || t.created_wall_ms || '}', '')"                  \
                   " FROM (SELECT key, max(number) AS number FROM history WHERE kind = 'tenant'"   \
                   " AND key > ?1 AND number <= ?2 GROUP BY key ORDER BY key LIMIT ?3) p"          \
                   " JOIN history h ON h.number = p.number"                                        \
                   " LEFT JOIN tenants t ON t.name = h.key ORDER BY h.key")                        \
    X(EVENT_AT, "SELECT seq FROM events WHERE wall_ms <= ?1 ORDER BY seq DESC LIMIT 1")            \
    X(META, "SELECT value FROM meta WHERE key = ?1")
/* clang-format on */

enum statement {
#define X(name, sql) S_##name,
    STATEMENTS(X)
#undef X
        STATEMENT_COUNT,
};

struct store_sqlite {
    struct store store;
    sqlite3 *db;
    struct data_dir_lock lock;
    struct store_guard guard;
    char cluster[STORE_META_VALUE_MAX + 1]; /* "" = not stored yet */
    bool in_transaction;
    uint64_t last_event, open_event;
    uint64_t last_audit, open_audit;
    unsigned commits;            /* since it was opened */
    bool folds_on;               /* the last fold left more to be folded */
    struct store_backup *backup; /* under way, or NULL */
    struct wal_thread *wal;
    sqlite3_stmt *statements[STATEMENT_COUNT];
};

/* A regular file: SQLite waits for the other end of a FIFO. */
int store_sqlite_check_file(const char *path, struct error *err);

/* DATA/muster.db at today's schema. *ret may be set on failure too: the caller closes it. */
int store_sqlite_open_file(const char *data_dir, sqlite3 **ret, struct error *err);

/* An existing file of today's schema, without writing to it; otherwise as above. */
int store_sqlite_open_past(const char *path, sqlite3 **ret, struct error *err);

/* The newest schema; bring a file from schema `version` to schema `to`, each step in a transaction
 * of its own. */
int store_sqlite_schema(void);
int store_sqlite_migrate(sqlite3 *db, int version, int to, struct error *err);

/* The first column of the first row. */
int store_sqlite_query_int(sqlite3 *db, const char *sql, int *ret, struct error *err);

int store_sqlite_exec(sqlite3 *db, const char *sql, struct error *err);

/* Fill `err` from SQLite's code and message; returns our code. */
int store_sqlite_error(sqlite3 *db, int rc, const char *what, struct error *err);

static inline struct store_sqlite *self_of(struct store *store)
{
    return (struct store_sqlite *)store;
}

static inline sqlite3_stmt *statement(struct store_sqlite *self, enum statement which)
{
    sqlite3_stmt *stmt = self->statements[which];
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return stmt;
}

/* For statements without rows. */
static inline int run(struct store_sqlite *self, sqlite3_stmt *stmt, const char *what,
                      struct error *err)
{
    int rc = sqlite3_step(stmt);
    sqlite3_reset(stmt);
    return rc == SQLITE_DONE ? 0 : store_sqlite_error(self->db, rc, what, err);
}

static inline void bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
    sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC);
}

static inline const char *column(sqlite3_stmt *stmt, int at)
{
    const char *text = (const char *)sqlite3_column_text(stmt, at);
    return text ? text : "";
}

/* Owner, integrity and version of a file that is open. */
int store_sqlite_check(sqlite3 *db, struct error *err);

/* store_sqlite_load.c: the jobs of verbs->load */
int store_sqlite_load_jobs(struct store_sqlite *store, const struct store_loader *loader,
                           struct cluster *cluster, struct error *err);

/* store_sqlite_backup.c */
/* A file that is not there yet, mode 0600. *ret may be set on failure: the caller closes it. */
int store_sqlite_open_new(const char *path, sqlite3 **ret, struct error *err);
int store_sqlite_backup_begin(struct store *, const char *path, struct error *);
int store_sqlite_backup_step(struct store *, bool *ret_done, struct error *);
void store_sqlite_backup_end(struct store *);

/* store_sqlite_past.c */
int store_sqlite_list_past(struct store *, const struct store_past_query *, store_past_fn,
                           void *arg, struct error *);
int store_sqlite_past_range(struct store *, int64_t wall_ms, struct store_past_range *,
                            struct error *);
/* Within a transaction: fold changes beyond `kept_bytes` into the oldest state that can be rebuilt,
 * a bounded part at a time. self->folds_on: the next commit must continue. */
int store_sqlite_fold_past(struct store_sqlite *self, int64_t kept_bytes, struct error *err);

/* store_sqlite_secrets.c */
int store_sqlite_put_secret(struct store *, const struct store_secret *, struct error *);
int store_sqlite_remove_secret(struct store *, const char *tenant, const char *name,
                               struct error *);
int store_sqlite_list_secrets(struct store *, store_secret_fn, void *arg, struct error *);

/* store_sqlite_access.c */
int store_sqlite_put_token(struct store *, const struct store_token *, struct error *);
int store_sqlite_put_tenant(struct store *, const struct store_tenant *, struct error *);
int store_sqlite_put_audit(struct store *, const struct store_audit *, struct error *);
int store_sqlite_list_tokens(struct store *, store_token_fn, void *arg, struct error *);
int store_sqlite_list_tenants(struct store *, store_tenant_fn, void *arg, struct error *);
int store_sqlite_list_audit(struct store *, const struct store_events_query *, store_audit_fn,
                            void *arg, struct error *);

#endif
