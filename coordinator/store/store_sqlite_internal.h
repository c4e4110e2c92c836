/* The half of store_sqlite that opens a file: pragmas, integrity, application, migrations. Only for
 * store_sqlite.c and its tests.
 */
#ifndef STORE_STORE_SQLITE_INTERNAL_H
#define STORE_STORE_SQLITE_INTERNAL_H

#include <sqlite3.h>

#include "common/base/error.h"

/* DATA/muster.db at today's schema. *ret may be set on failure too: the caller closes it. */
int store_sqlite_open_file(const char *data_dir, sqlite3 **ret, struct error *err);

int store_sqlite_exec(sqlite3 *db, const char *sql, struct error *err);

/* Fill `err` from SQLite's code and message; returns our code. */
int store_sqlite_error(sqlite3 *db, int rc, const char *what, struct error *err);

#endif
