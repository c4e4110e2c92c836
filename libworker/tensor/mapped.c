#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "libworker/tensor/mapped.h"

enum { PATH_BYTES = 4096 };

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t whole_pages(size_t count)
{
    size_t page = page_bytes();
    return (count * sizeof(float) + page - 1) / page * page;
}

/* Not every file system has files that never had a name. */
static int open_unnamed(const char *dir)
{
    char path[PATH_BYTES];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    if (str_printf(path, sizeof(path), "%s/.muster-offload-XXXXXX", dir)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    return fd;
}

float *mapped_new(const char *dir, size_t count, struct error *err)
{
    size_t bytes = whole_pages(count);
    int fd = open_unnamed(dir);
    if (fd < 0) {
        (void)error_errno(err, errno, "offload.dir %s: a file cannot be made there", dir);
        return NULL;
    }
    int code = bytes > INT64_MAX || count > SIZE_MAX / 2 / sizeof(float)
                   ? EFBIG
                   : posix_fallocate(fd, 0, (off_t)bytes);
    void *data = code ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!code && data == MAP_FAILED)
        code = errno;
    (void)close(fd);
    if (code) {
        (void)error_errno(err, code, "offload.dir %s has no room for %zu MiB", dir, bytes >> 20);
        return NULL;
    }
    return data;
}

void mapped_free(float *data, size_t count)
{
    if (data)
        (void)munmap(data, whole_pages(count));
}

void mapped_give_back(const float *data, size_t first, size_t count)
{
    uintptr_t page = page_bytes(), begin = (uintptr_t)(data + first), end = begin + count * 4;
    uintptr_t from = begin / page * page, to = (end + page - 1) / page * page;
    if (count)
        (void)madvise((void *)from, to - from, MADV_DONTNEED);
}
