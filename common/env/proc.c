#include "common/env/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/parse.h"
#include "common/env/proc_stat.h"

/* The next of the fields that spaces separate. */
static const char *next_field(const char *text)
{
    text += strcspn(text, " ");
    return text + strspn(text, " ");
}

/* Fields as proc(5) counts them: 1 pid, 2 (name), 3 state, 4 parent, 22 start time. */
static int stat_parse(const char *text, struct proc_stat *ret)
{
    /* The program's name is in parentheses and may contain any character, also ')'. */
    const char *field = strrchr(text, ')');
    if (!field)
        return E_INTERNAL;
    field = next_field(field);
    ret->state = *field;
    field = next_field(field);
    ret->parent = (pid_t)strtol(field, NULL, 10);
    for (int i = 4; i < 22; i++)
        field = next_field(field);
    ret->start_ticks = strtoull(field, NULL, 10);
    return *field ? 0 : E_INTERNAL;
}

int proc_stat_read(pid_t pid, struct proc_stat *ret)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return E_NOT_FOUND;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return E_NOT_FOUND; /* ESRCH: it ended between open and read */
    text[n] = '\0';
    return stat_parse(text, ret);
}

int proc_start_ticks(pid_t pid, uint64_t *ret, struct error *err)
{
    struct proc_stat stat;
    int rc = proc_stat_read(pid, &stat);
    if (rc)
        return error_set(err, rc, "process %d is gone", (int)pid);
    *ret = stat.start_ticks;
    return 0;
}

/* If it has not been reaped after the look, the number was its own. */
int proc_user(const struct proc *proc, uid_t *ret, struct error *err)
{
    char path[64];
    struct stat is;
    snprintf(path, sizeof(path), "/proc/%d", (int)proc->pid);
    if (stat(path, &is) || pidfd_send_signal(proc->pidfd, 0, NULL, 0))
        return error_set(err, E_NOT_FOUND, "process %d is gone", (int)proc->pid);
    *ret = is.st_uid;
    return 0;
}

bool proc_alive(pid_t pid, uint64_t start_ticks)
{
    struct proc_stat stat;
    return !proc_stat_read(pid, &stat) && stat.state != 'Z' && stat.state != 'X' &&
           (start_ticks == 0 || stat.start_ticks == start_ticks);
}

int proc_open(pid_t pid, uint64_t start_ticks, struct proc *ret, struct error *err)
{
    int pidfd = pidfd_open(pid, 0);
    if (pidfd < 0 && errno != ESRCH)
        return error_errno(err, errno, "process %d", (int)pid);
    /* Looked at after the pidfd exists: if it is the right process now, the pidfd is its. */
    if (pidfd < 0 || !proc_alive(pid, start_ticks)) {
        if (pidfd >= 0)
            close(pidfd);
        return error_set(err, E_NOT_FOUND, "process %d is gone", (int)pid);
    }
    struct proc proc = {.pid = pid, .pidfd = pidfd, .start_ticks = start_ticks};
    int rc = start_ticks ? 0 : proc_start_ticks(pid, &proc.start_ticks, err);
    if (rc)
        proc_close(&proc);
    else
        *ret = proc;
    return rc;
}

void proc_close(struct proc *proc)
{
    if (proc->pidfd > 0)
        close(proc->pidfd);
    proc->pidfd = -1;
}

int proc_signal(const struct proc *proc, int signal, struct error *err)
{
    if (pidfd_send_signal(proc->pidfd, signal, NULL, 0) == 0)
        return 0;
    return error_errno(err, errno, "cannot signal process %d", (int)proc->pid);
}

int proc_signal_group(const struct proc *proc, int signal, struct error *err)
{
    /* While the leader exists, be it as a zombie, its number cannot name another group. */
    int rc = proc_signal(proc, 0, err);
    if (rc)
        return rc;
    if (killpg(proc->pid, signal) == 0)
        return 0;
    return error_errno(err, errno, "cannot signal process group %d", (int)proc->pid);
}

int proc_wait(const struct proc *proc, bool block, struct proc_exit *ret, struct error *err)
{
    siginfo_t info = {0};
    int rc;
    do {
        rc = waitid(P_PIDFD, (id_t)proc->pidfd, &info, WEXITED | (block ? 0 : WNOHANG));
    } while (rc < 0 && errno == EINTR);
    if (rc < 0 && errno == ECHILD)
        return error_set(err, E_NOT_FOUND, "process %d is not our child", (int)proc->pid);
    if (rc < 0)
        return error_errno(err, errno, "cannot wait for process %d", (int)proc->pid);
    if (info.si_pid == 0)
        return error_set(err, E_UNAVAILABLE, "process %d still runs", (int)proc->pid);
    bool exited = info.si_code == CLD_EXITED;
    *ret = (struct proc_exit){
        .code = exited ? info.si_status : -1,
        .signal = exited ? 0 : info.si_status,
        .core_dumped = info.si_code == CLD_DUMPED,
    };
    return 0;
}

struct family {
    struct {
        pid_t pid, parent;
    } * all;
    size_t count, capacity;
};

static int family_add(struct family *family, pid_t pid, pid_t parent)
{
    if (family->count == family->capacity) {
        size_t capacity = family->capacity ? family->capacity * 2 : 256;
        void *all = reallocarray(family->all, capacity, sizeof(*family->all));
        if (!all)
            return E_RESOURCE_EXHAUSTED;
        family->all = all;
        family->capacity = capacity;
    }
    family->all[family->count].pid = pid;
    family->all[family->count].parent = parent;
    family->count++;
    return 0;
}

static int family_read(struct family *family)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    int rc = 0;
    if (!dir)
        return E_INTERNAL;
    while (!rc && (entry = readdir(dir))) {
        struct proc_stat stat;
        int64_t pid;
        if (!parse_i64(entry->d_name, 1, INT32_MAX, &pid, NULL) &&
            !proc_stat_read((pid_t)pid, &stat))
            rc = family_add(family, (pid_t)pid, stat.parent);
    }
    closedir(dir);
    return rc;
}

int proc_descendants(pid_t pid, pid_t **ret_pids, size_t *ret_count, struct error *err)
{
    struct family family = {0};
    int rc = family_read(&family);
    size_t max = family.count < PROC_DESCENDANTS_MAX ? family.count : PROC_DESCENDANTS_MAX;
    pid_t *found = calloc(max + 1, sizeof(*found));
    size_t count = 0;
    if (!rc && !found)
        rc = E_RESOURCE_EXHAUSTED;
    if (rc) {
        free(family.all);
        free(found);
        return error_set(err, rc, "cannot read /proc");
    }
    for (size_t next = 0; next <= count; next++) { /* breadth first, `pid` itself before them */
        pid_t parent = next ? found[next - 1] : pid;
        for (size_t i = 0; i < family.count && count < max; i++)
            if (family.all[i].parent == parent)
                found[count++] = family.all[i].pid;
    }
    free(family.all);
    *ret_pids = found;
    *ret_count = count;
    return 0;
}
