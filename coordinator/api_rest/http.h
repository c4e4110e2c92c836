/* An HTTP/1.1 server, plain or over TLS, on libmicrohttpd (its only user), bridged to the loop. Its
 * own thread reads whole requests (bodies are bounded) and posts each to the loop. The connection
 * sleeps until the loop thread has answered. Answers are whole, or streams that the loop thread
 * feeds.
 *
 *      HTTP thread: receive ─► loop_post ─┐          ┌─► send
 *      loop thread:       (in turns) http_handler ─► http_reply
 *                                               └─► http_stream, http_stream_write..., _end
 *      HTTP thread: receive ─► answered before, and nothing has changed since ─► send
 *
 * The handler has HTTP_TURN_MS of each turn of the loop, shared between the owners of requests
 * (loop/fair.h).
 *
 * A request belongs to the handler until it replied, or ended its stream. Everything below is for
 * the loop thread. Malformed requests never reach the handler.
 */
#ifndef API_REST_HTTP_H
#define API_REST_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "coordinator/api_rest/http_answer.h"
#include "coordinator/api_rest/http_limits.h"

struct loop;
struct http;
struct http_request;

typedef void (*http_handler)(void *arg, struct http_request *request);

struct http_options {
    const char *address; /* "127.0.0.1:7480", "[::1]:0", "localhost:0" */
    http_handler handler;
    void *arg;
    /* The owner of the request's time; 0: its address. NULL: all share. Loop thread. */
    uint64_t (*owner_of)(void *arg, const struct http_request *request);
    const char *tls;         /* file of the key to show (tls_key.h); NULL: plain HTTP */
    size_t unread_max_bytes; /* 0 = HTTP_UNREAD_MAX_BYTES */
};

/* E_INVALID_ARGUMENT: no address; E_UNAVAILABLE: it cannot be listened on. */
int http_new(struct loop *loop, const struct http_options *options, struct http **ret,
             struct error *err);
/* "http://127.0.0.1:7480" or "https://...", with the real port. */
const char *http_url(const struct http *http);

/* Ends every stream and request, waits for the thread. Unanswered requests become invalid and must
 * not be used any more. NULL is allowed. */
void http_free(struct http *http);

const char *http_method(const struct http_request *request);
const char *http_path(const struct http_request *request); /* decoded, without the query */
const char *http_header(const struct http_request *request, const char *name); /* or NULL */
const char *http_cookie(const struct http_request *request, const char *name); /* or NULL */
const struct http_pair *http_query(const struct http_request *request, int *ret_count);
const char *http_body(const struct http_request *request, size_t *ret_size);
/* The client's address without its port, "" if it is not known. */
void http_peer(const struct http_request *request, char *ret, size_t size);
bool http_body_too_large(const struct http_request *request);
bool http_is_tls(const struct http_request *request); /* it arrived over TLS */

/* The request is invalid afterwards. Texts of a KiB or more are compressed for clients that accept
 * gzip. */
void http_reply(struct http_request *request, const struct http_answer *answer);

/* An answer for several requests, or for later equal ones (the same address with the same
 * credentials). With `share` the HTTP thread repeats it by itself until http_changed. It must be
 * valid for each of them. */
struct http_content *http_prepare(struct http_request *request, const struct http_answer *answer);
void http_reply_with(struct http_request *request, struct http_content *content, bool share);

/* Both ask the same, and nothing has changed between them. */
bool http_asks_the_same(const struct http_request *a, const struct http_request *b);

/* Stop repeating all earlier answers, also for requests admitted before. Call it before any client
 * learns of a change, and when a session or a token ends. */
void http_changed(struct http *http);
uint64_t http_shared_answers(struct http *http); /* given by the HTTP thread alone so far */
/* Connections that made room for others, and that made no request in time, so far. */
void http_closed(struct http *http, uint64_t *ret_evicted, uint64_t *ret_late);

/* Begin a stream (status and headers of `answer`; its body is ignored). `on_gone` is called when
 * the client has left; http_stream_end must still be called. */
void http_stream(struct http_request *request, const struct http_answer *answer,
                 void (*on_gone)(void *arg), void *arg);
/* False if the client has left or is too slow: end the stream. */
bool http_stream_write(struct http_request *request, const void *data, size_t size);
void http_stream_end(struct http_request *request); /* the request is invalid afterwards */
/* True if the client of a stream has closed its end. on_gone is called only at the next send. */
bool http_stream_left(struct http_request *request);

#endif
