#include "libworker/step/sums.h"

#include <math.h>
#include <string.h>

#include "common/base/assert.h"
#include "libworker/parallel/strategy_grads.h"
#include "libworker/step/unit.h"

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

void sums_say(struct unit *unit)
{
    insist(unit->sums.phase == WINDOW_SUMMING);
    strategy_say(&unit->strategy, unit->sums.said.numbers, CONSENSUS_NUMBERS);
}

int sums_finish(struct unit *unit, struct error *err)
{
    struct window_sums *sums = &unit->sums;
    int rc = strategy_finish(&unit->strategy, err);
    if (rc)
        return rc;
    memcpy(sums->heard.numbers, strategy_heard(&unit->strategy), sizeof(sums->heard.numbers));
    set_phase(sums, WINDOW_COMPLETE);
    return 0;
}

int sums_norm(struct unit *unit, double *ret)
{
    double squares;
    insist(unit->sums.phase == WINDOW_COMPLETE);
    int rc = strategy_squares(&unit->strategy, &squares);
    if (!rc)
        *ret = sqrt(squares) * unit->sums.scale;
    return rc;
}

int sums_limit(struct unit *unit, double most)
{
    insist(unit->sums.phase == WINDOW_COMPLETE);
    return strategy_clamp(&unit->strategy, (float)(most / unit->sums.scale));
}

int sums_finite(struct unit *unit, bool *ret)
{
    bool finite;
    insist(unit->sums.phase == WINDOW_COMPLETE);
    int rc = strategy_finite(&unit->strategy, &finite);
    if (!rc)
        *ret = finite && isfinite(unit->sums.scale);
    return rc;
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
    unit->sums = (struct window_sums){.scale = 1};
}
