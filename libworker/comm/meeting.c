#include "libworker/comm/meeting.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libworker/comm/clock.h"
#include "libworker/comm/rights.h"

enum { CHECK_MS = 20 /* between two checks of `cancelled` */, HANDLES = 3 };

int meeting_init(struct meeting *meeting, struct comm_listener *listener,
                 const struct comm_options *options, struct error *err)
{
    *meeting = (struct meeting){.options = options, .listener = listener};
    int most = COMM_TCP_MAX, wish = options->tcp_connections;
    meeting->self = (struct credentials){.secret = options->secret,
                                         .generation = options->generation,
                                         .rank = options->rank,
                                         .world = options->world,
                                         .connections = wish < most ? wish : most};
    meeting->own = (struct segment_handles){-1, -1, -1};
    meeting->started_us = comm_now_us();
    meeting->deadline_ms = meeting->started_us / 1000 + options->connect_timeout_ms;
    meeting->met = malloc((size_t)options->world * sizeof(*meeting->met));
    if (!meeting->met)
        return error_set(err, WK_ENOMEM, "no memory to connect %d ranks", options->world);
    for (int p = 0; p < options->world; p++)
        meeting->met[p] = met_nothing();
    return 0;
}

struct met met_nothing(void)
{
    struct met met = {.control_fd = -1, .handles = {-1, -1, -1}};
    for (int i = 0; i < COMM_TCP_MAX; i++)
        met.data_fds[i] = -1;
    return met;
}

void meeting_agree(struct meeting *meeting, int peer, int connections)
{
    int own = meeting->self.connections, fewer = connections < own ? connections : own;
    meeting->met[peer].connections = fewer < 1 ? 1 : fewer;
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

void meeting_fini(struct meeting *meeting)
{
    for (int p = 0; meeting->met && p < meeting->options->world; p++) {
        const struct met *met = &meeting->met[p];
        close_if_open(met->control_fd);
        for (int i = 0; i < COMM_TCP_MAX; i++)
            close_if_open(met->data_fds[i]);
        close_if_open(met->handles.memory_fd);
        close_if_open(met->handles.bell_fd);
        close_if_open(met->handles.process_fd);
    }
    free(meeting->met);
    meeting->met = NULL;
}

bool meeting_same_host(const struct meeting *meeting, int peer)
{
    const struct comm_options *options = meeting->options;
    return options->hosts[peer] == options->hosts[options->rank];
}

bool meeting_complete(const struct meeting *meeting, int peer)
{
    const struct met *met = &meeting->met[peer];
    if (met->control_fd < 0 || meeting_same_host(meeting, peer))
        return met->control_fd >= 0;
    for (int i = 0; i < met->connections; i++)
        if (met->data_fds[i] < 0)
            return false;
    return true;
}

/* Report the missing ranks to observers. Ranks that have arrived wait too, and report themselves.
 */
static void report_missing(struct meeting *meeting)
{
    const struct comm_options *options = meeting->options;
    struct wk_comm_status status = {.name = "world", .operation = "connect", .running = true};
    const int named = (int)(sizeof(status.waiting) / sizeof(status.waiting[0]));
    int64_t now_us = comm_now_us();
    if (!options->waits || now_us - meeting->reported_us < CHECK_MS * 1000)
        return;
    meeting->reported_us = now_us;
    status.waiting_us = now_us - meeting->started_us;
    for (int p = 0; p < options->world; p++) {
        bool here = meeting->settling ? meeting->met[p].settled : meeting_complete(meeting, p);
        if (p == options->rank || here)
            continue;
        if (status.waiting_count < named)
            status.waiting[status.waiting_count] = p;
        status.waiting_count++;
    }
    options->waits(options->waits_arg, &status);
}

/* True if its settling byte can be read: then its end is normal. */
static bool has_settled(int control_fd)
{
    char byte;
    return recv(control_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* 0 to continue. Also notices whether a connected rank has ended. */
static int poll_ranks(struct meeting *meeting, struct pollfd *watched, int timeout_ms,
                      struct error *err)
{
    const struct comm_options *options = meeting->options;
    struct pollfd fds[COMM_WORLD_MAX + 1];
    int n = 0, ranks[COMM_WORLD_MAX];
    fds[0] = *watched;
    for (int p = 0; p < options->world; p++) {
        const struct met *met = &meeting->met[p];
        if (met->control_fd < 0 || met->control_fd == watched->fd || met->settled)
            continue;
        ranks[n++] = p;
        fds[n] = (struct pollfd){.fd = meeting->met[p].control_fd, .events = POLLRDHUP};
    }
    if (options->cancelled && options->cancelled(options->cancelled_arg))
        return error_set(err, WK_EABORT, "cancelled while connecting");
    report_missing(meeting);
    int ready = poll(fds, (nfds_t)n + 1, timeout_ms);
    watched->revents = ready > 0 ? fds[0].revents : 0;
    for (int i = 0; ready > 0 && i < n; i++)
        if (fds[i + 1].revents & (POLLRDHUP | POLLHUP | POLLERR) && !has_settled(fds[i + 1].fd))
            return error_set(err, WK_EPEER, "rank %d went away while ranks were connecting",
                             ranks[i]);
    return 0;
}

int meeting_await(struct meeting *meeting, int fd, short events, struct error *err)
{
    struct pollfd watched = {.fd = fd, .events = events};
    for (;;) {
        int64_t left_ms = meeting->deadline_ms - comm_now_us() / 1000;
        if (left_ms <= 0)
            return error_set(err, WK_ETIMEOUT, "no answer in %d ms",
                             meeting->options->connect_timeout_ms);
        int rc = poll_ranks(meeting, &watched, left_ms < CHECK_MS ? (int)left_ms : CHECK_MS, err);
        if (rc || watched.revents != 0)
            return rc;
    }
}

int meeting_pause(struct meeting *meeting, int pause_ms, struct error *err)
{
    struct pollfd nothing = {.fd = -1};
    if (comm_now_us() / 1000 >= meeting->deadline_ms)
        return error_set(err, WK_ETIMEOUT, "no answer in %d ms",
                         meeting->options->connect_timeout_ms);
    return poll_ranks(meeting, &nothing, pause_ms, err);
}

static bool is_transient(void)
{
    return errno == EAGAIN || errno == EINTR;
}

int meeting_send(struct meeting *meeting, int fd, const void *data, size_t bytes, struct error *err)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t n = send(fd, (const char *)data + at, bytes - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && !is_transient())
            return error_set(err, WK_EIO, "the connection ended: %s", strerror(errno));
        if (n >= 0)
            at += (size_t)n;
        int rc = n < 0 ? meeting_await(meeting, fd, POLLOUT, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

int meeting_recv(struct meeting *meeting, int fd, void *data, size_t bytes, struct error *err)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t n = recv(fd, (char *)data + at, bytes - at, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && !is_transient()))
            return error_set(err, WK_EIO, "the connection ended: %s",
                             n == 0 ? "the other side hung up" : strerror(errno));
        if (n > 0)
            at += (size_t)n;
        int rc = n < 0 ? meeting_await(meeting, fd, POLLIN, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

static int send_handles(struct meeting *meeting, int fd, struct error *err)
{
    const struct segment_handles *own = &meeting->own;
    const int handles[HANDLES] = {own->memory_fd, own->bell_fd, own->process_fd};
    int count = own->process_fd >= 0 ? HANDLES : HANDLES - 1;
    char byte = 0;
    while (rights_send(fd, &byte, 1, handles, count) != 1) {
        bool gone = errno == EPIPE || errno == ECONNRESET;
        int rc = is_transient() ? meeting_await(meeting, fd, POLLOUT, err)
                                : error_set(err, gone ? WK_EIO : WK_ENOMEM,
                                            "cannot hand over memory: %s", strerror(errno));
        if (rc)
            return rc;
    }
    return 0;
}

static int recv_handles(struct meeting *meeting, int fd, struct segment_handles *ret,
                        struct error *err)
{
    int handles[HANDLES];
    char byte;
    ssize_t got;
    while ((got = rights_recv(fd, &byte, 1, handles, HANDLES)) != 1) {
        int rc = got < 0 && is_transient() ? meeting_await(meeting, fd, POLLIN, err)
                                           : error_set(err, WK_EIO, "no memory was handed over");
        if (rc)
            return rc;
    }
    *ret = (struct segment_handles){handles[0], handles[1], handles[2]};
    if (ret->memory_fd < 0 || ret->bell_fd < 0)
        return error_set(err, WK_EIO, "no memory was handed over");
    return 0;
}

int meeting_exchange_handles(struct meeting *meeting, int peer, struct error *err)
{
    struct met *met = &meeting->met[peer];
    int rc = send_handles(meeting, met->control_fd, err);
    if (!rc)
        rc = recv_handles(meeting, met->control_fd, &met->handles, err);
    if (rc == WK_EIO)
        return error_set(err, WK_EPEER, "rank %d went away while ranks were connecting", peer);
    return rc;
}

int meeting_settle(struct meeting *meeting, struct error *err)
{
    char byte = 1;
    int rc = 0, p, world = meeting->options->world, rank = meeting->options->rank;
    meeting->settling = true;
    for (p = 0; !rc && p < world; p++)
        if (p != rank)
            rc = meeting_send(meeting, meeting->met[p].control_fd, &byte, 1, err);
    for (p = 0; !rc && p < world; p++) {
        if (p == rank)
            continue;
        rc = meeting_recv(meeting, meeting->met[p].control_fd, &byte, 1, err);
        meeting->met[p].settled = !rc;
    }
    if (rc == WK_EIO)
        return error_set(err, WK_EPEER, "rank %d went away while ranks were connecting", p - 1);
    if (rc == WK_ETIMEOUT)
        return error_set(err, rc, "rank %d did not connect to all ranks in %d ms", p - 1,
                         meeting->options->connect_timeout_ms);
    return rc;
}
