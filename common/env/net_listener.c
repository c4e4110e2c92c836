#include "common/env/net_listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/str.h"
#include "common/env/net_bind.h"
#include "common/env/net_handshake.h"
#include "common/env/net_peer.h"
#include "common/env/net_standing.h"
#include "common/env/net_url.h"
#include "common/env/tls.h"

enum {
    PEERS_LEAVING_MAX = 64,  /* places for closed connections that are not released yet */
    ACCEPTS_PER_TURN = 8192, /* more than the backlog: what strangers fill is empty each turn */
    ACCEPT_AGAIN_MS = 100,   /* when there is no descriptor left for another connection */
};

static const struct net_timeouts default_timeouts = {.greeting_ms = 10000,
                                                     .stranger_ms = MAX_STRANGER_S * 1000,
                                                     .message_ms = 60000,
                                                     .answer_ms = 30000,
                                                     .sweep_ms = 5000};

/* As it was when that end connected. */
static int64_t uid_of_peer(int fd)
{
    struct ucred user;
    socklen_t size = sizeof(user);
    int domain = 0;
    socklen_t domain_size = sizeof(domain);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_size) || domain != AF_UNIX ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size))
        return -1;
    return user.uid;
}

static void name_peer(const struct sockaddr_storage *address, char ret[NET_PEER_NAME_MAX])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    if (address->ss_family == AF_INET)
        (void)inet_ntop(AF_INET, &v4->sin_addr, ret, NET_PEER_NAME_MAX);
    else if (address->ss_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &v6->sin6_addr, ret, NET_PEER_NAME_MAX);
    else
        (void)str_copy(ret, NET_PEER_NAME_MAX, "local");
}

static void add_peer(struct sp_listener *l, int fd, struct tls_session *tls,
                     const struct sockaddr_storage *address)
{
    int on = 1;
    if (!l->unix_socket) { /* not before its handshake: most connections of a flood have none */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    }
    struct peer *p = peer_new(l, fd, tls);
    if (!p)
        return;
    name_peer(address, p->name);
    if (!standing_enter(p)) {
        peer_free(p);
        return;
    }
    p->uid = uid_of_peer(fd);
    if (tls)
        (void)str_copy(p->key, sizeof(p->key), tls_peer_pin(tls));
}

/* Strangers are disconnected for a new connection, those of the address with the most first. */
static bool has_place(struct sp_listener *l)
{
    size_t places = standing_peers_max();
    return l->numbers.count < places ||
           (standing_evict_stranger(l) && l->numbers.count < places + PEERS_LEAVING_MAX);
}

static void welcome_secure(void *arg, int fd, struct tls_session *tls,
                           const struct sockaddr_storage *address)
{
    struct sp_listener *l = arg;
    if (l->closed || !has_place(l)) {
        tls_session_free(tls);
        close(fd);
        return;
    }
    add_peer(l, fd, tls, address);
}

static void handle_accepted(struct sp_listener *l, int fd, const struct sockaddr_storage *address)
{
    if (!l->handshakes && !has_place(l)) {
        close(fd);
        return;
    }
    if (l->handshakes)
        handshakes_add(l->handshakes, fd, address);
    else
        add_peer(l, fd, NULL, address);
}

static int watch_socket(struct sp_listener *l, struct error *err);

static void watch_again(void *arg)
{
    struct sp_listener *l = arg;
    if (watch_socket(l, NULL))
        loop_timer_set(l->loop, &l->accept, loop_now_ms(l->loop) + ACCEPT_AGAIN_MS, watch_again, l);
}

/* An accept failure does not concern the listening socket. A connection that is already closed is
 * skipped. With all descriptors in use the poll would report it for ever. */
static void accept_some(void *arg, int listening, uint32_t events)
{
    struct sp_listener *l = arg;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof(address);
        int fd =
            accept4(listening, (struct sockaddr *)&address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            handle_accepted(l, fd, &address);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            loop_unwatch(l->loop, listening);
            loop_timer_set(l->loop, &l->accept, loop_now_ms(l->loop) + ACCEPT_AGAIN_MS, watch_again,
                           l);
            return;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

static int watch_socket(struct sp_listener *l, struct error *err)
{
    return loop_watch(l->loop, l->fd, EPOLLIN, accept_some, l, err);
}

static bool is_stuck(const struct sp_listener *l, const struct peer *p, int64_t now_ms)
{
    const struct net_timeouts *timeouts = &l->timeouts;
    if (!p->greeted)
        return now_ms - p->since_ms > timeouts->greeting_ms;
    if (l->classifies && p->standing == NET_STRANGER &&
        now_ms - p->accepted_ms > timeouts->stranger_ms)
        return true;
    if (p->unsent.size > 0)
        return now_ms - p->since_ms > timeouts->answer_ms;
    return p->received.size > 0 && list_empty(&p->resting) && list_empty(&p->turn) &&
           now_ms - p->begun_ms > timeouts->message_ms;
}

static void sweep_peers(void *arg)
{
    struct sp_listener *l = arg;
    struct peer *p;
    int64_t now_ms = loop_now_ms(l->loop);
    loop_timer_set(l->loop, &l->sweep, now_ms + l->timeouts.sweep_ms, sweep_peers, l);
    list_each(p, &l->peers, link)
        if (is_stuck(l, p, now_ms))
            (void)shutdown(p->fd, SHUT_RDWR); /* the loop reports it */
}

void sp_listener_set_timeouts(struct sp_listener *l, const struct net_timeouts *timeouts)
{
    l->timeouts = *timeouts;
    loop_timer_set(l->loop, &l->sweep, loop_now_ms(l->loop) + timeouts->sweep_ms, sweep_peers, l);
}

static int prepare_tls(struct sp_listener *l, const struct net_address *address, struct error *err)
{
    if (!address->key[0])
        return error_set(err, E_INVALID_ARGUMENT, "cannot listen at %s: TLS needs a key",
                         address->url);
    int rc = tls_identity_new(address->key, &l->identity, err);
    if (rc)
        return rc;
    return handshakes_new(l->loop, l->identity, welcome_secure, l, &l->handshakes, err);
}

static int listen_at(struct sp_listener *l, const struct net_address *address, struct error *err)
{
    char url[NET_URL_MAX];
    int rc = address->tls ? prepare_tls(l, address, err) : 0;
    if (!rc)
        rc = net_bind(address->url, &l->fd, url, err);
    if (!rc && str_printf(l->url, sizeof(l->url), "%s%s", address->tls ? "tls+" : "", url))
        rc = error_set(err, E_INVALID_ARGUMENT, "the address is longer than %d bytes",
                       NET_URL_MAX - 1);
    if (rc)
        return rc;
    return watch_socket(l, err);
}

static void serve_turn(void *arg, struct list *turn)
{
    struct peer *p = list_entry(turn, struct peer, turn);
    (void)arg;
    p->begun_ms += loop_now_ms(p->listener->loop) - p->ready_ms; /* the waiting was not its doing */
    peer_continue(p);
}

static void begin_fair(struct sp_listener *l)
{
    static const int64_t turn_ms[NET_STANDINGS] = {
        [NET_STRANGER] = NET_STRANGERS_TURN_MS,
        [NET_CALLER] = NET_CALLERS_TURN_MS,
        [NET_AGENT] = NET_AGENTS_TURN_MS,
    };
    for (int i = 0; i < NET_STANDINGS; i++)
        fair_init(&l->fairs[i], l->loop, turn_ms[i], serve_turn, l);
}

int sp_listener_new(struct loop *loop, const struct net_address *address,
                    const struct net_service *service, struct sp_listener **ret, struct error *err)
{
    struct sp_listener *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory to listen at %s", address->url);
    l->loop = loop;
    l->service = *service;
    l->unix_socket = net_bind_path(address->url) != NULL;
    l->fd = -1;
    list_init(&l->peers);
    list_init(&l->resting);
    begin_fair(l);
    int rc = listen_at(l, address, err);
    if (rc) {
        sp_listener_free(l);
        return rc;
    }
    sp_listener_set_timeouts(l, &default_timeouts);
    *ret = l;
    return 0;
}

const char *sp_listener_url(const struct sp_listener *l)
{
    return l->url;
}

void sp_listener_answer(struct sp_listener *l, uint64_t number, const void *bytes, size_t size)
{
    struct request *request = map_remove(&l->open, number);
    if (!request)
        return;
    list_remove(&request->link);
    if (size <= NET_MESSAGE_MAX_BYTES)
        peer_send(request->peer, request, bytes, size);
    free(request);
    peers_resume_soon(l);
}

static struct peer *peer_of(const struct sp_listener *l, uint64_t number)
{
    bool now = l->serving && l->serving->number == number;
    return now ? l->serving : map_get(&l->numbers, number);
}

void sp_listener_peer_name(const struct sp_listener *l, uint64_t number,
                           char ret[NET_PEER_NAME_MAX])
{
    const struct peer *p = peer_of(l, number);
    (void)str_copy(ret, NET_PEER_NAME_MAX, p ? p->name : "");
}

void sp_listener_classify(struct sp_listener *l, uint64_t number, enum net_standing standing,
                          uint64_t whose)
{
    struct peer *p = peer_of(l, number);
    l->classifies = true;
    if (!p)
        return;
    if (standing != NET_STRANGER) {
        p->refusals = 0;
        p->whose = whose ? whose : number;
        standing_change(p, standing);
    } else if (++p->refusals >= MAX_STRANGER_REFUSALS) {
        p->doomed = true; /* once this one is answered */
    }
}

int64_t sp_listener_peer_uid(const struct sp_listener *l, uint64_t number)
{
    const struct peer *p = peer_of(l, number);
    return p ? p->uid : -1;
}

void sp_listener_peer_key(const struct sp_listener *l, uint64_t number, char ret[NET_PEER_KEY_MAX])
{
    const struct peer *p = peer_of(l, number);
    (void)str_copy(ret, NET_PEER_KEY_MAX, p ? p->key : "");
}

void **sp_listener_peer_data(const struct sp_listener *l, uint64_t number)
{
    struct peer *p = peer_of(l, number);
    return p ? &p->data : NULL;
}

void sp_listener_close(struct sp_listener *l)
{
    struct peer *p;
    if (l->closed)
        return;
    l->closed = true;
    loop_timer_cancel(l->loop, &l->sweep);
    loop_timer_cancel(l->loop, &l->resume);
    loop_timer_cancel(l->loop, &l->accept);
    for (int i = 0; i < NET_STANDINGS; i++)
        fair_fini(&l->fairs[i]);
    if (l->fd < 0)
        return;
    loop_unwatch(l->loop, l->fd);
    close(l->fd);
    if (l->unix_socket)
        (void)unlink(net_bind_path(l->url));
    list_each(p, &l->peers, link) /* a callback of one may be at work: freed with the listener */
        peer_hang_up(p);
}

void sp_listener_free(struct sp_listener *l)
{
    struct peer *p;
    if (!l)
        return;
    sp_listener_close(l);
    handshakes_free(l->handshakes);
    while ((p = list_first(&l->peers, struct peer, link)))
        peer_free(p);
    map_fini(&l->numbers);
    map_fini(&l->open);
    strmap_fini(&l->origins);
    tls_identity_free(l->identity);
    free(l);
}
