#include "libworker/step/state.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "libworker/checkpoint/list.h"
#include "libworker/checkpoint/load.h"
#include "libworker/step/carried.h"
#include "libworker/step/context.h"

void state_numbers(const struct wk_context *ctx, struct train_numbers *ret)
{
    struct train_numbers numbers = ctx->state.numbers;
    numbers.n_units = ctx->prepared.n_units;
    for (int i = 0; i < ctx->prepared.n_units; i++) {
        const struct unit *unit = &ctx->prepared.units[i];
        numbers.units[i] = unit->numbers;
        numbers.units[i].optimizer_steps = unit->optimizer ? unit->optimizer->steps : 0;
        mixed_numbers(unit, &numbers.units[i]);
    }
    numbers.n_loaders = ctx->prepared.n_loaders;
    for (int i = 0; i < ctx->prepared.n_loaders; i++)
        numbers.loaders[i] = ctx->prepared.loaders[i]->committed;
    numbers.n_schedulers = ctx->prepared.n_schedulers;
    for (int i = 0; i < ctx->prepared.n_schedulers; i++)
        numbers.schedulers[i] = ctx->prepared.schedulers[i]->step;
    *ret = numbers;
}

void state_adopt(struct wk_context *ctx, const struct train_numbers *numbers)
{
    int64_t total_steps = ctx->state.numbers.total_steps;
    ctx->state.numbers = *numbers;
    /* The program's present value counts, not that of the run the state is from. */
    ctx->state.numbers.total_steps = total_steps;
    ctx->state.rng = numbers->rng;
    for (int i = 0; i < ctx->prepared.n_units; i++) {
        struct unit *unit = &ctx->prepared.units[i];
        unit->numbers = numbers->units[i];
        mixed_adopt(unit, &numbers->units[i]);
        if (unit->optimizer)
            unit->optimizer->steps = numbers->units[i].optimizer_steps;
    }
    for (int i = 0; i < ctx->prepared.n_loaders; i++)
        ctx->prepared.loaders[i]->cursor = ctx->prepared.loaders[i]->committed =
            numbers->loaders[i];
    for (int i = 0; i < ctx->prepared.n_schedulers; i++)
        scheduler_set_step(ctx->prepared.schedulers[i], numbers->schedulers[i]);
    ctx->state.trained = true;
    ctx->state.partial = false;
}

/* "model.wte.weight"; with several models "2.model.wte.weight". */
static int name_tensor(struct checkpoint_tensor *tensor, const struct unit *unit, const char *kind,
                       const struct param *param, struct error *err)
{
    char number[16] = "";
    if (unit->ctx->prepared.n_units > 1)
        (void)str_printf(number, sizeof(number), "%d.", unit_number(unit));
    if (str_printf(tensor->name, sizeof(tensor->name), "%s%s.%s", number, kind, param->name))
        return error_set(err, WK_EINVAL, "the name of parameter %s is too long", param->name);
    return 0;
}

/* A parameter and this rank's piece of it. */
struct held {
    const struct unit *unit;
    const struct param *param;
    const struct param *own; /* NULL: no piece */
    size_t first;
};

static int add_param(struct checkpoint_tensor *tensor, const struct held *held, struct error *err)
{
    *tensor = (struct checkpoint_tensor){
        .dtype = WK_F32,
        .dims = held->param->dims,
        .first = (int64_t)held->first,
        .data = held->own ? held->own->data : NULL,
        .bytes = held->own ? held->own->count * sizeof(float) : 0,
        .queue = strategy_range(&held->unit->strategy)->queue,
    };
    memcpy(tensor->shape, held->param->shape, sizeof(tensor->shape));
    return name_tensor(tensor, held->unit, "model", held->param, err);
}

/* Adds nothing for a parameter without such a state. */
static int add_state(struct checkpoint_tensor *tensors, int *count, int state,
                     const struct held *held, struct error *err)
{
    const struct wk_optimizer *optimizer = held->unit->optimizer;
    const struct param *param = held->param;
    struct optimizer_view view = {.dims = param->dims};
    memcpy(view.shape, param->shape, sizeof(view.shape));
    if (held->own)
        view = optimizer_state_view(optimizer, state, held->own);
    struct checkpoint_tensor *tensor = &tensors[*count];
    struct queue *home;
    char kind[64];
    if (!view.dims)
        return 0;
    int rc = optimizer_state_home(held->unit->optimizer, &home, err);
    if (rc)
        return rc;
    ++*count;
    *tensor = (struct checkpoint_tensor){
        .dtype = WK_F32,
        .dims = view.dims,
        .first = (int64_t)(held->first + view.first),
        .data = view.data,
        .bytes = view.count * sizeof(float),
        .queue = home,
    };
    memcpy(tensor->shape, view.shape, sizeof(tensor->shape));
    (void)str_printf(kind, sizeof(kind), "optimizer.%s", optimizer_state_name(optimizer, state));
    return name_tensor(tensor, held->unit, kind, param, err);
}

static struct held held_of(struct unit *unit, int index)
{
    struct held held = {.unit = unit, .param = &unit->model->params[index]};
    held.own = strategy_own(&unit->strategy, index, &held.first);
    return held;
}

_Static_assert((int)PARAM_DIMS_MAX == (int)CHECKPOINT_DIMS_MAX, "shapes are copied whole");
_Static_assert((int)OPTIMIZER_DIMS_MAX == (int)CHECKPOINT_DIMS_MAX, "shapes are copied whole");

static int n_states(const struct unit *unit)
{
    return unit->optimizer ? unit->optimizer->ops->n_states : 0;
}

static int add_unit(struct checkpoint_tensor *tensors, int *count, struct unit *unit,
                    struct error *err)
{
    int rc = 0;
    for (int i = 0; i < unit->model->n_params && !rc; i++) {
        struct held held = held_of(unit, i);
        rc = add_param(&tensors[(*count)++], &held, err);
    }
    for (int s = 0; s < n_states(unit); s++)
        for (int i = 0; i < model_trained(unit->model) && !rc; i++) {
            struct held held = held_of(unit, i);
            rc = add_state(tensors, count, s, &held, err);
        }
    return rc;
}

static int add_buffers(struct checkpoint_tensor *tensors, int *count, const struct unit *unit,
                       enum state_use use, struct error *err)
{
    const struct buffers *buffers = &unit->model->buffers;
    bool here = use == STATE_LOADS || !unit->ctx->cut.is_sharded || unit->ctx->cut.part == 0;
    int rc = 0;
    for (int i = 0; i < buffers->n && !rc; i++) {
        struct param own = buffers->list[i];
        own.data = buffers->host + own.offset;
        struct held held = {.unit = unit, .param = &own, .own = here ? &own : NULL};
        rc = add_param(&tensors[*count], &held, err);
        tensors[(*count)++].queue = NULL; /* the host's copy */
    }
    return rc;
}

int state_tensors(struct wk_context *ctx, enum state_use use, struct checkpoint_tensor **ret,
                  int *ret_count, struct error *err)
{
    struct unit *unit;
    size_t most = 0;
    units_each(unit, ctx)
        most += (size_t)unit->model->n_params * (1 + (size_t)n_states(unit)) +
                (size_t)unit->model->buffers.n;
    struct checkpoint_tensor *tensors = calloc(most + 1, sizeof(*tensors));
    if (!tensors)
        return error_set(err, WK_ENOMEM, "no memory for a table of %zu tensors", most);
    int count = 0, rc = 0;
    units_each(unit, ctx) {
        rc = rc ? rc : add_unit(tensors, &count, unit, err);
        if (!rc)
            rc = add_buffers(tensors, &count, unit, use, err);
    }
    if (rc) {
        free(tensors);
        return rc;
    }
    *ret = tensors;
    *ret_count = count;
    return 0;
}

/* Report a missing or an additional model before its tensors. */
static int check_units(const struct wk_context *ctx, const char *path, struct error *err)
{
    struct train_numbers numbers;
    int rc = checkpoint_numbers(path, &numbers, err);
    if (rc || numbers.n_units == ctx->prepared.n_units)
        return rc;
    bool more = numbers.n_units > ctx->prepared.n_units;
    return error_set(err, WK_EMISMATCH,
                     "checkpoint %s is of %lld model%s and %d %s prepared: its model %lld %s", path,
                     (long long)numbers.n_units, numbers.n_units == 1 ? "" : "s",
                     ctx->prepared.n_units, ctx->prepared.n_units == 1 ? "is" : "are",
                     (long long)(more ? ctx->prepared.n_units + 1 : numbers.n_units + 1),
                     more ? "is none of them" : "is missing");
}

int state_load(struct wk_context *ctx, const char *path, struct error *err)
{
    struct checkpoint_tensor *tensors;
    struct train_numbers numbers;
    int count;
    int rc = check_units(ctx, path, err);
    rc = rc ? rc : state_tensors(ctx, STATE_LOADS, &tensors, &count, err);
    if (rc)
        return rc;
    rc = checkpoint_load(path, tensors, count, &numbers, err);
    free(tensors);
    if (!rc && (numbers.n_loaders != ctx->prepared.n_loaders ||
                numbers.n_schedulers != ctx->prepared.n_schedulers))
        rc = error_set(err, WK_EMISMATCH,
                       "checkpoint %s is of %lld loaders and %lld schedulers, not %d and %d", path,
                       (long long)numbers.n_loaders, (long long)numbers.n_schedulers,
                       ctx->prepared.n_loaders, ctx->prepared.n_schedulers);
    if (!rc)
        rc = carried_write(ctx, err);
    if (!rc)
        state_adopt(ctx, &numbers);
    return rc;
}

int state_newest(struct wk_context *ctx, char ret[CHECKPOINT_PATH_MAX], struct error *err)
{
    const char *dir = settings_text(&ctx->settings, SETTING_CHECKPOINT_DIR);
    int64_t *steps;
    int count;
    *ret = 0;
    if (!*dir)
        return error_set(err, WK_EINVAL, "resume_from is \"latest\" without a checkpoint.dir");
    int rc = checkpoint_list(dir, &steps, &count, err);
    if (!rc && count)
        rc = checkpoint_path(dir, steps[count - 1], ret);
    if (!rc)
        free(steps);
    return rc;
}

void state_begins(struct wk_context *ctx)
{
    const char *wanted = settings_text(&ctx->settings, SETTING_RESUME_FROM);
    if (ctx->group.rank == 0 && strcmp(wanted, "latest") == 0)
        context_notice(ctx, "resume_from is \"latest\", and %s has no checkpoint: begins at step 0",
                       settings_text(&ctx->settings, SETTING_CHECKPOINT_DIR));
}

void state_none_left(int tried, struct error *err)
{
    if (tried > 1)
        (void)error_wrap(err, "none of the last %d checkpoints can be loaded; the oldest", tried);
}

int64_t wk_steps(const struct wk_context *ctx)
{
    return ctx->state.numbers.step;
}

int64_t wk_total_steps(const struct wk_context *ctx)
{
    return ctx->state.numbers.total_steps;
}

double wk_random(struct wk_context *ctx)
{
    return rng_double(&ctx->state.rng);
}
