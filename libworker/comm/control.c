#include "libworker/comm/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libworker/comm/arena.h"
#include "libworker/comm/failure.h"
#include "libworker/comm/rights.h"
#include "libworker/comm/state.h"

/* " during all_reduce #7 (…); rank 2 had not arrived", or "" between operations. */
static void describe_operation(struct wk_comm *comm, char *ret_text, size_t bytes)
{
    struct wk_comm_status status;
    size_t at;
    wk_comm_status(comm, &status);
    ret_text[0] = '\0';
    if (!status.running)
        return;
    at = (size_t)snprintf(ret_text, bytes, " during %s", status.operation);
    for (int i = 0; i < status.waiting_count && i < 16 && at < bytes; i++)
        at += (size_t)snprintf(ret_text + at, bytes - at, "%s%d",
                               i > 0                       ? ", "
                               : status.waiting_count == 1 ? "; missing: rank "
                                                           : "; missing: ranks ",
                               status.waiting[i]);
}

/* Under control_lock. */
static void mark_dead(struct wk_comm *comm, int rank)
{
    struct peer *peer = &comm->peers[rank];
    char where[COMM_TEXT_BYTES / 2];
    if (rank == comm->rank || atomic_load(&peer->left) || atomic_exchange(&peer->dead, true))
        return;
    describe_operation(comm, where, sizeof(where));
    comm_fail(comm, WK_EPEER, rank, "%s: rank %d died%s", comm->name, rank, where);
}

/* Receive the memory of an arena; without it the message is void. */
static void map_arena(struct peer *peer, uint32_t number)
{
    if (number >= 1 && number <= COMM_ARENAS_MAX && peer->control_memory_fd >= 0 &&
        !peer->arenas[number].data) {
        struct mapping *mapping = &peer->arenas[number];
        char *data = arena_map(peer->control_memory_fd, &mapping->bytes);
        atomic_store_explicit(&mapping->data, data, memory_order_release);
    }
    if (peer->control_memory_fd >= 0)
        close(peer->control_memory_fd);
    peer->control_memory_fd = -1;
}

static void handle_message(struct wk_comm *comm, int from)
{
    struct peer *peer = &comm->peers[from];
    struct control_message *message = &peer->control;
    message->text[sizeof(message->text) - 1] = '\0';
    if (message->kind == CONTROL_ARENA) {
        map_arena(peer, message->arena);
        return;
    }
    if (message->code != 0) {
        if (message->lost >= 0 && message->lost < comm->world && message->lost != comm->rank)
            atomic_store(&comm->peers[message->lost].dead, true);
        comm_fail_heard(comm, message);
    }
    if (message->kind == CONTROL_BYE)
        atomic_store(&peer->left, true);
}

/* Receive more of the next message, and the memory sent with it. */
static ssize_t receive_some(struct peer *peer)
{
    int memory_fd;
    ssize_t got = rights_recv(peer->control_fd, (char *)&peer->control + peer->control_got,
                              sizeof(peer->control) - peer->control_got, &memory_fd, 1);
    if (memory_fd < 0)
        return got;
    if (peer->control_memory_fd >= 0)
        close(peer->control_memory_fd);
    peer->control_memory_fd = memory_fd;
    return got;
}

static void read_locked(struct wk_comm *comm, int from)
{
    struct peer *peer = &comm->peers[from];
    while (peer->control_fd >= 0) {
        ssize_t got = receive_some(peer);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            /* The descriptor stays open, so that its number is not reused while it is watched. */
            mark_dead(comm, from);
            return;
        }
        peer->control_got += (size_t)got;
        if (peer->control_got == sizeof(peer->control)) {
            peer->control_got = 0;
            handle_message(comm, from);
        }
    }
}

void control_read(struct wk_comm *comm, int peer)
{
    pthread_mutex_lock(&comm->control_lock);
    read_locked(comm, peer);
    pthread_mutex_unlock(&comm->control_lock);
}

void control_process_ended(struct wk_comm *comm, int peer)
{
    pthread_mutex_lock(&comm->control_lock);
    read_locked(comm, peer); /* a goodbye precedes its end */
    mark_dead(comm, peer);
    pthread_mutex_unlock(&comm->control_lock);
}

void control_sweep(struct wk_comm *comm)
{
    for (int p = 0; p < comm->world; p++)
        if (p != comm->rank)
            control_read(comm, p);
}

static bool has_ended(const struct peer *peer)
{
    struct pollfd process = {.fd = peer->handles.process_fd, .events = POLLIN};
    return process.fd >= 0 && !atomic_load(&peer->dead) && poll(&process, 1, 0) > 0;
}

void control_look(struct wk_comm *comm)
{
    control_sweep(comm);
    for (int p = 0; p < comm->world; p++)
        if (p != comm->rank && has_ended(&comm->peers[p]))
            control_process_ended(comm, p);
}
