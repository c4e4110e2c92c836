#include "agent/supervisor/namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/str.h"

enum { PATH_BYTES = 64, HIDEPID_MAJOR = 5, HIDEPID_MINOR = 8 };

static const unsigned long plain = MS_NOSUID | MS_NODEV;

/* Later mounts of the machine are visible here; ours are not visible there. */
static int new_mounts(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return errno;
    return 0;
}

static int cover_shm(void)
{
    return mount("muster", "/dev/shm", "tmpfs", plain | MS_NOEXEC, "mode=1777") < 0 ? errno : 0;
}

static int cover_proc(void)
{
    return mount("proc", "/proc", "proc", plain | MS_NOEXEC, "hidepid=invisible") < 0 ? errno : 0;
}

static int cover_tmp(const char *folder)
{
    return mount(folder, "/tmp", NULL, MS_BIND, NULL) < 0 ? errno : 0;
}

/* Probing */

struct probe { /* errnos, as the child found them */
    int mounts, ipc, shm, proc, tmp, devices;
};

static void probe_here(struct probe *probe)
{
    probe->ipc = unshare(CLONE_NEWIPC) < 0 ? errno : 0;
    probe->mounts = new_mounts();
    if (probe->mounts)
        return;
    probe->shm = cover_shm();
    probe->tmp = cover_tmp("/dev/shm");
    probe->proc = cover_proc();
    probe->devices = gpu_node_cover("/dev/null");
}

/* False: it could not even be tried. */
static bool probe_in_child(struct probe *ret)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        struct probe probe = {0};
        probe_here(&probe);
        _exit(write(ends[1], &probe, sizeof(probe)) == (ssize_t)sizeof(probe) ? 0 : 1);
    }
    close(ends[1]);
    bool read_all = pid > 0 && read(ends[0], ret, sizeof(*ret)) == (ssize_t)sizeof(*ret);
    close(ends[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return read_all;
}

/* Before, the option was of all mounts of /proc: the machine's own would change too. */
static bool hidepid_is_per_mount(void)
{
    struct utsname name;
    char *end;
    if (uname(&name))
        return false;
    long major = strtol(name.release, &end, 10);
    long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    return major > HIDEPID_MAJOR || (major == HIDEPID_MAJOR && minor >= HIDEPID_MINOR);
}

static void add_missing(struct namespaces *have, const char *what, const char *why)
{
    size_t used = strlen(have->why);
    (void)str_printf(have->why + used, sizeof(have->why) - used, "%s%s (%s)",
                     used ? ", " : "not private: ", what, why);
}

static bool lies_in(const char *path, const char *folder)
{
    size_t size = strlen(folder);
    return strncmp(path, folder, size) == 0 && (path[size] == '/' || !path[size]);
}

const char *namespaces_hide(const struct namespaces *have, const char *path)
{
    if (have->tmp && lies_in(path, "/tmp") && strcmp(path, "/tmp") != 0)
        return "/tmp";
    return have->shm && lies_in(path, "/dev/shm") && strcmp(path, "/dev/shm") != 0 ? "/dev/shm"
                                                                                   : NULL;
}

void namespaces_find(const char *data, struct namespaces *ret)
{
    struct namespaces have = {0};
    struct probe probe;
    if (!probe_in_child(&probe))
        probe = (struct probe){.mounts = EAGAIN, .ipc = EAGAIN};
    have.mounts = !probe.mounts;
    have.ipc = !probe.ipc;
    have.shm = have.mounts && !probe.shm && !lies_in(data, "/dev/shm");
    have.tmp = have.mounts && !probe.tmp && !lies_in(data, "/tmp");
    have.devices = have.mounts && !probe.devices;
    have.proc = have.mounts && !probe.proc && hidepid_is_per_mount();
    if (probe.mounts) {
        add_missing(&have, "/tmp, /dev/shm, the list of processes", strerror(probe.mounts));
    } else {
        if (!have.tmp)
            add_missing(&have, "/tmp", probe.tmp ? strerror(probe.tmp) : "--data lies in it");
        if (!have.shm)
            add_missing(&have, "/dev/shm", probe.shm ? strerror(probe.shm) : "--data lies in it");
        if (!have.proc)
            add_missing(&have, "the list of processes",
                        probe.proc ? strerror(probe.proc) : "Linux before 5.8");
    }
    if (probe.ipc)
        add_missing(&have, "System V shared memory", strerror(probe.ipc));
    *ret = have;
}

/* Entering */

static int open_one(pid_t pid, const char *name)
{
    char path[PATH_BYTES];
    (void)str_printf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Without a namespace of its own everything belongs to the machine. */
static bool is_other(int fd, const char *name)
{
    char path[PATH_BYTES];
    struct stat own, theirs;
    (void)str_printf(path, sizeof(path), "/proc/self/ns/%s", name);
    return stat(path, &own) == 0 && fstat(fd, &theirs) == 0 &&
           (own.st_ino != theirs.st_ino || own.st_dev != theirs.st_dev);
}

static int open_other(pid_t pid, const char *name, int *ret, struct error *err)
{
    int fd = open_one(pid, name);
    if (fd < 0)
        return error_errno(err, errno, "namespace %s of process %d", name, (int)pid);
    if (!is_other(fd, name)) {
        close(fd);
        fd = -1;
    }
    *ret = fd;
    return 0;
}

int namespace_open_others(pid_t pid, struct namespace_entry *ret, struct error *err)
{
    static const struct namespaces none = {0};
    struct namespace_entry entry = {.have = &none, .mounts_fd = -1, .ipc_fd = -1};
    int rc = open_other(pid, "mnt", &entry.mounts_fd, err);
    if (!rc)
        rc = open_other(pid, "ipc", &entry.ipc_fd, err);
    if (rc)
        namespace_close(&entry);
    else
        *ret = entry;
    return rc;
}

void namespace_open(pid_t pid, struct namespace_entry *ret)
{
    ret->mounts_fd = ret->have->mounts ? open_one(pid, "mnt") : -1;
    ret->ipc_fd = ret->have->ipc ? open_one(pid, "ipc") : -1;
}

void namespace_close(struct namespace_entry *entry)
{
    if (entry->mounts_fd >= 0)
        close(entry->mounts_fd);
    if (entry->ipc_fd >= 0)
        close(entry->ipc_fd);
    entry->mounts_fd = entry->ipc_fd = -1;
}

static int make_mounts(const struct namespace_entry *entry)
{
    int problem = new_mounts();
    if (!problem && entry->have->tmp)
        problem = cover_tmp(entry->tmp);
    if (!problem && entry->have->shm)
        problem = cover_shm();
    if (!problem && entry->have->proc)
        problem = cover_proc();
    if (!problem && entry->have->devices && entry->closed)
        problem = gpu_nodes_cover(entry->closed);
    return problem;
}

int namespace_enter(void *arg)
{
    const struct namespace_entry *entry = arg;
    if (entry->ipc_fd >= 0 ? setns(entry->ipc_fd, CLONE_NEWIPC) < 0
                           : entry->have->ipc && unshare(CLONE_NEWIPC) < 0)
        return errno;
    if (entry->mounts_fd >= 0)
        return setns(entry->mounts_fd, CLONE_NEWNS) < 0 ? errno : 0;
    return entry->have->mounts ? make_mounts(entry) : 0;
}

int namespace_set_gpus(pid_t pid, const struct gpu_nodes *closed, const struct gpu_nodes *open)
{
    int fd = open_one(pid, "mnt"), status = 0;
    pid_t child = fd >= 0 && is_other(fd, "mnt") ? fork() : 0;
    if (fd >= 0 && is_other(fd, "mnt") && child == 0) {
        int problem = setns(fd, CLONE_NEWNS) < 0 ? errno : gpu_nodes_cover(closed);
        _exit(problem ? problem : gpu_nodes_uncover(open));
    }
    int problem = fd < 0 || child < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (child > 0)
        problem = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    return problem;
}
