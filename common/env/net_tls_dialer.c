#include "common/env/net_tls_dialer.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "common/base/list.h"
#include "common/base/str.h"
#include "common/env/net_lookup.h"
#include "common/env/net_sp.h"
#include "common/env/net_tls_calls.h"
#include "common/env/net_url.h"
#include "common/env/rng_os.h"
#include "common/env/tls.h"
#include "common/loop/loop.h"

enum {
    RECONNECT_MIN_MS = 50,
    RECONNECT_MAX_MS = 1000,
    CONNECT_MS = 10000,           /* until it is greeted */
    TLS_READ_BYTES = 16 << 10,    /* a record of TLS */
    READS_MAX = 64,               /* then others on the loop have their turn */
    UNSENT_LIMIT_BYTES = 1 << 20, /* beyond it calls wait in the queue */
};

static const uint8_t greeting_req[SP_GREETING_BYTES] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};

enum tls_dialer_state { IDLE, RESOLVING, CONNECTING, PROVING, GREETING, CONNECTED };

struct tls_dialer {
    struct loop *loop;
    char url[NET_URL_MAX]; /* for messages */
    char host[NET_URL_MAX], port[NET_URL_MAX];
    char pins[NET_PINS_TEXT_MAX];
    struct tls_identity *identity;
    enum tls_dialer_state state;
    struct net_lookup *lookup;       /* while RESOLVING */
    struct addrinfo *addresses, *at; /* found ones, and the one being tried */
    int fd;                          /* -1 before CONNECTING */
    struct tls_session *tls;
    struct buf ticket;   /* for resuming; empty if there is none */
    struct buf received; /* of the program, not processed yet */
    struct loop_timer again, late, go_on;
    int64_t again_ms;
    struct error problem;
    struct net_calls calls;
    struct list queue; /* those not sent yet */
};

static void connect_soon(struct tls_dialer *d);
static void try_next(struct tls_dialer *d);

/* Ends the connection, not the calls. */
static void hang_up(struct tls_dialer *d)
{
    loop_timer_cancel(d->loop, &d->late);
    loop_timer_cancel(d->loop, &d->go_on);
    if (d->fd >= 0) {
        loop_unwatch(d->loop, d->fd);
        close(d->fd);
        d->fd = -1;
    }
    tls_session_free(d->tls);
    d->tls = NULL;
    buf_fini(&d->received);
    d->state = IDLE;
}

static void connection_lost(struct tls_dialer *d)
{
    hang_up(d);
    connect_soon(d);
    tls_calls_lose_sent(&d->calls);
}

/* This way did not work; `why` has been filled. The next address, or from the start later. */
static void attempt_failed(struct tls_dialer *d, const struct error *why)
{
    d->problem = *why;
    hang_up(d);
    if (d->at)
        d->at = d->at->ai_next;
    if (d->at)
        try_next(d);
    else
        connect_soon(d);
}

static void failed_errno(struct tls_dialer *d, int number)
{
    struct error why = {0};
    error_set(&why, number == ETIMEDOUT ? E_DEADLINE_EXCEEDED : E_UNAVAILABLE,
              "cannot connect to %s: %s", d->url, strerror(number));
    attempt_failed(d, &why);
}

/* Sending */

static bool send_output(struct tls_dialer *d)
{
    struct buf *out = tls_out(d->tls);
    size_t at = 0;
    bool good = true;
    while (at < out->size) {
        ssize_t sent = send(d->fd, out->data + at, out->size - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            good = errno == EAGAIN;
            break;
        }
        at += (size_t)sent;
    }
    if (at == out->size) {
        if (out->capacity > TLS_READ_BYTES)
            buf_fini(out);
        else
            buf_clear(out);
    } else if (at > 0) {
        memmove(out->data, out->data + at, out->size - at);
        out->size -= at;
    }
    return good;
}

/* Send as much of the queue as the connection accepts. False: the connection is broken. */
static bool send_queue(struct tls_dialer *d)
{
    struct tls_call *call;
    while (d->state == CONNECTED && tls_out(d->tls)->size < UNSENT_LIMIT_BYTES &&
           (call = list_first(&d->queue, struct tls_call, link))) {
        list_remove(&call->link);
        call->sent = true;
        int rc = tls_write(d->tls, call->frame.data, call->frame.size);
        buf_fini(&call->frame);
        if (rc || !send_output(d))
            return false;
    }
    return true;
}

/* Receiving */

static void take_answer(struct tls_dialer *d, const struct sp_message *message)
{
    const uint8_t *t = message->trace;
    if (message->trace_bytes != sizeof(uint32_t))
        return;
    uint32_t id = (uint32_t)t[0] << 24 | (uint32_t)t[1] << 16 | (uint32_t)t[2] << 8 | t[3];
    struct net_call *call = net_calls_find(&d->calls, id);
    if (call && tls_call_was_sent(call))
        net_call_complete(call, 0, message->body, message->body_bytes);
}

static void mark_greeted(struct tls_dialer *d)
{
    d->state = CONNECTED;
    d->again_ms = 0;
    d->problem = (struct error){0};
    loop_timer_cancel(d->loop, &d->late);
}

/* How much of `bytes` was whole, or below 0. The dialer may be closed after it. */
static int64_t take_messages(struct tls_dialer *d, const uint8_t *bytes, size_t size)
{
    size_t at = 0;
    if (d->state == GREETING) {
        if (size < SP_GREETING_BYTES)
            return 0;
        if (memcmp(bytes, sp_greeting_rep, SP_GREETING_BYTES) != 0)
            return E_INVALID_ARGUMENT;
        mark_greeted(d);
        at = SP_GREETING_BYTES;
    }
    while (d->state == CONNECTED) {
        struct sp_message message;
        int64_t taken = sp_parse(bytes + at, size - at, false, &message);
        if (taken < 0)
            return taken;
        if (taken == 0)
            break;
        take_answer(d, &message);
        at += (size_t)taken;
    }
    return (int64_t)at;
}

/* Answers are read while callbacks run, so the buffer stays unchanged until all are served. A part
 * of a message only grows. */
static bool take_received(struct tls_dialer *d)
{
    struct sp_message message;
    if (d->state == CONNECTED &&
        sp_parse((const uint8_t *)d->received.data, d->received.size, false, &message) == 0)
        return true;
    struct buf now = d->received;
    buf_init(&d->received, now.max_bytes);
    int64_t taken = take_messages(d, (const uint8_t *)now.data, now.size);
    bool good = taken >= 0;
    if (good && d->state >= GREETING && (size_t)taken < now.size)
        good = !buf_append(&d->received, now.data + taken, now.size - (size_t)taken);
    buf_fini(&now);
    return good;
}

static bool open_bytes(struct tls_dialer *d)
{
    uint8_t bytes[TLS_READ_BYTES];
    bool any = false;
    for (;;) {
        int64_t size = tls_read(d->tls, bytes, sizeof(bytes));
        if (size < 0)
            return false;
        if (size == 0)
            break;
        if (buf_append(&d->received, bytes, (size_t)size))
            return false;
        any = true;
    }
    if (!any)
        return true;
    d->calls.heard_ms = loop_now_ms(d->loop);
    return take_received(d);
}

static void keep_ticket(struct tls_dialer *d)
{
    struct buf fresh;
    buf_init(&fresh, TLS_RESUME_MAX_BYTES);
    if (!tls_client_ticket(d->tls, &fresh)) {
        buf_fini(&d->ticket);
        d->ticket = fresh;
    } else {
        buf_fini(&fresh);
    }
}

/* Continue the handshake; then our greeting is sent at once. False: attempt_failed() was called. */
static bool continue_handshake(struct tls_dialer *d)
{
    struct error why = {0};
    int rc = tls_handshake(d->tls, &why);
    bool sent = rc <= 0 || !tls_write(d->tls, greeting_req, sizeof(greeting_req));
    sent = send_output(d) && sent;
    if (rc < 0) {
        buf_fini(&d->ticket);
        error_wrap(&why, "%s", d->url);
        attempt_failed(d, &why);
        return false;
    }
    if (!sent) {
        failed_errno(d, ECONNRESET);
        return false;
    }
    if (rc > 0)
        d->state = GREETING;
    return true;
}

/* False: the connection is no more, or the dialer was closed. */
static bool continue_with(struct tls_dialer *d, const uint8_t *bytes, size_t size)
{
    if (tls_feed(d->tls, bytes, size)) {
        connection_lost(d);
        return false;
    }
    if (d->state == PROVING && !continue_handshake(d))
        return false;
    if (d->state == PROVING)
        return true;
    bool before = d->state == CONNECTED;
    bool good = open_bytes(d);
    if (d->calls.closed)
        return false;
    if (good && !before && d->state == CONNECTED)
        keep_ticket(d);
    if (good)
        good = send_output(d) && send_queue(d);
    if (!good && d->state == GREETING) {
        struct error why = {0};
        error_set(&why, E_UNAVAILABLE, "the program that answers at %s is not a coordinator",
                  d->url);
        attempt_failed(d, &why);
    } else if (!good) {
        connection_lost(d);
    }
    return good;
}

static void read_some(void *arg)
{
    struct tls_dialer *d = arg;
    uint8_t bytes[TLS_READ_BYTES];
    for (int reads = 0; d->fd >= 0 && d->state >= PROVING; reads++) {
        if (reads == READS_MAX) {
            loop_timer_set(d->loop, &d->go_on, loop_now_ms(d->loop), read_some, d);
            return;
        }
        ssize_t size = recv(d->fd, bytes, sizeof(bytes), 0);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && errno == EAGAIN)
            return;
        if (size <= 0 && d->state == CONNECTED) {
            connection_lost(d);
            return;
        }
        if (size <= 0) {
            failed_errno(d, size < 0 ? errno : ECONNRESET);
            return;
        }
        if (!continue_with(d, bytes, (size_t)size))
            return;
    }
}

/* Connecting */

static void begin_proof(struct tls_dialer *d)
{
    struct error why = {0};
    int problem = 0;
    socklen_t size = sizeof(problem);
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &problem, &size) < 0 || problem != 0) {
        failed_errno(d, problem ? problem : errno);
        return;
    }
    if (tls_client_new(d->identity, d->pins, &d->tls, &why)) {
        attempt_failed(d, &why);
        return;
    }
    if (d->ticket.size > 0)
        tls_client_resume(d->tls, d->ticket.data, d->ticket.size);
    d->state = PROVING;
    (void)continue_handshake(d);
}

static void on_event(void *arg, int fd, uint32_t events)
{
    struct tls_dialer *d = arg;
    (void)fd;
    if (d->state == CONNECTING) {
        if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
            return;
        begin_proof(d);
    } else if ((events & EPOLLOUT) && d->state >= PROVING && (!send_output(d) || !send_queue(d))) {
        connection_lost(d);
        return;
    }
    if (d->state >= PROVING)
        read_some(d);
}

static void too_late(void *arg)
{
    failed_errno(arg, ETIMEDOUT);
}

static void try_next(struct tls_dialer *d)
{
    int on = 1;
    const struct addrinfo *to = d->at;
    d->fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->fd < 0) {
        failed_errno(d, errno);
        return;
    }
    (void)setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(d->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    d->state = CONNECTING;
    int problem = connect(d->fd, to->ai_addr, to->ai_addrlen) == 0 ? 0 : errno;
    if (problem == 0 || problem == EINPROGRESS)
        problem =
            loop_watch(d->loop, d->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, on_event, d, NULL)
                ? ENOMEM
                : 0;
    if (problem != 0)
        failed_errno(d, problem);
    else
        loop_timer_set(d->loop, &d->late, loop_now_ms(d->loop) + CONNECT_MS, too_late, d);
}

static void addresses_found(void *arg, int failed_code, struct addrinfo *found)
{
    struct tls_dialer *d = arg;
    struct error why = {0};
    d->lookup = NULL;
    d->addresses = d->at = found;
    if (failed_code == 0) {
        try_next(d);
        return;
    }
    error_set(&why, E_UNAVAILABLE, "the host '%s' of %s is unknown: %s", d->host, d->url,
              gai_strerror(failed_code));
    attempt_failed(d, &why);
}

static void connect_now(void *arg)
{
    struct tls_dialer *d = arg;
    struct addrinfo number = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    if (d->addresses)
        freeaddrinfo(d->addresses);
    d->addresses = d->at = NULL;
    if (getaddrinfo(d->host, d->port, &number, &d->addresses) == 0) {
        d->at = d->addresses;
        try_next(d);
        return;
    }
    d->lookup = net_lookup_start(d->loop, d->host, d->port, addresses_found, d);
    if (d->lookup)
        d->state = RESOLVING;
    else
        connect_soon(d);
}

static void connect_soon(struct tls_dialer *d)
{
    uint32_t random;
    struct rng_source rng = rng_os();
    if (d->calls.closed)
        return;
    rng.fill(rng.self, &random, sizeof(random));
    d->again_ms = d->again_ms ? d->again_ms * 2 : RECONNECT_MIN_MS;
    d->again_ms = d->again_ms < RECONNECT_MAX_MS ? d->again_ms : RECONNECT_MAX_MS;
    int64_t wait_ms = d->again_ms / 2 + random % (uint32_t)d->again_ms / 2;
    loop_timer_set(d->loop, &d->again, loop_now_ms(d->loop) + wait_ms, connect_now, d);
}

static struct tls_dialer *dialer_of(struct net_calls *calls)
{
    return list_entry(calls, struct tls_dialer, calls);
}

static bool is_connected(struct net_calls *calls)
{
    return dialer_of(calls)->state == CONNECTED;
}

static void cut_connection(struct net_calls *calls)
{
    connection_lost(dialer_of(calls));
}

static const struct net_calls_owner calls_owner = {
    .connected = is_connected,
    .sent = tls_call_was_sent,
    .withdraw = tls_call_withdraw,
    .release = tls_call_release,
    .cut = cut_connection,
};

int tls_dialer_new(struct loop *loop, const struct net_address *address, struct tls_dialer **ret,
                   struct error *err)
{
    struct tls_dialer *d = calloc(1, sizeof(*d));
    if (!d)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory to connect to %s", address->url);
    d->loop = loop;
    d->fd = -1;
    list_init(&d->queue);
    net_calls_init(&d->calls, &calls_owner, loop);
    buf_init(&d->received,
             NET_MESSAGE_MAX_BYTES + SP_HEAD_MAX_BYTES + SP_TRACE_MAX_BYTES + 2 * TLS_READ_BYTES);
    (void)str_copy(d->url, sizeof(d->url), address->url);
    (void)str_copy(d->pins, sizeof(d->pins), address->pins);
    int rc = 0;
    if (!net_url_split(net_url_tcp(address->url), d->host, d->port)) {
        rc = error_set(err, E_INVALID_ARGUMENT, "%s: no host and port", address->url);
        error_hint(err, "write tcp://host:port; an IPv6 host in brackets");
    }
    if (!rc)
        rc = tls_identity_new(address->key[0] ? address->key : NULL, &d->identity, err);
    if (!rc)
        rc = tls_check_pins(d->pins, err);
    if (rc) {
        tls_dialer_free(d);
        return rc;
    }
    connect_now(d);
    *ret = d;
    return 0;
}

int tls_dialer_problem(const struct tls_dialer *d, struct error *ret)
{
    if (d->problem.code == 0 && (d->state == PROVING || d->state == GREETING))
        return error_set(ret, E_UNAVAILABLE,
                         "%s accepts connections but has not answered: it is busy or stopped, or "
                         "is not a coordinator",
                         d->url);
    if (d->problem.code != 0)
        *ret = d->problem;
    return d->problem.code;
}

void tls_dialer_close(struct tls_dialer *d)
{
    if (d->calls.closed)
        return;
    d->calls.closed = true; /* also for what hang_up calls */
    loop_timer_cancel(d->loop, &d->again);
    net_lookup_cancel(d->lookup);
    d->lookup = NULL;
    hang_up(d);
    net_calls_close(&d->calls);
}

void tls_dialer_free(struct tls_dialer *d)
{
    if (!d)
        return;
    tls_dialer_close(d);
    if (d->addresses)
        freeaddrinfo(d->addresses);
    net_calls_fini(&d->calls);
    buf_fini(&d->ticket);
    tls_identity_free(d->identity);
    free(d);
}

/* On the loop, so that a failure completes no call inside tls_dialer_call. */
static void send_soon(void *arg)
{
    struct tls_dialer *d = arg;
    if (d->state == CONNECTED && !send_queue(d))
        connection_lost(d);
    else if (d->state == CONNECTED)
        read_some(d);
}

int tls_dialer_call(struct tls_dialer *d, const void *bytes, size_t size, int64_t timeout_ms,
                    net_answer_fn on_answer, void *arg, struct error *err)
{
    struct net_call_how how = {timeout_ms, on_answer, arg};
    struct tls_call *call;
    int rc = tls_call_new(&d->calls, bytes, size, &how, &call, err);
    if (rc)
        return rc;
    list_push_back(&d->queue, &call->link);
    if (d->state == CONNECTED && !send_queue(d))
        loop_timer_set(d->loop, &d->go_on, loop_now_ms(d->loop), send_soon, d);
    return 0;
}
