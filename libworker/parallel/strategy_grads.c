#include "libworker/parallel/strategy_grads.h"

#include "common/base/assert.h"
#include "libworker/parallel/strategy_ops.h"

/* RESTING from each of them: by drain. */
#define BIT(phase) (1u << STRATEGY_##phase)
static const unsigned allowed[] = {
    [STRATEGY_RESTING] = BIT(RESTING) | BIT(PASSING),
    [STRATEGY_PASSING] = BIT(RESTING) | BIT(FLUSHED),
    [STRATEGY_FLUSHED] = BIT(RESTING),
};
#undef BIT

static void set_phase(struct strategy *st, enum strategy_phase phase)
{
    insist(allowed[st->phase] >> phase & 1);
    st->phase = phase;
}

void strategy_scaled(struct strategy *st, double scale)
{
    float factor = (float)(st->unscaled ? scale * st->share : st->share);
    st->ops->scaled(st->memory.self, factor, scale);
}

void strategy_share(struct strategy *st, double share, bool held)
{
    if (!(share > 0) || (share >= st->share && share <= st->share))
        return;
    if (held)
        st->ops->rescale(st->memory.self, (float)(st->share / share));
    st->share = share;
}

void strategy_begin(struct strategy *st, struct wk_comm *comm, bool last)
{
    set_phase(st, STRATEGY_PASSING);
    st->comm = comm;
    st->last = last;
    usage_begin(&st->usage);
    own_passes_begin(&st->own);
    st->ops->begin(st->memory.self, comm, last);
}

void strategy_ready(struct strategy *st, int index)
{
    insist(index >= 0 && index < model_trained(st->model));
    if (st->phase != STRATEGY_PASSING)
        return;
    usage_note(&st->usage, index);
    own_passes_take(&st->own, index);
    st->ops->ready(st->memory.self, index);
}

/* Without, all of the model is there from a pass' begin on. */
static bool gathers_by_block(const struct strategy *st)
{
    return st->model->hooks.before_block;
}

int strategy_enter_block(struct strategy *st, int block, enum model_pass pass, struct error *err)
{
    int rc = model_enter(st->model, block, pass, err);
    if (!rc && gathers_by_block(st))
        own_passes_show_block(&st->own, block);
    return rc;
}

int strategy_leave_block(struct strategy *st, int block, enum model_pass pass, struct error *err)
{
    struct model_block in = model_block(st->model, block);
    for (int i = in.first + in.n_params - 1; i >= in.first && pass == MODEL_BACKWARD; i--)
        strategy_ready(st, i);
    if (gathers_by_block(st) && block > 0)
        own_passes_hide_block(&st->own, block);
    return model_leave(st->model, block, pass, err);
}

void strategy_flush(struct strategy *st)
{
    set_phase(st, STRATEGY_FLUSHED);
    own_passes_take_rest(&st->own);
    usage_end(&st->usage, st->ops->changed(st->memory.self));
    st->ops->flush(st->memory.self);
}

int strategy_finish(struct strategy *st, struct error *err)
{
    insist(st->phase == STRATEGY_FLUSHED);
    int rc = st->ops->finish(st->memory.self);
    set_phase(st, STRATEGY_RESTING);
    if (rc)
        return error_set(err, rc, "%s", st->ops->sentence(st->memory.self));
    if (!st->last)
        return 0;
    st->sums = st->ops->checked(st->memory.self);
    return usage_check(&st->usage, st->model->params, wk_comm_world(st->comm), st->unused_fine,
                       err);
}

void strategy_say(struct strategy *st, const float *numbers, int count)
{
    insist(st->phase == STRATEGY_PASSING && st->last);
    step_numbers_say(&st->numbers, numbers, count);
}

const float *strategy_heard(const struct strategy *st)
{
    insist(st->phase == STRATEGY_RESTING);
    return st->numbers.data;
}

int strategy_first_nonfinite(struct strategy *st, int *ret_index)
{
    return st->ops->first_nonfinite(st->memory.self, ret_index);
}

void strategy_drain(struct strategy *st)
{
    set_phase(st, STRATEGY_RESTING);
    if (st->memory.self)
        st->ops->drain(st->memory.self);
}

struct verdict *strategy_verdict(struct strategy *st)
{
    return &st->numbers.verdict;
}

void strategy_open(struct strategy *st, double scale)
{
    static const enum verdict_sums sums[] = {
        [SUMS_UNJUDGED] = VERDICT_UNKNOWN,
        [SUMS_FINITE] = VERDICT_FINITE,
        [SUMS_NONFINITE] = VERDICT_NONFINITE,
        [SUMS_MEASURED] = VERDICT_UNKNOWN,
    };
    insist(st->phase == STRATEGY_RESTING);
    verdict_open(&st->numbers.verdict, scale, sums[st->sums]);
}

bool strategy_sums_losses(const struct strategy *st)
{
    return wire_way(&st->wire, st->comm) == WIRE_OWN && wk_comm_world(st->comm) > 1;
}

int strategy_sum_losses(struct strategy *st, struct error *err)
{
    double *at = &st->numbers.verdict.at->loss;
    const struct wire_call call = {.op = WIRE_SUM,
                                   .in = at,
                                   .out = at,
                                   .count = 1,
                                   .type = WK_F64,
                                   .out_type = WK_F64,
                                   .as_float = true,
                                   .ready = event_record(st->model->queue)};
    return wire_run(&st->wire, st->comm, &call, err);
}

int strategy_measure(struct strategy *st)
{
    int rc = st->ops->squares(st->memory.self);
    if (rc)
        return rc;
    verdict_measure(&st->numbers.verdict, st->sums == SUMS_UNJUDGED);
    if (st->sums == SUMS_UNJUDGED)
        st->sums = SUMS_MEASURED;
    return 0;
}

int strategy_clamp(struct strategy *st, double most)
{
    int rc = st->sums == SUMS_UNJUDGED ? strategy_measure(st) : 0;
    if (!rc)
        st->ops->clamp(st->memory.self, most);
    return rc;
}

int strategy_judge(struct strategy *st, double loss)
{
    int rc = st->sums == SUMS_UNJUDGED ? strategy_measure(st) : 0;
    if (rc)
        return rc;
    wires_note_stop(st->wire.wires, st->model->queue, &st->numbers.verdict.at->finite);
    verdict_judge(&st->numbers.verdict, loss);
    return 0;
}

int strategy_update(struct strategy *st, struct wk_optimizer *optimizer, struct error *err)
{
    insist(st->phase == STRATEGY_RESTING);
    return st->ops->update(st->memory.self, optimizer, err);
}

int strategy_spread(struct strategy *st, struct wk_comm *comm, struct error *err)
{
    own_passes_hide(&st->own);
    int rc = st->ops->spread(st->memory.self, comm);
    return rc ? error_set(err, rc, "%s", st->ops->sentence(st->memory.self)) : 0;
}

void strategy_clear(struct strategy *st)
{
    step_numbers_clear(&st->numbers);
    if (st->memory.self)
        st->ops->clear(st->memory.self);
}

void strategy_forget(struct strategy *st)
{
    own_passes_forget(&st->own);
}
