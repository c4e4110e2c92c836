#include "libworker/graph/op/entropy.h"

#include <math.h>
#include <string.h>

#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

struct entropy_attributes entropy_attributes_of(const struct wk_cross_entropy_options *options,
                                                const struct wk_tensor *of, int dim)
{
    struct entropy_attributes a = {.smoothing = options ? (float)options->smoothing : 0};
    bool counts = of && dim >= 0 && dim < of->dims && dim_is_fixed(of->shape[dim]);
    if (counts && options && options->class_weights && !of->graph->error.code)
        a.weights = graph_copy(of->graph, options->class_weights,
                               (size_t)of->shape[dim].fixed * sizeof(*a.weights));
    for (int64_t i = 0; a.weights && i < of->shape[dim].fixed; i++)
        a.class_weights += (double)(1 + i) * (double)a.weights[i];
    return a;
}

struct entropy entropy_of(const struct op_call *call, int64_t classes)
{
    const struct entropy_attributes *a = call->node->attributes;
    return (struct entropy){
        .kernels = call->pass->kernels,
        .classes = classes,
        .smoothing = entropy_smoothing(call),
        .targets = call->in[call->node->n_in - 1].data,
        .weights = a->weights,
        .dlosses = call->d_out.data,
    };
}

static struct kernel_entropy row_of(const struct entropy *e, int64_t row)
{
    return (struct kernel_entropy){1, e->classes, e->targets + row, e->smoothing};
}

/* What the row's loss is multiplied by. */
static float weight_of(const struct entropy *e, int64_t row)
{
    int32_t target = e->targets[row];
    return e->weights && target >= 0 ? e->weights[target] : 1;
}

void entropy_forward(const struct entropy *e, const struct op_tensor *losses, float *logits,
                     int64_t row)
{
    struct kernel_entropy kernel = row_of(e, row);
    float room, *loss = tile_target(losses, row, &room);
    *loss = (float)e->kernels->cross_entropy_forward(&kernel, logits) * weight_of(e, row);
    tile_store(e->kernels, losses, row, 1, loss);
}

void entropy_backward(const struct entropy *e, float *d, const float *probs, int64_t row)
{
    struct kernel_entropy kernel = row_of(e, row);
    memcpy(d, probs, (size_t)e->classes * sizeof(*d));
    e->kernels->cross_entropy_backward(&kernel, d, e->dlosses[row] * weight_of(e, row));
}

int entropy_shape(const struct op_signature *s, int64_t classes, struct error *err)
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
    for (int64_t i = 0; i < classes && a->weights; i++) {
        if (!(a->weights[i] >= 0) || !isfinite(a->weights[i]))
            return error_set(err, WK_EINVAL,
                             "the weight of class %lld is %g; it takes finite ones from 0",
                             (long long)i, (double)a->weights[i]);
    }
    return 0;
}
