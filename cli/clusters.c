#include "cli/clusters.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/str.h"
#include "common/env/disk_os.h"
#include "common/env/paths.h"

enum { HOME_MAX = 512, NAME_MAX_BYTES = 640 };

static int folder_of(char ret[HOME_MAX], struct error *err)
{
    char dir[HOME_MAX];
    int rc = paths_data_dir(dir, sizeof(dir), err);
    return rc == 0 ? paths_join(ret, HOME_MAX, dir, "clusters", err) : rc;
}

static int link_path(char ret[NAME_MAX_BYTES], struct error *err)
{
    char dir[HOME_MAX];
    int rc = paths_data_dir(dir, sizeof(dir), err);
    return rc == 0 ? paths_join(ret, NAME_MAX_BYTES, dir, "current", err) : rc;
}

bool clusters_current(char ret_data[PATH_MAX])
{
    char link[NAME_MAX_BYTES];
    struct error ignored;
    if (link_path(link, &ignored) != 0)
        return false;
    ssize_t size = readlink(link, ret_data, PATH_MAX - 1);
    ret_data[size > 0 ? size : 0] = '\0';
    if (size <= 0 && access(link, X_OK) == 0) /* a folder that somebody put there */
        return str_copy(ret_data, PATH_MAX, link) == 0;
    return size > 0;
}

static int point(const char *data, struct error *err)
{
    char link[NAME_MAX_BYTES], next[NAME_MAX_BYTES + 16];
    int rc = link_path(link, err);
    if (rc != 0)
        return rc;
    snprintf(next, sizeof(next), "%s.%d", link, (int)getpid());
    if (symlink(data, next) == 0 && rename(next, link) == 0)
        return 0;
    rc = error_errno(err, errno, "cannot write %s", link);
    unlink(next);
    return rc;
}

int clusters_enter(const char *data, int *ret_lock, struct error *err)
{
    char dir[HOME_MAX], path[NAME_MAX_BYTES];
    struct disk disk = disk_os();
    *ret_lock = -1;
    int rc = folder_of(dir, err);
    if (rc == 0)
        rc = disk.make_dirs(disk.self, dir, 0700, err);
    if (rc != 0)
        return rc;
    snprintf(path, sizeof(path), "%s/%d", dir, (int)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0 || dprintf(fd, "%s\n", data) < 0) {
        rc = error_errno(err, errno, "cannot write %s", path);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    *ret_lock = fd;
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
    if (str_printf(path, sizeof(path), "%s/%s", dir, name) < 0)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool runs = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    struct stat st = {0};
    ssize_t size = runs && fstat(fd, &st) == 0 ? pread(fd, ret->data, PATH_MAX - 1, 0) : 0;
    ret->data[size > 0 ? size : 0] = '\0';
    ret->data[strcspn(ret->data, "\n")] = '\0';
    ret->since = st.st_mtim;
    if (!runs)
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
    DIR *folder = folder_of(dir, &ignored) == 0 ? opendir(dir) : NULL;
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

void clusters_leave(const char *data, int lock)
{
    char path[NAME_MAX_BYTES], dir[HOME_MAX], other[PATH_MAX];
    struct error ignored;
    if (lock < 0 || folder_of(dir, &ignored) != 0)
        return;
    snprintf(path, sizeof(path), "%s/%d", dir, (int)getpid());
    unlink(path);
    close(lock);
    if (!clusters_current(other) || strcmp(other, data) != 0)
        return;
    if (clusters_newest(data, other))
        (void)point(other, &ignored);
    else if (link_path(path, &ignored) == 0)
        unlink(path);
}
