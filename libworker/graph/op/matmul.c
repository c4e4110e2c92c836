/* c[…, m, n] = op(a)[…, m, k] op(b)[…, k, n], a product for each of the leading dimensions. */
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/factor.h"
#include "libworker/graph/op/matmul.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

enum { A = MATMUL_A, B = MATMUL_B };

static bool leads_alike(const struct wk_tensor *a, const struct wk_tensor *b)
{
    struct wk_tensor leads[2] = {rule_output(a, 2), rule_output(b, 2)};
    return tensor_same_shape(&leads[0], &leads[1]);
}

static int matmul_shape(struct op_signature *s, struct error *err)
{
    char text[2][TENSOR_TEXT_MAX];
    const struct matmul_attributes *attributes = s->attributes;
    const struct wk_tensor *a = s->in[A], *b = s->in[B];
    int rc = rule_values(s, err);
    for (int i = A; i <= B && !rc; i++)
        rc = rule_dims(s, i, (int[]){2, WK_TENSOR_DIMS_MAX}, err);
    if (rc)
        return rc;
    const struct dim *rows = &a->shape[a->dims - 2], *cols = &b->shape[b->dims - 2];
    bool turn_a = attributes->turned[A], turn_b = attributes->turned[B];
    if (!leads_alike(a, b) || !dim_equal(rows[!turn_a], cols[turn_b]))
        return error_set(err, WK_EINVAL,
                         "%s and %s; it takes […, %s] and […, %s] with equal leading dimensions",
                         tensor_text(a, text[0]), tensor_text(b, text[1]), turn_a ? "k, m" : "m, k",
                         turn_b ? "n, k" : "k, n");
    s->out[0] = rule_output(a, 0);
    s->out[0].shape[a->dims - 2] = rows[turn_a];
    s->out[0].shape[a->dims - 1] = cols[!turn_b];
    return 0;
}

/* Input `input` as it is stored, turned as the product reads it. */
static struct factor input_factor(const struct op_call *call, int input, uint8_t **room)
{
    const struct op_tensor *x = &call->in[input];
    struct factor f = op_factor(call, x, x->shape[x->dims - 1], room);
    f.turned = matmul_is_turned(call, input);
    return f;
}

static void matmul_forward(const struct op_call *call)
{
    const struct kernel_table *kernels = call->pass->kernels;
    const struct op_tensor *c = &call->out[0];
    struct matmul_sizes size = matmul_sizes_of(call);
    int64_t each = size.m * size.n;
    uint8_t *room = call->scratch;
    struct factor a = input_factor(call, A, &room), b = input_factor(call, B, &room);
    for (int64_t i = 0; i < size.count; i++) {
        float *to = tile_target(c, i * each, (float *)room);
        op_product(call, (int64_t[]){size.m, size.n, size.k}, factor_at(a, i * size.m * size.k),
                   factor_at(b, i * size.k * size.n), (struct result){to, size.n, 0, NULL});
        tile_store(kernels, c, i * each, each, to);
    }
}

/* da = dc b^T, db = a^T dc; of a turned input the transpose. */
static void input_backward(const struct op_call *call, int input, struct factor dc, uint8_t *room)
{
    struct matmul_sizes size = matmul_sizes_of(call);
    const struct op_tensor *d = &call->d_in[input];
    struct factor other = factor_turned(input_factor(call, 1 - input, &room));
    int64_t rows = d->shape[d->dims - 2], columns = d->shape[d->dims - 1];
    int64_t sizes[3] = {rows, columns, input == A ? size.n : size.m};
    int64_t other_each = size.k * sizes[2];
    for (int64_t i = 0; i < size.count; i++) {
        struct factor of_c = factor_at(dc, i * size.m * size.n);
        struct factor of_other = factor_at(other, i * other_each);
        struct factor left = input == A ? of_c : of_other, right = input == A ? of_other : of_c;
        struct result to = {(float *)d->data + i * rows * columns, columns, d->add ? 1 : 0, NULL};
        if (matmul_is_turned(call, input))
            op_product(call, sizes, factor_turned(right), factor_turned(left), to);
        else
            op_product(call, sizes, left, right, to);
    }
}

static void matmul_backward(const struct op_call *call)
{
    uint8_t *room = call->scratch;
    struct factor dc = op_factor(call, &call->d_out, matmul_sizes_of(call).n, &room);
    for (int i = A; i <= B; i++) {
        if (call->d_in[i].data)
            input_backward(call, i, dc, room);
    }
}

static size_t scratch_bytes(const struct op_call *call, bool back)
{
    struct matmul_sizes size = matmul_sizes_of(call);
    size_t bytes = op_factor_input_bytes(call, A, back) + op_factor_input_bytes(call, B, back);
    if (back)
        return bytes + op_factor_bytes(call, &call->d_out);
    return bytes + (tensor_is_low(&call->out[0]) ? (size_t)(size.m * size.n) * sizeof(float) : 0);
}

static unsigned matmul_keeps(const struct node *node)
{
    return op_product_keeps(node, A, B);
}

static void matmul_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    struct matmul_sizes size = matmul_sizes_of(call);
    double products = back ? 0 : 1;
    for (int i = A; i <= B && back; i++)
        products += call->node->in[i]->trains ? 1 : 0;
    *ret = (struct op_cost){.flop = 2.0 * (double)(size.count * size.m) *
                                    (double)(size.n * size.k) * products,
                            .bytes = cost_bytes(call, back)};
}

static const struct op_attribute matmul_attributes[] = {
    OP_ATTRIBUTE(struct matmul_attributes, turned[0]),
    OP_ATTRIBUTE(struct matmul_attributes, turned[1]),
    {0},
};

const struct op_row op_matmul = {
    .name = "matmul",
    .attributes = matmul_attributes,
    .result = RESULT_NARROW,
    .min_in = 2,
    .max_in = 2,
    .cuts = OP_CUT_SAMPLES,
    .shape = matmul_shape,
    .keeps = OP_IN(A) | OP_IN(B),
    .keeps_of = matmul_keeps,
    .differentiable = OP_IN(A) | OP_IN(B),
    .factors = OP_IN(A) | OP_IN(B),
    .scratch_bytes = scratch_bytes,
    .cost = matmul_cost,
    .forward = matmul_forward,
    .backward = matmul_backward,
};

struct wk_tensor *wk_op_matmul(struct wk_tensor *a, struct wk_tensor *b, bool transpose_a,
                               bool transpose_b)
{
    struct matmul_attributes attributes = {{transpose_a, transpose_b}};
    return graph_add(&(struct node_request){.row = &op_matmul,
                                            .attributes = &attributes,
                                            .attributes_bytes = sizeof(attributes),
                                            .n_in = 2,
                                            .in = {a, b}});
}
