/* An open store on SQLite, and its statements. Only for the files of store_sqlite and their tests.
 * Loop thread only. */
#ifndef STORE_STORE_SQLITE_STATE_H
#define STORE_STORE_SQLITE_STATE_H

#include <sqlite3.h>

#include "coordinator/store/data_dir.h"
#include "coordinator/store/meta.h"
#include "coordinator/store/store.h"
#include "coordinator/store/store_guard.h"
#include "coordinator/store/store_sqlite_call.h"
#include "coordinator/store/store_sqlite_statements.h"

struct store_backup;
struct wal_thread;

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

#endif
