/* Layers: an operation with parameters of its own. */
#include <stdio.h>

#include "libworker/graph/build.h"

enum { NAME_BYTES = 160 }; /* above a parameter's limit, so that the call refuses a longer one */

/* The parameter `name`.`part`. */
static struct wk_tensor *param(struct wk_graph *graph, const char *name, const char *part,
                               struct wk_shape shape, const struct wk_param *options)
{
    char full[NAME_BYTES];
    (void)snprintf(full, sizeof(full), "%s.%s", name ? name : "", part);
    return wk_graph_param(graph, full, shape, options);
}

/* The last dimension of x, which must be fixed; 0 with a sentence in the graph. */
static int64_t width_of(const struct wk_tensor *x, const char *name)
{
    char text[TENSOR_TEXT_MAX];
    if (!x)
        return 0;
    if (x->dims && dim_is_fixed(x->shape[x->dims - 1]))
        return x->shape[x->dims - 1].fixed;
    graph_refuse(x->graph, "layer %s: x is %s; its last dimension must be fixed", name ? name : "",
                 tensor_text(x, text));
    return 0;
}

struct wk_tensor *wk_layer_linear(struct wk_tensor *x, const char *name, int64_t out)
{
    int64_t in = width_of(x, name);
    if (!in)
        return NULL;
    struct wk_linear_weights weights = {0};
    weights.weight[0] = param(x->graph, name, "weight", WK_SHAPE(in, out), NULL);
    weights.bias = param(x->graph, name, "bias", WK_SHAPE(out), NULL);
    return wk_op_linear(x, &weights);
}

static const double NORM_EPSILON = 1e-5;

struct wk_tensor *wk_layer_norm(struct wk_tensor *x, const char *name)
{
    int64_t width = width_of(x, name);
    if (!width)
        return NULL;
    const struct wk_param ones = {.init = WK_INIT_ONE};
    struct wk_tensor *weight = param(x->graph, name, "weight", WK_SHAPE(width), &ones);
    struct wk_tensor *bias = param(x->graph, name, "bias", WK_SHAPE(width), NULL);
    return wk_op_layer_norm(x, weight, bias, NORM_EPSILON);
}

struct wk_tensor *wk_layer_rms_norm(struct wk_tensor *x, const char *name)
{
    int64_t width = width_of(x, name);
    if (!width)
        return NULL;
    const struct wk_param ones = {.init = WK_INIT_ONE};
    struct wk_tensor *weight = param(x->graph, name, "weight", WK_SHAPE(width), &ones);
    return wk_op_rms_norm(x, weight, NORM_EPSILON);
}

struct wk_tensor *wk_layer_embedding(struct wk_tensor *index, const char *name, int64_t rows,
                                     int64_t width)
{
    if (!index)
        return NULL;
    const struct wk_param lookup = {.lookup = true};
    struct wk_tensor *table = param(index->graph, name, "weight", WK_SHAPE(rows, width), &lookup);
    return wk_op_embedding(table, index);
}
