/* Operations that move elements, and reductions. */
#include <math.h>

#include "tests/numeric/graph/harness.h"

static struct wk_tensor *reshape(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return wk_op_reshape(in[0], WK_SHAPE(WK_REST, 4));
}

static struct wk_tensor *prefix(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return wk_op_prefix(in[0]);
}

static struct wk_tensor *window(const struct op_case *c, struct wk_tensor *const *in)
{
    return wk_op_window(in[0], c->option[0]);
}

/* The oldest position first; zeros before the sample. */
static void window_reference(const struct reference *r)
{
    const int64_t *in = r->call->in[0].shape, *out = r->call->out[0].shape;
    int64_t positions = r->c->option[0];
    for (int64_t i = 0; i < r->call->out[0].count; i++) {
        int64_t at = i / out[2] % in[1], sample = i / out[2] / in[1];
        int64_t from = at + i % out[2] / in[2] - positions + 1;
        r->out[i] = from < 0 ? 0 : r->in[0][(sample * in[1] + from) * in[2] + i % in[2]];
    }
}

static struct wk_tensor *stop_gradient(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return wk_op_stop_gradient(in[0]);
}

static struct wk_tensor *transpose(const struct op_case *c, struct wk_tensor *const *in)
{
    struct wk_shape order = {.dims = c->in[0].shape.dims};
    for (int i = 0; i < order.dims; i++)
        order.size[i] = c->option[i];
    return wk_op_transpose(in[0], order);
}

static void transpose_reference(const struct reference *r)
{
    const struct op_tensor *in = &r->call->in[0], *out = &r->call->out[0];
    for (int64_t i = 0; i < out->count; i++) {
        int64_t rest = i, at = 0;
        for (int d = out->dims - 1; d >= 0; d--) {
            int64_t stride = 1;
            for (int k = r->c->option[d] + 1; k < in->dims; k++)
                stride *= in->shape[k];
            at += rest % out->shape[d] * stride;
            rest /= out->shape[d];
        }
        r->out[i] = r->in[0][at];
    }
}

static struct wk_tensor *slice(const struct op_case *c, struct wk_tensor *const *in)
{
    return wk_op_slice(in[0], c->option[0], c->option[1], c->option[2]);
}

static int64_t inner_of(const struct op_tensor *x, int dim)
{
    int64_t inner = 1;
    for (int i = dim + 1; i < x->dims; i++)
        inner *= x->shape[i];
    return inner;
}

static void slice_reference(const struct reference *r)
{
    const struct op_tensor *in = &r->call->in[0], *out = &r->call->out[0];
    int dim = r->c->option[0];
    int64_t inner = inner_of(in, dim), n = out->shape[dim];
    for (int64_t i = 0; i < out->count; i++) {
        int64_t outer = i / inner / n, at = i / inner % n + r->c->option[1];
        r->out[i] = r->in[0][(outer * in->shape[dim] + at) * inner + i % inner];
    }
}

static struct wk_tensor *concat(const struct op_case *c, struct wk_tensor *const *in)
{
    return wk_op_concat(in, c->option[1], c->option[0]);
}

static void concat_reference(const struct reference *r)
{
    const struct op_tensor *out = &r->call->out[0];
    int dim = r->c->option[0];
    int64_t inner = inner_of(out, dim);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t outer = i / inner / out->shape[dim], at = i / inner % out->shape[dim];
        int part = 0;
        while (at >= r->call->in[part].shape[dim])
            at -= r->call->in[part++].shape[dim];
        r->out[i] = r->in[part][(outer * r->call->in[part].shape[dim] + at) * inner + i % inner];
    }
}

static struct wk_tensor *gather_rows(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return wk_op_gather_rows(in[0], in[1]);
}

static void gather_rows_reference(const struct reference *r)
{
    const struct op_tensor *in = &r->call->in[0], *index = &r->call->in[1];
    int64_t each = inner_of(in, 1), n = index->shape[1];
    for (int64_t i = 0; i < r->call->out[0].count; i++) {
        int64_t row = i / each, from = (int64_t)r->in[1][row];
        r->out[i] = from < 0 ? 0 : r->in[0][(row / n * in->shape[1] + from) * each + i % each];
    }
}

static struct wk_tensor *reduce(const struct op_case *c, struct wk_tensor *const *in)
{
    return wk_op_reduce(in[0], (enum wk_reduce)c->option[1], c->option[0]);
}

static void reduce_reference(const struct reference *r)
{
    const struct op_tensor *in = &r->call->in[0];
    int dim = r->c->option[0], kind = r->c->option[1];
    int64_t inner = inner_of(in, dim), n = in->shape[dim];
    for (int64_t i = 0; i < r->call->out[0].count; i++) {
        const double *x = r->in[0] + i / inner * n * inner + i % inner;
        double sum = 0, most = -INFINITY;
        for (int64_t j = 0; j < n; j++) {
            sum += x[j * inner];
            most = fmax(most, x[j * inner]);
        }
        r->out[i] = kind == WK_REDUCE_MAX ? most : kind == WK_REDUCE_SUM ? sum : sum / (double)n;
    }
}

#define TURN(what_, shape_, ...)                                                                   \
    {                                                                                              \
        "transpose", what_, transpose, .in = {{shape_}}, .reference = transpose_reference,         \
                                       .option = {                                                 \
                                           __VA_ARGS__                                             \
                                       }                                                           \
    }
#define SLICE(what_, shape_, ...)                                                                  \
    {                                                                                              \
        "slice", what_, slice, .in = {{shape_}}, .reference = slice_reference, .option = {         \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define REDUCE(what_, shape_, dim, kind)                                                           \
    {                                                                                              \
        "reduce", what_, reduce, .in = {{shape_}}, .reference = reduce_reference, .option = {      \
            dim,                                                                                   \
            kind                                                                                   \
        }                                                                                          \
    }

const struct op_case cases_shapes[] = {
    {"prefix", "positions", prefix, .in = {{WK_SHAPE(9, 4), .param = true}}, .mixes = true},
    {"window", "three positions", window, .in = {{WK_SHAPE(WK_SAMPLES, WK_LENGTH, 4)}},
     .reference = window_reference, .option = {3}},
    {"window", "aligned positions", window, .in = {{WK_SHAPE(WK_SAMPLES, WK_LENGTH, 16)}},
     .reference = window_reference, .option = {2}},
    {"reshape", "merged", reshape, .in = {{WK_SHAPE(WK_SAMPLES, WK_LENGTH, 8)}}},
    {"stop_gradient", "a value", stop_gradient, .in = {{WK_SHAPE(WK_SAMPLES, 8)}}},
    TURN("a matrix", WK_SHAPE(WK_SAMPLES, 37, 43), 0, 2, 1),
    TURN("heads", WK_SHAPE(WK_SAMPLES, WK_LENGTH, 3, 4), 0, 2, 1, 3),
    TURN("samples inside", WK_SHAPE(WK_SAMPLES, 70), 1, 0),
    TURN("the same", WK_SHAPE(WK_SAMPLES, 3, 5), 0, 1, 2),
    TURN("reversed", WK_SHAPE(WK_SAMPLES, 2, 3, 4, 5), 4, 3, 2, 1, 0),
    TURN("ones", WK_SHAPE(WK_SAMPLES, 1, 6, 1), 3, 2, 1, 0),
    TURN("six", WK_SHAPE(WK_SAMPLES, 2, 3, 2, 2, 3), 0, 3, 5, 1, 4, 2),
    TURN("aligned heads", WK_SHAPE(WK_SAMPLES, WK_LENGTH, 3, 16), 0, 2, 1, 3),
    TURN("several tiles", WK_SHAPE(WK_SAMPLES, 2, 35, 66), 0, 1, 3, 2),
    {"transpose", "whole numbers", transpose,
     .in = {{WK_SHAPE(WK_SAMPLES, 7, 5), FILL_WHOLE, .type = WK_I64}},
     .reference = transpose_reference, .option = {0, 2, 1}},
    {"transpose", "bytes", transpose,
     .in = {{WK_SHAPE(WK_SAMPLES, 7, 5), FILL_WHOLE, .type = WK_U8}},
     .reference = transpose_reference, .option = {0, 2, 1}},
    {"slice", "whole numbers", slice,
     .in = {{WK_SHAPE(WK_SAMPLES, 7, 3), FILL_WHOLE, .type = WK_I64}}, .reference = slice_reference,
     .option = {1, 2, 4}},
    {"slice", "bytes", slice, .in = {{WK_SHAPE(WK_SAMPLES, 7, 3), FILL_WHOLE, .type = WK_U8}},
     .reference = slice_reference, .option = {1, 2, 4}},
    SLICE("aligned", WK_SHAPE(WK_SAMPLES, 7, 16), 1, 2, 4),
    SLICE("from an odd place", WK_SHAPE(WK_SAMPLES, 8), 1, 1, 4),
    SLICE("middle", WK_SHAPE(WK_SAMPLES, 7, 3), 1, 2, 4),
    SLICE("last", WK_SHAPE(WK_SAMPLES, WK_LENGTH, 9), 2, 0, 5),
    SLICE("all", WK_SHAPE(WK_SAMPLES, 4), 1, 0, 4),
    SLICE("wide", WK_SHAPE(WK_SAMPLES, 3, 2100), 1, 1, 2),
    {"concat", "last", concat,
     .in = {{WK_SHAPE(WK_SAMPLES, WK_LENGTH, 3)}, {WK_SHAPE(WK_SAMPLES, WK_LENGTH, 4)}},
     .reference = concat_reference, .option = {2, 2}},
    {"concat", "aligned", concat,
     .in = {{WK_SHAPE(WK_SAMPLES, WK_LENGTH, 8)}, {WK_SHAPE(WK_SAMPLES, WK_LENGTH, 16)}},
     .reference = concat_reference, .option = {2, 2}},
    {"concat", "three in the middle", concat,
     .in = {{WK_SHAPE(WK_SAMPLES, 1, 4)},
            {WK_SHAPE(WK_SAMPLES, 5, 4)},
            {WK_SHAPE(WK_SAMPLES, 2, 4)}},
     .reference = concat_reference, .option = {1, 3}},
    {"gather_rows", "some", gather_rows,
     .in = {{WK_SHAPE(WK_SAMPLES, 6, 5)}, {WK_SHAPE(WK_SAMPLES, 9), FILL_INDEX}},
     .reference = gather_rows_reference},
    {"gather_rows", "some ignored", gather_rows,
     .in = {{WK_SHAPE(WK_SAMPLES, 6, 2, 3)}, {WK_SHAPE(WK_SAMPLES, 7), FILL_TARGET}},
     .reference = gather_rows_reference},
    {"gather_rows", "aligned rows, many of them", gather_rows,
     .in = {{WK_SHAPE(WK_SAMPLES, 6, 16)}, {WK_SHAPE(WK_SAMPLES, 300), FILL_INDEX}},
     .reference = gather_rows_reference, .roundings = 128},
    REDUCE("sum of aligned rows", WK_SHAPE(WK_SAMPLES, 3, 16), 2, WK_REDUCE_SUM),
    REDUCE("sum of a long row", WK_SHAPE(WK_SAMPLES, 17000), 1, WK_REDUCE_SUM),
    REDUCE("mean of a long aligned row", WK_SHAPE(WK_SAMPLES, 1208), 1, WK_REDUCE_MEAN),
    REDUCE("sum over many aligned rows", WK_SHAPE(WK_SAMPLES, 200, 8), 1, WK_REDUCE_SUM),
    REDUCE("mean over many rows", WK_SHAPE(WK_SAMPLES, 200, 7), 1, WK_REDUCE_MEAN),
    REDUCE("largest of a wide row", WK_SHAPE(WK_SAMPLES, 100), 1, WK_REDUCE_MAX),
    REDUCE("sum of the last", WK_SHAPE(WK_SAMPLES, 3, 11), 2, WK_REDUCE_SUM),
    REDUCE("mean of the last", WK_SHAPE(WK_SAMPLES, 2100), 1, WK_REDUCE_MEAN),
    REDUCE("largest of the last", WK_SHAPE(WK_SAMPLES, 3, 11), 2, WK_REDUCE_MAX),
    REDUCE("sum over the length", WK_SHAPE(WK_SAMPLES, WK_LENGTH, 4), 1, WK_REDUCE_SUM),
    REDUCE("mean over the length", WK_SHAPE(WK_SAMPLES, WK_LENGTH, 2100), 1, WK_REDUCE_MEAN),
    REDUCE("largest over the length", WK_SHAPE(WK_SAMPLES, WK_LENGTH, 4), 1, WK_REDUCE_MAX),
    {0},
};
