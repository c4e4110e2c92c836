#include "common/env/net_nng_internal.h"

#include <stdlib.h>
#include <string.h>

#include <nng/protocol/reqrep0/req.h>

#include "common/base/str.h"
#include "common/env/net_calls.h"
#include "common/loop/loop.h"

enum {
    RECONNECT_MIN_MS = 50,
    RECONNECT_MAX_MS = 1000,
    REVIVE_MIN_MS = 5000, /* not connected for this long: the endpoint is replaced */
    REVIVE_MAX_MS = 60000,
    ANSWERS_UNREAD_MAX = 1024, /* then the dialer stops reading until the loop caught up */
};

struct nng_dialing {
    struct net_nng *net;
    nng_socket socket;
    nng_dialer dialer;
    char url[NET_URL_MAX];
    nng_aio *send_aio;
    nng_aio *receive_aio;
    struct loop_timer revive;
    int64_t revive_ms;          /* until the next look whether it connected */
    uint64_t revive_connection; /* the count at the last look */
    struct net_calls calls;     /* loop thread, as all above */
    pthread_mutex_t lock;       /* of what follows */
    struct list queue;          /* calls not yet handed to NNG */
    bool sending;               /* send_aio is in use */
    uint32_t pipe;              /* 0 while not connected */
    uint64_t connection;        /* counts connections, 0 = never connected */
    int unread;                 /* answers in the inbox */
    bool paused;                /* reading stopped because of them */
};

struct call {
    struct net_call call; /* first */
    struct list link;     /* in the queue; under the dialer's lock, as the next two */
    nng_msg *message;     /* NULL once handed to NNG */
    uint64_t connection;  /* it was handed over on */
};

struct lost {
    struct net_event event;
    struct nng_dialing *dialer;
    uint64_t connection;
};

struct answer {
    struct net_event event;
    struct nng_dialing *dialer;
    nng_msg *message;
};

static struct nng_dialing *dialer_of(struct net_calls *calls)
{
    return list_entry(calls, struct nng_dialing, calls);
}

static bool is_connected(struct net_calls *calls)
{
    struct nng_dialing *d = dialer_of(calls);
    pthread_mutex_lock(&d->lock);
    bool connected = d->pipe != 0;
    pthread_mutex_unlock(&d->lock);
    return connected;
}

static bool was_sent(const struct net_call *call)
{
    struct nng_dialing *d = dialer_of(call->calls);
    pthread_mutex_lock(&d->lock);
    bool sent = !((const struct call *)call)->message;
    pthread_mutex_unlock(&d->lock);
    return sent;
}

static void call_withdraw(struct net_call *call)
{
    struct call *it = (struct call *)call;
    struct nng_dialing *d = dialer_of(call->calls);
    pthread_mutex_lock(&d->lock);
    list_remove(&it->link);
    nng_msg *unsent = it->message;
    pthread_mutex_unlock(&d->lock);
    if (unsent)
        nng_msg_free(unsent);
}

static void call_release(struct net_call *call)
{
    free(call);
}

static void cut_connection(struct net_calls *calls)
{
    struct nng_dialing *d = dialer_of(calls);
    pthread_mutex_lock(&d->lock);
    uint32_t pipe = d->pipe;
    pthread_mutex_unlock(&d->lock);
    if (pipe)
        nng_pipe_close((nng_pipe){.id = pipe});
}

static const struct net_calls_owner owner = {
    .connected = is_connected,
    .sent = was_sent,
    .withdraw = call_withdraw,
    .release = call_release,
    .cut = cut_connection,
};

/* Any thread: hand the next queued call to NNG, if connected and none is on its way. */
static void dialer_send_next(struct nng_dialing *d)
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
    struct nng_dialing *d = arg;
    if (nng_aio_result(d->send_aio) != 0) {
        nng_msg_free(nng_aio_get_msg(d->send_aio));
        nng_aio_set_msg(d->send_aio, NULL);
    }
    pthread_mutex_lock(&d->lock);
    d->sending = false;
    pthread_mutex_unlock(&d->lock);
    dialer_send_next(d);
}

static void dialer_answered(struct net_event *self)
{
    struct answer *answer = list_entry(self, struct answer, event);
    struct nng_dialing *d = answer->dialer;
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
    d->calls.heard_ms = loop_now_ms(d->net->loop);
    uint32_t id;
    struct net_call *call = NULL;
    if (!d->calls.closed && nng_msg_header_len(message) == sizeof(id) &&
        nng_msg_header_chop_u32(message, &id) == 0)
        call = net_calls_find(&d->calls, id);
    if (call)
        net_call_complete(call, 0, nng_msg_body(message), nng_msg_len(message));
    nng_msg_free(message);
}

static void dialer_received(void *arg)
{
    struct nng_dialing *d = arg;
    if (nng_aio_result(d->receive_aio) != 0)
        return; /* only when the socket is closed, which ends with the process */
    nng_msg *message = nng_aio_get_msg(d->receive_aio);
    nng_aio_set_msg(d->receive_aio, NULL);
    struct answer *answer = calloc(1, sizeof(*answer));
    bool more = true;
    if (answer) {
        answer->event.handle = dialer_answered;
        answer->dialer = d;
        answer->message = message;
        pthread_mutex_lock(&d->lock);
        d->paused = ++d->unread >= ANSWERS_UNREAD_MAX;
        more = !d->paused;
        pthread_mutex_unlock(&d->lock);
        net_nng_push(d->net, &answer->event);
    } else {
        nng_msg_free(message);
    }
    if (more)
        nng_recv_aio(d->socket, d->receive_aio);
}

/* Called before the connection transfers anything: queued calls are sent as soon as possible. */
static void dialer_pipe_added(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    (void)event;
    struct nng_dialing *d = arg;
    pthread_mutex_lock(&d->lock);
    d->pipe = (uint32_t)nng_pipe_id(pipe);
    d->connection++;
    pthread_mutex_unlock(&d->lock);
    dialer_send_next(d);
}

/* Sent on that connection or an earlier one, or not sent and there is none. */
static bool is_over(const struct net_call *call, uint64_t connection)
{
    const struct call *it = (const struct call *)call;
    struct nng_dialing *d = dialer_of(call->calls);
    pthread_mutex_lock(&d->lock);
    bool over = it->message ? d->pipe == 0 : it->connection <= connection;
    pthread_mutex_unlock(&d->lock);
    return over;
}

static void dialer_lost(struct net_event *self)
{
    struct lost *lost = list_entry(self, struct lost, event);
    struct nng_dialing *d = lost->dialer;
    uint64_t connection = lost->connection;
    free(lost);
    net_calls_lose(&d->calls, is_over, connection);
}

static void dialer_pipe_removed(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    (void)event;
    struct nng_dialing *d = arg;
    struct lost *lost = calloc(1, sizeof(*lost));
    pthread_mutex_lock(&d->lock);
    bool current = d->pipe == (uint32_t)nng_pipe_id(pipe);
    if (current)
        d->pipe = 0;
    if (lost) {
        lost->event.handle = dialer_lost;
        lost->dialer = d;
        lost->connection = d->connection;
    }
    pthread_mutex_unlock(&d->lock);
    /* Without memory for the news the calls still end at their deadlines. */
    if (lost && current)
        net_nng_push(d->net, &lost->event);
    else
        free(lost);
}

static int call_new(struct nng_dialing *d, const void *bytes, size_t size, struct call **ret)
{
    struct call *call = calloc(1, sizeof(*call));
    if (!call || nng_msg_alloc(&call->message, size) != 0) {
        free(call);
        return E_RESOURCE_EXHAUSTED;
    }
    list_init(&call->link);
    call->call.id = net_calls_number(&d->calls);
    if (size)
        memcpy(nng_msg_body(call->message), bytes, size);
    if (nng_msg_header_append_u32(call->message, call->call.id) != 0) {
        nng_msg_free(call->message);
        free(call);
        return E_RESOURCE_EXHAUSTED;
    }
    *ret = call;
    return 0;
}

int nng_dialing_call(struct nng_dialing *d, const void *bytes, size_t size, int64_t timeout_ms,
                     net_answer_fn on_answer, void *arg, struct error *err)
{
    struct net_call_how how = {timeout_ms, on_answer, arg};
    struct call *call = NULL;
    int rc = net_calls_check(&d->calls, size, err);
    if (rc)
        return rc;
    rc = call_new(d, bytes, size, &call);
    if (!rc && net_calls_add(&d->calls, &call->call, &how)) {
        nng_msg_free(call->message);
        free(call);
        rc = E_RESOURCE_EXHAUSTED;
    }
    if (rc)
        return error_set(err, rc, "no memory for a message of %zu bytes", size);
    pthread_mutex_lock(&d->lock);
    list_push_back(&d->queue, &call->link);
    pthread_mutex_unlock(&d->lock);
    dialer_send_next(d);
    return 0;
}

/* A new endpoint of NNG, which connects in the background and again after each loss. */
static int dialer_connect(struct nng_dialing *d)
{
    int rv = nng_dialer_create(&d->dialer, d->socket, d->url);
    if (rv == 0 && !str_starts(d->url, "ipc:")) {
        rv = nng_dialer_set_bool(d->dialer, NNG_OPT_TCP_NODELAY, true);
        if (rv == 0)
            rv = nng_dialer_set_bool(d->dialer, NNG_OPT_TCP_KEEPALIVE, true);
    }
    return rv == 0 ? nng_dialer_start(d->dialer, NNG_FLAG_NONBLOCK) : rv;
}

/* If libc is found before net_nng_epipe.c (libworker loaded by an interpreter), NNG may have
 * stopped connecting silently. An endpoint without a connection for long is replaced by a new one,
 * less and less often while the server is really absent. */
static void dialer_revive(void *arg)
{
    struct nng_dialing *d = arg;
    pthread_mutex_lock(&d->lock);
    bool connected = d->pipe != 0;
    uint64_t connection = d->connection;
    pthread_mutex_unlock(&d->lock);
    if (connected || connection != d->revive_connection) {
        d->revive_ms = REVIVE_MIN_MS;
    } else {
        nng_dialer_close(d->dialer);
        if (!dialer_connect(d) && d->revive_ms < REVIVE_MAX_MS)
            d->revive_ms *= 2;
    }
    d->revive_connection = connection;
    loop_timer_set(d->net->loop, &d->revive, loop_now_ms(d->net->loop) + d->revive_ms,
                   dialer_revive, d);
}

static int dialer_start(struct nng_dialing *d)
{
    int rv = net_nng_start();
    /* Raw: a cooked REQ socket resends by itself when a connection is lost, and cancelling its
     * receives while it sends is not safe in 1.5.2. Here nothing is ever cancelled. */
    if (rv == 0)
        rv = nng_req0_open_raw(&d->socket);
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
        nng_recv_aio(d->socket, d->receive_aio);
    return rv == 0 ? dialer_connect(d) : rv;
}

int nng_dialing_new(struct net_nng *net, const char *url, struct nng_dialing **ret,
                    struct error *err)
{
    struct nng_dialing *d = calloc(1, sizeof(*d));
    if (!d)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory to connect to %s", url);
    d->net = net;
    (void)str_copy(d->url, sizeof(d->url), url);
    d->revive_ms = REVIVE_MIN_MS;
    pthread_mutex_init(&d->lock, NULL);
    list_init(&d->queue);
    net_calls_init(&d->calls, &owner, net->loop);
    int rv = dialer_start(d);
    if (rv != 0) {
        d->calls.closed = true; /* and kept: nng_close may wait for ever */
        d->net->used = true;
        return net_nng_fail(err, rv, "cannot connect to", url);
    }
    d->net->used = true;
    loop_timer_set(d->net->loop, &d->revive, loop_now_ms(d->net->loop) + d->revive_ms,
                   dialer_revive, d);
    *ret = d;
    return 0;
}

void nng_dialing_close(struct nng_dialing *d)
{
    if (d->calls.closed)
        return;
    d->calls.closed = true;
    loop_timer_cancel(d->net->loop, &d->revive);
    net_calls_close(&d->calls);
    nng_dialer_close(d->dialer);
}
