#include "libworker/graph/op/entropy.h"

#include <string.h>

#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

struct entropy entropy_of(const struct op_call *call, int64_t classes)
{
    const struct entropy_attributes *a = call->node->attributes;
    return (struct entropy){
        .kernels = call->pass->kernels,
        .classes = classes,
        .smoothing = call->pass->trains ? a->smoothing + (float)call->pass->smoothing : 0,
        .targets = call->in[call->node->n_in - 1].data,
        .dlosses = call->d_out.data,
    };
}

static struct kernel_entropy row_of(const struct entropy *e, int64_t row)
{
    return (struct kernel_entropy){1, e->classes, e->targets + row, e->smoothing};
}

void entropy_forward(const struct entropy *e, const struct op_tensor *losses, float *logits,
                     int64_t row)
{
    struct kernel_entropy kernel = row_of(e, row);
    float room, *loss = tile_target(losses, row, &room);
    *loss = (float)e->kernels->cross_entropy_forward(&kernel, logits);
    tile_store(e->kernels, losses, row, 1, loss);
}

void entropy_backward(const struct entropy *e, float *d, const float *probs, int64_t row)
{
    struct kernel_entropy kernel = row_of(e, row);
    memcpy(d, probs, (size_t)e->classes * sizeof(*d));
    e->kernels->cross_entropy_backward(&kernel, d, e->dlosses[row]);
}

int entropy_shape(const struct op_signature *s, struct error *err)
{
    char text[TENSOR_TEXT_MAX], wanted[TENSOR_TEXT_MAX];
    const struct entropy_attributes *a = s->attributes;
    const struct wk_tensor *targets = s->in[s->n_in - 1];
    struct wk_tensor rows = rule_output(s->in[0], 1);
    rows.type = WK_I32;
    if (targets->type != WK_I32 || !tensor_same_shape(targets, &rows))
        return error_set(err, WK_EINVAL, "the targets are %s; for this input they must be %s",
                         tensor_text(targets, text), tensor_text(&rows, wanted));
    if (!(a->smoothing >= 0 && a->smoothing < 1))
        return error_set(err, WK_EINVAL, "smoothing is %g; it takes a share from 0 to below 1",
                         (double)a->smoothing);
    return 0;
}
