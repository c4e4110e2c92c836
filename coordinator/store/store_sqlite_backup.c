/* Backup while the store is in use (https://www.sqlite.org/backup.html: writes of the same
 * connection reach the copy too), and a data directory made from a backup. */
#include "coordinator/store/store_sqlite_backup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "common/base/str.h"
#include "coordinator/store/data_dir.h"
#include "coordinator/store/document.h"
#include "coordinator/store/meta.h"
#include "coordinator/store/store_sqlite_open.h"
#include "coordinator/store/store_sqlite_state.h"

enum { STEP_PAGES = 256 }; /* a mebibyte: a few milliseconds */

struct store_backup {
    sqlite3 *to;
    sqlite3_backup *copy;
    char path[PATH_MAX], partial[PATH_MAX + 16];
    bool made; /* the partial file is ours */
};

static int sync_folder_of(const char *path, struct error *err)
{
    char folder[PATH_MAX];
    (void)str_copy(folder, sizeof(folder), path);
    *strrchr(folder, '/') = 0;
    int fd = open(folder[0] ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "%s", folder);
    int rc = fsync(fd) < 0 ? error_errno(err, errno, "%s", folder) : 0;
    close(fd);
    return rc;
}

/* Under its name only once it is whole and on disk; never over another file. */
static int publish_backup(const char *partial, const char *path, struct error *err)
{
    if (link(partial, path) < 0)
        return error_errno(err, errno, "%s", path);
    (void)unlink(partial);
    return sync_folder_of(path, err);
}

int store_sqlite_backup_begin(struct store *store, const char *path, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    if (self->backup)
        return error_set(err, E_FAILED_PRECONDITION, "a backup to %s is under way",
                         self->backup->path);
    if (access(path, F_OK) == 0)
        return error_set(err, E_ALREADY_EXISTS, "%s exists", path);
    struct store_backup *backup = calloc(1, sizeof(*backup));
    if (!backup)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    self->backup = backup;
    int rc = str_copy(backup->path, sizeof(backup->path), path);
    if (!rc)
        rc = str_printf(backup->partial, sizeof(backup->partial), "%s.partial", path);
    if (rc)
        (void)error_set(err, rc, "the path is too long");
    else
        rc = store_sqlite_open_new(backup->partial, &backup->to, err);
    backup->made = backup->to;
    if (!rc) {
        backup->copy = sqlite3_backup_init(backup->to, "main", self->db, "main");
        if (!backup->copy)
            rc = store_sqlite_error(backup->to, sqlite3_errcode(backup->to), "backup", err);
    }
    if (rc)
        store_sqlite_backup_end(store);
    return rc;
}

int store_sqlite_backup_step(struct store *store, bool *ret_done, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    struct store_backup *backup = self->backup;
    insist(backup);
    never(self->in_transaction);
    int step = sqlite3_backup_step(backup->copy, STEP_PAGES);
    *ret_done = false;
    if (step == SQLITE_OK || step == SQLITE_BUSY || step == SQLITE_LOCKED)
        return 0;
    int rc = 0, finished = sqlite3_backup_finish(backup->copy);
    backup->copy = NULL;
    if (step != SQLITE_DONE || finished != SQLITE_OK)
        rc = store_sqlite_error(backup->to, step != SQLITE_DONE ? step : finished, "backup", err);
    sqlite3_close(backup->to);
    backup->to = NULL;
    if (!rc)
        rc = publish_backup(backup->partial, backup->path, err);
    *ret_done = !rc;
    store_sqlite_backup_end(store);
    return rc;
}

void store_sqlite_backup_end(struct store *store)
{
    struct store_sqlite *self = self_of(store);
    struct store_backup *backup = self->backup;
    if (!backup)
        return;
    if (backup->copy)
        sqlite3_backup_finish(backup->copy);
    sqlite3_close(backup->to);
    if (backup->made)
        (void)unlink(backup->partial);
    free(backup);
    self->backup = NULL;
}

/* Restore */

static int step_over_job(sqlite3 *db, sqlite3_stmt *from, sqlite3_stmt *to, struct error *err)
{
    struct buf buf;
    buf_init(&buf, DOCUMENT_MAX_BYTES);
    int rc = document_step_over_job((const char *)sqlite3_column_text(from, 1),
                                    (size_t)sqlite3_column_bytes(from, 1), &buf, err);
    if (!rc) {
        sqlite3_reset(to);
        sqlite3_bind_int64(to, 1, sqlite3_column_int64(from, 0));
        sqlite3_bind_text(to, 2, buf_cstr(&buf), -1, SQLITE_TRANSIENT);
        int step = sqlite3_step(to);
        rc = step == SQLITE_DONE ? 0 : store_sqlite_error(db, step, "restore", err);
    }
    buf_fini(&buf);
    return rc;
}

static int step_over_jobs(sqlite3 *db, struct error *err)
{
    static const char read_sql[] = "SELECT sequence, document FROM jobs"
                                   " WHERE state NOT IN ('succeeded', 'failed', 'cancelled')";
    static const char write_sql[] = "UPDATE jobs SET document = ?2,"
                                    " state = coalesce(?2 ->> 'state', state) WHERE sequence = ?1";
    sqlite3_stmt *from = NULL, *to = NULL;
    int rc = 0, step = sqlite3_prepare_v2(db, read_sql, -1, &from, NULL);
    if (step == SQLITE_OK)
        step = sqlite3_prepare_v2(db, write_sql, -1, &to, NULL);
    while (!rc && (step == SQLITE_OK || step == SQLITE_ROW)) {
        step = sqlite3_step(from);
        if (step == SQLITE_ROW)
            rc = step_over_job(db, from, to, err);
    }
    if (!rc && step != SQLITE_DONE)
        rc = store_sqlite_error(db, step, "restore", err);
    sqlite3_finalize(from);
    sqlite3_finalize(to);
    return rc;
}

static int step_over(sqlite3 *db, struct error *err)
{
    char sql[512];
    (void)str_printf(sql, sizeof(sql),
                     "BEGIN IMMEDIATE;"
                     "INSERT OR REPLACE INTO meta SELECT '" STORE_FIRST_JOB_KEY "',"
                     " coalesce(max(sequence), 0) + %d FROM jobs;"
                     "INSERT INTO meta VALUES ('" STORE_RESTORED_KEY "', strftime('%%s') * 1000)"
                     " ON CONFLICT (key) DO UPDATE SET"
                     " value = max(CAST(value AS INTEGER) + 1, strftime('%%s') * 1000)",
                     RESTORE_SKIPS_JOBS);
    int rc = store_sqlite_exec(db, sql, err);
    if (!rc)
        rc = step_over_jobs(db, err);
    if (rc)
        return rc;
    return store_sqlite_exec(db, "COMMIT", err);
}

static int copy_all(sqlite3 *from, sqlite3 *to, struct error *err)
{
    sqlite3_backup *copy = sqlite3_backup_init(to, "main", from, "main");
    if (!copy)
        return store_sqlite_error(to, sqlite3_errcode(to), "restore", err);
    int step = sqlite3_backup_step(copy, -1);
    int rc = step == SQLITE_DONE ? 0 : store_sqlite_error(to, step, "restore", err);
    sqlite3_backup_finish(copy);
    return rc;
}

static int copy_checked(const char *backup, const char *partial, struct error *err)
{
    sqlite3 *from = NULL, *to = NULL;
    int regular = store_sqlite_check_file(backup, err);
    if (regular < 0)
        return regular;
    int opened = sqlite3_open_v2(backup, &from, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    int rc = opened == SQLITE_OK ? store_sqlite_check(from, err)
                                 : store_sqlite_error(from, opened, "open", err);
    if (rc)
        rc = error_wrap(err, "%s", backup);
    if (!rc)
        rc = store_sqlite_open_new(partial, &to, err);
    if (!rc)
        rc = copy_all(from, to, err);
    if (!rc) /* one file, without a log beside it, that can be renamed */
        rc = store_sqlite_exec(to, "PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL", err);
    if (!rc)
        rc = step_over(to, err);
    sqlite3_close(to);
    sqlite3_close(from);
    return rc;
}

int store_sqlite_restore(const char *data_dir, const char *backup, struct error *err)
{
    char path[PATH_MAX], partial[PATH_MAX + 16];
    struct data_dir_lock lock = DATA_DIR_UNLOCKED;
    if (str_printf(path, sizeof(path), "%s/muster.db", data_dir))
        return error_set(err, E_INVALID_ARGUMENT, "data directory: path too long");
    (void)str_printf(partial, sizeof(partial), "%s.partial", path);
    int rc = data_dir_lock(data_dir, &lock, err);
    if (rc)
        return rc;
    if (access(path, F_OK) == 0) {
        rc = error_set(err, E_ALREADY_EXISTS, "%s exists", path);
        error_hint(err, "restore into an empty data directory");
    } else {
        (void)unlink(partial); /* in the folder that we have locked: of a restore that was killed */
        rc = copy_checked(backup, partial, err);
    }
    if (!rc)
        rc = store_mark_remove(data_dir, err);
    if (!rc)
        rc = publish_backup(partial, path, err);
    data_dir_unlock(&lock);
    return rc;
}

int store_sqlite_begin_new(const char *data_dir, struct error *err)
{
    char path[PATH_MAX];
    struct stat st;
    sqlite3 *db = NULL;
    struct data_dir_lock lock = DATA_DIR_UNLOCKED;
    if (str_printf(path, sizeof(path), "%s/muster.db", data_dir))
        return error_set(err, E_INVALID_ARGUMENT, "data directory: path too long");
    int rc = data_dir_lock(data_dir, &lock, err);
    if (rc)
        return rc;
    if (lstat(path, &st) == 0 && st.st_size > 0) {
        rc = error_set(err, E_ALREADY_EXISTS, "%s exists: it is not replaced", path);
        error_hint(err, "leave --new out to continue with it, or use another --data");
    } else {
        rc = store_mark_remove(data_dir, err);
    }
    if (!rc)
        rc = store_sqlite_open_file(data_dir, &db, err);
    sqlite3_close(db);
    data_dir_unlock(&lock);
    return rc;
}
