#include <worker/precision.h>

#include "libworker/parallel/narrow.h"
#include "libworker/precision/noise.h"

void narrow_write(const struct narrowing *n, uint16_t *out, const float *x, size_t count,
                  uint64_t first)
{
    if (n->stochastic)
        wk_narrow_stochastic(out, x, count, noise_of_step(n->seed, n->steps ? *n->steps : 0),
                             first);
    else
        n->kernels->narrow(out, n->type, x, count);
}
