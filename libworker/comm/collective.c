/* The operations as plans. All of them go straight from each rank to each other rank: with S the
 * bytes of the whole vector and N ranks that moves no byte more than a ring, in 1 or 2 steps
 * instead of N-1 or 2(N-1), and the owner of a slice sees every contribution, so sums are in rank
 * order. */
#include <stdio.h>
#include <string.h>

#include "libworker/comm/comm_internal.h"
#include "libworker/comm/reduce.h"

#define HEADER_MAGIC UINT32_C(0x316d6b77)

enum {
    SMALL_BYTES = 8 * 1024, /* below, a second step costs more than summing everything twice */
    SLICE_ALIGN_BYTES = 64, /* slices start on cache lines */
};

struct slice {
    size_t bytes;
    char *data;
};

/* Rank p's share of a vector: equal whole cache lines, the last ranks may get less or nothing. */
static struct slice slice_of(const struct wk_comm *comm, void *data, size_t bytes, int p)
{
    size_t world = (size_t)comm->world;
    size_t each = ((bytes + world - 1) / world + SLICE_ALIGN_BYTES - 1) / SLICE_ALIGN_BYTES *
                  SLICE_ALIGN_BYTES;
    size_t from = each * (size_t)p < bytes ? each * (size_t)p : bytes;
    size_t to = bytes - from < each ? bytes : from + each;
    return (struct slice){to - from, (char *)data + from};
}

static void send_to_others(struct wk_comm *comm, struct out out)
{
    for (int p = 0; p < comm->world; p++)
        if (p != comm->rank)
            plan_send_gated(comm, p, out);
}

/* Everything to everybody, everybody sums all. 1 step; sends (N-1) S, sums N S per rank. */
static int all_reduce_small(struct wk_comm *comm, const struct request *rq, size_t bytes)
{
    /* The others still read what the sum overwrites. */
    char copy[SMALL_BYTES];
    memcpy(copy, rq->out, bytes);
    struct reduce_plan reduction = {.own = copy, .dst = rq->out, .count = rq->count};
    send_to_others(comm, (struct out){.data = copy, .bytes = bytes});
    return transfer_run(comm, &reduction);
}

/* Each slice to its owner, who sums it and sends the sum to everybody as it grows.
 * 2 steps, overlapping; sends 2 S (N-1)/N, sums S per rank. */
static int all_reduce_sliced(struct wk_comm *comm, const struct request *rq, size_t bytes)
{
    struct slice own = slice_of(comm, rq->out, bytes, comm->rank);
    struct reduce_plan reduction = {
        .own = own.data, .dst = own.data, .count = own.bytes / wk_dtype_bytes(rq->dtype)};
    for (int p = 0; p < comm->world; p++) {
        if (p == comm->rank)
            continue;
        struct slice slice = slice_of(comm, rq->out, bytes, p);
        plan_send(comm, p, slice.data, slice.bytes);
        plan_send_gated(
            comm, p, (struct out){.data = own.data, .bytes = own.bytes, .ready = &reduction.ready});
        plan_receive(comm, p, slice.data, slice.bytes);
    }
    return transfer_run(comm, &reduction);
}

/* 1 step; sends S (N-1)/N, sums S per rank; S = all N rows. */
static int reduce_scatter(struct wk_comm *comm, const struct request *rq, size_t row_bytes)
{
    const char *in = rq->in;
    struct reduce_plan reduction = {
        .own = in + row_bytes * (size_t)comm->rank, .dst = rq->out, .count = rq->count};
    for (int p = 0; p < comm->world; p++)
        if (p != comm->rank)
            plan_send(comm, p, in + row_bytes * (size_t)p, row_bytes);
    return transfer_run(comm, &reduction);
}

/* 1 step; sends (N-1) rows, receives as many. */
static int all_gather(struct wk_comm *comm, const struct request *rq, size_t row_bytes)
{
    char *own = (char *)rq->out + row_bytes * (size_t)comm->rank;
    if (own != rq->in && row_bytes > 0)
        memcpy(own, rq->in, row_bytes);
    send_to_others(comm, (struct out){.data = own, .bytes = row_bytes});
    for (int p = 0; p < comm->world; p++)
        if (p != comm->rank)
            plan_receive(comm, p, (char *)rq->out + row_bytes * (size_t)p, row_bytes);
    return transfer_run(comm, NULL);
}

/* 1 step; the root sends (N-1) S. */
static int broadcast_small(struct wk_comm *comm, const struct request *rq, size_t bytes)
{
    if (comm->rank == rq->root)
        send_to_others(comm, (struct out){.data = rq->out, .bytes = bytes});
    else
        plan_receive(comm, rq->root, rq->out, bytes);
    return transfer_run(comm, NULL);
}

/* The root deals out slices, everyone passes its own on to the rest as it comes.
 * 2 steps, overlapping; the root sends 2 S (N-1)/N, the others S (N-2)/N. */
static int broadcast_sliced(struct wk_comm *comm, const struct request *rq, size_t bytes)
{
    int root = rq->root;
    struct slice own = slice_of(comm, rq->out, bytes, comm->rank);
    struct slice roots = slice_of(comm, rq->out, bytes, root);
    if (comm->rank == root) {
        for (int p = 0; p < comm->world; p++) {
            struct slice slice = slice_of(comm, rq->out, bytes, p);
            if (p == root)
                continue;
            plan_send(comm, p, slice.data, slice.bytes);
            plan_send(comm, p, roots.data, roots.bytes);
        }
        return transfer_run(comm, NULL);
    }
    struct in *in = plan_receive(comm, root, own.data, own.bytes);
    plan_receive(comm, root, roots.data, roots.bytes);
    for (int p = 0; p < comm->world; p++) {
        if (p == root || p == comm->rank)
            continue;
        struct slice slice = slice_of(comm, rq->out, bytes, p);
        plan_receive(comm, p, slice.data, slice.bytes);
        plan_send_gated(comm, p,
                        (struct out){.data = own.data, .bytes = own.bytes, .ready = &in->got});
    }
    return transfer_run(comm, NULL);
}

static int alone(const struct request *rq, size_t bytes)
{
    bool copies = rq->kind == KIND_ALL_GATHER || rq->kind == KIND_REDUCE_SCATTER;
    if (copies && rq->in != rq->out && bytes > 0)
        memmove(rq->out, rq->in, bytes);
    return 0;
}

static int run_among_others(struct wk_comm *comm, const struct request *rq, size_t bytes)
{
    bool small = bytes <= SMALL_BYTES;
    switch (rq->kind) {
    case KIND_ALL_REDUCE:
        return small ? all_reduce_small(comm, rq, bytes) : all_reduce_sliced(comm, rq, bytes);
    case KIND_BROADCAST:
        return small || comm->world == 2 ? broadcast_small(comm, rq, bytes)
                                         : broadcast_sliced(comm, rq, bytes);
    case KIND_ALL_GATHER:
        return all_gather(comm, rq, bytes);
    case KIND_REDUCE_SCATTER:
        return reduce_scatter(comm, rq, bytes);
    case KIND_BARRIER:
        return transfer_run(comm, NULL);
    }
    return WK_EINTERNAL;
}

int collective_run(struct wk_comm *comm, const struct request *rq)
{
    int failure = wait_look(comm);
    if (failure != 0)
        return failure;
    size_t bytes = rq->count * wk_dtype_bytes(rq->dtype);
    if (comm->world == 1)
        return alone(rq, bytes);
    comm->request = *rq;
    comm->header = (struct header){
        .magic = HEADER_MAGIC,
        .kind = (uint8_t)rq->kind,
        .op = (uint8_t)rq->op,
        .dtype = (uint8_t)rq->dtype,
        .root = rq->root,
        .sequence = comm->sequence++,
        .count = rq->count,
    };
    plan_clear(comm);
    return run_among_others(comm, rq, bytes);
}

void request_describe(const struct header *header, char *ret_text, size_t bytes)
{
    static const char *const ops[] = {"sum", "mean", "max", "min"};
    unsigned long long sequence = header->sequence, count = header->count;
    const char *dtype = wk_dtype_name((enum wk_dtype)header->dtype);
    const char *op = header->op < 4 ? ops[header->op] : "?";
    if (header->magic != HEADER_MAGIC) {
        snprintf(ret_text, bytes, "something that is no collective");
        return;
    }
    switch ((enum kind)header->kind) {
    case KIND_ALL_REDUCE:
    case KIND_REDUCE_SCATTER:
        snprintf(ret_text, bytes, "%s #%llu (%s of %llu %s)",
                 header->kind == KIND_ALL_REDUCE ? "all_reduce" : "reduce_scatter", sequence, op,
                 count, dtype);
        return;
    case KIND_BROADCAST:
        snprintf(ret_text, bytes, "broadcast #%llu (%llu %s from rank %d)", sequence, count, dtype,
                 header->root);
        return;
    case KIND_ALL_GATHER:
        snprintf(ret_text, bytes, "all_gather #%llu (%llu %s of each)", sequence, count, dtype);
        return;
    case KIND_BARRIER:
        snprintf(ret_text, bytes, "barrier #%llu", sequence);
        return;
    }
    snprintf(ret_text, bytes, "an unknown collective #%llu", sequence);
}
