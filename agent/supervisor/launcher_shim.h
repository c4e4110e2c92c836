/* The real launcher: one `muster shim` process per worker, which outlives the agent. State is in
 * the run directories (rundir.h); an agent started later finds them all. Notices arrive by pidfd (a
 * shim has ended) and inotify (it has started the worker, there is output); where inotify is used
 * up a timer looks instead. Loop thread only.
 */
#ifndef SUPERVISOR_LAUNCHER_SHIM_H
#define SUPERVISOR_LAUNCHER_SHIM_H

#include "agent/supervisor/cgroup.h"
#include "agent/supervisor/namespace.h"
#include "agent/supervisor/launcher.h"
#include "common/env/env.h"
#include "common/loop/loop.h"

struct launcher_shim;

struct launcher_shim_options {    /* copied */
    const char *dir;              /* of the run directories; made if need be */
    const char *work_dir;         /* of the workers' own folders; made if need be */
    const char *const *shim_argv; /* NULL-terminated start of the shim's command, e.g.
                                     {"/proc/self/exe", "shim"}; "--dir RUNDIR" is added */
    const char *tmp_dir;          /* of the folders that jobs see as /tmp; made if need be */
    struct cgroup_home home;      /* of workers' cgroups */
    struct namespaces namespaces; /* that workers of other users get */
};

int launcher_shim_new(const struct launcher_shim_options *options, struct env *env,
                      struct loop *loop, struct launcher_shim **ret, struct error *err);
void launcher_shim_free(struct launcher_shim *shims); /* closes; shims and workers go on */

struct launcher launcher_shim_face(struct launcher_shim *shims);

#endif
