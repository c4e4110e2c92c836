#include <math.h>
#include <stdlib.h>

#include "libworker/device/device.h"
#include "libworker/device/wire_ops.h"
#include "libworker/optim/clip.h"
#include "libworker/optim/optimizer.h"
#include "libworker/parallel/ddp.h"
#include "libworker/parallel/elements.h"
#include "libworker/parallel/strategy_ops.h"

static int ddp_init_low(struct ddp *ddp, struct error *err)
{
    if (!narrowing_on(&ddp->narrowing))
        return 0;
    size_t count = ddp->model->count;
    void *low = NULL;
    if (device_zeros_new(ddp->model->queue, count * sizeof(*ddp->low), &low, NULL))
        return error_set(err, WK_ENOMEM, "no memory for %zu narrow parameters", count);
    ddp->low = low;
    return model_set_compute(ddp->model, ddp->narrowing.type, ddp->low, err);
}

/* A hook that sums in two bytes. Where gradients have to be copied they are narrowed before. */
static int make_low_hook(struct ddp *ddp, const struct hook_model *about, enum wk_dtype type,
                         struct error *err)
{
    void *low = NULL;
    if (stages_direct(&ddp->wire.stages))
        return hook_low_new(about, type, &ddp->hook, err);
    int rc = wire_zeros_new(ddp->model->queue, about->count * sizeof(*ddp->low_grads), &low, err);
    if (!rc)
        rc = hook_narrow_new(type, &ddp->hook, err);
    ddp->hook.low = ddp->low_grads = low;
    return rc;
}

static int make_hook(struct ddp *ddp, const struct strategy_options *options, struct error *err)
{
    struct wk_model *model = ddp->model;
    struct hook_model about = {model->kernels, model->params, model_trained(model), ddp->grads,
                               model_trained_count(model)};
    int rc = 0;
    switch (options->hook) {
    case HOOK_SUM:
        return hook_sum_new(&about, !options->measures, &ddp->hook, err);
    case HOOK_F16:
        return make_low_hook(ddp, &about, WK_F16, err);
    case HOOK_BF16:
        return make_low_hook(ddp, &about, WK_BF16, err);
    case HOOK_POWERSGD:
        rc = reducer_seen(&ddp->reducer, &about.grads, err);
        if (rc)
            return rc;
        return hook_powersgd_new(&about, &options->powersgd, &ddp->hook, err);
    }
    return error_set(err, WK_EINTERNAL, "%d is no hook", (int)options->hook);
}

static int ddp_init_reducer(struct ddp *ddp, const struct strategy_options *options,
                            struct error *err)
{
    const struct reducer_options how = {options->sizes, options->static_graph};
    int rc = reducer_init(&ddp->reducer, ddp->model, &ddp->wire, ddp->numbers, &how, err);
    if (!rc)
        rc = make_hook(ddp, options, err);
    if (!rc)
        reducer_set_hook(&ddp->reducer, &ddp->hook);
    return rc;
}

static int ddp_fill(void *self, struct wk_comm *comm, struct error *err)
{
    struct wk_model *model = ((struct ddp *)self)->model;
    (void)comm;
    for (int i = 0; i < model->n_params; i++) {
        int rc = model_fill(model, i, param_master(&model->params[i]), err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Masters in the host's memory, and on the device the vectors alone. */
static int place_masters(struct ddp *ddp, struct error *err)
{
    struct wk_model *model = ddp->model;
    void *vectors = NULL;
    for (int i = 0; i < model->n_params; i++)
        ddp->n_vectors += model_reads_low(&model->params[i]) ? 0 : model->params[i].count;
    ddp->own = calloc((size_t)model->n_params, sizeof(*ddp->own));
    int rc = ddp->own ? masters_init(&ddp->masters, model->queue, model->count, err) : WK_ENOMEM;
    if (!rc)
        rc = device_zeros_new(model->queue, ddp->n_vectors * sizeof(float), &vectors, NULL);
    ddp->vectors = vectors;
    ddp->params = ddp->masters.data;
    if (rc && !err->code)
        return error_set(err, WK_ENOMEM, "no memory for %zu vectors' elements", ddp->n_vectors);
    for (int i = 0; i < model->n_params && !rc; i++)
        model->params[i].host = ddp->params + model->params[i].offset;
    return rc;
}

/* What passes read in float, once the model is bound to the masters. */
static void bind_vectors(struct ddp *ddp)
{
    struct wk_model *model = ddp->model;
    float *vector = ddp->vectors;
    for (int i = 0; i < model->n_params; i++) {
        struct param *param = &model->params[i];
        ddp->own[i] = *param;
        if (model_reads_low(param))
            continue;
        param->data = vector;
        vector += param->count;
    }
}

/* Vectors among elements that are on the device. */
static void vectors_passed(void *arg, const float *there, size_t first, size_t count)
{
    const struct ddp *ddp = arg;
    for (int i = 0; i < ddp->model->n_params; i++) {
        const struct param *param = &ddp->model->params[i];
        struct masters_overlap both = masters_overlap(first, count, param->offset, param->count);
        if (both.count && !model_reads_low(param))
            queue_copy(ddp->model->queue, param->data + (both.from - param->offset),
                       there + (both.from - first), both.count * sizeof(*there));
    }
}

static void renewed(void *arg, const float *there, size_t first, size_t count)
{
    const struct ddp *ddp = arg;
    narrow_write(&ddp->narrowing, ddp->model->queue, ddp->low + first,
                 (struct narrow_source){there, count, first});
    vectors_passed(arg, there, first, count);
}

static int allocate(struct ddp *ddp, const struct strategy_options *options, struct error *err)
{
    struct wk_model *model = ddp->model;
    void *params = NULL;
    int rc = options->masters_on_host ? place_masters(ddp, err) : 0;
    if (rc)
        return rc;
    if (!ddp->masters.queue) {
        if (device_zeros_new(model->queue, model->count * sizeof(*ddp->params), &params, NULL))
            return error_set(err, WK_ENOMEM, "no memory for %zu parameters", model->count);
        ddp->params = params;
    }
    rc = sums_arena_init(&ddp->arena, model->queue, model_trained_count(model), err);
    ddp->grads = ddp->arena.data;
    wire_init(&ddp->wire, model->queue, options->wires);
    return rc;
}

static int ddp_init(struct ddp *ddp, const struct strategy_options *options, struct error *err)
{
    struct wk_model *model = ddp->model;
    int rc = allocate(ddp, options, err);
    if (rc)
        return rc;
    rc = model_bind(model, ddp->params, ddp->grads);
    if (rc) {
        (void)error_set(err, rc, "the model does not take its memory");
        (void)device_failure(queue_device(model->queue), err);
        return rc;
    }
    if (model->values.fill && !options->fill_later)
        rc = ddp_fill(ddp, NULL, err);
    if (!rc)
        rc = ddp_init_reducer(ddp, options, err);
    if (!rc)
        rc = ddp_init_low(ddp, err);
    if (!rc && ddp->masters.queue)
        bind_vectors(ddp);
    return rc;
}

static void ddp_close(void *self)
{
    struct ddp *ddp = self;
    struct queue *queue = ddp->model->queue;
    size_t count = ddp->model->count;
    (void)queue_finish(queue, NULL);
    reducer_fini(&ddp->reducer);
    wire_fini(&ddp->wire);
    if (ddp->hook.free)
        ddp->hook.free(ddp->hook.face.arg);
    if (!ddp->masters.queue)
        device_memory_free(queue_device(queue), ddp->params, count * sizeof(*ddp->params));
    masters_fini(&ddp->masters);
    device_memory_free(queue_device(queue), ddp->vectors, ddp->n_vectors * sizeof(float));
    free(ddp->own);
    device_memory_free(queue_device(queue), ddp->low, count * sizeof(*ddp->low));
    device_memory_free(queue_device(queue), ddp->low_grads,
                       model_trained_count(ddp->model) * sizeof(*ddp->low_grads));
    sums_arena_fini(&ddp->arena);
    free(ddp);
}

static int ddp_open(struct wk_model *model, const struct strategy_options *options,
                    struct step_numbers *numbers, struct strategy_memory *ret, struct error *err)
{
    struct ddp *ddp = calloc(1, sizeof(*ddp));
    if (!ddp)
        return error_set(err, WK_ENOMEM, "no memory for strategy ddp");
    ddp->model = model;
    ddp->numbers = numbers;
    ddp->narrowing = options->narrowing;
    int rc = ddp_init(ddp, options, err);
    if (rc) {
        ddp_close(ddp);
        return rc;
    }
    *ret = (struct strategy_memory){
        .self = ddp,
        .range = {model->params,
                  model_trained(model),
                  model_trained_count(model),
                  model->count,
                  ddp->params,
                  ddp->grads,
                  ddp->low,
                  model->queue,
                  {0}},
    };
    if (ddp->masters.queue) {
        ret->range.queue = NULL;
        ret->range.masters =
            (struct optimizer_masters){true, ddp->narrowing.stochastic, vectors_passed, ddp};
    }
    return 0;
}

/* What every sum uses. */
static void enroll(struct ddp *ddp, struct wk_comm *comm)
{
    size_t count = model_trained_count(ddp->model);
    if (ddp->low_grads)
        wire_enroll(&ddp->wire, comm, ddp->low_grads, count * sizeof(*ddp->low_grads));
    else
        wire_enroll(&ddp->wire, comm, ddp->grads, count * sizeof(*ddp->grads));
}

static int ddp_meet(void *self, struct wk_comm *comm)
{
    struct ddp *ddp = self;
    int rc = ddp->arena.shared ? wk_comm_register(comm, ddp->arena.shared) : 0;
    if (!rc && ddp->hook.meet)
        rc = ddp->hook.meet(ddp->hook.face.arg, comm);
    if (!rc)
        reducer_meet(&ddp->reducer);
    enroll(ddp, comm);
    return rc;
}

static int ddp_regroup(void *self, struct wk_comm *comm, const struct layout *layout,
                       struct error *err)
{
    (void)self;
    (void)comm;
    (void)layout;
    (void)err;
    return 0;
}

static void ddp_leave(void *self)
{
    ((struct ddp *)self)->reducer.comm = NULL;
}

static const char *ddp_sentence(const void *self)
{
    const struct reducer *reducer = &((const struct ddp *)self)->reducer;
    struct wk_comm *comm = reducer->comm;
    if (reducer->why.code)
        return reducer->why.text;
    if (reducer->wire && reducer->wire->why.code)
        return reducer->wire->why.text;
    return comm ? wk_comm_error(comm) : "";
}

static int ddp_refresh(void *self, struct wk_comm *comm)
{
    struct ddp *ddp = self;
    (void)comm;
    if (ddp->masters.queue)
        return masters_renew(&ddp->masters, renewed, ddp);
    if (ddp->low)
        narrow_write(&ddp->narrowing, ddp->model->queue, ddp->low,
                     (struct narrow_source){ddp->params, ddp->model->count, 0});
    return 0;
}

static const struct param *ddp_own(const void *self, int index, size_t *ret_first)
{
    const struct ddp *ddp = self;
    *ret_first = 0;
    return ddp->own ? &ddp->own[index] : &ddp->model->params[index];
}

/* Each rank reads its own memory: there is nothing to gather. */
static void ddp_use(void *self, struct wk_comm *comm)
{
    (void)self;
    (void)comm;
}

static int ddp_gather(void *self, struct wk_comm *comm)
{
    (void)self;
    (void)comm;
    return 0;
}

static void ddp_scaled(void *self, float factor, double scale)
{
    struct ddp *ddp = self;
    ddp->reducer.factor = factor;
    if (ddp->hook.scaled)
        ddp->hook.scaled(ddp->hook.face.arg, scale);
}

static struct clip_grads sums_of(const struct ddp *ddp)
{
    return (struct clip_grads){.kernels = ddp->model->kernels,
                               .grads = ddp->grads,
                               .count = model_trained_count(ddp->model)};
}

static void ddp_rescale(void *self, float change)
{
    struct ddp *ddp = self;
    elements_scale(ddp->model, ddp->grads, change, model_trained_count(ddp->model));
}

static void ddp_begin(void *self, struct wk_comm *comm, bool last)
{
    reducer_begin(&((struct ddp *)self)->reducer, comm, last);
}

static void ddp_ready(void *self, int index)
{
    reducer_ready(&((struct ddp *)self)->reducer, index);
}

static bool ddp_changed(const void *self)
{
    return reducer_changed(&((const struct ddp *)self)->reducer);
}

static void ddp_flush(void *self)
{
    reducer_flush(&((struct ddp *)self)->reducer);
}

static int ddp_finish(void *self)
{
    return reducer_finish(&((struct ddp *)self)->reducer);
}

static void ddp_drain(void *self)
{
    struct ddp *ddp = self;
    (void)reducer_drain(&ddp->reducer);
    wire_drain(&ddp->wire);
}

/* A program's own hook does not say. */
static enum sums ddp_checked(const void *self)
{
    const struct ddp *ddp = self;
    bool own = ddp->reducer.hook.face.arg != ddp->hook.face.arg;
    if (reducer_rests(&ddp->reducer) || ddp->reducer.by_wire)
        return SUMS_UNJUDGED;
    return own || !ddp->hook.sums ? SUMS_UNJUDGED : ddp->hook.sums(ddp->hook.face.arg);
}

static int ddp_squares(void *self)
{
    const struct ddp *ddp = self;
    struct clip_grads sums = sums_of(ddp);
    clip_measure(ddp->model->queue, &sums, &ddp->numbers->verdict.at->squares);
    return 0;
}

static int ddp_first_nonfinite(void *self, int *ret_index)
{
    const struct ddp *ddp = self;
    const struct wk_model *model = ddp->model;
    double squares, *at = &ddp->numbers->verdict.at->squares;
    *ret_index = -1;
    for (int i = 0; i < model_trained(model) && *ret_index < 0; i++) {
        const struct param *param = &model->params[i];
        struct clip_grads sums = {
            .kernels = model->kernels, .grads = param->grad, .count = param->count};
        clip_measure(model->queue, &sums, at);
        int rc = queue_read(model->queue, &squares, at, sizeof(squares), NULL);
        if (rc)
            return rc;
        if (!isfinite(squares))
            *ret_index = i;
    }
    return 0;
}

static void ddp_clamp(void *self, double most)
{
    struct ddp *ddp = self;
    struct clip_grads sums = sums_of(ddp);
    clip_limit(ddp->model->queue, &sums, ddp->numbers->verdict.at, most);
}

static int ddp_update(void *self, struct wk_optimizer *optimizer, struct error *err)
{
    struct ddp *ddp = self;
    const struct optimizer_gradients sums = {.grads = ddp->grads,
                                             .verdict = ddp->numbers->verdict.at};
    return optimizer_enqueue(optimizer, ddp->params, &sums, err);
}

/* Every rank made the same step. */
static int ddp_spread(void *self, struct wk_comm *comm)
{
    (void)self;
    (void)comm;
    return 0;
}

static void ddp_clear(void *self)
{
    struct ddp *ddp = self;
    queue_fill(ddp->model->queue, ddp->grads, 0,
               model_trained_count(ddp->model) * sizeof(*ddp->grads));
}

static int ddp_set_hook(void *self, const struct wk_gradient_hook *hook)
{
    struct ddp *ddp = self;
    struct grad_hook used = ddp->hook;
    if (hook) {
        used = (struct grad_hook){0};
        used.face = *hook;
    }
    reducer_set_hook(&ddp->reducer, &used);
    return 0;
}

const struct strategy_ops ddp_ops = {
    .name = "ddp",
    .cuts = false,
    .open = ddp_open,
    .close = ddp_close,
    .meet = ddp_meet,
    .regroup = ddp_regroup,
    .leave = ddp_leave,
    .sentence = ddp_sentence,
    .fill = ddp_fill,
    .refresh = ddp_refresh,
    .own = ddp_own,
    .use = ddp_use,
    .gather = ddp_gather,
    .gather_own = ddp_gather,
    .scaled = ddp_scaled,
    .rescale = ddp_rescale,
    .begin = ddp_begin,
    .ready = ddp_ready,
    .changed = ddp_changed,
    .flush = ddp_flush,
    .finish = ddp_finish,
    .drain = ddp_drain,
    .checked = ddp_checked,
    .squares = ddp_squares,
    .first_nonfinite = ddp_first_nonfinite,
    .clamp = ddp_clamp,
    .update = ddp_update,
    .spread = ddp_spread,
    .clear = ddp_clear,
    .set_hook = ddp_set_hook,
};
