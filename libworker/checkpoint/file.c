#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "libworker/checkpoint/file.h"

enum { WRITE_MAX_BYTES = 16 << 20 };

int file_make_dirs(const char *path, struct error *err)
{
    char at[4096];
    if (str_copy(at, sizeof(at), path) || !*path)
        return error_set(err, WK_EINVAL, "\"%.80s\" is no path", path);
    for (char *c = at + 1;; c++) {
        if (*c && *c != '/')
            continue;
        char kept = *c;
        *c = 0;
        if (mkdir(at, 0777) && errno != EEXIST)
            return error_errno(err, errno, "making folder %s", at);
        *c = kept;
        if (!kept)
            return 0;
    }
}

int file_append(int fd, const void *data, size_t size, struct error *err)
{
    const char *at = data;
    while (size) {
        ssize_t n = write(fd, at, size < WRITE_MAX_BYTES ? size : WRITE_MAX_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, errno, "writing");
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

int file_end(int fd, const char *name, int rc, struct error *err)
{
    if (!rc && fsync(fd))
        rc = error_errno(err, errno, "syncing");
    if (close(fd) && !rc)
        rc = error_errno(err, errno, "closing");
    if (rc)
        (void)error_wrap(err, "%s", name);
    return rc;
}

int file_write(int folder, const char *name, const void *data, size_t size, struct error *err)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_errno(err, errno, "%s", name);
    return file_end(fd, name, file_append(fd, data, size, err), err);
}

int file_unreadable(struct error *err, int errno_value, const char *what)
{
    int rc = error_errno(err, errno_value, "%s", what);
    return rc == WK_ENOTFOUND || rc == WK_ENOMEM ? rc : error_recode(err, WK_EIO);
}

int file_unparsed(const struct arena *arena, struct error *err)
{
    return error_recode(err, arena->out_of_memory ? WK_ENOMEM : WK_EIO);
}

int file_open(int folder, const char *name, int *ret_fd, uint64_t *ret_bytes, struct error *err)
{
    /* Opening a pipe without a writer would block for ever. */
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return file_unreadable(err, errno, name);
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st))
        rc = file_unreadable(err, errno, name);
    else if (!S_ISREG(st.st_mode))
        rc = error_set(err, WK_EIO, "%s is no plain file", name);
    if (rc) {
        close(fd);
        return rc;
    }
    *ret_fd = fd;
    *ret_bytes = (uint64_t)st.st_size;
    return 0;
}

int file_read_at(int fd, void *ret, size_t size, uint64_t offset, struct error *err)
{
    char *at = ret;
    while (size) {
        ssize_t n = pread(fd, at, size < WRITE_MAX_BYTES ? size : WRITE_MAX_BYTES, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return file_unreadable(err, errno, "reading");
        if (n == 0)
            return error_set(err, WK_EIO, "it ends %zu bytes too early", size);
        at += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return 0;
}

int file_read(int folder, const char *name, size_t max, char **ret, size_t *ret_size,
              struct error *err)
{
    uint64_t bytes;
    int fd;
    int rc = file_open(folder, name, &fd, &bytes, err);
    if (rc)
        return rc;
    char *data = NULL;
    if (bytes > max)
        rc = error_set(err, WK_EIO, "%s is no file of at most %zu bytes", name, max);
    if (!rc) {
        data = malloc((size_t)bytes + 1);
        if (!data)
            rc = error_set(err, WK_ENOMEM, "no memory for %s", name);
    }
    if (!rc && (rc = file_read_at(fd, data, (size_t)bytes, 0, err)) != 0)
        (void)error_wrap(err, "%s", name);
    close(fd);
    if (rc) {
        free(data);
        return rc;
    }
    data[bytes] = 0;
    *ret = data;
    *ret_size = (size_t)bytes;
    return 0;
}

int file_remove_folder(const char *path, struct error *err)
{
    DIR *folder = opendir(path);
    if (!folder)
        return errno == ENOENT ? 0 : error_errno(err, errno, "removing %s", path);
    const struct dirent *entry;
    int rc = 0;
    while (!rc && (entry = readdir(folder))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int failed = unlinkat(dirfd(folder), entry->d_name, 0);
        if (failed && errno == EISDIR)
            failed = unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
        if (failed && errno != ENOENT)
            rc = error_errno(err, errno, "removing %s/%s", path, entry->d_name);
    }
    (void)closedir(folder);
    if (!rc && rmdir(path) && errno != ENOENT)
        rc = error_errno(err, errno, "removing %s", path);
    return rc;
}

int file_sync_folder(const char *path, struct error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "%s", path);
    int rc = fsync(fd) ? error_errno(err, errno, "syncing %s", path) : 0;
    close(fd);
    return rc;
}
