#include "agent/agent.h"

#include <stdlib.h>
#include <string.h>

#include "agent/core/step.h"
#include "agent/link/coordinator_link.h"
#include "agent/link/wire.h"
#include "agent/link/worker_socket.h"
#include "agent/outbox.h"
#include "agent/place.h"
#include "agent/refused.h"
#include "agent/registration.h"
#include "agent/starter.h"
#include "common/base/assert.h"
#include "common/base/str.h"

enum {
    ADDRESS_MAX_BYTES = 127,
    VERSION_MAX_BYTES = 31,
    INHERITED_MAX = 64,
    BEAT_DEFAULT_MS = 1000,
    REPORT_SOON_MS = 10,        /* changes at one moment are reported together */
    REPORT_MORE_MS = 50,        /* between reports while output waits */
    STOPPED_PATIENCE_MS = 3000, /* for the coordinator to hear of the last exits */
    REPORT_ARENA_MAX_BYTES = 16 << 20,
};

struct agent {
    char name[NAME_LENGTH_MAX + 1];
    char address[ADDRESS_MAX_BYTES + 1];
    char version[VERSION_MAX_BYTES + 1];
    uint16_t port_first, port_last;
    struct inventory inventory;
    struct cores cores;
    const char *inherited[INHERITED_MAX + 1];
    struct arena texts;  /* of inherited */
    struct users *users; /* NULL = workers run as we do */
    uint32_t worker_processes;
    const struct namespaces *namespaces;
    const struct log *log;
    void (*on_end)(void *arg, enum agent_end why);
    void *on_end_arg;
    struct membership_watch membership;
    struct env *env;
    struct loop *loop;
    struct launcher *launcher;
    bool launcher_open;
    uint64_t incarnation;
    struct agent_core *core;
    struct coordinator_link *link;
    struct worker_socket *socket;
    struct outbox outbox;
    struct arena report; /* of the message being built */
    struct loop_timer tick_timer, beat_timer, report_timer, end_timer;
    int64_t beat_ms, report_due_ms;
    uint64_t data_sequence;        /* report that carries output and metrics, 0 = none */
    struct refused_start *refused; /* while actions were performed */
    bool stepping, stopping, stopped, ended;
};

static void handle(struct agent *agent, struct agent_event *event);

/* Reporting */

static void report_at(struct agent *agent, int64_t at_ms);
static void on_end_timer(void *arg);

static void on_shipped(void *arg, const struct worker_key *key)
{
    struct agent_event event = {.kind = AGENT_EVENT_SHIPPED, .key = *key};
    handle(arg, &event);
}

static void on_reported(void *arg, uint64_t sequence, int code)
{
    struct agent *agent = arg;
    if (sequence == agent->data_sequence) {
        agent->data_sequence = 0;
        outbox_done(&agent->outbox, code == 0, on_shipped, agent);
        if (code == 0 && outbox_ready(&agent->outbox))
            report_at(agent, loop_now_ms(agent->loop) + REPORT_MORE_MS);
    }
    if (code == 0 && agent->stopped && sequence == coordinator_link_sequence(agent->link))
        loop_timer_set(agent->loop, &agent->end_timer, loop_now_ms(agent->loop), on_end_timer,
                       agent);
}

static void send_report(struct agent *agent)
{
    Muster__NodeReport report = MUSTER__NODE_REPORT__INIT;
    if (!agent_core_registered(agent->core))
        return;
    arena_fini(&agent->report);
    arena_init(&agent->report, REPORT_ARENA_MAX_BYTES);
    if (wire_workers(agent->core, &agent->report, &report.workers, &report.n_workers)) {
        log_error(agent->log, "the report has no room for all workers",
                  log_str("node", agent->name));
        return;
    }
    outbox_fill(&agent->outbox, &agent->report, &report);
    bool sent = coordinator_link_report(agent->link, &report, on_reported, agent);
    if (outbox_packed(&agent->outbox, sent))
        agent->data_sequence = coordinator_link_sequence(agent->link);
}

static void on_report_timer(void *arg)
{
    send_report(arg);
}

static void report_at(struct agent *agent, int64_t at_ms)
{
    if (loop_timer_armed(&agent->report_timer) && agent->report_due_ms <= at_ms)
        return;
    agent->report_due_ms = at_ms;
    loop_timer_set(agent->loop, &agent->report_timer, at_ms, on_report_timer, agent);
}

static void on_beat(void *arg)
{
    struct agent *agent = arg;
    send_report(agent);
    loop_timer_set(agent->loop, &agent->beat_timer, loop_now_ms(agent->loop) + agent->beat_ms,
                   on_beat, agent);
}

/* Actions */

static void perform_start(struct agent *agent, const struct agent_action *action)
{
    struct error err = {0};
    struct starter starter = {.inventory = &agent->inventory,
                              .cores = &agent->cores,
                              .inherited = agent->inherited,
                              .processes = agent->worker_processes,
                              .namespaces = agent->namespaces,
                              .users = agent->users,
                              .socket = worker_socket_url(agent->socket),
                              .launcher = agent->launcher};
    if (starter_start(&starter, action->assignment, &err)) {
        log_warn(agent->log, "worker could not be started", log_str("job", action->key.job),
                 log_int("uid", (int64_t)action->key.uid), log_str("reason", err.text));
        refused_add(&agent->refused, &action->key, &err);
        return;
    }
    log_info(agent->log, "worker starts", log_str("job", action->key.job),
             log_int("uid", (int64_t)action->key.uid), log_int("rank", action->assignment->rank),
             log_int("generation", (int64_t)action->assignment->generation));
}

static void on_tick(void *arg)
{
    struct agent_event event = {.kind = AGENT_EVENT_TICK};
    handle(arg, &event);
}

static void wake_at(struct agent *agent, int64_t at_ms)
{
    loop_timer_set(agent->loop, &agent->tick_timer, at_ms, on_tick, agent);
}

static void end(struct agent *agent, enum agent_end why)
{
    if (agent->ended)
        return;
    agent->ended = true;
    if (agent->on_end)
        agent->on_end(agent->on_end_arg, why);
}

static void perform(struct agent *agent, const struct agent_action *action)
{
    struct launcher *launcher = agent->launcher;
    switch (action->kind) {
    case AGENT_ACTION_REGISTER:
        coordinator_link_register(agent->link);
        break;
    case AGENT_ACTION_REPORT:
        report_at(agent, loop_now_ms(agent->loop) + REPORT_SOON_MS);
        break;
    case AGENT_ACTION_START:
        perform_start(agent, action);
        break;
    case AGENT_ACTION_TERMINATE:
        launcher->terminate(launcher->self, &action->key);
        break;
    case AGENT_ACTION_KILL:
        launcher->kill(launcher->self, &action->key);
        break;
    case AGENT_ACTION_REMEMBER:
        launcher->remember(launcher->self, &action->key, &action->memory);
        break;
    case AGENT_ACTION_FORGET:
        outbox_forget(&agent->outbox, &action->key);
        launcher->forget(launcher->self, &action->key);
        break;
    case AGENT_ACTION_ANSWER:
    case AGENT_ACTION_REFUSE:
        worker_socket_answer(agent->socket, action);
        break;
    case AGENT_ACTION_WAKE_AT:
        wake_at(agent, action->at_ms);
        break;
    case AGENT_ACTION_LEAVE:
        log_warn(agent->log, "another agent speaks for this node now: leaving its workers to it",
                 log_str("node", agent->name));
        end(agent, AGENT_END_FENCED);
        break;
    }
}

static void on_end_timer(void *arg)
{
    end(arg, AGENT_END_STOPPED);
}

/* When all have ended that can be, once the coordinator knows or does not answer in time. */
static void end_if_stopped(struct agent *agent)
{
    if (!agent->stopping || agent->stopped)
        return;
    for (const struct agent_worker *w = agent_core_first(agent->core); w; w = w->next)
        if (w->process && !w->stuck.count)
            return;
    agent->stopped = true;
    bool heard = agent_core_registered(agent->core);
    report_at(agent, loop_now_ms(agent->loop));
    loop_timer_set(agent->loop, &agent->end_timer,
                   loop_now_ms(agent->loop) + (heard ? STOPPED_PATIENCE_MS : 0), on_end_timer,
                   agent);
}

static void step(struct agent *agent, struct agent_event *event)
{
    struct agent_actions actions = {0};
    event->now_ms = loop_now_ms(agent->loop);
    agent_step(agent->core, event, &actions);
    for (int i = 0; i < actions.count; i++)
        perform(agent, &actions.items[i]);
    agent_actions_fini(&actions);
}

static void handle(struct agent *agent, struct agent_event *event)
{
    never(agent->stepping); /* nothing we call may call back from inside */
    agent->stepping = true;
    step(agent, event);
    for (struct refused_start *refused; (refused = refused_take(&agent->refused)); free(refused)) {
        struct agent_event next = {.kind = AGENT_EVENT_START_FAILED,
                                   .key = refused->key,
                                   .start_error = refused->why,
                                   .start_code = refused->code};
        step(agent, &next);
    }
    agent->stepping = false;
    end_if_stopped(agent);
}

/* Events of the launcher */

static void on_found(void *arg, const struct worker_found *found)
{
    struct agent *agent = arg;
    struct agent_event event = {.kind = AGENT_EVENT_FOUND, .key = found->key, .found = found};
    log_info(agent->log, found->exited ? "found a worker that has ended" : "found a running worker",
             log_str("job", found->key.job), log_int("uid", (int64_t)found->key.uid),
             log_int("pid", found->pid));
    handle(agent, &event);
    if (found->exited)
        outbox_ended(&agent->outbox, &found->key);
    else
        outbox_output(&agent->outbox, &found->key);
}

static void on_started(void *arg, const struct worker_key *key, int64_t pid)
{
    struct agent_event event = {.kind = AGENT_EVENT_STARTED, .key = *key, .started = {.pid = pid}};
    handle(arg, &event);
}

static void on_start_failed(void *arg, const struct worker_key *key, int code, const char *why)
{
    struct agent *agent = arg;
    struct agent_event event = {
        .kind = AGENT_EVENT_START_FAILED, .key = *key, .start_error = why, .start_code = code};
    log_warn(agent->log, "worker could not be started", log_str("job", key->job),
             log_int("uid", (int64_t)key->uid), log_str("reason", why));
    handle(agent, &event);
}

static void on_stuck(void *arg, const struct worker_key *key, const struct worker_stuck *stuck)
{
    struct agent *agent = arg;
    struct agent_event event = {.kind = AGENT_EVENT_STUCK, .key = *key, .stuck = stuck};
    log_error(agent->log, "SIGKILL does not end a worker; no new work here until it has ended",
              log_str("job", key->job), log_int("pid", stuck->pids[0]));
    handle(agent, &event);
}

static void on_exited(void *arg, const struct worker_key *key, const struct worker_exit *exit)
{
    struct agent *agent = arg;
    struct agent_event event = {.kind = AGENT_EVENT_EXITED, .key = *key, .exit = exit};
    log_info(agent->log, "worker ended", log_str("job", key->job),
             log_int("uid", (int64_t)key->uid), log_str("how", exit->text));
    outbox_ended(&agent->outbox, key);
    handle(agent, &event);
}

static void on_output(void *arg, const struct worker_key *key)
{
    struct agent *agent = arg;
    outbox_output(&agent->outbox, key);
    if (outbox_ready(&agent->outbox))
        report_at(agent, loop_now_ms(agent->loop) + REPORT_MORE_MS);
}

/* Events of the link */

static void fill_register(void *arg, Muster__RegisterNodeRequest *request)
{
    struct agent *agent = arg;
    arena_fini(&agent->report);
    arena_init(&agent->report, REPORT_ARENA_MAX_BYTES);
    request->address = agent->address;
    request->version = agent->version;
    request->port_first = agent->port_first;
    request->port_last = agent->port_last;
    request->cluster = agent->membership.member.cluster;
    request->event = agent->membership.member.event;
    request->restored_wall_ms = agent->membership.member.restored_wall_ms;
    if (registration_fill(&agent->inventory, &agent->report, request) ||
        wire_workers(agent->core, &agent->report, &request->workers, &request->n_workers))
        log_error(agent->log, "the registration has no room for all workers",
                  log_str("node", agent->name));
}

static bool on_heard(void *arg, uint64_t newest_event, int64_t restored_wall_ms)
{
    struct agent *agent = arg;
    return membership_hear(&agent->membership, newest_event, restored_wall_ms,
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
    agent->beat_ms = answer->beat_ms > 0 ? answer->beat_ms : BEAT_DEFAULT_MS;
    loop_timer_set(agent->loop, &agent->beat_timer, loop_now_ms(agent->loop) + agent->beat_ms,
                   on_beat, agent);
    handle(agent, &event);
    return 0;
}

static void on_unknown(void *arg)
{
    struct agent *agent = arg;
    struct agent_event event = {.kind = AGENT_EVENT_UNREGISTERED};
    log_info(agent->log, "the coordinator asks us to register again", log_str("node", agent->name));
    handle(agent, &event);
}

static void on_fenced(void *arg)
{
    struct agent_event event = {.kind = AGENT_EVENT_FENCED};
    handle(arg, &event);
}

static void on_refused(void *arg, const struct error *err)
{
    struct agent *agent = arg;
    bool of_key = err->code == E_PERMISSION_DENIED && err->hint[0];
    log_error(agent->log,
              of_key ? "the coordinator refuses this node's key; leaving, workers go on"
                     : "the coordinator refuses our token; leaving, workers go on",
              log_str("node", agent->name), log_str("reason", err->text),
              log_str("hint", of_key ? err->hint
                                     : "--token-file names the coordinator's DATA/agent.token, or "
                                       "one of `muster token create NAME --role agent`"));
    end(agent, AGENT_END_REFUSED);
}

static void on_desired(void *arg, struct assignment *const *assignments, int count)
{
    struct agent_event event = {.kind = AGENT_EVENT_DESIRED,
                                .desired = {.assignments = assignments, .count = count}};
    handle(arg, &event);
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
    handle(arg, event);
}

static void on_metric(void *arg, const struct metric *metric)
{
    struct agent *agent = arg;
    outbox_metric(&agent->outbox, metric);
}

/* Life */

static int take_options(struct agent *agent, const struct agent_options *o, struct error *err)
{
    int rc = place_check_name(o->name, err);
    if (rc)
        return rc;
    (void)str_copy(agent->name, sizeof(agent->name), o->name);
    if (str_copy(agent->address, sizeof(agent->address), o->address ? o->address : "127.0.0.1"))
        return error_set(err, E_INVALID_ARGUMENT, "the address is too long: %s", o->address);
    (void)str_copy(agent->version, sizeof(agent->version), o->version ? o->version : "");
    agent->port_first = o->port_first;
    agent->port_last = o->port_last;
    agent->inventory = o->inventory;
    agent->cores = o->cores;
    agent->users = o->users;
    agent->namespaces = o->namespaces;
    agent->worker_processes = o->worker_processes;
    agent->log = o->log;
    agent->on_end = o->on_end;
    agent->on_end_arg = o->on_end_arg;
    agent->membership = o->membership;
    agent->beat_ms = BEAT_DEFAULT_MS;
    for (int i = 0; o->environment && o->environment[i]; i++) {
        if (i == INHERITED_MAX ||
            !(agent->inherited[i] = arena_strdup(&agent->texts, o->environment[i])))
            return error_set(err, E_RESOURCE_EXHAUSTED, "more than %d inherited variables",
                             INHERITED_MAX);
    }
    return 0;
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
                   .complaint = on_complaint,
                   .recovered = on_recovered,
                   .heard = on_heard},
    };
    int rc = coordinator_link_new(&link, agent->env, agent->loop, &agent->link, err);
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
                   .metric = on_metric},
    };
    return worker_socket_new(&socket, agent->env, agent->loop, &agent->socket, err);
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
    agent->launcher_open = rc == 0;
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
    int rc = take_options(agent, options, err);
    if (!rc)
        rc = outbox_init(&agent->outbox, launcher, err);
    if (!rc && !(agent->core = agent_core_new()))
        rc = error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the agent");
    if (!rc)
        rc = connect_parts(agent, options, err);
    if (!rc)
        rc = open_launcher(agent, err);
    if (rc) {
        agent_free(agent);
        return rc;
    }
    handle(agent, &begin);
    *ret = agent;
    return 0;
}

void agent_free(struct agent *agent)
{
    if (!agent)
        return;
    struct loop_timer *timers[] = {&agent->tick_timer, &agent->beat_timer, &agent->report_timer,
                                   &agent->end_timer};
    for (size_t i = 0; i < sizeof(timers) / sizeof(timers[0]); i++)
        loop_timer_cancel(agent->loop, timers[i]);
    worker_socket_free(agent->socket);
    coordinator_link_free(agent->link);
    if (agent->launcher_open)
        agent->launcher->close(agent->launcher->self);
    outbox_fini(&agent->outbox);
    agent_core_free(agent->core);
    arena_fini(&agent->report);
    arena_fini(&agent->texts);
    free(agent);
}

void agent_stop_workers(struct agent *agent)
{
    struct agent_event event = {.kind =
                                    agent->stopping ? AGENT_EVENT_KILL_ALL : AGENT_EVENT_STOP_ALL};
    agent->stopping = true;
    handle(agent, &event);
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
