#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/device/reach.h"
#include "libworker/parallel/elements.h"
#include "libworker/parallel/sharded_host.h"
#include "libworker/parallel/sharded_low.h"
#include "libworker/parallel/sharded_slots.h"
#include "libworker/parallel/sharded_unit.h"

enum { PIECE = ELEMENTS_PIECE }; /* elements widened at a time */

static uint16_t *row_of(const struct sharded *s, uint16_t *arena, int unit)
{
    return arena + sharded_row_at(s, unit);
}

/* Pages are counted in floats. */
static int new_own_grads(struct sharded *s)
{
    struct sharded_low *low = &s->low;
    int rc = pages_place(&low->own_grad_pages, s->model->queue, (s->trained.shard + 1) / 2,
                         PAGES_PRIVATE);
    low->own_grads = (uint16_t *)low->own_grad_pages.data;
    return rc;
}

/* Zeros. */
static int new_floats(const struct sharded *s, size_t count, float **ret)
{
    void *data = NULL;
    int rc = device_zeros_new(s->model->queue, count * sizeof(**ret), &data, NULL);
    *ret = data;
    return rc;
}

static void free_floats(const struct sharded *s, float *data, size_t count)
{
    device_memory_free(queue_device(s->model->queue), data, count * sizeof(*data));
}

static void drop_unit(const struct sharded *s, const struct pages *pages, int unit)
{
    if (pages->slots) {
        sharded_drop(s, pages, unit);
        return;
    }
    pages_drop(pages, s->plan.units[unit].place / 2, sharded_elements(s, unit) / 2);
}

static int allocate(struct sharded *s)
{
    struct sharded_low *low = &s->low;
    int rc = sharded_place_low_params(s);
    low->params = (uint16_t *)low->param_pages.data;
    for (int i = 0; i < s->model->n_params; i++)
        low->n_vectors += model_reads_low(&s->model->params[i]) ? 0 : s->model->params[i].count;
    if (!rc)
        rc = new_floats(s, low->n_vectors, &low->vectors);
    if (!rc && s->masters.queue)
        rc = new_floats(s, low->n_vectors, &low->own_vectors);
    if (rc || !s->options.narrowing.grads)
        return rc;
    rc = sharded_place_low_grads(s);
    low->grads = (uint16_t *)low->grad_pages.data;
    low->own_grads = low->grads;
    if (!rc && !sharded_keeps_grads(s))
        rc = new_own_grads(s);
    if (rc)
        return rc;
    return new_floats(s, PIECE, &low->wide);
}

int sharded_low_init(struct sharded *s, struct error *err)
{
    const struct narrowing *narrowing = &s->options.narrowing;
    if (!narrowing_on(narrowing))
        return 0;
    if (allocate(s))
        return error_set(err, WK_ENOMEM, "no memory for %zu narrow parameters", s->plan.padded);
    int rc = model_set_compute(s->model, narrowing->type, NULL, err);
    float *vector = s->low.vectors;
    for (int i = 0; i < s->model->n_params; i++) {
        struct param *param = &s->model->params[i];
        param->low = s->low.params + (param->data - s->params);
        if (model_reads_low(param))
            continue;
        param->data = vector;
        vector += param->count;
    }
    return rc;
}

void sharded_low_fini(struct sharded *s)
{
    pages_fini(&s->low.param_pages);
    pages_fini(&s->low.grad_pages);
    pages_fini(&s->low.own_grad_pages);
    pages_fini(&s->low.row_pages);
    free_floats(s, s->low.sums, s->low.sums_count);
    free_floats(s, s->low.wide, PIECE);
    free_floats(s, s->low.vectors, s->low.n_vectors);
    free_floats(s, s->low.own_vectors, s->low.n_vectors);
    s->low = (struct sharded_low){0};
}

int sharded_low_meet(struct sharded *s, struct wk_comm *comm)
{
    int rc = wk_comm_register(comm, s->low.param_pages.arena);
    return rc || !s->low.grads ? rc : wk_comm_register(comm, s->low.grad_pages.arena);
}

int sharded_low_gather(struct sharded *s, int unit)
{
    const struct shard_unit *place = &s->plan.units[unit];
    struct sharded_unit *u = &s->units[unit];
    const struct narrowing *narrowing = &s->options.narrowing;
    struct queue *queue;
    uint16_t *own = sharded_low_row(s, unit);
    int rc = wire_queue(&s->gathers, s->comm, &queue);
    if (rc)
        return rc;
    queue_wait(queue, s->updated);
    queue_wait(queue, u->released);
    if (!s->masters.queue)
        narrow_write(narrowing, queue, own,
                     (struct narrow_source){s->own_params + place->shard, place->row,
                                            sharded_row_first(s, unit)});
    const struct wire_call call = {.op = WIRE_GATHER,
                                   .in = own,
                                   .out = s->low.params + place->place,
                                   .count = place->row,
                                   .type = narrowing->type,
                                   .out_type = narrowing->type,
                                   .unused = u->released};
    return wire_start(&s->gathers, s->comm, &call, &u->gather);
}

/* The row of a rank whose master is on the host is all that it has of it, unless rows are apart. */
void sharded_low_drop(struct sharded *s, int unit)
{
    const struct shard_unit *u = &s->plan.units[unit];
    if (!s->masters.queue || s->low.rows) {
        drop_unit(s, &s->low.param_pages, unit);
        return;
    }
    size_t row = sharded_row_at(s, unit), end = u->place + sharded_elements(s, unit);
    pages_drop(&s->low.param_pages, u->place / 2, (row - u->place) / 2);
    pages_drop(&s->low.param_pages, (row + u->row) / 2, (end - row - u->row) / 2);
}

void sharded_low_drop_grads(struct sharded *s, int unit)
{
    drop_unit(s, &s->low.grad_pages, unit);
}

/* This rank's pieces of the vectors, at the same places of `ret`, [n_vectors] zeros of the host. */
static int read_vectors(struct sharded *s, float *ret)
{
    int rc = 0;
    for (int i = 0; i < s->model->n_params && !rc; i++) {
        const struct param *param = &s->model->params[i];
        if (model_reads_low(param))
            continue;
        struct shard_piece piece =
            shard_piece(&s->plan, s->unit_of[i], s->options.part, param->offset, param->count);
        rc = reach_read(s->model->queue, ret + (param->data - s->low.vectors) + piece.first,
                        s->own_params + piece.at, piece.count * sizeof(float), &s->why);
    }
    return rc;
}

/* As integers: bits added to zeros arrive as they are. */
static int sum_vectors(struct sharded *s, float *vectors)
{
    size_t bytes = s->low.n_vectors * sizeof(*vectors);
    memset(vectors, 0, bytes);
    int rc = s->masters.queue
                 ? reach_read(s->model->queue, vectors, s->low.own_vectors, bytes, &s->why)
                 : read_vectors(s, vectors);
    if (rc)
        return rc;
    return wk_all_reduce(s->comm, vectors, s->low.n_vectors, WK_I32, WK_SUM, NULL);
}

static void copy_vectors(struct sharded *s)
{
    struct queue *queue = s->model->queue;
    float *vectors = s->low.vectors;
    size_t bytes = s->low.n_vectors * sizeof(*vectors);
    if (s->masters.queue) {
        queue_copy(queue, vectors, s->low.own_vectors, bytes);
        return;
    }
    queue_fill(queue, vectors, 0, bytes);
    for (int i = 0; i < s->model->n_params; i++) {
        const struct param *param = &s->model->params[i];
        if (model_reads_low(param))
            continue;
        struct shard_piece piece =
            shard_piece(&s->plan, s->unit_of[i], s->options.part, param->offset, param->count);
        queue_copy(queue, param->data + piece.first, s->own_params + piece.at,
                   piece.count * sizeof(float));
    }
}

/* The same without the host. */
static int vectors_on_device(struct sharded *s)
{
    float *vectors = s->low.vectors;
    copy_vectors(s);
    const struct wire_call call = {.op = WIRE_SUM,
                                   .in = vectors,
                                   .out = vectors,
                                   .count = s->low.n_vectors,
                                   .type = WK_I32,
                                   .out_type = WK_I32,
                                   .ready = event_record(s->model->queue)};
    return wire_run(&s->gathers, s->comm, &call, &s->why);
}

int sharded_low_vectors(struct sharded *s)
{
    struct sharded_low *low = &s->low;
    size_t bytes = low->n_vectors * sizeof(*low->vectors);
    if (!bytes || sharded_is(s, WIRE_DIRECT))
        return bytes ? sum_vectors(s, low->vectors) : 0;
    if (sharded_is(s, WIRE_OWN))
        return vectors_on_device(s);
    float *host = malloc(bytes);
    int rc = host ? sum_vectors(s, host)
                  : error_set(&s->why, WK_ENOMEM, "no memory for %zu bytes of vectors", bytes);
    if (!rc)
        rc = reach_write(s->model->queue, low->vectors, host, bytes, &s->why);
    free(host);
    return rc;
}

/* The master of a unit where its parameters are in float. */
static int show_unit(struct sharded *s, int unit)
{
    const struct shard_unit *u = &s->plan.units[unit];
    int rc = sharded_take_floats(s, unit);
    if (rc)
        return error_set(&s->why, rc, "no device memory for all parameters in float");
    struct event before = event_record(s->model->queue);
    const struct wire_call call = {.op = WIRE_GATHER,
                                   .in = s->own_params + u->shard,
                                   .out = s->params + u->place,
                                   .count = u->row,
                                   .ready = before,
                                   .unused = before};
    rc = wire_run(&s->gathers, s->comm, &call, &s->why);
    if (rc)
        sharded_note(s, rc);
    return rc;
}

int sharded_low_show(struct sharded *s)
{
    int rc = 0;
    for (int i = 0; i < s->plan.n_units && !rc; i++)
        rc = s->masters.queue ? sharded_host_show(s, i) : show_unit(s, i);
    s->low.shown = true;
    return rc;
}

void sharded_low_hide(struct sharded *s)
{
    int rc = 0;
    if (s->low.shown && s->param_pages.slots)
        rc = sharded_rest_floats(s);
    else if (s->low.shown)
        pages_drop(&s->param_pages, 0, s->param_pages.count);
    if (rc)
        sharded_note(s, rc);
    s->low.shown = false;
}

/* low[count] += x[count] */
static void add_narrow(struct sharded *s, uint16_t *low, const float *x, size_t count)
{
    const struct elements_pieces how = {s->options.narrowing.type, s->low.wide};
    elements_add_narrow(s->model, &how, low, x, count);
}

void sharded_low_take(struct sharded *s, int unit)
{
    size_t count = sharded_elements(s, unit), place = s->plan.units[unit].place;
    int rc = sharded_take_low_grads(s, unit);
    if (rc) {
        (void)error_set(&s->why, rc, "no device memory for narrow gradients of block %d", unit);
        sharded_note(s, rc);
        return;
    }
    add_narrow(s, s->low.grads + place, s->grads + place, count);
    if (s->grad_pages.slots)
        sharded_drop(s, &s->grad_pages, unit);
    else
        pages_drop(&s->grad_pages, place, count);
}

bool sharded_low_own(const struct sharded *s)
{
    return s->low.grads && sharded_keeps_grads(s);
}

void sharded_low_reduce(struct sharded *s, int unit, struct wire_call *call)
{
    call->ret_nonfinite = &s->units[unit].nonfinite;
    if (!s->low.grads)
        return;
    call->in = s->low.grads + s->plan.units[unit].place;
    call->type = s->options.narrowing.type;
    if (!sharded_low_own(s))
        return; /* the sum is stored in float */
    call->out = row_of(s, s->low.grads, unit);
    call->out_type = call->type;
}

void sharded_low_column(struct sharded *s, int unit, struct wire_call *call)
{
    call->ret_nonfinite = &s->units[unit].nonfinite;
    if (!sharded_low_own(s))
        return;
    call->in = call->out = row_of(s, s->low.grads, unit);
    call->type = call->out_type = s->options.narrowing.type;
}

void sharded_low_collect(struct sharded *s, int unit)
{
    const struct shard_unit *u = &s->plan.units[unit];
    const float *sum = sharded_sum_of(s, unit);
    add_narrow(s, s->low.own_grads + u->shard, sum, u->row);
}

struct clip_grads sharded_sums(const struct sharded *s, size_t first, size_t count)
{
    const struct sharded_low *low = &s->low;
    return (struct clip_grads){
        .kernels = s->model->kernels,
        .grads = s->own_grads + first,
        .low = low->grads ? low->own_grads + first : NULL,
        .type = s->options.narrowing.type,
        .scratch = low->wide,
        .count = count,
    };
}

int sharded_measure(const struct sharded *s, size_t first, size_t count, double *ret)
{
    double *at = &s->numbers->verdict.at->squares;
    struct clip_grads sums = sharded_sums(s, first, count);
    clip_measure(s->model->queue, &sums, at);
    return queue_read(s->model->queue, ret, at, sizeof(*ret), NULL);
}

/* Sums are checked for finite values before they are rounded for storing, and narrowed ones may
 * overflow then. Also, each replica has checked only its own sums. */
int sharded_low_agree(struct sharded *s)
{
    double squares = 0;
    if (!s->low.grads && !s->groups.column)
        return 0;
    int rc = s->low.grads ? sharded_measure(s, 0, s->trained.shard, &squares) : 0;
    int32_t nonfinite = s->low.nonfinite || !isfinite(squares);
    if (!rc)
        rc = wk_all_reduce(s->whole, &nonfinite, 1, WK_I32, WK_MAX, NULL);
    s->low.nonfinite = nonfinite;
    return rc;
}

void sharded_low_clear(struct sharded *s)
{
    s->low.nonfinite = false;
    if (s->low.grads)
        pages_drop(&s->low.grad_pages, 0, s->low.grad_pages.count);
    if (s->low.own_grad_pages.data)
        queue_fill(s->model->queue, s->low.own_grads, 0,
                   s->trained.shard * sizeof(*s->low.own_grads));
}
