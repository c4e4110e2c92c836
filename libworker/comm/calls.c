/* The public operations. */
#include "libworker/comm/calls.h"

#include "libworker/comm/failure.h"
#include "libworker/comm/reduce.h"
#include "libworker/comm/state.h"
#include "libworker/comm/work.h"

static bool request_sends(const struct request *rq)
{
    return rq->kind == KIND_SEND || rq->kind == KIND_SEND_RECV;
}

static bool request_receives(const struct request *rq)
{
    return rq->kind == KIND_RECV || rq->kind == KIND_SEND_RECV;
}

static bool request_reduces(const struct request *rq)
{
    return rq->kind == KIND_ALL_REDUCE || rq->kind == KIND_REDUCE ||
           rq->kind == KIND_REDUCE_SCATTER || rq->kind == KIND_REDUCE_SCATTER_V;
}

/* Buffers that this rank's part of the operation needs are not NULL. */
static bool has_buffers(const struct wk_comm *comm, const struct request *rq)
{
    bool root = comm->rank == rq->root;
    switch (rq->kind) {
    case KIND_ALL_REDUCE:
    case KIND_ALL_GATHER:
    case KIND_REDUCE_SCATTER:
    case KIND_ALL_TO_ALL:
    case KIND_SEND_RECV:
        return rq->in && rq->out;
    case KIND_BROADCAST:
    case KIND_RECV:
        return rq->out;
    case KIND_REDUCE:
    case KIND_GATHER:
        return rq->in && (!root || rq->out);
    case KIND_SCATTER:
        return rq->out && (!root || rq->in);
    case KIND_SEND:
        return rq->in;
    case KIND_ALL_TO_ALL_V:
    case KIND_ALL_GATHER_V:
    case KIND_REDUCE_SCATTER_V:
    case KIND_BARRIER:
        return true;
    }
    return false;
}

static int check_finish(struct wk_comm *comm, const struct request *rq)
{
    enum wk_dtype out = rq->finish.converts ? rq->finish.out_dtype : rq->dtype;
    if (wk_dtype_bytes(out) == 0 || !finish_valid(rq->dtype, out))
        return comm_argument_error(comm, WK_EINVAL, "sums of %s cannot be finished as %s",
                                   wk_dtype_name(rq->dtype), wk_dtype_name(out));
    return 0;
}

static int check_peer(struct wk_comm *comm, int peer)
{
    if (peer >= 0 && peer < comm->world && peer != comm->rank)
        return 0;
    return comm_argument_error(comm, WK_EINVAL, "rank %d is not another one of %d ranks", peer,
                               comm->world);
}

int request_check(struct wk_comm *comm, const struct request *rq)
{
    size_t size = wk_dtype_bytes(rq->dtype);
    int rc = 0;
    if (size == 0)
        return comm_argument_error(comm, WK_EINVAL, "no such element type: %d", (int)rq->dtype);
    if (rq->dtype == WK_BOOL && request_reduces(rq))
        return comm_argument_error(comm, WK_EINVAL, "bool is not reduced: send it as u8");
    if ((unsigned)rq->op > WK_MIN)
        return comm_argument_error(comm, WK_EINVAL, "no such reduction: %d", (int)rq->op);
    if (rq->root < 0 || rq->root >= comm->world)
        return comm_argument_error(comm, WK_EINVAL, "root %d is not one of %d ranks", rq->root,
                                   comm->world);
    if (rq->count > PTRDIFF_MAX / 8 / COMM_WORLD_MAX)
        return comm_argument_error(comm, WK_EINVAL, "a count of %zu does not fit memory",
                                   rq->count);
    if (rq->count > 0 && !has_buffers(comm, rq))
        return comm_argument_error(comm, WK_EINVAL, "%zu elements, but no buffer", rq->count);
    if (rq->finishes)
        rc = check_finish(comm, rq);
    if (!rc && request_sends(rq))
        rc = check_peer(comm, rq->to);
    if (!rc && request_receives(rq))
        rc = check_peer(comm, rq->from);
    return rc;
}

static int check_and_submit(struct wk_comm *comm, struct request *request,
                            struct wk_work **ret_work)
{
    if (!comm)
        return comm_missing();
    int rc = request_check(comm, request);
    if (rc)
        return rc;
    return work_submit(comm, request, ret_work);
}

static struct request request_of(enum kind kind, const struct wk_buffers *buffers)
{
    return (struct request){.kind = kind,
                            .dtype = buffers->dtype,
                            .count = buffers->count,
                            .in = buffers->in,
                            .out = buffers->out};
}

int wk_all_reduce(struct wk_comm *comm, void *buf, size_t count, enum wk_dtype dtype, enum wk_op op,
                  struct wk_work **ret_work)
{
    struct request request = {
        .kind = KIND_ALL_REDUCE, .dtype = dtype, .op = op, .count = count, .in = buf, .out = buf};
    return check_and_submit(comm, &request, ret_work);
}

int wk_broadcast(struct wk_comm *comm, void *buf, size_t count, enum wk_dtype dtype, int root,
                 struct wk_work **ret_work)
{
    struct request request = {.kind = KIND_BROADCAST,
                              .dtype = dtype,
                              .root = root,
                              .count = count,
                              .in = buf,
                              .out = buf};
    return check_and_submit(comm, &request, ret_work);
}

int wk_all_gather(struct wk_comm *comm, const void *in, void *ret_out, size_t count,
                  enum wk_dtype dtype, struct wk_work **ret_work)
{
    struct request request = {
        .kind = KIND_ALL_GATHER, .dtype = dtype, .count = count, .in = in, .out = ret_out};
    return check_and_submit(comm, &request, ret_work);
}

int wk_reduce_scatter(struct wk_comm *comm, const void *in, void *ret_out, size_t count,
                      enum wk_dtype dtype, enum wk_op op, struct wk_work **ret_work)
{
    struct request request = {.kind = KIND_REDUCE_SCATTER,
                              .dtype = dtype,
                              .op = op,
                              .count = count,
                              .in = in,
                              .out = ret_out};
    return check_and_submit(comm, &request, ret_work);
}

int wk_barrier(struct wk_comm *comm, struct wk_work **ret_work)
{
    struct request request = {.kind = KIND_BARRIER, .dtype = WK_U8};
    return check_and_submit(comm, &request, ret_work);
}

int wk_reduce(struct wk_comm *comm, const struct wk_buffers *buffers, enum wk_op op, int root,
              struct wk_work **ret_work)
{
    struct request request = request_of(KIND_REDUCE, buffers);
    request.op = op;
    request.root = root;
    return check_and_submit(comm, &request, ret_work);
}

int wk_gather(struct wk_comm *comm, const struct wk_buffers *buffers, int root,
              struct wk_work **ret_work)
{
    struct request request = request_of(KIND_GATHER, buffers);
    request.root = root;
    return check_and_submit(comm, &request, ret_work);
}

int wk_scatter(struct wk_comm *comm, const struct wk_buffers *buffers, int root,
               struct wk_work **ret_work)
{
    struct request request = request_of(KIND_SCATTER, buffers);
    request.root = root;
    return check_and_submit(comm, &request, ret_work);
}

int wk_all_to_all(struct wk_comm *comm, const struct wk_buffers *buffers, struct wk_work **ret_work)
{
    struct request request = request_of(KIND_ALL_TO_ALL, buffers);
    return check_and_submit(comm, &request, ret_work);
}

int wk_send(struct wk_comm *comm, const void *in, size_t count, enum wk_dtype dtype, int to,
            struct wk_work **ret_work)
{
    struct request request = {
        .kind = KIND_SEND, .dtype = dtype, .count = count, .in = in, .to = to};
    return check_and_submit(comm, &request, ret_work);
}

int wk_recv(struct wk_comm *comm, void *ret_out, size_t count, enum wk_dtype dtype, int from,
            struct wk_work **ret_work)
{
    struct request request = {
        .kind = KIND_RECV, .dtype = dtype, .count = count, .out = ret_out, .from = from};
    return check_and_submit(comm, &request, ret_work);
}

int wk_send_recv(struct wk_comm *comm, const struct wk_buffers *buffers, int to, int from,
                 struct wk_work **ret_work)
{
    struct request request = request_of(KIND_SEND_RECV, buffers);
    request.to = to;
    request.from = from;
    return check_and_submit(comm, &request, ret_work);
}

static int reduce_with(struct wk_comm *comm, struct request *request,
                       const struct wk_reduce_options *options, struct wk_work **ret_work)
{
    request->finishes = true;
    request->finish = *options;
    return check_and_submit(comm, request, ret_work);
}

int wk_all_reduce_with(struct wk_comm *comm, const struct wk_buffers *buffers, enum wk_op op,
                       const struct wk_reduce_options *options, struct wk_work **ret_work)
{
    struct request request = request_of(KIND_ALL_REDUCE, buffers);
    request.op = op;
    return reduce_with(comm, &request, options, ret_work);
}

int wk_reduce_scatter_with(struct wk_comm *comm, const struct wk_buffers *buffers, enum wk_op op,
                           const struct wk_reduce_options *options, struct wk_work **ret_work)
{
    struct request request = request_of(KIND_REDUCE_SCATTER, buffers);
    request.op = op;
    return reduce_with(comm, &request, options, ret_work);
}
