/* Opening a file of store_sqlite: pragmas, integrity, application, migrations. Only for its files
 * and their tests. */
#ifndef STORE_STORE_SQLITE_OPEN_H
#define STORE_STORE_SQLITE_OPEN_H

#include <sqlite3.h>

#include "common/base/error.h"

enum { STORE_APPLICATION_ID = 0x4d535452 }; /* "MSTR" */

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

/* Owner, integrity and version of a file that is open. */
int store_sqlite_check(sqlite3 *db, struct error *err);

/* A file that is not there yet, mode 0600. *ret may be set on failure: the caller closes it. */
int store_sqlite_open_new(const char *path, sqlite3 **ret, struct error *err);

#endif
