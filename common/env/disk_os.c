#include "common/env/disk_os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/str.h"
#include "common/env/disk_remove.h"

static int check_path(const char *path, struct error *err)
{
    if (path[0] != '/')
        return error_set(err, E_INVALID_ARGUMENT, "%s: the path must be absolute", path);
    if (strlen(path) >= PATH_MAX)
        return error_set(err, E_INVALID_ARGUMENT, "%.60s...: the path is too long", path);
    return 0;
}

static int open_path(const char *path, int flags, int *ret_fd, struct error *err)
{
    int rc = check_path(path, err);
    if (rc)
        return rc;
    *ret_fd = open(path, flags | O_CLOEXEC, 0600);
    return *ret_fd < 0 ? error_errno(err, errno, "%s", path) : 0;
}

static int write_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Up to `size` bytes; less only at the end of the file. Negative errno on failure. */
static ssize_t read_all(int fd, char *data, size_t size)
{
    size_t got = 0;
    while (got < size) {
        ssize_t n = read(fd, data + got, size - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

/* Grows as it reads: the size of a file in /proc is not known before. */
static int read_whole(int fd, size_t max, char **ret_data, size_t *ret_size)
{
    size_t capacity = 4096, size = 0;
    char *data = NULL;
    for (;;) {
        if (capacity > max + 1)
            capacity = max + 1; /* one byte more shows whether there is more */
        char *grown = realloc(data, capacity + 1);
        ssize_t n = grown ? read_all(fd, grown + size, capacity - size) : -ENOMEM;
        data = grown ? grown : data;
        if (n < 0) {
            free(data);
            return (int)-n;
        }
        size += (size_t)n;
        if (size > max) {
            free(data);
            return EFBIG;
        }
        if (size < capacity)
            break;
        capacity *= 2;
    }
    data[size] = '\0';
    *ret_data = data;
    *ret_size = size;
    return 0;
}

static int read_file(void *self, const char *path, size_t max, char **ret_data, size_t *ret_size,
                     struct error *err)
{
    int fd;
    (void)self;
    int rc = max < SIZE_MAX / 4 ? open_path(path, O_RDONLY, &fd, err)
                                : error_set(err, E_INVALID_ARGUMENT, "%s: no limit", path);
    if (rc)
        return rc;
    int problem = read_whole(fd, max, ret_data, ret_size);
    close(fd);
    if (problem == EFBIG)
        return error_set(err, E_RESOURCE_EXHAUSTED, "%s: larger than %zu bytes", path, max);
    return problem ? error_errno(err, problem, "%s", path) : 0;
}

static int sync_folder_of(const char *path)
{
    char folder[PATH_MAX];
    str_copy(folder, sizeof(folder), path);
    char *slash = strrchr(folder, '/');
    slash[slash == folder] = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int problem = fsync(fd) < 0 ? errno : 0;
    close(fd);
    return problem;
}

struct content {
    const void *data;
    size_t size;
    int mode;
    bool durable; /* survives a crash of the machine, for the price of waiting for the disk */
};

static int write_content(int fd, const struct content *content)
{
    int problem = fchmod(fd, (mode_t)content->mode) < 0 ? errno : 0;
    if (problem == 0)
        problem = write_all(fd, content->data, content->size);
    if (problem == 0 && content->durable && fsync(fd) < 0)
        problem = errno;
    if (close(fd) < 0 && problem == 0)
        problem = errno;
    return problem;
}

static int replace_file(const char *path, const struct content *content, struct error *err)
{
    char temporary[PATH_MAX];
    int rc = check_path(path, err);
    if (rc)
        return rc;
    if (str_printf(temporary, sizeof(temporary), "%s.tmp-XXXXXX", path))
        return error_set(err, E_INVALID_ARGUMENT, "%.60s...: the path is too long", path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "%s", path);
    int problem = write_content(fd, content);
    if (problem == 0 && rename(temporary, path) < 0)
        problem = errno;
    if (problem) {
        unlink(temporary);
        return error_errno(err, problem, "cannot write %s", path);
    }
    problem = content->durable ? sync_folder_of(path) : 0;
    return problem ? error_errno(err, problem, "cannot make %s durable", path) : 0;
}

static int write_file(void *self, const char *path, const void *data, size_t size, int mode,
                      struct error *err)
{
    struct content content = {data, size, mode, .durable = true};
    (void)self;
    return replace_file(path, &content, err);
}

int disk_replace(const char *path, const struct buf *text, int mode, struct error *err)
{
    struct content content = {buf_cstr(text), text->size, mode, .durable = false};
    return replace_file(path, &content, err);
}

static int append_file(void *self, const char *path, const void *data, size_t size,
                       struct error *err)
{
    int fd;
    (void)self;
    int rc = open_path(path, O_WRONLY | O_APPEND | O_CREAT, &fd, err);
    if (rc)
        return rc;
    int problem = write_all(fd, data, size);
    if (close(fd) < 0 && problem == 0)
        problem = errno;
    return problem ? error_errno(err, problem, "cannot append to %s", path) : 0;
}

static int read_range(void *self, const char *path, uint64_t offset, void *ret_data, size_t max,
                      size_t *ret_size, struct error *err)
{
    int fd;
    (void)self;
    if (offset > INT64_MAX)
        return error_set(err, E_OUT_OF_RANGE, "%s: no such offset", path);
    int rc = open_path(path, O_RDONLY, &fd, err);
    if (rc)
        return rc;
    ssize_t n = lseek(fd, (off_t)offset, SEEK_SET) < 0 ? -errno : read_all(fd, ret_data, max);
    close(fd);
    if (n < 0)
        return error_errno(err, (int)-n, "%s", path);
    *ret_size = (size_t)n;
    return 0;
}

static int make_dir(const char *path, int mode)
{
    struct stat st;
    if (mkdir(path, (mode_t)mode) == 0)
        return 0;
    if (errno != EEXIST)
        return errno;
    if (stat(path, &st) < 0)
        return errno;
    return S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
}

static int make_dirs(void *self, const char *path, int mode, struct error *err)
{
    char part[PATH_MAX];
    (void)self;
    int rc = check_path(path, err);
    if (rc)
        return rc;
    str_copy(part, sizeof(part), path);
    int problem = 0;
    for (char *p = part + 1; *p && problem == 0; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        problem = make_dir(part, mode);
        *p = '/';
    }
    if (problem == 0)
        problem = make_dir(part, mode);
    return problem ? error_errno(err, problem, "cannot create %s", path) : 0;
}

/* Symbolic links are removed, not followed. */
static int remove_tree(void *self, const char *path, struct error *err)
{
    (void)self;
    int rc = check_path(path, err);
    if (rc)
        return rc;
    if (path[strspn(path, "/.")] == '\0')
        return error_set(err, E_INVALID_ARGUMENT, "%s is not removed", path);
    int problem = disk_remove(path);
    return problem ? error_errno(err, problem, "cannot remove %s", path) : 0;
}

static int not_dots(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

/* In the order of bytes: alphasort follows the locale, and orders must not. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* The pointers first, the names after them. */
static char **pack_names(struct dirent *const *entries, size_t count)
{
    size_t bytes = (count + 1) * sizeof(char *);
    for (size_t i = 0; i < count; i++)
        bytes += strlen(entries[i]->d_name) + 1;
    char **names = malloc(bytes);
    if (!names)
        return NULL;
    char *text = (char *)(names + count + 1);
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(entries[i]->d_name) + 1;
        names[i] = memcpy(text, entries[i]->d_name, length);
        text += length;
    }
    names[count] = NULL;
    return names;
}

static int list_folder(void *self, const char *path, char ***ret_names, struct error *err)
{
    struct dirent **entries;
    (void)self;
    int rc = check_path(path, err);
    if (rc)
        return rc;
    int count = scandir(path, &entries, not_dots, by_name);
    if (count < 0)
        return error_errno(err, errno, "%s", path);
    char **names = pack_names(entries, (size_t)count);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    if (!names)
        return error_set(err, E_RESOURCE_EXHAUSTED, "%s: no memory to list it", path);
    *ret_names = names;
    return 0;
}

static int free_bytes(void *self, const char *path, uint64_t *ret_bytes, struct error *err)
{
    struct statvfs vfs;
    (void)self;
    int rc = check_path(path, err);
    if (rc)
        return rc;
    if (statvfs(path, &vfs) < 0)
        return error_errno(err, errno, "%s", path);
    *ret_bytes = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    return 0;
}

struct disk disk_os(void)
{
    return (struct disk){
        .read_file = read_file,
        .write_file = write_file,
        .append_file = append_file,
        .read_range = read_range,
        .make_dirs = make_dirs,
        .remove_tree = remove_tree,
        .list = list_folder,
        .free_bytes = free_bytes,
    };
}
