#include "coordinator/store/store_sqlite_call.h"

#include <stddef.h>

int store_sqlite_error(sqlite3 *db, int rc, const char *what, struct error *err)
{
    int code = E_INTERNAL;
    switch (rc & 0xff) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
        code = E_RESOURCE_EXHAUSTED;
        break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        code = E_DATA_LOSS;
        break;
    case SQLITE_IOERR:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
        code = E_UNAVAILABLE;
        break;
    default:
        break;
    }
    return error_set(err, code, "%s: %s", what, db ? sqlite3_errmsg(db) : sqlite3_errstr(rc));
}

int store_sqlite_exec(sqlite3 *db, const char *sql, struct error *err)
{
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : store_sqlite_error(db, rc, "store", err);
}

int store_sqlite_query_int(sqlite3 *db, const char *sql, int *ret, struct error *err)
{
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return store_sqlite_error(db, rc, sql, err);
    int step = sqlite3_step(stmt);
    if (step == SQLITE_ROW)
        *ret = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return step == SQLITE_ROW ? 0 : store_sqlite_error(db, step, sql, err);
}
