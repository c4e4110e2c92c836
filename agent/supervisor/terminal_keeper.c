#include "agent/supervisor/terminal_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/environment.h"
#include "agent/supervisor/rundir.h"
#include "agent/supervisor/tree.h"
#include "agent/supervisor/worker_spawn.h"
#include "common/base/str.h"
#include "common/env/clock_os.h"
#include "common/env/disk_os.h"

enum {
    ROUND_MS = 10,           /* between two SIGKILLs; */
    STUCK_MS = 3000,         /* what they do not end within it is stuck, */
    STUCK_ROUND_MS = 500,    /* and looked at this often */
    RECORD_ROUNDS_MAX = 100, /* a second, for the shim to record the worker's end */
};

enum phase { RUNNING, HANGING_UP, KILLING };

struct keeper {
    struct disk disk;
    struct clock clock;
    struct rundir dir;
    struct arena arena;
    struct run_launch run;
    struct cgroup cgroup; /* the worker's */
    struct proc worker;   /* pidfd -1 before it is open */
    struct proc process;
    int signal_fd;
    int control_fd; /* -1 after the agent closed it */
    enum phase phase;
    int64_t phase_ms; /* since when */
    bool ended;       /* the process, not its tree */
    int wait_status;
    bool reported;
    const char *const *argv, *const *envp;
    bool pty;
    char wish[KEEPER_WISH_MAX_BYTES];
};

static int64_t now_ms(const struct keeper *keeper)
{
    return keeper->clock.now_ms(keeper->clock.self);
}

static void report(struct keeper *keeper, const struct terminal_end *end)
{
    struct keeper_report message = {.version = KEEPER_REPORT_VERSION, .end = *end};
    if (keeper->control_fd >= 0 && !keeper->reported)
        (void)send(keeper->control_fd, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
    keeper->reported = true;
}

/* The wish */

/* An account that is not for people has a shell that refuses them. Its jobs run all the same. */
static const char *shell_of(const char *const *envp)
{
    const char *shell = environment_get(envp, "SHELL");
    if (!shell || shell[0] != '/' || str_ends(shell, "/nologin") || str_ends(shell, "/false"))
        return "/bin/sh";
    return shell;
}

/* TERM of the agent's own surroundings may be among the worker's variables. */
static int set_type(struct keeper *keeper, const char *type, struct error *err)
{
    size_t count = 0, at = 0;
    while (keeper->envp[count])
        count++;
    const char **envp = arena_array(&keeper->arena, count + 2, sizeof(*envp));
    if (!envp)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for an environment");
    for (size_t i = 0; i < count; i++)
        if (!str_starts(keeper->envp[i], "TERM="))
            envp[at++] = keeper->envp[i];
    envp[at] = arena_printf(&keeper->arena, "TERM=%s", type);
    keeper->envp = envp;
    return envp[at] ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "no memory for an environment");
}

static int read_wish(struct keeper *keeper, struct error *err)
{
    ssize_t size = recv(KEEPER_CONTROL_FD, keeper->wish, sizeof(keeper->wish), 0);
    size_t count = 0, end = size > 0 ? (size_t)size : 0;
    const char *texts[TERMINAL_ARGS_MAX + 3] = {NULL};
    if (!end || keeper->wish[end - 1])
        return error_set(err, E_DATA_LOSS, "no wish arrived from the agent");
    for (size_t at = 0; at < end; at += strlen(keeper->wish + at) + 1) {
        if (count == TERMINAL_ARGS_MAX + 2)
            return error_set(err, E_OUT_OF_RANGE, "too many arguments");
        texts[count++] = keeper->wish + at;
    }
    if (count < 2)
        return error_set(err, E_DATA_LOSS, "half a wish arrived from the agent");
    if (count == 2)
        texts[count++] = shell_of(keeper->envp);
    keeper->pty = strcmp(texts[0], KEEPER_WISH_PTY) == 0;
    keeper->argv = arena_copy(&keeper->arena, texts + 2, (count - 1) * sizeof(*texts));
    if (!keeper->argv)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for arguments");
    return keeper->pty ? set_type(keeper, texts[1], err) : 0;
}

/* The start */

/* A descriptor of exactly that process: its number may have been reused. */
static int open_worker(struct keeper *keeper, struct error *err)
{
    struct run_worker record;
    int rc = rundir_read_worker(&keeper->dir, &record, err);
    if (rc)
        return rc;
    const struct run_process *process = &record.process;
    if (record.start_error[0] || !process->start_ticks || !run_process_alive(process) ||
        proc_open((pid_t)process->pid, process->start_ticks, &keeper->worker, NULL))
        return error_set(err, E_FAILED_PRECONDITION, "the worker has ended");
    cgroup_open(record.cgroup, record.cgroup_pids, record.cgroup_devices, &keeper->cgroup);
    if (record.cgroup[0] && keeper->cgroup.kind == CGROUP_NONE)
        return error_set(err, E_FAILED_PRECONDITION, "the worker has ended, and its cgroup");
    return 0;
}

static int spawn(struct keeper *keeper, struct error *err)
{
    const int first = KEEPER_FIRST_FD;
    const struct proc_fd pty[] = {{first, 0}, {first, 1}, {first, 2}};
    const struct proc_fd pipes[] = {{first, 0}, {first + 1, 1}, {first + 2, 2}};
    struct worker_program program = {.argv = keeper->argv,
                                     .envp = keeper->envp,
                                     .fds = keeper->pty ? pty : pipes,
                                     .fd_count = KEEPER_FDS_MAX,
                                     .terminal = keeper->pty};
    return worker_spawn(&keeper->run, &keeper->cgroup, &program, &keeper->process, err);
}

/* Ours would keep the agent from seeing the end of the output. */
static void close_passed(const struct keeper *keeper)
{
    for (int i = 0; i < (keeper->pty ? 1 : KEEPER_FDS_MAX); i++)
        close(KEEPER_FIRST_FD + i);
}

static int start_process(struct keeper *keeper, const char *dir, struct error *err)
{
    int rc = tree_prepare_own(&keeper->signal_fd, err);
    if (!rc)
        rc = rundir_init(&keeper->dir, &keeper->disk, dir, err);
    if (!rc)
        rc = rundir_read_launch(&keeper->dir, &keeper->arena, &keeper->run, err);
    if (!rc)
        rc = open_worker(keeper, err);
    if (!rc)
        rc = worker_secrets_add(&keeper->run, &keeper->disk, &keeper->arena, &keeper->envp, err);
    if (!rc)
        rc = read_wish(keeper, err);
    if (!rc)
        rc = spawn(keeper, err);
    if (rc) {
        struct terminal_end end = {.reason = TERMINAL_NOT_STARTED, .code = agent_start_code(rc)};
        (void)str_copy(end.why, sizeof(end.why), err->text);
        report(keeper, &end);
        return rc;
    }
    close_passed(keeper);
    return 0;
}

/* The end */

static void enter(struct keeper *keeper, enum phase phase)
{
    if (phase <= keeper->phase)
        return;
    keeper->phase = phase;
    keeper->phase_ms = now_ms(keeper);
    if (phase == HANGING_UP) {
        tree_signal_own(SIGHUP);
        tree_signal_own(SIGCONT); /* a stopped one would not see it */
    }
}

/* True when no process of the tree is left: this process gets all orphans of it. */
static bool reap(struct keeper *keeper)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == keeper->process.pid) {
            keeper->ended = true;
            keeper->wait_status = status;
            enter(keeper, HANGING_UP);
        }
    return pid < 0 && errno == ECHILD;
}

static bool worker_ended(const struct keeper *keeper)
{
    struct pollfd fd = {.fd = keeper->worker.pidfd, .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

static void report_end(struct keeper *keeper)
{
    struct terminal_end end = {.reason = TERMINAL_EXITED};
    int status = keeper->ended ? keeper->wait_status : SIGKILL;
    if (WIFSIGNALED(status)) {
        end.reason = TERMINAL_SIGNALED;
        end.signal = WTERMSIG(status);
    } else {
        end.code = WEXITSTATUS(status);
    }
    if (!keeper->ended) {
        (void)str_copy(end.why, sizeof(end.why), "the kernel does not let go of its processes");
    } else if (end.signal && worker_ended(keeper)) {
        end.reason = TERMINAL_WORKER_ENDED;
        (void)str_copy(end.why, sizeof(end.why), "the worker ended, and this terminal with it");
    }
    report(keeper, &end);
}

/* How long the keeper may sleep; -1 without a limit. */
static int due_ms(const struct keeper *keeper)
{
    int64_t past_ms = now_ms(keeper) - keeper->phase_ms;
    switch (keeper->phase) {
    case RUNNING:
        return -1;
    case HANGING_UP:
        return past_ms < TERMINAL_GRACE_MS ? (int)(TERMINAL_GRACE_MS - past_ms) : 0;
    case KILLING:
        return past_ms < STUCK_MS ? ROUND_MS : STUCK_ROUND_MS;
    }
    return -1;
}

static void read_signals(struct keeper *keeper)
{
    struct signalfd_siginfo info;
    while (read(keeper->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGTERM)
            enter(keeper, HANGING_UP);
        if (info.ssi_signo == SIGUSR1)
            enter(keeper, KILLING);
    }
}

/* Nothing is expected from the agent, only its end. */
static void read_control(struct keeper *keeper)
{
    char rest[8];
    if (recv(keeper->control_fd, rest, sizeof(rest), MSG_DONTWAIT) != 0)
        return;
    close(keeper->control_fd);
    keeper->control_fd = -1;
    enter(keeper, HANGING_UP);
}

/* The shim could not remove it, if a process of ours entered it in that moment. Before the shim has
 * recorded the end, it still reads how much memory the worker used. */
static void remove_cgroup(struct keeper *keeper)
{
    const struct timespec round_time = {.tv_nsec = ROUND_MS * 1000000L};
    struct worker_exit exit;
    int rounds = RECORD_ROUNDS_MAX;
    while (rundir_read_exit(&keeper->dir, &exit, NULL) && rounds-- > 0)
        nanosleep(&round_time, NULL);
    (void)cgroup_remove(&keeper->cgroup);
}

static void keep(struct keeper *keeper)
{
    struct cgroup none = {.kind = CGROUP_NONE};
    while (!reap(keeper)) {
        bool killing = keeper->phase == KILLING;
        struct pollfd fds[] = {
            {.fd = keeper->signal_fd, .events = POLLIN},
            {.fd = keeper->control_fd, .events = POLLIN},
            {.fd = killing ? -1 : keeper->worker.pidfd, .events = POLLIN},
        };
        if (poll(fds, 3, due_ms(keeper)) < 0 && errno != EINTR)
            enter(keeper, KILLING);
        read_signals(keeper);
        if (fds[1].revents)
            read_control(keeper);
        if (fds[2].revents || (keeper->phase == HANGING_UP && due_ms(keeper) == 0))
            enter(keeper, KILLING);
        if (keeper->phase == KILLING) {
            (void)tree_kill_own(&none); /* not the worker's own */
            if (now_ms(keeper) - keeper->phase_ms >= STUCK_MS)
                report_end(keeper);
        }
    }
    report_end(keeper);
    if (worker_ended(keeper))
        remove_cgroup(keeper);
}

int terminal_keeper_run(const char *dir, struct error *err)
{
    struct keeper *keeper = calloc(1, sizeof(*keeper));
    if (!keeper)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a terminal");
    keeper->disk = disk_os();
    keeper->clock = clock_os();
    keeper->control_fd = KEEPER_CONTROL_FD;
    keeper->worker.pidfd = keeper->process.pidfd = -1;
    int rc = start_process(keeper, dir, err);
    if (!rc)
        keep(keeper);
    arena_fini(&keeper->arena);
    free(keeper);
    return rc;
}
