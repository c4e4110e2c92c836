/* Notices ranks that died, failed or said goodbye. Every pair of ranks has a socket only for this,
 * so the end of a process is an end of file at all others at once, whatever they wait for. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libworker/comm/arena.h"
#include "libworker/comm/comm_internal.h"
#include "libworker/comm/rights.h"

static void send_to_all(struct wk_comm *comm, const struct control_message *message)
{
    for (int p = 0; p < comm->world; p++)
        if (comm->peers[p].control_fd >= 0)
            /* At most a failure and a goodbye are ever sent: they fit any socket buffer. */
            (void)!send(comm->peers[p].control_fd, message, sizeof(*message),
                        MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void wake_runner(struct wk_comm *comm)
{
    uint64_t one = 1;
    (void)!write(comm->bell_fd, &one, sizeof(one));
}

/* Returns the code that counts: the first. `tell` is false if a peer has already informed all
 * ranks. */
static int fail(struct wk_comm *comm, struct control_message *message, bool tell)
{
    pthread_mutex_lock(&comm->fail_lock);
    int stands = atomic_load(&comm->failure);
    if (stands == 0) {
        snprintf(comm->failure_text, sizeof(comm->failure_text), "%s", message->text);
        atomic_store(&comm->failure, message->code);
        stands = message->code;
        if (tell) {
            send_to_all(comm, message);
            for (int p = 0; p < comm->world; p++)
                if (comm->peers[p].link)
                    link_alert(comm->peers[p].link);
        }
        wake_runner(comm);
    }
    struct wk_comm *child = comm->first_child;
    for (; child; child = child->next_sibling)
        comm_fail(child, WK_EABORT, -1, "%s: its parent failed: %s", child->name,
                  comm->failure_text);
    pthread_mutex_unlock(&comm->fail_lock);
    return stands;
}

int comm_fail(struct wk_comm *comm, int code, int lost, const char *fmt, ...)
{
    struct control_message message = {.kind = CONTROL_FAIL, .code = code, .lost = lost};
    va_list args;
    va_start(args, fmt);
    vsnprintf(message.text, sizeof(message.text), fmt, args);
    va_end(args);
    return fail(comm, &message, true);
}

/* " during all_reduce #7 (…); rank 2 had not arrived", or "" between operations. */
static void describe_present(struct wk_comm *comm, char *ret_text, size_t bytes)
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
    describe_present(comm, where, sizeof(where));
    comm_fail(comm, WK_EPEER, rank, "%s: rank %d died%s", comm->name, rank, where);
}

/* Receive the memory of an arena; without it the message is void. */
static void take_arena(struct peer *peer, uint32_t number)
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

static void heard(struct wk_comm *comm, int from)
{
    struct peer *peer = &comm->peers[from];
    struct control_message *message = &peer->control;
    message->text[sizeof(message->text) - 1] = '\0';
    if (message->kind == CONTROL_ARENA) {
        take_arena(peer, message->arena);
        return;
    }
    if (message->kind == CONTROL_BYE) {
        atomic_store(&peer->left, true);
        return;
    }
    if (message->lost >= 0 && message->lost < comm->world && message->lost != comm->rank)
        atomic_store(&comm->peers[message->lost].dead, true);
    fail(comm, message, false);
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
            heard(comm, from);
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

void control_goodbye(struct wk_comm *comm)
{
    struct control_message bye = {.kind = CONTROL_BYE, .lost = -1};
    pthread_mutex_lock(&comm->fail_lock);
    send_to_all(comm, &bye);
    pthread_mutex_unlock(&comm->fail_lock);
}

static bool hand_over(const struct peer *peer, const struct control_message *text, int memory_fd)
{
    ssize_t sent = rights_send(peer->control_fd, text, sizeof(*text), &memory_fd, 1);
    /* A peer that is gone is noticed when it is waited for. */
    return sent == (ssize_t)sizeof(*text) || (sent < 0 && (errno == EPIPE || errno == ECONNRESET));
}

int control_announce(struct wk_comm *comm, uint32_t number, int memory_fd)
{
    struct control_message message = {.kind = CONTROL_ARENA, .lost = -1, .arena = number};
    bool ok = true;
    pthread_mutex_lock(&comm->fail_lock);
    for (int i = 0; i < comm->locals; i++)
        if (comm->local_ranks[i] != comm->rank)
            ok &= hand_over(&comm->peers[comm->local_ranks[i]], &message, memory_fd);
    pthread_mutex_unlock(&comm->fail_lock);
    return ok ? 0
              : comm_fail(comm, WK_ENOMEM, -1, "%s: rank %d cannot share an arena", comm->name,
                          comm->rank);
}
