#include "coordinator/store/store_sqlite_open.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/str.h"
#include "coordinator/store/embedded.h"
#include "coordinator/store/store_sqlite_call.h"

enum { BUSY_TIMEOUT_MS = 5000 }; /* readers such as sqlite3(1) may lock the file for a moment */

static int check_integrity(sqlite3 *db, struct error *err)
{
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return store_sqlite_error(db, rc, "integrity check", err);
    int step = sqlite3_step(stmt);
    const char *text = step == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    rc = 0;
    if (step != SQLITE_ROW)
        rc = store_sqlite_error(db, step, "integrity check", err);
    else if (!text || strcmp(text, "ok") != 0)
        rc = error_set(err, E_DATA_LOSS, "integrity check: %s", text ? text : "no answer");
    sqlite3_finalize(stmt);
    return rc;
}

int store_sqlite_schema(void)
{
    int count = 0;
    while (store_migrations[count].name)
        count++;
    return count;
}

int store_sqlite_migrate(sqlite3 *db, int version, int to, struct error *err)
{
    for (; version < to; version++) {
        char finish[96];
        (void)str_printf(finish, sizeof(finish), "PRAGMA user_version = %d; COMMIT", version + 1);
        int rc = store_sqlite_exec(db, "BEGIN IMMEDIATE", err);
        if (!rc)
            rc = store_sqlite_exec(db, (const char *)store_migrations[version].data, err);
        if (!rc)
            rc = store_sqlite_exec(db, finish, err);
        if (rc) {
            (void)store_sqlite_exec(db, "ROLLBACK", NULL);
            return error_wrap(err, "migration %s", store_migrations[version].name);
        }
    }
    return 0;
}

/* Ours and not from the future, before anything is written to it. */
static int check_owner(sqlite3 *db, int *ret_version, struct error *err)
{
    int application = 0, tables = 0;
    int rc = store_sqlite_query_int(db, "PRAGMA application_id", &application, err);
    if (!rc)
        rc = store_sqlite_query_int(db, "PRAGMA user_version", ret_version, err);
    if (!rc)
        rc = store_sqlite_query_int(db, "SELECT count(*) FROM sqlite_schema", &tables, err);
    if (rc)
        return rc;
    if (application != STORE_APPLICATION_ID && (application != 0 || tables != 0))
        return error_set(err, E_FAILED_PRECONDITION, "the file belongs to another application");
    if (*ret_version < 0)
        return error_set(err, E_DATA_LOSS, "the file has schema version %d, which there never was",
                         *ret_version);
    int newest = store_sqlite_schema();
    if (*ret_version > newest) {
        error_set(err, E_FAILED_PRECONDITION,
                  "the file has schema version %d, this program knows up to %d", *ret_version,
                  newest);
        error_hint(err, "run the version of muster that wrote it, or a newer one");
        return E_FAILED_PRECONDITION;
    }
    return 0;
}

int store_sqlite_check(sqlite3 *db, struct error *err)
{
    int version = 0;
    int rc = check_owner(db, &version, err);
    if (!rc && version == 0)
        rc = error_set(err, E_FAILED_PRECONDITION, "the file has no coordinator's data");
    if (rc)
        return rc;
    return check_integrity(db, err);
}

static int prepare_file(sqlite3 *db, struct error *err)
{
    char mark[64];
    (void)str_printf(mark, sizeof(mark), "PRAGMA application_id = %d", STORE_APPLICATION_ID);
    int version = 0;
    sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);
    int rc = check_owner(db, &version, err);
    if (!rc)
        rc = check_integrity(db, err);
    if (!rc)
        rc = store_sqlite_exec(db,
                               "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                               "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;"
                               "PRAGMA wal_autocheckpoint = 4000",
                               err);
    if (!rc && version == 0)
        rc = store_sqlite_exec(db, mark, err);
    if (!rc)
        rc = store_sqlite_migrate(db, version, store_sqlite_schema(), err);
    return rc;
}

int store_sqlite_open_file(const char *data_dir, sqlite3 **ret, struct error *err)
{
    char path[PATH_MAX];
    int rc = str_printf(path, sizeof(path), "%s/muster.db", data_dir);
    if (rc)
        return error_set(err, rc, "data directory: path too long");
    mode_t old = umask(0077); /* it contains the secrets of jobs */
    int opened = sqlite3_open_v2(path, ret,
                                 SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                                     SQLITE_OPEN_NOFOLLOW,
                                 NULL);
    if (opened == SQLITE_OK)
        rc = prepare_file(*ret, err);
    else
        rc = store_sqlite_error(*ret, opened, "open", err);
    umask(old);
    if (rc)
        return error_wrap(err, "%s", path);
    return 0;
}

static int check_readable(sqlite3 *db, struct error *err)
{
    int version = 0;
    sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);
    int rc = store_sqlite_check(db, err);
    if (!rc)
        rc = check_owner(db, &version, err);
    if (!rc && version < store_sqlite_schema()) {
        rc = error_set(err, E_FAILED_PRECONDITION, "the file has schema version %d, which is older",
                       version);
        error_hint(err, "start a coordinator on it, or on a copy (--restore), to bring it up to %d",
                   store_sqlite_schema());
    }
    return rc;
}

int store_sqlite_check_file(const char *path, struct error *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return error_errno(err, errno, "%s", path);
    return S_ISREG(st.st_mode) ? 0 : error_set(err, E_INVALID_ARGUMENT, "%s is no file", path);
}

int store_sqlite_open_past(const char *path, sqlite3 **ret, struct error *err)
{
    int regular = store_sqlite_check_file(path, err);
    if (regular < 0)
        return regular;
    int opened = sqlite3_open_v2(path, ret, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    int rc = opened == SQLITE_OK ? check_readable(*ret, err)
                                 : store_sqlite_error(*ret, opened, "open", err);
    if (rc)
        return error_wrap(err, "%s", path);
    return 0;
}

/* Explains the failure, which SQLite does not, as an error of the caller: the coordinator itself is
 * well. */
static int make_empty(const char *path, struct error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    bool there = errno == EEXIST;
    (void)error_errno(err, errno, "cannot write the backup %s", path);
    if (err)
        err->code = E_FAILED_PRECONDITION;
    error_field(err, "path");
    error_hint(err, there ? "remove it if a backup that was killed left it, or name another file"
                          : "name a file in a folder the coordinator's user may write");
    return E_FAILED_PRECONDITION;
}

int store_sqlite_open_new(const char *path, sqlite3 **ret, struct error *err)
{
    int made = make_empty(path, err);
    if (made < 0)
        return made;
    mode_t old = umask(0077);
    int rc = sqlite3_open_v2(path, ret,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                                 SQLITE_OPEN_NOFOLLOW,
                             NULL);
    umask(old);
    return rc == SQLITE_OK ? 0 : store_sqlite_error(*ret, rc, path, err);
}
