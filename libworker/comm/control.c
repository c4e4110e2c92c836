/* Who died, who failed, who said goodbye. Every pair of ranks has a socket for nothing else, so the
 * end of a process is an end of file at each of the others at once, whoever they wait for. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libworker/comm/comm_internal.h"

static void send_to_all(struct wk_comm *comm, const struct control_message *message)
{
    for (int p = 0; p < comm->world; p++)
        if (comm->peers[p].control_fd >= 0)
            /* At most a failure and a goodbye ever travel: they fit any socket buffer. */
            (void)!send(comm->peers[p].control_fd, message, sizeof(*message),
                        MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void wake_runner(struct wk_comm *comm)
{
    uint64_t one = 1;
    (void)!write(comm->bell_fd, &one, sizeof(one));
}

/* Returns the code that stands; `tell` is false for what a peer has told everybody already. */
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

/* Under control_lock. */
static void mark_dead(struct wk_comm *comm, int rank)
{
    struct peer *peer = &comm->peers[rank];
    if (rank == comm->rank || atomic_load(&peer->left) || atomic_exchange(&peer->dead, true))
        return;
    comm_fail(comm, WK_EPEER, rank, "rank %d died", rank);
}

static void heard(struct wk_comm *comm, int from)
{
    struct peer *peer = &comm->peers[from];
    struct control_message *message = &peer->control;
    message->text[sizeof(message->text) - 1] = '\0';
    if (message->kind == CONTROL_BYE) {
        atomic_store(&peer->left, true);
        return;
    }
    if (message->lost >= 0 && message->lost < comm->world && message->lost != comm->rank)
        atomic_store(&comm->peers[message->lost].dead, true);
    fail(comm, message, false);
}

static void read_locked(struct wk_comm *comm, int from)
{
    struct peer *peer = &comm->peers[from];
    while (peer->control_fd >= 0) {
        ssize_t got = recv(peer->control_fd, (char *)&peer->control + peer->control_got,
                           sizeof(peer->control) - peer->control_got, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            /* Stays open, so that its number is not given to another file while it is watched. */
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
    read_locked(comm, peer); /* its goodbye comes first if it said one */
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
