/* muster up: a whole cluster on this machine. It starts a coordinator and agents as child
 * processes, keeps them running and prints their addresses. Ctrl-C ends them in an order that loses
 * nothing: the coordinator lets every job save and end, then the agents are ended. The next `up` on
 * the same folder continues. A second Ctrl-C ends all at once. */
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
#include "cli/clusters.h"
#include "cli/table.h"
#include "common/base/arena.h"
#include "common/base/str.h"
#include "common/base/token.h"
#include "common/base/tree.h"
#include "common/env/disk_os.h"
#include "common/env/paths.h"
#include "common/env/proc_spawn.h"
#include "common/rpc/message.h"

enum {
    UP_NODES_MAX = 64,
    UP_ARGS_MAX = 32,
    UP_START_MS = 15000,
    UP_POLL_MS = 50,
    UP_WATCH_MS = 200,
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
    {.name = "pin", .kind = ARGS_FLAG, .help = "pin workers to cores by their slots"},
    {.name = "data",
     .kind = ARGS_OPTION,
     .value_name = "DIR",
     .help = "where everything is kept (~/.local/share/muster/local)"},
    {.name = "rpc",
     .kind = ARGS_OPTION,
     .value_name = "URL",
     .fallback = "tcp://127.0.0.1:7440",
     .help = "address for clients and agents; port 0 is any free port"},
    {.name = "http",
     .kind = ARGS_OPTION,
     .value_name = "HOST:PORT",
     .fallback = "127.0.0.1:7480",
     .help = "address of REST and the page; port 0 is any free port; off = none"},
    {0},
};
static const char *const examples[] = {"muster up --nodes 2 --slots 1", NULL};
static const struct args_command command = {
    .program = "muster up",
    .summary = "start a coordinator and agents on this machine",
    .description =
        "Binds loopback only. On Ctrl-C every job saves and ends. The next `muster up` on the same "
        "folder continues it. A second Ctrl-C ends everything at once.",
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
    long log_start; /* size of its log when it was started last */
    struct proc proc;
    bool running;
    int restarts;
    int64_t window_ms;
};

struct up {
    int signals; /* signalfd of SIGINT, SIGTERM, SIGHUP: ends it at any moment */
    char program[PATH_MAX];
    char data[PATH_MAX / 2];
    char rpc[256], http[256];
    struct clusters_entry entry;
    bool hurry;                              /* asked to end a second time */
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

static int start_child(struct up *up, struct child *child, struct error *err)
{
    extern char **environ;
    int log = open(child->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0)
        return error_errno(err, errno, "cannot write %s", child->log);
    child->log_start = lseek(log, 0, SEEK_END);
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
    child->running = !rc;
    return rc;
}

/* A log line as a sentence: the message of a JSON line that is a warning or worse. */
static void print_line(const char *line, size_t size)
{
    struct arena arena;
    struct tree *tree;
    struct error ignored;
    arena_init(&arena, 1 << 20);
    struct tree_input input = {.text = line, .size = size};
    if (size == 0 || line[0] != '{') {
        fprintf(stderr, "%.*s\n", (int)size, line);
    } else if (!tree_parse_json(&input, &arena, &tree, &ignored)) {
        const char *level = "", *message = "", *hint = "";
        (void)tree_read_string(tree_get(tree, "level"), &level, &ignored);
        (void)tree_read_string(tree_get(tree, "message"), &message, &ignored);
        if (tree_get(tree, "hint"))
            (void)tree_read_string(tree_get(tree, "hint"), &hint, &ignored);
        if (strcmp(level, "error") == 0 || strcmp(level, "warn") == 0)
            fprintf(stderr, "%s%s%s\n", message, *hint ? "; " : "", hint);
    }
    arena_fini(&arena);
}

/* The output of a child that ended, since its start. */
static void print_failure(const struct child *child)
{
    char text[16384];
    FILE *file = fopen(child->log, "re");
    if (!file)
        return;
    size_t size = 0;
    if (fseek(file, child->log_start, SEEK_SET) == 0)
        size = fread(text, 1, sizeof(text), file);
    fclose(file);
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        print_line(text + at, length);
        at += length + 1;
    }
}

static int reap(struct child *child, struct proc_exit *ret)
{
    struct error err;
    if (!child->running || proc_wait(&child->proc, false, ret, &err))
        return E_UNAVAILABLE;
    proc_close(&child->proc);
    child->running = false;
    return 0;
}

/* Read the coordinator's address from its folder; E_NOT_FOUND before it is written. */
static int read_address(const struct up *up, const char *name, char *ret, size_t size)
{
    char path[PATH_MAX];
    struct error ignored;
    ret[0] = '\0';
    if (paths_join(path, sizeof(path), up->data, name, &ignored) ||
        client_read_line(path, ret, size, &ignored))
        return E_NOT_FOUND;
    return ret[0] ? 0 : E_NOT_FOUND;
}

static bool answers(const struct up *up)
{
    struct error err = {0};
    char path[PATH_MAX], token[TOKEN_TEXT_MAX];
    if (paths_join(path, sizeof(path), up->data, "admin.token", &err) ||
        client_read_line(path, token, sizeof(token), &err))
        return false;
    struct rpc_sync *rpc = NULL;
    Muster__VersionRequest request = MUSTER__VERSION_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    struct rpc_options options_call = {.timeout_ms = 1000, .retry = true};
    int rc = client_dial(up->rpc, token, &rpc, &err);
    if (!rc)
        rc = rpc_sync_call(rpc, &muster__coordinator__descriptor, "Version", &request.base,
                           &options_call, &answer, &err);
    rpc_message_free(answer);
    rpc_sync_free(rpc);
    return !rc;
}

static bool interrupted(const struct up *up, int wait_ms)
{
    struct pollfd wait = {.fd = up->signals, .events = POLLIN};
    return poll(&wait, 1, wait_ms) > 0;
}

/* The coordinator writes its addresses once it serves; the file of a run before is older. */
static int wait_for_coordinator(struct up *up, time_t started, bool page, struct error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", up->data, page ? "http.url" : "rpc.url");
    for (int64_t end = now_ms() + UP_START_MS; now_ms() < end;) {
        struct proc_exit exit;
        struct stat info;
        if (reap(&up->children[0], &exit) == 0) {
            print_failure(&up->children[0]);
            error_set(err, E_FAILED_PRECONDITION, "the coordinator did not start");
            error_hint(err, "the reason is above; if a port is in use, --rpc tcp://127.0.0.1:0 "
                            "--http 127.0.0.1:0 find free ones");
            return E_FAILED_PRECONDITION;
        }
        if (stat(path, &info) == 0 && info.st_mtime >= started &&
            (!page || !read_address(up, "http.url", up->http, sizeof(up->http))) &&
            !read_address(up, "rpc.url", up->rpc, sizeof(up->rpc)) && answers(up))
            return 0;
        if (interrupted(up, UP_POLL_MS))
            return error_set(err, E_CANCELLED, "interrupted");
    }
    return error_set(err, E_DEADLINE_EXCEEDED, "the coordinator does not answer; its log is %s",
                     up->children[0].log);
}

static int make_dirs(const char *path, struct error *err)
{
    struct disk disk = disk_os();
    return disk.make_dirs(disk.self, path, 0700, err);
}

/* Client verbs find this cluster from now on. Without a home they cannot. */
static void become_current(struct up *up)
{
    char other[PATH_MAX];
    struct error err;
    bool others = clusters_newest(up->data, other);
    if (clusters_enter(up->data, &up->entry, &err))
        fprintf(stderr, "muster: %s; name the cluster with MUSTER_ADDR and MUSTER_TOKEN\n",
                err.text);
    else if (others)
        fprintf(stderr,
                "muster: another cluster of yours runs, in %s; verbs now use this one,\n"
                "        and the other one where MUSTER_ADDR and MUSTER_TOKEN name it\n",
                other);
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
    if (data) {
        rc = paths_absolute(up->data, sizeof(up->data), data, err);
    } else {
        rc = paths_data_dir(base, sizeof(base), err);
        if (!rc)
            rc = paths_join(up->data, sizeof(up->data), base, "local", err);
        else
            error_hint(err, "name a folder with --data");
    }
    if (rc)
        return rc;
    return make_dirs(up->data, err);
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
    add_word(child, "--stop-jobs");
    time_t started = time(NULL);
    int rc = start_child(up, child, err);
    bool page = strcmp(args_text(args, "http"), "off") != 0;
    if (rc)
        return rc;
    return wait_for_coordinator(up, started, page, err);
}

static int start_agent(struct up *up, const struct args *args, int index, struct error *err)
{
    char name[32], dir[PATH_MAX - 64];
    snprintf(name, sizeof(name), "node%d", index + 1);
    snprintf(dir, sizeof(dir), "%s/nodes/%s", up->data, name);
    struct child *child = new_child(up, "agent", name);
    int rc = make_dirs(dir, err);
    if (rc)
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
    if (geteuid() == 0)
        add_word(child, "--allow-root-workers");
    if (args_flag(args, "pin")) {
        add_word(child, "--cores");
        add_word(child, "%d/%d", index + 1, (int)args_integer(args, "nodes"));
    }
    if (args_given(args, "slots")) {
        add_word(child, "--slots");
        add_word(child, "%s", args_text(args, "slots"));
    }
    return start_child(up, child, err);
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
            print_failure(child);
            return error_set(err, E_INTERNAL,
                             "%s ends each time it is started; its log is "
                             "%s",
                             child->name, child->log);
        }
        fprintf(stderr, "%s ended (%s %d); starting it again\n", child->name,
                exit.signal ? "signal" : "code", exit.signal ? exit.signal : exit.code);
        int rc = start_child(up, child, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* A second signal asks a child not to wait for jobs or workers. It is another signal than the
 * first, because two equal ones may arrive as one. */
static void ask_to_stop(const struct up *up, struct child *child, int number)
{
    struct error ignored;
    if (child->running)
        proc_signal(&child->proc, number, &ignored);
    if (child->running && up->hurry)
        proc_signal(&child->proc, SIGINT, &ignored);
}

static void await_stop(struct up *up, struct child *child)
{
    struct error ignored;
    struct proc_exit exit;
    struct signalfd_siginfo info;
    for (int64_t end = now_ms() + UP_STOP_MS; child->running && now_ms() < end;) {
        if (reap(child, &exit) == 0 || !interrupted(up, UP_POLL_MS) ||
            read(up->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
            continue;
        up->hurry = true;
        for (int i = 0; i < up->count; i++)
            ask_to_stop(up, &up->children[i], SIGTERM);
    }
    if (child->running) {
        proc_signal(&child->proc, SIGKILL, &ignored);
        proc_wait(&child->proc, true, &exit, &ignored);
        proc_close(&child->proc);
        child->running = false;
    }
}

/* The one that brought us here: as long as it waits, an equal one that follows is lost in it. */
static void take_signal(const struct up *up)
{
    struct signalfd_siginfo info;
    if (interrupted(up, 0))
        (void)!read(up->signals, &info, sizeof(info));
}

static void stop_all(struct up *up)
{
    if (up->count > 0) {
        ask_to_stop(up, &up->children[0], SIGTERM);
        await_stop(up, &up->children[0]);
    }
    for (int i = 1; i < up->count; i++)
        ask_to_stop(up, &up->children[i], SIGTERM);
    for (int i = 1; i < up->count; i++)
        await_stop(up, &up->children[i]);
}

static void banner(const struct up *up, int nodes)
{
    printf("%smuster is up%s: a coordinator and %d node%s\n", colour_bold(stdout),
           colour_off(stdout), nodes, str_plural(nodes));
    printf("  page   %s\n  rpc    %s\n  data   %s (logs, and the admin token in admin.token)\n",
           up->http[0] ? up->http : "off", up->rpc, up->data);
    if (geteuid() == 0)
        printf("  jobs   run as root, as you do\n");
    printf("In another terminal: muster run -- COMMAND\n"
           "Ctrl-C here: every job saves and ends. The next `muster up` continues it.\n");
    fflush(stdout);
}

static int run_up(const struct args *args)
{
    struct up *up = calloc(1, sizeof(*up));
    struct error err = {0};
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    if (!up || (up->signals = signalfd(-1, &signals, SFD_CLOEXEC)) < 0) {
        free(up);
        return EXIT_UNREACHABLE;
    }
    int nodes = (int)args_integer(args, "nodes");
    up->entry.lock = -1;
    int rc = prepare(up, args, &err);
    if (!rc)
        rc = start_coordinator(up, args, &err);
    if (!rc)
        become_current(up);
    for (int i = 0; !rc && i < nodes; i++)
        rc = start_agent(up, args, i, &err);
    if (!rc)
        banner(up, nodes);
    while (!rc && !interrupted(up, UP_WATCH_MS))
        rc = keep(up, &err);
    take_signal(up);
    if (!rc)
        fprintf(stderr,
                "\n"
                "stopping: jobs save now and continue at the next `muster up` on %s; Ctrl-C again "
                "= at once\n",
                up->data);
    stop_all(up);
    clusters_leave(up->data, &up->entry);
    close(up->signals);
    free(up);
    if (rc == E_CANCELLED)
        return 130;
    if (rc) {
        client_fail(&err);
        return EXIT_UNREACHABLE;
    }
    return EXIT_DONE;
}

const struct verb verb_up = {.name = "up", .command = &command, .run = run_up};
