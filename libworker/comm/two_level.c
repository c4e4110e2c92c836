/* All-reduce along a chain: of hosts with several ranks each, in place inside, or of single ranks.
 * Rank l of each host handles slice l. A chain passes running sums from the first host to the last,
 * which is the order of the ranks, so the bits equal those of every other way. The results return
 * along it. Both directions are pipelined and overlap.
 *
 *     host 0          host 1               host 2        slice l, each host adding its ranks' parts
 *     r0+r1     ->    +r2+r3         ->    +r4+r5
 *     result    <-    result         <-    result
 *
 * With H hosts and S bytes: 2 (H-1) steps (and two meetings of a host's ranks). A host sends S each
 * way to a neighbour, 2 S in the middle, as in a ring. Sending directly (by_links.c) needs L times
 * that for L ranks per host. Running sums of f16 and bf16 are sent as f32, which doubles the way
 * out.
 */
#include "libworker/comm/two_level.h"

#include <stdlib.h>
#include <string.h>

#include "libworker/comm/board.h"
#include "libworker/comm/by_links.h"
#include "libworker/comm/failure.h"
#include "libworker/comm/operation.h"
#include "libworker/comm/state.h"
#include "libworker/comm/transfer.h"
#include "libworker/comm/views.h"

static bool all_in_place(const struct wk_comm *comm)
{
    const uint8_t both = PLACE_IN | PLACE_OUT;
    bool all = comm->header.place == both;
    for (int p = 0; p < comm->world; p++)
        all &= p == comm->rank || comm->peers[p].header.place == both;
    return all;
}

/* Our slice: in from the host before and the ranks of this one, out to the next host. */
static int run_chain(struct wk_comm *comm, const struct request *rq, const struct views *views,
                     char *running)
{
    size_t size = wk_dtype_bytes(rq->dtype), out_size = request_out_size(rq);
    struct slice slice = slice_of(rq->count, comm->locals, comm->local_index);
    char *own = (char *)rq->out + slice.first * out_size;
    int before = comm->rank - comm->locals, behind = comm->rank + comm->locals, n = 0;
    bool last = behind >= comm->world;
    struct reduction reduction = operation_reduction(comm, rq, NULL);
    reduction.partial = before >= 0;
    reduction.open = !last;
    if (before >= 0)
        comm->summands[n++] = (struct summand){NULL, before};
    for (int i = 0; i < comm->locals; i++) {
        const char *in = views->in[comm->local_ranks[i]] + slice.first * size;
        comm->summands[n++] = (struct summand){in, -1};
    }
    reduction.sources = n;
    struct reduce_plan plan = {.summands = comm->summands,
                               .reduction = &reduction,
                               .dst = last ? own : running,
                               .dst_size = last ? out_size : reduce_partial_bytes(rq->dtype),
                               .count = slice.count,
                               .rest_apart = true};
    plan_clear(comm);
    if (last) {
        plan_send_gated(
            comm, before,
            (struct out){.data = own, .bytes = slice.count * out_size, .ready = &plan.ready});
        return transfer_run(comm, &plan);
    }
    plan_send_gated(
        comm, behind,
        (struct out){.data = running, .bytes = slice.count * plan.dst_size, .ready = &plan.ready});
    struct in *result = plan_receive(comm, behind, own, slice.count * out_size);
    if (before >= 0)
        plan_send_gated(
            comm, before,
            (struct out){.data = own, .bytes = slice.count * out_size, .ready = &result->got});
    return transfer_run(comm, &plan);
}

static void copy_to_neighbours(struct wk_comm *comm, const struct request *rq,
                               const struct views *views)
{
    size_t out_size = request_out_size(rq);
    struct slice slice = slice_of(rq->count, comm->locals, comm->local_index);
    for (int i = 0; i < comm->locals; i++) {
        int p = comm->local_ranks[i];
        if (p != comm->rank && slice.count > 0)
            memcpy(views->out[p] + slice.first * out_size, (char *)rq->out + slice.first * out_size,
                   slice.count * out_size);
    }
}

static int run_with_buffer(struct wk_comm *comm, const struct request *rq,
                           const struct views *views)
{
    struct slice slice = slice_of(rq->count, comm->locals, comm->local_index);
    char *running = malloc(slice.count * reduce_partial_bytes(rq->dtype) + 1);
    if (!running)
        return comm_fail(comm, WK_ENOMEM, -1, "%s: rank %d has no memory for running sums",
                         comm->name, comm->rank);
    int rc = run_chain(comm, rq, views, running);
    free(running);
    return rc;
}

int chain_run(struct wk_comm *comm, const struct request *rq)
{
    struct views views;
    views.in[comm->rank] = rq->in;
    plan_begin(comm);
    int rc = transfer_run(comm, NULL);
    if (rc)
        return rc;
    return run_with_buffer(comm, rq, &views);
}

int two_level_run(struct wk_comm *comm, const struct request *rq)
{
    struct located located;
    struct views views;
    int rc = views_locate(comm, rq, &located);
    if (rc)
        return rc;
    plan_begin(comm);
    rc = transfer_run(comm, NULL);
    if (rc)
        return rc;
    if (!all_in_place(comm))
        return by_links_run(comm, rq);
    board_post(comm, &located, sizeof(located));
    rc = board_gather(comm);
    if (!rc)
        rc = views_map(comm, rq, &views);
    if (!rc)
        rc = run_with_buffer(comm, rq, &views);
    if (rc)
        return rc;
    copy_to_neighbours(comm, rq, &views);
    atomic_fetch_add_explicit(&comm->in_place, 1, memory_order_relaxed);
    return board_finish(comm, NULL);
}
