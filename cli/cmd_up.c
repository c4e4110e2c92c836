/* muster up: a whole cluster on this machine. Starts a coordinator and agents as child processes,
 * keeps them running, says where everything is, and on Ctrl-C ends them in an order that loses
 * nothing: the coordinator first (so that it does not take the end of its workers for failures),
 * then the agents with their workers. The next `up` on the same folder goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/table.h"
#include "common/base/str.h"
#include "common/env/paths.h"
#include "common/env/proc.h"
#include "common/rpc/message.h"

enum {
    UP_NODES_MAX = 64,
    UP_ARGS_MAX = 32,
    UP_START_MS = 15000,
    UP_POLL_MS = 50,
    UP_RESTARTS_MAX = 10, /* of one child within UP_RESTART_WINDOW_MS */
    UP_RESTART_WINDOW_MS = 60000,
    UP_STOP_MS = 20000,
};

static const struct args_option options[] = {
    {.name = "nodes",
     .letter = 'N',
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 0,
     .max = UP_NODES_MAX,
     .fallback = "1",
     .help = "agents to start, each a node of its own"},
    {.name = "slots",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 1,
     .max = 1024,
     .help = "slots of each node (else its GPUs, else its CPUs)"},
    {.name = "data",
     .kind = ARGS_OPTION,
     .value_name = "DIR",
     .help = "where everything is kept (~/.local/share/muster/local)"},
    {.name = "rpc",
     .kind = ARGS_OPTION,
     .value_name = "URL",
     .fallback = "tcp://127.0.0.1:7440",
     .help = "where clients and agents connect; port 0 takes a free one"},
    {.name = "http",
     .kind = ARGS_OPTION,
     .value_name = "HOST:PORT",
     .fallback = "127.0.0.1:7480",
     .help = "REST and the page; port 0 takes a free one"},
    {0},
};
static const char *const examples[] = {"muster up --nodes 2 --slots 1", NULL};
static const struct args_command command = {
    .program = "muster up",
    .summary = "start a coordinator and agents on this machine",
    .description = "Binds loopback only. Ctrl-C ends everything; jobs go on from their last "
                   "checkpoint at the next `muster up` on the same folder.",
    .options = options,
    .examples = examples,
};

struct child {
    const char *what;
    char name[32];
    char log[PATH_MAX];
    char words[UP_ARGS_MAX][PATH_MAX];
    const char *argv[UP_ARGS_MAX + 1];
    int argc;
    struct proc proc;
    bool running;
    int restarts;
    int64_t window_ms;
};

struct up {
    char program[PATH_MAX];
    char data[PATH_MAX / 2];
    char rpc[256], http[256];
    struct child children[UP_NODES_MAX + 1]; /* the coordinator first */
    int count;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void add_word(struct child *child, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void add_word(struct child *child, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(child->words[child->argc], PATH_MAX, fmt, ap);
    va_end(ap);
    child->argv[child->argc] = child->words[child->argc];
    child->argv[++child->argc] = NULL;
}

static int start(struct up *up, struct child *child, struct error *err)
{
    extern char **environ;
    int log = open(child->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0)
        return error_errno(err, errno, "cannot write %s", child->log);
    struct proc_fd fds[] = {{.from = log, .to = STDOUT_FILENO}, {.from = log, .to = STDERR_FILENO}};
    struct proc_spawn how = {
        .path = up->program,
        .argv = child->argv,
        .envp = (const char *const *)environ,
        .fds = fds,
        .fd_count = 2,
        .new_session = true,
        .parent_death_signal = SIGTERM,
    };
    int rc = proc_spawn(&how, &child->proc, err);
    close(log);
    child->running = rc == 0;
    return rc;
}

/* The end of a child's log: what a person needs to see when it did not start. */
static void print_tail(const char *path)
{
    char text[2048];
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (fseek(file, -(long)sizeof(text) + 1, SEEK_END) != 0)
        rewind(file);
    size_t size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[size] = '\0';
    fprintf(stderr, "%s", text);
}

static int reap(struct child *child, struct proc_exit *ret)
{
    struct error err;
    if (!child->running || proc_wait(&child->proc, false, ret, &err) != 0)
        return E_UNAVAILABLE;
    proc_close(&child->proc);
    child->running = false;
    return 0;
}

static int read_first_line(const char *dir, const char *name, char *ret, size_t size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "re");
    ret[0] = '\0';
    if (!file)
        return E_NOT_FOUND;
    if (fgets(ret, (int)size, file))
        ret[strcspn(ret, "\r\n")] = '\0';
    fclose(file);
    return ret[0] ? 0 : E_NOT_FOUND;
}

static bool answers(const char *url)
{
    struct error err = {0};
    struct rpc_sync *rpc = NULL;
    Muster__VersionRequest request = MUSTER__VERSION_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    struct rpc_options options_call = {.timeout_ms = 1000, .retry = true};
    int rc = rpc_sync_new(url, NULL, &rpc, &err);
    if (rc == 0)
        rc = rpc_sync_call(rpc, &muster__coordinator__descriptor, "Version", &request.base,
                           &options_call, &answer, &err);
    rpc_message_free(answer);
    rpc_sync_free(rpc);
    return rc == 0;
}

/* The coordinator writes its addresses once it serves; the file of a run before is older. */
static int wait_for_coordinator(struct up *up, time_t started, struct error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/http.url", up->data);
    for (int64_t end = now_ms() + UP_START_MS; now_ms() < end;) {
        struct proc_exit exit;
        struct stat info;
        if (reap(&up->children[0], &exit) == 0) {
            print_tail(up->children[0].log);
            return error_set(err, E_FAILED_PRECONDITION, "the coordinator did not start");
        }
        if (stat(path, &info) == 0 && info.st_mtime >= started &&
            read_first_line(up->data, "http.url", up->http, sizeof(up->http)) == 0 &&
            read_first_line(up->data, "rpc.url", up->rpc, sizeof(up->rpc)) == 0 && answers(up->rpc))
            return 0;
        poll(NULL, 0, UP_POLL_MS);
    }
    return error_set(err, E_DEADLINE_EXCEEDED, "the coordinator does not answer; its log is %s",
                     up->children[0].log);
}

/* current -> DATA, so that client verbs find address and token. */
static int point_current(const struct up *up, struct error *err)
{
    char dir[512], next[640], link[640];
    int rc = paths_data_dir(dir, sizeof(dir), err);
    if (rc != 0)
        return rc;
    snprintf(link, sizeof(link), "%s/current", dir);
    snprintf(next, sizeof(next), "%s/current.%d", dir, (int)getpid());
    if (symlink(up->data, next) != 0 || rename(next, link) != 0) {
        rc = error_errno(err, errno, "cannot write %s", link);
        unlink(next);
    }
    return rc;
}

static int make_dirs(const char *path, struct error *err)
{
    char part[PATH_MAX];
    if (str_copy(part, sizeof(part), path) != 0)
        return error_set(err, E_INVALID_ARGUMENT, "path too long: %s", path);
    for (char *slash = part + 1;; slash++) {
        if (*slash != '/' && *slash != '\0')
            continue;
        bool last = *slash == '\0';
        *slash = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return error_errno(err, errno, "cannot make the folder %s", part);
        if (last)
            return 0;
        *slash = '/';
    }
}

static int prepare(struct up *up, const struct args *args, struct error *err)
{
    char base[512];
    const char *data = args_text(args, "data");
    int rc = 0;
    ssize_t size = readlink("/proc/self/exe", up->program, sizeof(up->program) - 1);
    if (size < 0)
        return error_errno(err, errno, "cannot find this program's own file");
    up->program[size] = '\0';
    rc = paths_data_dir(base, sizeof(base), err);
    if (rc == 0)
        rc = make_dirs(base, err);
    if (rc == 0 && data)
        rc = paths_absolute(up->data, sizeof(up->data), data, err);
    else if (rc == 0)
        rc = paths_join(up->data, sizeof(up->data), base, "local", err);
    return rc == 0 ? make_dirs(up->data, err) : rc;
}

static struct child *new_child(struct up *up, const char *what, const char *name)
{
    struct child *child = &up->children[up->count++];
    child->what = what;
    str_copy(child->name, sizeof(child->name), name);
    add_word(child, "muster");
    add_word(child, "%s", what);
    return child;
}

static int start_coordinator(struct up *up, const struct args *args, struct error *err)
{
    struct child *child = new_child(up, "coordinator", "coordinator");
    snprintf(child->log, sizeof(child->log), "%s/coordinator.log", up->data);
    add_word(child, "--data");
    add_word(child, "%s", up->data);
    add_word(child, "--rpc");
    add_word(child, "%s", args_text(args, "rpc"));
    add_word(child, "--http");
    add_word(child, "%s", args_text(args, "http"));
    time_t started = time(NULL);
    int rc = start(up, child, err);
    return rc == 0 ? wait_for_coordinator(up, started, err) : rc;
}

static int start_agent(struct up *up, const struct args *args, int index, struct error *err)
{
    char name[32], dir[PATH_MAX - 64];
    snprintf(name, sizeof(name), "node%d", index + 1);
    snprintf(dir, sizeof(dir), "%s/nodes/%s", up->data, name);
    struct child *child = new_child(up, "agent", name);
    int rc = make_dirs(dir, err);
    if (rc != 0)
        return rc;
    snprintf(child->log, sizeof(child->log), "%s/agent.log", dir);
    add_word(child, "--coordinator");
    add_word(child, "%s", up->rpc);
    add_word(child, "--token-file");
    add_word(child, "%s/agent.token", up->data);
    add_word(child, "--name");
    add_word(child, "%s", name);
    add_word(child, "--data");
    add_word(child, "%s", dir);
    add_word(child, "--stop-workers");
    if (args_given(args, "slots")) {
        add_word(child, "--slots");
        add_word(child, "%s", args_text(args, "slots"));
    }
    return start(up, child, err);
}

/* A child that ended by itself is started again, unless it does so over and over. */
static int keep(struct up *up, struct error *err)
{
    for (int i = 0; i < up->count; i++) {
        struct child *child = &up->children[i];
        struct proc_exit exit;
        if (reap(child, &exit) != 0)
            continue;
        int64_t now = now_ms();
        if (now - child->window_ms > UP_RESTART_WINDOW_MS) {
            child->window_ms = now;
            child->restarts = 0;
        }
        if (++child->restarts > UP_RESTARTS_MAX) {
            print_tail(child->log);
            return error_set(err, E_INTERNAL, "%s ends again and again; its log is %s", child->name,
                             child->log);
        }
        fprintf(stderr, "%s ended (%s %d); starting it again\n", child->name,
                exit.signal ? "signal" : "code", exit.signal ? exit.signal : exit.code);
        int rc = start(up, child, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static void stop_child(struct child *child)
{
    struct error ignored;
    struct proc_exit exit;
    if (!child->running)
        return;
    proc_signal(&child->proc, SIGTERM, &ignored);
    for (int64_t end = now_ms() + UP_STOP_MS; now_ms() < end && reap(child, &exit) != 0;)
        poll(NULL, 0, UP_POLL_MS);
    if (child->running) {
        proc_signal(&child->proc, SIGKILL, &ignored);
        proc_wait(&child->proc, true, &exit, &ignored);
        proc_close(&child->proc);
        child->running = false;
    }
}

static void stop_all(struct up *up)
{
    struct error ignored;
    if (up->count > 0)
        stop_child(&up->children[0]);
    for (int i = 1; i < up->count; i++)
        if (up->children[i].running)
            proc_signal(&up->children[i].proc, SIGTERM, &ignored);
    for (int i = 1; i < up->count; i++)
        stop_child(&up->children[i]);
}

static void banner(const struct up *up, int nodes)
{
    printf("%smuster is up%s: a coordinator and %d node%s\n", colour_bold(stdout),
           colour_off(stdout), nodes, nodes == 1 ? "" : "s");
    printf("  page   %s\n  rpc    %s\n  data   %s (logs, and the admin token in admin.token)\n",
           up->http, up->rpc, up->data);
    printf("In another terminal: muster run -- COMMAND      Ctrl-C here ends everything.\n");
    fflush(stdout);
}

static int run(const struct args *args)
{
    struct up *up = calloc(1, sizeof(*up));
    struct error err = {0};
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    int fd = signalfd(-1, &signals, SFD_CLOEXEC);
    if (!up || fd < 0) {
        free(up);
        return EXIT_UNREACHABLE;
    }
    int nodes = (int)args_integer(args, "nodes");
    int rc = prepare(up, args, &err);
    if (rc == 0)
        rc = start_coordinator(up, args, &err);
    if (rc == 0)
        rc = point_current(up, &err);
    for (int i = 0; rc == 0 && i < nodes; i++)
        rc = start_agent(up, args, i, &err);
    if (rc == 0)
        banner(up, nodes);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    while (rc == 0 && poll(&wait, 1, 200) == 0)
        rc = keep(up, &err);
    if (rc == 0)
        fprintf(stderr, "\nstopping; jobs go on at the next `muster up` on %s\n", up->data);
    stop_all(up);
    close(fd);
    free(up);
    return rc == 0 ? EXIT_DONE : (client_fail(&err), EXIT_UNREACHABLE);
}

const struct verb verb_up = {.name = "up", .command = &command, .run = run};
