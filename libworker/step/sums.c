#include "libworker/step/sums.h"

#include <math.h>
#include <string.h>

#include "common/base/assert.h"
#include "libworker/parallel/strategy_grads.h"
#include "libworker/step/context.h"

_Static_assert((int)CONSENSUS_NUMBERS <= (int)STEP_NUMBERS_MAX, "the strategy carries them");

/* EMPTY from each of them: by clear. */
#define BIT(phase) (1u << WINDOW_##phase)
static const unsigned allowed[] = {
    [WINDOW_EMPTY] = BIT(EMPTY) | BIT(OPEN) | BIT(SUMMING),
    [WINDOW_OPEN] = BIT(EMPTY) | BIT(OPEN) | BIT(SUMMING),
    [WINDOW_SUMMING] = BIT(EMPTY) | BIT(COMPLETE),
    [WINDOW_COMPLETE] = BIT(EMPTY),
};
#undef BIT

static void set_phase(struct window_sums *sums, enum window_phase phase)
{
    insist(allowed[sums->phase] >> phase & 1);
    sums->phase = phase;
}

void sums_begin(struct unit *unit, bool last)
{
    set_phase(&unit->sums, last ? WINDOW_SUMMING : WINDOW_OPEN);
}

void sums_keep_loss(struct unit *unit)
{
    model_keep_loss(unit->model, &strategy_verdict(&unit->strategy)->at->pass);
}

void sums_add_loss(struct unit *unit, const struct pass_loss *pass)
{
    if (!(pass->share > 0)) /* a mean over nothing is NaN */
        return;
    if (pass->kept)
        verdict_add_loss(strategy_verdict(&unit->strategy), pass->share);
    else
        unit->sums.said.loss += (float)(pass->loss * pass->share);
    unit->sums.kept = unit->sums.kept || pass->kept;
}

/* Kept losses are this rank's, and join the other ones. */
static int take_kept(struct unit *unit, struct error *err)
{
    double loss;
    int rc = verdict_take_loss(strategy_verdict(&unit->strategy), &loss, err);
    if (rc)
        return rc;
    unit->sums.said.loss += (float)loss;
    unit->sums.kept = false;
    return 0;
}

int sums_say(struct unit *unit, struct error *err)
{
    insist(unit->sums.phase == WINDOW_SUMMING);
    bool stays = unit->ctx->group.world == 1 || strategy_sums_losses(&unit->strategy);
    int rc = unit->sums.kept && !stays ? take_kept(unit, err) : 0;
    if (!rc)
        strategy_say(&unit->strategy, unit->sums.said.numbers, CONSENSUS_NUMBERS);
    return rc;
}

int sums_finish(struct unit *unit, double scale, struct error *err)
{
    struct window_sums *sums = &unit->sums;
    int rc = strategy_finish(&unit->strategy, err);
    if (!rc && strategy_sums_losses(&unit->strategy)) {
        rc = strategy_sum_losses(&unit->strategy, err);
        sums->kept = true;
    }
    if (rc)
        return rc;
    memcpy(sums->heard.numbers, strategy_heard(&unit->strategy), sizeof(sums->heard.numbers));
    strategy_open(&unit->strategy, scale);
    set_phase(sums, WINDOW_COMPLETE);
    return 0;
}

int sums_clip(struct unit *unit, double max_norm)
{
    insist(unit->sums.phase == WINDOW_COMPLETE);
    int rc = strategy_measure(&unit->strategy);
    if (rc)
        return rc;
    unit->sums.clipped = true;
    if (max_norm > 0)
        verdict_clip(strategy_verdict(&unit->strategy), max_norm);
    return 0;
}

int sums_limit(struct unit *unit, double most)
{
    insist(unit->sums.phase == WINDOW_COMPLETE);
    return strategy_clamp(&unit->strategy, most);
}

int sums_judge(struct unit *unit)
{
    insist(unit->sums.phase == WINDOW_COMPLETE);
    return strategy_judge(&unit->strategy, (double)unit->sums.heard.loss);
}

int sums_result(struct unit *unit, struct sums_result *ret, struct error *err)
{
    struct window_sums *sums = &unit->sums;
    const struct verdict_values *values;
    insist(sums->phase == WINDOW_COMPLETE);
    int rc = verdict_fetch(strategy_verdict(&unit->strategy), &values, err);
    if (!rc && !(values->applies > 0))
        rc = strategy_check(&unit->strategy, err);
    if (rc)
        return rc;
    if (sums->kept)
        sums->heard.loss += (float)values->loss;
    sums->kept = false;
    *ret = (struct sums_result){.norm = sums->clipped ? values->norm : 0,
                                .finite = values->finite > 0 && isfinite(values->scale)};
    return 0;
}

int sums_first_nonfinite(struct unit *unit, int *ret_index)
{
    insist(unit->sums.phase == WINDOW_COMPLETE);
    return strategy_first_nonfinite(&unit->strategy, ret_index);
}

void sums_clear(struct unit *unit)
{
    strategy_clear(&unit->strategy);
    set_phase(&unit->sums, WINDOW_EMPTY);
    unit->sums = (struct window_sums){.phase = WINDOW_EMPTY};
}
