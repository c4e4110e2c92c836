#include <math.h>

#include "libworker/optim/clip.h"

static const double CLIP_EPSILON = 1e-6; /* torch.nn.utils.clip_grad_norm_'s */

double clip_sum_squares(const struct kernel_table *kernels, const float *grads, size_t count)
{
    return kernels->sum_squares(grads, count);
}

double clip_factor(double norm, double max_norm)
{
    if (!isfinite(norm))
        return NAN;
    double factor = max_norm / (norm + CLIP_EPSILON);
    return factor < 1 ? factor : 1;
}

void clip_clamp(float *grads, size_t count, float limit)
{
    for (size_t i = 0; i < count; i++) {
        float g = grads[i];
        g = g > limit ? limit : g;
        grads[i] = g < -limit ? -limit : g;
    }
}
