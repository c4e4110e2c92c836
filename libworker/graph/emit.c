/* Values and their memory while a plan is made. */
#include "libworker/graph/emit.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/array.h"
#include "libworker/graph/bend.h"
#include "libworker/graph/describe.h"

void emit_fini(struct emitter *e)
{
    recompute_fini(&e->recompute);
    trace_fini(&e->trace);
    free(e->value[0]);
    free(e->value[1]);
    keep_fini(&e->keep);
    free(e->joined);
    free(e->grads);
    free(e->storages);
    free(e->sharers);
    *e = (struct emitter){0};
}

/* *array with a place for one more. False without memory: then the plan is given up at its end, and
 * until then the last item replaces those that are missing. */
static bool grow(struct emitter *e, void **array, int count, int *capacity, size_t each)
{
    void *grown = array_reserve_or_null(*array, count, capacity, each);
    if (grown)
        *array = grown;
    else
        e->without_memory = true;
    return grown;
}

static int new_storage(struct emitter *e, size_t bytes)
{
    struct storage storage = {.bytes = bytes, .first = 1, .last = 0};
    if (!grow(e, (void **)&e->storages, e->n_storages, &e->storages_capacity, sizeof(storage)) ||
        !grow(e, (void **)&e->sharers, e->n_storages, &e->sharers_capacity, sizeof(*e->sharers)))
        return e->n_storages - 1;
    e->sharers[e->n_storages] = 0;
    e->storages[e->n_storages] = storage;
    return e->n_storages++;
}

static int append_value(struct emitter *e, const struct plan_value *value)
{
    struct plan *plan = e->plan;
    if (!grow(e, (void **)&plan->values, plan->n_values, &plan->values_capacity, sizeof(*value)))
        return plan->n_values - 1;
    plan->values[plan->n_values] = *value;
    return plan->n_values++;
}

static int value_of_form(struct emitter *e, const struct op_tensor *form, int storage)
{
    struct plan_value value = {.type = form->type, .dims = form->dims, .count = form->count};
    memcpy(value.shape, form->shape, sizeof(value.shape));
    size_t bytes = (size_t)value.count * wk_dtype_bytes(value.type);
    value.storage = storage >= 0 ? storage : new_storage(e, bytes);
    return append_value(e, &value);
}

int emit_value(struct emitter *e, const struct wk_tensor *tensor, enum wk_dtype type, int storage)
{
    struct op_tensor form = describe_tensor(tensor, &e->plan->options.sizes);
    form.type = type;
    return value_of_form(e, &form, storage);
}

int emit_value_in(struct emitter *e, int value, int storage)
{
    struct plan_value copy = e->plan->values[value];
    copy.storage = storage;
    return append_value(e, &copy);
}

int emit_result(struct emitter *e, const struct wk_tensor *tensor, int storage)
{
    return value_of_form(e, &e->keep.form[tensor->id], storage);
}

/* Places for the first of each kind, so that there is one to replace later ones. */
static bool has_first(struct emitter *e)
{
    static const struct wk_tensor nothing = {.dims = 1};
    (void)new_storage(e, 0);
    if (!e->without_memory)
        (void)emit_value(e, &nothing, WK_F32, 0);
    return !e->without_memory;
}

void emit_begin(struct emitter *e)
{
    e->n_storages = 0;
    e->plan->n_launches = e->plan->n_values = 0;
    e->plan->cache_bytes = 0;
    for (int i = 0; i < e->graph->n_tensors; i++) {
        e->value[0][i] = e->value[1][i] = -1;
        e->grads[i] = (struct grad){.value = -1};
    }
    (void)has_first(e);
}

static bool has_arrays(struct emitter *e)
{
    size_t tensors = (size_t)e->graph->n_tensors + 1;
    e->value[0] = malloc(tensors * sizeof(int));
    e->value[1] = malloc(tensors * sizeof(int));
    e->grads = calloc(tensors, sizeof(*e->grads));
    return e->value[0] && e->value[1] && e->grads && has_first(e);
}

int emit_init(struct emitter *e, const struct wk_graph *graph, struct plan *plan, const int *blocks,
              struct error *err)
{
    *e = (struct emitter){.graph = graph, .plan = plan, .blocks = blocks};
    int rc = trace_init(&e->trace, graph, &plan->options.trace, err);
    if (rc)
        return rc;
    rc = has_arrays(e) ? 0 : WK_ENOMEM;
    if (!rc)
        rc = keep_init(&e->keep, graph, &e->trace, &plan->options);
    if (!rc)
        rc = bend_find(e);
    const struct recompute_pass pass = {graph, &e->trace, &plan->options.sizes, &e->keep};
    if (!rc)
        rc = recompute_init(&e->recompute, &pass);
    if (!rc)
        return 0;
    emit_fini(e);
    return error_set(err, rc, "no memory to plan the model");
}

/* The view has as many rows as there are positions, so other ones when some are before. */
static bool follows_position(const struct wk_tensor *tensor)
{
    while (tensor->node && tensor->node->row != &op_prefix)
        tensor = tensor->node->in[0];
    return tensor->node;
}

/* The value of an input, a parameter or a buffer, also through a view of one. */
static int outside_value(struct emitter *e, const struct wk_tensor *tensor,
                         const struct wk_tensor *base)
{
    bool param = base->kind == TENSOR_PARAM, buffer = base->kind == TENSOR_BUFFER;
    enum wk_dtype type = param && base->dims > 1 ? e->plan->options.compute : base->type;
    int number = emit_value(e, tensor, type, 0);
    struct plan_value *value = &e->plan->values[number];
    value->kind = param ? VALUE_IN_PARAM : buffer ? VALUE_IN_BUFFER : VALUE_IN_INPUT;
    value->index = base->index;
    value->storage = -1;
    if (buffer)
        value->offset = e->graph->buffers[base->index].offset * sizeof(float);
    if (e->plan->options.trace.decode && param && follows_position(tensor))
        value->step = (size_t)(value->count / value->shape[0]) * wk_dtype_bytes(type);
    return number;
}

int emit_read(struct emitter *e, const struct work *work, struct wk_tensor *tensor, bool again)
{
    const struct wk_tensor *base = tensor_base(tensor);
    if (base->kind != TENSOR_VALUE) {
        int *number = &e->value[0][tensor->id];
        if (*number < 0)
            *number = outside_value(e, tensor, base);
        return *number;
    }
    bool own = again && e->recompute.again[tensor->id] && base->block == work->node->block;
    return e->value[own ? 1 : 0][tensor->id];
}

struct launch emit_blank(enum launch_kind kind)
{
    struct launch launch = {.kind = kind, .d_out = -1, .scratch = -1, .cache = -1};
    for (int i = 0; i < NODE_INPUTS_MAX; i++)
        launch.in[i] = launch.d_in[i] = -1;
    for (int i = 0; i < NODE_OUTPUTS_MAX; i++)
        launch.out[i] = -1;
    return launch;
}

static void touch(struct emitter *e, int value)
{
    if (value < 0 || e->plan->values[value].storage < 0)
        return;
    struct storage *storage = &e->storages[e->plan->values[value].storage];
    int now = e->plan->n_launches;
    if (storage->first > storage->last)
        storage->first = now;
    storage->last = now;
}

void emit_launch(struct emitter *e, const struct launch *launch)
{
    struct plan *plan = e->plan;
    for (int i = 0; i < NODE_INPUTS_MAX; i++) {
        touch(e, launch->in[i]);
        touch(e, launch->d_in[i]);
    }
    for (int i = 0; i < NODE_OUTPUTS_MAX; i++)
        touch(e, launch->out[i]);
    touch(e, launch->d_out);
    touch(e, launch->scratch);
    if (grow(e, (void **)&plan->launches, plan->n_launches, &plan->launches_capacity,
             sizeof(*launch)))
        plan->launches[plan->n_launches++] = *launch;
}
