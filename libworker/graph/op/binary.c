/* add, subtract, multiply: out = a op b, with b repeated along the dimensions that it lacks.
 *
 * Neighbouring dimensions along which b moves are one run, and so are those along which it is
 * repeated. Equal shapes are a single run, a bias or positions two. The last run is the inner loop.
 * The gradient of a repeated b is summed in double, in the order of the elements. */
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

struct runs {
    int n;
    int64_t size[WK_TENSOR_DIMS_MAX];
    int64_t stride[WK_TENSOR_DIMS_MAX]; /* of b; 0 where it is repeated */
    int64_t inner, outer;               /* size of the last run; product of those before it */
    bool moves;                         /* b moves along the last run */
};

static struct runs runs_of(const struct op_tensor *a, const struct op_tensor *b)
{
    struct runs r = {0};
    int missing = a->dims - b->dims;
    bool moved[WK_TENSOR_DIMS_MAX] = {0};
    for (int i = 0; i < a->dims; i++) {
        bool moves = i >= missing && b->shape[i - missing] == a->shape[i];
        if (a->shape[i] == 1)
            continue;
        if (r.n && moved[r.n - 1] == moves) {
            r.size[r.n - 1] *= a->shape[i];
            continue;
        }
        moved[r.n] = moves;
        r.size[r.n++] = a->shape[i];
    }
    if (!r.n)
        r.size[r.n++] = 1;
    int64_t stride = 1;
    r.outer = 1;
    r.inner = r.size[r.n - 1];
    r.moves = moved[r.n - 1];
    for (int i = r.n - 1; i >= 0; i--) {
        r.stride[i] = moved[i] ? stride : 0;
        stride *= moved[i] ? r.size[i] : 1;
        r.outer *= i < r.n - 1 ? r.size[i] : 1;
    }
    return r;
}

/* Where b's values for the inner run number `outer` begin. */
static int64_t b_first(const struct runs *r, int64_t outer)
{
    int64_t first = 0;
    for (int i = r->n - 2; i >= 0; i--) {
        first += outer % r->size[i] * r->stride[i];
        outer /= r->size[i];
    }
    return first;
}

/* A tile: out[n] from a[n] and b, which is b[0] for all of them unless it `moves`. */
struct tile {
    float *out;
    const float *a, *b;
    int64_t n;
    bool moves;
};
typedef void tile_fn(const struct tile *tile);

static void add_tile(const struct tile *t)
{
    for (int64_t i = 0; t->moves && i < t->n; i++)
        t->out[i] = t->a[i] + t->b[i];
    for (int64_t i = 0, b = 0; !t->moves && i < t->n; i++)
        t->out[i] = t->a[i] + t->b[b];
}

static void subtract_tile(const struct tile *t)
{
    for (int64_t i = 0; t->moves && i < t->n; i++)
        t->out[i] = t->a[i] - t->b[i];
    for (int64_t i = 0, b = 0; !t->moves && i < t->n; i++)
        t->out[i] = t->a[i] - t->b[b];
}

static void multiply_tile(const struct tile *t)
{
    for (int64_t i = 0; t->moves && i < t->n; i++)
        t->out[i] = t->a[i] * t->b[i];
    for (int64_t i = 0, b = 0; !t->moves && i < t->n; i++)
        t->out[i] = t->a[i] * t->b[b];
}

/* out = a op b, all of it. */
static void each_tile(const struct kernel_table *k, const struct op_tensor *out,
                      const struct op_tensor *a, const struct op_tensor *b, tile_fn *visit)
{
    struct runs r = runs_of(out, b);
    for (int64_t o = 0; out->count && o < r.outer; o++) {
        int64_t first = b_first(&r, o);
        for (int64_t at = 0, n; (n = tile_at(r.inner, at)) > 0; at += n) {
            float a_room[TILE_MAX], b_room[TILE_MAX], out_room[TILE_MAX];
            int64_t here = o * r.inner + at;
            struct tile tile = {
                .out = tile_target(out, here, out_room),
                .a = tile_read(k, a, here, n, a_room),
                .b = tile_read(k, b, first + (r.moves ? at : 0), r.moves ? n : 1, b_room),
                .n = n,
                .moves = r.moves,
            };
            visit(&tile);
            tile_store(k, out, here, n, tile.out);
        }
    }
}

/* sums[of b] += sign * dout * a for a tile, without a where it is NULL. */
static void sum_tile(double *sums, const struct tile *t, const float *dout, double sign)
{
    for (int64_t i = 0; i < t->n; i++) {
        double slope = sign * (double)dout[i];
        sums[t->moves ? i : 0] += t->a ? slope * (double)t->a[i] : slope;
    }
}

/* The gradient of b: `a` is multiply's other factor, NULL for a sum. */
static void b_backward(const struct op_call *call, const struct op_tensor *a, double sign)
{
    const struct kernel_table *k = call->pass->kernels;
    const struct op_tensor *db = &call->d_in[1];
    const float *dout = call->d_out.data;
    double *sums = call->scratch;
    struct runs r = runs_of(&call->out[0], &call->in[1]);
    if (!db->data)
        return;
    memset(sums, 0, (size_t)db->count * sizeof(*sums));
    for (int64_t o = 0; call->out[0].count && o < r.outer; o++) {
        int64_t first = b_first(&r, o);
        for (int64_t at = 0, n; (n = tile_at(r.inner, at)) > 0; at += n) {
            float room[TILE_MAX];
            int64_t here = o * r.inner + at;
            struct tile tile = {
                .a = a ? tile_read(k, a, here, n, room) : NULL, .n = n, .moves = r.moves};
            sum_tile(sums + first + (r.moves ? at : 0), &tile, dout + here, sign);
        }
    }
    float *to = db->data;
    for (int64_t i = 0; i < db->count; i++)
        to[i] = (db->add ? to[i] : 0) + (float)sums[i];
}

/* The same where b is not repeated: one product each, no sum. */
static void b_backward_straight(const struct op_call *call, const struct op_tensor *a, float sign)
{
    const struct kernel_table *k = call->pass->kernels;
    const struct op_tensor *db = &call->d_in[1];
    struct op_tensor factor = {.data = &sign, .type = WK_F32, .dims = 0, .count = 1};
    if (db->data)
        each_tile(k, db, &call->d_out, a ? a : &factor, multiply_tile);
}

/* b is a's last dimensions, so that it is repeated as a whole. */
static bool is_suffix(const struct op_call *call)
{
    const struct wk_tensor *a = call->node->in[0], *b = call->node->in[1];
    int missing = a->dims - b->dims;
    for (int i = 0; i < b->dims; i++) {
        if (!dim_equal(a->shape[i + missing], b->shape[i]))
            return false;
    }
    return true;
}

/* b is not repeated, whatever the batch: a batch of one or no sample has the same path. */
static bool is_straight(const struct op_call *call)
{
    const struct wk_tensor *a = call->node->in[0], *b = call->node->in[1];
    for (int i = 0; i < a->dims - b->dims; i++) {
        if (!dim_is_one(a->shape[i]))
            return false;
    }
    return is_suffix(call);
}

/* The gradient of what was added as a whole: the repetitions in order, as an embedding's rows. */
static void suffix_backward(const struct op_call *call)
{
    const struct kernel_table *k = call->pass->kernels;
    const struct op_tensor *db = &call->d_in[1];
    const float *dout = call->d_out.data;
    if (!db->data)
        return;
    if (!db->add)
        k->fill(db->data, 0, (size_t)db->count);
    for (int64_t at = 0; db->count && at < call->d_out.count; at += db->count)
        k->add(db->data, dout + at, (size_t)db->count);
}

static void sum_backward(const struct op_call *call, float sign)
{
    if (is_straight(call))
        b_backward_straight(call, NULL, sign);
    else
        b_backward(call, NULL, (double)sign);
}

static void add_forward(const struct op_call *call)
{
    each_tile(call->pass->kernels, &call->out[0], &call->in[0], &call->in[1], add_tile);
}

static void add_backward(const struct op_call *call)
{
    if (is_suffix(call))
        suffix_backward(call);
    else
        sum_backward(call, 1);
}

static void subtract_forward(const struct op_call *call)
{
    each_tile(call->pass->kernels, &call->out[0], &call->in[0], &call->in[1], subtract_tile);
}

static void subtract_backward(const struct op_call *call)
{
    sum_backward(call, -1);
}

static void multiply_forward(const struct op_call *call)
{
    each_tile(call->pass->kernels, &call->out[0], &call->in[0], &call->in[1], multiply_tile);
}

static void multiply_backward(const struct op_call *call)
{
    const struct op_tensor *da = &call->d_in[0];
    if (da->data)
        each_tile(call->pass->kernels, da, &call->d_out, &call->in[1], multiply_tile);
    if (is_straight(call))
        b_backward_straight(call, &call->in[0], 1);
    else
        b_backward(call, &call->in[0], 1);
}

static unsigned multiply_keeps(const struct node *node)
{
    return op_product_keeps(node, 0, 1);
}

static size_t binary_scratch(const struct op_call *call, bool backward)
{
    return backward && !is_straight(call) ? (size_t)call->in[1].count * sizeof(double) : 0;
}

static void binary_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    cost_elements(call, backward, backward ? 2 : 1, ret);
}

/* b's dimensions are a's, or 1, or missing on the left. */
static int binary_shape(struct op_signature *s, struct error *err)
{
    const struct wk_tensor *a = s->in[0], *b = s->in[1];
    int rc = rule_values(s, err), missing = a->dims - b->dims;
    if (rc)
        return rc;
    bool fits = missing >= 0;
    for (int i = 0; fits && i < b->dims; i++)
        fits = dim_is_one(b->shape[i]) || dim_equal(b->shape[i], a->shape[i + missing]);
    char a_text[TENSOR_TEXT_MAX], b_text[TENSOR_TEXT_MAX];
    if (!fits)
        return error_set(err, WK_EINVAL,
                         "%s and %s; each dimension of the second is that of the first, 1, or "
                         "missing on the left",
                         tensor_text(a, a_text), tensor_text(b, b_text));
    return rule_as(s, 0);
}

#define BINARY                                                                                     \
    .min_in = 2, .max_in = 2, .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH | OP_CUT_COLUMNS,             \
    .shape = binary_shape, .differentiable = OP_IN(0) | OP_IN(1), .in_place = true,                \
    .scratch_bytes = binary_scratch, .result = RESULT_LIKE, .cost = binary_cost

const struct op_row op_add = {
    .name = "add",
    BINARY,
    .passes_gradient = OP_IN(0) | OP_IN(1),
    .forward = add_forward,
    .backward = add_backward,
};

const struct op_row op_subtract = {
    .name = "subtract",
    BINARY,
    .passes_gradient = OP_IN(0),
    .forward = subtract_forward,
    .backward = subtract_backward,
};

const struct op_row op_multiply = {
    .name = "multiply",
    BINARY,
    .keeps = OP_IN(0) | OP_IN(1),
    .keeps_of = multiply_keeps,
    .forward = multiply_forward,
    .backward = multiply_backward,
};

static struct wk_tensor *binary_add(const struct op_row *row, struct wk_tensor *a,
                                    struct wk_tensor *b)
{
    return graph_add(&(struct node_request){.row = row, .n_in = 2, .in = {a, b}});
}

struct wk_tensor *wk_op_add(struct wk_tensor *a, struct wk_tensor *b)
{
    return binary_add(&op_add, a, b);
}

struct wk_tensor *wk_op_subtract(struct wk_tensor *a, struct wk_tensor *b)
{
    return binary_add(&op_subtract, a, b);
}

struct wk_tensor *wk_op_multiply(struct wk_tensor *a, struct wk_tensor *b)
{
    return binary_add(&op_multiply, a, b);
}
