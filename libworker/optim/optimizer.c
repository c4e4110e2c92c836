#include <assert.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <worker/worker.h>

#include "common/base/str.h"
#include "libworker/device/cpu.h"
#include "libworker/device/kernels.h"
#include "libworker/nn/model.h"
#include "libworker/optim/state.h"

/* Also after work that failed. */
static void unbind(struct wk_optimizer *o)
{
    if (o->segments)
        (void)queue_finish(o->queue, NULL);
    (void)host_state_settle(&o->host, NULL);
    noted_close(o);
    for (int i = 0; i < OPTIMIZER_STATES_MAX; i++) {
        state_free(o, o->state[i], o->count);
        o->state[i] = NULL;
    }
    free(o->segments);
    state_free(o, o->own, o->own_count);
    device_memory_free(queue_device(o->queue), o->scratch, o->scratch_count * sizeof(float));
    host_state_fini(&o->host);
    o->segments = NULL;
    o->own = o->scratch = NULL;
    o->n_segments = 0;
    o->first = o->count = o->own_count = o->scratch_count = o->behind = 0;
    o->mapped = false;
    o->copy = (struct optimizer_copy){0};
}

void wk_optimizer_free(struct wk_optimizer *o)
{
    if (!o || o->owned_by)
        return;
    unbind(o);
    cpu_close(o->own_queue);
    free(o);
}

void optimizer_move(struct wk_optimizer *o, struct queue *queue)
{
    unbind(o);
    o->queue = queue ? queue : o->own_queue;
}

double wk_optimizer_rate(const struct wk_optimizer *o)
{
    return o->base_rate * o->factor;
}

const char *optimizer_state_name(const struct wk_optimizer *o, int i)
{
    return i >= 0 && i < o->ops->n_states ? o->ops->state_names[i] : NULL;
}

int optimizer_options_check(const void *options, struct error *err)
{
    return options ? 0 : error_set(err, WK_EINVAL, "an optimizer's options are NULL");
}

int optimizer_rate_check(double rate, double weight_decay, struct error *err)
{
    if (!(rate > 0) || !isfinite(rate))
        return error_set(err, WK_EINVAL, "rate is %g: it must be above 0", rate);
    if (!(weight_decay >= 0) || !isfinite(weight_decay))
        return error_set(err, WK_EINVAL, "weight_decay is %g: it must be 0 or more", weight_decay);
    return 0;
}

int optimizer_beta_check(const char *name, double beta, struct error *err)
{
    if (beta >= 0 && beta < 1)
        return 0;
    return error_set(err, WK_EINVAL, "%s is %g: it must be in [0, 1)", name, beta);
}

int optimizer_refuse(const struct error *err, struct wk_optimizer **ret_optimizer)
{
    *ret_optimizer = NULL;
    return error_keep_of(WK_OBJECT_OPTIMIZER, err);
}

int optimizer_new(const struct optimizer_ops *ops, double rate, double weight_decay,
                  struct wk_optimizer **ret_optimizer)
{
    struct error err = {0};
    struct wk_optimizer *o = calloc(1, sizeof(*o));
    if (!o || cpu_open(&o->own_queue, NULL)) {
        free(o);
        (void)error_set(&err, WK_ENOMEM, "no memory for an optimizer");
        return optimizer_refuse(&err, ret_optimizer);
    }
    o->ops = ops;
    o->kernels = kernel_cpu();
    o->queue = o->own_queue;
    o->base_rate = rate;
    o->weight_decay = weight_decay;
    o->factor = 1;
    *ret_optimizer = o;
    return 0;
}

/* Refuse a call on NULL, or on a prepared optimizer. */
static int check_new(const struct wk_optimizer *o, const char *call, struct error *err)
{
    const char *why = error_kept_of(WK_OBJECT_OPTIMIZER);
    if (!o)
        return error_set(err, WK_EINVAL, "%s of NULL instead of an optimizer%s%s", call,
                         *why ? ": " : "", why);
    if (o->segments)
        return error_set(err, WK_ESTATE, "%s after wk_prepare: call it before", call);
    return 0;
}

static int refuse_call(const struct wk_optimizer *o, const struct error *err)
{
    return o ? error_tell(&o->ear, err, true) : error_keep(err);
}

int wk_optimizer_over(struct wk_optimizer *o, const struct wk_model *model)
{
    struct error err = {0};
    const char *why = error_kept_of(WK_OBJECT_MODEL);
    int rc = check_new(o, "wk_optimizer_over", &err);
    if (!rc && !model)
        rc = error_set(&err, WK_EINVAL, "wk_optimizer_over was given NULL instead of a model%s%s",
                       *why ? ": " : "", why);
    if (rc)
        return refuse_call(o, &err);
    o->over = model;
    return 0;
}

static int check_group(const struct wk_optimizer *o, const struct wk_group *group,
                       struct error *err)
{
    int rc = check_new(o, "wk_optimizer_group", err);
    if (rc)
        return rc;
    if (!group || !group->pattern)
        return error_set(err, WK_EINVAL, "wk_optimizer_group was given no pattern");
    if (strlen(group->pattern) >= WK_PATTERN_MAX)
        return error_set(err, WK_EINVAL, "the pattern \"%.40s...\" has %zu bytes, more than %d",
                         group->pattern, strlen(group->pattern), WK_PATTERN_MAX - 1);
    if (!(group->rate_scale >= 0) || !isfinite(group->rate_scale))
        return error_set(err, WK_EINVAL, "group \"%s\": rate_scale is %g: it must be 0 or more",
                         group->pattern, group->rate_scale);
    if (!isfinite(group->weight_decay))
        return error_set(err, WK_EINVAL, "group \"%s\": weight_decay is %g", group->pattern,
                         group->weight_decay);
    if (o->n_groups == WK_GROUPS_MAX)
        return error_set(err, WK_ENOMEM, "group \"%s\": an optimizer has %d groups at most",
                         group->pattern, WK_GROUPS_MAX);
    return 0;
}

int wk_optimizer_group(struct wk_optimizer *o, const struct wk_group *group)
{
    struct error err = {0};
    if (check_group(o, group, &err))
        return refuse_call(o, &err);
    struct optimizer_group *added = &o->groups[o->n_groups++];
    (void)str_copy(added->pattern, sizeof(added->pattern), group->pattern);
    added->numbers = *group;
    added->numbers.pattern = NULL;
    return 0;
}

/* The options that apply to a parameter. */
static struct optimizer_segment numbers_of(const struct wk_optimizer *o, const struct param *param)
{
    struct optimizer_segment s = {.weight_decay = param->decay ? o->weight_decay : 0,
                                  .rate_scale = 1};
    for (int i = 0; i < o->n_groups; i++) {
        if (fnmatch(o->groups[i].pattern, param->name, 0) != 0)
            continue;
        const struct wk_group *group = &o->groups[i].numbers;
        s.rate_scale = group->rate_scale;
        s.elementwise = group->elementwise;
        if (group->weight_decay >= 0)
            s.weight_decay = group->weight_decay;
        break;
    }
    s.decay = s.weight_decay != 0;
    return s;
}

bool optimizer_decays(const struct wk_optimizer *o, const struct param *params, int n_params)
{
    for (int i = 0; i < n_params; i++) {
        struct optimizer_segment s = numbers_of(o, &params[i]);
        if (s.decay && s.rate_scale > 0)
            return true;
    }
    return false;
}

static bool same_numbers(const struct optimizer_segment *a, const struct optimizer_segment *b)
{
    return a->weight_decay == b->weight_decay && a->rate_scale == b->rate_scale;
}

/* The parts of the parameters inside the range. Where tensors may be joined, neighbours of one kind
 * are joined, together with the unused elements between them. */
static void cut_segments(struct wk_optimizer *o, const struct param *params, int n_params)
{
    int n = 0;
    size_t first = o->first, end = o->first + o->count;
    for (int i = 0; i < n_params; i++) {
        size_t from = params[i].offset > first ? params[i].offset : first;
        size_t to = params[i].offset + params[i].count;
        to = to < end ? to : end;
        if (from >= to)
            continue;
        struct optimizer_segment s = numbers_of(o, &params[i]);
        s.offset = from - first;
        s.count = to - from;
        s.param = o->ops->whole_tensors ? &params[i] : NULL;
        if (n > 0 && !s.param && same_numbers(&o->segments[n - 1], &s))
            o->segments[n - 1].count = to - first - o->segments[n - 1].offset;
        else
            o->segments[n++] = s;
    }
    o->n_segments = n;
}

size_t optimizer_elements(const struct optimizer_shape *shape)
{
    size_t count = shape->dims ? 1 : 0;
    for (int i = 0; i < shape->dims; i++)
        count *= (size_t)shape->shape[i];
    return count;
}

/* Allocate each tensor's own state and find the largest scratch. */
static int allocate_own(struct wk_optimizer *o, struct error *err)
{
    size_t total = 0, scratch = 0;
    for (int pass = 0; pass < 2; pass++) {
        float *next = o->own;
        for (int i = 0; i < o->n_segments; i++) {
            struct optimizer_segment *segment = &o->segments[i];
            for (int s = 0; s < o->ops->n_states; s++) {
                struct optimizer_shape shape = o->ops->state_shape(segment, s);
                size_t count = optimizer_elements(&shape);
                total += pass ? 0 : count;
                segment->own[s] = pass && count ? next : NULL;
                next = pass ? next + count : NULL;
            }
            size_t needed = o->ops->scratch(segment);
            scratch = needed > scratch ? needed : scratch;
        }
        if (pass)
            break;
        o->own_count = total + 1;
        o->own = state_new(o, o->own_count, err);
        if (!o->own)
            return err && err->code ? err->code : WK_ENOMEM;
    }
    return state_scratch(o, scratch + 1, err);
}

static int open_host(struct wk_optimizer *o, struct error *err)
{
    const struct host_state_parts parts = {o->offload.masters.host,
                                           o->offload.host ? o->ops->n_states : 0};
    bool goes = (parts.master || parts.n_states) && !device_host_reads(queue_device(o->queue));
    return goes ? host_state_init(&o->host, o->queue, o->count, parts, err) : 0;
}

static int allocate_flat(struct wk_optimizer *o, struct error *err)
{
    int rc = open_host(o, err);
    if (rc)
        return rc;
    for (int i = 0; i < o->ops->n_states; i++) {
        o->state[i] = state_new(o, o->count, err);
        if (!o->state[i])
            return err && err->code ? err->code : WK_ENOMEM;
    }
    return 0;
}

static int refuse_cuts(const struct wk_optimizer *o, struct error *err)
{
    for (int i = 0; i < o->n_segments; i++) {
        const struct optimizer_segment *s = &o->segments[i];
        if (s->count != s->param->count)
            return error_set(err, WK_EUNSUPPORTED,
                             "%s works on whole tensors, but only %zu of %zu elements of %s are "
                             "on this rank",
                             o->ops->name, s->count, s->param->count, s->param->name);
    }
    return 0;
}

int optimizer_bind(struct wk_optimizer *o, const struct param *params, int n_params, size_t first,
                   size_t count, struct error *err)
{
    size_t total = n_params ? params[n_params - 1].offset + params[n_params - 1].count : 0;
    if (first > total || count > total - first)
        return error_set(err, WK_EINVAL, "range %zu+%zu of an arena of %zu elements", first, count,
                         total);
    unbind(o);
    o->first = first;
    o->count = count;
    o->steps = 0;
    o->mapped = o->offload.dir && *o->offload.dir;
    if (o->mapped && !device_host_reads(queue_device(o->queue)))
        return error_set(err, WK_EUNSUPPORTED,
                         "offloaded state is in the host's memory, which device %s does not use",
                         device_name(queue_device(o->queue)));
    int rc = device_kernel_need(queue_device(o->queue), "optimizer", o->ops->name, err);
    if (rc)
        return rc;
    o->segments = calloc((size_t)n_params + 1, sizeof(*o->segments));
    rc = o->segments ? 0 : error_set(err, WK_ENOMEM, "no memory for %d segments", n_params);
    if (!rc)
        cut_segments(o, params, n_params);
    if (!rc && o->ops->whole_tensors)
        rc = refuse_cuts(o, err);
    if (!rc)
        rc = o->ops->whole_tensors ? allocate_own(o, err) : allocate_flat(o, err);
    if (rc)
        unbind(o);
    return rc;
}

int optimizer_set_copy(struct wk_optimizer *o, const struct optimizer_copy *copy, struct error *err)
{
    if (!o->segments)
        return error_set(err, WK_ESTATE, "the optimizer has no parameters yet: prepare it first");
    bool good = copy->type == WK_BF16 || (copy->type == WK_F16 && !copy->stochastic);
    if (copy->low && !good)
        return error_set(err, WK_EINVAL,
                         "copies are in bf16 or f16, rounded by chance in bf16 only");
    o->copy = *copy;
    return 0;
}

static struct optimizer_view view_of_own(const struct wk_optimizer *o, int state,
                                         const struct param *param)
{
    struct optimizer_view view = {0};
    for (int i = 0; i < o->n_segments; i++) {
        const struct optimizer_segment *segment = &o->segments[i];
        if (segment->param != param || !segment->own[state])
            continue;
        struct optimizer_shape shape = o->ops->state_shape(segment, state);
        view.dims = shape.dims;
        memcpy(view.shape, shape.shape, sizeof(view.shape));
        view.count = optimizer_elements(&shape);
        view.data = segment->own[state];
    }
    return view;
}

struct optimizer_view optimizer_state_view(const struct wk_optimizer *o, int state,
                                           const struct param *param)
{
    assert(state >= 0 && state < o->ops->n_states);
    if (o->ops->whole_tensors)
        return view_of_own(o, state, param);
    struct optimizer_view view = {.dims = param->dims};
    memcpy(view.shape, param->shape, sizeof(view.shape));
    size_t end = o->first + o->count, to = param->offset + param->count;
    size_t from = param->offset > o->first ? param->offset : o->first;
    to = to < end ? to : end;
    if (from < to) {
        view.first = from - param->offset;
        view.count = to - from;
        view.data = o->state[state] + (from - o->first);
    }
    return view;
}
