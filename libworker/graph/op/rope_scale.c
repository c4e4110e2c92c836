#include "libworker/graph/op/rope_scale.h"

#include <math.h>

#include <worker/error.h>

static const double TURN = 6.283185307179586;

static int check_factor(const struct wk_rope_scaling *s, struct error *err)
{
    if (s->factor >= 1 && isfinite(s->factor))
        return 0;
    return error_set(err, WK_EINVAL, "the scaling's factor is %g; it is at least 1", s->factor);
}

static int check_range(const struct wk_rope_scaling *s, struct error *err)
{
    if (!(s->original_context >= 1 && isfinite(s->original_context)))
        return error_set(err, WK_EINVAL, "the scaling's original_context is %g; it is at least 1",
                         s->original_context);
    if (!(s->low > 0 && s->high > s->low && isfinite(s->high)))
        return error_set(err, WK_EINVAL, "the scaling's low is %g and high %g; 0 < low < high",
                         s->low, s->high);
    return check_factor(s, err);
}

int rope_scaling_check(const struct wk_rope_scaling *s, struct error *err)
{
    switch (s->type) {
    case WK_ROPE_DEFAULT:
        return 0;
    case WK_ROPE_LINEAR:
    case WK_ROPE_DYNAMIC:
        return check_factor(s, err);
    case WK_ROPE_YARN:
        if (!(s->amplitude >= 0 && isfinite(s->amplitude)))
            return error_set(err, WK_EINVAL, "the scaling's amplitude is %g; it is 0 or more",
                             s->amplitude);
        return check_range(s, err);
    case WK_ROPE_LLAMA3:
        return check_range(s, err);
    }
    return error_set(err, WK_EINVAL, "the scaling's type is %d", (int)s->type);
}

static double share_of(double x)
{
    return fmin(fmax(x, 0), 1);
}

/* The share of a frequency that is kept. */
static double llama3_kept(const struct wk_rope_scaling *s, double frequency)
{
    double rotations = s->original_context * frequency / TURN;
    return share_of((rotations - s->low) / (s->high - s->low));
}

/* The pair, counted with a fraction, that rotates this often in the original context. */
static double yarn_pair(const struct wk_rope_scaling *s, struct rope_head head, double rotations)
{
    double size = (double)head.size;
    return size * log(s->original_context / (rotations * TURN)) / (2 * log(head.theta));
}

static double yarn_kept(const struct wk_rope_scaling *s, struct rope_head head, int64_t i)
{
    double first = yarn_pair(s, head, s->high), last = yarn_pair(s, head, s->low);
    first = fmax(s->exact ? first : floor(first), 0);
    last = fmin(s->exact ? last : ceil(last), (double)head.size - 1);
    double span = last - first;
    if (fabs(span) < 1e-3) /* of one pair: a step */
        span = 1e-3;
    return 1 - share_of(((double)i - first) / span);
}

double rope_frequency(const struct wk_rope_scaling *s, struct rope_head head, int64_t i)
{
    double frequency = pow(head.theta, -(double)i / (double)(head.size / 2)), kept = 1;
    switch (s->type) {
    case WK_ROPE_DEFAULT:
    case WK_ROPE_DYNAMIC:
        return frequency;
    case WK_ROPE_LINEAR:
        kept = 0;
        break;
    case WK_ROPE_LLAMA3:
        kept = llama3_kept(s, frequency);
        break;
    case WK_ROPE_YARN:
        kept = yarn_kept(s, head, i);
        break;
    }
    return frequency * kept + frequency / s->factor * (1 - kept);
}

double rope_amplitude(const struct wk_rope_scaling *s)
{
    if (s->type != WK_ROPE_YARN)
        return 1;
    return s->amplitude > 0 ? s->amplitude : 1 + 0.1 * log(s->factor);
}
