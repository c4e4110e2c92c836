/* The operations as plans. In all of them each rank sends directly to each other rank. With S the
 * bytes of the whole vector and N ranks this moves no more bytes than a ring, in 1 or 2 steps
 * instead of N-1 or 2(N-1). The owner of a slice sees every contribution, so sums are in rank
 * order. */
#include "libworker/comm/by_links.h"

#include <stdlib.h>
#include <string.h>

#include "libworker/comm/failure.h"
#include "libworker/comm/operation.h"
#include "libworker/comm/rows.h"
#include "libworker/comm/state.h"
#include "libworker/comm/status.h"
#include "libworker/comm/transfer.h"

/* Measured (docs/collectives.md). */
enum { PART_BYTES = 2 * 1024 * 1024 };

static void send_to_others(struct wk_comm *comm, const void *data, size_t bytes)
{
    for (int p = 0; p < comm->world; p++)
        if (p != comm->rank)
            plan_send(comm, p, data, bytes);
}

/* Each rank sends all its data to each other rank, and each sums everything. 1 step; sends (N-1) S,
 * sums N S per rank. */
static int all_reduce_direct(struct wk_comm *comm, const struct request *rq)
{
    size_t bytes = request_in_bytes(rq, comm->world);
    if (!comm->direct_copy)
        comm->direct_copy = malloc(WAY_DIRECT_BYTES_MAX);
    char *copy = comm->direct_copy; /* the others still read what the sum overwrites */
    if (!copy)
        return comm_fail(comm, WK_ENOMEM, -1, "%s: rank %d has no memory for a copy", comm->name,
                         comm->rank);
    if (bytes > 0)
        memcpy(copy, rq->in, bytes);
    struct reduction reduction = operation_reduction(comm, rq, NULL);
    struct reduce_plan plan = plan_sum_of_all(comm, &reduction, copy);
    plan.dst = rq->out;
    plan.dst_size = request_out_size(rq);
    plan.count = rq->count;
    send_to_others(comm, copy, bytes);
    return transfer_run(comm, &plan);
}

/* The part of the slice of `rank` that is in `within`. */
static struct slice part_of(const struct wk_comm *comm, size_t count, int rank, struct slice within)
{
    struct slice slice = slice_of(count, comm->world, rank);
    size_t skip = within.first < slice.count ? within.first : slice.count;
    size_t left = slice.count - skip;
    return (struct slice){slice.first + skip, left < within.count ? left : within.count};
}

/* Each slice is sent to its owner, which sums it and sends the sum to all as it grows; only the
 * part `within` of each slice. 2 steps, overlapping; sends 2 S (N-1)/N, sums S per rank. */
static int all_reduce_part(struct wk_comm *comm, const struct request *rq, struct tally *tally,
                           struct slice within)
{
    size_t size = wk_dtype_bytes(rq->dtype), out_size = request_out_size(rq);
    const char *in = rq->in;
    char *out = rq->out;
    struct slice own = part_of(comm, rq->count, comm->rank, within);
    struct reduction reduction = operation_reduction(comm, rq, tally);
    struct reduce_plan plan = plan_sum_of_all(comm, &reduction, in + own.first * size);
    plan.dst = out + own.first * out_size;
    plan.dst_size = out_size;
    plan.count = own.count;
    for (int p = 0; p < comm->world; p++) {
        if (p == comm->rank)
            continue;
        struct slice slice = part_of(comm, rq->count, p, within);
        plan_send(comm, p, in + slice.first * size, slice.count * size);
        plan_send_gated(
            comm, p,
            (struct out){.data = plan.dst, .bytes = own.count * out_size, .ready = &plan.ready});
        plan_receive(comm, p, out + slice.first * out_size, slice.count * out_size);
    }
    return transfer_run(comm, &plan);
}

/* Two ranks over TCP work by parts, so that sums are sent while they are in cache. */
static int all_reduce_sliced(struct wk_comm *comm, const struct request *rq, struct tally *tally)
{
    bool parts = comm->world == 2 && comm->has_remote;
    size_t largest = slice_of(rq->count, comm->world, 0).count;
    size_t most = parts ? PART_BYTES / 2 / wk_dtype_bytes(rq->dtype) : largest;
    int rc = all_reduce_part(comm, rq, tally, (struct slice){0, most});
    for (size_t at = most; !rc && at < largest; at += most) {
        plan_clear(comm);
        rc = all_reduce_part(comm, rq, tally, (struct slice){at, most});
    }
    return rc;
}

/* 1 step; sends S (N-1)/N, sums S per rank; S = all N rows. */
static int reduce_scatter(struct wk_comm *comm, const struct request *rq, struct tally *tally)
{
    const char *in = rq->in;
    size_t row_bytes = rq->count * wk_dtype_bytes(rq->dtype);
    struct reduction reduction = operation_reduction(comm, rq, tally);
    struct reduce_plan plan =
        plan_sum_of_all(comm, &reduction, in + row_bytes * (size_t)comm->rank);
    plan.dst = rq->out;
    plan.dst_size = request_out_size(rq);
    plan.count = rq->count;
    for (int p = 0; p < comm->world; p++)
        if (p != comm->rank)
            plan_send(comm, p, in + row_bytes * (size_t)p, row_bytes);
    return transfer_run(comm, &plan);
}

/* 1 step; the others send S, the root sums N S. */
static int reduce_to_root(struct wk_comm *comm, const struct request *rq, size_t bytes)
{
    if (comm->rank != rq->root) {
        plan_send(comm, rq->root, rq->in, bytes);
        return transfer_run(comm, NULL);
    }
    struct reduction reduction = operation_reduction(comm, rq, NULL);
    struct reduce_plan plan = plan_sum_of_all(comm, &reduction, rq->in);
    plan.dst = rq->out;
    plan.dst_size = wk_dtype_bytes(rq->dtype);
    plan.count = rq->count;
    return transfer_run(comm, &plan);
}

static void copy_own(void *to, const void *from, size_t bytes)
{
    if (to != from && bytes > 0)
        memcpy(to, from, bytes);
}

/* 1 step; sends (N-1) rows, receives as many. */
static int all_gather(struct wk_comm *comm, const struct request *rq, size_t row_bytes)
{
    char *own = (char *)rq->out + row_bytes * (size_t)comm->rank;
    copy_own(own, rq->in, row_bytes);
    send_to_others(comm, own, row_bytes);
    for (int p = 0; p < comm->world; p++)
        if (p != comm->rank)
            plan_receive(comm, p, (char *)rq->out + row_bytes * (size_t)p, row_bytes);
    return transfer_run(comm, NULL);
}

/* 1 step; a row from each to the root. */
static int gather(struct wk_comm *comm, const struct request *rq, size_t row_bytes)
{
    if (comm->rank != rq->root)
        plan_send(comm, rq->root, rq->in, row_bytes);
    for (int p = 0; p < comm->world && comm->rank == rq->root; p++) {
        char *row = (char *)rq->out + row_bytes * (size_t)p;
        if (p == comm->rank)
            copy_own(row, rq->in, row_bytes);
        else
            plan_receive(comm, p, row, row_bytes);
    }
    return transfer_run(comm, NULL);
}

/* 1 step; a row to each from the root. */
static int scatter(struct wk_comm *comm, const struct request *rq, size_t row_bytes)
{
    if (comm->rank != rq->root)
        plan_receive(comm, rq->root, rq->out, row_bytes);
    for (int p = 0; p < comm->world && comm->rank == rq->root; p++) {
        const char *row = (const char *)rq->in + row_bytes * (size_t)p;
        if (p == comm->rank)
            copy_own(rq->out, row, row_bytes);
        else
            plan_send(comm, p, row, row_bytes);
    }
    return transfer_run(comm, NULL);
}

/* 1 step; sends N-1 rows, receives as many. */
static int all_to_all(struct wk_comm *comm, const struct request *rq, size_t row_bytes)
{
    for (int p = 0; p < comm->world; p++) {
        const char *from = (const char *)rq->in + row_bytes * (size_t)p;
        char *to = (char *)rq->out + row_bytes * (size_t)p;
        if (p == comm->rank) {
            copy_own(to, from, row_bytes);
            continue;
        }
        plan_send(comm, p, from, row_bytes);
        plan_receive(comm, p, to, row_bytes);
    }
    return transfer_run(comm, NULL);
}

/* 1 step; the root sends (N-1) S. */
static int broadcast_direct(struct wk_comm *comm, const struct request *rq, size_t bytes)
{
    if (comm->rank == rq->root)
        send_to_others(comm, rq->out, bytes);
    else
        plan_receive(comm, rq->root, rq->out, bytes);
    return transfer_run(comm, NULL);
}

static char *slice_at(const struct wk_comm *comm, const struct request *rq, int p,
                      size_t *ret_bytes)
{
    size_t size = wk_dtype_bytes(rq->dtype);
    struct slice slice = slice_of(rq->count, comm->world, p);
    *ret_bytes = slice.count * size;
    return (char *)rq->out + slice.first * size;
}

static int send_slices(struct wk_comm *comm, const struct request *rq)
{
    size_t bytes, own_bytes;
    char *own = slice_at(comm, rq, comm->rank, &own_bytes);
    for (int p = 0; p < comm->world; p++) {
        if (p == comm->rank)
            continue;
        char *part = slice_at(comm, rq, p, &bytes);
        plan_send(comm, p, part, bytes);
        plan_send(comm, p, own, own_bytes);
    }
    return transfer_run(comm, NULL);
}

/* The root sends a slice to each rank, which forwards its own to the rest as it arrives. 2 steps,
 * overlapping; the root sends 2 S (N-1)/N, the others S (N-2)/N. */
static int broadcast_sliced(struct wk_comm *comm, const struct request *rq)
{
    if (comm->rank == rq->root)
        return send_slices(comm, rq);
    size_t bytes, own_bytes;
    char *own = slice_at(comm, rq, comm->rank, &own_bytes);
    struct in *in = plan_receive(comm, rq->root, own, own_bytes);
    char *roots = slice_at(comm, rq, rq->root, &bytes);
    plan_receive(comm, rq->root, roots, bytes);
    for (int p = 0; p < comm->world; p++) {
        if (p == rq->root || p == comm->rank)
            continue;
        char *part = slice_at(comm, rq, p, &bytes);
        plan_receive(comm, p, part, bytes);
        plan_send_gated(comm, p, (struct out){.data = own, .bytes = own_bytes, .ready = &in->got});
    }
    return transfer_run(comm, NULL);
}

static struct header pair_header(const struct wk_comm *comm, const struct request *rq, int to,
                                 uint64_t sequence)
{
    struct header header = comm->header;
    header.kind = KIND_SEND;
    header.dtype = (uint8_t)rq->dtype;
    header.root = to;
    header.count = rq->count;
    header.sequence = sequence;
    return header;
}

/* Between two ranks only: their messages are numbered by pair. */
static int run_pairwise(struct wk_comm *comm, const struct request *rq)
{
    size_t bytes = rq->count * wk_dtype_bytes(rq->dtype);
    bool sends = rq->kind != KIND_RECV, receives = rq->kind != KIND_SEND;
    struct request described = *rq;
    uint64_t next = comm->sequence;
    described.root = sends ? rq->to : comm->rank;
    described.finishes = false;
    operation_header(comm, &described);
    comm->sequence = next; /* not a collective of all ranks */
    plan_clear(comm);
    if (sends) {
        struct peer *peer = &comm->peers[rq->to];
        peer->ours = pair_header(comm, rq, rq->to, peer->messages_out++);
        comm->header.sequence = peer->ours.sequence;
        plan_send(comm, rq->to, &peer->ours, sizeof(peer->ours));
        plan_send(comm, rq->to, rq->in, bytes);
    }
    if (receives) {
        struct peer *peer = &comm->peers[rq->from];
        peer->expects = true;
        peer->expected = pair_header(comm, rq, comm->rank, peer->messages_in++);
        if (!sends)
            comm->header.sequence = peer->expected.sequence;
        plan_receive(comm, rq->from, rq->out, bytes);
    }
    status_begin(comm, rq);
    return transfer_run(comm, NULL);
}

/* Exchange the ranks' tallies: an operation of its own. */
static int exchange_tallies(struct wk_comm *comm, const struct request *rq,
                            const struct tally *tally)
{
    struct share shares[COMM_WORLD_MAX];
    struct request exchange = {.kind = KIND_ALL_GATHER,
                               .dtype = WK_U8,
                               .count = sizeof(shares[0]),
                               .in = &shares[comm->rank],
                               .out = shares};
    shares[comm->rank] = (struct share){tally_squares(tally), tally->nonfinite};
    operation_header(comm, &exchange);
    plan_begin(comm);
    int rc = all_gather(comm, &exchange, exchange.count);
    if (!rc)
        request_store_tally(rq, shares, comm->world);
    return rc;
}

static int run_reduction(struct wk_comm *comm, const struct request *rq)
{
    struct tally tally = {.at = 0};
    int rc;
    if (rq->kind == KIND_REDUCE_SCATTER)
        rc = reduce_scatter(comm, rq, &tally);
    else if (operation_way(comm, rq) == WAY_DIRECT)
        rc = all_reduce_direct(comm, rq);
    else
        rc = all_reduce_sliced(comm, rq, &tally);
    return !rc && request_tallies(rq) ? exchange_tallies(comm, rq, &tally) : rc;
}

int by_links_run(struct wk_comm *comm, const struct request *rq)
{
    size_t bytes = rq->count * wk_dtype_bytes(rq->dtype);
    if (rq->kind == KIND_SEND || rq->kind == KIND_RECV || rq->kind == KIND_SEND_RECV)
        return run_pairwise(comm, rq);
    plan_begin(comm);
    switch (rq->kind) {
    case KIND_ALL_REDUCE:
    case KIND_REDUCE_SCATTER:
        return run_reduction(comm, rq);
    case KIND_BROADCAST:
        return bytes <= comm->ways.broadcast_direct_bytes ? broadcast_direct(comm, rq, bytes)
                                                          : broadcast_sliced(comm, rq);
    case KIND_ALL_GATHER:
        return all_gather(comm, rq, bytes);
    case KIND_BARRIER:
        return transfer_run(comm, NULL);
    case KIND_REDUCE:
        return reduce_to_root(comm, rq, bytes);
    case KIND_GATHER:
        return gather(comm, rq, bytes);
    case KIND_SCATTER:
        return scatter(comm, rq, bytes);
    case KIND_ALL_TO_ALL:
        return all_to_all(comm, rq, bytes);
    case KIND_ALL_TO_ALL_V:
    case KIND_ALL_GATHER_V:
    case KIND_REDUCE_SCATTER_V:
        return rows_run(comm, rq);
    case KIND_SEND:
    case KIND_RECV:
    case KIND_SEND_RECV:
        break;
    }
    return WK_EINTERNAL;
}
