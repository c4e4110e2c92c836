#include "libworker/parallel/wire.h"

#include <worker/error.h>

#include "common/base/assert.h"
#include "libworker/parallel/scratch.h"
#include "libworker/parallel/wire_host.h"
#include "libworker/parallel/wire_two_level.h"

void wire_init(struct wire *wire, struct queue *queue, struct wires *wires)
{
    *wire = (struct wire){.wires = wires};
    stages_init(&wire->stages, queue);
}

void wire_fini(struct wire *wire)
{
    (void)event_wait(wire->partial_read, NULL);
    if (wire->partial)
        scratch_free(queue_device(wire->stages.queue), &wire->partial);
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

bool wire_sums(const struct wire *wire, const struct wk_comm *comm)
{
    return wire_way(wire, comm) == WIRE_OWN ||
           (wires_fast(wire->wires) && wires_hosts(wire->wires, comm).inside);
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
        wire->queue_given = true;
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
    return wire_on_host(w->comm, call, &w->work);
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

/* rc. A rank on which a part in two levels fails enqueues nothing more in this generation. It has
 * left out a call, and its next one would meet another call of its host's ranks. */
static int stopping(const struct wire_work *work, int rc)
{
    if (rc && work->hosts.inside)
        wk_comm_abort(work->comm);
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
        rc = two_level_takes(&work) ? two_level_start(&work) : start_staged(&work);
        wire->queue_given = false;
        break;
    case WIRE_OWN:
        rc = start_own(&work);
        break;
    }
    if (!rc)
        *ret = work;
    return stopping(&work, rc);
}

static int begin_staged(struct wire_work *work)
{
    struct places at = places_of(work);
    struct wire_call call = work->call;
    call.in = (char *)work->stage->host + at.in;
    call.out = (char *)work->stage->host + at.out;
    return wire_on_host(work->comm, &call, &work->work);
}

int wire_begin(struct wire_work *work)
{
    if (!work->wire || work->begun)
        return 0;
    work->begun = true;
    work->failure = stage_await(work->stage, &work->wire->why);
    if (!work->failure)
        work->failure = work->hosts.inside ? two_level_begin(work) : begin_staged(work);
    return stopping(work, work->failure);
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
    if (!rc && work->hosts.inside) {
        rc = two_level_send(work);
    } else if (!rc && work->stage) {
        send(work);
        work->done = work->stage->sent;
    } else if (!rc && work->done.queue) {
        rc = wires_failure(work->wire->wires);
    }
    (void)stopping(work, rc);
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
