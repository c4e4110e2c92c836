#include "common/env/net_nng_internal.h"

#include <stdlib.h>
#include <string.h>

#include <nng/protocol/reqrep0/req.h>

#include "common/base/assert.h"
#include "common/base/map.h"
#include "common/base/str.h"
#include "common/loop/loop.h"

enum {
    RECONNECT_MIN_MS = 50,
    RECONNECT_MAX_MS = 1000,
    CONNECT_WAIT_MS = 250, /* a call made while not connected waits this long for it */
    SILENCE_MS = 5000,     /* a call this long that expires in silence ends its connection */
    REVIVE_MIN_MS = 5000,  /* not connected for so long: the endpoint is replaced */
    REVIVE_MAX_MS = 60000,
    ANSWERS_UNREAD_MAX = 1024, /* then the dialer stops reading until the loop caught up */
};

static const uint32_t request_id_mark = 0x80000000u; /* SP: the last id of a header has it */

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
    bool closed;                /* loop thread, as all above and the next three */
    struct map calls;           /* request id -> struct call: every call that is not complete */
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
    struct nng_dialing *dialer;
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
    struct nng_dialing *dialer;
    uint64_t connection;
};

struct answer {
    struct happening happening;
    struct nng_dialing *dialer;
    nng_msg *message;
};

static void call_complete(struct call *call, int code, const void *bytes, size_t size)
{
    struct nng_dialing *d = call->dialer;
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

static void dialer_answered(struct happening *self)
{
    struct answer *answer = list_entry(self, struct answer, happening);
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
    struct nng_dialing *d = arg;
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
        net_nng_push(d->net, &answer->happening);
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
    struct nng_dialing *d = arg;
    pthread_mutex_lock(&d->lock);
    d->pipe = (uint32_t)nng_pipe_id(pipe);
    d->connection++;
    pthread_mutex_unlock(&d->lock);
    dialer_send_next(d);
}

static void dialer_lost(struct happening *self)
{
    struct lost *lost = list_entry(self, struct lost, happening);
    struct nng_dialing *d = lost->dialer;
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
    struct nng_dialing *d = arg;
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
        net_nng_push(d->net, &lost->happening);
    else
        free(lost);
}

static void call_due(void *arg)
{
    struct call *call = arg;
    struct nng_dialing *d = call->dialer;
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
        now_ms - d->heard_ms >= SILENCE_MS)
        nng_pipe_close((nng_pipe){.id = pipe});
    call_complete(call, pipe || handed ? E_DEADLINE_EXCEEDED : E_UNAVAILABLE, NULL, 0);
}

static int call_new(struct nng_dialing *d, const void *bytes, size_t size, struct call **ret)
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

int nng_dialing_call(struct nng_dialing *d, const void *bytes, size_t size, int64_t timeout_ms,
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

/* In a program whose libc is found before net_nng_epipe.c (libworker loaded by an interpreter) NNG
 * may have given up on connecting without a word: an endpoint that has not connected for long is
 * replaced by a new one, ever more rarely while the server is really gone. */
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
        if (dialer_connect(d) == 0 && d->revive_ms < REVIVE_MAX_MS)
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
    int rv = dialer_start(d);
    if (rv != 0) {
        d->closed = true; /* and kept: nng_close may wait for ever */
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
    if (d->closed)
        return;
    d->closed = true;
    loop_timer_cancel(d->net->loop, &d->revive);
    struct map_entry *entry;
    while ((entry = map_first(&d->calls)))
        call_complete(entry->value, E_CANCELLED, NULL, 0);
    nng_dialer_close(d->dialer);
}
