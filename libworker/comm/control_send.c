#include "libworker/comm/control_send.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "libworker/comm/rights.h"
#include "libworker/comm/state.h"

void control_send_all(struct wk_comm *comm, const struct control_message *message)
{
    for (int p = 0; p < comm->world; p++)
        if (comm->peers[p].control_fd >= 0)
            /* At most a failure and a goodbye are ever sent: they fit any socket buffer. */
            (void)!send(comm->peers[p].control_fd, message, sizeof(*message),
                        MSG_DONTWAIT | MSG_NOSIGNAL);
}

void control_goodbye(struct wk_comm *comm)
{
    struct control_message bye = {.kind = CONTROL_BYE, .lost = -1};
    pthread_mutex_lock(&comm->fail_lock);
    bye.code = atomic_load(&comm->failure);
    if (bye.code != 0) {
        bye.lost = comm->failure_lost;
        memcpy(bye.text, comm->failure_text, sizeof(bye.text));
    }
    control_send_all(comm, &bye);
    pthread_mutex_unlock(&comm->fail_lock);
}

static bool send_memory(const struct peer *peer, const struct control_message *text, int memory_fd)
{
    ssize_t sent = rights_send(peer->control_fd, text, sizeof(*text), &memory_fd, 1);
    /* A peer that has ended is noticed when it is waited for. */
    return sent == (ssize_t)sizeof(*text) || (sent < 0 && (errno == EPIPE || errno == ECONNRESET));
}

bool control_announce(struct wk_comm *comm, uint32_t number, int memory_fd)
{
    struct control_message message = {.kind = CONTROL_ARENA, .lost = -1, .arena = number};
    bool ok = true;
    pthread_mutex_lock(&comm->fail_lock);
    for (int i = 0; i < comm->locals; i++)
        if (comm->local_ranks[i] != comm->rank)
            ok &= send_memory(&comm->peers[comm->local_ranks[i]], &message, memory_fd);
    pthread_mutex_unlock(&comm->fail_lock);
    return ok;
}
