#include "libworker/parallel/wire.h"

#include <worker/error.h>

#include "common/base/assert.h"

void wire_init(struct wire *wire, struct queue *queue, struct wires *wires)
{
    *wire = (struct wire){.wires = wires};
    stages_init(&wire->stages, queue);
}

void wire_fini(struct wire *wire)
{
    stages_fini(&wire->stages);
    *wire = (struct wire){0};
}

void wire_drain(struct wire *wire)
{
    stages_drain(&wire->stages);
    if (wire->wires)
        queue_wait(wire->stages.queue, event_record(wires_queue(wire->wires)));
}

enum wire_way wire_way(const struct wire *wire, const struct wk_comm *comm)
{
    if (stages_direct(&wire->stages))
        return WIRE_DIRECT;
    return wires_have(wire->wires, comm) ? WIRE_OWN : WIRE_STAGED;
}

int wire_queue(struct wire *wire, const struct wk_comm *comm, struct queue **ret)
{
    int rc = 0;
    *ret = wire->stages.queue;
    switch (wire_way(wire, comm)) {
    case WIRE_DIRECT:
        break;
    case WIRE_STAGED:
        rc = stages_open(&wire->stages, &wire->why);
        *ret = wire->stages.out;
        break;
    case WIRE_OWN:
        *ret = wires_queue(wire->wires);
        break;
    }
    return rc;
}

void wire_enroll(struct wire *wire, struct wk_comm *comm, void *at, size_t bytes)
{
    wires_enroll(wire->wires, comm, at, bytes);
}

/* Bytes of `in` and `out`, and of one row. */
struct sizes {
    size_t row, in, out;
};

static struct sizes sizes_of(const struct wire_work *w)
{
    const struct wire_call *call = &w->call;
    size_t world = (size_t)wk_comm_world(w->comm);
    size_t in = call->count * wk_dtype_bytes(call->type);
    size_t out = call->count * wk_dtype_bytes(call->out_type);
    switch (call->op) {
    case WIRE_SUM:
    case WIRE_SPREAD:
        break;
    case WIRE_SCATTER:
        return (struct sizes){in, world * in, out};
    case WIRE_GATHER:
        return (struct sizes){in, in, world * in};
    case WIRE_EXCHANGE:
        return (struct sizes){in, world * in, world * in};
    }
    return (struct sizes){in, in, out};
}

/* Where a copy on the host has `in` and `out`. They share memory where the call allows it. */
struct places {
    size_t in, out, bytes;
};

static struct places places_of(const struct wire_work *w)
{
    struct sizes sizes = sizes_of(w);
    size_t own = (size_t)wk_comm_rank(w->comm) * sizes.row;
    bool converts = w->call.type != w->call.out_type;
    if (converts || w->call.op == WIRE_EXCHANGE)
        return (struct places){0, sizes.in, sizes.in + sizes.out};
    switch (w->call.op) {
    case WIRE_SCATTER:
        return (struct places){0, own, sizes.in};
    case WIRE_GATHER:
        return (struct places){own, 0, sizes.out};
    case WIRE_SUM:
    case WIRE_SPREAD:
    case WIRE_EXCHANGE:
        break;
    }
    return (struct places){0, 0, sizes.in};
}

static int start_sum(struct wire_work *w, const struct wk_buffers *buffers)
{
    const struct wire_call *call = &w->call;
    bool sum = call->op == WIRE_SUM, converts = call->type != call->out_type;
    const struct wk_reduce_options options = {
        .converts = converts, .out_dtype = call->out_type, .ret_nonfinite = call->ret_nonfinite};
    if (!converts && !call->ret_nonfinite)
        return sum ? wk_all_reduce(w->comm, buffers->out, call->count, call->type, WK_SUM, &w->work)
                   : wk_reduce_scatter(w->comm, buffers->in, buffers->out, call->count, call->type,
                                       WK_SUM, &w->work);
    return sum ? wk_all_reduce_with(w->comm, buffers, WK_SUM, &options, &w->work)
               : wk_reduce_scatter_with(w->comm, buffers, WK_SUM, &options, &w->work);
}

/* In the host's memory; a sum that does not convert has in == out. */
static int start_on_host(struct wire_work *w, const void *in, void *out)
{
    const struct wire_call *call = &w->call;
    const struct wk_buffers buffers = {in, out, call->count, call->type};
    switch (call->op) {
    case WIRE_SUM:
    case WIRE_SCATTER:
        return start_sum(w, &buffers);
    case WIRE_GATHER:
        return wk_all_gather(w->comm, in, out, call->count, call->type, &w->work);
    case WIRE_EXCHANGE:
        return wk_all_to_all(w->comm, &buffers, &w->work);
    case WIRE_SPREAD:
        return wk_broadcast(w->comm, out, call->count, call->type, call->root, &w->work);
    }
    return 0;
}

/* Gathers and sums run in place: what they read comes there first. */
static int start_direct(struct wire_work *w)
{
    struct wire_call *call = &w->call;
    struct queue *queue = w->wire->stages.queue;
    struct sizes sizes = sizes_of(w);
    char *own = (char *)call->out + (size_t)wk_comm_rank(w->comm) * sizes.row;
    if (call->op == WIRE_GATHER && call->in != own) {
        queue_copy(queue, own, call->in, sizes.in);
        call->in = own;
    }
    if ((call->op == WIRE_SUM || call->op == WIRE_SPREAD) && call->in != call->out &&
        call->type == call->out_type) {
        queue_copy(queue, call->out, call->in, sizes.in);
        call->in = call->out;
    }
    w->begun = true;
    return start_on_host(w, call->in, call->out);
}

static bool has_input(const struct wire_work *w)
{
    return w->call.op != WIRE_SPREAD || wk_comm_rank(w->comm) == w->call.root;
}

static int start_staged(struct wire_work *w)
{
    struct wire *wire = w->wire;
    struct places at = places_of(w);
    size_t bytes = at.bytes > wire->stage_bytes ? at.bytes : wire->stage_bytes;
    int rc = stage_reserve(&wire->stages, bytes, &w->stage, &wire->why);
    if (rc)
        return rc;
    const struct stage_copy copy = {.device = (void *)(uintptr_t)w->call.in,
                                    .at = at.in,
                                    .bytes = sizes_of(w).in,
                                    .after = w->call.ready};
    if (has_input(w))
        stage_fetch(&wire->stages, w->stage, &copy);
    return 0;
}

static int start_own(struct wire_work *w)
{
    const struct wire_call *call = &w->call;
    struct queue *line = wires_queue(w->wire->wires);
    const struct wires_call own = {.comm = w->comm,
                                   .op = call->op,
                                   .in = call->in,
                                   .out = call->out,
                                   .count = call->count,
                                   .type = call->type,
                                   .out_type = call->out_type,
                                   .root = call->root,
                                   .as_float = call->as_float};
    queue_wait(line, call->ready);
    queue_wait(line, call->unused);
    int rc = wires_enqueue(w->wire->wires, &own, &w->wire->why);
    w->done = event_record(line);
    w->begun = true;
    return rc;
}

int wire_start(struct wire *wire, struct wk_comm *comm, const struct wire_call *call,
               struct wire_work *ret)
{
    struct wire_work work = {.wire = wire, .call = *call, .comm = comm};
    int rc = 0;
    insist(!ret->wire);
    switch (wire_way(wire, comm)) {
    case WIRE_DIRECT:
        rc = start_direct(&work);
        break;
    case WIRE_STAGED:
        rc = start_staged(&work);
        break;
    case WIRE_OWN:
        rc = start_own(&work);
        break;
    }
    if (!rc)
        *ret = work;
    return rc;
}

int wire_begin(struct wire_work *work)
{
    if (!work->wire || work->begun)
        return 0;
    struct places at = places_of(work);
    char *host = work->stage->host;
    work->begun = true;
    work->failure = stage_await(work->stage, &work->wire->why);
    if (!work->failure)
        work->failure = start_on_host(work, host + at.in, host + at.out);
    return work->failure;
}

static void send(struct wire_work *work)
{
    const struct stage_copy copy = {.device = work->call.out,
                                    .at = places_of(work).out,
                                    .bytes = sizes_of(work).out,
                                    .after = work->call.unused};
    stage_send(&work->wire->stages, work->stage, &copy);
}

static void end(struct wire_work *work)
{
    struct event done = work->done;
    stage_return(work->stage);
    *work = (struct wire_work){.done = done};
}

int wire_finish_part(struct wire_work *work)
{
    if (!work->wire)
        return 0;
    int rc = wire_begin(work), waited = wk_wait(work->work);
    if (!rc)
        rc = work->failure ? work->failure : waited;
    if (!rc && work->stage) {
        send(work);
        work->done = work->stage->sent;
    } else if (!rc && work->done.queue) {
        rc = wires_failure(work->wire->wires);
    }
    end(work);
    return rc;
}

int wire_finish(struct wire_work *work)
{
    struct wire *wire = work->wire;
    int rc = wire_finish_part(work);
    if (wire) /* after a failure too: the memory will be used again */
        queue_wait(wire->stages.queue, work->done);
    return rc;
}

void wire_forget(struct wire_work *work)
{
    (void)wk_wait(work->work);
    end(work);
}

int wire_run(struct wire *wire, struct wk_comm *comm, const struct wire_call *call,
             struct error *err)
{
    struct wire_work work = {0};
    int rc = wire_start(wire, comm, call, &work);
    if (!rc)
        rc = wire_finish(&work);
    if (rc)
        (void)error_set(err, rc, "%s", *wire->why.text ? wire->why.text : wk_comm_error(comm));
    return rc;
}
