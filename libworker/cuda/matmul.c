/* matmul on a GPU: all products of a batch in one. */
#include "libworker/graph/op/matmul.h"

#include "libworker/cuda/op.h"
#include "libworker/cuda/products.h"

static int64_t last_of(const struct op_tensor *x)
{
    return x->shape[x->dims - 1];
}

static int64_t elements_of(const struct op_tensor *x)
{
    return x->shape[x->dims - 2] * last_of(x);
}

/* An input as it is stored, or turned, as the product reads it. */
static struct lt_matrix factor_of(struct products *products, int input)
{
    const struct op_tensor *x = &products->call->in[input];
    bool turned = matmul_is_turned(products->call, input);
    return (struct lt_matrix){products_factor(products, x), last_of(x), elements_of(x), turned};
}

static struct lt_matrix turned_of(struct lt_matrix matrix)
{
    matrix.turned = !matrix.turned;
    return matrix;
}

static size_t workspace_of(const struct op_call *call, bool backward)
{
    struct matmul_sizes s = matmul_sizes_of(call);
    size_t of_a = lt_workspace_bytes(s.m, s.k, s.count),
           of_b = lt_workspace_bytes(s.k, s.n, s.count);
    if (!backward)
        return lt_workspace_bytes(s.m, s.n, s.count);
    return of_a > of_b ? of_a : of_b;
}

static enum wk_dtype result_type(const struct op_call *call)
{
    enum wk_dtype type = call->out[0].type;
    return type == call->compute ? type : WK_F32;
}

static void matmul_forward(const struct op_call *call, struct cuda_queue *queue)
{
    const struct op_tensor *c = &call->out[0];
    struct matmul_sizes s = matmul_sizes_of(call);
    struct products products = products_begin(call, queue, workspace_of(call, false));
    enum wk_dtype type = result_type(call);
    if (c->count == 0)
        return;
    struct lt_matrix a = factor_of(&products, MATMUL_A), b = factor_of(&products, MATMUL_B);
    void *to = c->type == type ? c->data : products_take(&products, type, c->count);
    products_run(&products, (struct lt_product){
                                .m = s.m,
                                .n = s.n,
                                .k = s.k,
                                .batch = s.count,
                                .result = type,
                                .a = a,
                                .b = b,
                                .d = to,
                                .d_stride = s.n,
                                .d_each = s.m * s.n,
                            });
    if (to != c->data)
        products_convert(&products, (struct typed_array){c->data, c->type},
                         (struct typed_array){to, type}, c->count);
}

/* da = dc b^T, db = a^T dc; of a turned input the transpose. */
static void input_backward(struct products *products, int input, const void *dc)
{
    const struct op_call *call = products->call;
    const struct op_tensor *d = &call->d_in[input];
    struct matmul_sizes s = matmul_sizes_of(call);
    struct lt_matrix of_c = {dc, s.n, s.m * s.n, false};
    struct lt_matrix other = turned_of(factor_of(products, 1 - input));
    struct lt_matrix left = input == MATMUL_A ? of_c : other;
    struct lt_matrix right = input == MATMUL_A ? other : of_c;
    bool turned = matmul_is_turned(call, input);
    products_run(products, (struct lt_product){
                               .m = d->shape[d->dims - 2],
                               .n = last_of(d),
                               .k = input == MATMUL_A ? s.n : s.m,
                               .batch = s.count,
                               .result = WK_F32,
                               .a = turned ? turned_of(right) : left,
                               .b = turned ? turned_of(left) : right,
                               .d = d->data,
                               .d_stride = last_of(d),
                               .d_each = elements_of(d),
                               .beta = d->add ? 1 : 0,
                           });
}

static void matmul_backward(const struct op_call *call, struct cuda_queue *queue)
{
    struct products products = products_begin(call, queue, workspace_of(call, true));
    if (matmul_sizes_of(call).count == 0)
        return;
    const void *dc = products_factor(&products, &call->d_out);
    for (int i = MATMUL_A; i <= MATMUL_B; i++) {
        if (call->d_in[i].data)
            input_backward(&products, i, dc);
    }
}

static size_t scratch_bytes(const struct op_call *call, bool backward)
{
    const struct op_tensor *c = &call->out[0];
    size_t bytes = products_workspace_bytes(workspace_of(call, backward)) +
                   products_factor_bytes(call, &call->in[MATMUL_A]) +
                   products_factor_bytes(call, &call->in[MATMUL_B]);
    if (backward)
        return bytes + products_factor_bytes(call, &call->d_out);
    return bytes + (c->type == result_type(call) ? 0 : products_taken(WK_F32, c->count));
}

const struct cuda_op cuda_op_matmul = {
    .name = "matmul",
    .forward = matmul_forward,
    .backward = matmul_backward,
    .scratch_bytes = scratch_bytes,
};
