/* Rows of each sample by their numbers: out[samples, n, …] = x[samples, index[samples, n], …]. A
 * number that is WK_IGNORED yields zeros and has no gradient. */
#include "libworker/graph/op/move.h"

enum { ROWS = 0, INDEX = 1 };

struct rows {
    int64_t samples, n, each, rows; /* each: elements of a row; rows of a sample in x */
    const int32_t *index;
};

static struct rows rows_of(const struct op_call *call)
{
    return (struct rows){.samples = call->in[ROWS].shape[0],
                         .n = call->in[INDEX].shape[1],
                         .each = move_inner(&call->in[ROWS], 1),
                         .rows = call->in[ROWS].shape[1],
                         .index = call->in[INDEX].data};
}

/* Where row i of the result is in x; -1 where there is none. */
static int64_t row_at(const struct rows *r, int64_t i)
{
    int64_t row = r->index[i];
    return row < 0 || row >= r->rows ? -1 : (i / r->n * r->rows + row) * r->each;
}

static void gather_rows_forward(const struct op_call *call)
{
    struct rows r = rows_of(call);
    size_t bytes = (size_t)r.each * wk_dtype_bytes(call->out[0].type);
    for (int64_t i = 0; i < r.samples * r.n; i++) {
        int64_t at = row_at(&r, i);
        if (at < 0)
            memset(tensor_at(&call->out[0], i * r.each), 0, bytes);
        else
            tile_copy(call->pass->kernels, &call->out[0], &call->in[ROWS],
                      (int64_t[]){i * r.each, at}, r.each);
    }
}

/* A row may be read several times: its gradients are added, in order. */
static void gather_rows_backward(const struct op_call *call)
{
    struct rows r = rows_of(call);
    float *d = call->d_in[ROWS].data;
    const float *dout = call->d_out.data;
    tile_zero(call->pass->kernels, &call->d_in[ROWS]);
    for (int64_t i = 0; d && i < r.samples * r.n; i++) {
        int64_t at = row_at(&r, i);
        if (at >= 0)
            call->pass->kernels->add(d + at, dout + i * r.each, (size_t)r.each);
    }
}

static int64_t gather_rows_bound(const struct node *node)
{
    return node->in[ROWS]->shape[1].fixed;
}

static int gather_rows_shape(struct op_signature *s, struct error *err)
{
    const struct wk_tensor *x = s->in[ROWS], *index = s->in[INDEX];
    char a[TENSOR_TEXT_MAX], b[TENSOR_TEXT_MAX];
    if (x->dims < 2 || index->dims != 2 || index->type != WK_I32 ||
        !dim_equal(x->shape[0], index->shape[0]) || !dim_is_fixed(x->shape[1]))
        return error_set(err, WK_EINVAL,
                         "%s by %s; it takes [samples, rows, …] with a fixed number of rows, and "
                         "[samples, n] i32",
                         tensor_text(x, a), tensor_text(index, b));
    s->out[0] = rule_output(x, 0);
    s->out[0].type = move_type(x);
    s->out[0].shape[1] = index->shape[1];
    return 0;
}

const struct op_row op_gather_rows = {
    .name = "gather_rows",
    .result = RESULT_LIKE,
    .min_in = 2,
    .max_in = 2,
    .cuts = OP_CUT_SAMPLES,
    .shape = gather_rows_shape,
    .keeps = OP_IN(INDEX),
    .differentiable = OP_IN(ROWS),
    .index_input = 1 + INDEX,
    .index_ignores = true,
    .index_bound = gather_rows_bound,
    .cost = move_cost,
    .forward = gather_rows_forward,
    .backward = gather_rows_backward,
};

struct wk_tensor *wk_op_gather_rows(struct wk_tensor *x, struct wk_tensor *index)
{
    return graph_add(&(struct node_request){.row = &op_gather_rows, .n_in = 2, .in = {x, index}});
}
