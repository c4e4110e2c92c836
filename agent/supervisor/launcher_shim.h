/* The real launcher: one `muster shim` process per worker, which outlives the agent. The state is
 * in the run directories (rundir.h), where a later agent finds it. Notices arrive by pidfd (a shim
 * has ended) and inotify (it has started the worker, there is output). If inotify is used up, a
 * timer polls instead. Loop thread only. */
#ifndef SUPERVISOR_LAUNCHER_SHIM_H
#define SUPERVISOR_LAUNCHER_SHIM_H

#include "agent/supervisor/cgroup.h"
#include "agent/supervisor/namespace.h"
#include "agent/supervisor/launcher.h"
#include "common/env/env.h"
#include "common/loop/loop.h"

struct launcher_shim;

struct launcher_shim_options {    /* copied */
    const char *dir;              /* of the run directories; made if missing */
    const char *work_dir;         /* of the workers' own folders; made if missing */
    const char *const *shim_argv; /* NULL-terminated start of the shim's command, e.g.
                                     {"/proc/self/exe", "shim"}; "--dir RUNDIR" is added */
    const char *tmp_dir;          /* of the jobs' /tmp folders; made if missing */
    struct cgroup_home home;      /* of workers' cgroups */
    struct namespaces namespaces; /* for workers of other users */
};

int launcher_shim_new(const struct launcher_shim_options *options, struct env *env,
                      struct loop *loop, struct launcher_shim **ret, struct error *err);
void launcher_shim_free(struct launcher_shim *shims); /* closes; shims and workers continue */

struct launcher launcher_shim_face(struct launcher_shim *shims);

#endif
