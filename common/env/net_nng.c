#include "common/env/net_nng.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/tls/tls.h>

#include "common/base/assert.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/base/str.h"
#include "common/loop/loop.h"

enum {
    RECONNECT_MIN_MS = 50,
    RECONNECT_MAX_MS = 1000,
    CONNECT_WAIT_MS = 250,       /* a call made while not connected waits this long for it */
    SILENCE_MS = 5000,           /* a call this long, expired in silence, ends its connection */
    STUCK_ANSWER_MS = 30000,     /* a peer that does not read its answer is disconnected */
    SWEEP_MS = 5000,
    CONTEXTS_READY = 8,          /* receiving at any time, below max_in_flight */
    ANSWERS_UNREAD_MAX = 1024,   /* then the dialer stops reading until the loop caught up */
    SP_HEADER_BYTES = 64,        /* request ids in front of a message */
    TLS_FILE_MAX = 256,
};

static const uint32_t request_id_mark = 0x80000000u; /* SP: the last id of a header has it */

struct net_nng;

/* Something that happened on a thread of NNG, to be handled on the loop. */
struct happening {
    struct list link;
    void (*handle)(struct happening *self);
};

struct net_nng {
    struct loop *loop;
    pthread_mutex_t lock; /* the inbox; never held while calling NNG */
    struct list inbox;
    bool waking;   /* a drain is in the loop's mailbox */
    bool silenced; /* after net_nng_fini */
};

static void inbox_drain(void *arg)
{
    struct net_nng *net = arg;
    struct list batch;
    list_init(&batch);
    pthread_mutex_lock(&net->lock);
    list_splice_back(&batch, &net->inbox);
    net->waking = false;
    pthread_mutex_unlock(&net->lock);
    struct happening *it;
    while ((it = list_first(&batch, struct happening, link))) {
        list_remove(&it->link);
        it->handle(it);
    }
}

/* Any thread. The post is made under the lock so that none can follow net_nng_fini. */
static void inbox_push(struct net_nng *net, struct happening *it)
{
    pthread_mutex_lock(&net->lock);
    list_push_back(&net->inbox, &it->link);
    if (!net->waking && !net->silenced) {
        net->waking = true;
        loop_post(net->loop, inbox_drain, net);
    }
    pthread_mutex_unlock(&net->lock);
}

static int code_of_nng(int rv)
{
    switch (rv) {
    case 0:
        return 0;
    case NNG_ENOMEM:
    case NNG_ENOFILES:
        return E_RESOURCE_EXHAUSTED;
    case NNG_EADDRINUSE:
        return E_ALREADY_EXISTS;
    case NNG_EADDRINVAL:
    case NNG_EINVAL:
        return E_INVALID_ARGUMENT;
    case NNG_EPERM:
        return E_PERMISSION_DENIED;
    case NNG_ENOTSUP:
        return E_UNIMPLEMENTED;
    default:
        return E_UNAVAILABLE;
    }
}

static int fail_nng(struct error *err, int rv, const char *what, const char *url)
{
    return error_set(err, code_of_nng(rv), "%s %s: %s", what, url, nng_strerror(rv));
}

/* An url apart from the query that names TLS files. */
struct address {
    char url[NET_URL_MAX];
    char ca[TLS_FILE_MAX];
    char cert[TLS_FILE_MAX];
};

static int address_parse(const char *text, struct address *ret, struct error *err)
{
    if (!str_starts(text, "tcp://") && !str_starts(text, "tls+tcp://") &&
        !str_starts(text, "ipc://")) {
        error_set(err, E_INVALID_ARGUMENT, "\"%.200s\" is no address", text);
        error_hint(err, "write tcp://host:port, tls+tcp://host:port or ipc:///path");
        return E_INVALID_ARGUMENT;
    }
    memset(ret, 0, sizeof(*ret));
    const char *query = strchr(text, '?');
    size_t length = query ? (size_t)(query - text) : strlen(text);
    if (length >= sizeof(ret->url))
        return error_set(err, E_INVALID_ARGUMENT, "the address is longer than %d bytes",
                         NET_URL_MAX - 1);
    memcpy(ret->url, text, length);
    struct str rest = str_of(query ? query + 1 : ""), part;
    while (str_next(&rest, '&', &part)) {
        bool is_ca = part.size > 3 && !memcmp(part.data, "ca=", 3);
        bool is_cert = part.size > 5 && !memcmp(part.data, "cert=", 5);
        size_t skip = is_ca ? 3 : 5;
        if ((!is_ca && !is_cert) || part.size - skip >= TLS_FILE_MAX)
            return error_set(err, E_INVALID_ARGUMENT,
                             "\"%.*s\" in an address: ca=FILE or cert=FILE is understood",
                             (int)part.size, part.data);
        memcpy(is_ca ? ret->ca : ret->cert, part.data + skip, part.size - skip);
    }
    return 0;
}

/* ---- listener ---- */

struct net_listener {
    struct net_nng *net;
    nng_socket socket;
    nng_listener listener;
    char url[NET_URL_MAX];
    int max_in_flight;
    net_request_fn on_request;
    net_gone_fn on_gone;
    void *arg;
    bool closed;         /* loop thread, as all above */
    struct map open;     /* request number -> struct context */
    uint64_t last_request;
    struct loop_timer sweep;
    pthread_mutex_t lock; /* of what follows */
    struct map peers;     /* pipe id -> struct peer */
    uint64_t last_peer;
    struct list contexts;
    int context_count;
    int receiving;
};

struct peer {
    struct happening gone;
    struct net_listener *listener;
    uint64_t number;
};

/*     receiving ──(NNG: message)──► held ──(answer)──► sending ──(NNG: sent)──► receiving
 *                                     └──(peer gone, listener closed)──► receiving / parked  */
enum context_state { CONTEXT_RECEIVING, CONTEXT_HELD, CONTEXT_SENDING, CONTEXT_PARKED };

struct context {
    struct happening arrived;
    struct net_listener *listener;
    struct list link;
    nng_ctx ctx;
    nng_aio *aio;
    nng_msg *message;         /* while held, until handled */
    enum context_state state; /* under the listener's lock, as the next two */
    uint32_t pipe;
    int64_t sending_since_ms;
};

static enum context_state context_move(struct context *c, enum context_state to, int64_t now_ms)
{
    pthread_mutex_lock(&c->listener->lock);
    enum context_state from = c->state;
    c->listener->receiving += (to == CONTEXT_RECEIVING) - (from == CONTEXT_RECEIVING);
    c->state = to;
    c->sending_since_ms = now_ms;
    pthread_mutex_unlock(&c->listener->lock);
    return from;
}

static void context_receive(struct context *c)
{
    context_move(c, CONTEXT_RECEIVING, 0);
    nng_ctx_recv(c->ctx, c->aio);
}

/* A thread of NNG: a receive or a send of this context has ended. */
static void context_done(void *arg)
{
    struct context *c = arg;
    int rv = nng_aio_result(c->aio);
    pthread_mutex_lock(&c->listener->lock);
    bool sent = c->state == CONTEXT_SENDING;
    pthread_mutex_unlock(&c->listener->lock);
    if (sent) {
        if (rv != 0) {
            nng_msg_free(nng_aio_get_msg(c->aio));
            nng_aio_set_msg(c->aio, NULL);
        }
        if (rv == NNG_ECLOSED)
            context_move(c, CONTEXT_PARKED, 0);
        else
            context_receive(c);
        return;
    }
    if (rv != 0) {
        context_move(c, CONTEXT_PARKED, 0);
        return;
    }
    c->message = nng_aio_get_msg(c->aio);
    nng_aio_set_msg(c->aio, NULL);
    context_move(c, CONTEXT_HELD, 0);
    inbox_push(c->listener->net, &c->arrived);
}

static uint64_t listener_peer(struct net_listener *l, uint32_t pipe)
{
    pthread_mutex_lock(&l->lock);
    struct peer *peer = map_get(&l->peers, pipe);
    uint64_t number = peer ? peer->number : 0;
    pthread_mutex_unlock(&l->lock);
    return number;
}

static void context_arrived(struct happening *self);

static int listener_add_context(struct net_listener *l)
{
    struct context *c = calloc(1, sizeof(*c));
    if (!c)
        return NNG_ENOMEM;
    int rv = nng_ctx_open(&c->ctx, l->socket);
    if (rv == 0)
        rv = nng_aio_alloc(&c->aio, context_done, c);
    if (rv != 0) {
        free(c);
        return rv;
    }
    c->arrived.handle = context_arrived;
    c->listener = l;
    c->state = CONTEXT_PARKED;
    pthread_mutex_lock(&l->lock);
    list_push_back(&l->contexts, &c->link);
    l->context_count++;
    pthread_mutex_unlock(&l->lock);
    context_receive(c);
    return 0;
}

/* Long polls hold contexts, so their number doubles whenever few are left to receive. */
static void listener_keep_ready(struct net_listener *l)
{
    pthread_mutex_lock(&l->lock);
    int want = l->receiving < CONTEXTS_READY / 2 ? l->context_count : 0;
    int room = l->max_in_flight - l->context_count;
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < want && i < room; i++)
        if (listener_add_context(l) != 0)
            return;
}

static void context_arrived(struct happening *self)
{
    struct context *c = list_entry(self, struct context, arrived);
    struct net_listener *l = c->listener;
    nng_msg *message = c->message;
    c->message = NULL;
    c->pipe = (uint32_t)nng_pipe_id(nng_msg_get_pipe(message));
    uint64_t peer = l->closed ? 0 : listener_peer(l, c->pipe);
    uint64_t request = l->last_request + 1;
    if (l->closed) {
        context_move(c, CONTEXT_PARKED, 0);
    } else if (peer == 0 || map_set(&l->open, request, c, NULL) != 0) {
        context_receive(c);
    } else {
        l->last_request = request;
        listener_keep_ready(l);
        l->on_request(l->arg, request, peer, nng_msg_body(message), nng_msg_len(message));
    }
    nng_msg_free(message);
}

static void nng_answer(struct net_listener *l, uint64_t request, const void *bytes, size_t size)
{
    struct context *c = l->closed ? NULL : map_remove(&l->open, request);
    if (!c)
        return;
    nng_msg *message;
    if (size > NET_MESSAGE_MAX_BYTES || nng_msg_alloc(&message, size) != 0) {
        context_receive(c);
        return;
    }
    if (size)
        memcpy(nng_msg_body(message), bytes, size);
    nng_aio_set_msg(c->aio, message);
    context_move(c, CONTEXT_SENDING, loop_now_ms(l->net->loop));
    nng_ctx_send(c->ctx, c->aio);
}

static void peer_gone(struct happening *self)
{
    struct peer *peer = list_entry(self, struct peer, gone);
    struct net_listener *l = peer->listener;
    uint64_t number = peer->number;
    free(peer);
    if (!l->closed && l->on_gone)
        l->on_gone(l->arg, number);
}

/* Before its first message: a connection that cannot be remembered is refused. */
static void listener_pipe_added(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    (void)event;
    struct net_listener *l = arg;
    struct peer *peer = calloc(1, sizeof(*peer));
    int rc = E_RESOURCE_EXHAUSTED;
    if (peer) {
        peer->gone.handle = peer_gone;
        peer->listener = l;
        pthread_mutex_lock(&l->lock);
        peer->number = ++l->last_peer;
        rc = map_set(&l->peers, (uint32_t)nng_pipe_id(pipe), peer, NULL);
        pthread_mutex_unlock(&l->lock);
    }
    if (rc != 0) {
        free(peer);
        nng_pipe_close(pipe);
    }
}

static void listener_pipe_removed(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    (void)event;
    struct net_listener *l = arg;
    pthread_mutex_lock(&l->lock);
    struct peer *peer = map_remove(&l->peers, (uint32_t)nng_pipe_id(pipe));
    pthread_mutex_unlock(&l->lock);
    if (peer)
        inbox_push(l->net, &peer->gone);
}

/* Without it a peer that never reads would hold its contexts for ever. */
static void listener_sweep(void *arg)
{
    struct net_listener *l = arg;
    int64_t now_ms = loop_now_ms(l->net->loop);
    uint32_t stuck = 0;
    pthread_mutex_lock(&l->lock);
    struct context *c;
    list_each(c, &l->contexts, link)
        if (c->state == CONTEXT_SENDING && now_ms - c->sending_since_ms > STUCK_ANSWER_MS)
            stuck = c->pipe;
    pthread_mutex_unlock(&l->lock);
    if (stuck)
        nng_pipe_close((nng_pipe){.id = stuck});
    loop_timer_set(l->net->loop, &l->sweep, now_ms + SWEEP_MS, listener_sweep, l);
}

static int listener_start(struct net_listener *l, const struct address *address)
{
    int rv = nng_rep0_open(&l->socket);
    if (rv == 0)
        rv = nng_socket_set_size(l->socket, NNG_OPT_RECVMAXSZ,
                                 NET_MESSAGE_MAX_BYTES + SP_HEADER_BYTES);
    if (rv == 0)
        rv = nng_pipe_notify(l->socket, NNG_PIPE_EV_ADD_PRE, listener_pipe_added, l);
    if (rv == 0)
        rv = nng_pipe_notify(l->socket, NNG_PIPE_EV_REM_POST, listener_pipe_removed, l);
    if (rv == 0)
        rv = nng_listener_create(&l->listener, l->socket, address->url);
    if (rv != 0)
        return rv;
    if (str_starts(address->url, "ipc:")) {
        rv = nng_listener_set_int(l->listener, NNG_OPT_IPC_PERMISSIONS, 0600);
    } else {
        rv = nng_listener_set_bool(l->listener, NNG_OPT_TCP_NODELAY, true);
        if (rv == 0)
            rv = nng_listener_set_bool(l->listener, NNG_OPT_TCP_KEEPALIVE, true);
    }
    if (rv == 0 && address->cert[0])
        rv = nng_listener_set_string(l->listener, NNG_OPT_TLS_CERT_KEY_FILE, address->cert);
    return rv == 0 ? nng_listener_start(l->listener, 0) : rv;
}

/* "tcp://127.0.0.1:0" with the port it got. */
static int listener_name(struct net_listener *l, const struct address *address)
{
    char *colon = strrchr(address->url, ':');
    int port = 0;
    if (str_starts(address->url, "ipc:") || !str_equal(str_of(colon), str_of(":0")))
        return str_copy(l->url, sizeof(l->url), address->url);
    if (nng_listener_get_int(l->listener, NNG_OPT_TCP_BOUND_PORT, &port) != 0)
        return E_INTERNAL;
    return str_printf(l->url, sizeof(l->url), "%.*s:%d", (int)(colon - address->url),
                      address->url, port);
}

/* Of a listener nobody has seen: there is no traffic that a close could wait for. */
static void listener_abandon(struct net_listener *l)
{
    if (l->socket.id)
        nng_close(l->socket);
    l->closed = true;
    struct context *c, *after;
    list_each_safe(c, after, &l->contexts, link) {
        nng_aio_free(c->aio);
        free(c);
    }
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static int nng_listen_at(void *self, const char *url, int max_in_flight,
                         net_request_fn on_request, net_gone_fn on_gone, void *arg,
                         struct net_listener **ret, struct error *err)
{
    insist(on_request && max_in_flight > 0);
    struct address address;
    int rc = address_parse(url, &address, err);
    if (rc != 0)
        return rc;
    struct net_listener *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory to listen at %s", url);
    *l = (struct net_listener){.net = self,
                               .max_in_flight = max_in_flight,
                               .on_request = on_request,
                               .on_gone = on_gone,
                               .arg = arg};
    pthread_mutex_init(&l->lock, NULL);
    list_init(&l->contexts);
    int rv = listener_start(l, &address);
    if (rv == 0 && listener_name(l, &address) != 0)
        rv = NNG_EADDRINVAL;
    for (int i = 0; rv == 0 && i < CONTEXTS_READY && i < max_in_flight; i++)
        rv = listener_add_context(l);
    if (rv != 0) {
        fail_nng(err, rv, "cannot listen at", url);
        listener_abandon(l);
        return code_of_nng(rv);
    }
    listener_sweep(l);
    *ret = l;
    return 0;
}

static const char *nng_listener_at(struct net_listener *l)
{
    return l->url;
}

static void nng_close_listener(struct net_listener *l)
{
    if (l->closed)
        return;
    l->closed = true;
    loop_timer_cancel(l->net->loop, &l->sweep);
    map_fini(&l->open);
    nng_listener_close(l->listener);
}

/* ---- dialer ---- */

struct net_dialer {
    struct net_nng *net;
    nng_socket socket;
    nng_dialer dialer;
    nng_aio *send_aio;
    nng_aio *receive_aio;
    bool closed;      /* loop thread, as the next three */
    struct map calls; /* request id -> struct call: every call that is not complete */
    uint32_t last_id;
    int64_t heard_ms;     /* loop time of the last sign of life */
    pthread_mutex_t lock; /* of what follows */
    struct list queue;    /* calls not yet handed to NNG */
    bool sending;         /* send_aio is in use */
    uint32_t pipe;        /* 0 while not connected */
    uint64_t connection;  /* counts connections, 0 = never connected */
    int unread;           /* answers in the inbox */
    bool paused;          /* reading stopped because of them */
};

struct call {
    struct net_dialer *dialer;
    uint32_t id;
    int64_t started_ms, deadline_ms;
    struct loop_timer timer;
    net_answer_fn on_answer;
    void *arg;
    struct list link;    /* in the queue; under the dialer's lock, as the next two */
    nng_msg *message;    /* NULL once handed to NNG */
    uint64_t connection; /* it was handed over on */
};

struct lost {
    struct happening happening;
    struct net_dialer *dialer;
    uint64_t connection;
};

struct answer {
    struct happening happening;
    struct net_dialer *dialer;
    nng_msg *message;
};

static void call_complete(struct call *call, int code, const void *bytes, size_t size)
{
    struct net_dialer *d = call->dialer;
    loop_timer_cancel(d->net->loop, &call->timer);
    map_remove(&d->calls, call->id);
    pthread_mutex_lock(&d->lock);
    list_remove(&call->link);
    nng_msg *unsent = call->message;
    pthread_mutex_unlock(&d->lock);
    if (unsent)
        nng_msg_free(unsent);
    call->on_answer(call->arg, code, bytes, size);
    free(call);
}

/* Any thread: hand the next queued call to NNG, if connected and none is on its way. */
static void dialer_send_next(struct net_dialer *d)
{
    nng_msg *message = NULL;
    pthread_mutex_lock(&d->lock);
    struct call *call = list_first(&d->queue, struct call, link);
    if (call && !d->sending && d->pipe) {
        list_remove(&call->link);
        message = call->message;
        call->message = NULL;
        call->connection = d->connection;
        d->sending = true;
    }
    pthread_mutex_unlock(&d->lock);
    if (message) {
        nng_aio_set_msg(d->send_aio, message);
        nng_send_aio(d->socket, d->send_aio);
    }
}

static void dialer_sent(void *arg)
{
    struct net_dialer *d = arg;
    if (nng_aio_result(d->send_aio) != 0) {
        nng_msg_free(nng_aio_get_msg(d->send_aio));
        nng_aio_set_msg(d->send_aio, NULL);
    }
    pthread_mutex_lock(&d->lock);
    d->sending = false;
    pthread_mutex_unlock(&d->lock);
    dialer_send_next(d);
}

static void dialer_answered(struct happening *self)
{
    struct answer *answer = list_entry(self, struct answer, happening);
    struct net_dialer *d = answer->dialer;
    nng_msg *message = answer->message;
    free(answer);
    pthread_mutex_lock(&d->lock);
    d->unread--;
    bool resume = d->paused && d->unread < ANSWERS_UNREAD_MAX / 2;
    if (resume)
        d->paused = false;
    pthread_mutex_unlock(&d->lock);
    if (resume)
        nng_recv_aio(d->socket, d->receive_aio);
    d->heard_ms = loop_now_ms(d->net->loop);
    uint32_t id;
    struct call *call = NULL;
    if (!d->closed && nng_msg_header_len(message) == sizeof(id) &&
        nng_msg_header_chop_u32(message, &id) == 0)
        call = map_get(&d->calls, id);
    if (call)
        call_complete(call, 0, nng_msg_body(message), nng_msg_len(message));
    nng_msg_free(message);
}

static void dialer_received(void *arg)
{
    struct net_dialer *d = arg;
    if (nng_aio_result(d->receive_aio) != 0)
        return; /* only when the socket is closed, which ends with the process */
    nng_msg *message = nng_aio_get_msg(d->receive_aio);
    nng_aio_set_msg(d->receive_aio, NULL);
    struct answer *answer = calloc(1, sizeof(*answer));
    bool more = true;
    if (answer) {
        answer->happening.handle = dialer_answered;
        answer->dialer = d;
        answer->message = message;
        pthread_mutex_lock(&d->lock);
        d->paused = ++d->unread >= ANSWERS_UNREAD_MAX;
        more = !d->paused;
        pthread_mutex_unlock(&d->lock);
        inbox_push(d->net, &answer->happening);
    } else {
        nng_msg_free(message);
    }
    if (more)
        nng_recv_aio(d->socket, d->receive_aio);
}

/* Before the connection carries anything: what is queued goes out as soon as it can. */
static void dialer_pipe_added(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    (void)event;
    struct net_dialer *d = arg;
    pthread_mutex_lock(&d->lock);
    d->pipe = (uint32_t)nng_pipe_id(pipe);
    d->connection++;
    pthread_mutex_unlock(&d->lock);
    dialer_send_next(d);
}

static void dialer_lost(struct happening *self)
{
    struct lost *lost = list_entry(self, struct lost, happening);
    struct net_dialer *d = lost->dialer;
    uint64_t connection = lost->connection;
    free(lost);
    if (d->closed)
        return;
    uint64_t next = 0;
    struct map_entry *entry;
    while ((entry = map_at_least(&d->calls, next))) {
        struct call *call = entry->value;
        next = entry->key + 1;
        pthread_mutex_lock(&d->lock);
        bool over = call->message ? d->pipe == 0 : call->connection <= connection;
        pthread_mutex_unlock(&d->lock);
        if (over)
            call_complete(call, E_UNAVAILABLE, NULL, 0);
        if (d->closed)
            return;
    }
}

static void dialer_pipe_removed(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    (void)event;
    struct net_dialer *d = arg;
    struct lost *lost = calloc(1, sizeof(*lost));
    pthread_mutex_lock(&d->lock);
    bool current = d->pipe == (uint32_t)nng_pipe_id(pipe);
    if (current)
        d->pipe = 0;
    if (lost) {
        lost->happening.handle = dialer_lost;
        lost->dialer = d;
        lost->connection = d->connection;
    }
    pthread_mutex_unlock(&d->lock);
    /* Without memory for the news the calls still end at their deadlines. */
    if (lost && current)
        inbox_push(d->net, &lost->happening);
    else
        free(lost);
}

static void call_due(void *arg)
{
    struct call *call = arg;
    struct net_dialer *d = call->dialer;
    int64_t now_ms = loop_now_ms(d->net->loop);
    pthread_mutex_lock(&d->lock);
    uint32_t pipe = d->pipe;
    bool handed = !call->message;
    pthread_mutex_unlock(&d->lock);
    if (now_ms < call->deadline_ms) {
        if (handed || pipe)
            loop_timer_set(d->net->loop, &call->timer, call->deadline_ms, call_due, call);
        else
            call_complete(call, E_UNAVAILABLE, NULL, 0);
        return;
    }
    /* A cut without a word leaves a connection that TCP would keep for minutes. */
    if (handed && pipe && now_ms - call->started_ms >= SILENCE_MS &&
        d->heard_ms < call->started_ms)
        nng_pipe_close((nng_pipe){.id = pipe});
    call_complete(call, pipe || handed ? E_DEADLINE_EXCEEDED : E_UNAVAILABLE, NULL, 0);
}

static int call_new(struct net_dialer *d, const void *bytes, size_t size, struct call **ret)
{
    struct call *call = calloc(1, sizeof(*call));
    if (!call || nng_msg_alloc(&call->message, size) != 0) {
        free(call);
        return E_RESOURCE_EXHAUSTED;
    }
    list_init(&call->link);
    call->dialer = d;
    do
        call->id = request_id_mark | ++d->last_id;
    while (map_get(&d->calls, call->id));
    if (size)
        memcpy(nng_msg_body(call->message), bytes, size);
    if (nng_msg_header_append_u32(call->message, call->id) != 0 ||
        map_set(&d->calls, call->id, call, NULL) != 0) {
        nng_msg_free(call->message);
        free(call);
        return E_RESOURCE_EXHAUSTED;
    }
    *ret = call;
    return 0;
}

static int nng_call(struct net_dialer *d, const void *bytes, size_t size, int64_t timeout_ms,
                    net_answer_fn on_answer, void *arg, struct error *err)
{
    insist(on_answer);
    if (d->closed)
        return error_set(err, E_CANCELLED, "the connection is closed");
    if (size > NET_MESSAGE_MAX_BYTES)
        return error_set(err, E_OUT_OF_RANGE, "a message of %zu bytes is too large", size);
    struct call *call;
    if (call_new(d, bytes, size, &call) != 0)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes", size);
    call->on_answer = on_answer;
    call->arg = arg;
    call->started_ms = loop_now_ms(d->net->loop);
    call->deadline_ms = call->started_ms + (timeout_ms > 0 ? timeout_ms : 0);
    pthread_mutex_lock(&d->lock);
    bool connected = d->pipe != 0;
    list_push_back(&d->queue, &call->link);
    pthread_mutex_unlock(&d->lock);
    int64_t due_ms = call->deadline_ms;
    if (!connected && due_ms > call->started_ms + CONNECT_WAIT_MS)
        due_ms = call->started_ms + CONNECT_WAIT_MS;
    loop_timer_set(d->net->loop, &call->timer, due_ms, call_due, call);
    dialer_send_next(d);
    return 0;
}

static int dialer_start(struct net_dialer *d, const struct address *address)
{
    /* Raw: a cooked REQ socket resends by itself when a connection is lost, and cancelling its
     * receives while it sends is not safe in 1.5.2. Here nothing is ever cancelled. */
    int rv = nng_req0_open_raw(&d->socket);
    if (rv == 0)
        rv = nng_socket_set_size(d->socket, NNG_OPT_RECVMAXSZ,
                                 NET_MESSAGE_MAX_BYTES + SP_HEADER_BYTES);
    if (rv == 0)
        rv = nng_socket_set_ms(d->socket, NNG_OPT_RECONNMINT, RECONNECT_MIN_MS);
    if (rv == 0)
        rv = nng_socket_set_ms(d->socket, NNG_OPT_RECONNMAXT, RECONNECT_MAX_MS);
    if (rv == 0)
        rv = nng_pipe_notify(d->socket, NNG_PIPE_EV_ADD_PRE, dialer_pipe_added, d);
    if (rv == 0)
        rv = nng_pipe_notify(d->socket, NNG_PIPE_EV_REM_POST, dialer_pipe_removed, d);
    if (rv == 0)
        rv = nng_aio_alloc(&d->send_aio, dialer_sent, d);
    if (rv == 0)
        rv = nng_aio_alloc(&d->receive_aio, dialer_received, d);
    if (rv == 0)
        rv = nng_dialer_create(&d->dialer, d->socket, address->url);
    if (rv == 0 && !str_starts(address->url, "ipc:")) {
        rv = nng_dialer_set_bool(d->dialer, NNG_OPT_TCP_NODELAY, true);
        if (rv == 0)
            rv = nng_dialer_set_bool(d->dialer, NNG_OPT_TCP_KEEPALIVE, true);
    }
    if (rv == 0 && address->ca[0])
        rv = nng_dialer_set_string(d->dialer, NNG_OPT_TLS_CA_FILE, address->ca);
    if (rv == 0)
        nng_recv_aio(d->socket, d->receive_aio);
    return rv == 0 ? nng_dialer_start(d->dialer, NNG_FLAG_NONBLOCK) : rv;
}

static int nng_dial_to(void *self, const char *url, struct net_dialer **ret, struct error *err)
{
    struct address address;
    int rc = address_parse(url, &address, err);
    if (rc != 0)
        return rc;
    struct net_dialer *d = calloc(1, sizeof(*d));
    if (!d)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory to connect to %s", url);
    d->net = self;
    pthread_mutex_init(&d->lock, NULL);
    list_init(&d->queue);
    int rv = dialer_start(d, &address);
    if (rv != 0) {
        if (d->socket.id)
            nng_close(d->socket); /* no traffic yet that it could wait for */
        nng_aio_free(d->send_aio);
        nng_aio_free(d->receive_aio);
        pthread_mutex_destroy(&d->lock);
        free(d);
        return fail_nng(err, rv, "cannot connect to", url);
    }
    *ret = d;
    return 0;
}

static void nng_close_dialer(struct net_dialer *d)
{
    if (d->closed)
        return;
    d->closed = true;
    struct map_entry *entry;
    while ((entry = map_first(&d->calls)))
        call_complete(entry->value, E_CANCELLED, NULL, 0);
    nng_dialer_close(d->dialer);
}

/* ---- the vtable ---- */

int net_nng_init(struct net *ret, struct loop *loop, struct error *err)
{
    struct net_nng *net = calloc(1, sizeof(*net));
    if (!net)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the network");
    net->loop = loop;
    pthread_mutex_init(&net->lock, NULL);
    list_init(&net->inbox);
    *ret = (struct net){.self = net,
                        .listen = nng_listen_at,
                        .listener_url = nng_listener_at,
                        .answer = nng_answer,
                        .close_listener = nng_close_listener,
                        .dial = nng_dial_to,
                        .call = nng_call,
                        .close_dialer = nng_close_dialer};
    return 0;
}

void net_nng_fini(struct net *net)
{
    struct net_nng *self = net->self;
    if (!self)
        return;
    pthread_mutex_lock(&self->lock);
    self->silenced = true;
    pthread_mutex_unlock(&self->lock);
    *net = (struct net){0};
}
