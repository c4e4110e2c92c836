/* Processes: start one that inherits only the named descriptors, follow and signal it by pidfd, and
 * distinguish it from a later process with the same number (by start time, field 22 of
 * /proc/<pid>/stat). Any thread; only async-signal-safe work happens between fork and exec. */
#ifndef ENV_PROC_H
#define ENV_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

enum { PROC_FDS_MAX = 16, PROC_CGROUPS_MAX = 3, PROC_GROUPS_MAX = 64, PROC_DESCENDANTS_MAX = 4096 };

struct proc { /* one process, from proc_spawn or proc_open; released by proc_close */
    pid_t pid;
    int pidfd;            /* readable when it has exited: loop_watch it; -1 when closed */
    uint64_t start_ticks; /* together with the pid it identifies the process until the next boot */
};

struct proc_fd {
    int from; /* descriptor here */
    int to;   /* its number in the child */
};

struct proc_spawn {
    const char *path;          /* absolute, or searched in the child's PATH if it has no slash; as
                                  its user, as the directory is entered */
    const char *const *argv;   /* NULL-terminated */
    const char *const *envp;   /* NULL-terminated; NULL means an empty environment */
    const char *cwd;           /* NULL stays here */
    const struct proc_fd *fds; /* 0, 1, 2 missing here become /dev/null; all others are closed */
    size_t fd_count;
    bool new_session; /* setsid: signals to our terminal do not reach it */
    bool no_new_privileges;
    int parent_death_signal; /* 0 for none */
    bool change_user;        /* to uid, gid and these supplementary groups; needs root */
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    size_t group_count;
    /* Called in the child while it still has our user, before anything else that may fail: 0 or an
     * errno. Async-signal-safe. NULL: not called. */
    int (*confine)(void *arg);
    void *confine_arg;
    int cgroup_fds[PROC_CGROUPS_MAX]; /* > 0: open cgroup.procs files, one of each hierarchy, that
                                         the child enters before exec */
    int oom_score_min; /* > 0: a lower /proc/self/oom_score_adj is raised to this, if it can be */
};

/* Returns once exec has succeeded or failed; on failure no child is left. Signal mask and handlers
 * of the child are the defaults. E_NOT_FOUND: no such program or directory. */
int proc_spawn(const struct proc_spawn *how, struct proc *ret, struct error *err);

/* A running process by number; E_NOT_FOUND if it has ended or has another start time. `start_ticks`
 * 0 accepts any. */
int proc_open(pid_t pid, uint64_t start_ticks, struct proc *ret, struct error *err);
void proc_close(struct proc *proc); /* the process continues */

/* E_NOT_FOUND when it has exited. The group form signals its process group, which it must lead. */
int proc_signal(const struct proc *proc, int signal, struct error *err);
int proc_signal_group(const struct proc *proc, int signal, struct error *err);

struct proc_exit {
    int code;   /* exit status, -1 if killed by a signal */
    int signal; /* 0 if it exited */
    bool core_dumped;
};

/* Reap a child. E_UNAVAILABLE while it runs (block false); E_NOT_FOUND if it is not our child. */
int proc_wait(const struct proc *proc, bool block, struct proc_exit *ret, struct error *err);

bool proc_alive(pid_t pid, uint64_t start_ticks); /* zombies are not alive */
int proc_start_ticks(pid_t pid, uint64_t *ret, struct error *err);

/* All descendants, parents before children, malloc'd; the caller frees. A snapshot: fork bombs may
 * outrun it, cgroups do not. */
int proc_descendants(pid_t pid, pid_t **ret_pids, size_t *ret_count, struct error *err);

#endif
