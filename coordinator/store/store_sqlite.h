/* The store contract on SQLite: DATA/muster.db in WAL mode with synchronous=FULL, STRICT tables,
 * schema version in user_version, "MSTR" as application_id. Only this module uses sqlite3.h.
 *
 * Opening does these steps:
 *
 * - take an exclusive flock on DATA (a second coordinator is refused with E_FAILED_PRECONDITION
 *   naming the first one's pid)
 * - refuse a folder with a missing store, or one older than acknowledged data (store_guard.h)
 * - check the file (quick_check; damage is E_DATA_LOSS)
 * - run the embedded migrations migrations/NNNN_*.sql, each in a transaction
 *
 * A file of a newer schema, or of another application, is refused unchanged.
 */
#ifndef STORE_STORE_SQLITE_H
#define STORE_STORE_SQLITE_H

#include "coordinator/store/store.h"

/* `data_dir` must exist. */
int store_sqlite_open(const char *data_dir, struct store **ret, struct error *err);

/* Read-only: a backup, or the file of a data directory, in use or not. Nothing is migrated: a file
 * of an older schema is refused. Functions that write fail. */
int store_sqlite_open_to_read(const char *path, struct store **ret, struct error *err);

/* For tests: limit the file to `pages` pages from now on (0 removes the limit), so that writes find
 * a full disk. */
int store_sqlite_limit_pages(struct store *store, int pages, struct error *err);

#endif
