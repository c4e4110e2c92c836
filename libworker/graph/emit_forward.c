#include "libworker/graph/emit.h"
#include "libworker/graph/needs.h"
#include "libworker/graph/op/room.h"
#include "libworker/graph/types.h"

/* The memory of what the kernel needs while it runs. */
static int scratch_of(struct emitter *e, const struct launch *launch)
{
    size_t bytes = needs_scratch(e->plan, launch);
    if (!bytes)
        return -1;
    struct wk_tensor tensor = {.dims = 1, .shape = {dim_fixed((int64_t)bytes)}};
    return emit_value(e, &tensor, WK_U8, -1);
}

void emit_kernel(struct emitter *e, struct launch *launch)
{
    launch->scratch = scratch_of(e, launch);
    emit_launch(e, launch);
}

bool emit_is_free_for(const struct emitter *e, const struct work *work, const struct wk_tensor *in)
{
    if (!in || in->kind != TENSOR_VALUE || in->node->row->view || e->keep.kept[in->id] ||
        e->trace.users[in->id] != 1 ||
        e->keep.form[in->id].type != e->keep.form[work->out[0]->id].type)
        return false;
    if (trace_is_root(e->graph, &e->trace, in))
        return false;
    bool again = e->recompute.again[work->out[0]->id]; /* then it is read again, or made again */
    return !again || (e->recompute.again[in->id] && in->block == work->node->block);
}

/* A view is the same memory in another shape. */
static void emit_view(struct emitter *e, const struct work *work, bool again)
{
    struct wk_tensor *out = work->out[0];
    if (tensor_base(work->in[0])->kind != TENSOR_VALUE)
        return; /* emit_read finds it */
    int in = emit_read(e, work, work->in[0], again);
    struct plan_value *base = &e->plan->values[in];
    int number = emit_value(e, out, base->type, base->storage);
    e->value[again ? 1 : 0][out->id] = number;
}

/* What the work keeps of each position for later ones. In the type of products, as what it is made
 * of, so that plans agree on it. */
static int cache_of(struct emitter *e, const struct work *work)
{
    const struct plan_options *options = &e->plan->options;
    if (!options->trace.decode || !work->node->row->cache_width)
        return -1;
    int64_t width = work->node->row->cache_width(work->node);
    struct wk_tensor tensor = {.dims = 3,
                               .shape = {dim_fixed(options->capacity),
                                         dim_fixed(options->sizes.samples), dim_fixed(width)}};
    int number = emit_value(e, &tensor, types_compute(work->node, options->compute), 0);
    struct plan_value *value = &e->plan->values[number];
    value->kind = VALUE_IN_CACHE;
    value->storage = -1;
    value->offset = e->plan->cache_bytes;
    e->plan->cache_bytes += room_rounded((size_t)value->count * wk_dtype_bytes(value->type));
    return number;
}

void emit_forward(struct emitter *e, const struct work *work, bool again)
{
    const struct op_row *row = work->node->row;
    if (row->view) {
        emit_view(e, work, again);
        return;
    }
    struct launch launch = emit_blank(row->meets ? LAUNCH_MEET : LAUNCH_FORWARD);
    launch.node = work->node;
    launch.again = again;
    launch.cache = cache_of(e, work);
    for (int i = 0; i < NODE_INPUTS_MAX; i++) {
        bool reads = work->in[i] && !(row == &op_linear && i == LINEAR_SLOPES);
        launch.in[i] = reads ? emit_read(e, work, work->in[i], again) : -1;
    }
    for (int i = 0; i < NODE_OUTPUTS_MAX; i++) {
        struct wk_tensor *out = work->out[i];
        if (!out)
            continue;
        bool in_place = i == 0 && row->in_place && emit_is_free_for(e, work, work->in[0]);
        int storage = in_place ? e->plan->values[launch.in[0]].storage : -1;
        launch.out[i] = emit_result(e, out, storage);
        e->value[again ? 1 : 0][out->id] = launch.out[i];
    }
    emit_kernel(e, &launch);
}
