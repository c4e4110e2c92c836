#include "cli/clusters.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/hex.h"
#include "common/base/str.h"
#include "common/env/disk_os.h"
#include "common/env/paths.h"
#include "common/env/rng_os.h"

enum { HOME_MAX = 512, NAME_MAX_BYTES = 640, ID_BYTES = 8, ENTER_TRIES_MAX = 100 };

/* The new name of a file: what was there before, and a random id in hex. */
static int name_with_id(const char *before, char *ret, size_t size)
{
    uint8_t id[ID_BYTES];
    char hex[2 * ID_BYTES + 1];
    struct rng_source rng = rng_os();
    rng.fill(rng.self, id, sizeof(id));
    hex_encode(id, sizeof(id), hex);
    return str_printf(ret, size, "%s%s", before, hex);
}

static int folder_of(char ret[HOME_MAX], struct error *err)
{
    char dir[HOME_MAX];
    int rc = paths_data_dir(dir, sizeof(dir), err);
    if (rc)
        return rc;
    return paths_join(ret, HOME_MAX, dir, "clusters", err);
}

static int link_path(char ret[NAME_MAX_BYTES], struct error *err)
{
    char dir[HOME_MAX];
    int rc = paths_data_dir(dir, sizeof(dir), err);
    if (rc)
        return rc;
    return paths_join(ret, NAME_MAX_BYTES, dir, "current", err);
}

bool clusters_current(char ret_data[PATH_MAX])
{
    char link[NAME_MAX_BYTES];
    struct error ignored;
    if (link_path(link, &ignored))
        return false;
    ssize_t size = readlink(link, ret_data, PATH_MAX - 1);
    ret_data[size > 0 ? size : 0] = '\0';
    if (size <= 0 && access(link, X_OK) == 0) /* a folder made by another user */
        return !str_copy(ret_data, PATH_MAX, link);
    return size > 0;
}

static int point(const char *data, struct error *err)
{
    char link[NAME_MAX_BYTES], before[NAME_MAX_BYTES + 1], next[NAME_MAX_BYTES + 32];
    int rc = link_path(link, err);
    if (rc)
        return rc;
    (void)str_printf(before, sizeof(before), "%s.", link);
    (void)name_with_id(before, next, sizeof(next));
    if (symlink(data, next) == 0 && rename(next, link) == 0)
        return 0;
    rc = error_errno(err, errno, "cannot write %s", link);
    unlink(next);
    return rc;
}

static bool is_at(int fd, const char *path)
{
    struct stat ours, named;
    return fstat(fd, &ours) == 0 && stat(path, &named) == 0 && ours.st_dev == named.st_dev &&
           ours.st_ino == named.st_ino;
}

/* Another `up` that finds it before it is locked removes it as a leftover: E_ABORTED. */
static int make_locked(const char *data, struct clusters_entry *entry, struct error *err)
{
    int rc = 0, fd = open(entry->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, errno, "cannot write %s", entry->path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        rc = errno == EWOULDBLOCK ? E_ABORTED
                                  : error_errno(err, errno, "cannot lock %s", entry->path);
    else if (!is_at(fd, entry->path))
        rc = E_ABORTED;
    else if (dprintf(fd, "%s\n", data) < 0)
        rc = error_errno(err, errno, "cannot write %s", entry->path);
    if (!rc) {
        entry->lock = fd;
        return 0;
    }
    (void)unlink(entry->path);
    close(fd);
    return rc;
}

int clusters_enter(const char *data, struct clusters_entry *ret, struct error *err)
{
    char dir[HOME_MAX], before[NAME_MAX_BYTES];
    struct disk disk = disk_os();
    *ret = (struct clusters_entry){.lock = -1};
    int rc = folder_of(dir, err);
    if (!rc)
        rc = disk.make_dirs(disk.self, dir, 0700, err);
    if (!rc)
        rc = paths_join(before, sizeof(before), dir, "", err);
    if (rc)
        return rc;
    rc = E_ABORTED;
    for (int i = 0; i < ENTER_TRIES_MAX && rc == E_ABORTED; i++) {
        (void)name_with_id(before, ret->path, sizeof(ret->path));
        rc = make_locked(data, ret, err);
    }
    if (rc == E_ABORTED)
        return error_set(err, rc, "cannot lock a file in %s", dir);
    if (rc)
        return rc;
    return point(data, err);
}

struct found { /* a file of the folder */
    char data[PATH_MAX];
    struct timespec since;
};

/* False for what is left over, which is removed. */
static bool read_one(const char *dir, const char *name, struct found *ret)
{
    char path[NAME_MAX_BYTES];
    if (str_printf(path, sizeof(path), "%s/%s", dir, name))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool left_over = flock(fd, LOCK_SH | LOCK_NB) == 0;
    bool runs = !left_over && errno == EWOULDBLOCK;
    struct stat st = {0};
    ssize_t size = runs && fstat(fd, &st) == 0 ? pread(fd, ret->data, PATH_MAX - 1, 0) : 0;
    ret->data[size > 0 ? size : 0] = '\0';
    ret->data[strcspn(ret->data, "\n")] = '\0';
    ret->since = st.st_mtim;
    if (left_over)
        (void)unlink(path);
    close(fd);
    return ret->data[0];
}

static bool later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* The newest of those with `only` as their data folder, or without `but`; either may be NULL. */
static bool search(const char *only, const char *but, char ret_data[PATH_MAX])
{
    char dir[HOME_MAX];
    struct error ignored;
    struct found one;
    struct timespec newest = {0};
    const struct dirent *entry;
    bool any = false;
    DIR *folder = folder_of(dir, &ignored) ? NULL : opendir(dir);
    while (folder && (entry = readdir(folder))) {
        if (entry->d_name[0] == '.' || !read_one(dir, entry->d_name, &one) ||
            (only && strcmp(one.data, only) != 0) || (but && strcmp(one.data, but) == 0) ||
            (any && !later(&one.since, &newest)))
            continue;
        any = true;
        newest = one.since;
        (void)str_copy(ret_data, PATH_MAX, one.data);
    }
    if (folder)
        closedir(folder);
    return any;
}

bool clusters_newest(const char *but, char ret_data[PATH_MAX])
{
    return search(NULL, but, ret_data);
}

bool clusters_runs(const char *data)
{
    char found[PATH_MAX];
    return search(data, NULL, found);
}

void clusters_leave(const char *data, struct clusters_entry *entry)
{
    char link[NAME_MAX_BYTES], other[PATH_MAX];
    struct error ignored;
    if (entry->lock < 0)
        return;
    (void)unlink(entry->path);
    close(entry->lock);
    entry->lock = -1;
    if (!clusters_current(other) || strcmp(other, data) != 0)
        return;
    if (clusters_newest(data, other))
        (void)point(other, &ignored);
    else if (!link_path(link, &ignored))
        (void)unlink(link);
}
