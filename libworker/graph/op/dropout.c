/* Dropout (Srivastava et al. 2014) by keyed noise: backward draws the same choice again, so nothing
 * is kept. Samples are the outermost factor of a tensor's memory: a sample's elements are adjacent.
 */
#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"
#include "libworker/nn/random.h"

static double share_of(const struct op_call *call)
{
    const struct dropout_attributes *dropout = call->node->attributes;
    double share = dropout->share < 0 ? call->pass->dropout : dropout->share;
    return call->pass->trains ? share : 0;
}

static uint64_t key_of(const struct op_call *call, int64_t sample)
{
    uint64_t key = random_bits(call->pass->seed, (uint64_t)(call->pass->first_sample + sample));
    key = random_bits(key, (uint64_t)call->node->block);
    return random_bits(key, (uint64_t)call->node->place);
}

/* to = from, a share of it zeroed. A tile has a key of its own: the kernel counts from 0. */
static void drop(const struct op_call *call, const struct op_tensor *to,
                 const struct op_tensor *from)
{
    const struct kernel_table *k = call->pass->kernels;
    double share = share_of(call);
    int64_t samples = call->pass->samples, each = samples ? to->count / samples : 0;
    for (int64_t s = 0; s < samples; s++) {
        uint64_t key = key_of(call, s);
        for (int64_t at = 0, n; (n = tile_at(each, at)) > 0; at += n) {
            float room[TILE_MAX], copy[TILE_MAX];
            const float *x = tile_read(k, from, s * each + at, n, room);
            float *y = tile_target(to, s * each + at, copy);
            if (x != y)
                memcpy(y, x, (size_t)n * sizeof(*y));
            if (share > 0)
                k->dropout(y, (size_t)n, random_bits(key, (uint64_t)at), (float)(1 - share));
            tile_store(k, to, s * each + at, n, y);
        }
    }
}

static void dropout_forward(const struct op_call *call)
{
    drop(call, &call->out[0], &call->in[0]);
}

static void dropout_backward(const struct op_call *call)
{
    if (call->d_in[0].data)
        drop(call, &call->d_in[0], &call->d_out);
}

static bool dropout_drops(const struct node *node, bool model)
{
    const struct dropout_attributes *dropout = node->attributes;
    return dropout->share < 0 ? model : dropout->share > 0;
}

static void dropout_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    cost_elements(call, backward, 1, ret);
}

static int dropout_shape(struct op_signature *s, struct error *err)
{
    const struct dropout_attributes *dropout = s->attributes;
    const struct wk_tensor *x = s->in[0];
    char text[TENSOR_TEXT_MAX];
    int rc = rule_values(s, err);
    if (rc)
        return rc;
    if (!(dropout->share < 1))
        return error_set(err, WK_EINVAL, "a share of %g; it takes less than 1", dropout->share);
    if (!x->dims || x->shape[0].samples != 1)
        return error_set(err, WK_EINVAL, "%s; the first dimension counts the samples",
                         tensor_text(x, text));
    return rule_as(s, 0);
}

static const struct op_attribute dropout_attributes[] = {
    OP_ATTRIBUTE(struct dropout_attributes, share),
    {0},
};

const struct op_row op_dropout = {
    .name = "dropout",
    .attributes = dropout_attributes,
    .result = RESULT_LIKE,
    .min_in = 1,
    .max_in = 1,
    .cuts = OP_CUT_SAMPLES,
    .shape = dropout_shape,
    .differentiable = OP_IN(0),
    .drops = dropout_drops,
    .in_place = true,
    .cost = dropout_cost,
    .forward = dropout_forward,
    .backward = dropout_backward,
};

struct wk_tensor *wk_op_dropout(struct wk_tensor *x, double share)
{
    struct dropout_attributes dropout = {share};
    return graph_add(&(struct node_request){.row = &op_dropout,
                                            .attributes = &dropout,
                                            .attributes_bytes = sizeof(dropout),
                                            .n_in = 1,
                                            .in = {x}});
}
