/* One call of a communicator: its arguments, the sizes of its buffers, its cut into slices. A
 * request belongs to the thread that runs it. Pure, any thread. */
#ifndef COMM_REQUEST_H
#define COMM_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/comm.h>

#include "libworker/comm/header.h"

/* The arguments of a call. */
struct request {
    enum kind kind;
    enum wk_dtype dtype;
    enum wk_op op;
    int root;
    size_t count;
    const void *in; /* this rank's input as others see it; broadcast: as `out` */
    void *out;
    int to, from; /* send, recv, send_recv */
    bool finishes;
    struct wk_reduce_options finish;
    struct wk_rows rows; /* of kind_has_rows */
    size_t *row_space;   /* memory of the arrays in `rows`, or NULL; freed with the request */
};

struct slice {
    size_t first, count; /* elements */
};

/* Share `part` of `count` elements among `parts`: equal shares of whole cache lines. The last share
 * may be smaller or empty. */
struct slice slice_of(size_t count, int parts, int part);

/* Inline: small operations call it several times, and their whole budget is 0.1 us. */
static inline size_t dtype_bytes(enum wk_dtype dtype)
{
    static const uint8_t bytes[] = {
#define X(name, size, text) size,
        WK_DTYPE_LIST(X)
#undef X
    };
    return bytes[dtype];
}

static inline size_t request_out_size(const struct request *rq)
{
    bool converts = rq->finishes && rq->finish.converts;
    return dtype_bytes(converts ? rq->finish.out_dtype : rq->dtype);
}

/* Bytes of `in`, of `out`, of the larger. */
static inline size_t request_in_bytes(const struct request *rq, int world)
{
    size_t bytes = rq->count * dtype_bytes(rq->dtype);
    bool rows =
        rq->kind == KIND_REDUCE_SCATTER || rq->kind == KIND_ALL_TO_ALL || rq->kind == KIND_SCATTER;
    return rows ? bytes * (size_t)world : bytes;
}

static inline size_t request_out_bytes(const struct request *rq, int world)
{
    size_t bytes = rq->count * request_out_size(rq);
    bool rows =
        rq->kind == KIND_ALL_GATHER || rq->kind == KIND_ALL_TO_ALL || rq->kind == KIND_GATHER;
    return rows ? bytes * (size_t)world : bytes;
}

static inline size_t request_bytes(const struct request *rq, int world)
{
    size_t in = request_in_bytes(rq, world), out = request_out_bytes(rq, world);
    return in > out ? in : out;
}

static inline bool request_tallies(const struct request *rq)
{
    return rq->finishes && (rq->finish.ret_squares || rq->finish.ret_nonfinite);
}

/* A rank's part of the statistics that the caller asked for. */
struct share {
    double squares;
    uint64_t nonfinite;
};

/* Store the sum of all ranks' shares, in rank order, where the caller asked. */
void request_store_tally(const struct request *rq, const struct share *shares, int count);

#endif
