#include "libworker/comm/views.h"

#include <string.h>

#include "libworker/comm/arena.h"
#include "libworker/comm/board.h"
#include "libworker/comm/control.h"
#include "libworker/comm/control_send.h"
#include "libworker/comm/failure.h"
#include "libworker/comm/state.h"

_Static_assert(sizeof(struct located) <= POST_TAIL_BYTES, "places fit the first line of a post");

static struct located locate_buffers(struct wk_comm *comm, const struct request *rq)
{
    struct located located = {0};
    size_t in_bytes = request_in_bytes(rq, comm->world);
    size_t out_bytes = request_out_bytes(rq, comm->world);
    for (int i = 0; i < comm->arena_count; i++) {
        const struct registered *r = &comm->arenas[i];
        uintptr_t base = (uintptr_t)r->arena->data, size = r->arena->bytes;
        uintptr_t in = (uintptr_t)rq->in - base, out = (uintptr_t)rq->out - base;
        if (in < size && in_bytes <= size - in) {
            located.in_arena = (uint32_t)i + 1;
            located.in_offset = in;
        }
        if (out < size && out_bytes <= size - out) {
            located.out_arena = (uint32_t)i + 1;
            located.out_offset = out;
        }
    }
    return located;
}

/* Convert this communicator's index of an arena to the number its peers know; new arenas are
 * announced here. */
static int announce_arena(struct wk_comm *comm, uint32_t *arena)
{
    if (*arena == 0)
        return 0;
    struct registered *r = &comm->arenas[*arena - 1];
    uint64_t version = atomic_load(&r->arena->version);
    if (r->number == 0 || r->version != version) {
        if (atomic_load(&r->arena->exposed))
            return comm_fail(comm, WK_ENOMEM, -1, "%s: rank %d: " ARENA_EXPOSED, comm->name,
                             comm->rank);
        if (comm->arenas_announced == COMM_ARENAS_MAX) {
            *arena = 0;
            return 0;
        }
        if (!control_announce(comm, comm->arenas_announced + 1, r->arena->memory_fd))
            return comm_fail(comm, WK_ENOMEM, -1, "%s: rank %d cannot share an arena", comm->name,
                             comm->rank);
        r->number = ++comm->arenas_announced;
        r->version = version;
    }
    *arena = r->number;
    return 0;
}

int views_locate(struct wk_comm *comm, const struct request *rq, struct located *ret)
{
    struct located located = locate_buffers(comm, rq);
    int rc = announce_arena(comm, &located.in_arena);
    if (!rc)
        rc = announce_arena(comm, &located.out_arena);
    comm->header.place =
        (uint8_t)((located.in_arena ? PLACE_IN : 0) | (located.out_arena ? PLACE_OUT : 0));
    *ret = located;
    return rc;
}

/* The address of a peer's buffer. Its announcement was sent before its post, so it has arrived.
 * NULL unless all `bytes` are in that arena. */
static char *view_of(struct wk_comm *comm, int rank, uint32_t arena, uint64_t offset, size_t bytes)
{
    if (arena > COMM_ARENAS_MAX)
        return NULL;
    const struct mapping *mapping = &comm->peers[rank].arenas[arena];
    char *data = atomic_load_explicit(&mapping->data, memory_order_acquire);
    if (!data) {
        control_read(comm, rank);
        data = atomic_load_explicit(&mapping->data, memory_order_acquire);
    }
    bool inside = data && offset <= mapping->bytes && bytes <= mapping->bytes - offset;
    return inside ? data + offset : NULL;
}

int views_map(struct wk_comm *comm, const struct request *rq, struct views *views)
{
    size_t in_bytes = request_in_bytes(rq, comm->world);
    size_t out_bytes = request_out_bytes(rq, comm->world);
    for (int i = 0; i < comm->locals; i++) {
        int p = comm->local_ranks[i];
        struct located at;
        views->in[p] = rq->in;
        views->out[p] = rq->out;
        if (p == comm->rank)
            continue;
        memcpy(&at, board_post_of(comm, p)->data, sizeof(at));
        views->in[p] = at.in_arena ? view_of(comm, p, at.in_arena, at.in_offset, in_bytes) : NULL;
        views->out[p] =
            at.out_arena ? view_of(comm, p, at.out_arena, at.out_offset, out_bytes) : NULL;
        if ((at.in_arena && !views->in[p]) || (at.out_arena && !views->out[p]))
            return comm_fail(comm, WK_EIO, p, "%s: shared memory of rank %d cannot be mapped",
                             comm->name, p);
    }
    return 0;
}
