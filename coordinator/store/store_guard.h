/* Files beside DATA/muster.db that reveal a store that was lost, exchanged or cut, at the start and
 * in use. A coordinator that began empty by mistake would accept its old tokens, and its agents
 * would end every worker.
 *
 * DATA/store.mark is one line: the cluster's id and the numbers of the newest durable event and
 * audit entry. It is written after a commit, without fsync. It may be older than the store, but
 * never newer. A store older than its mark has lost acknowledged data (a deleted write-ahead log,
 * an older copy).
 *
 * Owned by store_sqlite; one thread.
 */
#ifndef STORE_STORE_GUARD_H
#define STORE_STORE_GUARD_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

enum { STORE_CLUSTER_MAX = 255 };

struct store_mark {
    char cluster[STORE_CLUSTER_MAX + 1]; /* "" = not known yet */
    uint64_t event, audit;
};

struct store_guard {
    char data_dir[PATH_MAX - 32];
    bool on;
    int fd; /* of store.mark; -1 = none, on a disk that was full */
    struct store_mark written;
    dev_t device;
    ino_t inode, log_inode; /* 0 = not seen yet */
    uint64_t size;          /* the largest that was seen */
};

/* Call it before a store is opened or made. E_FAILED_PRECONDITION if there is none (or an empty
 * file), but the folder has tokens, a mark or a write-ahead log: then it had a store. */
int store_guard_before(const char *data_dir, struct error *err);

/* After it is open: E_FAILED_PRECONDITION if `now` is of another cluster than the mark, or older.
 * Then watch it. A folder without a mark (of an older version) is given one. */
int store_guard_begin(struct store_guard *guard, const char *data_dir, const struct store_mark *now,
                      struct error *err);
void store_guard_end(struct store_guard *guard); /* zeroed memory with fd -1 is fine */

/* Is muster.db still the file that was opened, and its write-ahead log? E_DATA_LOSS with what
 * happened. Two calls of stat. */
int store_guard_look(struct store_guard *guard, struct error *err);

/* Call it after a commit. A mark that cannot be written stays old, which is safe. */
void store_guard_mark(struct store_guard *guard, const struct store_mark *now);

/* E_NOT_FOUND without one; a line that cannot be read counts as none. */
int store_mark_read(const char *data_dir, struct store_mark *ret, struct error *err);

/* The folder will get another store: a restore, `--new`. */
int store_mark_remove(const char *data_dir, struct error *err);

/* Compare as store_guard_begin does. */
int store_mark_compare(const struct store_mark *mark, const struct store_mark *now,
                       struct error *err);

#endif
