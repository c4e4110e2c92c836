/* Copies the write-ahead log into muster.db on a thread of its own (SQLite calls it a checkpoint).
 * A commit then costs one append and one fsync of the log. On the loop's thread the copy of a full
 * log could take seconds on a slow disk, and no node or caller would get an answer meanwhile.
 *
 *     commit ─► log has WAL_FULL_PAGES ─► the thread copies, beside further commits
 *                                         └─► few pages are left ─► the next commit copies these
 *                                                                   and the log begins again
 *     commit ─► log has WAL_MOST_PAGES ─► the commit copies it itself: the disk cannot follow
 *
 * The log begins again only when all of it is copied and nothing is appended meanwhile. So the last
 * pages are copied between two commits.
 *
 * The thread has a connection of its own to the same file. A copy that fails is tried again after a
 * later commit: what is in the log is durable. Source: https://www.sqlite.org/wal.html, 3.3.
 *
 * Owned by store_sqlite; its functions are called on the store's thread.
 */
#ifndef STORE_STORE_SQLITE_WAL_H
#define STORE_STORE_SQLITE_WAL_H

#include <sqlite3.h>

#include "common/base/error.h"

enum {
    WAL_FULL_PAGES = 4000,  /* 16 MiB with pages of 4 KiB */
    WAL_FEW_PAGES = 250,    /* a commit copies this many itself */
    WAL_MOST_PAGES = 64000, /* 256 MiB */
};

struct wal_thread;

/* `db` is the store's connection (borrowed; until wal_thread_free) to the file `path`. From now on
 * its own automatic checkpoints are off. */
int wal_thread_new(sqlite3 *db, const char *path, struct wal_thread **ret, struct error *err);

/* Waits for a copy that is under way. Call it before `db` is closed, so that closing can copy the
 * rest and remove the log. NULL is fine. */
void wal_thread_free(struct wal_thread *self);

#endif
