#include "libworker/device/device.h"
#include "libworker/optim/state.h"
#include "libworker/tensor/mapped.h"

void optimizer_set_offload(struct wk_optimizer *o, const struct optimizer_offload *offload)
{
    o->offload = *offload;
}

/* A file of nothing cannot be mapped. */
static size_t mapped_count(size_t count)
{
    return count ? count : 1;
}

float *state_new(const struct wk_optimizer *o, size_t count, struct error *err)
{
    if (o->mapped)
        return mapped_new(o->offload.dir, mapped_count(count), err);
    void *state = NULL;
    if (o->host.parts.n_states)
        state = host_state_new(o->queue, count);
    else if (device_zeros_new(o->queue, count * sizeof(float), &state, NULL))
        state = NULL;
    if (!state)
        (void)error_set(err, WK_ENOMEM, "no memory for the state of %zu parameters", o->count);
    return state;
}

void state_free(const struct wk_optimizer *o, float *state, size_t count)
{
    if (o->mapped)
        mapped_free(state, mapped_count(count));
    else if (o->host.parts.n_states)
        device_pinned_free(queue_device(o->queue), state, count * sizeof(*state));
    else
        device_memory_free(queue_device(o->queue), state, count * sizeof(*state));
}

static void give_back(struct wk_optimizer *o, const float *params, size_t upto)
{
    for (int i = 0; i < o->ops->n_states; i++)
        if (o->state[i])
            mapped_give_back(o->state[i], o->behind, upto - o->behind);
    if (o->offload.params)
        mapped_give_back(params, o->behind, upto - o->behind);
    o->behind = upto;
}

void state_passed(struct wk_optimizer *o, const float *params, size_t upto)
{
    if (o->mapped && upto >= o->behind + OFFLOAD_WINDOW)
        give_back(o, params, upto);
}

void state_done(struct wk_optimizer *o, const float *params)
{
    if (!o->mapped)
        return;
    give_back(o, params, o->count);
    if (o->own)
        mapped_give_back(o->own, 0, o->own_count);
    o->behind = 0;
}

int state_scratch(struct wk_optimizer *o, size_t count, struct error *err)
{
    void *scratch = NULL;
    if (o->scratch)
        return 0;
    if (device_memory_new(queue_device(o->queue), count * sizeof(float), &scratch, NULL))
        return error_set(err, WK_ENOMEM, "no memory for the work of %s", o->ops->name);
    o->scratch = scratch;
    o->scratch_count = count;
    return 0;
}

int optimizer_state_home(struct wk_optimizer *o, struct queue **ret_queue, struct error *err)
{
    *ret_queue = o->host.parts.n_states || o->mapped ? NULL : o->queue;
    return optimizer_settle(o, err);
}

int optimizer_settle(struct wk_optimizer *o, struct error *err)
{
    return o->host.in ? host_state_settle(&o->host, err) : 0;
}
