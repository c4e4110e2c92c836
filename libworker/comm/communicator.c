#include "libworker/comm/communicator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libworker/comm/arena.h"
#include "libworker/comm/board.h"
#include "libworker/comm/control.h"
#include "libworker/comm/control_send.h"
#include "libworker/comm/failure.h"
#include "libworker/comm/membarrier.h"
#include "libworker/comm/plan.h"
#include "libworker/comm/state.h"
#include "libworker/comm/work.h"

_Static_assert((int)REDUCE_SOURCES_MAX >= (int)COMM_WORLD_MAX, "every rank is a summand");

struct wk_comm *comm_alloc(const struct comm_options *options)
{
    struct wk_comm *comm = calloc(1, sizeof(*comm));
    if (!comm)
        return NULL;
    comm->rank = options->rank;
    comm->world = options->world;
    comm->generation = options->generation;
    comm->timeout_ms = options->timeout_ms;
    comm->tcp_connections = options->tcp_connections;
    comm->bell_fd = comm->epoll_fd = -1;
    comm->fences = !membarrier_register();
    snprintf(comm->name, sizeof(comm->name), "world");
    memcpy(comm->secret, options->secret, sizeof(comm->secret));
    comm->segment.memory_fd = -1;
    pthread_mutex_init(&comm->queue.lock, NULL);
    pthread_mutex_init(&comm->fail_lock, NULL);
    pthread_mutex_init(&comm->control_lock, NULL);
    pthread_cond_init(&comm->queue.changed, NULL);
    comm->peers = calloc((size_t)comm->world, sizeof(*comm->peers));
    comm->sources = calloc((size_t)comm->world + 1, sizeof(*comm->sources));
    comm->summands = calloc((size_t)comm->world + 1, sizeof(*comm->summands));
    comm->hosts = calloc((size_t)comm->world, sizeof(*comm->hosts));
    comm->local_ranks = calloc((size_t)comm->world, sizeof(*comm->local_ranks));
    comm->scratch = malloc(REDUCE_SCRATCH_BYTES);
    for (int p = 0; comm->peers && p < comm->world; p++) {
        comm->peers[p].control_fd = comm->peers[p].control_memory_fd = -1;
        comm->peers[p].handles = (struct segment_handles){-1, -1, -1};
    }
    if (!comm->peers || !comm->sources || !comm->summands || !comm->hosts || !comm->local_ranks ||
        !comm->scratch) {
        comm_release(comm);
        return NULL;
    }
    return comm;
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

void comm_release(struct wk_comm *comm)
{
    for (int p = 0; comm->peers && p < comm->world; p++) {
        struct peer *peer = &comm->peers[p];
        link_free(peer->link);
        for (int a = 1; a <= COMM_ARENAS_MAX; a++)
            if (peer->arenas[a].data)
                munmap(peer->arenas[a].data, peer->arenas[a].bytes);
        close_if_open(peer->control_fd);
        close_if_open(peer->control_memory_fd);
        close_if_open(peer->handles.bell_fd);
        close_if_open(peer->handles.process_fd);
    }
    for (int i = 0; i < comm->arena_count; i++)
        arena_release(comm->arenas[i].arena);
    segment_fini(&comm->segment);
    close_if_open(comm->bell_fd);
    close_if_open(comm->epoll_fd);
    free(comm->peers);
    free(comm->sources);
    free(comm->summands);
    free(comm->hosts);
    free(comm->origins);
    free(comm->local_ranks);
    free(comm->scratch);
    free(comm->direct_copy);
    pthread_cond_destroy(&comm->queue.changed);
    pthread_mutex_destroy(&comm->control_lock);
    pthread_mutex_destroy(&comm->fail_lock);
    pthread_mutex_destroy(&comm->queue.lock);
    free(comm);
}

int wk_comm_rank(const struct wk_comm *comm)
{
    return comm->rank;
}

int wk_comm_world(const struct wk_comm *comm)
{
    return comm->world;
}

int wk_comm_host(const struct wk_comm *comm, int rank)
{
    return rank >= 0 && rank < comm->world ? comm->hosts[rank] : -1;
}

int wk_comm_lost(struct wk_comm *comm, int *ranks, int max)
{
    int lost = 0;
    if (!comm)
        return 0;
    control_look(comm);
    for (int p = 0; p < comm->world; p++) {
        if (!atomic_load(&comm->peers[p].dead))
            continue;
        if (lost < max)
            ranks[lost] = p;
        lost++;
    }
    return lost;
}

/* A rank that was wrongly presumed dead could still write into our arenas: revoke its access. */
static void defend_arenas(struct wk_comm *comm)
{
    if (comm->arenas_announced == 0 || atomic_load(&comm->failure) == 0 || board_quiesce(comm))
        return;
    for (int i = 0; i < comm->arena_count; i++)
        if (comm->arenas[i].number > 0)
            (void)arena_revoke(
                comm->arenas[i].arena); /* otherwise the arena is refused at its next use */
}

/* Detach it from its parent, and its own groups from it. */
static void leave_family(struct wk_comm *comm)
{
    pthread_mutex_lock(&comm->fail_lock);
    for (struct wk_comm *child = comm->first_child; child; child = child->next_sibling) {
        child->parent = NULL;
        comm_fail(child, WK_EABORT, -1, "%s: its parent was closed", child->name);
    }
    comm->first_child = NULL;
    pthread_mutex_unlock(&comm->fail_lock);
    struct wk_comm *parent = comm->parent;
    if (!parent)
        return;
    pthread_mutex_lock(&parent->fail_lock);
    for (struct wk_comm **at = &parent->first_child; *at; at = &(*at)->next_sibling) {
        if (*at == comm) {
            *at = comm->next_sibling;
            break;
        }
    }
    pthread_mutex_unlock(&parent->fail_lock);
}

void wk_comm_close(struct wk_comm *comm)
{
    if (!comm)
        return;
    work_stop(comm);
    if (comm->has_segment)
        atomic_store(&comm->segment.head->done.quiet, 1);
    defend_arenas(comm);
    control_goodbye(comm);
    leave_family(comm);
    comm_release(comm);
}

int wk_comm_register(struct wk_comm *comm, struct wk_arena *arena)
{
    if (!comm)
        return comm_missing();
    if (!arena)
        return comm_argument_error(comm, WK_EINVAL, "wk_comm_register of NULL instead of an arena");
    if (atomic_load(&arena->exposed))
        return comm_argument_error(comm, WK_ENOMEM, ARENA_EXPOSED);
    for (int i = 0; i < comm->arena_count; i++)
        if (comm->arenas[i].arena == arena)
            return 0;
    if (comm->arena_count == COMM_ARENAS_MAX)
        return comm_argument_error(comm, WK_ENOMEM, "%d arenas are registered already",
                                   comm->arena_count);
    comm->arenas[comm->arena_count++] = (struct registered){.arena = arena_hold(arena)};
    return 0;
}
