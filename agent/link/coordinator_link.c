#include "agent/link/coordinator_link.h"

#include <stdlib.h>
#include <string.h>

#include "agent/link/held.h"
#include "agent/link/wire.h"
#include "common/base/name.h"
#include "common/base/str.h"

enum { POLL_ARENA_MAX_BYTES = 1 << 20, TERMINALS_UNKNOWN = 2 /* no version of a list */ };

enum link_state { LINK_SILENT, LINK_REGISTERING, LINK_REGISTERED, LINK_FENCED, LINK_REFUSED };

struct report_call { /* one in flight */
    struct coordinator_link *link;
    uint64_t sequence; /* 0 = free */
    link_reported done;
    void *arg;
};

struct coordinator_link {
    struct env *env;
    struct loop *loop;
    struct rpc_client *client;
    struct link_events events;
    char node[NAME_LENGTH_MAX + 1];
    uint64_t incarnation;
    enum link_state state;
    bool closing;
    bool accepted; /* it was registered once */
    bool register_in_flight, poll_in_flight;
    uint64_t poll_version;
    bool poll_incomplete; /* of the last answer */
    uint64_t terminals_version;
    struct held held;
    uint64_t sequence;
    struct report_call reports[LINK_REPORTS_MAX];
    struct loop_timer again_timer;
    int64_t again_ms;
    char last_complaint[256];
};

static void send_due(void *arg);

static void complain_once(struct coordinator_link *link, const struct error *err)
{
    if (strncmp(link->last_complaint, err->text, sizeof(link->last_complaint) - 1) == 0)
        return;
    (void)str_copy(link->last_complaint, sizeof(link->last_complaint), err->text);
    link->events.complaint(link->events.arg, err);
}

static void end_complaint(struct coordinator_link *link)
{
    if (!link->last_complaint[0])
        return;
    link->last_complaint[0] = '\0';
    link->events.recovered(link->events.arg);
}

static void act_later(struct coordinator_link *link)
{
    uint32_t random;
    link->env->rng.fill(link->env->rng.self, &random, sizeof(random));
    link->again_ms = link->again_ms ? link->again_ms * 2 : LINK_AGAIN_MIN_MS;
    if (link->again_ms > LINK_AGAIN_MAX_MS)
        link->again_ms = LINK_AGAIN_MAX_MS;
    int64_t wait_ms = link->again_ms / 2 + (int64_t)(random % (uint32_t)link->again_ms);
    loop_timer_set(link->loop, &link->again_timer, loop_now_ms(link->loop) + wait_ms, send_due,
                   link);
}

static void act_now(struct coordinator_link *link)
{
    link->again_ms = 0;
    loop_timer_set(link->loop, &link->again_timer, loop_now_ms(link->loop), send_due, link);
}

/* Judge a failure of any call about this node; true if it was a verdict on us. */
static bool end_if_refused(struct coordinator_link *link, const struct error *err)
{
    if (err->code == E_ABORTED) {
        if (link->state != LINK_FENCED) {
            link->state = LINK_FENCED;
            link->events.fenced(link->events.arg);
        }
        return true;
    }
    if (err->code != E_NOT_FOUND && err->code != E_FAILED_PRECONDITION)
        return false;
    if (link->state == LINK_REGISTERED) {
        link->state = LINK_SILENT;
        link->events.unknown(link->events.arg);
    }
    return true;
}

static void end_registration(struct coordinator_link *link, const struct error *err)
{
    bool token = err->code == E_PERMISSION_DENIED || err->code == E_UNAUTHENTICATED;
    if (token && !link->accepted) {
        link->state = LINK_REFUSED;
        link->events.refused(link->events.arg, err);
        return;
    }
    complain_once(link, err);
    if (err->code == E_ABORTED)
        (void)end_if_refused(link, err);
    else
        act_later(link);
}

static void on_register(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct coordinator_link *link = arg;
    link->register_in_flight = false;
    if (link->closing || link->state != LINK_REGISTERING)
        return;
    if (err->code) {
        end_registration(link, err);
        return;
    }
    struct error own = {0};
    bool was_accepted = link->accepted;
    link->state = LINK_REGISTERED;
    link->accepted = true;
    link->poll_version = 0;
    link->poll_incomplete = false;
    link->terminals_version = TERMINALS_UNKNOWN;
    held_fini(&link->held); /* another cluster may be at this address now */
    if (link->events.registered(link->events.arg, (const Muster__RegisterNodeAnswer *)answer,
                                &own)) {
        link->state = LINK_REGISTERING;
        link->accepted = was_accepted;
        complain_once(link, &own);
        act_later(link);
        return;
    }
    end_complaint(link);
    act_now(link);
}

static void send_register(struct coordinator_link *link)
{
    Muster__RegisterNodeRequest request = MUSTER__REGISTER_NODE_REQUEST__INIT;
    struct rpc_options options = {.timeout_ms = LINK_CALL_MS};
    struct error err = {0};
    request.name = link->node;
    request.incarnation = link->incarnation;
    link->events.fill_register(link->events.arg, &request);
    if (rpc_client_call(link->client, &muster__nodes__descriptor, "RegisterNode", &request.base,
                        &options, on_register, link, &err)) {
        complain_once(link, &err);
        act_later(link);
        return;
    }
    link->register_in_flight = true;
}

static bool check_history(struct coordinator_link *link, uint64_t newest_event,
                          int64_t restored_wall_ms)
{
    if (link->state != LINK_REGISTERED ||
        link->events.heard(link->events.arg, newest_event, restored_wall_ms))
        return true;
    link->state = LINK_SILENT;
    link->events.unknown(link->events.arg);
    return false;
}

static int deliver_desired(struct coordinator_link *link, const Muster__NodePollAnswer *answer,
                           struct error *err)
{
    int count = 0;
    size_t all = answer->n_assignments;
    if (all > LINK_ASSIGNMENTS_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED, "%zu assignments for one node", all);
    struct assignment **list = calloc(all + 1, sizeof(struct assignment *));
    int rc = list ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "no memory for assignments");
    for (size_t i = 0; i < all && !rc; i++)
        if (!(rc = wire_assignment(answer->assignments[i],
                                   held_find(&link->held, answer->assignments[i]->job),
                                   &list[count], err)))
            count++;
    /* All or nothing: what is missing from the list would be stopped. */
    if (!rc)
        link->events.desired(link->events.arg, list, count);
    for (int i = 0; i < count; i++)
        assignment_release(list[i]);
    free(list);
    return rc;
}

/* Version 0 asks for everything again, also for what is held. */
static void ask_for_all(struct coordinator_link *link, const struct error *why)
{
    complain_once(link, why);
    link->poll_version = 0;
    link->poll_incomplete = false;
    act_later(link);
}

/* After the workers: a channel is beside one. A coordinator of an older version names none. */
static void deliver_terminals(struct coordinator_link *link, const Muster__NodePollAnswer *answer)
{
    if (!answer->terminals_version || answer->terminals_version == link->terminals_version)
        return;
    link->terminals_version = answer->terminals_version;
    link->events.terminals(link->events.arg, answer->terminals, answer->n_terminals);
}

/* Shared data of jobs may need several answers; only then is the desired state complete. */
static void handle_answer(struct coordinator_link *link, const Muster__NodePollAnswer *answer)
{
    struct error own = {0};
    bool news =
        answer->version != link->poll_version || answer->version == 0 || link->poll_incomplete;
    if (held_merge(&link->held, answer, &own)) {
        ask_for_all(link, &own);
        return;
    }
    if (!answer->incomplete)
        held_keep_only(&link->held, answer);
    /* It may answer a poll from before a registration, which listed more kept jobs. */
    if (!answer->incomplete && news && deliver_desired(link, answer, &own)) {
        ask_for_all(link, &own);
        return;
    }
    link->poll_version = answer->version;
    link->poll_incomplete = answer->incomplete;
    deliver_terminals(link, answer);
    act_now(link);
}

static void on_poll(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct coordinator_link *link = arg;
    const Muster__NodePollAnswer *answer = (const Muster__NodePollAnswer *)message;
    link->poll_in_flight = false;
    if (link->closing || link->state != LINK_REGISTERED)
        return;
    if (err->code == E_DEADLINE_EXCEEDED) {
        act_now(link);
        return;
    }
    if (err->code) {
        if (end_if_refused(link, err))
            return;
        complain_once(link, err);
        act_later(link);
        return;
    }
    end_complaint(link);
    if (check_history(link, answer->event, answer->restored_wall_ms))
        handle_answer(link, answer);
}

static void send_poll(struct coordinator_link *link)
{
    Muster__NodePollRequest request = MUSTER__NODE_POLL_REQUEST__INIT;
    struct rpc_options options = {.timeout_ms = LINK_POLL_MS};
    struct error err = {0};
    struct arena arena;
    arena_init(&arena, POLL_ARENA_MAX_BYTES);
    request.node = link->node;
    request.incarnation = link->incarnation;
    request.version = link->poll_version;
    request.incomplete = link->poll_incomplete;
    request.terminals_version = link->events.terminals ? link->terminals_version : 0;
    int rc = held_fill(&link->held, &arena, &request);
    if (rc)
        error_set(&err, rc, "no memory for a poll");
    else
        rc = rpc_client_call(link->client, &muster__nodes__descriptor, "Poll", &request.base,
                             &options, on_poll, link, &err);
    arena_fini(&arena);
    if (rc) {
        complain_once(link, &err);
        act_later(link);
        return;
    }
    link->poll_in_flight = true;
}

/* Send what the state asks for and is not under way. */
static void send_due(void *arg)
{
    struct coordinator_link *link = arg;
    switch (link->state) {
    case LINK_REGISTERING:
        if (!link->register_in_flight)
            send_register(link);
        break;
    case LINK_REGISTERED:
        if (!link->poll_in_flight)
            send_poll(link);
        break;
    case LINK_SILENT:
    case LINK_FENCED:
    case LINK_REFUSED:
        break;
    }
}

void coordinator_link_register(struct coordinator_link *link)
{
    if (link->state != LINK_SILENT)
        return;
    link->state = LINK_REGISTERING;
    act_now(link);
}

static void on_report(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct report_call call = *(struct report_call *)arg;
    struct coordinator_link *link = call.link;
    const Muster__NodeReportAnswer *answer = (const Muster__NodeReportAnswer *)message;
    ((struct report_call *)arg)->sequence = 0;
    if (link->closing)
        return;
    int code = err->code;
    /* The coordinator got it but could not store its logs and metrics: send them again. */
    if (!code && answer->sequence != call.sequence)
        code = E_UNAVAILABLE;
    call.done(call.arg, call.sequence, code);
    if (!err->code) {
        end_complaint(link);
        (void)check_history(link, answer->event, answer->restored_wall_ms);
    }
    if (err->code && !end_if_refused(link, err))
        complain_once(link, err);
}

bool coordinator_link_report(struct coordinator_link *link, Muster__NodeReport *report,
                             link_reported done, void *arg)
{
    struct report_call *call = NULL;
    struct rpc_options options = {.timeout_ms = LINK_CALL_MS};
    struct error err = {0};
    for (int i = 0; i < LINK_REPORTS_MAX && !call; i++)
        if (!link->reports[i].sequence)
            call = &link->reports[i];
    if (!call || link->state != LINK_REGISTERED)
        return false;
    report->node = link->node;
    report->incarnation = link->incarnation;
    report->sequence = link->sequence + 1;
    if (rpc_client_call(link->client, &muster__nodes__descriptor, "Report", &report->base, &options,
                        on_report, call, &err)) {
        complain_once(link, &err);
        return false;
    }
    link->sequence++;
    *call =
        (struct report_call){.link = link, .sequence = link->sequence, .done = done, .arg = arg};
    return true;
}

uint64_t coordinator_link_sequence(const struct coordinator_link *link)
{
    return link->sequence;
}

struct rpc_client *coordinator_link_client(struct coordinator_link *link)
{
    return link->client;
}

int coordinator_link_new(const struct link_options *options, struct env *env, struct loop *loop,
                         struct coordinator_link **ret, struct error *err)
{
    struct coordinator_link *link = calloc(1, sizeof(*link));
    if (!link)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the link");
    link->env = env;
    link->loop = loop;
    link->events = options->events;
    link->incarnation = options->incarnation;
    int rc = str_copy(link->node, sizeof(link->node), options->node);
    if (rc)
        error_set(err, rc = E_INVALID_ARGUMENT, "node name is too long: %s", options->node);
    else
        rc = rpc_client_new(env, loop, options->url, options->token, &link->client, err);
    if (rc) {
        free(link);
        return rc;
    }
    *ret = link;
    return 0;
}

void coordinator_link_free(struct coordinator_link *link)
{
    if (!link)
        return;
    link->closing = true;
    loop_timer_cancel(link->loop, &link->again_timer);
    rpc_client_free(link->client);
    held_fini(&link->held);
    free(link);
}
