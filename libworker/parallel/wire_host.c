#include "libworker/parallel/wire_host.h"

static int sum_on_host(struct wk_comm *comm, const struct wire_call *call, struct wk_work **ret)
{
    const struct wk_buffers buffers = {call->in, call->out, call->count, call->type};
    bool sum = call->op == WIRE_SUM, converts = call->type != call->out_type;
    const struct wk_reduce_options options = {
        .converts = converts, .out_dtype = call->out_type, .ret_nonfinite = call->ret_nonfinite};
    if (!converts && !call->ret_nonfinite)
        return sum ? wk_all_reduce(comm, call->out, call->count, call->type, WK_SUM, ret)
                   : wk_reduce_scatter(comm, call->in, call->out, call->count, call->type, WK_SUM,
                                       ret);
    return sum ? wk_all_reduce_with(comm, &buffers, WK_SUM, &options, ret)
               : wk_reduce_scatter_with(comm, &buffers, WK_SUM, &options, ret);
}

int wire_on_host(struct wk_comm *comm, const struct wire_call *call, struct wk_work **ret)
{
    const struct wk_buffers buffers = {call->in, call->out, call->count, call->type};
    switch (call->op) {
    case WIRE_SUM:
    case WIRE_SCATTER:
        return sum_on_host(comm, call, ret);
    case WIRE_GATHER:
        return wk_all_gather(comm, call->in, call->out, call->count, call->type, ret);
    case WIRE_EXCHANGE:
        return wk_all_to_all(comm, &buffers, ret);
    case WIRE_SPREAD:
        return wk_broadcast(comm, call->out, call->count, call->type, call->root, ret);
    }
    return 0;
}
