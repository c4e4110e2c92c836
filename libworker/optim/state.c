#include <stdlib.h>
#include <string.h>

#include "libworker/optim/state.h"
#include "libworker/tensor/mapped.h"

void optimizer_set_offload(struct wk_optimizer *o, const struct optimizer_offload *offload)
{
    o->offload = *offload;
}

float *state_new(const struct wk_optimizer *o, size_t count, struct error *err)
{
    enum { LINE_BYTES = 64 };
    size_t bytes = (count * sizeof(float) / LINE_BYTES + 1) * LINE_BYTES;
    if (o->mapped)
        return mapped_new(o->offload.dir, bytes / sizeof(float), err);
    float *state = aligned_alloc(LINE_BYTES, bytes);
    if (!state)
        (void)error_set(err, WK_ENOMEM, "no memory for the state of %zu parameters", o->count);
    return state ? memset(state, 0, bytes) : NULL;
}

void state_free(const struct wk_optimizer *o, float *state, size_t count)
{
    enum { LINE_BYTES = 64 };
    size_t bytes = (count * sizeof(float) / LINE_BYTES + 1) * LINE_BYTES;
    if (o->mapped)
        mapped_free(state, bytes / sizeof(float));
    else
        free(state);
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
