#include "libworker/parallel/wire_two_level.h"

#include "libworker/parallel/scratch.h"
#include "libworker/parallel/wire_host.h"

enum {
    PIECE_ALIGN = 16, /* elements: pieces begin on cache lines */
    COPY_ALIGN = 64,  /* bytes: what is between two copies in a stage */
    REST_BYTES = 2 * PIECE_ALIGN * sizeof(double), /* at most, for each rank of a host */
};

static bool is_sum(const struct wire_call *call)
{
    return call->op == WIRE_SUM || call->op == WIRE_SCATTER;
}

static bool is_narrow(enum wk_dtype type)
{
    return type == WK_F16 || type == WK_BF16;
}

static bool is_float(enum wk_dtype type)
{
    return type == WK_F32 || type == WK_F64 || is_narrow(type);
}

bool two_level_takes(const struct wire_work *w)
{
    const struct wires *wires = w->wire->wires;
    if (!wires_hosts(wires, w->comm).inside || !w->call.count || w->call.op == WIRE_EXCHANGE)
        return false;
    return wires_fast(wires) || !is_sum(&w->call) || !is_float(w->call.type);
}

/* Where this rank is in the two levels, and how a sum's or a spread's elements are cut. */
struct cut {
    size_t hosts, host, locals, local;
    size_t piece, whole, rest; /* whole: pieces of all of a host's ranks */
    enum wk_dtype middle;      /* between the levels */
};

static struct cut cut_of(const struct wire_work *w)
{
    const struct wire_call *call = &w->call;
    struct cut cut = {.hosts = (size_t)wk_comm_world(w->hosts.between),
                      .host = (size_t)wk_comm_rank(w->hosts.between),
                      .locals = (size_t)wk_comm_world(w->hosts.inside),
                      .local = (size_t)wk_comm_rank(w->hosts.inside)};
    cut.piece = call->count / cut.locals / PIECE_ALIGN * PIECE_ALIGN;
    cut.whole = cut.piece * cut.locals;
    cut.rest = call->count - cut.whole;
    cut.middle = is_sum(call) && is_narrow(call->type) ? WK_F32 : call->type;
    return cut;
}

/* The call between hosts; addresses are bytes of the stage. */
struct between {
    struct wire_call call;
    size_t in, out, bytes;
};

static size_t align_up(size_t bytes)
{
    return (bytes + COPY_ALIGN - 1) / COPY_ALIGN * COPY_ALIGN;
}

static struct between between_of(const struct wire_work *w, const struct cut *cut)
{
    const struct wire_call *call = &w->call;
    bool converts = cut->middle != call->out_type;
    bool rows = call->op == WIRE_SCATTER || call->op == WIRE_GATHER;
    size_t count = rows ? call->count : cut->piece + cut->rest;
    size_t all = count * (rows ? cut->hosts : 1) * wk_dtype_bytes(cut->middle);
    size_t own = rows ? cut->host * count * wk_dtype_bytes(cut->middle) : 0;
    struct between b = {.call = {.op = call->op,
                                 .count = count,
                                 .type = cut->middle,
                                 .out_type = call->out_type,
                                 .root = (int)((size_t)call->root / cut->locals),
                                 .ret_nonfinite = call->ret_nonfinite},
                        .bytes = all};
    if (call->op == WIRE_GATHER)
        b.in = own;
    if (call->op == WIRE_SCATTER)
        b.out = own;
    if (converts && is_sum(call)) {
        b.out = align_up(all);
        b.bytes = b.out + count * wk_dtype_bytes(call->out_type);
    }
    return b;
}

static char *element_at(const void *at, size_t index, enum wk_dtype type)
{
    return (char *)(uintptr_t)at + index * wk_dtype_bytes(type);
}

/* A part of the call within the host: of `count` elements from `in` on, to `out`. */
struct part {
    enum wire_op op;
    const void *in;
    void *out;
    size_t count;
    enum wk_dtype type, out_type;
    int root;
};

static int run_inside(struct wire_work *w, const struct part *part)
{
    const struct wires_call call = {.comm = w->hosts.inside,
                                    .op = part->op,
                                    .in = part->in,
                                    .out = part->out,
                                    .count = part->count,
                                    .type = part->type,
                                    .out_type = part->out_type,
                                    .root = part->root};
    return wires_enqueue(w->wire->wires, &call, &w->wire->why);
}

static void fetch_part(struct wire_work *w, const void *from, size_t at, size_t bytes)
{
    const struct stage_copy copy = {.device = (void *)(uintptr_t)from,
                                    .at = at,
                                    .bytes = bytes,
                                    .after = event_record(wires_queue(w->wire->wires))};
    if (bytes)
        stage_fetch(&w->wire->stages, w->stage, &copy);
}

/* The sums of a host where `out` has another type, or no room. */
static int reserve_partial(struct wire_work *w, size_t bytes, void **ret)
{
    struct wire *wire = w->wire;
    queue_wait(wires_queue(wire->wires), wire->partial_read);
    return scratch_reserve(queue_device(wire->stages.queue), &wire->partial, bytes, ret,
                           &wire->why);
}

static int start_sum(struct wire_work *w, const struct cut *cut)
{
    const struct wire_call *call = &w->call;
    bool in_place = cut->middle == call->out_type;
    void *piece = element_at(call->out, cut->local * cut->piece, call->out_type);
    void *rest = element_at(call->out, cut->whole, call->out_type);
    size_t size = wk_dtype_bytes(cut->middle);
    int rc = in_place ? 0 : reserve_partial(w, (cut->piece + cut->rest) * size, &piece);
    if (rc)
        return rc;
    if (!in_place)
        rest = element_at(piece, cut->piece, cut->middle);
    rc = run_inside(
        w, &(struct part){WIRE_SCATTER, call->in, piece, cut->piece, call->type, cut->middle, 0});
    if (!rc)
        rc = run_inside(w, &(struct part){WIRE_SUM, element_at(call->in, cut->whole, call->type),
                                          rest, cut->rest, call->type, cut->middle, 0});
    if (rc)
        return rc;
    fetch_part(w, piece, 0, cut->piece * size);
    fetch_part(w, rest, cut->piece * size, cut->rest * size);
    return 0;
}

static int start_scatter(struct wire_work *w, const struct cut *cut)
{
    const struct wire_call *call = &w->call;
    size_t bytes = cut->hosts * call->count * wk_dtype_bytes(cut->middle);
    void *sums;
    int rc = reserve_partial(w, bytes, &sums);
    for (size_t host = 0; host < cut->hosts && !rc; host++)
        rc = run_inside(
            w, &(struct part){WIRE_SCATTER,
                              element_at(call->in, host * cut->locals * call->count, call->type),
                              element_at(sums, host * call->count, cut->middle), call->count,
                              call->type, cut->middle, 0});
    if (!rc)
        fetch_part(w, sums, 0, bytes);
    return rc;
}

static int start_gather(struct wire_work *w, const struct cut *cut)
{
    size_t bytes = w->call.count * wk_dtype_bytes(w->call.type);
    const struct stage_copy copy = {.device = (void *)(uintptr_t)w->call.in,
                                    .at = cut->host * bytes,
                                    .bytes = bytes,
                                    .after = w->call.ready};
    stage_fetch(&w->wire->stages, w->stage, &copy);
    return 0;
}

static bool has_root(const struct wire_work *w, const struct cut *cut)
{
    return (size_t)w->call.root / cut->locals == cut->host;
}

static int start_spread(struct wire_work *w, const struct cut *cut)
{
    const struct wire_call *call = &w->call;
    size_t size = wk_dtype_bytes(call->type);
    if (!has_root(w, cut))
        return 0;
    int rc = run_inside(w, &(struct part){WIRE_SPREAD, call->in, call->out, call->count, call->type,
                                          call->type, (int)((size_t)call->root % cut->locals)});
    if (rc)
        return rc;
    w->done = event_record(wires_queue(w->wire->wires));
    fetch_part(w, element_at(call->out, cut->local * cut->piece, call->type), 0, cut->piece * size);
    fetch_part(w, element_at(call->out, cut->whole, call->type), cut->piece * size,
               cut->rest * size);
    return 0;
}

static int start_part(struct wire_work *w, const struct cut *cut)
{
    struct queue *line = wires_queue(w->wire->wires);
    if (w->call.op == WIRE_GATHER)
        return start_gather(w, cut);
    queue_wait(line, w->call.ready);
    queue_wait(line, w->call.unused);
    if (w->wire->queue_given)
        queue_wait(line, event_record(w->wire->stages.out));
    if (w->call.op == WIRE_SPREAD)
        return start_spread(w, cut);
    int rc = w->call.op == WIRE_SUM ? start_sum(w, cut) : start_scatter(w, cut);
    w->wire->partial_read = rc ? event_record(line) : w->stage->fetched;
    return rc;
}

int two_level_start(struct wire_work *w)
{
    struct wire *wire = w->wire;
    w->hosts = wires_hosts(wire->wires, w->comm);
    struct cut cut = cut_of(w);
    size_t bytes = between_of(w, &cut).bytes;
    size_t usual = wire->stage_bytes / cut.locals + cut.locals * REST_BYTES + COPY_ALIGN;
    int rc = stage_reserve(&wire->stages, bytes > usual ? bytes : usual, &w->stage, &wire->why);
    if (!rc)
        rc = start_part(w, &cut);
    if (rc)
        stage_return(w->stage);
    return rc;
}

int two_level_begin(struct wire_work *w)
{
    struct cut cut = cut_of(w);
    struct between b = between_of(w, &cut);
    int rc = wires_failure(w->wire->wires); /* then the copy's content is undefined */
    if (rc)
        return rc;
    b.call.in = (char *)w->stage->host + b.in;
    b.call.out = (char *)w->stage->host + b.out;
    return wire_on_host(w->hosts.between, &b.call, &w->work);
}

static void send_part(struct wire_work *w, void *to, size_t at, size_t bytes)
{
    const struct stage_copy copy = {
        .device = to, .at = at, .bytes = bytes, .after = w->call.unused};
    if (bytes)
        stage_send(&w->wire->stages, w->stage, &copy);
}

/* What hosts have sent is in `out`; the ranks of each gather it. */
static int gather_inside(struct wire_work *w, void *out, size_t count)
{
    size_t local = (size_t)wk_comm_rank(w->hosts.inside);
    enum wk_dtype type = w->call.out_type;
    return run_inside(w, &(struct part){WIRE_GATHER, element_at(out, local * count, type), out,
                                        count, type, type, 0});
}

static int send_pieces(struct wire_work *w, const struct cut *cut)
{
    struct queue *line = wires_queue(w->wire->wires);
    enum wk_dtype type = w->call.out_type;
    size_t at = between_of(w, cut).out, bytes = cut->piece * wk_dtype_bytes(type);
    send_part(w, element_at(w->call.out, cut->local * cut->piece, type), at, bytes);
    send_part(w, element_at(w->call.out, cut->whole, type), at + bytes,
              cut->rest * wk_dtype_bytes(type));
    queue_wait(line, w->stage->sent);
    int rc = gather_inside(w, w->call.out, cut->piece);
    w->done = event_record(line);
    return rc;
}

static int send_rows(struct wire_work *w, const struct cut *cut)
{
    struct queue *line = wires_queue(w->wire->wires);
    enum wk_dtype type = w->call.out_type;
    size_t count = w->call.count, bytes = count * wk_dtype_bytes(type);
    int rc = 0;
    for (size_t host = 0; host < cut->hosts; host++)
        send_part(w, element_at(w->call.out, (host * cut->locals + cut->local) * count, type),
                  host * bytes, bytes);
    queue_wait(line, w->stage->sent);
    for (size_t host = 0; host < cut->hosts && !rc; host++)
        rc = gather_inside(w, element_at(w->call.out, host * cut->locals * count, type), count);
    w->done = event_record(line);
    return rc;
}

/* All ranks know of a value that is not finite on one of them. */
static int agree_on_finite(struct wire_work *w)
{
    if (!w->call.ret_nonfinite)
        return 0;
    int32_t nonfinite = *w->call.ret_nonfinite;
    int rc = wk_all_reduce(w->hosts.inside, &nonfinite, 1, WK_I32, WK_MAX, NULL);
    *w->call.ret_nonfinite = nonfinite;
    return rc;
}

int two_level_send(struct wire_work *w)
{
    struct cut cut = cut_of(w);
    int rc = agree_on_finite(w);
    if (rc)
        return rc;
    switch (w->call.op) {
    case WIRE_SUM:
        return send_pieces(w, &cut);
    case WIRE_SPREAD:
        return has_root(w, &cut) ? 0 : send_pieces(w, &cut);
    case WIRE_GATHER:
        return send_rows(w, &cut);
    case WIRE_SCATTER:
        send_part(w, w->call.out, between_of(w, &cut).out,
                  w->call.count * wk_dtype_bytes(w->call.out_type));
        w->done = w->stage->sent;
        return 0;
    case WIRE_EXCHANGE:
        break;
    }
    return 0;
}
