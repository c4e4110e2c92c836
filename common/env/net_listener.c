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
#include "common/base/str.h"
#include "common/env/net_bind.h"
#include "common/env/net_listener_internal.h"

enum {
    PEERS_MAX = 65536, /* more are hung up on */
    ACCEPTS_PER_TURN = 64,
    ACCEPT_AGAIN_MS = 100, /* when there is no descriptor left for another connection */
};

static const struct net_patience usual_patience = {
    .greeting_ms = 10000, .message_ms = 60000, .answer_ms = 30000, .sweep_ms = 5000};

static void resume(void *arg)
{
    struct sp_listener *l = arg;
    struct list turn;
    struct peer *p;
    list_init(&turn);
    list_splice_back(&turn, &l->resting);
    while ((p = list_first(&turn, struct peer, resting)))
        peer_go_on(p);
}

void listener_resume_soon(struct sp_listener *l)
{
    if (!l->closed && !list_empty(&l->resting))
        loop_timer_set(l->loop, &l->resume, loop_now_ms(l->loop), resume, l);
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

static void welcome(struct sp_listener *l, int fd, const struct sockaddr_storage *address)
{
    int on = 1;
    if (l->numbers.count >= PEERS_MAX) {
        close(fd);
        return;
    }
    if (!l->unix_socket) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    }
    struct peer *p = peer_new(l, fd);
    if (p)
        name_peer(address, p->name);
}

static int watch(struct sp_listener *l, struct error *err);

static void watch_again(void *arg)
{
    struct sp_listener *l = arg;
    if (watch(l, NULL) != 0)
        loop_timer_set(l->loop, &l->accept, loop_now_ms(l->loop) + ACCEPT_AGAIN_MS, watch_again, l);
}

/* Why accept failed says nothing of the listening socket: a connection that is gone again already
 * is the next one's business, and with all descriptors in use it would be told for ever. */
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
            welcome(l, fd, &address);
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

static int watch(struct sp_listener *l, struct error *err)
{
    return loop_watch(l->loop, l->fd, EPOLLIN, accept_some, l, err);
}

static bool is_stuck(const struct sp_listener *l, const struct peer *p, int64_t now_ms)
{
    const struct net_patience *patience = &l->patience;
    if (!p->greeted)
        return now_ms - p->since_ms > patience->greeting_ms;
    if (p->unsent.size > 0)
        return now_ms - p->since_ms > patience->answer_ms;
    return p->received.size > 0 && list_empty(&p->resting) &&
           now_ms - p->begun_ms > patience->message_ms;
}

static void sweep(void *arg)
{
    struct sp_listener *l = arg;
    struct peer *p;
    int64_t now_ms = loop_now_ms(l->loop);
    loop_timer_set(l->loop, &l->sweep, now_ms + l->patience.sweep_ms, sweep, l);
    list_each(p, &l->peers, link)
        if (is_stuck(l, p, now_ms))
            (void)shutdown(p->fd, SHUT_RDWR); /* the loop tells of it */
}

void sp_listener_set_patience(struct sp_listener *l, const struct net_patience *patience)
{
    l->patience = *patience;
    loop_timer_set(l->loop, &l->sweep, loop_now_ms(l->loop) + patience->sweep_ms, sweep, l);
}

int sp_listener_new(struct loop *loop, const char *url, const struct net_service *service,
                    struct sp_listener **ret, struct error *err)
{
    struct sp_listener *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory to listen at %s", url);
    l->loop = loop;
    l->service = *service;
    l->unix_socket = net_bind_path(url) != NULL;
    list_init(&l->peers);
    list_init(&l->resting);
    int rc = net_bind(url, &l->fd, l->url, err);
    if (rc != 0) {
        free(l);
        return rc;
    }
    rc = watch(l, err);
    if (rc != 0) {
        sp_listener_free(l);
        return rc;
    }
    sp_listener_set_patience(l, &usual_patience);
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
    listener_resume_soon(l);
}

void sp_listener_peer_name(const struct sp_listener *l, uint64_t number,
                           char ret[NET_PEER_NAME_MAX])
{
    const struct peer *p = map_get(&l->numbers, number);
    (void)str_copy(ret, NET_PEER_NAME_MAX, p ? p->name : "");
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
    while ((p = list_first(&l->peers, struct peer, link)))
        peer_free(p);
    map_fini(&l->numbers);
    map_fini(&l->open);
    free(l);
}
