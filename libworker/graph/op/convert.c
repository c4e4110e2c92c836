/* An input of the batch as f32 or i32: what operations compute with. Floats are rounded, true is 1,
 * a whole number outside i32 becomes the nearest one in it. An input that the batch may lack, and
 * lacks, is zeros. */
#include <string.h>

#include <worker/error.h>

#include "libworker/graph/element.h"
#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/tile.h"

static void to_f32(const struct op_tensor *from, int64_t first, float *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)element_value(from->data, from->type, first + i);
}

static int32_t clamped(int64_t value)
{
    if (value < INT32_MIN)
        return INT32_MIN;
    return value > INT32_MAX ? INT32_MAX : (int32_t)value;
}

static void convert_forward(const struct op_call *call)
{
    const struct kernel_table *kernels = call->pass->kernels;
    const struct op_tensor *from = &call->in[0], *to = &call->out[0];
    int32_t *wholes = to->data;
    if (!from->data) {
        memset(to->data, 0, (size_t)to->count * wk_dtype_bytes(to->type));
        return;
    }
    for (int64_t i = 0; to->type == WK_I32 && i < to->count; i++)
        wholes[i] = clamped(element_whole(from->data, from->type, i));
    for (int64_t at = 0, n; to->type != WK_I32 && (n = tile_at(to->count, at)) > 0; at += n) {
        float room[TILE_MAX], *values = tile_target(to, at, room);
        to_f32(from, at, values, n);
        tile_store(kernels, to, at, n, values);
    }
}

static bool is_float(enum wk_dtype type)
{
    return type == WK_F32 || type == WK_F64 || type == WK_F16 || type == WK_BF16;
}

static int convert_shape(struct op_signature *s, struct error *err)
{
    const struct convert_attributes *convert = s->attributes;
    const char *from = wk_dtype_name(s->in[0]->type), *to = wk_dtype_name(convert->type);
    if (convert->type != WK_F32 && convert->type != WK_I32)
        return error_set(err, WK_EINVAL, "%s to %s; it makes f32 or i32", from, to);
    if (convert->type == WK_I32 && is_float(s->in[0]->type))
        return error_set(err, WK_EINVAL, "%s to %s; only whole numbers become i32", from, to);
    s->out[0] = *s->in[0];
    s->out[0].type = convert->type;
    return 0;
}

static void convert_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    cost_elements(call, backward, 1, ret);
}

static const struct op_attribute convert_attributes[] = {
    OP_ATTRIBUTE(struct convert_attributes, type), {0}};

const struct op_row op_convert = {
    .name = "convert",
    .attributes = convert_attributes,
    .min_in = 1,
    .max_in = 1,
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH | OP_CUT_COLUMNS,
    .shape = convert_shape,
    .result = RESULT_WIDE,
    .converts = true,
    .cost = convert_cost,
    .forward = convert_forward,
};

/* One node for each input and type, however often it is read. */
static struct wk_tensor *converted_already(const struct wk_tensor *x, enum wk_dtype type)
{
    for (int i = 0; i < x->graph->n_nodes; i++) {
        const struct node *node = x->graph->nodes[i];
        if (node->row == &op_convert && node->in[0] == x && node->out[0]->type == type)
            return node->out[0];
    }
    return NULL;
}

struct wk_tensor *wk_op_convert(struct wk_tensor *x, enum wk_dtype type)
{
    struct convert_attributes convert = {type};
    struct wk_tensor *found = x && x->type == type ? x : NULL;
    if (x && !found && !x->graph->error.code)
        found = converted_already(x, type);
    if (found)
        return found;
    return graph_add_exact(&(struct node_request){.row = &op_convert,
                                                  .attributes = &convert,
                                                  .attributes_bytes = sizeof(convert),
                                                  .n_in = 1,
                                                  .in = {x}});
}
