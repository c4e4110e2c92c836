/* Positions that are learned, counted in each document: out[samples, length, width] has the row of
 * the table for each position less its document's start. The backward pass adds rows in order. */
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/starts.h"
#include "libworker/graph/op/tile.h"

enum { TABLE, STARTS };

static int positions_shape(struct op_signature *s, struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    const struct wk_tensor *table = s->in[TABLE], *starts = s->in[STARTS];
    int rc = rule_dims(s, TABLE, (int[]){2, 2}, err);
    if (!rc)
        rc = rule_dims(s, STARTS, (int[]){2, 2}, err);
    if (!rc)
        rc = starts_shape(s, STARTS, starts, err);
    if (rc)
        return rc;
    if (table->kind != TENSOR_PARAM)
        return error_set(err, WK_EINVAL, "%s is not a parameter", tensor_text(table, text));
    if (dim_is_fixed(starts->shape[1]) && starts->shape[1].fixed > table->shape[0].fixed)
        return error_set(err, WK_EINVAL, "%s has fewer rows than a sample has positions",
                         tensor_text(table, text));
    s->out[0] = rule_output(starts, 0);
    s->out[0].shape[s->out[0].dims++] = table->shape[1];
    return 0;
}

/* The table's row for row r of the result. */
static int64_t row_of(const struct op_call *call, int64_t r)
{
    const int32_t *starts = starts_of(call, STARTS);
    int64_t at = r % call->in[STARTS].shape[1];
    return call->pass->past + at - (starts ? starts[r] : 0);
}

static void positions_forward(const struct op_call *call)
{
    const struct op_tensor *table = &call->in[TABLE], *out = &call->out[0];
    int64_t width = table->shape[1], rows = call->in[STARTS].count;
    for (int64_t r = 0; r < rows; r++)
        tile_copy(call->pass->kernels, out, table, (int64_t[]){r * width, row_of(call, r) * width},
                  width);
}

static void positions_backward(const struct op_call *call)
{
    float *dtable = call->d_in[TABLE].data;
    const float *d = call->d_out.data;
    int64_t rows = call->in[STARTS].count, width = call->in[TABLE].shape[1];
    tile_zero(call->pass->kernels, &call->d_in[TABLE]);
    for (int64_t r = 0; dtable && r < rows; r++)
        call->pass->kernels->add(dtable + row_of(call, r) * width, d + r * width, (size_t)width);
}

static void positions_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    double count = (double)call->out[0].count, starts = cost_of(&call->in[STARTS]);
    double value = (double)wk_dtype_bytes(call->in[TABLE].type);
    ret->flop = back ? count : 0;
    ret->bytes = starts + (back ? 3 * sizeof(float) * count : value * count);
    ret->bytes += back ? 0 : cost_of(&call->out[0]);
}

static const char *positions_decode_refusal(const struct node *node)
{
    bool free = dim_equal(node->in[STARTS]->shape[1], dim_of(WK_LENGTH));
    return free ? NULL : "dimension 1 is not the length";
}

const struct op_row op_positions = {
    .name = "positions",
    .min_in = 2,
    .max_in = 2,
    .cuts = OP_CUT_SAMPLES | OP_CUT_COLUMNS,
    .shape = positions_shape,
    .keeps = OP_IN(STARTS),
    .differentiable = OP_IN(TABLE),
    .index_input = 1 + STARTS,
    .index_starts = true,
    .decode_refusal = positions_decode_refusal,
    .cost = positions_cost,
    .forward = positions_forward,
    .backward = positions_backward,
};

struct wk_tensor *wk_op_positions(struct wk_tensor *param, struct wk_tensor *starts)
{
    struct node_request request = {.row = &op_positions, .n_in = 2, .in = {param, starts}};
    struct wk_tensor *positions = graph_add(&request);
    if (positions && !dim_is_fixed(starts->shape[1]))
        graph_limit_length(positions->graph, param->shape[0].fixed);
    return positions;
}
