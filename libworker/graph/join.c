#include "libworker/graph/join.h"

#include <stdlib.h>

#include <worker/error.h>

#include "libworker/device/kernels.h"
#include "libworker/graph/op/norm.h"

/* Missing, or a parameter that the block has at hand. */
static bool is_own_param(const struct wk_tensor *tensor, const struct work *work)
{
    return !tensor || (tensor->kind == TENSOR_PARAM && tensor->block == work->node->block);
}

static bool is_pair(const struct work *add, const struct work *norm)
{
    bool pair = add->node->row == &op_add && norm->node->row->after_add &&
                norm->in[0] == add->out[0] && norm->node->block == add->node->block;
    for (int i = 0; i < 2 && pair; i++)
        pair = tensor_same_shape(add->in[i], add->out[0]);
    for (int i = 1; i < NODE_INPUTS_MAX && pair; i++)
        pair = is_own_param(norm->in[i], norm);
    return pair;
}

/* One node for both. Its tensors have the shapes of the launch. */
static struct node joined_node(const struct work *add, const struct work *norm)
{
    struct node node = *norm->node;
    node.row = &op_add_norm;
    node.n_in = norm->node->n_in + 1;
    node.n_out = norm->node->n_out + 1;
    node.in[0] = add->in[0];
    node.in[1] = add->in[1];
    node.out[0] = add->out[0];
    for (int i = 1; i < norm->node->n_in; i++)
        node.in[i + 1] = norm->node->in[i];
    for (int i = 0; i < norm->node->n_out; i++)
        node.out[i + 1] = norm->node->out[i];
    return node;
}

/* Devices with kernels of their own may lack that of both. */
static bool is_apart(const struct plan_options *options)
{
    const struct device *device = options->device;
    return options->apart ||
           (device && device_has_kernels(device) && !device_kernel_find(device, op_add_norm.name));
}

int join_find(struct emitter *e)
{
    const struct work *works = e->trace.works;
    int pairs = 0;
    e->joined = calloc((size_t)e->trace.n + 1, sizeof(struct node *));
    if (!e->joined)
        return WK_ENOMEM;
    bool apart = is_apart(&e->plan->options);
    for (int i = 0; i + 1 < e->trace.n && !apart; i++)
        pairs += is_pair(&works[i], &works[i + 1]);
    if (!pairs)
        return 0;
    e->plan->joined = calloc((size_t)pairs, sizeof(*e->plan->joined));
    if (!e->plan->joined)
        return WK_ENOMEM;
    for (int i = e->trace.n - 2; i >= 0; i--) {
        if (!is_pair(&works[i], &works[i + 1]))
            continue;
        e->plan->joined[--pairs] = joined_node(&works[i], &works[i + 1]);
        e->joined[i] = &e->plan->joined[pairs];
    }
    return 0;
}

/* Its memory is still needed after work number `at`, or is not the region's. */
static bool outlives(const struct emitter *e, const struct wk_tensor *tensor, int at, bool again)
{
    const struct wk_tensor *base = tensor_base(tensor);
    if (base->kind != TENSOR_VALUE)
        return true;
    if (again)
        return e->keep.kept[base->id];
    return e->trace.last[base->id] > at ||
           (e->keep.kept[base->id] && !e->recompute.again[base->id]);
}

bool join_fits(const struct emitter *e, const struct work *add, bool again)
{
    int at = (int)(add - e->trace.works);
    const struct work *norm = add + 1;
    if (!e->joined[at])
        return false;
    if (emit_is_free_for(e, norm, add->in[1]))
        return true;
    return (emit_is_free_for(e, add, add->in[0]) || outlives(e, add->in[0], at + 1, again)) &&
           outlives(e, add->in[1], at + 1, again);
}

/* A result, in the memory of input `in` of the launch or, with -1, in its own. */
static int result(struct emitter *e, const struct wk_tensor *tensor, int in, bool again)
{
    int storage = in < 0 ? -1 : e->plan->values[in].storage;
    int number = emit_result(e, tensor, storage);
    e->value[again ? 1 : 0][tensor->id] = number;
    return number;
}

void join_emit(struct emitter *e, const struct work *add, bool again)
{
    const struct work *norm = add + 1;
    struct launch launch = emit_blank(LAUNCH_FORWARD);
    launch.node = e->joined[add - e->trace.works];
    launch.sum = add->node;
    launch.again = again;
    for (int i = 0; i < ADD_NORM_WEIGHT; i++)
        launch.in[i] = emit_read(e, add, add->in[i], again);
    for (int i = 1; i < norm->node->n_in; i++)
        launch.in[i + 1] = norm->in[i] ? emit_read(e, norm, norm->in[i], again) : -1;
    bool sum_there = emit_is_free_for(e, add, add->in[0]);
    bool norm_there = emit_is_free_for(e, norm, add->in[1]);
    launch.out[0] = result(e, add->out[0], sum_there ? launch.in[0] : -1, again);
    launch.out[1] = result(e, norm->out[0], norm_there ? launch.in[1] : -1, again);
    for (int i = 1; i < norm->node->n_out; i++)
        launch.out[i + 1] = result(e, norm->out[i], -1, again);
    emit_kernel(e, &launch);
}
