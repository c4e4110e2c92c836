/* The HTTP server and its requests from inside; only for http.c and http_fields.c. */
#ifndef API_REST_HTTP_INTERNAL_H
#define API_REST_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/list.h"
#include "common/loop/fair.h"
#include "common/loop/loop.h"
#include "coordinator/api_rest/http_answer.h"
#include "coordinator/api_rest/http_content.h"
#include "coordinator/api_rest/http_guard.h"
#include "coordinator/api_rest/http_limits.h"
#include "coordinator/api_rest/http_shared.h"

struct http_request;

struct http {
    struct loop *loop;
    void (*handler)(void *arg, struct http_request *request);
    uint64_t (*owner_of)(void *arg, const struct http_request *request);
    struct fair fair;
    void *arg;
    struct MHD_Daemon *daemon;
    char url[96];
    struct guard guard;
    struct loop_timer sweep;
    struct tls_identity *identity; /* NULL: plain HTTP */
    struct tls_web *tls;
    struct http_shared shared;
    struct http_memory memory, refusals; /* of answers; of refusals for lack of it */
    pthread_mutex_t mutex;               /* guards what follows and the shared half of requests */
    struct list requests;                /* all that live */
    bool closing;
};

struct http_request {
    struct http *http;
    struct list link;
    struct MHD_Connection *connection;
    /* Filled by the HTTP thread before the loop sees the request; read only after. */
    struct arena arena;
    struct buf body;
    size_t received;
    const char *uri, *method, *path;
    char key[SHA256_HEX_BYTES]; /* "" = its answer is not shared */
    char peer[INET6_ADDRSTRLEN];
    struct http_pair query[HTTP_FIELDS_MAX];
    int query_count;
    struct http_pair headers[HTTP_FIELDS_MAX];
    int headers_count;
    bool begun, too_large, failed, posted;
    /* Shared, under the mutex. */
    int references; /* the HTTP thread's and the loop thread's */
    bool suspended, gone, ended;
    struct http_content *content;  /* whole, */
    struct MHD_Response *response; /* or a stream's */
    int status;
    struct buf stream;
    size_t stream_sent;
    /* Loop thread. */
    struct list turn; /* in http->fair, until it is handled */
    uint64_t epoch;   /* in which it was let in */
    void (*on_gone)(void *arg);
    void *on_gone_arg;
};

#endif
