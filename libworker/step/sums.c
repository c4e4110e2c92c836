#include "libworker/step/sums.h"

#include <math.h>
#include <string.h>

#include "common/base/assert.h"
#include "libworker/parallel/strategy_grads.h"
#include "libworker/step/unit.h"

_Static_assert((int)CONSENSUS_NUMBERS <= (int)STEP_NUMBERS_MAX, "the strategy carries them");

void sums_say(struct unit *unit)
{
    strategy_say(&unit->strategy, unit->sums.said.numbers, CONSENSUS_NUMBERS);
}

int sums_finish(struct unit *unit, struct error *err)
{
    struct window_sums *sums = &unit->sums;
    int rc = strategy_finish(&unit->strategy, err);
    if (rc)
        return rc;
    memcpy(sums->heard.numbers, strategy_heard(&unit->strategy), sizeof(sums->heard.numbers));
    sums->complete = true;
    return 0;
}

int sums_norm(struct unit *unit, double *ret)
{
    double squares;
    insist(unit->sums.complete);
    int rc = strategy_squares(&unit->strategy, &squares);
    if (!rc)
        *ret = sqrt(squares) * unit->sums.scale;
    return rc;
}

int sums_limit(struct unit *unit, double most)
{
    insist(unit->sums.complete);
    return strategy_clamp(&unit->strategy, (float)(most / unit->sums.scale));
}

int sums_finite(struct unit *unit, bool *ret)
{
    bool finite;
    insist(unit->sums.complete);
    int rc = strategy_finite(&unit->strategy, &finite);
    if (!rc)
        *ret = finite && isfinite(unit->sums.scale);
    return rc;
}

int sums_first_nonfinite(struct unit *unit, int *ret_index)
{
    insist(unit->sums.complete);
    return strategy_first_nonfinite(&unit->strategy, ret_index);
}

void sums_clear(struct unit *unit)
{
    strategy_clear(&unit->strategy);
    unit->sums = (struct window_sums){.scale = 1};
}
