/* Dimensions in another order. Dimensions that stay together are moved as one. Where the innermost
 * is the same in both, it is copied in spans. Otherwise the innermost of both are a matrix, which
 * is transposed in blocks: neither side is read or written across cache lines. */
#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/move.h"

enum { BLOCK = 32 };

/* The result's dimensions from the outermost on, with the stride of each in the input. */
struct turn {
    int n;
    int64_t size[WK_TENSOR_DIMS_MAX], stride[WK_TENSOR_DIMS_MAX];
    int64_t span; /* elements that stay together at the end */
};

/* Add a dimension of the result, or let the last one grow where it continues in the input. */
static void turn_grow(struct turn *t, int64_t size, int64_t stride)
{
    if (size == 1)
        return;
    if (t->n && t->stride[t->n - 1] == size * stride) {
        t->size[t->n - 1] *= size;
        t->stride[t->n - 1] = stride;
        return;
    }
    t->size[t->n] = size;
    t->stride[t->n++] = stride;
}

static struct turn turn_finish(struct turn t)
{
    t.span = 1;
    if (t.n && t.stride[t.n - 1] == 1)
        t.span = t.size[--t.n];
    return t;
}

static void strides_of(const int64_t *shape, int dims, int64_t ret_stride[WK_TENSOR_DIMS_MAX])
{
    int64_t stride = 1;
    for (int i = dims - 1; i >= 0; i--) {
        ret_stride[i] = stride;
        stride *= shape[i];
    }
}

static struct turn turn_of(const struct op_call *call, bool backward)
{
    const struct transpose_attributes *transpose = call->node->attributes;
    const struct op_tensor *in = &call->in[0], *out = &call->out[0];
    struct turn t = {0};
    int64_t stride[WK_TENSOR_DIMS_MAX];
    strides_of(backward ? out->shape : in->shape, in->dims, stride);
    for (int i = 0; i < in->dims; i++) {
        int from = transpose->order[i];
        for (int k = 0; backward && k < in->dims; k++)
            from = transpose->order[k] == i ? k : from;
        turn_grow(&t, backward ? in->shape[i] : out->shape[i], stride[from]);
    }
    return turn_finish(t);
}

/* A block of a matrix that is turned: `rows` of the result, `apart` in it, of `cols` elements that
 * are `stride` apart in the input, where rows are `next` apart. */
struct block {
    int64_t to, from, rows, cols, apart, stride, next;
};

/* A type's name takes no parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
#define BLOCK_COPY(type)                                                                           \
    for (int64_t i = 0; i < b->rows; i++) {                                                        \
        type *y = (type *)to->data + b->to + i * b->apart;                                         \
        const type *x = (const type *)from->data + b->from + i * b->next;                          \
        for (int64_t j = 0; j < b->cols; j++)                                                      \
            y[j] = x[j * b->stride];                                                               \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

/* One element, from another type or added. */
static void element_turn(const struct kernel_table *k, const struct op_tensor *to,
                         const struct op_tensor *from, const int64_t at[2])
{
    float x_room, y_room, *y = tile_target(to, at[0], &y_room);
    *y = *tile_read(k, from, at[1], 1, &x_room);
    tile_store(k, to, at[0], 1, y);
}

static void block_turn(const struct kernel_table *k, const struct op_tensor *to,
                       const struct op_tensor *from, const struct block *b)
{
    size_t bytes = wk_dtype_bytes(to->type);
    if (to->type == from->type && !to->add && bytes == 2) {
        BLOCK_COPY(uint16_t)
    } else if (to->type == from->type && !to->add && bytes == 4) {
        BLOCK_COPY(uint32_t)
    } else if (to->type == from->type && !to->add && bytes == 8) {
        BLOCK_COPY(uint64_t)
    } else if (to->type == from->type && !to->add) {
        BLOCK_COPY(uint8_t)
    } else {
        for (int64_t i = 0; i < b->rows; i++) {
            for (int64_t j = 0; j < b->cols; j++)
                element_turn(
                    k, to, from,
                    (int64_t[]){b->to + i * b->apart + j, b->from + i * b->next + j * b->stride});
        }
    }
}

/* The matrix of the result's last dimension and of the one that is innermost in the input. */
static void matrix_turn(const struct kernel_table *k, const struct op_tensor *to,
                        const struct op_tensor *from, const struct block *whole)
{
    for (int64_t i = 0; i < whole->rows; i += BLOCK) {
        for (int64_t j = 0; j < whole->cols; j += BLOCK) {
            struct block b = *whole;
            b.to += i * b.apart + j;
            b.from += i * b.next + j * b.stride;
            b.rows = b.rows - i < BLOCK ? b.rows - i : BLOCK;
            b.cols = b.cols - j < BLOCK ? b.cols - j : BLOCK;
            block_turn(k, to, from, &b);
        }
    }
}

/* Which dimension of the result is innermost in the input; the last but one if none is. */
static int innermost_of(const struct turn *t)
{
    int best = -1;
    for (int i = 0; i < t->n - 1; i++)
        best = best < 0 || t->stride[i] < t->stride[best] ? i : best;
    return best;
}

static void turn_spans(const struct kernel_table *k, const struct op_tensor *to,
                       const struct op_tensor *from, const struct turn *t)
{
    for (int64_t at = 0; at < to->count; at += t->span) {
        int64_t source = 0, rest = at / t->span;
        for (int i = t->n - 1; i >= 0; i--) {
            source += rest % t->size[i] * t->stride[i];
            rest /= t->size[i];
        }
        tile_copy(k, to, from, (int64_t[]){at, source}, t->span);
    }
}

static void turn_blocks(const struct kernel_table *k, const struct op_tensor *to,
                        const struct op_tensor *from, const struct turn *t)
{
    int rows = innermost_of(t), last = t->n - 1;
    int64_t out_stride[WK_TENSOR_DIMS_MAX], matrix = t->size[last];
    strides_of(t->size, t->n, out_stride);
    struct block whole = {.rows = 1, .cols = t->size[last], .stride = t->stride[last]};
    if (rows >= 0) {
        whole.rows = t->size[rows];
        whole.apart = out_stride[rows];
        whole.next = t->stride[rows];
        matrix *= t->size[rows];
    }
    for (int64_t m = 0; m < to->count / matrix; m++) {
        int64_t rest = m;
        whole.to = whole.from = 0;
        for (int i = last - 1; i >= 0; i--) {
            if (i == rows)
                continue;
            whole.to += rest % t->size[i] * out_stride[i];
            whole.from += rest % t->size[i] * t->stride[i];
            rest /= t->size[i];
        }
        matrix_turn(k, to, from, &whole);
    }
}

static void turn(const struct kernel_table *k, const struct op_tensor *to,
                 const struct op_tensor *from, const struct turn *t)
{
    if (!to->count)
        return;
    if (t->span > 1 || !t->n)
        turn_spans(k, to, from, t);
    else
        turn_blocks(k, to, from, t);
}

static void transpose_forward(const struct op_call *call)
{
    struct turn t = turn_of(call, false);
    turn(call->pass->kernels, &call->out[0], &call->in[0], &t);
}

static void transpose_backward(const struct op_call *call)
{
    struct turn t = turn_of(call, true);
    if (call->d_in[0].data)
        turn(call->pass->kernels, &call->d_in[0], &call->d_out, &t);
}

static int transpose_shape(struct op_signature *s, struct error *err)
{
    const struct transpose_attributes *transpose = s->attributes;
    const struct wk_tensor *x = s->in[0];
    char text[TENSOR_TEXT_MAX];
    unsigned seen = 0;
    s->out[0] = rule_output(x, 0);
    s->out[0].type = move_type(x);
    for (int i = 0; i < x->dims; i++) {
        int from = transpose->order[i];
        if (from >= 0 && from < x->dims)
            seen |= 1u << from;
        if (from >= 0 && from < x->dims)
            s->out[0].shape[i] = x->shape[from];
    }
    if (seen != (1u << x->dims) - 1 ||
        (x->dims < WK_TENSOR_DIMS_MAX && transpose->order[x->dims] >= 0))
        return error_set(err, WK_EINVAL, "%s; the order names each of its %d dimensions once",
                         tensor_text(x, text), x->dims);
    return 0;
}

static const struct op_attribute transpose_attributes[] = {
    OP_ATTRIBUTE(struct transpose_attributes, order[0]),
    OP_ATTRIBUTE(struct transpose_attributes, order[1]),
    OP_ATTRIBUTE(struct transpose_attributes, order[2]),
    OP_ATTRIBUTE(struct transpose_attributes, order[3]),
    OP_ATTRIBUTE(struct transpose_attributes, order[4]),
    OP_ATTRIBUTE(struct transpose_attributes, order[5]),
    {0},
};

const struct op_row op_transpose = {
    .name = "transpose",
    .attributes = transpose_attributes,
    .result = RESULT_LIKE,
    .min_in = 1,
    .max_in = 1,
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH,
    .shape = transpose_shape,
    .differentiable = OP_IN(0),
    .cost = move_cost,
    .forward = transpose_forward,
    .backward = transpose_backward,
};

struct wk_tensor *wk_op_transpose(struct wk_tensor *x, struct wk_shape order)
{
    struct transpose_attributes transpose;
    for (int i = 0; i < WK_TENSOR_DIMS_MAX; i++) {
        bool fits = i < order.dims && order.size[i] >= 0 && order.size[i] < WK_TENSOR_DIMS_MAX;
        transpose.order[i] = fits ? (int)order.size[i] : -1;
    }
    return graph_add(&(struct node_request){.row = &op_transpose,
                                            .attributes = &transpose,
                                            .attributes_bytes = sizeof(transpose),
                                            .n_in = 1,
                                            .in = {x}});
}
