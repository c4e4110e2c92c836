#include "coordinator/store/data_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/str.h"

static int refused(int fd, const char *data_dir, struct error *err)
{
    char pid[16] = "";
    ssize_t size = pread(fd, pid, sizeof pid - 1, 0);
    pid[size > 0 ? (size_t)size : 0] = 0;
    for (char *c = pid; *c; c++)
        if (*c < '0' || *c > '9')
            *c = 0;
    error_set(err, E_FAILED_PRECONDITION, "another coordinator (pid %s) uses %s",
              *pid ? pid : "unknown", data_dir);
    error_hint(err, "stop it first, or give this one another --data");
    return E_FAILED_PRECONDITION;
}

int data_dir_lock(const char *data_dir, int *ret_fd, struct error *err)
{
    char path[PATH_MAX], pid[16];
    int rc = str_printf(path, sizeof path, "%s/lock", data_dir);
    if (rc < 0)
        return error_set(err, rc, "data directory: path too long");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, errno, "open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        rc = errno == EWOULDBLOCK ? refused(fd, data_dir, err)
                                  : error_errno(err, errno, "lock %s", path);
        close(fd);
        return rc;
    }
    int size = snprintf(pid, sizeof pid, "%d\n", (int)getpid());
    /* On a full disk the lock still holds; only the pid cannot be named. */
    if (ftruncate(fd, 0) == 0 && pwrite(fd, pid, (size_t)size, 0) < 0)
        errno = 0;
    *ret_fd = fd;
    return 0;
}

void data_dir_unlock(int fd)
{
    if (fd >= 0)
        close(fd);
}
