#include "common/env/net_peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/env/net_standing.h"
#include "common/env/tls.h"

static size_t unsent_size(const struct peer *p)
{
    return p->unsent.size - p->unsent_at;
}

/* The loop notices its end later, not in the middle of the program's work. */
static void peer_break(struct peer *p)
{
    buf_fini(&p->unsent);
    p->unsent_at = 0;
    standing_count(p);
    (void)shutdown(p->fd, SHUT_RDWR);
}

void peer_hang_up(struct peer *p)
{
    struct request *request;
    while ((request = list_first(&p->requests, struct request, link))) {
        list_remove(&request->link);
        map_remove(&p->listener->open, request->number);
        free(request);
    }
    list_remove(&p->resting);
    list_remove(&p->turn);
    loop_unwatch(p->listener->loop, p->fd);
    close(p->fd);
    p->fd = -1;
}

void peer_free(struct peer *p)
{
    if (p->fd >= 0)
        peer_hang_up(p);
    map_remove(&p->listener->numbers, p->number);
    list_remove(&p->link);
    buf_fini(&p->received);
    buf_fini(&p->unsent);
    p->unsent_at = 0;
    standing_leave(p);
    if (p->listener->serving == p)
        p->listener->serving = NULL;
    tls_session_free(p->tls);
    free(p);
}

static void peers_resume(void *arg)
{
    struct sp_listener *l = arg;
    struct list turn;
    struct peer *p;
    list_init(&turn);
    list_splice_back(&turn, &l->resting);
    while ((p = list_first(&turn, struct peer, resting))) {
        p->ready_ms = p->begun_ms = loop_now_ms(l->loop);
        list_remove(&p->resting);
        peer_ready(p);
    }
}

void peers_resume_soon(struct sp_listener *l)
{
    if (!l->closed && !list_empty(&l->resting))
        loop_timer_set(l->loop, &l->resume, loop_now_ms(l->loop), peers_resume, l);
}

void peer_lost(struct peer *p)
{
    struct sp_listener *l = p->listener;
    uint64_t number = p->number;
    bool told = p->greeted && l->service.on_gone;
    peer_free(p);
    peers_resume_soon(l);
    if (told)
        l->service.on_gone(l->service.arg, number);
}

/* Sending */

static void peer_keep(struct peer *p, const struct iovec *parts, int count, size_t sent)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += parts[i].iov_len;
    if (!standing_may_leave_unread(p, size - sent)) {
        peer_break(p);
        return;
    }
    if (unsent_size(p) == 0)
        p->since_ms = loop_now_ms(p->listener->loop);
    for (int i = 0; i < count; i++) {
        size_t skip = sent < parts[i].iov_len ? sent : parts[i].iov_len;
        sent -= skip;
        if (buf_append(&p->unsent, (const char *)parts[i].iov_base + skip,
                       parts[i].iov_len - skip)) {
            peer_break(p);
            return;
        }
    }
    standing_count(p);
}

/* Encrypt the available `parts` into the session's buffer. Small answers are combined first,
 * because each record costs. */
static int peer_seal(struct peer *p, const struct iovec *parts, int count, size_t size)
{
    uint8_t *record = p->listener->record;
    size_t at = 0;
    int rc = 0;
    if (size > PEER_RECORD_BYTES) {
        for (int i = 0; !rc && i < count; i++)
            rc = tls_write(p->tls, parts[i].iov_base, parts[i].iov_len);
        return rc;
    }
    for (int i = 0; i < count; i++) {
        memcpy(record + at, parts[i].iov_base, parts[i].iov_len);
        at += parts[i].iov_len;
    }
    return tls_write(p->tls, record, size);
}

static void peer_write_raw(struct peer *p, struct iovec *parts, int count, size_t size)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    ssize_t sent = 0;
    if (unsent_size(p) == 0) {
        do
            sent = sendmsg(p->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (sent < 0 && errno == EINTR);
        if (sent < 0 && errno != EAGAIN) {
            peer_break(p);
            return;
        }
        sent = sent < 0 ? 0 : sent;
    }
    if ((size_t)sent < size)
        peer_keep(p, parts, count, (size_t)sent);
}

static void peer_write_sealed(struct peer *p)
{
    struct buf *out = tls_out(p->tls);
    struct iovec all = {out->data, out->size};
    if (out->size > 0)
        peer_write_raw(p, &all, 1, out->size);
    if (out->capacity > PEER_READ_BYTES)
        buf_fini(out);
    else
        buf_clear(out);
}

static void peer_write(struct peer *p, struct iovec *parts, int count, size_t size)
{
    if (!p->tls)
        peer_write_raw(p, parts, count, size);
    else if (!peer_seal(p, parts, count, size))
        peer_write_sealed(p);
    else
        peer_break(p);
}

void peer_send(struct peer *p, const struct request *request, const void *bytes, size_t size)
{
    uint8_t head[SP_HEAD_MAX_BYTES];
    size_t head_bytes = sp_head(request->trace_bytes + size, p->listener->unix_socket, head);
    struct iovec parts[] = {
        {head, head_bytes}, {(void *)request->trace, request->trace_bytes}, {(void *)bytes, size}};
    peer_write(p, parts, 3, head_bytes + request->trace_bytes + size);
}

static void peer_flush(struct peer *p)
{
    while (unsent_size(p) > 0) {
        ssize_t sent =
            send(p->fd, p->unsent.data + p->unsent_at, unsent_size(p), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return;
        if (sent < 0) {
            peer_break(p);
            return;
        }
        p->unsent_at += (size_t)sent;
        p->since_ms = loop_now_ms(p->listener->loop);
        standing_count(p);
    }
    buf_fini(&p->unsent);
    p->unsent_at = 0;
    standing_count(p);
}

/* Receiving */

static void peer_rest(struct peer *p)
{
    list_push_back(&p->listener->resting, &p->resting);
}

static bool had_its_turn(const struct peer *p)
{
    return p->taken >= PEER_MESSAGES_MAX ||
           (p->taken > 0 && loop_clock_ms(p->listener->loop) >= p->slice_until_ms);
}

/* Agents, callers and strangers each have time of their own. */
void peer_ready(struct peer *p)
{
    struct sp_listener *l = p->listener;
    if (list_empty(&p->turn))
        p->ready_ms = loop_now_ms(l->loop);
    fair_ready(&l->fairs[l->classifies ? p->standing : NET_CALLER], p->whose, &p->turn);
}

/* A peer that does not read its answers is not read from, and neither is any peer while the program
 * is full. */
static bool may_serve(const struct peer *p)
{
    const struct sp_listener *l = p->listener;
    return unsent_size(p) == 0 && !had_its_turn(p) &&
           l->open.count < (size_t)l->service.max_in_flight;
}

static bool peer_serve(struct peer *p, const struct sp_message *message)
{
    struct sp_listener *l = p->listener;
    struct request *request = calloc(1, sizeof(*request));
    uint64_t number = l->last_request + 1;
    if (!request || map_set(&l->open, number, request, NULL)) {
        free(request);
        return false;
    }
    l->last_request = request->number = number;
    request->peer = p;
    request->trace_bytes = message->trace_bytes;
    memcpy(request->trace, message->trace, message->trace_bytes);
    list_push_back(&p->requests, &request->link);
    p->taken++;
    l->serving = p;
    l->service.on_request(l->service.arg, number, p->number, message->body, message->body_bytes);
    l->serving = NULL;
    return !p->doomed;
}

/* Serve what is whole in `bytes`; how much that was, or below 0: this connection cannot go on. */
static int64_t peer_serve_messages(struct peer *p, const uint8_t *bytes, size_t size)
{
    size_t at = 0;
    if (!p->greeted) {
        if (size < SP_GREETING_BYTES)
            return 0;
        if (!sp_greets_as_req(bytes))
            return E_INVALID_ARGUMENT;
        p->greeted = true;
        at = SP_GREETING_BYTES;
    }
    while (p->fd >= 0 && may_serve(p)) {
        struct sp_message message;
        int64_t taken = sp_parse(bytes + at, size - at, p->listener->unix_socket, &message);
        if (taken == 0)
            break;
        if (taken < 0 || !peer_serve(p, &message))
            return E_INVALID_ARGUMENT;
        at += (size_t)taken;
    }
    return (int64_t)at;
}

/* False: it cannot go on. */
static bool peer_serve_received(struct peer *p)
{
    struct buf *from = &p->received;
    int64_t taken = peer_serve_messages(p, (const uint8_t *)from->data, from->size);
    if (taken < 0)
        return false;
    if ((size_t)taken >= from->size) {
        buf_fini(from);
    } else if (taken > 0) {
        from->size -= (size_t)taken;
        memmove(from->data, from->data + taken, from->size);
        p->begun_ms = loop_now_ms(p->listener->loop);
    }
    standing_count(p);
    return true;
}

static bool peer_receive(struct peer *p, const uint8_t *bytes, size_t size)
{
    struct sp_listener *l = p->listener;
    if (p->received.size > 0)
        return standing_may_receive(p, size) && !buf_append(&p->received, bytes, size) &&
               peer_serve_received(p);
    int64_t taken = peer_serve_messages(p, bytes, size);
    if (taken < 0)
        return false;
    size -= (size_t)taken;
    if (!standing_may_receive(p, size) || buf_append(&p->received, bytes + taken, size))
        return false;
    p->begun_ms = loop_now_ms(l->loop);
    standing_count(p);
    return true;
}

/* Process the session's decrypted bytes; false: this connection cannot continue. */
static bool peer_receive_opened(struct peer *p)
{
    struct sp_listener *l = p->listener;
    while (p->fd >= 0) {
        int64_t size = tls_read(p->tls, l->opened, sizeof(l->opened));
        if (size == 0)
            break;
        if (size < 0 || !peer_receive(p, l->opened, (size_t)size))
            return false;
    }
    if (p->fd >= 0)
        peer_write_sealed(p); /* what TLS itself answers */
    return true;
}

static bool peer_receive_raw(struct peer *p, size_t size)
{
    if (!p->tls)
        return peer_receive(p, p->listener->bytes, size);
    return !tls_feed(p->tls, p->listener->bytes, size) && peer_receive_opened(p);
}

/* Edge-triggered: after a read that was not filled nothing is left, and later data is reported. An
 * end that was reported already is not reported again. */
void peer_continue(struct peer *p)
{
    struct sp_listener *l = p->listener;
    if (p->doomed) {
        peer_lost(p);
        return;
    }
    p->taken = 0;
    p->slice_until_ms = loop_clock_ms(l->loop) + PEER_SLICE_MS;
    list_remove(&p->resting);
    bool good = p->received.size == 0 || peer_serve_received(p);
    if (good && p->tls && p->fd >= 0)
        good = peer_receive_opened(p);
    for (int reads = 0; good && p->fd >= 0; reads++) {
        if (p->greeted && !may_serve(p)) {
            if (had_its_turn(p)) {
                peer_ready(p);
                return;
            }
            if (p->ended)
                break; /* the sender of the rest waits for no answer */
            peer_rest(p);
            return;
        }
        if (reads == PEER_READS_MAX) {
            peer_ready(p);
            return;
        }
        ssize_t size = recv(p->fd, l->bytes, sizeof(l->bytes), 0);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && errno == EAGAIN)
            return;
        good = size > 0 && peer_receive_raw(p, (size_t)size);
        if (good && (size_t)size < sizeof(l->bytes) && p->fd >= 0 && may_serve(p) && !p->ended)
            return;
    }
    if (p->fd >= 0)
        peer_lost(p);
}

static void peer_event(void *arg, int fd, uint32_t events)
{
    struct peer *p = arg;
    (void)fd;
    if (events & EPOLLOUT)
        peer_flush(p);
    if (events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR))
        p->ended = true;
    peer_ready(p);
}

struct peer *peer_new(struct sp_listener *l, int fd, struct tls_session *tls)
{
    struct peer *p = calloc(1, sizeof(*p));
    if (!p) {
        tls_session_free(tls);
        close(fd);
        return NULL;
    }
    *p = (struct peer){.listener = l,
                       .fd = fd,
                       .tls = tls,
                       .number = ++l->last_peer,
                       .since_ms = loop_now_ms(l->loop),
                       .accepted_ms = loop_now_ms(l->loop)};
    list_init(&p->resting);
    list_init(&p->turn);
    list_init(&p->requests);
    list_push_back(&l->peers, &p->link);
    buf_init(&p->received,
             SP_HEAD_MAX_BYTES + SP_TRACE_MAX_BYTES + NET_MESSAGE_MAX_BYTES + PEER_READ_BYTES);
    buf_init(&p->unsent, PEER_UNSENT_MAX_BYTES);
    struct iovec greeting = {(void *)sp_greeting_rep, SP_GREETING_BYTES};
    peer_write(p, &greeting, 1, SP_GREETING_BYTES);
    uint32_t events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    if (map_set(&l->numbers, p->number, p, NULL) ||
        loop_watch(l->loop, fd, events, peer_event, p, NULL)) {
        peer_free(p);
        return NULL;
    }
    if (tls) { /* the end of its handshake may include data that the kernel does not report */
        peer_rest(p);
        peers_resume_soon(l);
    }
    return p;
}
