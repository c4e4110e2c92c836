#include <math.h>

#include <worker/error.h>

#include "libworker/precision/scaler.h"

static const double SCALE_MAX = 0x1p120; /* a loss times this is still a float */

static double or_usual(double value, double usual)
{
    return value == 0 ? usual : value;
}

int scaler_init(struct scaler *scaler, const struct wk_scaler_options *options, struct error *err)
{
    struct wk_scaler_options o = options ? *options : (struct wk_scaler_options){0};
    o.initial = or_usual(o.initial, 65536);
    o.growth = or_usual(o.growth, 2);
    o.backoff = or_usual(o.backoff, 0.5);
    o.least = or_usual(o.least, fmin(0x1p-14, o.initial));
    o.interval = o.interval ? o.interval : 2000;
    bool good = o.initial > 0 && o.initial <= SCALE_MAX && o.growth > 1 && isfinite(o.growth) &&
                o.backoff > 0 && o.backoff < 1 && o.least > 0 && o.least <= o.initial &&
                o.interval > 0;
    if (!good)
        return error_set(err, WK_EINVAL,
                         "a loss scale of %g, growing by %g after %lld steps, falling by %g to at "
                         "least %g makes no sense",
                         o.initial, o.growth, (long long)o.interval, o.backoff, o.least);
    *scaler = (struct scaler){.options = o, .scale = o.initial};
    return 0;
}

int scaler_update(struct scaler *s, bool finite, bool *ret_skip, struct error *err)
{
    const struct wk_scaler_options *o = &s->options;
    if (!finite) {
        if (s->scale <= o->least)
            return error_set(err, WK_EOVERFLOW,
                             "gradients are not finite even with a loss scale of %g: the loss is "
                             "not, or the rate is too high",
                             s->scale);
        s->scale = fmax(s->scale * o->backoff, o->least);
        s->clean_steps = 0;
        s->skipped++;
    } else if (++s->clean_steps == o->interval) {
        s->scale = fmin(s->scale * o->growth, SCALE_MAX);
        s->clean_steps = 0;
    }
    *ret_skip = !finite;
    return 0;
}
