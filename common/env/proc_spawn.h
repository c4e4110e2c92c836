/* Starts a process that inherits only the named descriptors. Any thread. Only async-signal-safe
 * work happens between fork and exec. */
#ifndef ENV_PROC_SPAWN_H
#define ENV_PROC_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/env/proc.h"

enum { PROC_FDS_MAX = 16, PROC_CGROUPS_MAX = 3, PROC_GROUPS_MAX = 64 };

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
    bool terminal;    /* with new_session: descriptor 0 becomes its controlling terminal */
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

#endif
