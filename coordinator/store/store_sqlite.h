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

enum { STORE_APPLICATION_ID = 0x4d535452 }; /* "MSTR" */

/* `data_dir` must exist. */
int store_sqlite_open(const char *data_dir, struct store **ret, struct error *err);

/* Read-only: a backup, or the file of a data directory, in use or not. Nothing is migrated: a file
 * of an older schema is refused. Functions that write fail. */
int store_sqlite_open_to_read(const char *path, struct store **ret, struct error *err);

/* Make DATA/muster.db from a backup; `data_dir` must not have one (E_ALREADY_EXISTS). The file is
 * checked first; after a crash there is either none, or all of it. Agents know events since the
 * backup that the store does not, so those are skipped (RESTORE_SKIPS, store.h). */
int store_sqlite_restore(const char *data_dir, const char *backup, struct error *err);

/* Begin an empty store although the folder had one (tokens or a mark are there): its mark is
 * forgotten. E_ALREADY_EXISTS if there is a store. */
int store_sqlite_begin_new(const char *data_dir, struct error *err);

struct store_facts {
    char cluster[STORE_META_VALUE_MAX + 1];
    int schema, jobs, events, audit; /* the last two: the newest numbers */
};

/* Examine a file, or that of a data directory. Every page and document is read, and compared with
 * the directory's mark. E_DATA_LOSS names the first damage; the facts before it are filled. Nothing
 * is written. */
int store_sqlite_examine(const char *path, struct store_facts *ret, struct error *err);

struct store_salvage {
    int jobs, events, others; /* rows that were copied */
    int dropped;              /* rows that were found but are invalid */
    bool damaged;             /* and pages could not be read */
};

/* Copy what can be read of a file, or of a data directory's, into the new file `to`, of today's
 * schema: to be begun with as with a backup (store_sqlite_restore). */
int store_sqlite_salvage(const char *from, const char *to, struct store_salvage *ret,
                         struct error *err);

/* For tests: limit the file to `pages` pages from now on (0 removes the limit), so that writes find
 * a full disk. */
int store_sqlite_limit_pages(struct store *store, int pages, struct error *err);

#endif
