#include "libworker/parallel/sharded.h"

#include <stdlib.h>

#include "libworker/optim/optimizer.h"
#include "libworker/parallel/custom.h"
#include "libworker/parallel/sharded_blocks.h"
#include "libworker/parallel/sharded_grads.h"
#include "libworker/parallel/sharded_host.h"
#include "libworker/parallel/sharded_low.h"
#include "libworker/parallel/sharded_params.h"
#include "libworker/parallel/sharded_slots.h"
#include "libworker/parallel/sharded_unit.h"
#include "libworker/parallel/strategy_ops.h"

/* Ends of units: blocks under FSDP with hooks, else the buckets of DDP. */
static int cut_units(struct sharded *s, size_t **ret_ends, int *ret_count, struct error *err)
{
    const struct wk_model *model = s->model;
    size_t n = (size_t)model->n_params;
    size_t *ends = calloc(n, sizeof(*ends));
    struct bucket *buckets = calloc(n, sizeof(*buckets));
    int *bucket_of = calloc(n, sizeof(*bucket_of));
    int count = 0;
    if (!ends || !buckets || !bucket_of) {
        free(ends);
        free(buckets);
        free(bucket_of);
        return error_set(err, WK_ENOMEM, "no memory to cut %zu parameters", n);
    }
    if (s->hooked) {
        for (size_t i = 0; i < n; i++)
            if (i + 1 == n || model->params[i + 1].block != model->params[i].block)
                ends[count++] = i + 1 == n ? model->count : model->params[i + 1].offset;
    } else {
        int trained = model_trained(model);
        count = bucket_cut(model->params, trained, model_trained_count(model), &s->options.sizes,
                           buckets, bucket_of);
        for (int i = 0; i < count; i++)
            ends[count - 1 - i] = buckets[i].offset + buckets[i].count;
        int frozen = !model->n_frozen
                         ? 0
                         : bucket_cut(model->params + trained, model->n_frozen, model->count,
                                      &s->options.sizes, buckets, bucket_of);
        for (int i = 0; i < frozen; i++)
            ends[count + frozen - 1 - i] = buckets[i].offset + buckets[i].count;
        count += frozen;
    }
    free(buckets);
    free(bucket_of);
    *ret_ends = ends;
    *ret_count = count;
    return 0;
}

/* The optimizer's view: one entry for each piece of a parameter in this rank's shard. */
static void fill_own(struct sharded *s)
{
    for (int i = 0; i < s->model->n_params; i++) {
        const struct param *param = &s->model->params[i];
        struct shard_piece piece =
            shard_piece(&s->plan, s->unit_of[i], s->options.part, param->offset, param->count);
        s->own_of[i] = -1;
        if (!piece.count)
            continue;
        struct param *own = &s->own[s->n_own];
        *own = *param;
        own->count = piece.count;
        own->offset = piece.at;
        own->data = s->own_params + piece.at;
        own->grad = i < model_trained(s->model) ? s->own_grads + piece.at : NULL;
        if (i < model_trained(s->model))
            s->n_own_trained++;
        s->own_of[i] = s->n_own++;
    }
}

/* Offset of parameter `index` in both arenas; vectors that stay in float are read elsewhere. */
static size_t place_of(const struct sharded *s, int index)
{
    const struct shard_unit *unit = &s->plan.units[s->unit_of[index]];
    return unit->place + (s->model->params[index].offset - unit->offset);
}

static void bind_pointers(struct sharded *s)
{
    s->model->param_arena = s->params;
    s->model->grad_arena = s->grads;
    s->model->forward_done = false;
    for (int i = 0; i < s->model->n_params; i++) {
        struct param *param = &s->model->params[i];
        param->data = s->params + place_of(s, i);
        param->host = s->masters.queue ? param->data : NULL;
        param->grad = i < model_trained(s->model) ? s->grads + place_of(s, i) : NULL;
    }
}

static int allocate(struct sharded *s, struct error *err)
{
    size_t n = (size_t)s->model->n_params;
    struct queue *queue = s->model->queue;
    bool apart = !sharded_keeps_grads(s);
    bool host = s->options.masters_on_host;
    size_t n_apart = apart ? s->trained.shard : 0;
    int rc = host ? sharded_host_init(s, err) : sharded_place_params(s);
    if (rc && host)
        return rc;
    rc = rc ? rc : sharded_place_grads(s);
    if (!rc && s->options.offload_params)
        rc = pages_map(&s->own_param_pages, s->plan.shard, s->options.offload, err);
    else if (!rc && !host)
        rc = pages_place(&s->own_param_pages, queue, s->plan.shard, PAGES_OF_WIRES);
    if (rc && s->options.offload_params && err->code)
        return rc;
    rc = rc ? rc : pages_place(&s->own_grad_pages, queue, n_apart, PAGES_PRIVATE);
    s->params = s->param_pages.data;
    s->grads = s->grad_pages.data;
    s->own_params = host ? s->masters.data : s->own_param_pages.data;
    s->own_grads = apart ? s->own_grad_pages.data : s->grads;
    s->own = calloc(n + 1, sizeof(*s->own));
    s->own_of = calloc(n, sizeof(*s->own_of));
    s->unit_of = calloc(n, sizeof(*s->unit_of));
    s->ready = calloc(n, sizeof(*s->ready));
    s->units = calloc((size_t)s->plan.n_units, sizeof(*s->units));
    if (rc || !s->own || !s->own_of || !s->unit_of || !s->ready || !s->units)
        return error_set(err, WK_ENOMEM, "no memory for a shard of %zu parameters", s->plan.shard);
    return 0;
}

static int fill_unit(struct sharded *s, int unit, struct error *err)
{
    float *floats = sharded_floats(s, unit);
    int rc = sharded_take_floats(s, unit);
    if (rc)
        return error_set(err, rc, "no device memory for the initial values of block %d", unit);
    if (s->masters.queue || s->param_pages.slots) /* the padding too */
        queue_fill(s->model->queue, floats, 0, sharded_elements(s, unit) * sizeof(*floats));
    for (int i = 0; i < s->model->n_params && !rc; i++)
        if (s->unit_of[i] == unit)
            rc =
                model_fill(s->model, i, floats + (place_of(s, i) - s->plan.units[unit].place), err);
    return rc;
}

/* Keep this rank's row of a unit with initial values in the arena. */
static void keep_row(struct sharded *s, int unit)
{
    const struct shard_unit *u = &s->plan.units[unit];
    if (s->masters.queue) {
        sharded_host_keep(s, unit);
        return;
    }
    queue_copy(s->model->queue, s->own_params + u->shard, sharded_row(s, s->params, unit),
               u->row * sizeof(float));
    if (sharded_frees_params(s) || narrowing_on(&s->options.narrowing))
        sharded_drop(s, &s->param_pages, unit);
    else
        s->units[unit].gathered = true;
}

/* Set initial values unit by unit, so that a rank has at most one unit of them at a time. */
static int fill_initial(struct sharded *s, struct error *err)
{
    for (int u = 0; u < s->plan.n_units && !s->options.fill_later; u++) {
        int rc = fill_unit(s, u, err);
        if (rc)
            return rc;
        keep_row(s, u);
    }
    s->model->seed_waits = false;
    return sharded_rest_floats(s);
}

/* A unit's values from rank 0 to all. */
static int spread_unit(struct sharded *s, struct wk_comm *comm, int unit, struct error *err)
{
    float *at = sharded_floats(s, unit);
    struct event before = event_record(s->model->queue);
    const struct wire_call call = {.op = WIRE_SPREAD,
                                   .in = at,
                                   .out = at,
                                   .count = sharded_elements(s, unit),
                                   .ready = before,
                                   .unused = before};
    return wire_run(&s->gathers, comm, &call, err);
}

/* Only rank 0 reads the values, unit by unit. */
static int sharded_fill(void *self, struct wk_comm *comm, struct error *err)
{
    struct sharded *s = self;
    for (int u = 0; u < s->plan.n_units; u++) {
        int32_t code = wk_comm_rank(comm) == 0 ? fill_unit(s, u, err) : 0;
        int rc = wk_broadcast(comm, &code, 1, WK_I32, 0, NULL);
        if (!rc && code)
            return wk_comm_rank(comm) == 0
                       ? code
                       : error_set(err, code, "rank 0 could not read the weights");
        if (rc)
            return error_set(err, rc, "%s", wk_comm_error(comm));
        rc = sharded_take_floats(s, u);
        if (rc)
            return error_set(err, rc, "no device memory for the weights of block %d", u);
        rc = spread_unit(s, comm, u, err);
        if (rc)
            return rc;
        keep_row(s, u);
    }
    return sharded_rest_floats(s);
}

static void close_groups(struct sharded *s)
{
    wires_close(s->options.wires, s->groups.row);
    wires_close(s->options.wires, s->groups.column);
    groups_close(&s->groups);
}

static void sharded_close(void *self)
{
    struct sharded *s = self;
    (void)queue_finish(s->model->queue, NULL);
    wire_fini(&s->gathers);
    wire_fini(&s->sums);
    sharded_low_fini(s);
    sharded_host_fini(s);
    close_groups(s);
    pages_fini(&s->param_pages);
    pages_fini(&s->grad_pages);
    pages_fini(&s->own_param_pages);
    pages_fini(&s->own_grad_pages);
    free(s->own);
    free(s->own_of);
    free(s->unit_of);
    free(s->ready);
    free(s->units);
    shard_plan_fini(&s->plan);
    free(s);
}

static int make_plan(struct sharded *s, struct error *err)
{
    size_t *ends = NULL;
    int count = 0;
    int rc = cut_units(s, &ends, &count, err);
    if (!rc)
        rc = shard_plan_init(&s->plan, ends, count, s->options.parts, err);
    free(ends);
    if (rc)
        return rc;
    s->plan.n_trained = shard_unit_of(&s->plan, model_trained_count(s->model) - 1) + 1;
    sharded_spread_plan(s);
    s->trained = shard_plan_trained(&s->plan);
    return 0;
}

/* One copy on the host serves each unit. */
static void init_wires(struct sharded *s)
{
    wire_init(&s->gathers, s->model->queue, s->options.wires);
    wire_init(&s->sums, s->model->queue, s->options.wires);
    s->gathers.stage_bytes = sharded_most(s, s->plan.n_units) * sizeof(float);
    s->sums.stage_bytes = sharded_most(s, s->trained.n_units) * sizeof(float);
}

static int sharded_init(struct sharded *s, struct error *err)
{
    struct wk_model *model = s->model;
    int rc = make_plan(s, err);
    if (!rc)
        rc = allocate(s, err);
    if (rc)
        return rc;
    for (int i = 0; i < model->n_params; i++) {
        s->unit_of[i] = shard_unit_of(&s->plan, model->params[i].offset);
        s->units[s->unit_of[i]].n_params++;
    }
    bind_pointers(s);
    fill_own(s);
    init_wires(s);
    rc = fill_initial(s, err);
    if (!rc)
        rc = sharded_low_init(s, err);
    if (!rc)
        model->hooks = sharded_hooks(s);
    return rc;
}

/* Elements of the shard up to the end of this rank's first `n` pieces. */
static size_t end_of(const struct sharded *s, int n)
{
    return n ? s->own[n - 1].offset + s->own[n - 1].count : 0;
}

static int sharded_open(struct wk_model *model, const struct strategy_options *options,
                        struct step_numbers *numbers, struct strategy_memory *ret,
                        struct error *err)
{
    struct sharded *s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(err, WK_ENOMEM, "no memory for a strategy that cuts models");
    s->options = *options;
    s->options.offload_params = options->offload && options->offload_params;
    s->model = model;
    s->numbers = numbers;
    s->hooked = sharded_frees_params(s) && (!model_is_custom(model) || custom_by_block(model));
    s->next = -1;
    s->factor = 1;
    int rc = sharded_init(s, err);
    if (rc) {
        sharded_close(s);
        return rc;
    }
    *ret = (struct strategy_memory){
        .self = s,
        .range = {s->own,
                  s->n_own_trained,
                  end_of(s, s->n_own_trained),
                  end_of(s, s->n_own),
                  s->own_params,
                  s->own_grads,
                  NULL,
                  model->queue,
                  {0}},
        .plan = &s->plan,
    };
    if (s->masters.queue) {
        ret->range.queue = NULL;
        ret->range.masters = sharded_host_masters(s);
    }
    return 0;
}

static int sharded_meet(void *self, struct wk_comm *comm)
{
    struct sharded *s = self;
    if (!s->param_pages.arena)
        return 0; /* memory that the host's collectives do not use in place */
    int rc = wk_comm_register(comm, s->param_pages.arena);
    if (!rc)
        rc = wk_comm_register(comm, s->grad_pages.arena);
    if (!rc && s->low.params)
        rc = sharded_low_meet(s, comm);
    return rc;
}

/* What every gather and sum uses. What takes turns has several places, and is not enrolled. */
static void enroll(struct sharded *s, struct wk_comm *comm)
{
    size_t narrow = sizeof(uint16_t);
    if (!s->grad_pages.slots)
        wire_enroll(&s->sums, comm, s->grads, s->trained.padded * sizeof(*s->grads));
    if (s->low.params && !s->low.param_pages.slots)
        wire_enroll(&s->gathers, comm, s->low.params, s->plan.padded * narrow);
    else if (!s->low.params && !s->param_pages.slots)
        wire_enroll(&s->gathers, comm, s->params, s->plan.padded * sizeof(*s->params));
    if (!s->low.params && s->own_param_pages.queue)
        wire_enroll(&s->gathers, comm, s->own_params, s->plan.shard * sizeof(*s->own_params));
    if (s->low.rows)
        wire_enroll(&s->gathers, comm, s->low.rows, s->plan.shard * narrow);
    if (s->low.grads && !s->low.grad_pages.slots)
        wire_enroll(&s->sums, comm, s->low.grads, s->trained.padded * narrow);
}

static int sharded_regroup(void *self, struct wk_comm *comm, const struct layout *layout,
                           struct error *err)
{
    struct sharded *s = self;
    close_groups(s);
    int rc = groups_make(&s->groups, comm, layout, err);
    if (!rc && s->groups.row)
        rc = wires_meet(s->options.wires, s->groups.row, err);
    if (!rc && s->groups.column)
        rc = wires_meet(s->options.wires, s->groups.column, err);
    if (!rc)
        enroll(s, s->groups.row ? s->groups.row : comm);
    return rc;
}

static void sharded_leave(void *self)
{
    struct sharded *s = self;
    close_groups(s);
    s->whole = s->comm = NULL;
}

static const struct param *sharded_own(const void *self, int index, size_t *ret_first)
{
    const struct sharded *s = self;
    const struct param *param = &s->model->params[index];
    *ret_first = 0;
    if (s->own_of[index] < 0)
        return NULL;
    *ret_first =
        shard_piece(&s->plan, s->unit_of[index], s->options.part, param->offset, param->count)
            .first;
    return &s->own[s->own_of[index]];
}

static int sharded_update(void *self, struct wk_optimizer *optimizer, struct error *err)
{
    struct sharded *s = self;
    const struct optimizer_gradients sums = {
        .grads = s->low.own_grads ? NULL : s->own_grads,
        .low = s->low.own_grads,
        .type = s->options.narrowing.type,
        .verdict = s->numbers->verdict.at,
    };
    return optimizer_enqueue(optimizer, s->own_params, &sums, err);
}

static int sharded_set_hook(void *self, const struct wk_gradient_hook *hook)
{
    (void)self;
    (void)hook;
    return WK_EUNSUPPORTED;
}

const struct strategy_ops sharded_ops = {
    .name = "sharded",
    .cuts = true,
    .open = sharded_open,
    .close = sharded_close,
    .meet = sharded_meet,
    .regroup = sharded_regroup,
    .leave = sharded_leave,
    .sentence = sharded_sentence,
    .fill = sharded_fill,
    .refresh = sharded_refresh,
    .own = sharded_own,
    .use = sharded_use,
    .empty_pass = sharded_empty_pass,
    .gather = sharded_gather,
    .gather_own = sharded_gather_own,
    .scaled = sharded_scaled,
    .rescale = sharded_rescale,
    .begin = sharded_begin,
    .ready = sharded_ready,
    .changed = sharded_changed,
    .flush = sharded_flush,
    .finish = sharded_finish,
    .drain = sharded_drain,
    .checked = sharded_checked,
    .squares = sharded_squares,
    .first_nonfinite = sharded_first_nonfinite,
    .clamp = sharded_clamp,
    .update = sharded_update,
    .spread = sharded_spread,
    .clear = sharded_clear,
    .set_hook = sharded_set_hook,
};
