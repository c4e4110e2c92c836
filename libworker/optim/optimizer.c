#include <stdlib.h>

#include "libworker/nn/model.h"
#include "libworker/optim/optimizer.h"

static void release(struct wk_optimizer *o)
{
    for (int i = 0; i < OPTIMIZER_STATES_MAX; i++) {
        free(o->state[i]);
        o->state[i] = NULL;
    }
    free(o->segments);
    o->segments = NULL;
    o->n_segments = 0;
    o->count = 0;
}

void wk_optimizer_free(struct wk_optimizer *o)
{
    if (!o)
        return;
    release(o);
    free(o);
}

double wk_optimizer_rate(const struct wk_optimizer *o)
{
    return o->base_rate * o->factor;
}

const char *optimizer_state_name(const struct wk_optimizer *o, int i)
{
    return i >= 0 && i < o->ops->n_states ? o->ops->state_names[i] : NULL;
}

int optimizer_new(const struct optimizer_ops *ops, double rate, struct wk_optimizer **ret_optimizer)
{
    struct wk_optimizer *o = calloc(1, sizeof(*o));
    if (!o)
        return WK_ENOMEM;
    o->ops = ops;
    o->kernels = kernel_cpu();
    o->base_rate = rate;
    o->factor = 1;
    *ret_optimizer = o;
    return 0;
}

/* The parts of the parameters inside [first, end), neighbours of one kind joined. */
static int cut_segments(struct optimizer_segment *segments, const struct param *params,
                        int n_params, size_t first, size_t end)
{
    int n = 0;
    for (int i = 0; i < n_params; i++) {
        size_t from = params[i].offset > first ? params[i].offset : first;
        size_t to = params[i].offset + params[i].count;
        to = to < end ? to : end;
        if (from >= to)
            continue;
        if (n > 0 && segments[n - 1].decay == params[i].decay)
            segments[n - 1].count += to - from;
        else
            segments[n++] = (struct optimizer_segment){from - first, to - from, params[i].decay};
    }
    return n;
}

int optimizer_bind(struct wk_optimizer *o, const struct param *params, int n_params, size_t first,
                   size_t count, struct error *err)
{
    size_t total = n_params ? params[n_params - 1].offset + params[n_params - 1].count : 0;
    if (first > total || count > total - first)
        return error_set(err, WK_EINVAL, "range %zu+%zu of an arena of %zu elements", first, count,
                         total);
    release(o);
    o->segments = calloc((size_t)n_params + 1, sizeof(*o->segments));
    bool complete = o->segments != NULL;
    for (int i = 0; i < o->ops->n_states; i++) {
        o->state[i] = calloc(count + 1, sizeof(float));
        complete = complete && o->state[i];
    }
    if (!complete) {
        release(o);
        return error_set(err, WK_ENOMEM, "no memory for the state of %zu parameters", count);
    }
    o->n_segments = cut_segments(o->segments, params, n_params, first, first + count);
    o->count = count;
    o->steps = 0;
    return 0;
}

int optimizer_step(struct wk_optimizer *o, float *params, const float *grads, float grad_scale,
                   struct error *err)
{
    if (!o->segments)
        return error_set(err, WK_ESTATE, "the optimizer has no parameters yet: prepare it first");
    o->steps++;
    for (int i = 0; i < o->n_segments; i++) {
        const struct optimizer_segment *segment = &o->segments[i];
        o->ops->step(o, segment, params + segment->offset, grads + segment->offset, grad_scale);
    }
    return 0;
}
