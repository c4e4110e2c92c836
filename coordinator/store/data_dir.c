#include "coordinator/store/data_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/str.h"

static int refused(const char *path, const char *data_dir, struct error *err)
{
    char pid[16] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : pread(fd, pid, sizeof(pid) - 1, 0);
    if (fd >= 0)
        close(fd);
    pid[size > 0 ? (size_t)size : 0] = 0;
    for (char *c = pid; *c; c++)
        if (*c < '0' || *c > '9')
            *c = 0;
    error_set(err, E_FAILED_PRECONDITION, "another coordinator (pid %s) uses %s",
              *pid ? pid : "unknown", data_dir);
    error_hint(err, "stop it first, or start this one with another --data");
    return E_FAILED_PRECONDITION;
}

/* E_UNIMPLEMENTED where the file system does not lock it. */
static int lock_open(int fd, const char *what, struct error *err)
{
    if (fd < 0)
        return error_errno(err, errno, "open %s", what);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return E_FAILED_PRECONDITION;
    int problem = errno;
    (void)error_errno(err, problem, "lock %s", what);
    return problem == EBADF || problem == ENOLCK || problem == ENOTSUP || problem == EINVAL
               ? E_UNIMPLEMENTED
               : E_UNAVAILABLE;
}

static void write_pid(int fd)
{
    char pid[16];
    int size = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    /* On a full disk the lock still works; only the pid is missing. */
    if (ftruncate(fd, 0) == 0 && pwrite(fd, pid, (size_t)size, 0) < 0)
        errno = 0;
}

int data_dir_lock(const char *data_dir, struct data_dir_lock *ret, struct error *err)
{
    char path[PATH_MAX];
    int rc = str_printf(path, sizeof(path), "%s/lock", data_dir);
    if (rc)
        return error_set(err, rc, "data directory: path too long");
    struct data_dir_lock lock = DATA_DIR_UNLOCKED;
    lock.folder = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = lock_open(lock.folder, data_dir, err);
    if (!rc || rc == E_UNIMPLEMENTED) {
        lock.file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        rc = lock_open(lock.file, path, err);
    }
    if (rc == E_FAILED_PRECONDITION)
        rc = refused(path, data_dir, err);
    if (rc) {
        data_dir_unlock(&lock);
        return rc;
    }
    write_pid(lock.file);
    *ret = lock;
    return 0;
}

void data_dir_unlock(struct data_dir_lock *lock)
{
    if (lock->file >= 0)
        close(lock->file);
    if (lock->folder >= 0)
        close(lock->folder);
    *lock = DATA_DIR_UNLOCKED;
}
