/* The sum of a value over the ranks that share the batch. The loss is the sum of the ranks' losses.
 * So the gradient of what a rank put in is the sum of all ranks' gradients: the same collective
 * again. It has no kernels: run.c makes the collective. */
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/mesh.h"

static int all_reduce_shape(struct op_signature *s, struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    int rc = rule_meets(s, err);
    if (rc)
        return rc;
    for (int i = 0; i < s->in[0]->dims; i++) {
        if (!dim_is_fixed(s->in[0]->shape[i]))
            return error_set(err, WK_EINVAL,
                             "input 0 is %s; ranks have different numbers of samples, so it takes "
                             "fixed sizes: reduce over samples before",
                             tensor_text(s->in[0], text));
    }
    return rule_as(s, 0);
}

/* A gradient that is added to what is there is summed in memory of its own. */
static size_t scratch_bytes(const struct op_call *call, bool back)
{
    return back && call->d_in[0].add ? (size_t)call->d_in[0].count * sizeof(float) : 0;
}

static const char *refuses_decoding(const struct node *node)
{
    (void)node;
    return "it needs the other ranks";
}

static void all_reduce_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    cost_elements(call, back, 1, ret);
}

const struct op_row op_all_reduce = {
    .name = "all_reduce",
    .min_in = 1,
    .max_in = 1,
    .shape = all_reduce_shape,
    .differentiable = OP_IN(0),
    .meets = MEET_SUM,
    .decode_refusal = refuses_decoding,
    .scratch_bytes = scratch_bytes,
    .cost = all_reduce_cost,
};

struct wk_tensor *wk_op_all_reduce(struct wk_tensor *x, const char *axis)
{
    return mesh_node(&op_all_reduce, x, axis);
}
