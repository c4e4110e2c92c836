#include <assert.h>
#include <math.h>

#include "libworker/precision/amax.h"

void amax_note(struct amax_history *h, float amax)
{
    assert(h->length >= 1 && h->length <= AMAX_HISTORY_MAX);
    if (!isfinite(amax))
        return;
    h->values[h->next] = fabsf(amax);
    h->next = (h->next + 1) % h->length;
}

float amax_scale(const struct amax_history *h, float largest, int margin)
{
    float most = 0;
    for (int i = 0; i < h->length; i++)
        most = fmaxf(most, h->values[i]);
    if (most == 0)
        return 1;
    int power = (int)floor(log2((double)largest / (double)most)) - margin;
    return ldexpf(1, power < -126 ? -126 : power > 127 ? 127 : power);
}
