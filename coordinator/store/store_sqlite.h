/* The store contract on SQLite: DATA/muster.db in WAL mode with synchronous=FULL, STRICT tables,
 * schema version in user_version, "MSTR" as application_id. Sole user of sqlite3.h.
 *
 * Opening takes an exclusive flock on DATA/lock (a second coordinator is refused with
 * E_FAILED_PRECONDITION naming the first one's pid), checks the file (quick_check; damage is
 * E_DATA_LOSS), and runs the migrations embedded from migrations/NNNN_*.sql, each in a
 * transaction. A file of a newer schema, or of another application, is refused untouched.
 */
#ifndef STORE_STORE_SQLITE_H
#define STORE_STORE_SQLITE_H

#include "coordinator/store/store.h"

enum { STORE_APPLICATION_ID = 0x4d535452 }; /* "MSTR" */

/* `data_dir` must exist. */
int store_sqlite_open(const char *data_dir, struct store **ret, struct error *err);

/* Only to look: a backup, or the file of a data directory that nobody or somebody uses. Nothing is
 * migrated: a file of an older schema is refused. Verbs that write fail. */
int store_sqlite_open_to_read(const char *path, struct store **ret, struct error *err);

/* Make DATA/muster.db of a backup; `data_dir` must not have one (E_ALREADY_EXISTS). The file is
 * checked first; after a crash on the way there is none, or all of it. What happened since the
 * backup is not known to it, but agents know: it is stepped over (RESTORE_SKIPS, store.h). */
int store_sqlite_restore(const char *data_dir, const char *backup, struct error *err);

/* For tests: bound the file to `pages` pages from now on (0 takes the bound away), so that writes
 * meet a full disk. */
int store_sqlite_limit_pages(struct store *store, int pages, struct error *err);

#endif
