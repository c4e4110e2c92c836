#include "coordinator/daemon/command.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/args.h"
#include "common/base/str.h"
#include "common/env/clock_os.h"
#include "common/env/env.h"
#include "common/env/log_stderr.h"
#include "common/env/net_url.h"
#include "common/env/paths.h"
#include "common/loop/loop.h"
#include "coordinator/api_rest/api_rest.h"
#include "coordinator/api_rest/http_address.h"
#include "coordinator/coordinator.h"
#include "coordinator/core/limits.h"
#include "coordinator/daemon/audit_sink.h"
#include "coordinator/daemon/keys.h"
#include "coordinator/daemon/own_names.h"
#include "coordinator/store/store_sqlite.h"
#include "coordinator/store/store_sqlite_backup.h"

#ifndef MUSTER_VERSION
#define MUSTER_VERSION "0.0.0"
#endif
#ifndef MUSTER_COMMIT
#define MUSTER_COMMIT "unknown"
#endif

enum { EXIT_OK = 0, EXIT_BAD_USAGE = 2, EXIT_CANNOT_START = 3, FOLDER_MODE = 0700 };
enum { HOSTS_MAX = 16 };
enum { RENEW_LOOK_MS = 6 * 3600 * 1000, KEYS_LOOK_MS = 1000, KEYS_SHOWN_MS = 3000 };
enum { HALT_LOOK_MS = 20, HALT_PATIENCE_MS = STOP_GRACE_MS + 5000 };

static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const formats[] = {"auto", "text", "json", NULL};

static const struct args_option options[] = {
    {.name = "data",
     .kind = ARGS_OPTION,
     .value_name = "DIR",
     .help = "where jobs, events, logs and tokens are kept (~/.local/share/muster/coordinator)"},
    {.name = "rpc",
     .kind = ARGS_OPTION,
     .value_name = "URL",
     .fallback = "tcp://127.0.0.1:7440",
     .help = "address for clients and agents; port 0 is any free port, which is then kept"},
    {.name = "http",
     .kind = ARGS_OPTION,
     .value_name = "HOST:PORT",
     .fallback = "127.0.0.1:7480",
     .help = "address of REST and the page, with TLS beyond loopback; port 0 is any free port, "
             "which is then kept; 'off' = none"},
    {.name = "tls",
     .kind = ARGS_OPTION,
     .value_name = "FILE",
     .help = "PEM file with the key and certificates to use instead of those made in DIR"},
    {.name = "secrets-key",
     .kind = ARGS_OPTION,
     .value_name = "FILE",
     .help = "file with the keys that seal the tenants' secrets (DIR/secrets.key); made with the "
             "first secret. MUSTER_SECRETS_KEY may have the keys instead of a file"},
    {.name = "http-host",
     .kind = ARGS_REPEATED,
     .value_name = "NAME",
     .help = "another name or address at which browsers reach REST and the page; it is in the "
             "certificate, too"},
    {.name = "insecure-bind",
     .kind = ARGS_FLAG,
     .help = "serve --http without TLS also at addresses that other machines reach: for a TLS "
             "proxy in front"},
    {.name = "keep-jobs",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 1,
     .max = 1000000,
     .fallback = "10000",
     .value_name = "N",
     .help = "number of ended jobs of a tenant to keep; older ones are forgotten with their "
             "output"},
    {.name = "keep-for",
     .kind = ARGS_OPTION,
     .type = ARGS_DURATION,
     .fallback = "30d",
     .value_name = "TIME",
     .help = "how long to keep ended jobs"},
    {.name = "keep-nodes",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 1,
     .max = CLUSTER_NODES_MAX,
     .fallback = "5000",
     .value_name = "N",
     .help = "number of lost nodes to keep; beyond it those lost for an hour are forgotten, and "
             "join again with a token only"},
    {.name = "keep-nodes-for",
     .kind = ARGS_OPTION,
     .type = ARGS_DURATION,
     .fallback = "30d",
     .value_name = "TIME",
     .help = "how long to keep lost nodes; three times as long those that are cordoned or drained"},
    {.name = "terminal-idle",
     .kind = ARGS_OPTION,
     .type = ARGS_DURATION,
     .fallback = "30m",
     .value_name = "TIME",
     .help = "how long a terminal, program or connection beside a worker (`muster shell`) may be "
             "open without a byte"},
    {.name = "restore",
     .kind = ARGS_OPTION,
     .value_name = "FILE",
     .help = "start from a backup (`muster backup`); the data directory must be empty"},
    {.name = "new",
     .kind = ARGS_FLAG,
     .help = "start with an empty store although the folder had one (its tokens or store.mark are "
             "there); agents with workers of the lost one wait for --join-again"},
    {.name = "audit-file",
     .kind = ARGS_OPTION,
     .value_name = "FILE",
     .help = "file to append each entry of the audit trail to, as a line of JSON; opened again "
             "after it was renamed"},
    {.name = "audit-syslog",
     .kind = ARGS_FLAG,
     .help = "send each entry of the audit trail to syslog (authpriv)"},
    {.name = "stop-jobs",
     .kind = ARGS_FLAG,
     .help = "on SIGTERM first let every job save and end, on a second one exit at once; without "
             "it jobs continue and the next coordinator takes over"},
    {.name = "log-level",
     .kind = ARGS_OPTION,
     .choices = levels,
     .fallback = "info",
     .help = "least level of the lines on standard error"},
    {.name = "log-format",
     .kind = ARGS_OPTION,
     .choices = formats,
     .fallback = "auto",
     .help = "auto is text on a terminal, JSON elsewhere"},
    {0},
};

static const char *const examples[] = {
    "muster coordinator --data /var/lib/muster",
    "muster coordinator --data ./data --rpc tcp://0.0.0.0:7440",
    "muster coordinator --data ./new --restore /backup/muster-2026-11-20.db",
    NULL,
};

static const struct args_command command = {
    .program = "muster coordinator",
    .summary = "keep jobs and decide where they run (one per cluster)",
    .description = "A first start on an empty folder makes an admin and an agent token in it "
                   "(admin.token, agent.token), and the cluster's keys (`muster tls`): RPC is "
                   "always encrypted. A coordinator that is started again on the same folder "
                   "continues exactly where it was; it may be killed at any moment.",
    .options = options,
    .examples = examples,
};

struct program {
    struct log_stderr sink;
    struct log log;
    struct loop *loop;
    struct env env;
    struct store *store;
    struct coordinator *coordinator;
    struct api_rest *rest;
    struct audit_sink audit;
    char data[PATH_MAX], secrets_key[PATH_MAX];
    char rpc[NET_URL_MAX], http[NET_URL_MAX];
    const char *hosts[HOSTS_MAX + 1]; /* ended by NULL */
    bool rest_tls;
    struct own_names names; /* of the certificate, with rest_tls */
    struct keys keys;
    struct loop_timer look;
    int64_t renew_at_ms, pin_at_ms;
    int signals;
    bool stop_jobs;
    int64_t halt_until_ms; /* 0 = not stopping */
    struct loop_timer halt_timer;
};

static void start_log(struct program *program, const struct args *args)
{
    const char *format = args_text(args, "log-format");
    struct clock clock = clock_os();
    log_stderr_init(&program->sink, STDERR_FILENO,
                    strcmp(format, "json") == 0   ? LOG_FORMAT_JSON
                    : strcmp(format, "text") == 0 ? LOG_FORMAT_TEXT
                                                  : LOG_FORMAT_AUTO,
                    &clock);
    program->log.sink = log_stderr_sink(&program->sink);
    (void)log_level_from_name(args_text(args, "log-level"), &program->log.level);
}

static int find_data(struct program *program, const struct args *args, struct error *err)
{
    char base[PATH_MAX];
    const char *given = args_text(args, "data");
    int rc = given ? paths_absolute(program->data, sizeof(program->data), given, err)
                   : paths_data_dir(base, sizeof(base), err);
    if (!rc && !given)
        rc = paths_join(program->data, sizeof(program->data), base, "coordinator", err);
    struct disk *disk = &program->env.disk;
    if (!rc)
        rc = disk->make_dirs(disk->self, program->data, FOLDER_MODE, err);
    if (rc)
        return rc;
    return paths_check_folder(program->data, err);
}

static int read_address(struct program *program, const char *name, char *ret, size_t size)
{
    char path[PATH_MAX + 16], *data;
    size_t got;
    struct disk *disk = &program->env.disk;
    (void)str_printf(path, sizeof(path), "%s/%s", program->data, name);
    if (disk->read_file(disk->self, path, size - 1, &data, &got, NULL) < 0)
        return E_NOT_FOUND;
    data[strcspn(data, "\r\n")] = 0;
    int rc = str_copy(ret, size, data);
    free(data);
    return rc;
}

static int write_address(struct program *program, const char *name, const char *text,
                         struct error *err)
{
    char path[PATH_MAX + 16], line[NET_URL_MAX + 2];
    struct disk *disk = &program->env.disk;
    (void)str_printf(path, sizeof(path), "%s/%s", program->data, name);
    (void)str_printf(line, sizeof(line), "%s\n", text);
    int rc = disk->write_file(disk->self, path, line, strlen(line), 0644, err);
    if (rc != E_RESOURCE_EXHAUSTED)
        return rc;
    log_warn(&program->log, "the disk is full: the address cannot be left for others",
             log_str("file", path));
    error_clear(err);
    return 0;
}

/* Agents and workers know the address of the previous run. A free port that was used once is kept,
 * as long as the rest of the address is the same. */
static void keep_port(struct program *program, const char *file, const char *prefix,
                      char address[NET_URL_MAX])
{
    char known[NET_URL_MAX];
    size_t size = strlen(address), skip = strlen(prefix);
    if (!str_ends(address, ":0") || read_address(program, file, known, sizeof(known)) ||
        !str_starts(known, prefix))
        return;
    if (strncmp(known + skip, address, size - 1) == 0)
        (void)str_copy(address, NET_URL_MAX, known + skip);
}

/* On loopback a browser without a certificate warning is worth more than TLS. */
static int check_http(struct program *program, const struct args *args, struct error *err)
{
    struct http_address address;
    int rc = http_address_parse(program->http, &address, err);
    program->rest_tls = !rc && !address.is_loopback && !args_flag(args, "insecure-bind");
    for (size_t i = 0; i < HOSTS_MAX; i++)
        program->hosts[i] = args_repeated(args, "http-host", i);
    if (program->rest_tls)
        own_names_collect(address.host, program->hosts, &program->names);
    return rc;
}

static int find_secrets_key(struct program *program, const struct args *args, struct error *err)
{
    const char *given = args_text(args, "secrets-key");
    return given ? paths_absolute(program->secrets_key, sizeof(program->secrets_key), given, err)
                 : 0;
}

static void renew_keys(struct program *program)
{
    struct error err = {0};
    struct clock *clock = &program->env.clock;
    int rc = keys_renew(&program->keys, clock->wall_ms(clock->self), &err);
    if (rc < 0)
        log_error(&program->log, err.text, log_str("hint", "`muster tls show` shows the keys"));
    else if (rc > 0)
        log_info(&program->log, "the server's certificate was renewed",
                 log_str("file", program->keys.server));
    program->renew_at_ms = loop_now_ms(program->loop) + RENEW_LOOK_MS;
}

/* Listeners show a replaced file within a second or two. Tokens get its pin only after that;
 * otherwise they would be refused until then. */
static void check_keys(void *arg)
{
    struct program *program = arg;
    int64_t now_ms = loop_now_ms(program->loop);
    if (now_ms >= program->renew_at_ms || keys_replaced(&program->keys)) {
        renew_keys(program);
        program->pin_at_ms = now_ms + KEYS_SHOWN_MS;
    }
    if (now_ms >= program->pin_at_ms)
        coordinator_set_pin(program->coordinator, program->keys.pin);
    loop_timer_set(program->loop, &program->look, now_ms + KEYS_LOOK_MS, check_keys, program);
}

static int open_keys(struct program *program, const struct args *args, struct error *err)
{
    struct clock *clock = &program->env.clock;
    struct keys_options how = {.data_dir = program->data,
                               .own = args_text(args, "tls"),
                               .names = program->rest_tls ? program->names.all : NULL};
    int rc = keys_open(&how, clock->wall_ms(clock->self), &program->keys, err);
    if (rc >= 0 && program->keys.cluster[0] && !keys_have_names(&program->keys))
        log_warn(&program->log,
                 "the certificate lacks names that browsers ask by, and there is no "
                 "cluster key to make another",
                 log_str("file", program->keys.server));
    program->renew_at_ms = loop_now_ms(program->loop) + RENEW_LOOK_MS;
    if (rc <= 0)
        return rc;
    log_error(&program->log, err->text, log_str("hint", "`muster tls show` shows the keys"));
    error_clear(err);
    return 0;
}

static int check_addresses(struct program *program, const struct args *args, struct error *err)
{
    (void)str_copy(program->rpc, sizeof(program->rpc), args_text(args, "rpc"));
    (void)str_copy(program->http, sizeof(program->http), args_text(args, "http"));
    int rc = net_url_check(program->rpc, err);
    if (!rc && strcmp(program->http, "off") != 0)
        rc = check_http(program, args, err);
    keep_port(program, "rpc.url", "", program->rpc);
    keep_port(program, "http.url", program->rest_tls ? "https://" : "http://", program->http);
    return rc;
}

/* Another program may use the kept port now: then use any other. */
static int start_coordinator(struct program *program, const struct args *args, struct error *err)
{
    const char *wanted = args_text(args, "rpc");
    char address[NET_ADDRESS_MAX];
    struct coordinator_options how = {
        .data_dir = program->data,
        .rpc_url = address,
        .pin = program->keys.pin,
        .secrets_key_path = program->secrets_key[0] ? program->secrets_key : NULL,
        .secrets_key = getenv("MUSTER_SECRETS_KEY"),
        .version = MUSTER_VERSION,
        .commit = MUSTER_COMMIT,
        .log = &program->log,
        .keep_jobs = (int)args_integer(args, "keep-jobs"),
        .keep_ms = args_integer(args, "keep-for"),
        .keep_nodes = (int)args_integer(args, "keep-nodes"),
        .keep_nodes_ms = args_integer(args, "keep-nodes-for"),
        .terminal_idle_ms = args_integer(args, "terminal-idle"),
        .on_audit = audit_sink_write,
        .on_audit_arg = &program->audit,
    };
    int rc = net_address_secure(program->rpc, program->keys.server, NULL, address, err);
    if (!rc)
        rc = coordinator_new(&how, &program->env, program->loop, program->store,
                             &program->coordinator, err);
    if (rc && strcmp(wanted, program->rpc) != 0) {
        if (net_address_secure(wanted, program->keys.server, NULL, address, err))
            return E_INVALID_ARGUMENT;
        rc = coordinator_new(&how, &program->env, program->loop, program->store,
                             &program->coordinator, err);
    }
    return rc;
}

static int start_rest(struct program *program, const struct args *args, struct error *err)
{
    const char *wanted = args_text(args, "http");
    struct api_rest_options how = {.address = program->http,
                                   .tls = program->rest_tls ? program->keys.server : NULL,
                                   .data_dir = program->data,
                                   .hosts = program->hosts,
                                   .log = &program->log};
    if (strcmp(program->http, "off") == 0)
        return 0;
    int rc =
        api_rest_new(&how, &program->env, program->loop, program->coordinator, &program->rest, err);
    if (rc && strcmp(wanted, program->http) != 0) {
        how.address = wanted;
        rc = api_rest_new(&how, &program->env, program->loop, program->coordinator, &program->rest,
                          err);
    }
    return rc;
}

/* This turn's remaining changes are committed at its end. */
static void leave_loop(struct program *program)
{
    coordinator_stop(program->coordinator);
    loop_stop(program->loop);
}

static void await_halt(void *arg)
{
    struct program *program = arg;
    int64_t now_ms = loop_now_ms(program->loop);
    int living = coordinator_living(program->coordinator);
    if (living == 0 || now_ms >= program->halt_until_ms) {
        log_info(&program->log, "stopping", log_int("living", living));
        leave_loop(program);
        return;
    }
    loop_timer_set(program->loop, &program->halt_timer, now_ms + HALT_LOOK_MS, await_halt, program);
}

static void on_signal(void *arg, int fd, uint32_t events)
{
    struct program *program = arg;
    struct signalfd_siginfo info;
    (void)events;
    if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    if (!program->stop_jobs || program->halt_until_ms) {
        log_info(&program->log, "stopping", log_int("signal", info.ssi_signo));
        leave_loop(program);
        return;
    }
    log_info(&program->log, "ending jobs before leaving",
             log_int("living", coordinator_living(program->coordinator)));
    program->halt_until_ms = loop_now_ms(program->loop) + HALT_PATIENCE_MS;
    coordinator_halt(program->coordinator);
    await_halt(program);
}

/* Called before any thread starts, so that all of them leave these signals to the loop. */
static int watch_signals(struct program *program, struct error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    program->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return program->signals < 0 ? error_set(err, E_INTERNAL, "signalfd") : 0;
}

/* One descriptor per node and some more. It starts no programs that could depend on the old limit.
 */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int start_program(struct program *program, const struct args *args, struct error *err)
{
    raise_descriptors();
    int rc = watch_signals(program, err);
    if (!rc)
        rc = loop_new(clock_os(), &program->loop, err);
    if (!rc)
        rc = env_os_init(&program->env, program->loop, err);
    if (!rc)
        rc = find_data(program, args, err);
    if (!rc)
        rc = find_secrets_key(program, args, err);
    if (!rc)
        rc = check_addresses(program, args, err);
    if (!rc && args_text(args, "restore"))
        rc = store_sqlite_restore(program->data, args_text(args, "restore"), err);
    if (!rc && args_flag(args, "new"))
        rc = store_sqlite_begin_new(program->data, err);
    if (!rc)
        rc = store_sqlite_open(program->data, &program->store, err);
    if (!rc) /* once the folder is ours: keys there may belong to a running coordinator */
        rc = open_keys(program, args, err);
    if (!rc)
        rc = audit_sink_init(&program->audit, args_text(args, "audit-file"),
                             args_flag(args, "audit-syslog"), &program->log, err);
    if (!rc)
        rc = start_coordinator(program, args, err);
    if (!rc)
        rc = start_rest(program, args, err);
    if (!rc)
        net_address_plain(coordinator_rpc_url(program->coordinator), program->rpc);
    if (!rc)
        rc = write_address(program, "rpc.url", program->rpc, err);
    if (!rc && program->rest)
        rc = write_address(program, "http.url", api_rest_url(program->rest), err);
    if (!rc)
        rc = loop_watch(program->loop, program->signals, EPOLLIN, on_signal, program, err);
    if (!rc)
        check_keys(program);
    return rc;
}

/* All acknowledged changes are on disk after each turn; only the store must be released. NNG's
 * threads end with the process. */
static void free_parts(struct program *program)
{
    api_rest_free(program->rest);
    coordinator_free(program->coordinator);
    store_close(program->store);
    audit_sink_fini(&program->audit);
}

static int run_coordinator(const struct args *args)
{
    struct program *program = calloc(1, sizeof(*program));
    struct error err = {0};
    if (!program)
        return EXIT_CANNOT_START;
    start_log(program, args);
    program->stop_jobs = args_flag(args, "stop-jobs");
    if (start_program(program, args, &err)) {
        log_error(&program->log, err.text, log_str("code", error_name(err.code)),
                  log_str("hint", err.hint));
        free_parts(program);
        return err.code == E_INVALID_ARGUMENT ? EXIT_BAD_USAGE : EXIT_CANNOT_START;
    }
    log_info(&program->log, "serving", log_str("rpc", program->rpc),
             log_str("http", program->rest ? api_rest_url(program->rest) : "off"),
             log_str("data", program->data),
             log_str("cluster", coordinator_cluster_id(program->coordinator)),
             log_str("key", program->keys.pin), log_str("version", MUSTER_VERSION));
    loop_run(program->loop);
    free_parts(program);
    return EXIT_OK;
}

static void print_help(const struct args_command *what)
{
    struct buf text;
    buf_init(&text, 1 << 16);
    (void)args_help(what, &text);
    fputs(buf_cstr(&text), stdout);
    buf_fini(&text);
}

int coordinator_main(int argc, char **argv)
{
    struct args args;
    struct error err = {0};
    if (args_parse(&command, argc, argv, &args, &err)) {
        fprintf(stderr, "%s\n", err.text);
        if (err.hint[0])
            fprintf(stderr, "  %s\n", err.hint);
        return EXIT_BAD_USAGE;
    }
    int code = EXIT_OK;
    if (args.help)
        print_help(&command);
    else
        code = run_coordinator(&args);
    args_fini(&args);
    fflush(NULL);
    _exit(code); /* NNG 1.5.2 cannot be shut down while it is in use */
}
