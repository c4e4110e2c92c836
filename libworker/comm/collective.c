/* Chooses the way of an operation, and provides what is common to all ways. */
#include <stdio.h>
#include <string.h>

#include "libworker/comm/comm_internal.h"

enum { HEADER_MAGIC = 0x6b77 };

struct slice slice_of(size_t count, int parts, int part)
{
    size_t n = (size_t)parts, p = (size_t)part;
    size_t each =
        ((count + n - 1) / n + SLICE_ELEMENTS - 1) / SLICE_ELEMENTS * (size_t)SLICE_ELEMENTS;
    size_t first = each * p < count ? each * p : count;
    return (struct slice){first, count - first < each ? count - first : each};
}

/* Compare by words, without a changed copy. A load that is wider than the store it depends on waits
 * until all earlier stores have left the core, our own post among them. */
bool header_agrees(const struct header *a, const struct header *b)
{
    const struct header all = {.place = UINT8_MAX};
    uint64_t place[sizeof(*a) / 8], x[sizeof(*a) / 8], y[sizeof(*a) / 8];
    memcpy(place, &all, sizeof(all));
    memcpy(x, a, sizeof(*a));
    memcpy(y, b, sizeof(*b));
    return (((x[0] ^ y[0]) & ~place[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3])) == 0;
}

struct reduction request_reduction(const struct wk_comm *comm, const struct request *rq,
                                   struct tally *tally)
{
    struct reduction reduction = {
        .dtype = rq->dtype, .op = rq->op, .sources = comm->world, .scratch = comm->scratch};
    reduction.divisor = comm->world;
    reduction.finish.active = rq->finishes;
    reduction.finish.out = rq->finish.converts ? rq->finish.out_dtype : rq->dtype;
    reduction.finish.scale = rq->finish.scale;
    reduction.finish.tally = request_tallies(rq) ? tally : NULL;
    reduction.finish.squares = rq->finish.ret_squares;
    reduction.finish.nonfinite = rq->finish.ret_nonfinite;
    return reduction;
}

void request_tell(const struct request *rq, const struct share *shares, int count)
{
    double squares = 0;
    int nonfinite = 0;
    for (int i = 0; i < count; i++) {
        squares += shares[i].squares;
        nonfinite |= shares[i].nonfinite != 0;
    }
    if (rq->finish.ret_squares)
        *rq->finish.ret_squares = squares;
    if (rq->finish.ret_nonfinite)
        *rq->finish.ret_nonfinite = nonfinite;
}

/* A tally needs slices, because with `direct` no rank has the whole, and a chain would add in
 * another order. */
enum way collective_way(const struct wk_comm *comm, const struct request *rq)
{
    return request_tallies(rq) ? WAY_SLICED
                               : ways_at(&comm->ways, request_in_bytes(rq, comm->world));
}

void collective_head(struct wk_comm *comm, const struct request *rq)
{
    comm->header = (struct header){
        .magic = HEADER_MAGIC,
        .kind = (uint8_t)rq->kind,
        .op = (uint8_t)rq->op,
        .dtype = (uint8_t)rq->dtype,
        .root = rq->root,
        .sequence = comm->sequence++,
        .count = rq->count,
    };
    if (comm->ways.forced && rq->kind == KIND_ALL_REDUCE)
        comm->header.finish = (uint8_t)((collective_way(comm, rq) + 1) << FINISH_WAY_SHIFT);
    if (rq->finishes) {
        comm->header.scale = (float)rq->finish.scale;
        comm->header.finish |= FINISH_ACTIVE | (rq->finish.converts ? FINISH_CONVERTS : 0) |
                               (rq->finish.ret_squares ? FINISH_SQUARES : 0) |
                               (rq->finish.ret_nonfinite ? FINISH_NONFINITE : 0);
        comm->header.out_dtype = (uint8_t)(rq->finish.converts ? rq->finish.out_dtype : 0);
    }
}

/* With one rank its data is the result. */
static int alone(struct wk_comm *comm, const struct request *rq)
{
    bool reduces = rq->kind == KIND_ALL_REDUCE || rq->kind == KIND_REDUCE_SCATTER;
    if (reduces && rq->finishes) {
        struct tally tally = {.at = 0};
        struct reduction reduction = request_reduction(comm, rq, &tally);
        reduce(&reduction, &rq->in, rq->out, rq->count);
        struct share share = {tally_squares(&tally), tally.nonfinite};
        request_tell(rq, &share, 1);
        return 0;
    }
    if (rows_kind(rq->kind))
        return rows_alone(comm, rq);
    size_t bytes = rq->count * wk_dtype_bytes(rq->dtype);
    if (rq->kind != KIND_BARRIER && rq->in != rq->out && bytes > 0)
        memmove(rq->out, rq->in, bytes);
    return 0;
}

static bool between_pairs(const struct request *rq)
{
    return rq->kind == KIND_SEND || rq->kind == KIND_RECV || rq->kind == KIND_SEND_RECV;
}

static int run(struct wk_comm *comm, const struct request *rq)
{
    if (between_pairs(rq))
        return by_links_run(comm, rq);
    collective_head(comm, rq);
    present_set(comm, rq);
    if (comm->world == 1)
        return alone(comm, rq);
    if (rows_kind(rq->kind))
        return by_links_run(comm, rq);
    if (comm->locals == comm->world)
        return shared_run(comm, rq);
    if (rq->kind != KIND_ALL_REDUCE)
        return by_links_run(comm, rq);
    switch (collective_way(comm, rq)) {
    case WAY_DIRECT:
    case WAY_SLICED:
        break;
    case WAY_CHAIN:
        return chain_run(comm, rq);
    case WAY_TWO_LEVELS:
        return two_level_run(comm, rq);
    }
    return by_links_run(comm, rq);
}

int collective_run(struct wk_comm *comm, const struct request *rq)
{
    int rc = wait_look(comm);
    if (rc != 0)
        return rc;
    rc = run(comm, rq);
    present_clear(comm);
    if (rc != 0 && comm->has_segment)
        atomic_store(&comm->segment.head->done.quiet, 1);
    return rc;
}

static const char *name_of(uint8_t kind)
{
    static const char *const names[] = {
#define X(name, text) text,
        KIND_LIST(X)
#undef X
    };
    return kind < KINDS ? names[kind] : "unknown";
}

/* "sum of 1000 f32", "1000 f32 from rank 2", "1000 f32 of each" */
static void describe_data(const struct header *header, char *ret_text, size_t bytes)
{
    static const char *const ops[] = {"sum", "mean", "max", "min"};
    unsigned long long count = header->count;
    const char *dtype = wk_dtype_name((enum wk_dtype)header->dtype);
    const char *op = header->op < 4 ? ops[header->op] : "?";
    switch ((enum kind)header->kind) {
    case KIND_ALL_REDUCE:
    case KIND_REDUCE_SCATTER:
        snprintf(ret_text, bytes, "%s of %llu %s", op, count, dtype);
        return;
    case KIND_REDUCE:
        snprintf(ret_text, bytes, "%s of %llu %s to rank %d", op, count, dtype, header->root);
        return;
    case KIND_BROADCAST:
    case KIND_SCATTER:
        snprintf(ret_text, bytes, "%llu %s from rank %d", count, dtype, header->root);
        return;
    case KIND_GATHER:
    case KIND_SEND:
        snprintf(ret_text, bytes, "%llu %s to rank %d", count, dtype, header->root);
        return;
    case KIND_ALL_GATHER:
    case KIND_ALL_TO_ALL:
        snprintf(ret_text, bytes, "%llu %s of each", count, dtype);
        return;
    case KIND_ALL_TO_ALL_V:
    case KIND_ALL_GATHER_V:
    case KIND_REDUCE_SCATTER_V:
    case KIND_RECV:
    case KIND_SEND_RECV:
    case KIND_BARRIER:
        break;
    }
    snprintf(ret_text, bytes, "%llu %s", count, dtype);
}

void request_describe(const struct header *header, char *ret_text, size_t bytes)
{
    unsigned long long sequence = header->sequence, count = header->count;
    char data[DESCRIPTION_BYTES / 2];
    if (header->magic != HEADER_MAGIC) {
        snprintf(ret_text, bytes, "something that is no collective");
        return;
    }
    if (header->kind == KIND_BARRIER) {
        snprintf(ret_text, bytes, "barrier #%llu", sequence);
        return;
    }
    describe_data(header, data, sizeof(data));
    const char *finished = header->finish & FINISH_ACTIVE ? ", finished" : "";
    const char *squares = header->finish & FINISH_SQUARES ? ", with its squares" : "";
    const char *nonfinite = header->finish & FINISH_NONFINITE ? ", checked for NaN" : "";
    int way = header->finish >> FINISH_WAY_SHIFT;
    bool forced = way > 0 && way <= WAYS;
    snprintf(ret_text, bytes, "%s #%llu (%s, %llu bytes%s%s%s%s%s)", name_of(header->kind),
             sequence, data, count * wk_dtype_bytes((enum wk_dtype)header->dtype), finished,
             squares, nonfinite, forced ? ", forced " : "",
             forced ? way_name((enum way)(way - 1)) : "");
}
