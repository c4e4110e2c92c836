/* The launches of a step: one for each segment (optimizer.h), or for several where the device has a
 * kernel for that. */
#include <string.h>

#include <worker/precision.h>

#include "libworker/device/kernels.h"
#include "libworker/optim/launches.h"
#include "libworker/optim/optimizer.h"
#include "libworker/optim/state.h"
#include "libworker/precision/noise.h"

/* Arguments are put together in zeroed memory, field by field: gaps are zeros, and equal arguments
 * have equal bytes (device/replay.h). */
static void set_copy(const struct wk_optimizer *o, size_t offset, struct copy_args *ret)
{
    const struct optimizer_copy *copy = &o->copy;
    ret->kernels = o->kernels;
    ret->low = copy->low ? copy->low + offset : NULL;
    ret->type = copy->type;
    ret->stochastic = copy->stochastic;
    ret->noise = copy->stochastic ? noise_of_step(copy->seed, o->steps) : 0;
    ret->first = o->first + offset;
}

/* Elements [done, done + count) of it. */
static void write_copy(const struct copy_args *copy, const float *params, size_t done, size_t count)
{
    if (!copy->low)
        return;
    if (copy->stochastic)
        wk_narrow_stochastic(copy->low + done, params + done, count, copy->noise,
                             copy->first + done);
    else
        copy->kernels->narrow_stream(copy->low + done, copy->type, params + done, count);
}

_Static_assert(sizeof(struct update_args) <= LAUNCH_ARGS_MAX_BYTES,
               "a launch copies its arguments");

/* Elements [done, done + count) of the segment. */
static struct kernel_update part_of(const struct update_args *a, size_t done, size_t count)
{
    struct kernel_update part = a->whole;
    part.params += done;
    part.count = count;
    for (int i = 0; i < 2; i++)
        part.state[i] = part.state[i] ? part.state[i] + done : NULL;
    if (part.grads) {
        part.grads += done;
    } else {
        a->numbers.kernels->widen(a->wide, a->low_type, a->low_grads + done, count);
        part.grads = a->wide;
    }
    if (a->copy.low && !a->copy.stochastic && !a->whole_tensor) {
        part.low = a->copy.low + done;
        part.type = a->copy.type;
    }
    return part;
}

/* In pieces that stay in cache where tensors may be cut. */
static void run_update(struct queue *queue, const void *args)
{
    const struct update_args *a = args;
    float scale = a->verdict ? (float)a->verdict->scale : a->scale;
    size_t most = a->whole_tensor ? a->whole.count : OPTIMIZER_CHUNK;
    (void)queue;
    if (a->verdict && !(a->verdict->applies > 0))
        return;
    for (size_t done = 0, n; done < a->whole.count; done += n) {
        n = a->whole.count - done < most ? a->whole.count - done : most;
        struct kernel_update part = part_of(a, done, n);
        if (a->moves)
            a->update(&a->numbers, &part, scale);
        if (!a->moves || !part.low)
            write_copy(&a->copy, a->whole.params, done, n);
        if (a->mapped)
            state_passed(a->mapped, a->whole.params - a->offset, a->offset + done + n);
    }
}

/* A launch while it is put together. */
struct ranges {
    struct device_range list[LAUNCH_RANGES_MAX];
    int count;
};

static void add(struct ranges *ranges, const void *at, size_t bytes, enum device_use use)
{
    if (at && bytes)
        ranges->list[ranges->count++] = (struct device_range){at, bytes, use};
}

static void add_gradients(struct ranges *ranges, const struct update_args *a)
{
    size_t count = a->whole.count;
    add(ranges, a->whole.grads, count * sizeof(float), DEVICE_READ);
    if (a->whole.grads)
        return;
    add(ranges, a->low_grads, count * sizeof(*a->low_grads), DEVICE_READ);
    add(ranges, a->wide, OPTIMIZER_CHUNK * sizeof(float), DEVICE_SCRATCH);
}

static void add_states(struct ranges *ranges, const struct wk_optimizer *o,
                       const struct optimizer_segment *segment, const struct update_args *a)
{
    size_t count = segment->count;
    for (int i = 0; i < 2; i++)
        add(ranges, a->whole.state[i], count * sizeof(float), DEVICE_UPDATE);
    for (int i = 0; i < o->ops->n_states && a->whole_tensor; i++) {
        struct optimizer_shape shape = o->ops->state_shape(segment, i);
        add(ranges, segment->own[i], optimizer_elements(&shape) * sizeof(float), DEVICE_UPDATE);
    }
    add(ranges, a->numbers.scratch, o->scratch_count * sizeof(float), DEVICE_SCRATCH);
}

static void set_gradients(const struct wk_optimizer *o, const struct optimizer_gradients *g,
                          size_t offset, struct update_args *ret)
{
    ret->scale = g->verdict ? 0 : g->scale;
    ret->verdict = g->verdict;
    if (g->grads) {
        ret->whole.grads = g->grads + offset;
    } else {
        ret->low_grads = g->low + offset;
        ret->low_type = g->type;
        ret->wide = o->scratch;
    }
}

static void set_state(const struct wk_optimizer *o, const struct optimizer_segment *segment,
                      struct update_args *ret)
{
    if (o->ops->whole_tensors) {
        memcpy(ret->numbers.own, segment->own, sizeof(ret->numbers.own));
        ret->numbers.scratch = o->scratch;
        return;
    }
    for (int i = 0; i < o->ops->n_states; i++)
        ret->whole.state[i] = o->state[i] + segment->offset;
}

static void set_args(struct wk_optimizer *o, const struct optimizer_segment *segment, float *params,
                     const struct optimizer_gradients *g, struct update_args *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->numbers.kernels = o->kernels;
    ret->update = o->ops->update;
    ret->whole.params = params + segment->offset;
    ret->whole.count = segment->count;
    set_gradients(o, g, segment->offset, ret);
    set_state(o, segment, ret);
    set_copy(o, segment->offset, &ret->copy);
    ret->whole_tensor = o->ops->whole_tensors;
    ret->moves = segment->rate_scale > 0;
    ret->mapped = o->mapped ? o : NULL;
    ret->offset = segment->offset;
    if (ret->moves)
        o->ops->numbers(o, segment, &ret->numbers);
}

/* The launch reads what changes from step to step in the device's memory. */
static void read_noted(const struct wk_optimizer *o, const struct optimizer_segment *segment,
                       struct update_args *a)
{
    struct noted_numbers unused;
    a->noted = &o->noted.there[segment - o->segments];
    a->copy.noise = 0;
    if (a->moves)
        o->ops->note(&a->numbers, segment->count, &unused);
}

/* All that an update writes may also stay as it is. */
static void add_update(struct ranges *ranges, const struct wk_optimizer *o,
                       const struct optimizer_segment *segment, const struct update_args *a)
{
    size_t count = segment->count;
    add(ranges, a->whole.params, count * sizeof(float), a->moves ? DEVICE_UPDATE : DEVICE_READ);
    add_gradients(ranges, a);
    add_states(ranges, o, segment, a);
    add(ranges, a->copy.low, count * sizeof(*a->copy.low), DEVICE_UPDATE);
    add(ranges, a->verdict, sizeof(*a->verdict), DEVICE_READ);
    add(ranges, a->noted, sizeof(*a->noted), DEVICE_READ);
}

static void launch_update(struct wk_optimizer *o, const struct optimizer_segment *segment,
                          const struct update_args *a)
{
    struct ranges ranges = {.count = 0};
    add_update(&ranges, o, segment, a);
    queue_launch(o->queue, &(struct device_launch){.name = o->ops->name,
                                                   .run = run_update,
                                                   .args = a,
                                                   .args_bytes = sizeof(*a),
                                                   .ranges = ranges.list,
                                                   .n_ranges = ranges.count});
}

static void enqueue_segment(struct wk_optimizer *o, const struct optimizer_segment *segment,
                            float *params, const struct optimizer_gradients *g)
{
    struct update_args a;
    set_args(o, segment, params, g, &a);
    if (o->noted.there)
        read_noted(o, segment, &a);
    launch_update(o, segment, &a);
}

/* The piece of a segment in the host's memory. A segment that does not move has at most its
 * master there. */
static struct host_state_piece piece_of(const struct wk_optimizer *o, float *params,
                                        const struct optimizer_segment *segment, bool moves)
{
    const struct host_state_parts *parts = &o->host.parts;
    struct host_state_piece piece = {.count = segment->count};
    if (parts->master && (moves || o->offload.masters.by_chance))
        piece.home[piece.n++] = params + segment->offset;
    for (int i = 0; i < parts->n_states && moves; i++)
        piece.home[piece.n++] = o->state[i] + segment->offset;
    return piece;
}

/* Arrays of the host are in slots. */
static void point_to_slots(const struct wk_optimizer *o, const struct host_state_piece *piece,
                           struct update_args *a)
{
    const struct host_state_parts *parts = &o->host.parts;
    if (parts->master)
        a->whole.params = piece->there[0];
    for (int i = 0; i < parts->n_states; i++)
        a->whole.state[i] = piece->there[i + parts->master];
}

static void enqueue_piece(struct wk_optimizer *o, const struct optimizer_segment *segment,
                          float *params, const struct optimizer_gradients *g)
{
    const struct optimizer_masters *masters = &o->offload.masters;
    struct update_args a;
    set_args(o, segment, params, g, &a);
    struct host_state_piece piece = piece_of(o, params, segment, a.moves);
    if (!piece.n && o->host.parts.master)
        return; /* its copy stays as it is */
    if (piece.n)
        host_state_bring(&o->host, o->queue, &piece);
    point_to_slots(o, &piece, &a);
    launch_update(o, segment, &a);
    if (o->host.parts.master && masters->passed)
        masters->passed(masters->arg, a.whole.params, segment->offset, segment->count);
    if (a.moves)
        host_state_return(&o->host, o->queue, &piece);
    else if (piece.n)
        host_state_leave(&o->host, o->queue);
}

/* The same with arrays of the host's memory. Those of a frozen group stay there. */
static void enqueue_pieces(struct wk_optimizer *o, const struct optimizer_segment *segment,
                           float *params, const struct optimizer_gradients *g)
{
    for (size_t done = 0, n; done < segment->count; done += n) {
        struct optimizer_segment piece = *segment;
        n = segment->count - done < o->host.piece ? segment->count - done : o->host.piece;
        piece.offset += done;
        piece.count = n;
        enqueue_piece(o, &piece, params, g);
    }
}

static struct together_part part_together(const struct wk_optimizer *o,
                                          const struct optimizer_segment *segment, size_t first)
{
    struct optimizer_numbers numbers = {.kernels = o->kernels};
    struct together_part part = {.first = segment->offset - first,
                                 .count = segment->count,
                                 .moves = segment->rate_scale > 0};
    if (part.moves)
        o->ops->numbers(o, segment, &numbers);
    memcpy(&part.numbers, &numbers.adamw, sizeof(part.numbers)); /* the union's, whichever it is */
    return part;
}

/* Segments [from, from + n). */
static void enqueue_together(struct wk_optimizer *o, int from, int n, float *params,
                             const struct optimizer_gradients *g)
{
    const struct optimizer_segment *first = &o->segments[from], *last = &o->segments[from + n - 1];
    struct optimizer_segment range = {.offset = first->offset,
                                      .count = last->offset + last->count - first->offset};
    struct together_args a = {.n = n};
    struct ranges ranges = {.count = 0};
    set_args(o, &range, params, g, &a.range);
    for (int i = 0; i < n; i++)
        a.parts[i] = part_together(o, first + i, first->offset);
    a.range.moves = true;
    add_update(&ranges, o, &range, &a.range);
    queue_launch(o->queue, &(struct device_launch){.name = o->ops->together,
                                                   .args = &a,
                                                   .args_bytes = sizeof(a),
                                                   .ranges = ranges.list,
                                                   .n_ranges = ranges.count});
}

static bool goes_together(const struct wk_optimizer *o)
{
    return o->ops->together && device_kernel_find(queue_device(o->queue), o->ops->together);
}

static int check_bound(const struct wk_optimizer *o, const struct optimizer_gradients *g,
                       struct error *err)
{
    if (!o->segments)
        return error_set(err, WK_ESTATE, "the optimizer has no parameters yet: prepare it first");
    if (!g->grads && o->ops->whole_tensors)
        return error_set(err, WK_ESTATE, "narrow gradients need an element-wise optimizer");
    return 0;
}

/* Bytes that an average kernel of the update moves, as estimates have it (estimate/counter.h). */
static double bytes_each(struct wk_optimizer *o, float *params, const struct optimizer_gradients *g)
{
    const struct device *device = queue_device(o->queue);
    const struct device_kernel *kernel = device_kernel_find(device, o->ops->name);
    double bytes = 0, kernels = 0;
    for (int i = 0; i < o->n_segments && kernel; i++) {
        struct update_args a;
        struct ranges ranges = {.count = 0};
        struct device_traffic t = {.launches = 1};
        set_args(o, &o->segments[i], params, g, &a);
        add_update(&ranges, o, &o->segments[i], &a);
        for (int r = 0; r < ranges.count; r++) {
            t.read += ranges.list[r].use & DEVICE_READ ? (double)ranges.list[r].bytes : 0;
            t.written += ranges.list[r].use & DEVICE_WRITE ? (double)ranges.list[r].bytes : 0;
        }
        if (kernel->traffic)
            kernel->traffic(device, &a, &t);
        bytes += t.read + t.written;
        kernels += t.launches;
    }
    return kernels > 0 ? bytes / kernels : 0;
}

static int prepare_noted(struct wk_optimizer *o, float *params, const struct optimizer_gradients *g,
                         struct error *err)
{
    if (o->noted.chosen)
        return noted_settle(o, err);
    return noted_choose(o, o->ops->note ? bytes_each(o, params, g) : 0, err);
}

int optimizer_enqueue(struct wk_optimizer *o, float *params, const struct optimizer_gradients *g,
                      struct error *err)
{
    int rc = check_bound(o, g, err);
    if (!rc && !g->grads)
        rc = state_scratch(o, OPTIMIZER_CHUNK, err);
    if (!rc)
        rc = host_state_settle(&o->host, err);
    if (!rc)
        rc = prepare_noted(o, params, g, err);
    if (rc)
        return rc;
    o->steps++;
    noted_send(o);
    if (o->noted.there && g->verdict) /* else the scale is an argument, and may change */
        replay_begin(o->queue, o);
    bool together = !o->host.in && goes_together(o);
    for (int i = 0, n; i < o->n_segments; i += n) {
        n = !together ? 1 : o->n_segments - i < TOGETHER_MAX ? o->n_segments - i : TOGETHER_MAX;
        if (o->host.in)
            enqueue_pieces(o, &o->segments[i], params, g);
        else if (together)
            enqueue_together(o, i, n, params, g);
        else
            enqueue_segment(o, &o->segments[i], params, g);
    }
    replay_end(o->queue);
    state_done(o, params);
    return 0;
}

void optimizer_take_back(struct wk_optimizer *o)
{
    o->steps--;
}

int optimizer_step(struct wk_optimizer *o, float *params, const float *grads, float grad_scale,
                   struct error *err)
{
    const struct optimizer_gradients g = {.grads = grads, .scale = grad_scale};
    return optimizer_enqueue(o, params, &g, err);
}

static void run_rewrite(struct queue *queue, const void *args)
{
    const struct rewrite_args *a = args;
    (void)queue;
    write_copy(&a->copy, a->params, 0, a->count);
}

void optimizer_write_copy(struct wk_optimizer *o, const float *params)
{
    struct ranges ranges = {.count = 0};
    struct rewrite_args args = {.params = params, .count = o->count};
    set_copy(o, 0, &args.copy);
    add(&ranges, params, o->count * sizeof(*params), DEVICE_READ);
    add(&ranges, args.copy.low, o->count * sizeof(*args.copy.low), DEVICE_WRITE);
    queue_launch(o->queue, &(struct device_launch){.name = OPTIM_COPY,
                                                   .run = run_rewrite,
                                                   .args = &args,
                                                   .args_bytes = sizeof(args),
                                                   .ranges = ranges.list,
                                                   .n_ranges = ranges.count});
}
