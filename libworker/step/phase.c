#include "libworker/step/phase.h"

#include "common/base/assert.h"

#define BIT(phase) (1u << STEP_##phase)
static const unsigned allowed[] = {
    [STEP_BOUNDARY] = BIT(BOUNDARY) | BIT(UNDER_WAY) | BIT(BROKEN) | BIT(VOID),
    [STEP_UNDER_WAY] = BIT(BOUNDARY) | BIT(BROKEN),
    [STEP_BROKEN] = BIT(BOUNDARY),
    [STEP_VOID] = BIT(BOUNDARY),
};
#undef BIT

void phase_set(enum step_phase *phase, enum step_phase to)
{
    insist(allowed[*phase] >> to & 1);
    *phase = to;
}
