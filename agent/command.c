#include "agent/command.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/confinement.h"
#include "agent/core/step.h"
#include "agent/identity.h"
#include "agent/place.h"
#include "agent/supervisor/launcher_shim.h"
#include "agent/users.h"
#include "common/base/args.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/env/clock_os.h"
#include "common/env/disk_os.h"
#include "common/env/log_stderr.h"
#include "common/env/net_url.h"
#include "common/env/paths.h"

enum {
    STOPS_MAX = 2, /* signals that end workers; a further one ends the agent */
    EXIT_DONE = 0,
    EXIT_USAGE = 2,
    EXIT_START = 3,
    EXIT_FENCED = 75,  /* EX_TEMPFAIL: another agent has this node's key; systemd starts it again */
    EXIT_REFUSED = 77, /* EX_NOPERM: only a person can solve it */
    DIR_BYTES = 400,
    PORT_FIRST_MIN = 1024,
    SLOTS_MAX = 1024,
    WORKER_PROCESSES_MAX = 4 << 20, /* as the kernel's largest pid_max */
};

static const char *const log_formats[] = {"auto", "text", "json", NULL};
static const char *const namespace_choices[] = {"auto", "off", NULL};
static const struct args_option options[] = {
    {.name = "coordinator",
     .kind = ARGS_OPTION,
     .required = true,
     .value_name = "URL",
     .help = "where the coordinator listens for agents, tcp://HOST:PORT"},
    {.name = "token",
     .kind = ARGS_OPTION,
     .help = "token of role agent (others can see it in the process list)"},
    {.name = "token-file",
     .kind = ARGS_OPTION,
     .value_name = "FILE",
     .help = "file with the token (else MUSTER_TOKEN); a node that has joined needs none"},
    {.name = "name", .kind = ARGS_OPTION, .help = "name of this node (the host's name)"},
    {.name = "data",
     .kind = ARGS_OPTION,
     .value_name = "DIR",
     .help = "where runs are kept (~/.local/share/muster/agents/NAME)"},
    {.name = "slots",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 1,
     .max = SLOTS_MAX,
     .help = "slots to offer (GPUs, else CPU cores)"},
    {.name = "cpus", .kind = ARGS_OPTION, .type = ARGS_NUMBER, .help = "CPU cores to offer (all)"},
    {.name = "cores",
     .kind = ARGS_OPTION,
     .fallback = "off",
     .value_name = "WHICH",
     .help = "cores that workers are pinned to by their slots, where slots are no GPUs: all, a "
             "part as 1/2 (agents that share a machine), off"},
    {.name = "memory", .kind = ARGS_OPTION, .type = ARGS_BYTES, .help = "memory to offer (all)"},
    {.name = "label",
     .kind = ARGS_REPEATED,
     .value_name = "KEY=VALUE",
     .help = "label that constraints of jobs can require"},
    {.name = "address",
     .kind = ARGS_OPTION,
     .help = "address at which other nodes reach this one (default: the one with the route to the "
             "coordinator)"},
    {.name = "ports",
     .kind = ARGS_OPTION,
     .value_name = "FIRST-LAST",
     .fallback = "21000-24999",
     .help = "ports that jobs may have as MASTER_PORT"},
    {.name = "cgroup",
     .kind = ARGS_OPTION,
     .fallback = "auto",
     .value_name = "WHERE",
     .help = "where workers get their cgroups: auto, off, or a cgroup of version 2 that was "
             "delegated for them, as /system.slice/muster-workers.service"},
    {.name = "worker-processes",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 0,
     .max = WORKER_PROCESSES_MAX,
     .fallback = "8192",
     .help = "processes and threads that a worker may have; 0 = not limited"},
    {.name = "worker-uids",
     .kind = ARGS_OPTION,
     .value_name = "FIRST-LAST",
     .help = "run each tenant's workers as a user of its own, a uid of this range that stays the "
             "tenant's (needs root)"},
    {.name = "worker-users",
     .kind = ARGS_OPTION,
     .value_name = "FILE",
     .help = "users that jobs of tenants run as: lines TENANT USER; * as TENANT is any other "
             "tenant, * as USER the user with the tenant's name (needs root)"},
    {.name = "worker-user",
     .kind = ARGS_OPTION,
     .value_name = "USER",
     .help = "run the workers of all tenants as this user (needs root)"},
    {.name = "namespaces",
     .kind = ARGS_OPTION,
     .choices = namespace_choices,
     .fallback = "auto",
     .help = "auto: each job of another user gets a /tmp, a /dev/shm and a list of processes of "
             "its own, where the kernel allows; off: it sees the machine's"},
    {.name = "allow-root-workers",
     .kind = ARGS_FLAG,
     .help = "let an agent that is root run workers as root: each job can then control this "
             "machine"},
    {.name = "join-again",
     .kind = ARGS_FLAG,
     .help = "join the cluster even if this node has workers of another cluster or of a newer "
             "history; those workers are ended. Use it once, after a coordinator that lost its "
             "store was started with a new one"},
    {.name = "stop-workers",
     .kind = ARGS_FLAG,
     .help = "on SIGTERM end the workers too, on a second one at once; without it they continue "
             "and the next agent finds them"},
    {.name = "log",
     .kind = ARGS_OPTION,
     .choices = log_formats,
     .fallback = "auto",
     .help = "form of log lines"},
    {0},
};
static const char *const examples[] = {
    "muster agent --coordinator tcp://10.0.0.1:7440 --token-file agent.token --label rack=a",
    NULL,
};
static const struct args_command command = {
    .program = "muster agent",
    .summary = "run workers on this machine (one per node)",
    .description = "Workers outlive the agent: SIGTERM ends the agent only, and the next agent on "
                   "the same --data finds its workers again.\n"
                   "\n"
                   "Exit codes: 0 stopped; 2 usage; 3 it cannot start; 75 another agent with this "
                   "node's key speaks for it; 77 the coordinator refuses its token or key, and a "
                   "restart does not help.",
    .options = options,
    .examples = examples,
};

struct program {
    struct args args;
    struct arena arena;
    char name[NAME_LENGTH_MAX + 1];
    char dir[DIR_BYTES];
    char runs[DIR_BYTES + 8], work[DIR_BYTES + 8], tmp[DIR_BYTES + 8];
    char token[IDENTITY_TOKEN_MAX];
    struct confinement confinement;
    struct identity identity;
    char coordinator[NET_ADDRESS_MAX]; /* in the transport's form */
    char address[128];
    char interface[PLACE_INTERFACE_BYTES];
    char hub_url[PLACE_SOCKET_MAX + 16], report_prefix[PLACE_SOCKET_MAX];
    char exe[PATH_MAX];
    struct users users;
    struct agent_options options;
    int lock_fd, signal_fd;
    struct log_stderr log_out;
    struct log log;
    struct disk disk;
    struct env env;
    struct loop *loop;
    struct launcher_shim *shims;
    struct launcher launcher;
    struct agent *agent;
    enum agent_end end;
    int stops; /* signals so far, with --stop-workers */
};

/* The coordinator's expected key, and this node's own. */
static int read_identity(struct program *p, struct error *err)
{
    int rc = identity_open(p->dir, p->name, p->token, &p->identity, err);
    if (rc)
        return rc;
    return net_address_secure(args_text(&p->args, "coordinator"), p->identity.key, p->identity.pin,
                              p->coordinator, err);
}

static int make_dirs(const char *path, mode_t last_mode, struct error *err)
{
    char part[DIR_BYTES];
    (void)str_copy(part, sizeof(part), path);
    for (char *slash = part + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(part, 0755) && errno != EEXIST)
            return error_errno(err, errno, "folder %s", part);
        *slash = '/';
    }
    if (mkdir(path, last_mode) && errno != EEXIST)
        return error_errno(err, errno, "folder %s", path);
    int rc = paths_check_folder(path, err);
    return !rc && chmod(path, last_mode) ? error_errno(err, errno, "folder %s", path) : rc;
}

/* Two agents on one folder would each end the other's idea of what runs. */
static int lock_dir(struct program *p, struct error *err)
{
    char path[DIR_BYTES + 16];
    (void)str_printf(path, sizeof(path), "%s/agent.lock", p->dir);
    p->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (p->lock_fd < 0)
        return error_errno(err, errno, "%s", path);
    if (flock(p->lock_fd, LOCK_EX | LOCK_NB))
        return error_set(err, E_ALREADY_EXISTS, "another agent runs on %s", p->dir);
    return 0;
}

/* Called before a folder exists, because its mode depends on the workers' users. */
static int find_users(struct program *p, struct error *err)
{
    struct users_options users = {.user = args_text(&p->args, "worker-user"),
                                  .table = args_text(&p->args, "worker-users"),
                                  .uids = args_text(&p->args, "worker-uids"),
                                  .allow_root = args_flag(&p->args, "allow-root-workers"),
                                  .dir = p->dir};
    p->disk = disk_os();
    return users_init(&p->users, &users, &p->disk, err);
}

static int find_place(struct program *p, struct error *err)
{
    const char *data = args_text(&p->args, "data");
    const char *name = args_text(&p->args, "name");
    const char *address = args_text(&p->args, "address");
    char base[DIR_BYTES / 2];
    int rc = name ? str_copy(p->name, sizeof(p->name), name) : place_name(p->name, err);
    if (rc && name)
        return error_set(err, E_INVALID_ARGUMENT, "the name is too long: %s", name);
    if (!rc && data)
        rc = paths_absolute(p->dir, sizeof(p->dir), data, err);
    else if (!rc && !(rc = paths_data_dir(base, sizeof(base), err)))
        rc = str_printf(p->dir, sizeof(p->dir), "%s/agents/%s", base, p->name);
    if (!rc)
        rc = net_url_check(args_text(&p->args, "coordinator"), err);
    if (!rc)
        rc = find_users(p, err);
    if (!rc)
        rc = make_dirs(p->dir, p->users.change ? 0711 : 0700, err);
    if (!rc)
        rc = lock_dir(p, err);
    if (!rc)
        rc = place_hub_url(p->dir, p->users.change, p->hub_url, sizeof(p->hub_url), err);
    if (!rc)
        place_report_prefix(p->hub_url, p->report_prefix);
    if (!rc && address)
        rc = str_copy(p->address, sizeof(p->address), address);
    else if (!rc)
        rc = place_address(args_text(&p->args, "coordinator"), p->address, sizeof(p->address), err);
    return rc;
}

static int read_ports(struct program *p, struct error *err)
{
    const char *text = args_text(&p->args, "ports");
    char first[8];
    int64_t low, high;
    const char *dash = strchr(text, '-');
    bool fine = dash && dash - text < (int)sizeof(first) &&
                !str_printf(first, sizeof(first), "%.*s", (int)(dash - text), text) &&
                !parse_i64(first, PORT_FIRST_MIN, UINT16_MAX, &low, NULL) &&
                !parse_i64(dash + 1, PORT_FIRST_MIN, UINT16_MAX, &high, NULL) && low <= high;
    if (!fine)
        return error_set(err, E_INVALID_ARGUMENT,
                         "--ports %s: expected FIRST-LAST between %d and %d", text, PORT_FIRST_MIN,
                         UINT16_MAX);
    p->options.port_first = (uint16_t)low;
    p->options.port_last = (uint16_t)high;
    return 0;
}

static int read_labels(struct program *p, struct error *err)
{
    const char *label;
    for (size_t i = 0; (label = args_repeated(&p->args, "label", i)); i++) {
        const char *equals = strchr(label, '=');
        char *key = equals ? arena_strndup(&p->arena, label, (size_t)(equals - label)) : NULL;
        if (!key)
            return error_set(err, E_INVALID_ARGUMENT, "--label %s: expected KEY=VALUE", label);
        int rc = inventory_label(&p->options.inventory, key, equals + 1, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int read_inventory(struct program *p, struct error *err)
{
    struct inventory *inventory = &p->options.inventory;
    int rc = inventory_read(inventory, err);
    if (rc)
        return rc;
    if (args_given(&p->args, "cpus"))
        inventory->cpus = args_number(&p->args, "cpus");
    if (args_given(&p->args, "memory"))
        inventory->memory_bytes = (uint64_t)args_integer(&p->args, "memory");
    if (args_given(&p->args, "slots"))
        inventory->slots = (uint32_t)args_integer(&p->args, "slots");
    /* No usage error: when a machine starts its driver may still be finding GPUs. */
    if (inventory->gpus_count && inventory->slots > (uint32_t)inventory->gpus_count) {
        error_set(err, E_UNAVAILABLE, "--slots %u: slots are GPUs here, and there %s %d",
                  inventory->slots, inventory->gpus_count == 1 ? "is" : "are",
                  inventory->gpus_count);
        error_hint(err, "leave --slots out to offer all of them; while the machine starts there "
                        "may be more soon");
        return E_UNAVAILABLE;
    }
    if (!inventory->gpus_count && !args_given(&p->args, "slots") && args_given(&p->args, "cpus"))
        inventory->slots = inventory->cpus >= 1 ? (uint32_t)inventory->cpus : 1;
    if (!inventory->gpus_count)
        rc = cores_read(args_text(&p->args, "cores"), &p->options.cores, err);
    if (rc)
        return rc;
    return read_labels(p, err);
}

static enum log_format log_format(const struct program *p)
{
    const char *name = args_text(&p->args, "log");
    if (strcmp(name, "text") == 0)
        return LOG_FORMAT_TEXT;
    return strcmp(name, "json") == 0 ? LOG_FORMAT_JSON : LOG_FORMAT_AUTO;
}

/* The file of this program, the name of shims in the process list; itself if it was deleted. */
static void find_exe(struct program *p)
{
    ssize_t size = readlink("/proc/self/exe", p->exe, sizeof(p->exe) - 1);
    p->exe[size > 0 ? size : 0] = '\0';
    if (access(p->exe, X_OK))
        (void)str_copy(p->exe, sizeof(p->exe), "/proc/self/exe");
}

static int running(const struct program *p)
{
    int count = 0;
    for (const struct agent_worker *w = agent_core_first(agent_core_of(p->agent)); w; w = w->next)
        count += w->process;
    return count;
}

static void on_end(void *arg, enum agent_end why)
{
    struct program *p = arg;
    p->end = why;
    loop_stop(p->loop);
}

static void on_signal(void *arg, int fd, uint32_t epoll_events)
{
    struct program *p = arg;
    struct signalfd_siginfo info;
    (void)epoll_events;
    if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    if (args_flag(&p->args, "stop-workers") && p->stops++ < STOPS_MAX && running(p) > 0) {
        log_info(&p->log, p->stops == 1 ? "ending workers before leaving" : "killing workers",
                 log_int("workers", running(p)));
        agent_stop_workers(p->agent);
        return;
    }
    log_info(&p->log, "leaving; workers go on", log_int("workers", running(p)));
    loop_stop(p->loop);
}

/* Before any thread exists, so that all of them leave signals to the loop. */
static int watch_signals(struct program *p, struct error *err)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &signals, NULL))
        return error_errno(err, errno, "sigprocmask");
    p->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return p->signal_fd < 0 ? error_errno(err, errno, "signalfd") : 0;
}

static int find_home(struct program *p, struct error *err)
{
    struct confinement_wish wish = {.cgroup = args_text(&p->args, "cgroup"),
                                    .namespaces = args_text(&p->args, "namespaces"),
                                    .dir = p->dir,
                                    .users = &p->users};
    return confinement_find(&wish, &p->options.inventory, &p->confinement, err);
}

static void member_path(const struct program *p, char ret[DIR_BYTES + 16])
{
    (void)str_printf(ret, DIR_BYTES + 16, "%s/cluster", p->dir);
}

static void on_member(void *arg, const struct agent_membership *member)
{
    struct program *p = arg;
    struct error err = {0};
    char path[DIR_BYTES + 16];
    struct buf line = {0};
    member_path(p, path);
    (void)buf_printf(&line, "%s %" PRIu64 " %" PRId64 "\n", member->cluster, member->event,
                     member->restored_wall_ms);
    /* What it protects, workers, does not outlive the machine. */
    if (buf_failed(&line) || disk_replace(path, &line, 0600, &err))
        log_warn(&p->log, "which cluster this node belongs to could not be kept",
                 log_str("reason", err.text));
    buf_fini(&line);
}

/* Read the previous agent's membership; empty if its file is invalid. */
static void read_member(struct program *p)
{
    char path[DIR_BYTES + 16];
    struct agent_membership member = {0};
    member_path(p, path);
    char line[AGENT_CLUSTER_MAX + 64] = "", *event, *restored, *end;
    FILE *file = args_flag(&p->args, "join-again") ? NULL : fopen(path, "re");
    if (!file)
        return;
    if (fgets(line, sizeof(line), file) && (event = strchr(line, ' ')) &&
        (restored = strchr(event + 1, ' '))) {
        *event++ = *restored++ = '\0';
        member.event = strtoull(event, &end, 10);
        bool whole = *event && !*end;
        member.restored_wall_ms = strtoll(restored, &end, 10);
        if (whole && *restored && *end == '\n' &&
            !str_copy(member.cluster, sizeof(member.cluster), line))
            p->options.membership.member = member;
    }
    fclose(file);
}

static int build_launcher(struct program *p, struct error *err)
{
    const char *const shim_argv[] = {p->exe, "shim", NULL};
    struct launcher_shim_options shims = {.dir = p->runs,
                                          .work_dir = p->work,
                                          .tmp_dir = p->tmp,
                                          .namespaces = p->confinement.namespaces,
                                          .shim_argv = shim_argv,
                                          .home = p->confinement.home};
    find_exe(p);
    (void)str_printf(p->runs, sizeof(p->runs), "%s/runs", p->dir);
    (void)str_printf(p->work, sizeof(p->work), "%s/work", p->dir);
    (void)str_printf(p->tmp, sizeof(p->tmp), "%s/tmp", p->dir);
    int rc = launcher_shim_new(&shims, &p->env, p->loop, &p->shims, err);
    if (!rc)
        p->launcher = launcher_shim_face(p->shims);
    return rc;
}

/* The socket's own mode: tokens guard it, the file system keeps others from trying. */
static void guard_socket(const struct program *p)
{
    const char *url = agent_hub_url(p->agent);
    if (str_starts(url, "ipc://"))
        (void)chmod(url + strlen("ipc://"), p->users.change ? 0666 : 0600);
}

static void on_slow_turn(void *arg, const struct loop_turn *turn)
{
    const struct program *p = arg;
    log_warn(&p->log, "a turn of the agent was slow: its node was silent meanwhile",
             log_int("timers_ms", turn->timers_ms), log_int("posts_ms", turn->posts_ms),
             log_int("requests_ms", turn->descriptors_ms), log_int("acting_ms", turn->end_ms));
}

static int build_agent(struct program *p, struct error *err)
{
    int rc = loop_new(clock_os(), &p->loop, err);
    if (!rc)
        rc = env_os_init(&p->env, p->loop, err);
    if (rc)
        return rc;
    log_stderr_init(&p->log_out, STDERR_FILENO, log_format(p), &p->env.clock);
    p->log = (struct log){.level = LOG_LEVEL_INFO, .sink = log_stderr_sink(&p->log_out)};
    p->options.name = p->name;
    p->options.coordinator = p->coordinator;
    p->options.token = p->identity.token;
    p->options.hub_url = p->hub_url;
    p->options.report_prefix = p->report_prefix;
    p->options.address = p->address;
    place_interface(p->address, p->interface);
    p->options.interface = p->interface;
    p->options.version = MUSTER_VERSION;
    p->options.environment = place_environment(p->users.change, &p->arena);
    p->options.users = &p->users;
    p->options.namespaces = &p->confinement.namespaces;
    p->options.worker_processes = (uint32_t)args_integer(&p->args, "worker-processes");
    p->options.log = &p->log;
    p->options.on_end = on_end;
    p->options.on_end_arg = p;
    p->options.membership.on_change = on_member;
    p->options.membership.arg = p;
    read_member(p);
    rc = build_launcher(p, err);
    if (!rc)
        rc = agent_new(&p->options, &p->env, p->loop, &p->launcher, &p->agent, err);
    if (!rc)
        rc = loop_watch(p->loop, p->signal_fd, EPOLLIN, on_signal, p, err);
    if (!rc)
        loop_on_slow_turn(p->loop, on_slow_turn, p);
    return rc;
}

static int run_agent(struct program *p)
{
    struct error err = {0};
    int rc = watch_signals(p, &err);
    if (!rc)
        rc = identity_read_token(args_text(&p->args, "token"), args_text(&p->args, "token-file"),
                                 p->token, &err);
    if (!rc)
        rc = read_ports(p, &err);
    if (!rc)
        rc = read_inventory(p, &err);
    if (!rc)
        rc = find_place(p, &err);
    if (!rc)
        rc = read_identity(p, &err);
    if (!rc)
        rc = find_home(p, &err);
    if (!rc)
        rc = build_agent(p, &err);
    if (rc) {
        fprintf(stderr, "muster agent: %s\n", err.text);
        if (err.hint[0])
            fprintf(stderr, "  %s\n", err.hint);
        return rc == E_INVALID_ARGUMENT ? EXIT_USAGE : EXIT_START;
    }
    guard_socket(p);
    log_info(&p->log, "agent starts", log_str("node", p->name), log_str("data", p->dir),
             log_int("slots", p->options.inventory.slots), log_str("address", p->address),
             log_str("cgroup", cgroup_kind_name(p->confinement.home.kind)));
    if (p->options.inventory.unenforced[0])
        log_warn(&p->log, p->options.inventory.unenforced);
    loop_run(p->loop);
    agent_free(p->agent);
    launcher_shim_free(p->shims);
    switch (p->end) {
    case AGENT_END_FENCED:
        return EXIT_FENCED;
    case AGENT_END_REFUSED:
        return EXIT_REFUSED;
    case AGENT_END_NONE:
    case AGENT_END_STOPPED:
        break;
    }
    return EXIT_DONE;
}

int agent_main(int argc, char **argv)
{
    struct error err = {0};
    struct program *p = calloc(1, sizeof(*p));
    if (!p || args_parse(&command, argc, argv, &p->args, &err)) {
        fprintf(stderr, "%s\n", p ? err.text : "muster agent: no memory");
        if (err.hint[0])
            fprintf(stderr, "  %s\n", err.hint);
        free(p);
        return EXIT_USAGE;
    }
    int status = EXIT_DONE;
    if (p->args.help) {
        struct buf help = {0};
        args_help(&command, &help);
        fputs(buf_cstr(&help), stdout);
        buf_fini(&help);
    } else {
        status = run_agent(p);
    }
    fflush(NULL);
    _exit(status); /* NNG 1.5.2 cannot be shut down while it is in use */
}
