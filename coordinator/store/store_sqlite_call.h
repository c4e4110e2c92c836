/* SQLite's calls with our errors. Only for the files of store_sqlite. */
#ifndef STORE_STORE_SQLITE_CALL_H
#define STORE_STORE_SQLITE_CALL_H

#include <sqlite3.h>

#include "common/base/error.h"

/* Fill `err` from SQLite's code and message; returns our code. */
int store_sqlite_error(sqlite3 *db, int rc, const char *what, struct error *err);

int store_sqlite_exec(sqlite3 *db, const char *sql, struct error *err);

/* The first column of the first row. */
int store_sqlite_query_int(sqlite3 *db, const char *sql, int *ret, struct error *err);

#endif
