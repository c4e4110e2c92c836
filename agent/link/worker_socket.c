#include "agent/link/worker_socket.h"

#include <stdlib.h>
#include <string.h>

#include "agent/core/step.h"
#include "agent/link/guest.h"
#include "agent/link/wire.h"
#include "common/base/limits.h"
#include "common/base/murmur3.h"
#include "common/base/name.h"
#include "common/base/str.h"
#include "common/rpc/call.h"
#include "common/rpc/client.h"
#include "common/rpc/message.h"
#include "common/rpc/server.h"
#include "proto/worker.pb-c.h"

struct forward { /* a call that waits for the coordinator */
    struct worker_socket *socket;
    struct guest *guest;
    uint64_t call;
    struct forward *next, **at;
};

struct worker_socket {
    struct env *env;
    struct rpc_server *server;
    struct rpc_client *upstream;
    struct socket_events events;
    struct loop *loop;
    char node[NAME_LENGTH_MAX + 1];
    uint64_t incarnation;
    struct forward *forwards;
    struct guests guests;
};

/* From the envelope alone: what a stranger of this machine sends is never unpacked. */
static int on_knock(void *arg, const struct rpc_knock *knock, void **ret_caller, struct error *err)
{
    struct worker_socket *socket = arg;
    struct worker_key key;
    struct guest *guest;
    uint64_t owner[2];
    int rc = socket->events.identify(socket->events.arg, knock->token, &key, err);
    if (rc == E_UNAUTHENTICATED)
        rpc_server_classify(socket->server, knock->peer, NET_STRANGER, 0);
    if (rc)
        return rc;
    murmur3(knock->token, strlen(knock->token), owner);
    rpc_server_classify(socket->server, knock->peer, NET_CALLER, owner[0]);
    if (knock->payload_bytes > MAX_WORKER_CALL_BYTES)
        return limit_refuse(LIMIT_WORKER_CALL_BYTES, err);
    rc = guest_enter(&socket->guests, &key, &guest, err);
    if (!rc)
        *ret_caller = guest;
    return rc;
}

static void on_leave(void *arg, void *caller)
{
    struct worker_socket *socket = arg;
    guest_leave(&socket->guests, caller);
}

static void fail_call(struct rpc_call *call, struct error *err)
{
    if (!err->code)
        err->code = E_INTERNAL;
    rpc_call_fail(call, err);
}

/* "Done" is repeated until acknowledged, perhaps after its generation has ended. It must not be
 * refused then, because the worker would delete a valid checkpoint. */
static bool needs_present_generation(const struct rpc_call *call)
{
    const char *method = rpc_call_method(call);
    if (strcmp(method, "WorkerHub.CommitCheckpoint") != 0)
        return strcmp(method, "WorkerHub.Board") == 0;
    const Muster__CommitCheckpointRequest *m = (const void *)rpc_call_request(call);
    return m->phase != MUSTER__COMMIT_CHECKPOINT_REQUEST__PHASE__done;
}

/* Identify the caller; answers the call itself if it is not allowed. */
static bool admit_call(struct worker_socket *socket, struct rpc_call *call, const char *job,
                       uint64_t uid, struct worker_key *ret)
{
    struct error err = {0};
    struct worker_claim claim = {.token = rpc_call_token(call),
                                 .old_ok = !needs_present_generation(call),
                                 .uid = rpc_call_peer_uid(call)};
    int rc = wire_key(job, uid, ret, &err);
    if (!rc)
        rc = socket->events.authorize(socket->events.arg, ret, &claim, &err);
    if (rc)
        fail_call(call, &err);
    return !rc;
}

static void deliver(struct worker_socket *socket, struct rpc_call *call, struct agent_event *event)
{
    event->request = rpc_call_id(call);
    event->deadline_ms = rpc_call_deadline_ms(call);
    socket->events.event(socket->events.arg, event);
}

static void on_hello(void *arg, struct rpc_call *call)
{
    struct worker_socket *socket = arg;
    const Muster__WorkerHelloRequest *m = (const void *)rpc_call_request(call);
    struct agent_event event = {.kind = AGENT_EVENT_HELLO};
    if (admit_call(socket, call, m->job, m->uid, &event.key))
        deliver(socket, call, &event);
}

static void on_join(void *arg, struct rpc_call *call)
{
    struct worker_socket *socket = arg;
    const Muster__WorkerJoinRequest *m = (const void *)rpc_call_request(call);
    struct agent_event event = {
        .kind = AGENT_EVENT_JOIN,
        .join = {.generation = m->generation, .step = m->step, .endpoint = m->endpoint}};
    if (!admit_call(socket, call, m->job, m->uid, &event.key))
        return;
    if (!m->generation || !m->endpoint[0] || strlen(m->endpoint) > ENDPOINT_MAX) {
        struct error err = {0};
        error_set(&err, E_INVALID_ARGUMENT,
                  "Join needs a generation and an endpoint of 1 to %d "
                  "bytes",
                  ENDPOINT_MAX);
        fail_call(call, &err);
        return;
    }
    deliver(socket, call, &event);
}

static void on_watch(void *arg, struct rpc_call *call)
{
    struct worker_socket *socket = arg;
    const Muster__WorkerWatchRequest *m = (const void *)rpc_call_request(call);
    struct agent_event event = {.kind = AGENT_EVENT_WATCH, .watch = {.generation = m->generation}};
    if (admit_call(socket, call, m->job, m->uid, &event.key))
        deliver(socket, call, &event);
}

/* `metrics` are the job's series, `numbers` another rank's own. */
static void deliver_metrics(struct worker_socket *socket, const struct worker_key *key,
                            const Muster__WorkerProgressRequest *m)
{
    size_t count = m->n_metrics < SOCKET_METRICS_MAX ? m->n_metrics : SOCKET_METRICS_MAX;
    size_t own = m->n_numbers < SOCKET_METRICS_MAX ? m->n_numbers : SOCKET_METRICS_MAX;
    for (size_t i = 0; i < own; i++)
        socket->events.number(socket->events.arg, key, m->numbers[i]->name, m->numbers[i]->value);
    for (size_t i = 0; i < count; i++) {
        const Muster__MetricSample *from = m->metrics[i];
        socket->events.number(socket->events.arg, key, from->name, from->value);
        struct metric metric = {.generation = m->generation,
                                .step = from->step,
                                .wall_ms = from->wall_ms,
                                .value = from->value};
        (void)str_copy(metric.job, sizeof(metric.job), m->job);
        if (from->name[0] && from->step <= STEP_MAX &&
            !str_copy(metric.name, sizeof(metric.name), from->name))
            socket->events.metric(socket->events.arg, &metric);
    }
}

/* Libworkers of older versions report no times. */
static void deliver_pace(struct worker_socket *socket, const struct worker_key *key,
                         const Muster__WorkerProgressRequest *m)
{
    struct pace_mark mark = {
        .step = m->step, .seconds = m->step_seconds, .waited_seconds = m->waited_seconds};
    if (m->step_seconds > 0 && m->waited_seconds >= 0)
        socket->events.stepped(socket->events.arg, key, &mark);
}

static bool read_wait(const Muster__Wait *from, struct worker_wait *ret)
{
    *ret = (struct worker_wait){0};
    if (!from || !from->waited_ms)
        return false;
    (void)str_copy(ret->communicator, sizeof(ret->communicator), from->communicator);
    (void)str_copy(ret->operation, sizeof(ret->operation), from->operation);
    ret->sequence = from->sequence;
    ret->bytes = from->bytes;
    ret->waited_ms = from->waited_ms;
    ret->ranks_named = from->n_ranks < WAIT_RANKS_MAX ? (int)from->n_ranks : WAIT_RANKS_MAX;
    if (ret->ranks_named > 0)
        memcpy(ret->ranks, from->ranks, sizeof(ret->ranks[0]) * (size_t)ret->ranks_named);
    bool more = from->ranks_count > (uint32_t)ret->ranks_named && from->ranks_count <= INT32_MAX;
    ret->ranks_count = more ? (int)from->ranks_count : ret->ranks_named;
    return true;
}

static void on_progress(void *arg, struct rpc_call *call)
{
    struct worker_socket *socket = arg;
    const Muster__WorkerProgressRequest *m = (const void *)rpc_call_request(call);
    struct agent_event event = {
        .kind = AGENT_EVENT_PROGRESS,
        .progress = {.generation = m->generation, .step = m->step, .total_steps = m->total_steps}};
    struct worker_wait wait;
    if (read_wait(m->wait, &wait))
        event.progress.wait = &wait;
    if (!admit_call(socket, call, m->job, m->uid, &event.key))
        return;
    if (m->step > STEP_MAX || m->total_steps > STEP_MAX) {
        struct error err = {0};
        error_set(&err, E_INVALID_ARGUMENT, "step %llu of %llu: a step is at most %llu",
                  (unsigned long long)m->step, (unsigned long long)m->total_steps, STEP_MAX);
        fail_call(call, &err);
        return;
    }
    deliver_metrics(socket, &event.key, m);
    deliver_pace(socket, &event.key, m);
    deliver(socket, call, &event);
}

static void on_lost_peers(void *arg, struct rpc_call *call)
{
    struct worker_socket *socket = arg;
    const Muster__WorkerLostPeersRequest *m = (const void *)rpc_call_request(call);
    size_t count = m->n_ranks < AGENT_LOST_RANKS_MAX ? m->n_ranks : AGENT_LOST_RANKS_MAX;
    struct agent_event event = {
        .kind = AGENT_EVENT_LOST_PEERS,
        .lost_peers = {.generation = m->generation, .ranks = m->ranks, .count = (int)count}};
    if (admit_call(socket, call, m->job, m->uid, &event.key))
        deliver(socket, call, &event);
}

static void forward_end(struct forward *forward)
{
    if (forward->socket)
        guest_forwarded(&forward->socket->guests, forward->guest);
    if (forward->at)
        *forward->at = forward->next;
    if (forward->next)
        forward->next->at = forward->at;
    free(forward);
}

static void on_forwarded(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct forward *forward = arg;
    struct worker_socket *socket = forward->socket;
    struct rpc_call *call = socket ? rpc_server_find(socket->server, forward->call) : NULL;
    struct error told = *err;
    forward_end(forward);
    if (!call)
        return;
    if (!err->code) {
        rpc_call_answer(call, answer);
        return;
    }
    /* The worker does not need to know that the coordinator does not know this node yet. */
    if (told.code == E_NOT_FOUND)
        told.code = E_UNAVAILABLE;
    fail_call(call, &told);
}

static void forward(struct worker_socket *socket, struct rpc_call *call, const char *method,
                    const ProtobufCMessage *request)
{
    struct error err = {0};
    struct guest *guest = rpc_call_caller(call);
    int64_t left_ms =
        rpc_call_deadline_ms(call) - loop_now_ms(socket->loop) - RPC_SERVER_LONG_POLL_MARGIN_MS;
    /* Both methods may run twice: a commit is known by its generation and step. */
    struct rpc_options options = {.timeout_ms = left_ms > 1 ? left_ms : 1, .retry = true};
    int rc = guest_forward(&socket->guests, guest, &err);
    struct forward *forward = rc ? NULL : calloc(1, sizeof(*forward));
    if (!rc && !forward) {
        guest_forwarded(&socket->guests, guest);
        rc = error_set(&err, E_RESOURCE_EXHAUSTED, "no memory to pass it on");
    }
    if (!rc) {
        *forward = (struct forward){.socket = socket,
                                    .guest = guest,
                                    .call = rpc_call_id(call),
                                    .next = socket->forwards,
                                    .at = &socket->forwards};
        if (forward->next)
            forward->next->at = &forward->next;
        socket->forwards = forward;
        rc = rpc_client_call(socket->upstream, &muster__nodes__descriptor, method, request,
                             &options, on_forwarded, forward, &err);
        if (rc)
            forward_end(forward);
    }
    if (rc)
        fail_call(call, &err);
}

static void on_commit(void *arg, struct rpc_call *call)
{
    struct worker_socket *socket = arg;
    const Muster__CommitCheckpointRequest *m = (const void *)rpc_call_request(call);
    struct worker_key key;
    if (!admit_call(socket, call, m->job, m->uid, &key))
        return;
    Muster__CommitCheckpointRequest request = *m;
    request.node = socket->node;
    request.incarnation = socket->incarnation;
    forward(socket, call, "CommitCheckpoint", &request.base);
}

static void on_board(void *arg, struct rpc_call *call)
{
    struct worker_socket *socket = arg;
    const Muster__BoardRequest *m = (const void *)rpc_call_request(call);
    struct worker_key key;
    if (!admit_call(socket, call, m->job, m->uid, &key))
        return;
    Muster__BoardRequest request = *m;
    request.node = socket->node;
    request.incarnation = socket->incarnation;
    forward(socket, call, "Board", &request.base);
}

static void answer_hello(struct rpc_call *call, const struct agent_action *action)
{
    Muster__WorkerHelloAnswer answer = MUSTER__WORKER_HELLO_ANSWER__INIT;
    answer.generation = action->answer.generation;
    answer.rank = action->assignment->rank;
    answer.world = action->assignment->world;
    answer.beat_ms = SOCKET_BEAT_MS;
    rpc_call_answer(call, &answer.base);
}

static void answer_join(struct rpc_call *call, const struct agent_action *action)
{
    Muster__WorkerJoinAnswer answer = MUSTER__WORKER_JOIN_ANSWER__INIT;
    const struct assignment *a = action->assignment;
    struct arena arena = {0};
    answer.generation = action->answer.generation;
    answer.stop = action->answer.stop;
    answer.ready = action->answer.ready;
    if (a) {
        answer.rank = a->rank;
        answer.world = a->world;
        answer.local_rank = a->local_rank;
        answer.local_world = a->local_world;
        answer.membership = wire_membership(a, &arena);
        answer.secret.data = (uint8_t *)(uintptr_t)a->secret;
        answer.secret.len = (size_t)a->secret_bytes;
        answer.token = rpc_text(a->token);
        answer.resume_from = rpc_text(a->resume_from);
    }
    rpc_call_answer(call, &answer.base);
    arena_fini(&arena);
}

static void answer_watch(struct rpc_call *call, const struct agent_action *action)
{
    Muster__WorkerWatchAnswer answer = MUSTER__WORKER_WATCH_ANSWER__INIT;
    answer.generation = action->answer.generation;
    answer.stop = action->answer.stop;
    answer.grace_ms = action->answer.grace_ms;
    answer.leave_ms = action->answer.leave_ms;
    if (action->assignment)
        answer.reason = rpc_text(action->assignment->stop_reason);
    rpc_call_answer(call, &answer.base);
}

void worker_socket_answer(struct worker_socket *socket, const struct agent_action *action)
{
    Muster__WorkerProgressAnswer progress = MUSTER__WORKER_PROGRESS_ANSWER__INIT;
    Muster__WorkerLostPeersAnswer lost_peers = MUSTER__WORKER_LOST_PEERS_ANSWER__INIT;
    struct rpc_call *call = rpc_server_find(socket->server, action->request);
    if (!call)
        return;
    if (action->kind == AGENT_ACTION_REFUSE) {
        rpc_call_fail(call, action->error);
        return;
    }
    switch (action->answer.kind) {
    case AGENT_ANSWER_HELLO:
        answer_hello(call, action);
        break;
    case AGENT_ANSWER_JOIN:
        answer_join(call, action);
        break;
    case AGENT_ANSWER_WATCH:
        answer_watch(call, action);
        break;
    case AGENT_ANSWER_PROGRESS:
        rpc_call_answer(call, &progress.base);
        break;
    case AGENT_ANSWER_LOST_PEERS:
        rpc_call_answer(call, &lost_peers.base);
        break;
    }
}

static int add_methods(struct worker_socket *socket, struct error *err)
{
    static const struct {
        const char *name;
        rpc_handler fn;
    } methods[] = {
        {"Hello", on_hello},          {"Join", on_join},
        {"Watch", on_watch},          {"Progress", on_progress},
        {"LostPeers", on_lost_peers}, {"CommitCheckpoint", on_commit},
        {"Board", on_board},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]) && !rc; i++)
        rc = rpc_server_add(socket->server, &muster__worker_hub__descriptor, methods[i].name,
                            methods[i].fn, socket, err);
    return rc;
}

int worker_socket_new(const struct socket_options *options, struct env *env, struct loop *loop,
                      struct worker_socket **ret, struct error *err)
{
    struct worker_socket *socket = calloc(1, sizeof(*socket));
    if (!socket)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the worker hub");
    socket->env = env;
    socket->loop = loop;
    socket->upstream = options->upstream;
    socket->events = options->events;
    socket->incarnation = options->incarnation;
    (void)str_copy(socket->node, sizeof(socket->node), options->node);
    int rc = rpc_server_new(env, loop, options->url, SOCKET_CALLS_MAX, &socket->server, err);
    if (!rc)
        rc = add_methods(socket, err);
    if (!rc)
        rpc_server_on_knock(socket->server, on_knock, on_leave, socket);
    if (rc) {
        worker_socket_free(socket);
        return rc;
    }
    *ret = socket;
    return 0;
}

/* Answers to forwards in flight are dropped: the client ends them later. */
void worker_socket_free(struct worker_socket *socket)
{
    if (!socket)
        return;
    for (struct forward *f = socket->forwards, *next; f; f = next) {
        next = f->next;
        f->socket = NULL;
        f->next = NULL;
        f->at = NULL;
    }
    rpc_server_free(socket->server);
    guests_fini(&socket->guests);
    free(socket);
}

const char *worker_socket_url(const struct worker_socket *socket)
{
    return rpc_server_url(socket->server);
}
