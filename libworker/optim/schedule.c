#include <math.h>
#include <stdlib.h>

#include "libworker/optim/optimizer.h"
#include "libworker/optim/schedule.h"

static const double PI = 3.14159265358979323846;

double schedule_factor(const struct wk_schedule_options *o, int64_t step)
{
    if (step < o->warmup_steps)
        return (double)(step + 1) / (double)o->warmup_steps;
    if (o->kind == WK_SCHEDULE_CONSTANT)
        return 1;
    if (step >= o->total_steps)
        return o->min_ratio;

    double span = (double)(o->total_steps - o->warmup_steps);
    double done = (double)(step - o->warmup_steps) / span;
    double left = o->kind == WK_SCHEDULE_COSINE ? 0.5 * (1 + cos(PI * done)) : 1 - done;
    return o->min_ratio + (1 - o->min_ratio) * left;
}

void scheduler_set_step(struct wk_scheduler *s, int64_t step)
{
    s->step = step;
    s->optimizer->factor = schedule_factor(&s->options, step);
}

void scheduler_advance(struct wk_scheduler *s)
{
    scheduler_set_step(s, s->step + 1);
}

static bool acceptable(const struct wk_schedule_options *o)
{
    bool falls = o->kind == WK_SCHEDULE_LINEAR || o->kind == WK_SCHEDULE_COSINE;
    return (falls || o->kind == WK_SCHEDULE_CONSTANT) && o->warmup_steps >= 0 &&
           (!falls || o->total_steps > o->warmup_steps) && o->min_ratio >= 0 && o->min_ratio <= 1;
}

int wk_scheduler_new(struct wk_optimizer *optimizer, const struct wk_schedule_options *options,
                     struct wk_scheduler **ret_scheduler)
{
    if (!optimizer || !acceptable(options))
        return WK_EINVAL;
    struct wk_scheduler *s = calloc(1, sizeof(*s));
    if (!s)
        return WK_ENOMEM;
    s->options = *options;
    s->optimizer = optimizer;
    scheduler_set_step(s, 0);
    *ret_scheduler = s;
    return 0;
}

void wk_scheduler_free(struct wk_scheduler *s)
{
    free(s);
}
