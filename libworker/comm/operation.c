#include "libworker/comm/operation.h"

#include "libworker/comm/state.h"

/* A tally needs slices, because with `direct` no rank has the whole, and a chain would add in
 * another order. */
enum way operation_way(const struct wk_comm *comm, const struct request *rq)
{
    return request_tallies(rq) ? WAY_SLICED
                               : ways_at(&comm->ways, request_in_bytes(rq, comm->world));
}

void operation_header(struct wk_comm *comm, const struct request *rq)
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
        comm->header.finish = (uint8_t)((operation_way(comm, rq) + 1) << FINISH_WAY_SHIFT);
    if (rq->finishes) {
        comm->header.scale = (float)rq->finish.scale;
        comm->header.finish |= FINISH_ACTIVE | (rq->finish.converts ? FINISH_CONVERTS : 0) |
                               (rq->finish.ret_squares ? FINISH_SQUARES : 0) |
                               (rq->finish.ret_nonfinite ? FINISH_NONFINITE : 0);
        comm->header.out_dtype = (uint8_t)(rq->finish.converts ? rq->finish.out_dtype : 0);
    }
}

struct reduction operation_reduction(const struct wk_comm *comm, const struct request *rq,
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
