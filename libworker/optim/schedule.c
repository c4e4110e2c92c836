#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <worker/worker.h>

#include "common/base/parse.h"
#include "libworker/optim/optimizer.h"
#include "libworker/optim/schedule.h"

static const double PI = 3.14159265358979323846;

static double half_cosine(double from, double to, double done)
{
    return to + (from - to) * 0.5 * (1 + cos(PI * done));
}

static double falling(const struct wk_schedule_options *o, double done)
{
    double left = o->kind == WK_SCHEDULE_COSINE ? half_cosine(1, 0, done) : 1 - done;
    return o->min_ratio + (1 - o->min_ratio) * left;
}

static double wsd(const struct wk_schedule_options *o, int64_t step)
{
    int64_t since = step - (o->total_steps - o->decay_steps);
    double done = (double)since / (double)o->decay_steps;
    if (since <= 0)
        return 1;
    return o->min_ratio + (1 - o->min_ratio) * (o->root ? 1 - sqrt(done) : 1 - done);
}

static double one_cycle(const struct wk_schedule_options *o, int64_t step)
{
    int64_t peak = o->warmup_steps - 1, last = o->total_steps - 1;
    if (step <= peak)
        return peak > 0 ? half_cosine(o->initial_ratio, 1, (double)step / (double)peak) : 1;
    double done = (double)(step - peak) / (double)(last - peak);
    return half_cosine(1, o->min_ratio, done < 1 ? done : 1);
}

/* The factor of one that has no parts. */
static double simple_factor(const struct wk_schedule_options *o, int64_t step)
{
    if (o->kind == WK_SCHEDULE_ONE_CYCLE)
        return one_cycle(o, step);
    double warm = step < o->warmup_steps ? (double)(step + 1) / (double)o->warmup_steps : 1;
    if (o->kind == WK_SCHEDULE_LAMBDA)
        return warm * o->lambda(o->arg, step);
    if (step < o->warmup_steps || o->kind == WK_SCHEDULE_CONSTANT)
        return warm;
    if (step >= o->total_steps)
        return o->min_ratio;
    if (o->kind == WK_SCHEDULE_WSD)
        return wsd(o, step);
    return falling(o,
                   (double)(step - o->warmup_steps) / (double)(o->total_steps - o->warmup_steps));
}

double schedule_factor(const struct wk_schedule_options *o, int64_t step)
{
    double product = 1;
    switch (o->kind) {
    case WK_SCHEDULE_PRODUCT:
        for (int i = 0; i < o->n_parts; i++)
            product *= simple_factor(&o->parts[i], step);
        return product;
    case WK_SCHEDULE_SEQUENCE:
        for (int i = 0; i < o->n_parts - 1; i++)
            if (step < o->ends[i])
                return simple_factor(&o->parts[i], step - (i ? o->ends[i - 1] : 0));
        return simple_factor(&o->parts[o->n_parts - 1],
                             step - (o->n_parts > 1 ? o->ends[o->n_parts - 2] : 0));
    case WK_SCHEDULE_CONSTANT:
    case WK_SCHEDULE_LINEAR:
    case WK_SCHEDULE_COSINE:
    case WK_SCHEDULE_WSD:
    case WK_SCHEDULE_ONE_CYCLE:
    case WK_SCHEDULE_LAMBDA:
        break;
    }
    return simple_factor(o, step);
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

static bool is_ratio(double x)
{
    return x >= 0 && x <= 1;
}

static int check_ends(const struct wk_schedule_options *o, struct error *err)
{
    if (o->total_steps > o->warmup_steps)
        return 0;
    return error_set(err, WK_EINVAL, "total_steps is %lld: it must be above warmup_steps, %lld",
                     (long long)o->total_steps, (long long)o->warmup_steps);
}

static int check_wsd(const struct wk_schedule_options *o, struct error *err)
{
    int rc = check_ends(o, err);
    if (rc)
        return rc;
    return number_within("decay_steps", o->decay_steps, 1, o->total_steps - o->warmup_steps, err);
}

static int check_one_cycle(const struct wk_schedule_options *o, struct error *err)
{
    int rc = number_within("warmup_steps", o->warmup_steps, 1, INT64_MAX, err);
    if (rc)
        return rc;
    return check_ends(o, err);
}

static int check_simple(const struct wk_schedule_options *o, struct error *err)
{
    if (o->warmup_steps < 0)
        return error_set(err, WK_EINVAL, "warmup_steps is %lld", (long long)o->warmup_steps);
    if (!is_ratio(o->min_ratio) || !is_ratio(o->initial_ratio))
        return error_set(err, WK_EINVAL, "min_ratio %g and initial_ratio %g must be in [0, 1]",
                         o->min_ratio, o->initial_ratio);
    switch (o->kind) {
    case WK_SCHEDULE_CONSTANT:
        return 0;
    case WK_SCHEDULE_LINEAR:
    case WK_SCHEDULE_COSINE:
        return check_ends(o, err);
    case WK_SCHEDULE_WSD:
        return check_wsd(o, err);
    case WK_SCHEDULE_ONE_CYCLE:
        return check_one_cycle(o, err);
    case WK_SCHEDULE_LAMBDA:
        return o->lambda ? 0 : error_set(err, WK_EINVAL, "lambda is NULL");
    case WK_SCHEDULE_PRODUCT:
    case WK_SCHEDULE_SEQUENCE:
        break;
    }
    return error_set(err, WK_EINVAL, "a part is neither a product nor a sequence");
}

int schedule_check(const struct wk_schedule_options *o, struct error *err)
{
    if (!o)
        return error_set(err, WK_EINVAL, "a schedule's options are NULL");
    if (o->kind != WK_SCHEDULE_PRODUCT && o->kind != WK_SCHEDULE_SEQUENCE)
        return check_simple(o, err);
    if (!o->parts)
        return error_set(err, WK_EINVAL, "parts is NULL");
    int rc = number_within("n_parts", o->n_parts, 1, WK_SCHEDULE_PARTS_MAX, err);
    for (int i = 0; i < o->n_parts && !rc; i++) {
        int64_t before = i ? o->ends[i - 1] : 0;
        bool rises = o->kind == WK_SCHEDULE_PRODUCT || i == o->n_parts - 1 || o->ends[i] > before;
        rc = rises ? check_simple(&o->parts[i], err)
                   : error_set(err, WK_EINVAL, "its end, %lld, is not after the one before",
                               (long long)o->ends[i]);
        if (rc)
            (void)error_wrap(err, "part %d", i);
    }
    return rc;
}

int wk_scheduler_new(struct wk_optimizer *optimizer, const struct wk_schedule_options *options,
                     struct wk_scheduler **ret_scheduler)
{
    *ret_scheduler = NULL;
    struct error err = {0};
    const char *why = error_kept_of(WK_OBJECT_OPTIMIZER);
    int rc = optimizer
                 ? schedule_check(options, &err)
                 : error_set(&err, WK_EINVAL, "a schedule needs its optimizer, and it is NULL%s%s",
                             *why ? ": " : "", why);
    struct wk_scheduler *s = rc ? NULL : calloc(1, sizeof(*s));
    if (!rc && !s)
        rc = error_set(&err, WK_ENOMEM, "no memory for a scheduler");
    if (rc)
        return error_keep_of(WK_OBJECT_SCHEDULER, &err);
    s->options = *options;
    if (options->parts && options->n_parts > 0 && options->n_parts <= WK_SCHEDULE_PARTS_MAX)
        memcpy(s->parts, options->parts, (size_t)options->n_parts * sizeof(*s->parts));
    s->options.parts = s->parts;
    s->optimizer = optimizer;
    scheduler_set_step(s, 0);
    *ret_scheduler = s;
    return 0;
}

void wk_scheduler_free(struct wk_scheduler *s)
{
    if (!s || s->owned_by)
        return;
    free(s);
}
