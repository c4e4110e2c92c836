/* The values of all ranks that share the batch, side by side in the order of ranks. The loss is the
 * sum of the ranks' losses. So the gradient of what a rank put in is the sum of the ranks'
 * gradients of its row: a reduce-scatter. It has no kernels: run.c makes the collectives. */
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/mesh.h"

static int all_gather_shape(struct op_signature *s, struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    const struct wk_tensor *x = s->in[0];
    int rc = rule_meets(s, err);
    if (rc)
        return rc;
    if (x->dims == WK_TENSOR_DIMS_MAX)
        return error_set(err, WK_EINVAL, "input 0 is %s; it takes at most %d dimensions",
                         tensor_text(x, text), WK_TENSOR_DIMS_MAX - 1);
    s->out[0] = (struct wk_tensor){.type = WK_F32, .dims = x->dims + 1};
    s->out[0].shape[0] = dim_of(WK_RANKS);
    memcpy(&s->out[0].shape[1], x->shape, (size_t)x->dims * sizeof(x->shape[0]));
    return 0;
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

static void all_gather_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    cost_elements(call, back, back ? 1 : 0, ret);
}

const struct op_row op_all_gather = {
    .name = "all_gather",
    .min_in = 1,
    .max_in = 1,
    .shape = all_gather_shape,
    .differentiable = OP_IN(0),
    .meets = MEET_GATHER,
    .decode_refusal = refuses_decoding,
    .scratch_bytes = scratch_bytes,
    .cost = all_gather_cost,
};

struct wk_tensor *wk_op_all_gather(struct wk_tensor *x, const char *axis)
{
    return mesh_node(&op_all_gather, x, axis);
}
