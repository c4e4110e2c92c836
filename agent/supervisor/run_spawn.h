/* Starts the launcher's own processes for a run: its shim, and the keepers of its terminals. They
 * are `muster shim` processes outside the worker's cgroup; those of workers of other users are in
 * the job's namespaces. Loop thread; only launcher_shim.c and run*.c include this. */
#ifndef SUPERVISOR_RUN_SPAWN_H
#define SUPERVISOR_RUN_SPAWN_H

#include "agent/supervisor/namespace.h"
#include "agent/supervisor/run.h"
#include "agent/supervisor/workplace.h"
#include "common/env/proc_spawn.h"

enum { RUN_SHIM_ARGS_MAX = 8 };

struct run_ground { /* of a launcher; borrowed */
    const char *const *shim_argv;
    const struct cgroup_home *home;
    const struct namespaces *namespaces;
    const struct workplace *place;
};

/* Fills run->shim. The first shim of a job makes the namespaces; later ones join those of `runs`.
 */
int run_spawn_shim(struct run *run, const struct run_ground *ground, const struct run *runs,
                   struct error *err);

struct run_keeper {
    const struct proc_fd *fds; /* it inherits only these, and its log */
    size_t fd_count;
};

/* A keeper (terminal_keeper.h) in the namespaces of the run's living shim, which is held by its
 * pidfd: another process that gets its number is never entered. */
int run_spawn_keeper(const struct run *run, const struct run_ground *ground,
                     const struct run_keeper *keeper, struct proc *ret, struct error *err);

#endif
