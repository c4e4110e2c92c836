/* out[…, width] = table[index[…]]. The backward pass adds rows in the order of the indices. */
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

enum { TABLE, INDEX };

static int embedding_shape(struct op_signature *s, struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    const struct wk_tensor *table = s->in[TABLE], *index = s->in[INDEX];
    int rc = rule_dims(s, TABLE, (int[]){2, 2}, err);
    if (!rc)
        rc = rule_dims(s, INDEX, (int[]){1, WK_TENSOR_DIMS_MAX - 1}, err);
    if (rc)
        return rc;
    if (!rule_is_value(table) || !dim_is_fixed(table->shape[0]))
        return error_set(err, WK_EINVAL, "the table is %s; it takes f32 rows of a fixed number",
                         tensor_text(table, text));
    if (index->type != WK_I32)
        return error_set(err, WK_EINVAL, "the index is %s; it takes i32", tensor_text(index, text));
    s->out[0] = rule_output(index, 0);
    s->out[0].shape[s->out[0].dims++] = table->shape[1];
    return 0;
}

static int64_t rows_of_table(const struct node *node)
{
    return node->in[TABLE]->shape[0].fixed;
}

static void embedding_forward(const struct op_call *call)
{
    const struct kernel_table *kernels = call->pass->kernels;
    const struct op_tensor *table = &call->in[TABLE], *out = &call->out[0];
    const int32_t *index = call->in[INDEX].data;
    int64_t rows = call->in[INDEX].count, width = table->shape[1];
    if (table->type == WK_F32 && out->type == WK_F32) {
        kernels->embedding_forward(out->data, index, table->data, NULL,
                                   (int64_t[]){rows, 1, width});
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        tile_copy(kernels, out, table, (int64_t[]){r * width, index[r] * width}, width);
}

static void embedding_backward(const struct op_call *call)
{
    const struct op_tensor *dtable = &call->d_in[TABLE], *d = &call->d_out;
    int64_t rows = call->in[INDEX].count, width = d->shape[d->dims - 1];
    if (!dtable->data)
        return;
    tile_zero(call->pass->kernels, dtable);
    call->pass->kernels->embedding_backward(dtable->data, NULL, call->in[INDEX].data, d->data,
                                            (int64_t[]){rows, 1, width});
}

/* Rows that are looked up, not the table. */
static void embedding_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    double count = (double)call->out[0].count, index = cost_of(&call->in[INDEX]);
    double value = (double)wk_dtype_bytes(call->in[TABLE].type);
    ret->flop = back ? count : 0;
    ret->bytes = index + (back ? 3 * sizeof(float) * count : value * count);
    ret->bytes += back ? 0 : cost_of(&call->out[0]);
}

const struct op_row op_embedding = {
    .name = "embedding",
    .min_in = 2,
    .max_in = 2,
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH | OP_CUT_ROWS | OP_CUT_COLUMNS,
    .shape = embedding_shape,
    .keeps = OP_IN(INDEX),
    .differentiable = OP_IN(TABLE),
    .index_input = 1 + INDEX,
    .index_bound = rows_of_table,
    .cost = embedding_cost,
    .forward = embedding_forward,
    .backward = embedding_backward,
};

struct wk_tensor *wk_op_embedding(struct wk_tensor *table, struct wk_tensor *index)
{
    return graph_add(&(struct node_request){.row = &op_embedding, .n_in = 2, .in = {table, index}});
}
