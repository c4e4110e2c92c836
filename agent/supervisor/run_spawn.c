#include "agent/supervisor/run_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"

struct command { /* a `muster shim` */
    const char *argv[RUN_SHIM_ARGS_MAX + 4];
    struct proc_fd fds[PROC_FDS_MAX];
    struct proc_spawn how;
    int log_fd, procs_fd; /* -1 = none */
};

static void command_fini(struct command *command)
{
    if (command->procs_fd >= 0)
        close(command->procs_fd);
    if (command->log_fd >= 0)
        close(command->log_fd);
}

static int command_init(struct command *command, const struct run *run,
                        const struct run_ground *ground, const char *flag, struct error *err)
{
    static const char *const envp[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
    char log[RUNDIR_PATH_MAX];
    int argc = 0;
    *command = (struct command){.log_fd = -1, .procs_fd = -1};
    int rc = rundir_file(&run->dir, "shim.log", log, err);
    if (rc)
        return rc;
    command->log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (command->log_fd < 0)
        return error_errno(err, errno, "%s", log);
    command->procs_fd = cgroup_home_shims_fd(ground->home);
    for (; ground->shim_argv[argc]; argc++)
        command->argv[argc] = ground->shim_argv[argc];
    command->argv[argc++] = "--dir";
    command->argv[argc++] = run->dir.path;
    command->argv[argc] = flag;
    command->fds[0] = (struct proc_fd){.from = command->log_fd, .to = 2};
    command->how = (struct proc_spawn){.path = command->argv[0],
                                       .argv = command->argv,
                                       .envp = envp,
                                       .fds = command->fds,
                                       .fd_count = 1,
                                       .new_session = true,
                                       .cgroup_fds = {command->procs_fd}};
    return 0;
}

static int spawn_in(struct command *command, struct namespace_entry *entry, struct proc *ret,
                    struct error *err)
{
    command->how.confine = namespace_enter;
    command->how.confine_arg = entry;
    int rc = proc_spawn(&command->how, ret, err);
    namespace_close(entry);
    return rc;
}

static int spawn_in_job(struct command *command, struct run *run, const struct run_ground *ground,
                        const struct run *other, struct error *err)
{
    char tmp[RUNDIR_PATH_MAX];
    struct gpu_nodes closed;
    struct namespace_entry entry = {
        .have = ground->namespaces, .tmp = tmp, .closed = &closed, .mounts_fd = -1, .ipc_fd = -1};
    gpu_access_nodes(&run->in_mounts, false, &closed);
    int rc = entry.have->tmp ? workplace_tmp(ground->place, run->key.job, tmp, err) : 0;
    if (rc)
        return rc;
    if (other)
        namespace_open(other->shim.pid, &entry);
    return spawn_in(command, &entry, &run->shim, err);
}

int run_spawn_shim(struct run *run, const struct run_ground *ground, const struct run *runs,
                   struct error *err)
{
    struct command command;
    bool other_user = run->user != (int64_t)geteuid();
    int rc = command_init(&command, run, ground, NULL, err);
    if (!rc)
        rc = other_user ? spawn_in_job(&command, run, ground, run_beside(runs, run), err)
                        : proc_spawn(&command.how, &run->shim, err);
    if (rc)
        run->shim.pidfd = -1;
    command_fini(&command);
    return rc;
}

int run_spawn_keeper(const struct run *run, const struct run_ground *ground,
                     const struct run_keeper *keeper, struct proc *ret, struct error *err)
{
    struct command command;
    struct namespace_entry entry;
    insist(keeper->fd_count < PROC_FDS_MAX);
    int rc = command_init(&command, run, ground, "--terminal", err);
    if (!rc)
        rc = namespace_open_others(run->shim.pid, &entry, err);
    if (!rc && proc_signal(&run->shim, 0, NULL)) { /* it lived while they were opened */
        namespace_close(&entry);
        rc = error_set(err, E_FAILED_PRECONDITION, "the worker has ended");
    }
    if (!rc) {
        memcpy(command.fds + 1, keeper->fds, keeper->fd_count * sizeof(*keeper->fds));
        command.how.fd_count = 1 + keeper->fd_count;
        rc = spawn_in(&command, &entry, ret, err);
    }
    command_fini(&command);
    return rc;
}
