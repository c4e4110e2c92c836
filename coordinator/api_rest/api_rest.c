#include "coordinator/api_rest/api_rest.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/list.h"
#include "common/base/str.h"
#include "common/base/tree.h"
#include "common/loop/loop.h"
#include "common/rpc/message.h"
#include "coordinator/api_rest/http.h"
#include "coordinator/api_rest/openapi.h"
#include "coordinator/api_rest/page.h"
#include "coordinator/api_rest/prometheus.h"
#include "coordinator/api_rest/render.h"
#include "coordinator/api_rest/request.h"
#include "coordinator/api_rest/routes.h"
#include "coordinator/api_rest/session.h"
#include "coordinator/api_rest/stream.h"
#include "coordinator/api_rest/visitor.h"
#include "coordinator/api_rpc/access.h"
#include "coordinator/api_rpc/service.h"
#include "coordinator/api_rpc/service_admit.h"
#include "coordinator/api_rpc/service_audit.h"
#include "coordinator/coordinator.h"
#include "proto/client.pb-c.h"

enum {
    CALL_MS = 25000,
    SHARED_LIFE_MS = 1000, /* of what the clock alone changes */
    STREAM_LOOK_MS = 1000, /* whether the clients of streams are still there */
};

struct api_rest {
    struct env *env;
    struct loop *loop;
    struct coordinator *coordinator;
    const struct log *log;
    const char *const *hosts;
    struct http *http;
    struct sessions *sessions;
    struct list exchanges;   /* that wait for an answer of the service */
    struct list reads;       /* those with an answer that others may share */
    struct loop_timer stale; /* armed while answers are shared */
    struct loop_timer look;
};

struct exchange {
    struct api_rest *api;
    struct list link;
    const struct route *route;
    struct http_request *request;
    struct list followers; /* exchanges that get the same answer */
    bool share;            /* its answer may be given again */
    bool streaming;
    struct stream stream;
    const struct store_token *caller;
    char token[TOKEN_MAX];        /* of a stream: its next calls need it too */
    char session[SESSION_ID_MAX]; /* the session it belongs to; "" = a token alone */
    char peer[64];
};

/* Calls of the service */

static void exchange_free(struct exchange *exchange)
{
    list_remove(&exchange->link);
    while (!list_empty(&exchange->followers))
        exchange_free(list_first(&exchange->followers, struct exchange, link));
    if (exchange->streaming)
        stream_fini(&exchange->stream);
    free(exchange);
}

static void start_call(struct exchange *exchange, const ProtobufCMessage *message,
                       const char *token, const char *idempotency_key);

/* A stream ends with the session it belongs to, as it does with its token. */
static bool is_over(const struct exchange *exchange, struct error *err)
{
    if (!exchange->session[0] || session_token(exchange->api->sessions, exchange->session))
        return false;
    error_set(err, E_UNAUTHENTICATED, "the session this stream belongs to has ended");
    return true;
}

/* Shared answers have not changed. But seconds have passed, which running jobs show, and a token
 * may have expired. */
static void changed(void *arg)
{
    http_changed(((struct api_rest *)arg)->http);
}

static void reply_shared(struct exchange *exchange, const ProtobufCMessage *answer)
{
    struct api_rest *api = exchange->api;
    struct exchange *follower;
    struct http_content *content = prepare_message(exchange->request, 200, answer);
    list_each(follower, &exchange->followers, link)
        http_reply_with(follower->request, content, false);
    http_reply_with(exchange->request, content, exchange->share);
    http_content_unref(content);
    if (exchange->share && !loop_timer_armed(&api->stale))
        loop_timer_set(api->loop, &api->stale, loop_now_ms(api->loop) + SHARED_LIFE_MS, changed,
                       api);
}

static void reply_whole(struct exchange *exchange, const struct error *err,
                        const ProtobufCMessage *answer)
{
    const struct route *route = exchange->route;
    struct exchange *follower;
    if (!err && route->shared) {
        reply_shared(exchange, answer);
        return;
    }
    list_each(follower, &exchange->followers, link)
        reply_error(follower->request, err);
    if (err)
        reply_error(exchange->request, err);
    else
        reply_message(exchange->request, route->status ? route->status : 200, answer);
}

static void answered(void *arg, uint64_t tag, const struct error *err,
                     const ProtobufCMessage *answer)
{
    struct exchange *exchange = arg;
    (void)tag;
    struct error over = {0};
    if (exchange->streaming) {
        if (is_over(exchange, &over))
            err = &over;
        if (stream_answer(&exchange->stream, err, answer))
            start_call(exchange, exchange->stream.message, exchange->token, "");
        else
            exchange_free(exchange);
        return;
    }
    reply_whole(exchange, err, answer);
    exchange_free(exchange);
}

static const ProtobufCMethodDescriptor *method_of(const struct exchange *exchange)
{
    if (exchange->streaming && exchange->route->stream == ROUTE_STREAM_JOB)
        return protobuf_c_service_descriptor_get_method_by_name(&muster__coordinator__descriptor,
                                                                "WatchJob");
    return route_call(exchange->route);
}

static void start_call(struct exchange *exchange, const ProtobufCMessage *message,
                       const char *token, const char *idempotency_key)
{
    struct api_rest *api = exchange->api;
    struct service_request request = {
        .method = method_of(exchange),
        .service = "Coordinator",
        .message = message,
        .token = token,
        .idempotency_key = idempotency_key,
        .deadline_ms = loop_now_ms(api->loop) + (exchange->streaming ? STREAM_CALL_MS : CALL_MS),
        .carrier = "rest",
        .peer_address = exchange->peer,
        .answer = answered,
        .arg = exchange,
    };
    service_start(coordinator_service(api->coordinator), &request);
}

/* A stream of a job watches it, from the request that asked for the job. */
static ProtobufCMessage *stream_message(const struct route *route, ProtobufCMessage *message)
{
    if (route->stream != ROUTE_STREAM_JOB)
        return message;
    Muster__WatchJobRequest watch = MUSTER__WATCH_JOB_REQUEST__INIT;
    watch.id = ((Muster__GetJobRequest *)message)->id;
    ProtobufCMessage *copy = rpc_message_copy(&watch.base);
    insist(copy);
    rpc_message_free(message);
    return copy;
}

/* Equal requests in one turn get the same answer. */
static struct exchange *same_read(struct api_rest *api, const struct http_request *request)
{
    struct exchange *other;
    list_each(other, &api->reads, link)
        if (http_asks_the_same(other->request, request))
            return other;
    return NULL;
}

/* A token that is about to expire must not be answered after that. */
static bool token_lasts(struct api_rest *api, const char *token)
{
    const struct store_token *caller;
    const struct clock *clock = &api->env->clock;
    if (service_identify(coordinator_service(api->coordinator), token, &caller, NULL))
        return false;
    return !caller->expires_wall_ms ||
           caller->expires_wall_ms - clock->wall_ms(clock->self) > 2 * SHARED_LIFE_MS;
}

static struct list *list_for(struct exchange *exchange, const char *token)
{
    struct api_rest *api = exchange->api;
    struct exchange *leader = NULL;
    if (exchange->streaming || !exchange->route->shared)
        return &api->exchanges;
    leader = same_read(api, exchange->request);
    exchange->share = !leader && token_lasts(api, token);
    return leader ? &leader->followers : &api->reads;
}

/* Each uses a connection without a time limit. */
static int check_streams(struct api_rest *api, const struct store_token *caller, struct error *err)
{
    struct service *service = coordinator_service(api->coordinator);
    bool admin = access_role(caller->role) == ACCESS_ADMIN;
    int all = 0, own = 0;
    struct exchange *exchange;
    list_each(exchange, &api->exchanges, link) {
        bool live = exchange->streaming && !exchange->stream.ended;
        all += live;
        if (live && exchange->caller == caller)
            own++;
    }
    if (own >= (admin ? MAX_ADMIN_STREAMS : MAX_TOKEN_STREAMS))
        return service_refuse_limit(service, admin ? LIMIT_ADMIN_STREAMS : LIMIT_TOKEN_STREAMS,
                                    err);
    return all >= MAX_STREAMS ? service_refuse_limit(service, LIMIT_STREAMS, err) : 0;
}

static bool streams(const struct route_match *match, const struct http_request *request)
{
    return match->route->stream != ROUTE_NO_STREAM && request_wants_stream(request);
}

static int identify(struct api_rest *api, const struct http_request *request, const char *token,
                    const char *method, const struct store_token **ret, struct error *err)
{
    struct service *service = coordinator_service(api->coordinator);
    char peer[64];
    int rc = service_identify(service, token, ret, err);
    http_peer(request, peer, sizeof(peer));
    if (rc)
        service_audit_stranger(service, &(struct service_stranger){"rest", peer, method}, err);
    return rc;
}

static void handle_call(struct api_rest *api, struct http_request *request,
                        const struct route_match *match)
{
    struct error err = {0};
    const char *token;
    ProtobufCMessage *message = NULL;
    const struct store_token *caller = NULL;
    int rc = visitor_token(api->sessions, request, &token, &err);
    if (!rc && !match->route->open) /* strangers do not learn what is wrong with their words */
        rc = identify(api, request, token, match->route->call ? match->route->call : "", &caller,
                      &err);
    if (!rc && visitor_changes(request) && !(access_role(caller->role) & ACCESS_READERS))
        rc = error_set(&err, E_PERMISSION_DENIED, "a token of role %s changes nothing here",
                       caller->role);
    if (!rc && streams(match, request))
        rc = check_streams(api, caller, &err);
    if (!rc)
        rc = request_message(request, match, &message, &err);
    struct exchange *exchange = rc ? NULL : calloc(1, sizeof(*exchange));
    if (!rc && !exchange)
        error_set(&err, E_RESOURCE_EXHAUSTED, "out of memory");
    if (!exchange) {
        rpc_message_free(message);
        if (http_body_too_large(request) && err.code == E_INVALID_ARGUMENT)
            reply_error_as(request, 413, &err, (struct http_pair){0});
        else
            reply_error(request, &err);
        return;
    }
    exchange->api = api;
    exchange->route = match->route;
    exchange->caller = caller;
    exchange->request = request;
    list_init(&exchange->followers);
    http_peer(request, exchange->peer, sizeof(exchange->peer));
    exchange->streaming = streams(match, request);
    struct list *list = list_for(exchange, token);
    list_push_back(list, &exchange->link);
    if (!exchange->streaming) {
        const char *key = http_header(request, "Idempotency-Key");
        if (list == &api->exchanges || list == &api->reads)
            start_call(exchange, message, token, key ? key : "");
        rpc_message_free(message);
        return;
    }
    (void)token_plain(token, exchange->token);
    if (visitor_bearer(request) || !visitor_session(request, exchange->session))
        exchange->session[0] = 0;
    stream_init(&exchange->stream, match->route, request, stream_message(match->route, message));
    start_call(exchange, exchange->stream.message, exchange->token, "");
}

/* The rest */

static void set_cookie(struct http_request *request, const struct session_keys *keys,
                       int64_t life_s)
{
    char cookie[192], body[SESSION_ID_MAX + 32];
    (void)str_printf(cookie, sizeof(cookie),
                     "%s=%s; HttpOnly; SameSite=Strict; Path=/; Max-Age=%lld%s", visitor_cookie,
                     keys->cookie, (long long)life_s, visitor_is_secure(request) ? "; Secure" : "");
    (void)str_printf(body, sizeof(body), keys->half[0] ? "{\"session\":\"%s\"}\n" : "{}\n",
                     keys->half);
    struct http_answer answer = {
        .status = 200,
        .type = "application/json",
        .body = body,
        .size = strlen(body),
        .headers = {{"Set-Cookie", cookie}, {"Cache-Control", "no-store"}},
    };
    http_reply(request, &answer);
}

static int token_in_body(const struct http_request *request, struct arena *arena, const char **ret,
                         struct error *err)
{
    size_t size;
    struct tree *tree;
    struct tree_input input = {.text = http_body(request, &size), .limits = {.bytes = 4096}};
    input.size = size;
    int rc = tree_parse_json(&input, arena, &tree, err);
    if (rc || http_body_too_large(request))
        return error_set(err, E_INVALID_ARGUMENT, "the body must be {\"token\": \"mst_...\"}");
    struct tree *token = tree_get(tree, "token");
    if (token && tree->count > 1)
        return error_set(err, E_INVALID_ARGUMENT, "the body must be {\"token\": \"mst_...\"}");
    if (!token)
        return tree_fail(tree, err, "token: missing");
    return tree_read_string(token, ret, err);
}

static void handle_login(struct api_rest *api, struct http_request *request)
{
    struct error err = {0};
    struct arena arena;
    const char *token;
    const struct store_token *caller = NULL;
    struct session_keys keys;
    arena_init(&arena, 1 << 16);
    int rc = visitor_check_form(request, &err);
    if (!rc)
        rc = token_in_body(request, &arena, &token, &err);
    if (!rc)
        rc = identify(api, request, token, "login", &caller, &err);
    if (!rc && !(access_role(caller->role) & ACCESS_READERS))
        rc = error_set(&err, E_PERMISSION_DENIED, "a token of role %s cannot log in", caller->role);
    if (!rc) {
        struct session_owner owner = {token, caller->id, access_role(caller->role) == ACCESS_ADMIN};
        rc = session_open(api->sessions, &owner, &keys, &err);
    }
    if (!rc)
        set_cookie(request, &keys, SESSION_LIFE_MS / 1000);
    else
        reply_error(request, &err);
    arena_fini(&arena);
}

/* Inform streams of ended sessions now; the answer of their pending call is dropped. */
static void end_streams(struct api_rest *api)
{
    struct error over = {0};
    struct exchange *exchange;
    list_each(exchange, &api->exchanges, link)
        if (exchange->streaming && !exchange->stream.ended && is_over(exchange, &over))
            stream_close(&exchange->stream, &over);
}

/* Otherwise the streams of clients that have left keep their places until the next ping. */
static void end_left_streams(void *arg)
{
    struct api_rest *api = arg;
    struct error left = {0};
    struct exchange *exchange;
    error_set(&left, E_UNAVAILABLE, "the client has left");
    list_each(exchange, &api->exchanges, link)
        if (exchange->streaming && !exchange->stream.ended && http_stream_left(exchange->request))
            stream_close(&exchange->stream, &left);
    loop_timer_set(api->loop, &api->look, loop_now_ms(api->loop) + STREAM_LOOK_MS, end_left_streams,
                   api);
}

static void handle_logout(struct api_rest *api, struct http_request *request)
{
    static const struct session_keys none;
    struct error err = {0};
    char id[SESSION_ID_MAX];
    if (visitor_check_form(request, &err)) {
        reply_error(request, &err);
        return;
    }
    if (visitor_session(request, id)) {
        session_close(api->sessions, id);
        http_changed(api->http);
        end_streams(api);
    }
    set_cookie(request, &none, 0);
}

static void handle_ready(struct api_rest *api, struct http_request *request)
{
    const char *why;
    struct error err = {0};
    if (coordinator_ready(api->coordinator, &why)) {
        reply_text(request, 200, "text/plain", "ok\n");
        return;
    }
    error_set(&err, E_UNAVAILABLE, "changes cannot be stored: %s", why);
    reply_error(request, &err);
}

static void handle_metrics(struct api_rest *api, struct http_request *request)
{
    struct error err = {0};
    const char *token;
    const struct store_token *caller = NULL;
    struct service *service = coordinator_service(api->coordinator);
    int rc = visitor_token(api->sessions, request, &token, &err);
    if (!rc)
        rc = identify(api, request, token, "metrics", &caller, &err);
    if (!rc && !(access_role(caller->role) & ACCESS_READERS))
        rc = error_set(&err, E_PERMISSION_DENIED, "a token of role %s reads no metrics",
                       caller->role);
    if (rc) {
        reply_error(request, &err);
        return;
    }
    struct service_stats stats;
    uint64_t refused[LIMIT_COUNT];
    struct buf out;
    buf_init(&out, RENDER_MAX_BYTES);
    service_stats(service, &stats);
    stats.shared = http_shared_answers(api->http);
    memcpy(refused, stats.refused, sizeof(refused));
    http_closed(api->http, &refused[LIMIT_HTTP_CONNECTIONS], &refused[LIMIT_HTTP_REQUEST_S]);
    stats.refused = refused;
    (void)prometheus_render(
        coordinator_cluster(api->coordinator), &stats, coordinator_ready(api->coordinator, NULL),
        access_role_bound(access_role(caller->role)) ? caller->tenant : NULL, &out);
    reply_text(request, 200, "text/plain; version=0.0.4; charset=utf-8", buf_cstr(&out));
    buf_fini(&out);
}

static void handle_openapi(struct http_request *request)
{
    struct buf out;
    buf_init(&out, RENDER_MAX_BYTES);
    (void)openapi_render("v1", &out);
    reply_text(request, 200, "application/json", buf_cstr(&out));
    buf_fini(&out);
}

static void refuse_path(struct http_request *request, const struct route_match *match)
{
    struct error err = {0};
    if (match->allow[0]) {
        error_set(&err, E_UNIMPLEMENTED, "%.16s is not offered on this path", http_method(request));
        error_hint(&err, "allowed: %s", match->allow);
        reply_error_as(request, 405, &err, (struct http_pair){"Allow", match->allow});
        return;
    }
    const char *nearest = route_nearest(http_path(request));
    error_set(&err, E_NOT_FOUND, "nothing is at %.200s", http_path(request));
    if (nearest)
        error_hint(&err, "did you mean %s? /openapi.json lists all paths", nearest);
    else
        error_hint(&err, "/openapi.json lists all paths");
    reply_error(request, &err);
}

/* A page that a browser loaded by a foreign name may be led to our address afterwards, and then is
 * of our origin to the browser. Tokens it has none, and probes ask by whatever name. */
static bool led_here(const struct api_rest *api, const struct http_request *request,
                     const struct route_match *match)
{
    bool probe =
        match->route && (match->route->kind == ROUTE_HEALTH || match->route->kind == ROUTE_READY);
    return !visitor_bearer(request) && !probe && !visitor_host_known(request, api->hosts);
}

static void refuse_host(struct http_request *request)
{
    struct error err = {0};
    error_set(&err, E_PERMISSION_DENIED, "this server is not known by the name '%.80s'",
              http_header(request, "Host"));
    error_hint(&err, "muster coordinator --http-host NAME makes it known; addresses and localhost "
                     "always are");
    reply_error_as(request, 421, &err, (struct http_pair){0});
}

static void handle(void *arg, struct http_request *request)
{
    struct api_rest *api = arg;
    struct route_match match;
    route_find(http_method(request), http_path(request), &match);
    if (led_here(api, request, &match)) {
        refuse_host(request);
        return;
    }
    if (page_reply(request))
        return;
    if (!match.route) {
        refuse_path(request, &match);
        return;
    }
    switch (match.route->kind) {
    case ROUTE_CALL:
        handle_call(api, request, &match);
        return;
    case ROUTE_LOGIN:
        handle_login(api, request);
        return;
    case ROUTE_LOGOUT:
        handle_logout(api, request);
        return;
    case ROUTE_HEALTH:
        reply_text(request, 200, "text/plain", "ok\n");
        return;
    case ROUTE_READY:
        handle_ready(api, request);
        return;
    case ROUTE_METRICS:
        handle_metrics(api, request);
        return;
    case ROUTE_OPENAPI:
        handle_openapi(request);
        return;
    }
}

static uint64_t owner_of(void *arg, const struct http_request *request)
{
    struct api_rest *api = arg;
    return visitor_owner_key(api->sessions, coordinator_service(api->coordinator), request);
}

int api_rest_new(const struct api_rest_options *options, struct env *env, struct loop *loop,
                 struct coordinator *coordinator, struct api_rest **ret, struct error *err)
{
    struct api_rest *api = calloc(1, sizeof(*api));
    if (!api)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    api->env = env;
    api->loop = loop;
    api->coordinator = coordinator;
    api->log = options->log;
    api->hosts = options->hosts;
    list_init(&api->exchanges);
    list_init(&api->reads);
    struct http_options http = {.address = options->address, .tls = options->tls};
    http.handler = handle;
    http.owner_of = owner_of;
    http.arg = api;
    int rc = sessions_new(env, options->data_dir, &api->sessions, err);
    if (!rc)
        rc = http_new(loop, &http, &api->http, err);
    if (rc) {
        api_rest_free(api);
        return rc;
    }
    service_on_change(coordinator_service(coordinator), changed, api);
    loop_timer_set(loop, &api->look, loop_now_ms(loop) + STREAM_LOOK_MS, end_left_streams, api);
    *ret = api;
    return 0;
}

const char *api_rest_url(const struct api_rest *api)
{
    return http_url(api->http);
}

void api_rest_free(struct api_rest *api)
{
    if (!api)
        return;
    service_on_change(coordinator_service(api->coordinator), NULL, NULL);
    loop_timer_cancel(api->loop, &api->stale);
    loop_timer_cancel(api->loop, &api->look);
    http_free(api->http);
    while (!list_empty(&api->exchanges))
        exchange_free(list_first(&api->exchanges, struct exchange, link));
    while (!list_empty(&api->reads))
        exchange_free(list_first(&api->reads, struct exchange, link));
    sessions_free(api->sessions);
    free(api);
}
