#include "agent/supervisor/shim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/supervisor/cgroup.h"
#include "agent/supervisor/exit_text.h"
#include "agent/supervisor/mask.h"
#include "agent/supervisor/output.h"
#include "agent/supervisor/private_file.h"
#include "agent/supervisor/rundir.h"
#include "agent/supervisor/terminal_keeper.h"
#include "agent/supervisor/tree.h"
#include "agent/supervisor/worker_spawn.h"
#include "common/base/args.h"
#include "common/base/str.h"
#include "common/env/clock_os.h"
#include "common/env/disk_os.h"
#include "common/env/paths.h"

enum {
    READ_BYTES = 64 << 10,
    /* After the last process of the tree the pipes are at their end. If another process has one,
     * its output is not waited for. */
    DRAIN_ROUNDS_MAX = 1024,
    ROUND_MS = 10,        /* between two looks at what SIGKILL should have ended */
    STUCK_MS = 3000,      /* what it does not end within it is stuck, */
    STUCK_ROUND_MS = 500, /* and looked at this often */
};

struct shim {
    struct disk disk;
    struct clock clock;
    struct rundir dir;
    struct arena arena; /* of `run` */
    struct run_launch run;
    struct cgroup cgroup;
    struct output_writer output;
    struct mask mask; /* the job's secrets */
    struct mask_stream masked[OUTPUT_STREAMS];
    struct buf clean; /* of one read */
    int signal_fd;
    int pipes[OUTPUT_STREAMS]; /* read ends; -1 when ended */
    pid_t worker;
    bool ended; /* the worker, not its tree */
    int wait_status;
    int asked_signal;
    int64_t kill_asked_ms;     /* monotonic; 0 = its end was not demanded */
    struct worker_stuck stuck; /* as it was recorded last */
    char bytes[READ_BYTES];    /* of one read */
};

static int64_t wall_ms(struct shim *shim)
{
    return shim->clock.wall_ms(shim->clock.self);
}

/* As TCPStore and others bind it: with SO_REUSEADDR, on all addresses. */
static int check_port(uint16_t port, struct error *err)
{
    int one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_errno(err, errno, "socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    int rc = 0;
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 1))
        rc =
            error_set(err, E_UNAVAILABLE, "port busy: MASTER_PORT %u is in use on this node", port);
    close(fd);
    return rc;
}

static int claim(struct shim *shim, struct error *err)
{
    struct run_process self;
    int rc = run_process_of(getpid(), &self, err);
    if (!rc)
        rc = rundir_claim(&shim->dir, &self, err);
    if (!rc)
        rc = rundir_read_launch(&shim->dir, &shim->arena, &shim->run, err);
    return rc;
}

static int open_output(struct shim *shim, int ret_write_ends[OUTPUT_STREAMS], struct error *err)
{
    char path[RUNDIR_PATH_MAX];
    int rc = rundir_file(&shim->dir, "output", path, err);
    if (!rc)
        rc = output_writer_init(&shim->output, path, wall_ms(shim), err);
    for (int i = 0; i < OUTPUT_STREAMS && !rc; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC))
            return error_errno(err, errno, "pipe");
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        shim->pipes[i] = ends[0];
        ret_write_ends[i] = ends[1];
    }
    return rc;
}

/* No file of the run has them, and no output from now on. */
static int mask_secrets(struct shim *shim, struct error *err)
{
    const struct launch *launch = &shim->run.launch;
    for (int i = 0; i < launch->secrets_count; i++)
        if (!mask_add(&shim->mask, launch->secrets[i].value))
            return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for secrets");
    return 0;
}

static int spawn(struct shim *shim, struct proc *ret, struct error *err)
{
    int ends[OUTPUT_STREAMS] = {-1, -1};
    const struct launch *launch = &shim->run.launch;
    const char *const *envp;
    int rc = worker_secrets_add(&shim->run, &shim->disk, &shim->arena, &envp, err);
    if (!rc)
        rc = mask_secrets(shim, err);
    if (!rc)
        rc = open_output(shim, ends, err);
    if (rc)
        return rc;
    struct proc_fd fds[] = {{ends[OUTPUT_STDOUT], 1}, {ends[OUTPUT_STDERR], 2}};
    struct worker_program program = {
        .argv = launch->argv, .envp = envp, .fds = fds, .fd_count = OUTPUT_STREAMS};
    rc = worker_spawn(&shim->run, &shim->cgroup, &program, ret, err);
    if (rc && launch->argv[0][0] != '/' && !launch->workdir[0])
        (void)error_wrap(err, "the job has no workdir, and its program is a relative path");
    close(ends[OUTPUT_STDOUT]);
    close(ends[OUTPUT_STDERR]);
    return rc;
}

static int start_worker(struct shim *shim, struct error *err)
{
    struct proc proc;
    struct run_worker record = {0};
    char name[CGROUP_PATH_MAX];
    const struct launch *launch = &shim->run.launch;
    int rc = rundir_settle(&shim->dir, err);
    if (!rc && launch->master_port)
        rc = check_port(launch->master_port, err);
    if (!rc)
        rc = run_cgroup_name(&launch->key, getpid(), name);
    if (!rc) {
        struct cgroup_limits limits = {launch->memory_bytes, launch->processes, shim->run.job_gpus};
        cgroup_create(&shim->run.home, name, &limits, &shim->cgroup);
        if (shim->cgroup.why[0])
            dprintf(STDERR_FILENO, "%s\n", shim->cgroup.why);
        rc = spawn(shim, &proc, err);
    }
    if (rc) {
        cgroup_remove(&shim->cgroup);
        private_secrets_forget(&shim->run);
        (void)str_copy(record.start_error, sizeof(record.start_error), err->text);
        record.start_code = agent_start_code(rc);
        (void)rundir_write_worker(&shim->dir, &record, NULL);
        return rc;
    }
    shim->worker = proc.pid;
    (void)run_process_of(proc.pid, &record.process, NULL); /* it may have ended already: then 0 */
    record.process.pid = proc.pid;
    (void)str_copy(record.cgroup, sizeof(record.cgroup), shim->cgroup.path);
    (void)str_copy(record.cgroup_pids, sizeof(record.cgroup_pids), shim->cgroup.pids);
    (void)str_copy(record.cgroup_devices, sizeof(record.cgroup_devices), shim->cgroup.devices);
    proc_close(&proc);
    return rundir_write_worker(&shim->dir, &record, err);
}

/* What the job chose; of a worker that an older agent started, SIGTERM. */
static int stop_signal(const struct shim *shim)
{
    int number = shim->run.launch.stop_signal;
    return number > 0 && number < NSIG ? number : SIGTERM;
}

static void signal_early(const struct shim *shim)
{
    int number = shim->run.launch.early_signal;
    if (!shim->ended && number > 0 && number < NSIG)
        kill(-shim->worker, number);
}

static void handle_signal(struct shim *shim, int number)
{
    switch (number) {
    case SIGTERM:
        shim->asked_signal = stop_signal(shim);
        if (!shim->ended)
            kill(-shim->worker,
                 shim->asked_signal); /* it leads its group: it was started in a session */
        break;
    case SIGURG:
        signal_early(shim);
        break;
    case SIGUSR1:
        shim->asked_signal = SIGKILL;
        if (!shim->kill_asked_ms)
            shim->kill_asked_ms = shim->clock.now_ms(shim->clock.self);
        tree_kill_own(&shim->cgroup);
        break;
    default:
        break; /* SIGCHLD: reap looks */
    }
}

static void handle_signals(struct shim *shim)
{
    struct signalfd_siginfo info;
    while (read(shim->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        handle_signal(shim, (int)info.ssi_signo);
}

/* Unknown dead processes are the worker's orphans, which we get as their subreaper. */
static void reap(struct shim *shim)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == shim->worker) {
            shim->ended = true;
            shim->wait_status = status;
        }
}

/* True while there is more right now. */
static bool read_output(struct shim *shim, int stream)
{
    int fd = shim->pipes[stream];
    if (fd < 0)
        return false;
    ssize_t size = read(fd, shim->bytes, sizeof(shim->bytes));
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (size <= 0) {
        close(fd);
        shim->pipes[stream] = -1;
        return false;
    }
    buf_clear(&shim->clean);
    mask_append(&shim->mask, &shim->masked[stream], shim->bytes, (size_t)size, &shim->clean);
    output_write(&shim->output, (enum output_stream)stream, buf_cstr(&shim->clean),
                 shim->clean.size, wall_ms(shim));
    return true;
}

/* `last`: nothing of the worker lives. Before that a value may still be half printed. */
static void drain(struct shim *shim, bool last)
{
    for (int stream = 0; stream < OUTPUT_STREAMS; stream++)
        for (int round = 0; round < DRAIN_ROUNDS_MAX && read_output(shim, stream); round++)
            ;
    for (int stream = 0; stream < OUTPUT_STREAMS; stream++) {
        if (!last && shim->pipes[stream] >= 0)
            continue;
        buf_clear(&shim->clean);
        mask_flush(&shim->mask, &shim->masked[stream], &shim->clean);
        output_write(&shim->output, (enum output_stream)stream, buf_cstr(&shim->clean),
                     shim->clean.size, wall_ms(shim));
    }
    output_flush(&shim->output, wall_ms(shim));
}

/* The agent reports it and keeps its slots occupied. An equal repeat is not written. */
static void record_stuck(struct shim *shim, const struct worker_exit *exit)
{
    struct worker_stuck stuck = {.wall_ms = wall_ms(shim), .ended = shim->ended};
    tree_list_own(&shim->cgroup, &stuck);
    if (exit)
        stuck.exit = *exit;
    size_t bytes = sizeof(stuck.pids[0]) * (size_t)stuck.count;
    if (!stuck.count || (stuck.count == shim->stuck.count && stuck.ended == shim->stuck.ended &&
                         memcmp(stuck.pids, shim->stuck.pids, bytes) == 0))
        return;
    shim->stuck = stuck;
    (void)rundir_write_stuck(&shim->dir, &stuck, NULL);
    dprintf(STDERR_FILENO, "%d of the worker's processes cannot be killed\n", stuck.count);
}

/* How long supervise may sleep; -1 before a request for the worker's end. */
static int stuck_due_ms(const struct shim *shim)
{
    if (!shim->kill_asked_ms)
        return -1;
    int64_t left_ms = shim->kill_asked_ms + STUCK_MS - shim->clock.now_ms(shim->clock.self);
    return left_ms > STUCK_ROUND_MS ? (int)left_ms : STUCK_ROUND_MS;
}

static void supervise(struct shim *shim)
{
    while (!shim->ended) {
        struct pollfd fds[] = {
            {.fd = shim->signal_fd, .events = POLLIN},
            {.fd = shim->pipes[OUTPUT_STDOUT], .events = POLLIN},
            {.fd = shim->pipes[OUTPUT_STDERR], .events = POLLIN},
        };
        if (poll(fds, 3, stuck_due_ms(shim)) < 0 && errno != EINTR)
            break;
        for (int i = 0; i < OUTPUT_STREAMS; i++)
            if (fds[i + 1].revents)
                read_output(shim, i);
        handle_signals(shim);
        reap(shim);
        if (!shim->ended && shim->kill_asked_ms &&
            shim->clock.now_ms(shim->clock.self) - shim->kill_asked_ms >= STUCK_MS)
            record_stuck(shim, NULL);
    }
}

static void describe_exit(struct shim *shim, struct worker_exit *ret)
{
    struct worker_exit exit = {.wall_ms = wall_ms(shim)};
    struct exit_circumstances circumstances = {
        .limit_bytes = shim->run.launch.memory_bytes,
        .peak_bytes = cgroup_peak_bytes(&shim->cgroup),
        .asked_signal = shim->asked_signal,
    };
    if (WIFSIGNALED(shim->wait_status)) {
        exit.signal = WTERMSIG(shim->wait_status);
        circumstances.core_dumped = WCOREDUMP(shim->wait_status);
    } else {
        exit.code = WEXITSTATUS(shim->wait_status);
    }
    exit.oom = cgroup_oom_kills(&shim->cgroup) > 0;
    exit_describe(&exit, &circumstances);
    *ret = exit;
}

/* Without a time limit: a slot with living processes is not free. */
static void end_tree(struct shim *shim, struct worker_exit *exit)
{
    bool ended = tree_end_own(&shim->cgroup, STUCK_MS, ROUND_MS);
    while (!ended) {
        drain(shim, false);
        output_last(&shim->output, exit->last_output);
        record_stuck(shim, exit);
        ended = tree_end_own(&shim->cgroup, 0, STUCK_ROUND_MS);
    }
}

static int record_end(struct shim *shim, struct error *err)
{
    struct worker_exit exit;
    describe_exit(shim, &exit); /* at once: the time of the first failure is what people look for */
    end_tree(shim, &exit);
    drain(shim, true);
    output_last(&shim->output, exit.last_output);
    cgroup_remove(&shim->cgroup);
    private_secrets_forget(&shim->run);
    output_writer_fini(&shim->output);
    return rundir_write_exit(&shim->dir, &exit, err);
}

static int shim_run(struct shim *shim, struct error *err)
{
    int rc = tree_prepare_own(&shim->signal_fd, err);
    if (!rc)
        rc = claim(shim, err);
    if (rc)
        return rc;
    if (start_worker(shim, err))
        return 0; /* recorded */
    supervise(shim);
    return record_end(shim, err);
}

static const struct args_option options[] = {
    {.name = "dir",
     .kind = ARGS_OPTION,
     .required = true,
     .value_name = "RUNDIR",
     .help = "run directory an agent has made"},
    {.name = "terminal",
     .kind = ARGS_FLAG,
     .help = "start another process beside its worker, for a terminal of the agent"},
    {0},
};
static const struct args_command command = {
    .program = "muster shim",
    .summary = "stay with one worker from start to end (started by the agent)",
    .options = options,
};

int shim_main(int argc, char **argv)
{
    struct shim *shim = calloc(1, sizeof(*shim));
    struct args args;
    struct error err = {0};
    char path[RUNDIR_PATH_MAX];
    int status = 2;
    if (!shim || args_parse(&command, argc, argv, &args, &err)) {
        dprintf(STDERR_FILENO, "%s\n", shim ? err.text : "muster shim: no memory");
        free(shim);
        return status;
    }
    shim->disk = disk_os();
    shim->clock = clock_os();
    shim->pipes[OUTPUT_STDOUT] = shim->pipes[OUTPUT_STDERR] = -1;
    if (args.help) {
        struct buf help = {0};
        args_help(&command, &help);
        dprintf(STDOUT_FILENO, "%s", buf_cstr(&help));
        buf_fini(&help);
        status = 0;
    } else if (paths_absolute(path, sizeof(path), args_text(&args, "dir"), &err) ||
               (args_flag(&args, "terminal")
                    ? terminal_keeper_run(path, &err)
                    : rundir_init(&shim->dir, &shim->disk, path, &err) || shim_run(shim, &err))) {
        dprintf(STDERR_FILENO, "muster shim: %s\n", err.text);
        status = 1;
    } else {
        status = 0;
    }
    args_fini(&args);
    arena_fini(&shim->arena);
    free(shim);
    return status;
}
