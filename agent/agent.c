#include "agent/agent.h"

#include <stdlib.h>
#include <string.h>

#include "agent/node_channels.h"
#include "agent/core/step.h"
#include "agent/driver.h"
#include "agent/figures.h"
#include "agent/gpu_metrics.h"
#include "agent/link/coordinator_link.h"
#include "agent/link/report_socket.h"
#include "agent/link/wire.h"
#include "agent/link/worker_socket.h"
#include "agent/outbox.h"
#include "agent/place.h"
#include "agent/registration.h"
#include "common/base/str.h"

enum {
    ADDRESS_MAX_BYTES = 127,
    VERSION_MAX_BYTES = 31,
    INHERITED_MAX = 64,
    BEAT_DEFAULT_MS = 1000,
};

struct agent {
    char name[NAME_LENGTH_MAX + 1];
    char address[ADDRESS_MAX_BYTES + 1];
    char interface[PLACE_INTERFACE_BYTES];
    char version[VERSION_MAX_BYTES + 1];
    uint16_t port_first, port_last;
    struct inventory inventory;
    struct gpu_watch *gpus; /* NULL = there are none */
    struct cores cores;
    const char *inherited[INHERITED_MAX + 1];
    struct arena texts; /* of inherited */
    const struct log *log;
    struct membership_watch membership;
    struct env *env;
    struct loop *loop;
    struct launcher *launcher;
    bool launcher_open;
    uint64_t incarnation;
    struct agent_core *core;
    struct coordinator_link *link;
    struct worker_socket *socket;
    struct report_socket *reports;
    struct node_channels *channels;
    struct py_spy *spy;
    struct outbox outbox;
    struct figures figures;
    struct agent_driver driver;
};

static struct agent_driver *driver_of(void *arg)
{
    struct agent *agent = arg;
    return &agent->driver;
}

/* Events of the launcher */

/* Of a worker that an earlier agent started, at the path that its programs have. */
static void open_reports(struct agent *agent, const struct worker_key *key)
{
    struct error err = {0};
    char path[REPORT_SOCKET_MAX_BYTES];
    struct launcher *launcher = agent->launcher;
    int64_t owner = launcher->owner ? launcher->owner(launcher->self, key) : -1;
    if (report_socket_path(agent->reports, key, path) == E_NOT_FOUND)
        return;
    if (report_socket_open(agent->reports, key, owner, &err))
        log_warn(agent->log, "a worker's programs cannot report", log_str("job", key->job),
                 log_str("reason", err.text));
}

static void on_found(void *arg, const struct worker_found *found)
{
    struct agent *agent = arg;
    struct agent_event event = {.kind = AGENT_EVENT_FOUND, .key = found->key, .found = found};
    log_info(agent->log, found->exited ? "found a worker that has ended" : "found a running worker",
             log_str("job", found->key.job), log_int("uid", (int64_t)found->key.uid),
             log_int("pid", found->pid));
    agent_driver_step(&agent->driver, &event);
    if (!found->exited)
        open_reports(agent, &found->key);
    if (found->exited)
        outbox_ended(&agent->outbox, &found->key);
    else
        outbox_output(&agent->outbox, &found->key);
}

static void on_started(void *arg, const struct worker_key *key, int64_t pid)
{
    struct agent_event event = {.kind = AGENT_EVENT_STARTED, .key = *key, .started = {.pid = pid}};
    agent_driver_step(driver_of(arg), &event);
}

static void on_start_failed(void *arg, const struct worker_key *key, int code, const char *why)
{
    struct agent *agent = arg;
    struct agent_event event = {
        .kind = AGENT_EVENT_START_FAILED, .key = *key, .start_error = why, .start_code = code};
    log_warn(agent->log, "worker could not be started", log_str("job", key->job),
             log_int("uid", (int64_t)key->uid), log_str("reason", why));
    agent_driver_step(&agent->driver, &event);
}

static void on_stuck(void *arg, const struct worker_key *key, const struct worker_stuck *stuck)
{
    struct agent *agent = arg;
    struct agent_event event = {.kind = AGENT_EVENT_STUCK, .key = *key, .stuck = stuck};
    log_error(agent->log, "SIGKILL does not end a worker; no new work here until it has ended",
              log_str("job", key->job), log_int("pid", stuck->pids[0]));
    agent_driver_step(&agent->driver, &event);
}

static void on_exited(void *arg, const struct worker_key *key, const struct worker_exit *exit)
{
    struct agent *agent = arg;
    struct agent_event event = {.kind = AGENT_EVENT_EXITED, .key = *key, .exit = exit};
    log_info(agent->log, "worker ended", log_str("job", key->job),
             log_int("uid", (int64_t)key->uid), log_str("how", exit->text));
    outbox_ended(&agent->outbox, key);
    agent_driver_step(&agent->driver, &event);
}

static void on_output(void *arg, const struct worker_key *key)
{
    struct agent *agent = arg;
    outbox_output(&agent->outbox, key);
    report_output(&agent->driver.report);
}

/* Events of the link */

static void fill_register(void *arg, Muster__RegisterNodeRequest *request)
{
    struct agent *agent = arg;
    struct arena *arena = report_arena(&agent->driver.report);
    request->address = agent->address;
    request->version = agent->version;
    request->port_first = agent->port_first;
    request->port_last = agent->port_last;
    request->cluster = agent->membership.member.cluster;
    request->event = agent->membership.member.event;
    request->restored_wall_ms = agent->membership.member.restored_wall_ms;
    if (registration_fill(&agent->inventory, arena, request) ||
        wire_workers(agent->core, arena, &request->workers, &request->n_workers))
        log_error(agent->log, "the registration has no room for all workers",
                  log_str("node", agent->name));
}

static bool on_heard(void *arg, uint64_t newest_event, int64_t restored_wall_ms)
{
    struct agent *agent = arg;
    return membership_check_events(&agent->membership, newest_event, restored_wall_ms,
                                   agent_core_first(agent->core), loop_now_ms(agent->loop));
}

static int on_registered(void *arg, const Muster__RegisterNodeAnswer *answer, struct error *err)
{
    struct agent *agent = arg;
    struct agent_event event = {.kind = AGENT_EVENT_REGISTERED};
    int rc = membership_join(&agent->membership, answer, agent_core_first(agent->core),
                             loop_now_ms(agent->loop), err);
    if (rc)
        return rc;
    log_info(agent->log, "registered", log_str("node", agent->name),
             log_str("cluster", answer->cluster));
    report_start_beat(&agent->driver.report,
                      answer->beat_ms > 0 ? answer->beat_ms : BEAT_DEFAULT_MS);
    figures_resend(&agent->figures); /* it may have been started just now */
    agent_driver_step(&agent->driver, &event);
    return 0;
}

static void on_unknown(void *arg)
{
    struct agent *agent = arg;
    struct agent_event event = {.kind = AGENT_EVENT_UNREGISTERED};
    log_info(agent->log, "the coordinator asks us to register again", log_str("node", agent->name));
    agent_driver_step(&agent->driver, &event);
}

static void on_fenced(void *arg)
{
    struct agent_event event = {.kind = AGENT_EVENT_FENCED};
    agent_driver_step(driver_of(arg), &event);
}

static void on_refused(void *arg, const struct error *err)
{
    struct agent *agent = arg;
    log_error(agent->log, "the coordinator refuses this node; leaving, workers go on",
              log_str("node", agent->name), log_str("reason", err->text),
              log_str("hint", err->hint[0]
                                  ? err->hint
                                  : "--token-file names the coordinator's DATA/agent.token, or one "
                                    "of `muster token create NAME --role agent`"));
    agent_driver_end(&agent->driver, AGENT_END_REFUSED);
}

static void on_desired(void *arg, struct assignment *const *assignments, int count)
{
    struct agent_event event = {.kind = AGENT_EVENT_DESIRED,
                                .desired = {.assignments = assignments, .count = count}};
    agent_driver_step(driver_of(arg), &event);
}

static void on_terminals(void *arg, Muster__Terminal *const *terminals, size_t count)
{
    struct agent *agent = arg;
    node_channels_set(agent->channels, terminals, count);
}

static void on_complaint(void *arg, const struct error *err)
{
    struct agent *agent = arg;
    log_warn(agent->log, "coordinator", log_str("error", error_name(err->code)),
             log_str("reason", err->text), log_str("hint", err->hint));
}

static void on_recovered(void *arg)
{
    struct agent *agent = arg;
    log_info(agent->log, "the coordinator answers again", log_str("node", agent->name));
}

/* Events of the workers */

static int on_identify(void *arg, const char *token, struct worker_key *ret, struct error *err)
{
    struct agent *agent = arg;
    return agent_core_identify(agent->core, token, ret, err);
}

/* A token stolen by another user opens nothing; root needs none to reach a worker. */
static int on_authorize(void *arg, const struct worker_key *key, const struct worker_claim *claim,
                        struct error *err)
{
    struct agent *agent = arg;
    struct launcher *launcher = agent->launcher;
    int64_t owner = launcher->owner ? launcher->owner(launcher->self, key) : -1;
    if (owner >= 0 && claim->uid > 0 && claim->uid != owner)
        return error_set(err, E_PERMISSION_DENIED, "this worker runs as another user");
    return agent_core_authorize(agent->core, key, claim->token, claim->old_ok, err);
}

static void on_worker_event(void *arg, struct agent_event *event)
{
    agent_driver_step(driver_of(arg), event);
}

static void on_metric(void *arg, const struct metric *metric)
{
    struct agent *agent = arg;
    outbox_metric(&agent->outbox, metric);
}

static void on_stepped(void *arg, const struct worker_key *key, const struct pace_mark *mark)
{
    struct agent *agent = arg;
    figures_stepped(&agent->figures, key, mark);
}

static void on_number(void *arg, const struct worker_key *key, const char *name, double value)
{
    struct agent *agent = arg;
    figures_number(&agent->figures, key, name, value);
}

static void on_stacks(void *arg, const struct agent_worker *worker, const char *text, size_t size)
{
    struct agent *agent = arg;
    struct outbox_text stacks = {.key = worker->key,
                                 .rank = worker->assignment->rank,
                                 .generation = worker->assignment->generation,
                                 .wall_ms = agent->env->clock.wall_ms(agent->env->clock.self)};
    outbox_texts_add(&agent->outbox.texts, &stacks, text, size);
    report_output(&agent->driver.report);
}

static void on_no_stacks(void *arg, const struct agent_worker *worker)
{
    struct agent *agent = arg;
    py_spy_look(agent->spy, &worker->key, worker->pid);
}

static void on_spied(void *arg, const struct worker_key *key, const char *text, size_t size)
{
    struct agent *agent = arg;
    const struct agent_worker *worker = agent_core_find(agent->core, key);
    if (!worker || !worker->assignment)
        return; /* forgotten meanwhile */
    report_socket_set_stacks(agent->reports, key, text);
    on_stacks(agent, worker, text, size);
}

/* Their memory decides which slots may be used again. */
static void on_gpus_read(void *arg, const struct gpu_watch_read *read)
{
    struct agent *agent = arg;
    struct gpu_metrics_sink sink = {agent, on_metric};
    int64_t used_bytes[INVENTORY_GPUS_MAX];
    int count = gpu_watch_count(agent->gpus);
    gpu_watch_links(agent->gpus, &agent->inventory); /* for the next registration */
    for (int slot = 0; slot < count; slot++) {
        struct gpu_reading now;
        uint64_t bytes;
        bool there = gpu_watch_reading(agent->gpus, (uint32_t)slot, &now, &bytes);
        used_bytes[slot] = there ? now.memory_used_bytes : GPU_UNKNOWN;
    }
    struct agent_event event = {
        .kind = AGENT_EVENT_GPUS,
        .gpus = {.used_bytes = used_bytes, .count = count, .begun_ms = read->begun_ms}};
    agent_driver_step(&agent->driver, &event);
    if (read->regular)
        gpu_metrics(agent->gpus, agent->core, &sink);
}

static const struct agent_worker *on_worker(void *arg, const struct worker_key *key)
{
    struct agent *agent = arg;
    return agent_core_find(agent->core, key);
}

/* Life */

static int copy_options(struct agent *agent, const struct agent_options *o, struct error *err)
{
    int rc = place_check_name(o->name, err);
    if (rc)
        return rc;
    (void)str_copy(agent->name, sizeof(agent->name), o->name);
    (void)str_copy(agent->interface, sizeof(agent->interface), o->interface ? o->interface : "");
    if (str_copy(agent->address, sizeof(agent->address), o->address ? o->address : "127.0.0.1"))
        return error_set(err, E_INVALID_ARGUMENT, "the address is too long: %s", o->address);
    (void)str_copy(agent->version, sizeof(agent->version), o->version ? o->version : "");
    agent->port_first = o->port_first;
    agent->port_last = o->port_last;
    agent->inventory = o->inventory;
    agent->cores = o->cores;
    agent->log = o->log;
    agent->membership = o->membership;
    for (int i = 0; o->environment && o->environment[i]; i++) {
        if (i == INHERITED_MAX ||
            !(agent->inherited[i] = arena_strdup(&agent->texts, o->environment[i])))
            return error_set(err, E_RESOURCE_EXHAUSTED, "more than %d inherited variables",
                             INHERITED_MAX);
    }
    return 0;
}

/* Where programs without libworker report, and what finds the stacks of those that offer none. */
static int connect_reports(struct agent *agent, const struct agent_options *o, struct error *err)
{
    struct py_spy_options spy = {.loop = agent->loop,
                                 .launcher = agent->launcher,
                                 .node = agent->name,
                                 .patience_ms = PY_SPY_MS,
                                 .found = on_spied,
                                 .arg = agent};
    int rc = py_spy_new(&spy, &agent->spy, err);
    if (rc)
        return rc;
    struct report_options reports = {
        .prefix = o->report_prefix ? o->report_prefix : "",
        .node = agent->name,
        .incarnation = agent->incarnation,
        .upstream = coordinator_link_client(agent->link),
        .events = {.arg = agent,
                   .event = on_worker_event,
                   .metric = on_metric,
                   .stepped = on_stepped,
                   .number = on_number,
                   .worker = on_worker,
                   .stacks = on_stacks,
                   .no_stacks = on_no_stacks},
    };
    return report_socket_new(&reports, agent->env, agent->loop, &agent->reports, err);
}

static int connect_parts(struct agent *agent, const struct agent_options *o, struct error *err)
{
    struct link_options link = {
        .url = o->coordinator,
        .token = o->token,
        .node = agent->name,
        .incarnation = agent->incarnation,
        .events = {.arg = agent,
                   .fill_register = fill_register,
                   .registered = on_registered,
                   .unknown = on_unknown,
                   .fenced = on_fenced,
                   .refused = on_refused,
                   .desired = on_desired,
                   .terminals = on_terminals,
                   .complaint = on_complaint,
                   .recovered = on_recovered,
                   .heard = on_heard},
    };
    int rc = coordinator_link_new(&link, agent->env, agent->loop, &agent->link, err);
    if (rc)
        return rc;
    struct channel_host channels = {.node = agent->name,
                                    .incarnation = agent->incarnation,
                                    .loop = agent->loop,
                                    .client = coordinator_link_client(agent->link),
                                    .launcher = agent->launcher};
    rc = node_channels_new(&channels, &agent->channels, err);
    if (rc)
        return rc;
    struct socket_options socket = {
        .url = o->hub_url,
        .node = agent->name,
        .incarnation = agent->incarnation,
        .upstream = coordinator_link_client(agent->link),
        .events = {.arg = agent,
                   .identify = on_identify,
                   .authorize = on_authorize,
                   .event = on_worker_event,
                   .metric = on_metric,
                   .stepped = on_stepped,
                   .number = on_number},
    };
    rc = worker_socket_new(&socket, agent->env, agent->loop, &agent->socket, err);
    if (rc)
        return rc;
    return connect_reports(agent, o, err);
}

static void connect_driver(struct agent *agent, const struct agent_options *o)
{
    struct agent_driver *driver = &agent->driver;
    struct gpu_watch_options gpus = {.loop = agent->loop,
                                     .log = agent->log,
                                     .inventory = &agent->inventory,
                                     .on_read = on_gpus_read,
                                     .arg = agent};
    driver->node = agent->name;
    driver->loop = agent->loop;
    driver->clock = agent->env->clock;
    driver->log = agent->log;
    driver->core = agent->core;
    driver->launcher = agent->launcher;
    driver->link = agent->link;
    driver->socket = agent->socket;
    driver->reports = agent->reports;
    driver->outbox = &agent->outbox;
    driver->figures = &agent->figures;
    driver->gpus = agent->gpus = gpu_watch_new(&gpus);
    driver->spy = agent->spy;
    driver->on_end = o->on_end;
    driver->on_end_arg = o->on_end_arg;
    driver->starter = (struct starter){.inventory = &agent->inventory,
                                       .cores = &agent->cores,
                                       .interface = agent->interface,
                                       .inherited = agent->inherited,
                                       .processes = o->worker_processes,
                                       .namespaces = o->namespaces,
                                       .users = o->users,
                                       .socket = worker_socket_url(agent->socket),
                                       .reports = agent->reports,
                                       .log = agent->log,
                                       .launcher = agent->launcher};
    agent_driver_init(driver);
}

static int open_launcher(struct agent *agent, struct error *err)
{
    struct launcher_events events = {.arg = agent,
                                     .found = on_found,
                                     .started = on_started,
                                     .start_failed = on_start_failed,
                                     .stuck = on_stuck,
                                     .exited = on_exited,
                                     .output = on_output};
    int rc = agent->launcher->open(agent->launcher->self, &events, err);
    agent->launcher_open = !rc;
    return rc;
}

int agent_new(const struct agent_options *options, struct env *env, struct loop *loop,
              struct launcher *launcher, struct agent **ret, struct error *err)
{
    struct agent_event begin = {.kind = AGENT_EVENT_UNREGISTERED};
    struct agent *agent = calloc(1, sizeof(*agent));
    if (!agent)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the agent");
    agent->env = env;
    agent->loop = loop;
    agent->launcher = launcher;
    do
        env->rng.fill(env->rng.self, &agent->incarnation, sizeof(agent->incarnation));
    while (!agent->incarnation);
    int rc = copy_options(agent, options, err);
    if (!rc)
        rc = outbox_init(&agent->outbox, launcher, err);
    if (!rc && !(agent->core = agent_core_new()))
        rc = error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the agent");
    if (!rc)
        rc = connect_parts(agent, options, err);
    if (!rc) {
        connect_driver(agent, options);
        rc = open_launcher(agent, err);
    }
    if (rc) {
        agent_free(agent);
        return rc;
    }
    agent_driver_step(&agent->driver, &begin);
    *ret = agent;
    return 0;
}

void agent_free(struct agent *agent)
{
    if (!agent)
        return;
    agent_driver_fini(&agent->driver);
    gpu_watch_free(agent->gpus);
    report_socket_free(agent->reports);
    py_spy_free(agent->spy);
    worker_socket_free(agent->socket);
    node_channels_close(agent->channels);
    coordinator_link_free(agent->link);
    node_channels_free(agent->channels);
    if (agent->launcher_open)
        agent->launcher->close(agent->launcher->self);
    outbox_fini(&agent->outbox);
    figures_fini(&agent->figures);
    agent_core_free(agent->core);
    arena_fini(&agent->texts);
    free(agent);
}

void agent_stop_workers(struct agent *agent)
{
    agent_driver_stop(&agent->driver);
}

const char *agent_hub_url(const struct agent *agent)
{
    return worker_socket_url(agent->socket);
}

uint64_t agent_incarnation(const struct agent *agent)
{
    return agent->incarnation;
}

bool agent_registered(const struct agent *agent)
{
    return agent_core_registered(agent->core);
}

const struct agent_core *agent_core_of(const struct agent *agent)
{
    return agent->core;
}
