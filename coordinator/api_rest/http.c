#include "coordinator/api_rest/http.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/murmur3.h"
#include "common/base/str.h"
#include "coordinator/api_rest/http_address.h"
#include "coordinator/api_rest/http_framing.h"
#include "coordinator/api_rest/http_internal.h"

enum { REQUEST_ARENA_MAX_BYTES = 256 << 10, STREAM_BLOCK_BYTES = 16 << 10 };

static void release_request(struct http_request *request)
{
    struct http *http = request->http;
    pthread_mutex_lock(&http->mutex);
    bool last = --request->references == 0;
    if (last)
        list_remove(&request->link);
    pthread_mutex_unlock(&http->mutex);
    if (!last)
        return;
    if (request->response)
        MHD_destroy_response(request->response);
    http_content_unref(request->content);
    arena_fini(&request->arena);
    buf_fini(&request->body);
    buf_fini(&request->stream);
    free(request);
}

/* With the mutex held. */
static void wake_request(struct http_request *request)
{
    if (request->suspended && !request->gone) {
        request->suspended = false;
        MHD_resume_connection(request->connection);
    }
}

/* HTTP thread */

static struct http_request *request_new(struct http *http, struct MHD_Connection *connection)
{
    struct http_request *request = calloc(1, sizeof(*request));
    if (!request)
        return NULL;
    request->http = http;
    request->connection = connection;
    request->references = 1;
    list_init(&request->turn);
    arena_init(&request->arena, REQUEST_ARENA_MAX_BYTES);
    buf_init(&request->body, HTTP_BODY_MAX_BYTES);
    buf_init(&request->stream, HTTP_STREAM_BACKLOG_MAX_BYTES);
    pthread_mutex_lock(&http->mutex);
    list_push_back(&http->requests, &request->link);
    pthread_mutex_unlock(&http->mutex);
    return request;
}

/* The first callback of a request, with its line as received; the result stays attached to it. */
static void *on_uri(void *self, const char *uri, struct MHD_Connection *connection)
{
    struct http_request *request = request_new(self, connection);
    if (request)
        request->uri = arena_strdup(&request->arena, uri);
    return request;
}

static enum MHD_Result add_query(void *arg, enum MHD_ValueKind kind, const char *key,
                                 const char *value)
{
    struct http_request *request = arg;
    (void)kind;
    struct http_pair pair = {arena_strdup(&request->arena, key),
                             arena_strdup(&request->arena, value ? value : "")};
    if (request->query_count == HTTP_FIELDS_MAX || !pair.key || !pair.value) {
        request->failed = true;
        return MHD_NO;
    }
    request->query[request->query_count++] = pair;
    return MHD_YES;
}

static enum MHD_Result add_header(void *arg, enum MHD_ValueKind kind, const char *key,
                                  const char *value)
{
    struct http_request *request = arg;
    (void)kind;
    struct http_pair pair = {arena_strdup(&request->arena, key),
                             arena_strdup(&request->arena, value ? value : "")};
    if (request->headers_count == HTTP_FIELDS_MAX || !pair.key || !pair.value)
        return MHD_NO; /* more than the framing's check lets through */
    request->headers[request->headers_count++] = pair;
    return MHD_YES;
}

static void handle(void *arg, struct list *turn)
{
    struct http_request *request = list_entry(turn, struct http_request, turn);
    (void)arg;
    request->epoch = http_shared_epoch(&request->http->shared);
    request->http->handler(request->http->arg, request);
}

static uint64_t owner_of(struct http_request *request)
{
    struct http *http = request->http;
    uint64_t owner = http->owner_of ? http->owner_of(http->arg, request) : 0, digest[2];
    if (owner)
        return owner;
    murmur3(request->peer, strlen(request->peer), digest);
    return digest[0];
}

static void handle_on_loop(void *arg)
{
    struct http_request *request = arg;
    fair_ready(&request->http->fair, owner_of(request), &request->turn);
}

static enum MHD_Result send_content(const struct http_request *request,
                                    struct http_content *content)
{
    enum MHD_Result result = http_content_queue(content, request->connection);
    http_content_unref(content);
    return result;
}

/* Before the loop gets it: the request exceeds the limits of all routes. */
static enum MHD_Result refuse_request(struct http_request *request, int status, const char *text)
{
    struct http_answer answer = {
        .status = status, .type = "application/json", .body = text, .size = strlen(text)};
    struct http_content *content = http_content_new(&answer, &request->http->refusals);
    return content ? send_content(request, content) : MHD_NO;
}

static const char too_long[] =
    "{\"error\":{\"code\":\"INVALID_ARGUMENT\",\"message\":\"the path or its parameters are too "
    "long\",\"field\":\"\",\"hint\":\"1024 bytes of path and 64 parameters at most\"}}\n";
static const char *header_of(const struct http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

/* May what it asks be answered as others were that asked the same? Then its key is set. */
static bool may_share(struct http_request *request, const char *method)
{
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 || request->received > 0 || !request->uri)
        return false;
    const char *accept = header_of(request, MHD_HTTP_HEADER_ACCEPT);
    if (accept && strstr(accept, "text/event-stream"))
        return false;
    struct http_shared_question question = {
        .uri = request->uri,
        .authorization = header_of(request, MHD_HTTP_HEADER_AUTHORIZATION),
        .cookie = header_of(request, MHD_HTTP_HEADER_COOKIE),
        .session = header_of(request, "X-Muster-Session"),
        .host = header_of(request, MHD_HTTP_HEADER_HOST),
    };
    http_shared_key(&question, request->key);
    return true;
}

static struct http_content *find_answer(struct http_request *request, const char *method)
{
    return may_share(request, method) ? http_shared_find(&request->http->shared, request->key)
                                      : NULL;
}

/* The whole request is here: the connection sleeps, the loop gets it. */
static enum MHD_Result hand_over(struct http_request *request, const char *method, const char *path)
{
    struct http *http = request->http;
    guard_peer(request->connection, request->peer);
    request->method = arena_strdup(&request->arena, method);
    request->path = arena_strdup(&request->arena, path);
    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, add_query, request);
    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, add_header, request);
    if (request->failed || !request->method || !request->path || strlen(path) > HTTP_PATH_MAX)
        return refuse_request(request, MHD_HTTP_URI_TOO_LONG, too_long);
    pthread_mutex_lock(&http->mutex);
    bool closing = http->closing;
    if (!closing) {
        request->posted = true;
        request->references++;
        request->suspended = true;
        MHD_suspend_connection(request->connection);
    }
    pthread_mutex_unlock(&http->mutex);
    if (closing)
        return MHD_NO;
    loop_post(http->loop, handle_on_loop, request);
    return MHD_YES;
}

static enum MHD_Result send_response(struct http_request *request)
{
    struct http *http = request->http;
    pthread_mutex_lock(&http->mutex);
    struct MHD_Response *response = request->response;
    struct http_content *content = request->content;
    request->response = NULL;
    request->content = NULL;
    pthread_mutex_unlock(&http->mutex);
    if (content)
        return send_content(request, content);
    if (!response)
        return MHD_NO; /* we are closing */
    enum MHD_Result result =
        MHD_queue_response(request->connection, (unsigned)request->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *self, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *ret_upload_size, void **ret_state)
{
    (void)self;
    struct http_request *request = *ret_state;
    if (!request)
        return MHD_NO; /* there was no memory for it */
    if (!request->begun) {
        int status;
        struct http_line line = {method, request->uri, version};
        const char *fault = http_framing_fault(connection, &line, &status);
        request->begun = true;
        guard_request(&request->http->guard, request->connection, GUARD_BODY);
        return fault ? refuse_request(request, status, fault) : MHD_YES;
    }
    if (*ret_upload_size > 0) {
        request->received += *ret_upload_size;
        if (request->received > HTTP_DISCARD_MAX_BYTES)
            return MHD_NO;
        if (buf_append(&request->body, upload, *ret_upload_size))
            request->too_large = true;
        *ret_upload_size = 0;
        return MHD_YES;
    }
    if (request->posted)
        return send_response(request);
    guard_request(&request->http->guard, request->connection, GUARD_BUSY);
    struct http_content *known = find_answer(request, method);
    return known ? send_content(request, known) : hand_over(request, method, url);
}

static void gone_on_loop(void *arg)
{
    struct http_request *request = arg;
    if (request->on_gone)
        request->on_gone(request->on_gone_arg);
    release_request(request);
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    (void)connection;
    (void)why;
    struct http *http = arg;
    struct http_request *request = *state;
    if (!request)
        return;
    *state = NULL;
    guard_request(&request->http->guard, request->connection, GUARD_IDLE);
    pthread_mutex_lock(&http->mutex);
    request->gone = true;
    request->suspended = false;
    bool tell = request->references > 1 && !http->closing;
    pthread_mutex_unlock(&http->mutex);
    if (tell)
        loop_post(http->loop, gone_on_loop, request); /* with our reference */
    else
        release_request(request);
}

static ssize_t read_stream(void *arg, uint64_t position, char *to, size_t max)
{
    struct http_request *request = arg;
    (void)position;
    pthread_mutex_lock(&request->http->mutex);
    size_t left = request->stream.size - request->stream_sent;
    ssize_t result = 0;
    if (left > 0) {
        size_t take = left < max ? left : max;
        memcpy(to, request->stream.data + request->stream_sent, take);
        request->stream_sent += take;
        if (request->stream_sent == request->stream.size) {
            buf_clear(&request->stream);
            request->stream_sent = 0;
        }
        result = (ssize_t)take;
    } else if (request->ended || request->http->closing) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        request->suspended = true;
        MHD_suspend_connection(request->connection);
    }
    pthread_mutex_unlock(&request->http->mutex);
    return result;
}

/* Loop thread */

static struct MHD_Response *add_headers(struct MHD_Response *response,
                                        const struct http_answer *answer)
{
    if (!response)
        return NULL;
    if (answer->type)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
    for (const struct http_pair *pair = answer->headers; pair->key; pair++)
        MHD_add_response_header(response, pair->key, pair->value);
    return response;
}

void http_changed(struct http *http)
{
    http_shared_clear(&http->shared);
}

void http_closed(struct http *http, uint64_t *ret_evicted, uint64_t *ret_late)
{
    pthread_mutex_lock(&http->guard.mutex);
    *ret_evicted = http->guard.evicted;
    *ret_late = http->guard.late;
    pthread_mutex_unlock(&http->guard.mutex);
}

uint64_t http_shared_answers(struct http *http)
{
    return http_shared_served(&http->shared);
}

bool http_asks_the_same(const struct http_request *a, const struct http_request *b)
{
    return a->key[0] && a->epoch == b->epoch && strcmp(a->key, b->key) == 0;
}

struct http_content *http_prepare(struct http_request *request, const struct http_answer *answer)
{
    static const char text[] = "{\"error\":{\"code\":\"RESOURCE_EXHAUSTED\",\"message\":\"too many "
                               "answers wait for clients that read slowly\"}}\n";
    static const struct http_answer busy = {
        .status = MHD_HTTP_SERVICE_UNAVAILABLE,
        .type = "application/json",
        .body = text,
        .size = sizeof(text) - 1,
        .headers = {{"Cache-Control", "no-store"}, {"Retry-After", "1"}},
    };
    struct http_content *content = http_content_new(answer, &request->http->memory);
    return content ? content : http_content_new(&busy, &request->http->refusals);
}

void http_reply_with(struct http_request *request, struct http_content *content, bool share)
{
    if (share && content && request->key[0])
        http_shared_put(&request->http->shared, request->key, request->epoch, content);
    pthread_mutex_lock(&request->http->mutex);
    request->content = content ? http_content_ref(content) : NULL; /* without one it is closed */
    wake_request(request);
    pthread_mutex_unlock(&request->http->mutex);
    release_request(request);
}

void http_reply(struct http_request *request, const struct http_answer *answer)
{
    struct http_content *content = http_prepare(request, answer);
    http_reply_with(request, content, false);
    http_content_unref(content);
}

void http_stream(struct http_request *request, const struct http_answer *answer,
                 void (*on_gone)(void *arg), void *arg)
{
    request->on_gone = on_gone;
    request->on_gone_arg = arg;
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, read_stream, request, NULL);
    pthread_mutex_lock(&request->http->mutex);
    request->response = add_headers(response, answer);
    request->status = answer->status;
    wake_request(request);
    pthread_mutex_unlock(&request->http->mutex);
}

bool http_stream_write(struct http_request *request, const void *data, size_t size)
{
    pthread_mutex_lock(&request->http->mutex);
    bool good = !request->gone && !buf_append(&request->stream, data, size);
    if (good)
        wake_request(request);
    pthread_mutex_unlock(&request->http->mutex);
    return good;
}

void http_stream_end(struct http_request *request)
{
    request->on_gone = NULL;
    pthread_mutex_lock(&request->http->mutex);
    request->ended = true;
    wake_request(request);
    pthread_mutex_unlock(&request->http->mutex);
    release_request(request);
}

bool http_stream_left(struct http_request *request)
{
    const union MHD_ConnectionInfo *info;
    struct pollfd end = {.fd = -1, .events = POLLRDHUP};
    pthread_mutex_lock(&request->http->mutex);
    if (!request->gone) { /* so its descriptor is still its own */
        info = MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        end.fd = info ? info->connect_fd : -1;
    }
    bool left = request->gone || poll(&end, 1, 0) > 0;
    pthread_mutex_unlock(&request->http->mutex);
    return left;
}

/* Start and end */

/* MHD's messages about broken clients do not belong in our log. */
static void silent(void *arg, const char *fmt, va_list ap)
{
    (void)arg;
    (void)fmt;
    (void)ap;
}

static void sweep_connections(void *arg)
{
    struct http *http = arg;
    guard_sweep(&http->guard);
    loop_timer_set(http->loop, &http->sweep, loop_now_ms(http->loop) + GUARD_SWEEP_MS,
                   sweep_connections, http);
}

static struct MHD_Daemon *listen_on(struct http *http, const struct http_address *address)
{
    unsigned flags = MHD_USE_EPOLL | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                     MHD_USE_ERROR_LOG | (address->is_v6 ? MHD_USE_IPv6 : 0) |
                     (http->tls ? MHD_USE_TLS : 0);
    return MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER, silent, NULL,
        MHD_OPTION_SOCK_ADDR, &address->any, MHD_OPTION_URI_LOG_CALLBACK, on_uri, http,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_NOTIFY_CONNECTION,
        guard_on_connection, &http->guard, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_CONNECTION_LIMIT, guard_connections_max(), MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)HTTP_IDLE_TIMEOUT_S, MHD_OPTION_HTTPS_CERT_CALLBACK2, tls_web_no_certificate,
        MHD_OPTION_END);
}

static int start_server(struct http *http, const struct http_options *options, struct error *err)
{
    struct http_address address;
    const char *scheme = options->tls ? "https" : "http";
    int rc = http_address_parse(options->address, &address, err);
    if (!rc && options->tls)
        rc = tls_identity_new(options->tls, &http->identity, err);
    if (!rc && options->tls)
        rc = tls_web_new(http->identity, &http->tls, err);
    if (rc)
        return rc;
    http->guard.tls = http->tls;
    errno = 0;
    http->daemon = listen_on(http, &address);
    if (!http->daemon) {
        error_set(err, E_UNAVAILABLE, "cannot listen on %s://%s: %s", scheme, options->address,
                  errno ? strerror(errno) : "unknown reason");
        error_hint(err, "is another program using that port? --http HOST:0 uses a free one");
        return E_UNAVAILABLE;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
    (void)str_printf(http->url, sizeof(http->url), address.is_v6 ? "%s://[%s]:%u" : "%s://%s:%u",
                     scheme, address.host, info ? info->port : 0u);
    return 0;
}

/* What http_new made before it listened. */
static void release_all(struct http *http)
{
    guard_fini(&http->guard);
    http_shared_fini(&http->shared);
    pthread_mutex_destroy(&http->mutex);
    tls_web_free(http->tls);
    tls_identity_free(http->identity);
    free(http);
}

int http_new(struct loop *loop, const struct http_options *options, struct http **ret,
             struct error *err)
{
    struct http *http = calloc(1, sizeof(*http));
    if (!http)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    http->loop = loop;
    http->handler = options->handler;
    http->arg = options->arg;
    http->owner_of = options->owner_of;
    fair_init(&http->fair, loop, HTTP_TURN_MS, handle, NULL);
    list_init(&http->requests);
    pthread_mutex_init(&http->mutex, NULL);
    guard_init(&http->guard);
    http_shared_init(&http->shared);
    http->refusals.max_bytes = SIZE_MAX;
    http->memory.max_bytes =
        options->unread_max_bytes ? options->unread_max_bytes : (size_t)HTTP_UNREAD_MAX_BYTES;
    int rc = start_server(http, options, err);
    if (rc) {
        release_all(http);
        return rc;
    }
    sweep_connections(http);
    *ret = http;
    return 0;
}

const char *http_url(const struct http *http)
{
    return http->url;
}

void http_free(struct http *http)
{
    if (!http)
        return;
    pthread_mutex_lock(&http->mutex);
    http->closing = true;
    struct http_request *request;
    list_each(request, &http->requests, link)
        wake_request(request);
    pthread_mutex_unlock(&http->mutex);
    loop_timer_cancel(http->loop, &http->sweep);
    fair_fini(&http->fair);
    MHD_stop_daemon(http->daemon);
    while (!list_empty(&http->requests)) { /* what the loop thread held */
        request = list_first(&http->requests, struct http_request, link);
        request->references = 1;
        release_request(request);
    }
    release_all(http);
}
