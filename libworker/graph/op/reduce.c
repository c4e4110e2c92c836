/* Sum, mean or maximum over one dimension, which is removed: out[outer, inner] of x[outer, n,
 * inner]. Sums are in double, in order. A maximum sends its gradient to the first of equals; NaN is
 * larger than everything. */
#include <math.h>

#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/axis.h"
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

struct extent {
    int64_t outer, n, inner;
};

static const struct reduce_attributes *reduce_of(const struct node *node)
{
    return node->attributes;
}

static struct extent extent_of(const struct op_call *call)
{
    const struct op_tensor *x = &call->in[0];
    int dim = reduce_of(call->node)->dim;
    struct extent e = {1, x->shape[dim], 1};
    for (int i = 0; i < x->dims; i++) {
        if (i < dim)
            e.outer *= x->shape[i];
        if (i > dim)
            e.inner *= x->shape[i];
    }
    return e;
}

/* For each of `count` neighbouring results: the sum, or the largest and where it is. */
struct reduction {
    enum wk_reduce kind;
    double value[TILE_MAX];
    int64_t at[TILE_MAX];
};

static void reduction_note(struct reduction *r, int64_t i, float x, int64_t j)
{
    if (r->kind != WK_REDUCE_MAX) {
        r->value[i] += (double)x;
        return;
    }
    if (j == 0 || (double)x > r->value[i] || (isnan(x) && !isnan(r->value[i]))) {
        r->value[i] = (double)x;
        r->at[i] = j;
    }
}

/* Results [at, at + count) of outer number o: columns side by side, each over all n. */
static void columns_reduce(const struct op_call *call, const struct extent *e, const int64_t at[2],
                           int64_t count, struct reduction *r)
{
    for (int64_t i = 0; i < count; i++)
        r->value[i] = 0;
    for (int64_t j = 0; j < e->n; j++) {
        float room[TILE_MAX];
        int64_t first = (at[0] * e->n + j) * e->inner + at[1];
        const float *x = tile_read(call->pass->kernels, &call->in[0], first, count, room);
        for (int64_t i = 0; i < count; i++)
            reduction_note(r, i, x[i], j);
    }
}

/* The single result of outer number o where the last dimension is removed. */
static void row_reduce(const struct op_call *call, const struct extent *e, int64_t o,
                       struct reduction *r)
{
    r->value[0] = 0;
    for (int64_t j = 0, n; (n = tile_at(e->n, j)) > 0; j += n) {
        float room[TILE_MAX];
        const float *x = tile_read(call->pass->kernels, &call->in[0], o * e->n + j, n, room);
        for (int64_t i = 0; i < n; i++)
            reduction_note(r, 0, x[i], j + i);
    }
}

static void results_reduce(const struct op_call *call, const struct extent *e, const int64_t at[2],
                           int64_t count, struct reduction *r)
{
    if (e->inner == 1)
        row_reduce(call, e, at[0], r);
    else
        columns_reduce(call, e, at, count, r);
}

static void reduce_forward(const struct op_call *call)
{
    const struct kernel_table *k = call->pass->kernels;
    struct extent e = extent_of(call);
    struct reduction r = {.kind = reduce_of(call->node)->kind};
    double divisor = r.kind == WK_REDUCE_MEAN ? (double)e.n : 1;
    for (int64_t o = 0; o < e.outer; o++) {
        for (int64_t i = 0, n; (n = tile_at(e.inner, i)) > 0; i += n) {
            float room[TILE_MAX], *out = tile_target(&call->out[0], o * e.inner + i, room);
            results_reduce(call, &e, (int64_t[]){o, i}, n, &r);
            for (int64_t c = 0; c < n; c++)
                out[c] = (float)(r.value[c] / divisor);
            tile_store(k, &call->out[0], o * e.inner + i, n, out);
        }
    }
}

/* The gradient of results [i, i + count) of outer number o is for all n, or for the largest. */
static void slopes_spread(const struct op_call *call, const struct extent *e, const int64_t at[2],
                          int64_t count, const struct reduction *r)
{
    const struct op_tensor *d = &call->d_in[0];
    const float *dout = (const float *)call->d_out.data + at[0] * e->inner + at[1];
    float share = r->kind == WK_REDUCE_MEAN ? 1.0f / (float)e->n : 1.0f;
    for (int64_t j = 0; j < e->n; j++) {
        float *to = (float *)d->data + (at[0] * e->n + j) * e->inner + at[1];
        for (int64_t c = 0; c < count; c++) {
            bool reached = r->kind != WK_REDUCE_MAX || r->at[c] == j;
            float slope = reached ? share * dout[c] : 0;
            to[c] = d->add ? to[c] + slope : slope;
        }
    }
}

static void reduce_backward(const struct op_call *call)
{
    struct extent e = extent_of(call);
    struct reduction r = {.kind = reduce_of(call->node)->kind};
    for (int64_t o = 0; call->d_in[0].data && o < e.outer; o++) {
        for (int64_t i = 0, n; (n = tile_at(e.inner, i)) > 0; i += n) {
            if (r.kind == WK_REDUCE_MAX)
                results_reduce(call, &e, (int64_t[]){o, i}, n, &r);
            slopes_spread(call, &e, (int64_t[]){o, i}, n, &r);
        }
    }
}

static unsigned reduce_keeps(const struct node *node)
{
    return reduce_of(node)->kind == WK_REDUCE_MAX ? OP_IN(0) : 0;
}

static void reduce_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    ret->flop = (double)call->in[0].count;
    ret->bytes = cost_bytes(call, backward);
}

static int reduce_shape(struct op_signature *s, struct error *err)
{
    const struct reduce_attributes *reduce = s->attributes;
    int rc = rule_values(s, err);
    if (!rc)
        rc = rule_dimension(s, reduce->dim, err);
    if (!rc)
        rc = rule_not_samples(s, reduce->dim, err);
    if (rc)
        return rc;
    if (reduce->kind != WK_REDUCE_SUM && reduce->kind != WK_REDUCE_MEAN &&
        reduce->kind != WK_REDUCE_MAX)
        return error_set(err, WK_EINVAL, "kind %d; it takes WK_REDUCE_SUM, MEAN and MAX",
                         (int)reduce->kind);
    s->out[0] = rule_output(s->in[0], 1);
    for (int i = reduce->dim; i < s->out[0].dims; i++)
        s->out[0].shape[i] = s->in[0]->shape[i + 1];
    return 0;
}

static const struct op_attribute reduce_attributes[] = {
    OP_ATTRIBUTE(struct reduce_attributes, kind),
    OP_ATTRIBUTE(struct reduce_attributes, dim),
    {0},
};

const struct op_row op_reduce = {
    .name = "reduce",
    .attributes = reduce_attributes,
    .min_in = 1,
    .max_in = 1,
    .cuts = OP_CUT_SAMPLES,
    .shape = reduce_shape,
    .keeps_of = reduce_keeps,
    .differentiable = OP_IN(0),
    .cost = reduce_cost,
    .forward = reduce_forward,
    .backward = reduce_backward,
};

struct wk_tensor *wk_op_reduce(struct wk_tensor *x, enum wk_reduce kind, int dim)
{
    struct reduce_attributes reduce = {kind, dim};
    return graph_add(&(struct node_request){.row = &op_reduce,
                                            .attributes = &reduce,
                                            .attributes_bytes = sizeof(reduce),
                                            .n_in = 1,
                                            .in = {x}});
}
