/* Starts a process as a worker is started: in its cgroup, as its user, on its cores, with its
 * environment and secrets, in its working folder. The calling process is already in the worker's
 * namespaces (namespace.h). For the worker itself (shim.h) and for processes beside it
 * (terminal_keeper.h). One thread: the affinity of this one is changed during the start. */
#ifndef SUPERVISOR_WORKER_SPAWN_H
#define SUPERVISOR_WORKER_SPAWN_H

#include "agent/supervisor/cgroup.h"
#include "agent/supervisor/run_launch.h"
#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/env/env.h"
#include "common/env/proc_spawn.h"

struct worker_program {                    /* borrowed */
    const char *const *argv, *const *envp; /* NULL-terminated */
    const struct proc_fd *fds;             /* as in proc_spawn */
    size_t fd_count;
    bool terminal; /* descriptor 0 becomes its controlling terminal */
};

/* The environment with the secrets, in the arena. Their values are read into `run`. */
int worker_secrets_add(struct run_launch *run, const struct disk *disk, struct arena *arena,
                       const char *const **ret_envp, struct error *err);

/* As proc_spawn. It dies with this process, and leads a session. */
int worker_spawn(const struct run_launch *run, const struct cgroup *cgroup,
                 const struct worker_program *program, struct proc *ret, struct error *err);

#endif
