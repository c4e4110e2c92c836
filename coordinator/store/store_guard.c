#include "coordinator/store/store_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/base/parse.h"
#include "common/base/str.h"

enum { MARK_BYTES = 512, NUMBER_BYTES = 24, FILE_MODE = 0600 };

static const char mark_file[] = "store.mark";

static int path_of(const char *data_dir, const char *name, char ret[PATH_MAX], struct error *err)
{
    return str_printf(ret, PATH_MAX, "%s/%s", data_dir, name)
               ? error_set(err, E_INVALID_ARGUMENT, "data directory: path too long")
               : 0;
}

/* The mark */

static bool read_number(struct str word, uint64_t *ret)
{
    char text[NUMBER_BYTES];
    int64_t number;
    if (word.size >= sizeof(text))
        return false;
    memcpy(text, word.data, word.size);
    text[word.size] = 0;
    if (parse_i64(text, 0, INT64_MAX, &number, NULL))
        return false;
    *ret = (uint64_t)number;
    return true;
}

/* "cluster ID event N audit N" */
static bool read_mark(char *line, struct store_mark *ret)
{
    enum { WORDS = 6 };
    struct str rest, words[WORDS];
    line[strcspn(line, "\n")] = 0;
    rest = str_of(line);
    for (int i = 0; i < WORDS; i++)
        if (!str_next(&rest, ' ', &words[i]))
            return false;
    if (!str_equal(words[0], str_of("cluster")) || !str_equal(words[2], str_of("event")) ||
        !str_equal(words[4], str_of("audit")) || words[1].size >= sizeof(ret->cluster))
        return false;
    memcpy(ret->cluster, words[1].data, words[1].size);
    ret->cluster[words[1].size] = 0;
    return read_number(words[3], &ret->event) && read_number(words[5], &ret->audit);
}

int store_mark_read(const char *data_dir, struct store_mark *ret, struct error *err)
{
    char path[PATH_MAX], line[MARK_BYTES + 1];
    int rc = path_of(data_dir, mark_file, path, err);
    if (rc)
        return rc;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t size = fd < 0 ? -1 : read(fd, line, MARK_BYTES);
    int problem = errno;
    if (fd >= 0)
        close(fd);
    if (size < 0 && problem != ENOENT)
        return error_errno(err, problem, "%s", path);
    line[size > 0 ? size : 0] = 0;
    struct store_mark mark = {0};
    if (!read_mark(line, &mark))
        return error_set(err, E_NOT_FOUND, "%s: no mark", path);
    if (strcmp(mark.cluster, "-") == 0)
        mark.cluster[0] = 0;
    *ret = mark;
    return 0;
}

int store_mark_remove(const char *data_dir, struct error *err)
{
    char path[PATH_MAX];
    int rc = path_of(data_dir, mark_file, path, err);
    if (!rc && unlink(path) < 0 && errno != ENOENT)
        rc = error_errno(err, errno, "%s", path);
    return rc;
}

static int lost(struct error *err)
{
    error_hint(err, "bring the newer muster.db back (with its muster.db-wal), or restore a backup "
                    "into an empty folder; to go on with what is left: muster store salvage DATA "
                    "FILE, then a new --data with --restore FILE");
    return E_FAILED_PRECONDITION;
}

int store_mark_compare(const struct store_mark *mark, const struct store_mark *now,
                       struct error *err)
{
    if (mark->cluster[0] && now->cluster[0] && strcmp(mark->cluster, now->cluster) != 0) {
        error_set(err, E_FAILED_PRECONDITION,
                  "the store is of cluster %s, and this folder's was of cluster %s", now->cluster,
                  mark->cluster);
        error_hint(err, "restore the folder's own muster.db; or, to use the other one, move it to "
                        "a folder of its own");
        return E_FAILED_PRECONDITION;
    }
    if (now->event < mark->event) {
        error_set(err, E_FAILED_PRECONDITION,
                  "the store ends at event %llu, but event %llu was acknowledged: it is an older "
                  "copy, or its write-ahead log was lost",
                  (unsigned long long)now->event, (unsigned long long)mark->event);
        return lost(err);
    }
    if (now->audit < mark->audit) {
        error_set(err, E_FAILED_PRECONDITION,
                  "the store ends at audit entry %llu, but entry %llu was acknowledged: it is an "
                  "older copy, or its write-ahead log was lost",
                  (unsigned long long)now->audit, (unsigned long long)mark->audit);
        return lost(err);
    }
    return 0;
}

/* Always of the same length, so that one write within a sector replaces it. */
static bool write_line(int fd, const struct store_mark *mark)
{
    char line[MARK_BYTES];
    int size = snprintf(line, sizeof(line), "cluster %s event %020llu audit %020llu\n",
                        mark->cluster[0] ? mark->cluster : "-", (unsigned long long)mark->event,
                        (unsigned long long)mark->audit);
    return pwrite(fd, line, (size_t)size, 0) == size;
}

static int open_mark(struct store_guard *guard, struct error *err)
{
    char path[PATH_MAX];
    int rc = path_of(guard->data_dir, mark_file, path, err);
    if (rc)
        return rc;
    guard->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    rc = guard->fd < 0 ? error_errno(err, errno, "%s", path) : 0;
    return rc == E_RESOURCE_EXHAUSTED ? 0 : rc; /* a full disk: it can still be read */
}

void store_guard_mark(struct store_guard *guard, const struct store_mark *now)
{
    const struct store_mark *was = &guard->written;
    if (guard->fd < 0 || (now->event == was->event && now->audit == was->audit &&
                          strcmp(now->cluster, was->cluster) == 0))
        return;
    if (write_line(guard->fd, now))
        guard->written = *now;
}

/* Presence */

static bool has(const char *data_dir, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    return !path_of(data_dir, name, path, NULL) && lstat(path, &st) == 0 && st.st_size > 0;
}

int store_guard_before(const char *data_dir, struct error *err)
{
    static const char *const traces[] = {mark_file, "admin.token", "agent.token", "muster.db-wal"};
    const char *found = NULL;
    struct store_mark mark = {0};
    if (has(data_dir, "muster.db"))
        return 0;
    for (size_t i = 0; !found && i < sizeof(traces) / sizeof(*traces); i++)
        if (has(data_dir, traces[i]))
            found = traces[i];
    if (!found)
        return 0;
    char newest[STORE_CLUSTER_MAX + 64] = "";
    if (!store_mark_read(data_dir, &mark, NULL))
        (void)str_printf(newest, sizeof(newest), " (cluster %s, up to event %llu)", mark.cluster,
                         (unsigned long long)mark.event);
    error_set(err, E_FAILED_PRECONDITION,
              "%s has the %s of a cluster but not its store, muster.db%s: it would begin empty",
              data_dir, found, newest);
    error_hint(err, "mount or restore the folder of muster.db, or start from a backup (--restore "
                    "FILE); --new starts an empty cluster here");
    return E_FAILED_PRECONDITION;
}

/* Watching */

/* Without times: after a query of a file's times its next write must store new ones, which costs a
 * commit a fifth. */
static int stat_file(const char *data_dir, const char *name, struct statx *ret, struct error *err)
{
    char path[PATH_MAX];
    int rc = path_of(data_dir, name, path, err);
    if (!rc &&
        statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_INO | STATX_SIZE, ret) < 0)
        rc = errno == ENOENT
                 ? error_set(err, E_DATA_LOSS, "%s was removed while it is in use", path)
                 : error_errno(err, errno, "%s", path);
    return rc;
}

static int exchanged(const struct store_guard *guard, const char *name, struct error *err)
{
    return error_set(err, E_DATA_LOSS, "%s/%s was exchanged while it is in use", guard->data_dir,
                     name);
}

int store_guard_look(struct store_guard *guard, struct error *err)
{
    struct statx st;
    if (!guard->on)
        return 0;
    int rc = stat_file(guard->data_dir, "muster.db", &st, err);
    if (rc)
        return rc;
    if (!guard->inode) {
        guard->device = makedev(st.stx_dev_major, st.stx_dev_minor);
        guard->inode = st.stx_ino;
    }
    if (st.stx_ino != guard->inode || makedev(st.stx_dev_major, st.stx_dev_minor) != guard->device)
        return exchanged(guard, "muster.db", err);
    if (st.stx_size < guard->size)
        return error_set(err, E_DATA_LOSS,
                         "%s/muster.db was cut from %lld to %lld bytes while it is in use",
                         guard->data_dir, (long long)guard->size, (long long)st.stx_size);
    guard->size = st.stx_size;
    if (!guard->log_inode) { /* it appears with the first use */
        if (stat_file(guard->data_dir, "muster.db-wal", &st, NULL) == 0)
            guard->log_inode = st.stx_ino;
        return 0;
    }
    rc = stat_file(guard->data_dir, "muster.db-wal", &st, err);
    return !rc && st.stx_ino != guard->log_inode ? exchanged(guard, "muster.db-wal", err) : rc;
}

int store_guard_begin(struct store_guard *guard, const char *data_dir, const struct store_mark *now,
                      struct error *err)
{
    struct store_mark mark = {0};
    int rc = str_copy(guard->data_dir, sizeof(guard->data_dir), data_dir);
    if (rc)
        return error_set(err, rc, "data directory: path too long");
    rc = store_mark_read(data_dir, &mark, err);
    if (!rc)
        rc = store_mark_compare(&mark, now, err);
    else if (rc == E_NOT_FOUND) {
        error_clear(err);
        rc = 0;
    }
    if (!rc)
        rc = open_mark(guard, err);
    guard->on = !rc;
    if (!rc)
        rc = store_guard_look(guard, err);
    if (rc)
        return rc;
    store_guard_mark(guard, now);
    return 0;
}

void store_guard_end(struct store_guard *guard)
{
    if (guard->fd >= 0)
        close(guard->fd);
    guard->fd = -1;
    guard->on = false;
}
