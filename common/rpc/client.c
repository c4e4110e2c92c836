#include "common/rpc/client.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/map.h"
#include "common/base/rng.h"
#include "common/base/str.h"
#include "common/env/env.h"
#include "common/env/net_url.h"
#include "common/loop/loop.h"
#include "common/rpc/frame.h"
#include "common/rpc/method.h"

struct rpc_client {
    struct env *env;
    struct loop *loop;
    struct net_dialer *dialer;
    struct rng rng;
    char url[NET_URL_MAX];
    char token[FRAME_TOKEN_MAX + 1];
    struct map open; /* id -> struct pending */
    uint64_t last_id;
    bool closing;
    struct buf frame; /* kept for its memory */
};

/*     waiting (net.call) ──answer──► done
 *        ▲   └──UNAVAILABLE, retry, time left──► backing off (timer) ──┐
 *        └─────────────────────────────────────────────────────────────┘  */
struct pending {
    struct rpc_client *client;
    uint64_t id;
    char name[FRAME_METHOD_MAX + 1];
    const ProtobufCMessageDescriptor *answer_type;
    struct buf payload;
    char key[FRAME_IDEMPOTENCY_KEY_MAX + 1];
    int64_t deadline_ms;
    int64_t backoff_ms;
    bool retry;
    int tries;
    struct loop_timer timer; /* armed while backing off */
    rpc_done done;
    void *arg;
};

static void pending_free(struct pending *call)
{
    buf_fini(&call->payload);
    free(call);
}

static void complete(struct pending *call, const struct error *err, const ProtobufCMessage *answer)
{
    struct rpc_client *client = call->client;
    loop_timer_cancel(client->loop, &call->timer);
    map_remove(&client->open, call->id);
    call->done(call->arg, err, answer);
    pending_free(call);
}

static void on_answer(void *arg, int code, const void *bytes, size_t size);

/* One try; nothing was started if it fails. */
static int try_once(struct pending *call, struct error *err)
{
    struct rpc_client *client = call->client;
    int64_t left_ms = call->deadline_ms - loop_now_ms(client->loop);
    Muster__RpcRequest request = MUSTER__RPC_REQUEST__INIT;
    request.method = call->name;
    request.id = call->id;
    request.timeout_ms = left_ms < 1 ? 1 : (uint32_t)left_ms;
    request.token = client->token;
    request.idempotency_key = call->key;
    request.payload.data = (uint8_t *)call->payload.data;
    request.payload.len = call->payload.size;
    buf_clear(&client->frame);
    int rc = frame_pack(&request.base, &client->frame, err);
    if (!rc)
        rc = client->env->net.call(client->dialer, client->frame.data, client->frame.size, left_ms,
                                   on_answer, call, err);
    if (!rc)
        call->tries++;
    return rc;
}

static void try_again(void *arg)
{
    struct pending *call = arg;
    struct error err;
    if (try_once(call, &err) != 0)
        complete(call, &err, NULL);
}

/* True if the call continues. */
static bool retry_later(struct pending *call)
{
    struct rpc_client *client = call->client;
    int64_t now_ms = loop_now_ms(client->loop);
    int64_t wait_ms = call->backoff_ms / 2 + rng_between(&client->rng, 0, call->backoff_ms / 2);
    struct error problem = {0};
    bool wrong_server =
        client->env->net.dial_problem &&
        client->env->net.dial_problem(client->dialer, &problem) == E_UNAUTHENTICATED;
    if (!call->retry || client->closing || wrong_server || now_ms + wait_ms >= call->deadline_ms)
        return false;
    call->backoff_ms *= 2;
    if (call->backoff_ms > RPC_CLIENT_BACKOFF_MAX_MS)
        call->backoff_ms = RPC_CLIENT_BACKOFF_MAX_MS;
    loop_timer_set(client->loop, &call->timer, now_ms + wait_ms, try_again, call);
    return true;
}

static void explain_transport(const struct pending *call, int code, struct error *err)
{
    const struct rpc_client *client = call->client;
    switch (code) {
    case E_UNAVAILABLE:
        if (client->env->net.dial_problem && client->env->net.dial_problem(client->dialer, err)) {
            if (err->code != E_DEADLINE_EXCEEDED) /* this one: it does not answer */
                err->code = code;
            return;
        }
        error_set(err, code, "cannot reach %s, or the connection was lost", client->url);
        if (call->tries > 1)
            error_hint(err, "%d tries failed; is the server running there?", call->tries);
        else
            error_hint(err, "is the server running there?");
        return;
    case E_DEADLINE_EXCEEDED:
        error_set(err, code, "%s: no answer from %s in time", call->name, client->url);
        return;
    case E_CANCELLED:
        error_set(err, code, "%s: the connection was closed", call->name);
        return;
    default:
        error_set(err, code, "%s: the connection to %s failed (%s)", call->name, client->url,
                  error_name(code));
    }
}

/* The error in an answer; 0 if it carries a message. */
static int answer_error(const Muster__RpcAnswer *answer, struct error *err)
{
    if (answer->code == 0)
        return 0;
    /* Numbers of a newer server that this one does not know. */
    int code = strcmp(error_name(-answer->code), "UNKNOWN") == 0 ? E_UNKNOWN : -answer->code;
    error_set(err, code, "%s", answer->message);
    error_field(err, "%s", answer->field);
    error_hint(err, "%s", answer->hint);
    return code;
}

static int read_answer(const struct pending *call, const void *bytes, size_t size,
                       ProtobufCMessage **ret, struct error *err)
{
    Muster__RpcAnswer *answer;
    int rc = frame_unpack_answer(bytes, size, &answer, err);
    if (rc) {
        error_wrap(err, "%s answered", call->client->url);
        return rc;
    }
    rc = answer_error(answer, err);
    if (!rc && answer->id != call->id)
        rc = error_set(err, E_INTERNAL, "%s: the answer belongs to another call", call->name);
    if (!rc) {
        rc = rpc_message_unpack(call->answer_type, answer->payload.data, answer->payload.len, ret,
                                err);
        if (rc)
            error_wrap(err, "%s answered %s", call->client->url, call->name);
    }
    rpc_message_free(answer);
    return rc;
}

static void on_answer(void *arg, int code, const void *bytes, size_t size)
{
    struct pending *call = arg;
    struct error err = {0};
    ProtobufCMessage *message = NULL;
    if (code == 0)
        code = read_answer(call, bytes, size, &message, &err);
    else
        explain_transport(call, code, &err);
    if (code == E_UNAVAILABLE && retry_later(call))
        return;
    complete(call, &err, message);
    rpc_message_free(message);
}

int rpc_client_new(struct env *env, struct loop *loop, const char *url, const char *token,
                   struct rpc_client **ret, struct error *err)
{
    struct rpc_client *client = calloc(1, sizeof(*client));
    if (!client)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a client");
    client->env = env;
    client->loop = loop;
    buf_init(&client->frame, FRAME_MAX_BYTES);
    uint64_t seed;
    env->rng.fill(env->rng.self, &seed, sizeof(seed));
    rng_seed(&client->rng, seed);
    net_address_plain(url, client->url);
    int rc = rpc_client_set_token(client, token, err);
    if (!rc)
        rc = env->net.dial(env->net.self, url, &client->dialer, err);
    if (rc) {
        buf_fini(&client->frame);
        free(client);
        return rc;
    }
    *ret = client;
    return 0;
}

int rpc_client_set_token(struct rpc_client *client, const char *token, struct error *err)
{
    size_t length = token ? strcspn(token, ".") : 0; /* its pin is not for the server */
    if (length > FRAME_TOKEN_MAX)
        return error_set(err, E_INVALID_ARGUMENT, "the token is longer than %d bytes",
                         FRAME_TOKEN_MAX);
    return str_printf(client->token, sizeof(client->token), "%.*s", (int)length,
                      token ? token : "");
}

void rpc_client_free(struct rpc_client *client)
{
    if (!client)
        return;
    client->closing = true;
    client->env->net.close_dialer(client->dialer);
    struct map_entry *entry;
    while ((entry = map_first(&client->open))) { /* those that were backing off */
        struct error err = {0};
        explain_transport(entry->value, E_CANCELLED, &err);
        complete(entry->value, &err, NULL);
    }
    map_fini(&client->open);
    buf_fini(&client->frame);
    free(client);
}

static int pending_fill(struct pending *call, const ProtobufCMessage *request,
                        const struct rpc_options *options, struct error *err)
{
    int64_t timeout_ms =
        options && options->timeout_ms > 0 ? options->timeout_ms : RPC_CLIENT_DEFAULT_TIMEOUT_MS;
    call->deadline_ms = loop_now_ms(call->client->loop) + timeout_ms;
    call->backoff_ms = RPC_CLIENT_BACKOFF_MIN_MS;
    call->retry = options && options->retry;
    const char *key = options && options->idempotency_key ? options->idempotency_key : "";
    if (str_copy(call->key, sizeof(call->key), key))
        return error_set(err, E_INVALID_ARGUMENT, "the idempotency key is longer than %d bytes",
                         FRAME_IDEMPOTENCY_KEY_MAX);
    int rc = rpc_message_pack(request, &call->payload, err);
    if (rc)
        error_wrap(err, "%s", call->name);
    return rc;
}

int rpc_client_call(struct rpc_client *client, const ProtobufCServiceDescriptor *service,
                    const char *method, const ProtobufCMessage *request,
                    const struct rpc_options *options, rpc_done done, void *arg, struct error *err)
{
    insist(done);
    if (client->closing)
        return error_set(err, E_CANCELLED, "the connection is closed");
    if (client->open.count >= RPC_CLIENT_OPEN_CALLS_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED, "%d calls are open already",
                         RPC_CLIENT_OPEN_CALLS_MAX);
    struct pending *call = calloc(1, sizeof(*call));
    if (!call)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for another call");
    const ProtobufCMethodDescriptor *descriptor;
    call->client = client;
    call->id = ++client->last_id;
    call->done = done;
    call->arg = arg;
    buf_init(&call->payload, RPC_PAYLOAD_MAX_BYTES);
    int rc = rpc_method_find(service, method, call->name, &descriptor, err);
    if (!rc) {
        insist(request->descriptor == descriptor->input);
        call->answer_type = descriptor->output;
        rc = pending_fill(call, request, options, err);
    }
    if (!rc && map_set(&client->open, call->id, call, NULL))
        rc = error_set(err, E_RESOURCE_EXHAUSTED, "no memory for another call");
    if (!rc)
        rc = try_once(call, err);
    if (rc) {
        map_remove(&client->open, call->id);
        pending_free(call);
    }
    return rc;
}
