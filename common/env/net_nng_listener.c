/* Listeners with TLS: REP sockets of NNG with one context per request in flight. Those without are
 * ours (net_listener.h). */
#include "common/env/net_nng_internal.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include <nng/protocol/reqrep0/rep.h>
#include <nng/supplemental/tls/tls.h>

#include "common/base/assert.h"
#include "common/base/map.h"
#include "common/base/str.h"
#include "common/loop/loop.h"

enum {
    STUCK_ANSWER_MS = 30000, /* a peer that does not read its answer is disconnected */
    SWEEP_MS = 5000,
    CONTEXTS_READY = 8, /* receiving at any time, below max_in_flight */
};

struct nng_listening {
    struct net_nng *net;
    nng_socket socket;
    nng_listener listener;
    char url[NET_URL_MAX];
    struct net_service service;
    bool closed;     /* loop thread, as all above */
    struct map open; /* request number -> struct context */
    uint64_t last_request;
    struct loop_timer sweep;
    pthread_mutex_t lock; /* of what follows */
    struct map peers;     /* pipe id -> struct peer */
    struct map numbers;   /* number -> struct peer */
    uint64_t last_peer;
    struct list contexts;
    int context_count;
    int receiving;
};

struct peer {
    struct happening gone;
    struct nng_listening *listener;
    uint64_t number;
    char name[NET_PEER_NAME_MAX];
};

/*     receiving ──(NNG: message)──► held ──(answer)──► sending ──(NNG: sent)──► receiving
 *                                     └──(peer gone, listener closed)──► receiving / parked  */
enum context_state { CONTEXT_RECEIVING, CONTEXT_HELD, CONTEXT_SENDING, CONTEXT_PARKED };

struct context {
    struct happening arrived;
    struct nng_listening *listener;
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
    net_nng_push(c->listener->net, &c->arrived);
}

static uint64_t listener_peer(struct nng_listening *l, uint32_t pipe)
{
    pthread_mutex_lock(&l->lock);
    struct peer *peer = map_get(&l->peers, pipe);
    uint64_t number = peer ? peer->number : 0;
    pthread_mutex_unlock(&l->lock);
    return number;
}

static void context_arrived(struct happening *self);

static int listener_add_context(struct nng_listening *l)
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
static void listener_keep_ready(struct nng_listening *l)
{
    pthread_mutex_lock(&l->lock);
    int want = l->receiving < CONTEXTS_READY / 2 ? l->context_count : 0;
    int room = l->service.max_in_flight - l->context_count;
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < want && i < room; i++)
        if (listener_add_context(l) != 0)
            return;
}

static void context_arrived(struct happening *self)
{
    struct context *c = list_entry(self, struct context, arrived);
    struct nng_listening *l = c->listener;
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
        l->service.on_request(l->service.arg, request, peer, nng_msg_body(message),
                              nng_msg_len(message));
    }
    nng_msg_free(message);
}

void nng_listening_answer(struct nng_listening *l, uint64_t request, const void *bytes, size_t size)
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
    struct nng_listening *l = peer->listener;
    uint64_t number = peer->number;
    free(peer);
    if (!l->closed && l->service.on_gone)
        l->service.on_gone(l->service.arg, number);
}

static void name_peer(nng_pipe pipe, char ret[NET_PEER_NAME_MAX])
{
    nng_sockaddr address;
    if (nng_pipe_get_addr(pipe, NNG_OPT_REMADDR, &address) != 0)
        return;
    if (address.s_family == NNG_AF_INET)
        (void)inet_ntop(AF_INET, &address.s_in.sa_addr, ret, NET_PEER_NAME_MAX);
    else if (address.s_family == NNG_AF_INET6)
        (void)inet_ntop(AF_INET6, address.s_in6.sa_addr, ret, NET_PEER_NAME_MAX);
    else if (address.s_family == NNG_AF_IPC)
        (void)str_copy(ret, NET_PEER_NAME_MAX, "local");
}

/* Before its first message: a connection that cannot be remembered is refused. */
static void listener_pipe_added(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    (void)event;
    struct nng_listening *l = arg;
    struct peer *peer = calloc(1, sizeof(*peer));
    int rc = E_RESOURCE_EXHAUSTED;
    if (peer) {
        peer->gone.handle = peer_gone;
        peer->listener = l;
        name_peer(pipe, peer->name);
        pthread_mutex_lock(&l->lock);
        peer->number = ++l->last_peer;
        rc = map_set(&l->peers, (uint32_t)nng_pipe_id(pipe), peer, NULL);
        if (rc == 0 && map_set(&l->numbers, peer->number, peer, NULL) != 0)
            peer->name[0] = 0; /* then its name cannot be asked for */
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
    struct nng_listening *l = arg;
    pthread_mutex_lock(&l->lock);
    struct peer *peer = map_remove(&l->peers, (uint32_t)nng_pipe_id(pipe));
    if (peer)
        map_remove(&l->numbers, peer->number);
    pthread_mutex_unlock(&l->lock);
    if (peer)
        net_nng_push(l->net, &peer->gone);
}

/* Without it a peer that never reads would hold its contexts for ever. */
static void listener_sweep(void *arg)
{
    struct nng_listening *l = arg;
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

static int listener_start(struct nng_listening *l, const struct net_nng_address *address)
{
    int rv = net_nng_start();
    if (rv == 0)
        rv = nng_rep0_open(&l->socket);
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
    rv = nng_listener_set_bool(l->listener, NNG_OPT_TCP_NODELAY, true);
    if (rv == 0)
        rv = nng_listener_set_bool(l->listener, NNG_OPT_TCP_KEEPALIVE, true);
    if (rv == 0 && address->cert[0])
        rv = nng_listener_set_string(l->listener, NNG_OPT_TLS_CERT_KEY_FILE, address->cert);
    return rv == 0 ? nng_listener_start(l->listener, 0) : rv;
}

/* "tls+tcp://127.0.0.1:0" with the port it got. */
static int listener_name(struct nng_listening *l, const struct net_nng_address *address)
{
    char *colon = strrchr(address->url, ':');
    int port = 0;
    if (!str_equal(str_of(colon), str_of(":0")))
        return str_copy(l->url, sizeof(l->url), address->url);
    if (nng_listener_get_int(l->listener, NNG_OPT_TCP_BOUND_PORT, &port) != 0)
        return E_INTERNAL;
    return str_printf(l->url, sizeof(l->url), "%.*s:%d", (int)(colon - address->url), address->url,
                      port);
}

int nng_listening_new(struct net_nng *net, const struct net_nng_address *address,
                      const struct net_service *service, struct nng_listening **ret,
                      struct error *err)
{
    struct nng_listening *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory to listen at %s", address->url);
    *l = (struct nng_listening){.net = net, .service = *service};
    pthread_mutex_init(&l->lock, NULL);
    list_init(&l->contexts);
    int rv = listener_start(l, address);
    if (rv == 0 && listener_name(l, address) != 0)
        rv = NNG_EADDRINVAL;
    for (int i = 0; rv == 0 && i < CONTEXTS_READY && i < service->max_in_flight; i++)
        rv = listener_add_context(l);
    if (rv != 0) {
        l->closed = true; /* and kept: nng_close may wait for ever */
        l->net->used = true;
        return net_nng_fail(err, rv, "cannot listen at", address->url);
    }
    l->net->used = true;
    listener_sweep(l);
    *ret = l;
    return 0;
}

const char *nng_listening_url(const struct nng_listening *l)
{
    return l->url;
}

void nng_listening_peer_name(struct nng_listening *l, uint64_t number, char ret[NET_PEER_NAME_MAX])
{
    pthread_mutex_lock(&l->lock);
    const struct peer *peer = map_get(&l->numbers, number);
    (void)str_copy(ret, NET_PEER_NAME_MAX, peer ? peer->name : "");
    pthread_mutex_unlock(&l->lock);
}

void nng_listening_close(struct nng_listening *l)
{
    if (l->closed)
        return;
    l->closed = true;
    loop_timer_cancel(l->net->loop, &l->sweep);
    map_fini(&l->open);
    nng_listener_close(l->listener);
}
