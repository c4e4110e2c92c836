/* Makes a communicator of sockets: links and a segment, once all ranks have met (meeting.h). */
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libworker/comm/communicator.h"
#include "libworker/comm/link_shm.h"
#include "libworker/comm/link_tcp.h"
#include "libworker/comm/meeting.h"
#include "libworker/comm/meeting_accept.h"
#include "libworker/comm/meeting_dial.h"
#include "libworker/comm/state.h"
#include "libworker/comm/wait.h"

enum { CONNECT_TIMEOUT_MS = 30000 };

_Static_assert((int)COMM_SECRET_BYTES == (int)SHA256_BYTES, "the secret is the key of the macs");

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

static int check_options(const struct comm_listener *listener, const struct comm_options *options,
                         struct error *err)
{
    if (options->world < 1 || options->world > COMM_WORLD_MAX)
        return error_set(err, WK_EINVAL, "a world of %d ranks is not within 1 to %d",
                         options->world, COMM_WORLD_MAX);
    if (options->rank < 0 || options->rank >= options->world)
        return error_set(err, WK_EINVAL, "rank %d is not within a world of %d", options->rank,
                         options->world);
    if (options->world > 1 && (!listener || !options->endpoints || !options->hosts))
        return error_set(err, WK_EINVAL, "a world of %d needs a listener, endpoints and hosts",
                         options->world);
    return 0;
}

/* Create what this rank offers to the others of its host. */
static int create_own(struct wk_comm *comm, struct meeting *meeting, struct error *err)
{
    bool company = comm->locals > 1;
    comm->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    comm->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (comm->bell_fd < 0 || comm->epoll_fd < 0)
        return error_set(err, WK_ENOMEM, "no more file descriptors");
    comm->spin_us = comm_spin_us(meeting->options);
    if (!company)
        return 0;
    int rc = segment_new(&comm->segment, comm->world, err);
    comm->has_segment = !rc;
    meeting->own = (struct segment_handles){comm->segment.memory_fd, comm->bell_fd,
                                            (int)syscall(SYS_pidfd_open, getpid(), 0)};
    return rc;
}

/* Make links of the meeting's results; takes ownership of its descriptors. */
static int make_link(struct wk_comm *comm, struct meeting *meeting, int p, struct error *err)
{
    struct peer *peer = &comm->peers[p];
    struct met *met = &meeting->met[p];
    peer->remote = !meeting_same_host(meeting, p);
    int rc, connections = peer->remote ? met->connections : 0;
    struct met found = *met;
    peer->control_fd = met->control_fd;
    peer->handles = met->handles;
    comm->has_remote |= peer->remote;
    *met = met_nothing();
    if (peer->remote) {
        link_tcp_prepare_control(peer->control_fd);
        rc = link_tcp_new(found.data_fds, connections, &peer->link, err);
    } else {
        struct link_shm_options options = {comm->rank, p, comm->world, &comm->segment,
                                           peer->handles};
        rc = link_shm_new(&options, &peer->link, err);
        close_if_open(peer->handles.memory_fd);
        peer->handles.memory_fd = -1;
        if (!rc)
            peer->head = link_shm_head(peer->link);
    }
    int watched = rc ? 0 : wait_watch(comm, p);
    for (int i = 0; !rc && watched == 0 && i < connections; i++)
        watched = wait_watch_data(comm, p, found.data_fds[i]);
    if (watched != 0)
        rc = error_set(err, WK_ENOMEM, "cannot watch the sockets of rank %d", p);
    return rc;
}

static enum placement placement_of(const struct wk_comm *comm)
{
    int each = comm->locals;
    if (each == comm->world)
        return PLACED_TOGETHER;
    if (comm->world % each != 0)
        return PLACED_OTHERWISE;
    for (int p = 0; p < comm->world; p++)
        for (int q = 0; q < comm->world; q++)
            if ((comm->hosts[p] == comm->hosts[q]) != (p / each == q / each))
                return PLACED_OTHERWISE;
    return each == 1 ? PLACED_APART : PLACED_EVENLY;
}

/* Find the placement of the ranks, and the ways it allows. */
static int find_placement(struct wk_comm *comm, struct comm_options *options, struct error *err)
{
    struct endpoint own;
    for (int p = 0; p < comm->world; p++) {
        comm->hosts[p] = options->hosts ? options->hosts[p] : 0;
        if (p == comm->rank)
            comm->local_index = comm->locals;
        if (!options->hosts || options->hosts[p] == options->hosts[comm->rank])
            comm->local_ranks[comm->locals++] = p;
    }
    if (comm->world > 1 && !endpoint_parse(options->endpoints[comm->rank], &own, NULL))
        snprintf(comm->bind_host, sizeof(comm->bind_host), "%s", own.host);
    enum placement placement = placement_of(comm);
    comm->ways = ways_measured(placement, comm->world);
    if (options->tcp_connections <= 0)
        options->tcp_connections = comm->ways.tcp_connections;
    return options->ways && *options->ways ? ways_parse(options->ways, placement, &comm->ways, err)
                                           : 0;
}

static int connect_all(struct wk_comm *comm, struct comm_listener *listener,
                       const struct comm_options *options, struct error *err)
{
    struct meeting meeting;
    int rc = meeting_init(&meeting, listener, options, err);
    if (!rc)
        rc = create_own(comm, &meeting, err);
    for (int p = 0; !rc && p < comm->rank; p++)
        rc = meeting_dial(&meeting, p, err);
    if (!rc)
        rc = meeting_accept(&meeting, err);
    if (!rc)
        rc = meeting_settle(&meeting, err);
    for (int p = 0; !rc && p < comm->world; p++)
        rc = p == comm->rank ? wait_watch(comm, p) : make_link(comm, &meeting, p, err);
    close_if_open(meeting.own.process_fd);
    meeting_fini(&meeting);
    return rc;
}

int comm_connect(struct comm_listener *listener, const struct comm_options *options,
                 struct wk_comm **ret, struct error *err)
{
    int rc = check_options(listener, options, err);
    if (rc)
        return rc;
    struct comm_options effective = *options;
    if (effective.connect_timeout_ms <= 0)
        effective.connect_timeout_ms = CONNECT_TIMEOUT_MS;
    struct wk_comm *comm = comm_alloc(&effective);
    if (!comm)
        return error_set(err, WK_ENOMEM, "no memory for a communicator of %d ranks",
                         options->world);
    rc = find_placement(comm, &effective, err);
    if (!rc && comm->world > 1)
        rc = connect_all(comm, listener, &effective, err);
    if (rc) {
        comm_release(comm);
        return rc;
    }
    *ret = comm;
    return 0;
}
