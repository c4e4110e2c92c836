/* Operations that move elements, on a GPU: slice, concat, transpose, window, gather_rows and
 * positions. */
#include "libworker/cuda/kernels/move.h"

#include "libworker/cuda/kernels/scatter.h"
#include "libworker/cuda/op.h"
#include "libworker/cuda/values.h"
#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/move.h"
#include "libworker/graph/op/starts.h"

_Static_assert((int)MOVE_DIMS_MAX == WK_TENSOR_DIMS_MAX, "any tensor can be turned");

static struct gpu_array array_of(const struct op_tensor *tensor)
{
    return (struct gpu_array){.at = tensor->data, .type = tensor->type};
}

/* Rows of `span` elements side by side on both sides. */
static struct gpu_move move_of(const struct op_tensor *to, const struct op_tensor *from,
                               int64_t span)
{
    return (struct gpu_move){.to = array_of(to),
                             .from = array_of(from),
                             .add = to->add,
                             .rows = span ? to->count / span : 0,
                             .span = span,
                             .to_apart = span,
                             .from_apart = span};
}

static void slice_forward(const struct op_call *call, struct cuda_queue *queue)
{
    const struct slice_attributes *slice = call->node->attributes;
    const struct op_tensor *x = &call->in[0];
    int64_t inner = move_inner(x, slice->dim);
    struct gpu_move move = move_of(&call->out[0], x, slice->count * inner);
    move.from_first = slice->first * inner;
    move.from_apart = x->shape[slice->dim] * inner;
    gpu_move_apart(&move, queue->stream);
}

/* What is beside the slice becomes 0, unless it is added to. */
static void slice_backward(const struct op_call *call, struct cuda_queue *queue)
{
    const struct slice_attributes *slice = call->node->attributes;
    const struct op_tensor *dx = &call->d_in[0];
    int64_t inner = move_inner(&call->in[0], slice->dim);
    struct gpu_part part = {
        .all = call->in[0].shape[slice->dim], .first = slice->first, .count = slice->count};
    struct gpu_move move = move_of(dx, &call->d_out, inner);
    if (!dx->data)
        return;
    if (!dx->add) {
        gpu_move_part(&move, &part, queue->stream);
        return;
    }
    move.rows = move_outer(&call->in[0], slice->dim);
    move.span = move.from_apart = slice->count * inner;
    move.to_first = slice->first * inner;
    move.to_apart = part.all * inner;
    gpu_move_apart(&move, queue->stream);
}

/* Each part to its place in the result, or its gradient from there. */
static void concat_parts(const struct op_call *call, bool backward, cudaStream_t stream)
{
    const struct concat_attributes *concat = call->node->attributes;
    int64_t inner = move_inner(&call->out[0], concat->dim);
    int64_t apart = call->out[0].shape[concat->dim] * inner, skip = 0;
    for (int i = 0; i < call->node->n_in; i++) {
        const struct op_tensor *part = backward ? &call->d_in[i] : &call->in[i];
        int64_t span = call->in[i].shape[concat->dim] * inner;
        struct gpu_move move =
            backward ? move_of(part, &call->d_out, span) : move_of(&call->out[0], part, span);
        move.rows = move_outer(&call->out[0], concat->dim);
        *(backward ? &move.from_apart : &move.to_apart) = apart;
        *(backward ? &move.from_first : &move.to_first) = skip;
        if (part->data)
            gpu_move_apart(&move, stream);
        skip += span;
    }
}

static void concat_forward(const struct op_call *call, struct cuda_queue *queue)
{
    concat_parts(call, false, queue->stream);
}

static void concat_backward(const struct op_call *call, struct cuda_queue *queue)
{
    concat_parts(call, true, queue->stream);
}

/* Dimension i of the result is dimension order[i] of x; backward, the other way round. */
static struct gpu_turn turn_of(const struct op_call *call, bool backward)
{
    const struct transpose_attributes *transpose = call->node->attributes;
    const struct op_tensor *from = backward ? &call->out[0] : &call->in[0];
    struct gpu_turn turn = {.dims = from->dims};
    int64_t stride[WK_TENSOR_DIMS_MAX] = {0}, next = 1;
    for (int i = from->dims - 1; i >= 0; i--) {
        stride[i] = next;
        next *= from->shape[i];
    }
    for (int i = 0; i < from->dims; i++) {
        int to = backward ? transpose->order[i] : i, source = backward ? i : transpose->order[i];
        turn.size[to] = from->shape[source];
        turn.stride[to] = stride[source];
    }
    return turn;
}

static void transpose_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_turn turn = turn_of(call, false);
    struct gpu_move move = move_of(&call->out[0], &call->in[0], 1);
    gpu_move_turned(&move, &turn, queue->stream);
}

static void transpose_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_turn turn = turn_of(call, true);
    struct gpu_move move = move_of(&call->d_in[0], &call->d_out, 1);
    if (call->d_in[0].data)
        gpu_move_turned(&move, &turn, queue->stream);
}

static struct gpu_windows windows_of(const struct op_call *call)
{
    const struct window_attributes *window = call->node->attributes;
    const struct op_tensor *x = &call->in[0];
    return (struct gpu_windows){.rows = x->shape[0] * x->shape[1],
                                .length = x->shape[1],
                                .window = window->positions,
                                .width = x->shape[2]};
}

static void window_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_windows windows = windows_of(call);
    struct gpu_move move = move_of(&call->out[0], &call->in[0], windows.width);
    gpu_move_window(&move, windows.length, windows.window, queue->stream);
}

static void window_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_windows windows = windows_of(call);
    if (call->d_in[0].data)
        gpu_scatter_windows(&windows, gradient_of(&call->d_in[0]), call->d_out.data, queue->stream);
}

enum { ROWS = 0, INDEX = 1 };

static struct gpu_numbered numbered_of(const struct op_call *call)
{
    return (struct gpu_numbered){.index = call->in[INDEX].data,
                                 .samples = call->in[ROWS].shape[0],
                                 .n = call->in[INDEX].shape[1],
                                 .rows = call->in[ROWS].shape[1]};
}

static void gather_rows_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_numbered numbered = numbered_of(call);
    int64_t width = move_inner(&call->in[ROWS], 1);
    struct gpu_move move = move_of(&call->out[0], &call->in[ROWS], width);
    gpu_move_numbered(&move, &numbered, queue->stream);
}

static void gather_rows_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_numbered numbered = numbered_of(call);
    if (call->d_in[ROWS].data)
        gpu_scatter_numbered(&numbered, gradient_of(&call->d_in[ROWS]), call->d_out.data,
                             move_inner(&call->in[ROWS], 1), queue->stream);
}

enum { TABLE = 0, STARTS = 1 };

static struct gpu_placed placed_of(const struct op_call *call)
{
    return (struct gpu_placed){.starts = starts_of(call, STARTS),
                               .samples = call->in[STARTS].shape[0],
                               .length = call->in[STARTS].shape[1],
                               .past = call->pass->past};
}

static void positions_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct gpu_placed placed = placed_of(call);
    struct gpu_move move = move_of(&call->out[0], &call->in[TABLE], call->in[TABLE].shape[1]);
    gpu_move_placed(&move, &placed, queue->stream);
}

static void positions_backward(const struct op_call *call, struct cuda_queue *queue)
{
    const struct op_tensor *table = &call->in[TABLE];
    struct gpu_placed placed = placed_of(call);
    if (call->d_in[TABLE].data)
        gpu_scatter_placed(&placed, table->shape[0], gradient_of(&call->d_in[TABLE]),
                           call->d_out.data, table->shape[1], queue->stream);
}

#define MOVE_OP(op)                                                                                \
    const struct cuda_op cuda_op_##op = {                                                          \
        .name = #op, .forward = op##_forward, .backward = op##_backward}

MOVE_OP(concat);
MOVE_OP(gather_rows);
MOVE_OP(positions);
MOVE_OP(slice);
MOVE_OP(transpose);
MOVE_OP(window);
