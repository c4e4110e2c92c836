#include "libworker/step/prepare_objects.h"

#include <math.h>
#include <string.h>

#include "libworker/parallel/custom.h"
#include "libworker/step/context.h"
#include "libworker/step/prepare_settings.h"

/* Optimizers that still need their models. */
struct optimizers {
    struct wk_optimizer *list[NUMBERS_UNITS_MAX];
    int count;
};

/* Append to list[*count], once. */
static int append(void **list, int *count, int most, void *object, const char *what,
                  struct error *err)
{
    for (int i = 0; i < *count; i++)
        if (list[i] == object)
            return 0;
    if (*count == most)
        return error_set(err, WK_EINVAL, "more than %d %s", most, what);
    list[(*count)++] = object;
    return 0;
}

static int take_model(struct wk_context *ctx, struct wk_model *model, struct error *err)
{
    struct unit *unit;
    units_each(unit, ctx)
        if (unit->model == model)
            return 0;
    if (ctx->prepared.n_units == NUMBERS_UNITS_MAX)
        return error_set(err, WK_EINVAL, "more than %d models", NUMBERS_UNITS_MAX);
    ctx->prepared.units[ctx->prepared.n_units++] = (struct unit){
        .ctx = ctx, .model = model, .share = 1, .loss = (double)NAN, .last.loss = (double)NAN};
    return 0;
}

/* Programs need not check each constructor's result, because this reports it. */
static int refuse_null(enum wk_object_kind kind, struct error *err)
{
    int rc =
        error_set(err, WK_EINVAL, "wk_prepare was given NULL instead of %s", unit_kind_name(kind));
    unit_why_null(kind, err);
    return rc;
}

static int take_object(struct wk_context *ctx, const struct wk_object *object,
                       struct optimizers *optimizers, struct error *err)
{
    if (!object->object)
        return refuse_null(object->kind, err);
    if (owned_elsewhere(ctx, *object))
        return error_set(err, WK_ESTATE, "%s that another context owns",
                         unit_kind_name(object->kind));
    switch (object->kind) {
    case WK_OBJECT_MODEL:
        return take_model(ctx, object->object, err);
    case WK_OBJECT_OPTIMIZER:
        return append((void **)optimizers->list, &optimizers->count, NUMBERS_UNITS_MAX,
                      object->object, "optimizers", err);
    case WK_OBJECT_LOADER:
        return append((void **)ctx->prepared.loaders, &ctx->prepared.n_loaders, NUMBERS_LOADERS_MAX,
                      object->object, "loaders", err);
    case WK_OBJECT_SCHEDULER:
        return append((void **)ctx->prepared.schedulers, &ctx->prepared.n_schedulers,
                      NUMBERS_SCHEDULERS_MAX, object->object, "schedulers", err);
    }
    return error_set(err, WK_EINVAL, "%d is no kind of object", (int)object->kind);
}

/* Assign an optimizer to its model. With several models the order of arguments does not decide: a
 * mistake would go unnoticed. */
static int give_optimizer(struct wk_context *ctx, struct wk_optimizer *optimizer, int number,
                          struct error *err)
{
    struct unit *unit;
    const char *name = optimizer->ops->name;
    if (!optimizer->over && ctx->prepared.n_units > 1)
        return error_set(err, WK_EINVAL,
                         "there are %d models, and the one that optimizer %d (%s) updates is not "
                         "set: call wk_optimizer_over",
                         ctx->prepared.n_units, number, name);
    units_each(unit, ctx) {
        if (optimizer->over && unit->model != optimizer->over)
            continue;
        if (unit->optimizer)
            return error_set(err, WK_EUNSUPPORTED,
                             "a model has one optimizer, and model %d has two (%s and %s): groups "
                             "go by numbers of their own (wk_optimizer_group)",
                             unit_number(unit), unit->optimizer->ops->name, name);
        unit->optimizer = optimizer;
        return 0;
    }
    return error_set(err, WK_EINVAL,
                     "optimizer %d (%s) is over a model that is not prepared with it", number,
                     name);
}

static int give_optimizers(struct wk_context *ctx, const struct optimizers *optimizers,
                           struct error *err)
{
    int rc = 0;
    for (int i = 0; i < optimizers->count && !rc; i++)
        rc = give_optimizer(ctx, optimizers->list[i], i + 1, err);
    return rc;
}

/* Conditions of strategies that cut a model. */
static int check_cut(const struct wk_context *ctx, const struct unit *unit, struct error *err)
{
    const char *name = settings_text(&ctx->settings, SETTING_STRATEGY);
    if (!strategy_cuts(prepare_strategy(ctx)))
        return 0;
    if (!unit->optimizer)
        return error_set(err, WK_EINVAL,
                         "strategy %s cuts a model together with its optimizer's state, and there "
                         "is no optimizer over model %d; strategy ddp needs none",
                         name, unit_number(unit));
    if (unit->optimizer->ops->whole_tensors)
        return error_set(err, WK_EUNSUPPORTED,
                         "%s works on whole tensors, which strategy %s cuts; use ddp or an "
                         "element-wise optimizer",
                         unit->optimizer->ops->name, name);
    return 0;
}

static int check_unit(const struct wk_context *ctx, const struct unit *unit, struct error *err)
{
    if (unit_of_model(unit->model))
        return error_set(err, WK_ESTATE, "the model is prepared in another context");
    if (unit->optimizer && unit_of_optimizer(unit->optimizer))
        return error_set(err, WK_ESTATE, "the optimizer is prepared in another context");
    return check_cut(ctx, unit, err);
}

static bool has_optimizer(const struct wk_context *ctx, const struct wk_optimizer *optimizer)
{
    const struct unit *unit;
    units_each(unit, ctx)
        if (unit->optimizer == optimizer)
            return true;
    return false;
}

/* The program decides which model a loader's samples are for; they must fit one. */
static int check_loader(const struct wk_context *ctx, const struct wk_loader *loader,
                        struct error *err)
{
    const struct unit *unit;
    int64_t context = 0;
    if (loader->owner)
        return error_set(err, WK_ESTATE, "a loader is prepared in another context");
    units_each(unit, ctx) {
        int64_t own = model_is_custom(unit->model) ? INT64_MAX : unit->model->context;
        context = own > context ? own : context;
    }
    if (loader->options.source->rows && context == 1)
        return 0; /* a graph without a length, which compares each input with its rows */
    if (loader->length > context)
        return error_set(err, WK_EINVAL,
                         "samples of %lld tokens do not fit the model's context of %lld",
                         (long long)loader->length, (long long)context);
    return 0;
}

static int check_objects(const struct wk_context *ctx, struct error *err)
{
    const struct unit *unit;
    int rc = ctx->prepared.n_units ? 0 : error_set(err, WK_EINVAL, "there is no model to train");
    units_each(unit, ctx)
        rc = rc ? rc : check_unit(ctx, unit, err);
    for (int i = 0; i < ctx->prepared.n_schedulers && !rc; i++)
        if (!has_optimizer(ctx, ctx->prepared.schedulers[i]->optimizer))
            rc = error_set(err, WK_EINVAL, "a scheduler's optimizer is not prepared with it");
    for (int i = 0; i < ctx->prepared.n_loaders && !rc; i++)
        rc = check_loader(ctx, ctx->prepared.loaders[i], err);
    return rc;
}

int prepare_take(struct wk_context *ctx, const struct wk_object *objects, int n_objects,
                 struct error *err)
{
    struct optimizers optimizers = {.count = 0};
    int rc = 0;
    for (int i = 0; i < n_objects && !rc; i++)
        rc = take_object(ctx, &objects[i], &optimizers, err);
    if (!rc && ctx->prepared.n_units)
        rc = give_optimizers(ctx, &optimizers, err);
    rc = rc ? rc : check_objects(ctx, err);
    if (rc) {
        memset(ctx->prepared.units, 0, sizeof(ctx->prepared.units));
        ctx->prepared.n_units = ctx->prepared.n_loaders = ctx->prepared.n_schedulers = 0;
    }
    return rc;
}

bool prepare_knows(const struct wk_context *ctx, const void *object)
{
    const struct unit *unit;
    bool found = false;
    if (!object)
        return false; /* not the optimizer of a model without one */
    units_each(unit, ctx)
        found = found || object == unit->model || object == unit->optimizer;
    for (int i = 0; i < ctx->prepared.n_loaders; i++)
        found = found || object == ctx->prepared.loaders[i];
    for (int i = 0; i < ctx->prepared.n_schedulers; i++)
        found = found || object == ctx->prepared.schedulers[i];
    return found;
}

/* A loop over endless loaders does not end by itself. */
static void remark_end(struct wk_context *ctx)
{
    bool endless = false;
    for (int i = 0; i < ctx->prepared.n_loaders; i++) {
        const struct wk_loader_options *options = &ctx->prepared.loaders[i]->options;
        if (!options->evaluation && (options->epochs || options->batches))
            return;
        endless = endless || !options->evaluation;
    }
    if (endless && !ctx->state.numbers.total_steps)
        context_notice(ctx, "this training never ends by itself: total_steps is not set and its "
                            "loader's epochs are 0; it continues until the program leaves the "
                            "loop, or Ctrl-C, SIGTERM or `muster cancel` stops it");
}

/* Settings that apply to no parameter, which metrics alone would not show. */
static void remark_untouched(struct unit *unit)
{
    struct wk_context *ctx = unit->ctx;
    const struct wk_model *model = unit->model;
    const struct wk_optimizer *optimizer = unit->optimizer;
    bool narrow = false;
    for (int i = 0; i < model->n_params; i++)
        narrow = narrow || model_reads_low(&model->params[i]);
    if (ctx->mixed.narrowing.type != WK_F32 && !narrow)
        context_notice(ctx,
                       "mixed_precision %s rounds no parameter of model %d: it is for those of two "
                       "or more dimensions, of which it has none, and for buffers with `narrow`",
                       settings_text(&ctx->settings, SETTING_MIXED_PRECISION), unit_number(unit));
    if (optimizer && optimizer->weight_decay > 0 &&
        !optimizer_decays(optimizer, model->params, model_trained(model)))
        context_notice(
            ctx,
            "weight_decay %g touches no parameter of model %d: it is for those of two or "
            "more dimensions, for buffers with `decay`, and for what a wk_group names",
            optimizer->weight_decay, unit_number(unit));
}

void prepare_remark(struct wk_context *ctx)
{
    struct unit *unit;
    if (ctx->group.rank != 0)
        return;
    remark_end(ctx);
    units_each(unit, ctx)
        remark_untouched(unit);
    for (int i = 0; i < ctx->prepared.n_loaders; i++) {
        const struct wk_loader *loader = ctx->prepared.loaders[i];
        if (!loader->options.evaluation && loader->options.batch > loader->samples)
            context_notice(ctx,
                           "loader %d: a batch of %lld samples is more than its source has, so "
                           "every batch is an epoch of %lld",
                           i + 1, (long long)loader->options.batch, (long long)loader->samples);
    }
}
