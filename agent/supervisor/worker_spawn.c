#include "agent/supervisor/worker_spawn.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/supervisor/private_file.h"

enum {
    /* The agent protects itself from the kernel's OOM killer. Its workers are what should go when
     * the machine is out of memory, before anything else that runs there. */
    WORKER_OOM_SCORE = 500,
};

/* "0-3,8" */
static bool read_cores(const char *text, cpu_set_t *ret)
{
    CPU_ZERO(ret);
    while (*text) {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (end == text || first < 0)
            return false;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (last < first || last >= CPU_SETSIZE || (*end && *end != ','))
            return false;
        for (long cpu = first; cpu <= last; cpu++)
            CPU_SET(cpu, ret);
        text = *end ? end + 1 : end;
    }
    return CPU_COUNT(ret) > 0;
}

/* The child inherits this process's affinity. During the start that is the worker's cores. A core
 * that disappears meanwhile does not prevent the start. */
static bool pin(const char *cores, cpu_set_t *ret_own)
{
    cpu_set_t theirs;
    if (!cores || !read_cores(cores, &theirs) ||
        sched_getaffinity(0, sizeof(*ret_own), ret_own) != 0)
        return false;
    if (sched_setaffinity(0, sizeof(theirs), &theirs) == 0)
        return true;
    dprintf(STDERR_FILENO, "cores %s: %s\n", cores, strerror(errno));
    return false;
}

static bool names_secret(const struct launch *launch, const char *variable)
{
    size_t size = strcspn(variable, "=");
    for (int i = 0; i < launch->secrets_count; i++)
        if (strlen(launch->secrets[i].name) == size &&
            strncmp(launch->secrets[i].name, variable, size) == 0)
            return true;
    return false;
}

/* No file of the run has their values. */
int worker_secrets_add(struct run_launch *run, const struct disk *disk, struct arena *arena,
                       const char *const **ret_envp, struct error *err)
{
    struct launch *launch = &run->launch;
    size_t count = 0, at = 0;
    *ret_envp = launch->envp;
    if (!launch->secrets_count)
        return 0;
    int rc = private_secrets_read(run, disk, arena, err);
    if (rc)
        return rc;
    while (launch->envp[count])
        count++;
    const char **envp =
        arena_array(arena, count + (size_t)launch->secrets_count + 1, sizeof(*envp));
    for (size_t i = 0; envp && i < count; i++)
        if (!names_secret(launch, launch->envp[i]))
            envp[at++] = launch->envp[i];
    for (int i = 0; envp && i < launch->secrets_count; i++) {
        const struct launch_secret *secret = &launch->secrets[i];
        envp[at] = arena_printf(arena, "%s=%s", secret->name, secret->value);
        if (!envp[at++])
            envp = NULL;
    }
    if (!envp)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for secrets");
    *ret_envp = envp;
    return 0;
}

int worker_spawn(const struct run_launch *run, const struct cgroup *cgroup,
                 const struct worker_program *program, struct proc *ret, struct error *err)
{
    const struct launch *launch = &run->launch;
    const struct launch_user *user = launch->user;
    struct proc_spawn how = {
        .path = program->argv[0],
        .argv = program->argv,
        .envp = program->envp,
        .cwd = launch->workdir[0] ? launch->workdir : run->work,
        .fds = program->fds,
        .fd_count = program->fd_count,
        .new_session = true,
        .terminal = program->terminal,
        .no_new_privileges = true,
        .parent_death_signal = SIGKILL,
        .change_user = user != NULL,
        .uid = user ? user->uid : 0,
        .gid = user ? user->gid : 0,
        .groups = user ? user->groups : NULL,
        .group_count = user ? (size_t)user->groups_count : 0,
        .oom_score_min = WORKER_OOM_SCORE,
    };
    cgroup_enter_fds(cgroup, how.cgroup_fds);
    cpu_set_t own;
    bool pinned = pin(launch->cores, &own);
    int rc = proc_spawn(&how, ret, err);
    if (pinned)
        (void)sched_setaffinity(0, sizeof(own), &own);
    cgroup_close_fds(how.cgroup_fds);
    return rc;
}
