/* SwiGLU (Shazeer 2020), by the table's kernels: gate and up side by side in each row. */
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/room.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

/* Rows that are converted together; a row is never split. */
static int64_t rows_at_once(int64_t inner)
{
    return TILE_MAX / inner > 0 ? TILE_MAX / inner : 1;
}

static int64_t inner_of(const struct op_call *call)
{
    return call->out[0].shape[call->out[0].dims - 1];
}

static bool is_straight(const struct op_call *call, bool backward)
{
    bool low = tensor_is_low(&call->in[0]);
    return !low && !(backward ? call->d_in[0].add : tensor_is_low(&call->out[0]));
}

static size_t swiglu_scratch(const struct op_call *call, bool backward)
{
    int64_t inner = inner_of(call), rows = rows_at_once(inner);
    (void)backward;
    return 2 * room_rounded((size_t)(2 * rows * inner) * sizeof(float));
}

/* The rows from `first` on, and how many. */
static int64_t rows_from(const struct op_call *call, int64_t first, bool backward)
{
    int64_t inner = inner_of(call), rows = call->out[0].count / inner - first;
    return is_straight(call, backward) || rows < rows_at_once(inner) ? rows : rows_at_once(inner);
}

static void swiglu_forward(const struct op_call *call)
{
    const struct kernel_table *k = call->pass->kernels;
    int64_t inner = inner_of(call);
    uint8_t *rest = call->scratch;
    float *x_room = room_take(&rest, 2 * rows_at_once(inner) * inner, sizeof(float));
    float *y_room = room_take(&rest, 2 * rows_at_once(inner) * inner, sizeof(float));
    for (int64_t r = 0, n; (n = rows_from(call, r, false)) > 0; r += n) {
        const float *x = tile_read(k, &call->in[0], 2 * r * inner, 2 * n * inner, x_room);
        float *y = tile_target(&call->out[0], r * inner, y_room);
        k->swiglu_forward(y, x, n, inner);
        tile_store(k, &call->out[0], r * inner, n * inner, y);
    }
}

static void swiglu_backward(const struct op_call *call)
{
    const struct kernel_table *k = call->pass->kernels;
    const float *dout = call->d_out.data;
    int64_t inner = inner_of(call);
    uint8_t *rest = call->scratch;
    float *x_room = room_take(&rest, 2 * rows_at_once(inner) * inner, sizeof(float));
    float *dx_room = room_take(&rest, 2 * rows_at_once(inner) * inner, sizeof(float));
    for (int64_t r = 0, n; call->d_in[0].data && (n = rows_from(call, r, true)) > 0; r += n) {
        const float *x = tile_read(k, &call->in[0], 2 * r * inner, 2 * n * inner, x_room);
        float *dx = tile_target(&call->d_in[0], 2 * r * inner, dx_room);
        k->swiglu_backward(dx, x, dout + r * inner, (int64_t[]){n, inner});
        tile_store(k, &call->d_in[0], 2 * r * inner, 2 * n * inner, dx);
    }
}

static void swiglu_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    cost_elements(call, backward, backward ? 10 : 5, ret);
}

static int swiglu_shape(struct op_signature *s, struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    int rc = rule_values(s, err);
    if (!rc)
        rc = rule_dims(s, 0, (int[]){1, WK_TENSOR_DIMS_MAX}, err);
    if (rc)
        return rc;
    struct dim last = rule_last(s->in[0]), half = dim_over(last, dim_fixed(2));
    if (!half.fixed || !dim_is_fixed(last))
        return error_set(err, WK_EINVAL, "%s; the last dimension is fixed and even: gate and up",
                         tensor_text(s->in[0], text));
    s->out[0] = rule_output(s->in[0], 0);
    s->out[0].shape[s->out[0].dims - 1] = half;
    return 0;
}

const struct op_row op_swiglu = {
    .name = "swiglu",
    .result = RESULT_LIKE,
    .min_in = 1,
    .max_in = 1,
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH,
    .shape = swiglu_shape,
    .keeps = OP_IN(0),
    .differentiable = OP_IN(0),
    .scratch_bytes = swiglu_scratch,
    .cost = swiglu_cost,
    .forward = swiglu_forward,
    .backward = swiglu_backward,
};

struct wk_tensor *wk_op_swiglu(struct wk_tensor *x)
{
    return graph_add(&(struct node_request){.row = &op_swiglu, .n_in = 1, .in = {x}});
}
