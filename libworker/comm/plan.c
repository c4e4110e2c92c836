#include "libworker/comm/plan.h"

#include "libworker/comm/state.h"

void plan_clear(struct wk_comm *comm)
{
    for (int p = 0; p < comm->world; p++) {
        struct peer *peer = &comm->peers[p];
        peer->header_bytes = 0;
        peer->expects = false;
        peer->out_count = peer->out_at = 0;
        peer->in_count = peer->in_at = 0;
        atomic_store_explicit(&peer->wanted, false, memory_order_relaxed);
    }
}

void plan_begin(struct wk_comm *comm)
{
    plan_clear(comm);
    for (int p = 0; p < comm->world; p++) {
        struct peer *peer = &comm->peers[p];
        if (p == comm->rank)
            continue;
        peer->expects = true;
        peer->ours = peer->expected = comm->header;
        plan_send(comm, p, &peer->ours, sizeof(peer->ours));
    }
}

void plan_send_gated(struct wk_comm *comm, int peer, struct out out)
{
    struct peer *to = &comm->peers[peer];
    if (out.bytes > 0)
        to->outs[to->out_count++] = out;
}

void plan_send(struct wk_comm *comm, int peer, const void *data, size_t bytes)
{
    plan_send_gated(comm, peer, (struct out){.data = data, .bytes = bytes});
}

struct in *plan_receive(struct wk_comm *comm, int peer, void *data, size_t bytes)
{
    struct peer *from = &comm->peers[peer];
    struct in *in = &from->ins[from->in_count++];
    *in = (struct in){.data = data, .bytes = bytes};
    return in;
}

struct reduce_plan plan_sum_of_all(struct wk_comm *comm, const struct reduction *reduction,
                                   const void *own)
{
    for (int p = 0; p < comm->world; p++)
        comm->summands[p] = (struct summand){p == comm->rank ? own : NULL, p};
    return (struct reduce_plan){.summands = comm->summands, .reduction = reduction};
}
