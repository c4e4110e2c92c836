#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/optim/clip.h"
#include "libworker/parallel/custom.h"
#include "libworker/parallel/sharded_low.h"
#include "libworker/parallel/strategy.h"
#include "libworker/tensor/memory.h"

static int init_low(struct strategy *st, struct error *err)
{
    if (!narrowing_on(&st->narrowing))
        return 0;
    st->low = memory_new(st->model->count * sizeof(*st->low));
    if (!st->low)
        return error_set(err, WK_ENOMEM, "no memory for %zu narrow parameters", st->model->count);
    return model_set_compute(st->model, st->narrowing.type, st->low, err);
}

static int make_hook(struct strategy *st, const struct strategy_options *options, struct error *err)
{
    struct wk_model *model = st->model;
    struct hook_model about = {model->kernels, model->params, model->n_params, st->grads,
                               model->count};
    switch (options->hook) {
    case HOOK_SUM:
        return hook_sum_new(&about, !options->measures, &st->hook, err);
    case HOOK_F16:
        return hook_low_new(&about, WK_F16, &st->hook, err);
    case HOOK_BF16:
        return hook_low_new(&about, WK_BF16, &st->hook, err);
    case HOOK_POWERSGD:
        return hook_powersgd_new(&about, &options->powersgd, &st->hook, err);
    }
    return error_set(err, WK_EINTERNAL, "%d is no hook", (int)options->hook);
}

static int fill_all(struct wk_model *model, struct error *err)
{
    int rc = 0;
    for (int i = 0; i < model->n_params && !rc; i++)
        rc = model_fill(model, i, model->params[i].data, err);
    return rc;
}

static int init_whole(struct strategy *st, const struct strategy_options *options,
                      struct error *err)
{
    struct wk_model *model = st->model;
    st->grad_count = model->count + STRATEGY_EXTRAS_MAX + usage_room(model->n_params);
    st->params = memory_new(model->count * sizeof(*st->params));
    if (!st->params || wk_arena_new(st->grad_count * sizeof(*st->grads), &st->arena))
        return error_set(err, WK_ENOMEM, "no memory for %zu parameters", model->count);
    st->grads = wk_arena_data(st->arena);
    st->extras = st->grads + model->count;
    int rc = model_bind(model, st->params, st->grads);
    if (rc)
        return error_set(err, rc, "the model does not take its memory");
    if (model->values.fill && !st->fill_later)
        rc = fill_all(model, err);
    if (rc)
        return rc;
    struct ddp_arena grads = {model->params, model->n_params, st->grads, model->count,
                              st->grad_count};
    rc = ddp_init(&st->ddp, &grads, &options->ddp, err);
    if (!rc)
        rc = make_hook(st, options, err);
    if (rc)
        return rc;
    ddp_set_hook(&st->ddp, &st->hook.face);
    return init_low(st, err);
}

static int init_cut(struct strategy *st, const struct strategy_options *options, struct error *err)
{
    struct sharded_options shard = options->shard;
    shard.extras = STRATEGY_EXTRAS_MAX + usage_room(st->model->n_params);
    int rc = sharded_init(&st->shard, st->model, &shard, err);
    if (rc)
        return rc;
    st->extras = st->shard.extras;
    st->model->hooks = sharded_hooks(&st->shard);
    return 0;
}

int strategy_init(struct strategy *st, struct wk_model *model,
                  const struct strategy_options *options, struct error *err)
{
    *st = (struct strategy){.ready = true,
                            .share = 1,
                            .is_sharded = options->is_sharded,
                            .unused_fine = options->unused_fine || options->ddp.static_graph,
                            .unscaled = options->unscaled,
                            .model = model,
                            .offload = options->offload,
                            .fill_later = options->shard.fill_later,
                            .narrowing = options->shard.narrowing};
    int rc = st->is_sharded ? init_cut(st, options, err) : init_whole(st, options, err);
    if (!rc)
        rc = own_passes_init(&st->own, model, st->narrowing.type, st->is_sharded, err);
    return rc ? rc : usage_init(&st->usage, model->n_params, st->extras + STRATEGY_EXTRAS_MAX, err);
}

void strategy_fini(struct strategy *st)
{
    if (!st->ready)
        return;
    strategy_drain(st);
    if (st->is_sharded) {
        st->model->hooks = (struct model_hooks){0};
        sharded_fini(&st->shard);
    }
    own_passes_fini(&st->own);
    (void)model_set_compute(st->model, WK_F32, NULL, NULL);
    st->model->param_arena = st->model->grad_arena = NULL;
    for (int i = 0; i < st->model->n_params; i++)
        st->model->params[i].data = st->model->params[i].grad = NULL;
    ddp_fini(&st->ddp);
    if (st->hook.free)
        st->hook.free(st->hook.face.arg);
    usage_fini(&st->usage);
    memory_free(st->params, st->model->count * sizeof(*st->params));
    memory_free(st->low, st->model->count * sizeof(*st->low));
    wk_arena_free(st->arena);
    *st = (struct strategy){0};
}

int strategy_meet(struct strategy *st, struct wk_comm *comm, struct error *err)
{
    int rc = st->is_sharded ? sharded_meet(&st->shard, comm) : wk_comm_register(comm, st->arena);
    if (!rc && st->hook.meet)
        rc = st->hook.meet(st->hook.face.arg, comm);
    if (rc)
        return error_set(err, rc, "%s", wk_comm_error(comm));
    if (!st->is_sharded)
        ddp_meet(&st->ddp);
    return 0;
}

int strategy_fill(struct strategy *st, struct wk_comm *comm, struct error *err)
{
    if (!st->fill_later)
        return 0;
    return st->is_sharded ? sharded_fill(&st->shard, comm, err) : fill_all(st->model, err);
}

int strategy_regroup(struct strategy *st, struct wk_comm *comm, const struct layout *layout,
                     struct error *err)
{
    return st->is_sharded ? sharded_regroup(&st->shard, comm, layout, err) : 0;
}

void strategy_leave(struct strategy *st)
{
    if (!st->is_sharded)
        return;
    groups_close(&st->shard.groups);
    st->shard.whole = st->shard.comm = NULL;
}

int strategy_set_hook(struct strategy *st, const struct wk_gradient_hook *hook)
{
    if (st->is_sharded)
        return WK_EUNSUPPORTED;
    ddp_set_hook(&st->ddp, hook ? hook : &st->hook.face);
    return 0;
}

struct strategy_range strategy_range(struct strategy *st)
{
    if (!st->is_sharded)
        return (struct strategy_range){st->model->params, st->model->n_params, st->model->count,
                                       st->params, st->grads};
    struct sharded *s = &st->shard;
    const struct param *last = s->n_own ? &s->own[s->n_own - 1] : NULL;
    return (struct strategy_range){s->own, s->n_own, last ? last->offset + last->count : 0,
                                   s->own_params, s->own_grads};
}

int strategy_bind(struct strategy *st, struct wk_optimizer *optimizer, struct error *err)
{
    struct strategy_range range = strategy_range(st);
    struct optimizer_copy copy = {st->low, st->narrowing.type, st->narrowing.stochastic,
                                  st->narrowing.seed};
    struct optimizer_offload offload = {st->offload, st->is_sharded && st->shard.options.offload};
    optimizer_set_offload(optimizer, &offload);
    int rc = optimizer_bind(optimizer, range.params, range.n_params, 0, range.count, err);
    return rc || !st->low ? rc : optimizer_set_copy(optimizer, &copy, err);
}

int strategy_refresh(struct strategy *st, struct wk_comm *comm)
{
    own_passes_hide(&st->own);
    if (st->is_sharded)
        return sharded_refresh(&st->shard, comm);
    if (st->low)
        narrow_write(&st->narrowing, st->low, st->params, st->model->count, 0);
    return 0;
}

const struct param *strategy_own(struct strategy *st, int index, size_t *ret_first)
{
    const struct param *param = &st->model->params[index];
    *ret_first = 0;
    if (!st->is_sharded)
        return param;
    struct sharded *s = &st->shard;
    if (s->own_of[index] < 0)
        return NULL;
    *ret_first =
        shard_piece(&s->plan, s->unit_of[index], s->options.rank, param->offset, param->count)
            .first;
    return &s->own[s->own_of[index]];
}

void strategy_use(struct strategy *st, struct wk_comm *comm)
{
    if (st->is_sharded)
        sharded_use(&st->shard, comm);
}

int strategy_empty_pass(struct strategy *st, enum model_pass pass, struct error *err)
{
    return st->is_sharded ? sharded_empty_pass(&st->shard, pass, err) : 0;
}

int strategy_gather(struct strategy *st, struct wk_comm *comm)
{
    return st->is_sharded ? sharded_gather_all(&st->shard, comm) : 0;
}

int strategy_gather_own(struct strategy *st, struct wk_comm *comm)
{
    int rc = st->is_sharded ? sharded_gather_own(&st->shard, comm) : 0;
    if (!rc)
        own_passes_show(&st->own);
    return rc;
}

void strategy_show_master(struct strategy *st)
{
    own_passes_hide(&st->own);
}

void strategy_scaled(struct strategy *st, double scale)
{
    float factor = (float)(st->unscaled ? scale * st->share : st->share);
    if (st->is_sharded)
        st->shard.factor = factor;
    else
        st->ddp.factor = factor;
    if (st->hook.scaled)
        st->hook.scaled(st->hook.face.arg, scale);
}

void strategy_share(struct strategy *st, double share, bool held)
{
    if (!(share > 0) || (share >= st->share && share <= st->share))
        return;
    float change = (float)(st->share / share);
    if (held && st->is_sharded)
        sharded_rescale(&st->shard, change);
    else if (held)
        st->model->kernels->scale(st->grads, change, st->model->count);
    st->share = share;
}

void strategy_begin(struct strategy *st, struct wk_comm *comm, bool last)
{
    st->last = last;
    usage_begin(&st->usage);
    own_passes_begin(&st->own);
    if (st->is_sharded)
        sharded_begin(&st->shard, comm, last);
    else
        ddp_begin(&st->ddp, comm, last);
}

void strategy_ready(struct strategy *st, int index)
{
    usage_note(&st->usage, index);
    own_passes_take(&st->own, index);
    if (st->is_sharded)
        sharded_ready(&st->shard, index);
    else
        ddp_ready(&st->ddp, index);
}

void strategy_flush(struct strategy *st)
{
    own_passes_take_rest(&st->own);
    usage_end(&st->usage, !st->is_sharded && ddp_changed(&st->ddp));
    if (st->is_sharded)
        sharded_flush(&st->shard);
    else
        ddp_flush(&st->ddp);
}

/* What is known of the window's sums once they are there. */
static enum sums seen_while_summing(const struct strategy *st)
{
    if (st->is_sharded && narrowing_on(&st->narrowing))
        return sharded_finite(&st->shard) ? SUMS_FINITE : SUMS_WILD;
    if (!st->is_sharded && st->hook.sums && st->ddp.hook.arg == st->hook.face.arg)
        return st->hook.sums(st->hook.face.arg);
    return SUMS_UNJUDGED;
}

int strategy_finish(struct strategy *st, struct error *err)
{
    struct wk_comm *comm = st->is_sharded ? st->shard.whole : st->ddp.comm;
    int rc = st->is_sharded ? sharded_finish(&st->shard) : ddp_finish(&st->ddp);
    if (rc || !st->last)
        return rc ? error_set(err, rc, "%s",
                              st->is_sharded ? sharded_error(&st->shard) : wk_comm_error(comm))
                  : 0;
    st->last = false;
    st->sums = seen_while_summing(st);
    return usage_check(&st->usage, st->model->params, wk_comm_world(comm), st->unused_fine, err);
}

int strategy_finite(struct strategy *st, bool *ret)
{
    double squares;
    int rc = st->sums == SUMS_UNJUDGED ? strategy_squares(st, &squares) : 0;
    if (!rc)
        *ret = st->sums == SUMS_FINITE;
    return rc;
}

/* Check `param`, which is within this rank's update range. */
static bool param_finite(struct strategy *st, const struct param *param)
{
    if (st->is_sharded && st->shard.low.grads)
        return isfinite(sharded_low_squares(&st->shard, param->offset, param->count));
    const float *grads = strategy_range(st).grads + param->offset;
    return isfinite(clip_sum_squares(st->model->kernels, grads, param->count));
}

int strategy_first_wild(struct strategy *st, int *ret_index)
{
    int32_t first = 0, none = st->model->n_params;
    for (; first < none; first++) {
        size_t begin;
        const struct param *own = strategy_own(st, first, &begin);
        if (own && !param_finite(st, own))
            break;
    }
    int rc = st->is_sharded ? wk_all_reduce(st->shard.whole, &first, 1, WK_I32, WK_MIN, NULL) : 0;
    if (!rc)
        *ret_index = first < none ? first : -1;
    return rc;
}

void strategy_drain(struct strategy *st)
{
    if (!st->ready)
        return;
    st->last = false;
    if (st->is_sharded)
        sharded_drain(&st->shard);
    else
        (void)ddp_drain(&st->ddp);
}

int strategy_squares(struct strategy *st, double *ret)
{
    int rc = 0;
    if (st->is_sharded)
        rc = sharded_squares(&st->shard, ret);
    else
        *ret = clip_sum_squares(st->model->kernels, st->grads, st->model->count);
    /* Squares of floats do not overflow a double. */
    if (!rc && st->sums == SUMS_UNJUDGED)
        st->sums = isfinite(*ret) ? SUMS_FINITE : SUMS_WILD;
    return rc;
}

int strategy_clamp(struct strategy *st, float limit)
{
    bool finite;
    int rc = strategy_finite(st, &finite);
    if (rc || !finite)
        return rc;
    if (!st->is_sharded)
        clip_clamp(st->grads, st->model->count, limit);
    else if (st->shard.low.grads)
        sharded_low_clamp(&st->shard, limit);
    else
        clip_clamp(st->shard.own_grads, st->shard.plan.shard, limit);
    return 0;
}

int strategy_update(struct strategy *st, struct wk_optimizer *optimizer, double scale,
                    struct error *err)
{
    struct strategy_range range = strategy_range(st);
    struct optimizer_low low = {st->shard.low.own_grads, st->narrowing.type};
    if (st->is_sharded && low.grads)
        return optimizer_step_low(optimizer, range.data, &low, (float)scale, err);
    return optimizer_step(optimizer, range.data, range.grads, (float)scale, err);
}

int strategy_spread(struct strategy *st, struct wk_comm *comm, struct error *err)
{
    own_passes_hide(&st->own);
    int rc = st->is_sharded ? sharded_updated(&st->shard, comm) : 0;
    return rc ? error_set(err, rc, "%s", sharded_error(&st->shard)) : 0;
}

void strategy_clear(struct strategy *st)
{
    if (!st->ready)
        return;
    if (st->is_sharded)
        sharded_clear(&st->shard);
    else
        memset(st->grads, 0, st->grad_count * sizeof(*st->grads));
}

void strategy_forget(struct strategy *st)
{
    own_passes_forget(&st->own);
}
