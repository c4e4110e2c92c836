#include "common/rpc/server.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/base/meant.h"
#include "common/base/str.h"
#include "common/env/env.h"
#include "common/loop/loop.h"
#include "common/rpc/call.h"
#include "common/rpc/frame.h"
#include "common/rpc/method.h"

struct method {
    char name[FRAME_METHOD_MAX + 1];
    size_t name_bytes;
    const ProtobufCMethodDescriptor *descriptor;
    rpc_handler fn;
    void *arg;
};

struct rpc_call {
    struct rpc_server *server;
    struct list link; /* in server->spare */
    bool open;
    uint64_t id;
    uint64_t request; /* env.net's number */
    uint64_t peer;
    int64_t deadline_ms;
    const struct method *method;
    void *caller;
    Muster__RpcRequest *envelope;
    ProtobufCMessage *message;
    struct loop_timer timer;
};

struct rpc_server {
    struct env *env;
    struct loop *loop;
    struct net_listener *listener;
    struct method methods[RPC_SERVER_METHODS_MAX];
    size_t method_count;
    rpc_gone_fn on_gone;
    void *gone_arg;
    rpc_admit_fn on_knock;
    rpc_leave_fn on_leave;
    void *knock_arg;
    struct map open; /* id -> call */
    /* Answered calls, used again oldest first: their memory stays readable, so that answering one
     * twice is caught by an assert and not by chance. */
    struct list spare;
    uint64_t last_id;
    struct rpc_server_stats stats;
    struct buf payload, frame; /* kept for their memory */
};

static void send_answer(struct rpc_server *server, uint64_t request,
                        const Muster__RpcAnswer *answer)
{
    buf_clear(&server->frame);
    if (frame_pack(&answer->base, &server->frame, NULL)) {
        buf_clear(&server->frame);
        Muster__RpcAnswer small = MUSTER__RPC_ANSWER__INIT;
        small.id = answer->id;
        small.code = -E_RESOURCE_EXHAUSTED;
        small.message = (char *)(uintptr_t) "the answer is too large for the wire";
        if (frame_pack(&small.base, &server->frame, NULL))
            return; /* no memory for 60 bytes: the caller notices it by its deadline */
    }
    server->env->net.answer(server->listener, request, server->frame.data, server->frame.size);
}

static void send_error(struct rpc_server *server, uint64_t request, uint64_t id,
                       const struct error *err)
{
    struct error copy = *err; /* protobuf-c requires non-const pointers */
    Muster__RpcAnswer answer = MUSTER__RPC_ANSWER__INIT;
    answer.id = id;
    answer.code = -copy.code;
    answer.message = copy.text;
    answer.field = copy.field;
    answer.hint = copy.hint;
    send_answer(server, request, &answer);
}

static struct rpc_call *call_new(struct rpc_server *server)
{
    struct rpc_call *call = list_first(&server->spare, struct rpc_call, link);
    if (call)
        list_remove(&call->link);
    else if (!(call = calloc(1, sizeof(*call))))
        return NULL;
    list_init(&call->link);
    call->server = server;
    call->id = ++server->last_id;
    if (map_set(&server->open, call->id, call, NULL)) {
        free(call);
        return NULL;
    }
    call->open = true;
    server->stats.open++;
    return call;
}

static void let_go(struct rpc_server *server, void *caller)
{
    if (server->on_leave)
        server->on_leave(server->knock_arg, caller);
}

static void call_end(struct rpc_call *call)
{
    struct rpc_server *server = call->server;
    let_go(server, call->caller);
    loop_timer_cancel(server->loop, &call->timer);
    map_remove(&server->open, call->id);
    rpc_message_free(call->message);
    rpc_message_free(call->envelope);
    call->message = NULL;
    call->envelope = NULL;
    call->open = false;
    server->stats.open--;
    list_push_back(&server->spare, &call->link);
}

static void call_expired(void *arg)
{
    struct rpc_call *call = arg;
    struct rpc_server *server = call->server;
    struct error err;
    error_set(&err, E_DEADLINE_EXCEEDED, "%s was not answered in time", call->method->name);
    server->stats.expired++;
    send_error(server, call->request, call->envelope->id, &err);
    call_end(call);
}

static const struct method *method_find(const struct rpc_server *server, const char *name)
{
    size_t bytes = strlen(name);
    for (size_t i = 0; i < server->method_count; i++) {
        const struct method *method = &server->methods[i];
        if (method->name_bytes == bytes && memcmp(method->name, name, bytes) == 0)
            return method;
    }
    return NULL;
}

static int method_unknown(const struct rpc_server *server, const char *name, struct error *err)
{
    const char *names[RPC_SERVER_METHODS_MAX + 1] = {NULL};
    for (size_t i = 0; i < server->method_count; i++)
        names[i] = server->methods[i].name;
    error_set(err, E_UNIMPLEMENTED, "there is no method \"%s\" here", name);
    (void)meant_hint(err, name, names);
    return E_UNIMPLEMENTED;
}

static void peer_key(const struct rpc_server *server, uint64_t peer, char ret[NET_PEER_KEY_MAX])
{
    const struct net *net = &server->env->net;
    ret[0] = 0;
    if (net->peer_key)
        net->peer_key(server->listener, peer, ret);
}

static void **peer_data(const struct rpc_server *server, uint64_t peer)
{
    const struct net *net = &server->env->net;
    return net->peer_data ? net->peer_data(server->listener, peer) : NULL;
}

static int admit(struct rpc_server *server, struct rpc_knock *knock, void **ret_caller,
                 struct error *err)
{
    char key[NET_PEER_KEY_MAX];
    peer_key(server, knock->peer, key);
    knock->key = key;
    knock->peer_data = peer_data(server, knock->peer);
    *ret_caller = NULL;
    int rc = server->on_knock ? server->on_knock(server->knock_arg, knock, ret_caller, err) : 0;
    knock->key = NULL;
    return rc;
}

/* On success the call owns the envelope. */
static int call_open(struct rpc_server *server, uint64_t peer, Muster__RpcRequest *envelope,
                     struct rpc_call **ret, struct error *err)
{
    const struct method *method = method_find(server, envelope->method);
    if (!method)
        return method_unknown(server, envelope->method, err);
    ProtobufCMessage *message;
    void *caller;
    size_t parts_max = SIZE_MAX;
    struct rpc_bytes payload = {envelope->payload.data, envelope->payload.len};
    struct rpc_knock knock = {
        .arg = method->arg,
        .method = method->name,
        .token = envelope->token,
        .peer = peer,
        .payload_bytes = payload.size,
        .ret_parts_max = &parts_max,
    };
    int rc = admit(server, &knock, &caller, err);
    if (rc)
        return rc;
    if (payload.size > RPC_PAYLOAD_MAX_BYTES)
        rc = error_set(err, E_RESOURCE_EXHAUSTED, "a message of %zu bytes is above the %d allowed",
                       payload.size, RPC_PAYLOAD_MAX_BYTES);
    else
        rc =
            rpc_message_unpack_parts(method->descriptor->input, &payload, parts_max, &message, err);
    if (rc) {
        let_go(server, caller);
        error_wrap(err, "%s", method->name);
        return rc;
    }
    struct rpc_call *call = call_new(server);
    if (!call) {
        let_go(server, caller);
        rpc_message_free(message);
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for another call");
    }
    call->method = method;
    call->peer = peer;
    call->caller = caller;
    call->envelope = envelope;
    call->message = message;
    *ret = call;
    return 0;
}

static int64_t timeout_of(const Muster__RpcRequest *envelope)
{
    if (envelope->timeout_ms == 0)
        return RPC_SERVER_DEFAULT_TIMEOUT_MS;
    if (envelope->timeout_ms > RPC_SERVER_TIMEOUT_MAX_MS)
        return RPC_SERVER_TIMEOUT_MAX_MS;
    return envelope->timeout_ms;
}

static void on_request(void *arg, uint64_t request, uint64_t peer, const void *bytes, size_t size)
{
    struct rpc_server *server = arg;
    struct error err;
    Muster__RpcRequest *envelope;
    if (frame_unpack_request(bytes, size, &envelope, &err)) {
        server->stats.refused++;
        send_error(server, request, 0, &err);
        return;
    }
    struct rpc_call *call = NULL;
    if (call_open(server, peer, envelope, &call, &err)) {
        server->stats.refused++;
        send_error(server, request, envelope->id, &err);
        rpc_message_free(envelope);
        return;
    }
    call->request = request;
    call->deadline_ms = loop_now_ms(server->loop) + timeout_of(envelope);
    loop_timer_set(server->loop, &call->timer, call->deadline_ms + RPC_SERVER_GRACE_MS,
                   call_expired, call);
    server->stats.calls++;
    call->method->fn(call->method->arg, call);
}

static void on_gone(void *arg, uint64_t peer)
{
    struct rpc_server *server = arg;
    if (server->on_gone)
        server->on_gone(server->gone_arg, peer);
}

int rpc_server_new(struct env *env, struct loop *loop, const char *url, int max_in_flight,
                   struct rpc_server **ret, struct error *err)
{
    struct rpc_server *server = calloc(1, sizeof(*server));
    if (!server)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a server");
    server->env = env;
    server->loop = loop;
    list_init(&server->spare);
    buf_init(&server->payload, RPC_PAYLOAD_MAX_BYTES);
    buf_init(&server->frame, FRAME_MAX_BYTES);
    int rc = env->net.listen(env->net.self, url, max_in_flight, on_request, on_gone, server,
                             &server->listener, err);
    if (rc) {
        free(server);
        return rc;
    }
    *ret = server;
    return 0;
}

const char *rpc_server_url(const struct rpc_server *server)
{
    return server->env->net.listener_url(server->listener);
}

int rpc_server_add(struct rpc_server *server, const ProtobufCServiceDescriptor *service,
                   const char *method, rpc_handler fn, void *arg, struct error *err)
{
    if (server->method_count == RPC_SERVER_METHODS_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED, "a server has %d methods at most",
                         RPC_SERVER_METHODS_MAX);
    struct method *slot = &server->methods[server->method_count];
    int rc = rpc_method_find(service, method, slot->name, &slot->descriptor, err);
    if (rc)
        return rc;
    if (method_find(server, slot->name))
        return error_set(err, E_ALREADY_EXISTS, "%s has a handler already", slot->name);
    slot->name_bytes = strlen(slot->name);
    slot->fn = fn;
    slot->arg = arg;
    server->method_count++;
    return 0;
}

void rpc_server_on_gone(struct rpc_server *server, rpc_gone_fn fn, void *arg)
{
    server->on_gone = fn;
    server->gone_arg = arg;
}

void rpc_server_classify(struct rpc_server *server, uint64_t peer, enum net_standing standing,
                         uint64_t whose)
{
    if (server->env->net.classify)
        server->env->net.classify(server->listener, peer, standing, whose);
}

void rpc_server_on_knock(struct rpc_server *server, rpc_admit_fn on_knock, rpc_leave_fn on_leave,
                         void *arg)
{
    server->on_knock = on_knock;
    server->on_leave = on_leave;
    rpc_server_classify(server, 0, NET_STRANGER, 0);
    server->knock_arg = arg;
}

void rpc_server_free(struct rpc_server *server)
{
    if (!server)
        return;
    server->env->net.close_listener(server->listener);
    struct map_entry *entry;
    while ((entry = map_first(&server->open)))
        call_end(entry->value);
    struct rpc_call *call;
    while ((call = list_first(&server->spare, struct rpc_call, link))) {
        list_remove(&call->link);
        free(call);
    }
    map_fini(&server->open);
    buf_fini(&server->payload);
    buf_fini(&server->frame);
    free(server);
}

struct rpc_call *rpc_server_find(struct rpc_server *server, uint64_t id)
{
    return map_get(&server->open, id);
}

void rpc_server_stats(const struct rpc_server *server, struct rpc_server_stats *ret)
{
    *ret = server->stats;
}

const ProtobufCMessage *rpc_call_request(const struct rpc_call *call)
{
    return call->message;
}

const char *rpc_call_method(const struct rpc_call *call)
{
    return call->method->name;
}

const char *rpc_call_token(const struct rpc_call *call)
{
    return call->envelope->token;
}

const char *rpc_call_idempotency_key(const struct rpc_call *call)
{
    return call->envelope->idempotency_key;
}

uint64_t rpc_call_peer(const struct rpc_call *call)
{
    return call->peer;
}

void *rpc_call_caller(const struct rpc_call *call)
{
    return call->caller;
}

void rpc_server_peer_name(const struct rpc_server *server, uint64_t peer,
                          char ret[NET_PEER_NAME_MAX])
{
    const struct net *net = &server->env->net;
    ret[0] = 0;
    if (net->peer_name)
        net->peer_name(server->listener, peer, ret);
}

void rpc_call_peer_name(const struct rpc_call *call, char ret[NET_PEER_NAME_MAX])
{
    rpc_server_peer_name(call->server, call->peer, ret);
}

void rpc_call_peer_key(const struct rpc_call *call, char ret[NET_PEER_KEY_MAX])
{
    peer_key(call->server, call->peer, ret);
}

void **rpc_call_peer_data(const struct rpc_call *call)
{
    return peer_data(call->server, call->peer);
}

int64_t rpc_call_peer_uid(const struct rpc_call *call)
{
    const struct net *net = &call->server->env->net;
    return net->peer_uid ? net->peer_uid(call->server->listener, call->peer) : -1;
}

uint64_t rpc_call_id(const struct rpc_call *call)
{
    return call->id;
}

int64_t rpc_call_deadline_ms(const struct rpc_call *call)
{
    return call->deadline_ms;
}

struct rpc_server *rpc_call_server(const struct rpc_call *call)
{
    return call->server;
}

void rpc_call_answer(struct rpc_call *call, const ProtobufCMessage *answer)
{
    insist(call->open);
    insist(answer->descriptor == call->method->descriptor->output);
    struct rpc_server *server = call->server;
    struct error err;
    buf_clear(&server->payload);
    if (rpc_message_pack(answer, &server->payload, &err)) {
        err.code = E_RESOURCE_EXHAUSTED;
        error_wrap(&err, "the answer of %s", call->method->name);
        rpc_call_fail(call, &err);
        return;
    }
    Muster__RpcAnswer envelope = MUSTER__RPC_ANSWER__INIT;
    envelope.id = call->envelope->id;
    envelope.payload.data = (uint8_t *)server->payload.data;
    envelope.payload.len = server->payload.size;
    send_answer(server, call->request, &envelope);
    call_end(call);
}

void rpc_call_fail(struct rpc_call *call, const struct error *err)
{
    insist(call->open);
    insist(err->code != 0);
    call->server->stats.failures++;
    send_error(call->server, call->request, call->envelope->id, err);
    call_end(call);
}
