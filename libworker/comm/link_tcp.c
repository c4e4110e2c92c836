#include "libworker/comm/link_tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <worker/error.h>

enum {
    BUFFER_BYTES = 256 * 1024,
    DIRECT_BYTES =
        16 * 1024, /* from here on the copy through the buffer costs more than the call */
    STRIPE_BYTES = 256 * 1024,
    /* A host that vanished is noticed after this time, with unanswered bytes or without. */
    UNANSWERED_MS = 10000,
    IDLE_S = 5,
    PROBE_S = 1,
    PROBES = 5,
};

struct link_tcp {
    struct link link;
    int fds[COMM_TCP_MAX];
    int count;
    uint64_t sent, got; /* positions in the two streams */
    bool ended;         /* end of file or an error was read */
    size_t from, to;    /* the unread part of the buffer */
    char buffer[BUFFER_BYTES];
};

static bool try_later(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* The connection for the stream at `place`, and the number of bytes it has from there on. */
static int connection_at(const struct link_tcp *tcp, uint64_t place, size_t *ret_bytes)
{
    *ret_bytes = tcp->count == 1 ? SIZE_MAX : STRIPE_BYTES - (size_t)(place % STRIPE_BYTES);
    return tcp->fds[place / STRIPE_BYTES % (uint64_t)tcp->count];
}

/* The first `bytes` of the parts after the first `skip`; returns the number of parts. */
static int cut_parts(const struct iovec *parts, int count, size_t skip, size_t bytes,
                     struct iovec *ret)
{
    int n = 0;
    for (int i = 0; i < count && bytes > 0; i++) {
        size_t length = parts[i].iov_len;
        if (skip >= length) {
            skip -= length;
            continue;
        }
        size_t take = length - skip < bytes ? length - skip : bytes;
        ret[n++] = (struct iovec){(char *)parts[i].iov_base + skip, take};
        bytes -= take;
        skip = 0;
    }
    return n;
}

static ssize_t tcp_send(struct link *link, const struct iovec *parts, int count)
{
    struct link_tcp *tcp = (struct link_tcp *)link;
    size_t total = 0, all = 0;
    for (int i = 0; i < count; i++)
        all += parts[i].iov_len;
    while (total < all) {
        struct iovec now[LINK_PARTS_MAX];
        size_t room;
        int fd = connection_at(tcp, tcp->sent, &room);
        struct msghdr message = {.msg_iov = now};
        message.msg_iovlen = (size_t)cut_parts(parts, count, total, room, now);
        ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && !try_later(errno))
            return -1;
        if (sent <= 0)
            break;
        total += (size_t)sent;
        tcp->sent += (uint64_t)sent;
        if (tcp->count == 1)
            break;
    }
    return (ssize_t)total;
}

/* 0 when nothing is there now, -1 at the end of the stream. */
static ssize_t read_now(struct link_tcp *tcp, void *data, size_t bytes)
{
    size_t total = 0;
    while (total < bytes && !tcp->ended) {
        size_t room;
        int fd = connection_at(tcp, tcp->got, &room);
        size_t most = bytes - total < room ? bytes - total : room;
        ssize_t got = recv(fd, (char *)data + total, most, MSG_DONTWAIT);
        if (got < 0 && try_later(errno))
            break;
        tcp->ended = got <= 0;
        if (got <= 0)
            break;
        total += (size_t)got;
        tcp->got += (uint64_t)got;
        if (tcp->count == 1 || (size_t)got < most)
            break;
    }
    return total == 0 && tcp->ended ? -1 : (ssize_t)total;
}

static ssize_t tcp_peek(struct link *link, const void **ret_data)
{
    struct link_tcp *tcp = (struct link_tcp *)link;
    size_t held = tcp->to - tcp->from;
    /* Less than an element may be left over: make space after it. */
    if (tcp->from > 0 && held < 64) {
        memmove(tcp->buffer, tcp->buffer + tcp->from, held);
        tcp->from = 0;
        tcp->to = held;
    }
    ssize_t got = 0;
    if (tcp->to < BUFFER_BYTES && held < DIRECT_BYTES)
        got = read_now(tcp, tcp->buffer + tcp->to, BUFFER_BYTES - tcp->to);
    if (got > 0)
        tcp->to += (size_t)got;
    *ret_data = tcp->buffer + tcp->from;
    held = tcp->to - tcp->from;
    return held == 0 && got < 0 ? -1 : (ssize_t)held;
}

static void tcp_consume(struct link *link, size_t bytes)
{
    struct link_tcp *tcp = (struct link_tcp *)link;
    tcp->from += bytes;
    if (tcp->from == tcp->to)
        tcp->from = tcp->to = 0;
}

static ssize_t tcp_recv(struct link *link, void *data, size_t bytes)
{
    struct link_tcp *tcp = (struct link_tcp *)link;
    if (tcp->from == tcp->to && bytes >= DIRECT_BYTES)
        return read_now(tcp, data, bytes);
    const void *from;
    ssize_t shown = tcp_peek(link, &from);
    if (shown <= 0)
        return shown;
    size_t n = (size_t)shown < bytes ? (size_t)shown : bytes;
    memcpy(data, from, n);
    tcp_consume(link, n);
    return (ssize_t)n;
}

/* A rank with TCP peers checks before each operation: compared to a round trip that costs nothing.
 */
static void tcp_alert(struct link *link)
{
    (void)link;
}

static void tcp_free(struct link *link)
{
    struct link_tcp *tcp = (struct link_tcp *)link;
    for (int i = 0; i < tcp->count; i++)
        close(tcp->fds[i]);
    free(tcp);
}

static const struct link_ops tcp_ops = {
    .send = tcp_send,
    .peek = tcp_peek,
    .consume = tcp_consume,
    .recv = tcp_recv,
    .alert = tcp_alert,
    .free = tcp_free,
};

/* True if both ends are on this machine, whatever their addresses. */
static bool is_local(int fd)
{
    struct sockaddr_storage ours = {.ss_family = AF_UNSPEC}, theirs = {.ss_family = AF_UNSPEC};
    socklen_t bytes = sizeof(ours), theirs_bytes = sizeof(theirs);
    if (getsockname(fd, (struct sockaddr *)&ours, &bytes) != 0 ||
        getpeername(fd, (struct sockaddr *)&theirs, &theirs_bytes) != 0)
        return false;
    if (ours.ss_family == AF_INET) {
        uint32_t one = ntohl(((struct sockaddr_in *)&ours)->sin_addr.s_addr);
        uint32_t other = ntohl(((struct sockaddr_in *)&theirs)->sin_addr.s_addr);
        return one == other || (one >> 24 == IN_LOOPBACKNET && other >> 24 == IN_LOOPBACKNET);
    }
    return memcmp(&((struct sockaddr_in6 *)&ours)->sin6_addr,
                  &((struct sockaddr_in6 *)&theirs)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static void set_option(int fd, int level, int name, int value)
{
    /* Only requests: the link also works without them. */
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

void link_tcp_prepare(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    /* Without possible congestion pacing (BBR) only costs: a third of the time of 64 MiB. */
    if (is_local(fd))
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
}

void link_tcp_prepare_control(int fd)
{
    link_tcp_prepare(fd);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNANSWERED_MS);
}

int link_tcp_new(const int *fds, int count, struct link **ret, struct error *err)
{
    struct link_tcp *tcp = malloc(sizeof(*tcp));
    if (!tcp) {
        for (int i = 0; i < count; i++)
            close(fds[i]);
        return error_set(err, WK_ENOMEM, "no memory for a link");
    }
    tcp->link.ops = &tcp_ops;
    tcp->count = count;
    tcp->sent = tcp->got = 0;
    tcp->ended = false;
    tcp->from = tcp->to = 0;
    for (int i = 0; i < count; i++) {
        tcp->fds[i] = fds[i];
        link_tcp_prepare(fds[i]);
    }
    *ret = &tcp->link;
    return 0;
}
