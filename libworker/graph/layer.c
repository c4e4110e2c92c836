/* Layers: an operation with parameters of its own. */
#include <math.h>
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

/* Dimension `dim` of x, which must be there and fixed; 0 with a sentence in the graph. */
static int64_t fixed_size(const struct wk_tensor *x, int dim, const char *what, const char *name)
{
    char text[TENSOR_TEXT_MAX];
    if (!x)
        return 0;
    if (dim >= 0 && dim < x->dims && dim_is_fixed(x->shape[dim]))
        return x->shape[dim].fixed;
    graph_refuse(x->graph, "layer %s: x is %s; %s must be fixed", name ? name : "",
                 tensor_text(x, text), what);
    return 0;
}

static int64_t width_of(const struct wk_tensor *x, const char *name)
{
    return fixed_size(x, x ? x->dims - 1 : 0, "its last dimension", name);
}

static int64_t channels_of(const struct wk_tensor *x, const char *name)
{
    return fixed_size(x, 1, "its dimension 1, the channels,", name);
}

struct wk_tensor *wk_layer_linear(struct wk_tensor *x, const char *name, int64_t out)
{
    int64_t in = width_of(x, name);
    if (!in)
        return NULL;
    const struct wk_param spread = {.init = WK_INIT_UNIFORM, .scale = 1 / sqrt((double)in)};
    struct wk_linear_weights weights = {0};
    weights.weight[0] = param(x->graph, name, "weight", WK_SHAPE(in, out), &spread);
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

struct wk_tensor *wk_layer_group_norm(struct wk_tensor *x, const char *name, int groups)
{
    int64_t channels = channels_of(x, name);
    if (!channels)
        return NULL;
    const struct wk_param ones = {.init = WK_INIT_ONE};
    struct wk_tensor *weight = param(x->graph, name, "weight", WK_SHAPE(channels), &ones);
    struct wk_tensor *bias = param(x->graph, name, "bias", WK_SHAPE(channels), NULL);
    return wk_op_group_norm(x, weight, bias, groups, NORM_EPSILON);
}

static struct wk_tensor *buffer(struct wk_graph *graph, const char *name, const char *part,
                                struct wk_shape shape, double value)
{
    char full[NAME_BYTES];
    (void)snprintf(full, sizeof(full), "%s.%s", name ? name : "", part);
    return wk_graph_buffer(graph, full, shape, value);
}

struct wk_tensor *wk_layer_batch_norm(struct wk_tensor *x, const char *name,
                                      const struct wk_batch_norm *options)
{
    struct wk_batch_norm norm = options ? *options : (struct wk_batch_norm){0};
    int64_t channels =
        fixed_size(x, norm.channels ? norm.channels : 1, "the dimension of its channels", name);
    if (!channels)
        return NULL;
    const struct wk_param ones = {.init = WK_INIT_ONE};
    norm.weight = param(x->graph, name, "weight", WK_SHAPE(channels), &ones);
    norm.bias = param(x->graph, name, "bias", WK_SHAPE(channels), NULL);
    norm.mean = buffer(x->graph, name, "running_mean", WK_SHAPE(channels), 0);
    norm.variance = buffer(x->graph, name, "running_var", WK_SHAPE(channels), 1);
    return wk_op_batch_norm(x, &norm);
}

struct wk_tensor *wk_layer_conv2d(struct wk_tensor *x, const char *name, int64_t out, int kernel,
                                  const struct wk_conv_options *options)
{
    int64_t channels = channels_of(x, name), groups = options ? options->groups : 0;
    groups = groups ? groups : 1;
    if (!channels)
        return NULL;
    if (out < 1 || kernel < 1 || groups < 1 || channels % groups)
        return graph_refuse(x->graph,
                            "layer %s: %lld channels out of %lld with a kernel of %d and %lld "
                            "groups; the sizes are above 0, and groups divide the channels",
                            name ? name : "", (long long)out, (long long)channels, kernel,
                            (long long)groups);
    int64_t in = channels / groups;
    const struct wk_param spread = {.init = WK_INIT_NORMAL,
                                    .scale = sqrt(2.0 / ((double)in * kernel * kernel))};
    struct wk_tensor *weight =
        param(x->graph, name, "weight", WK_SHAPE(out, in, kernel, kernel), &spread);
    struct wk_tensor *bias = param(x->graph, name, "bias", WK_SHAPE(out), NULL);
    return wk_op_conv2d(x, weight, bias, options);
}

struct wk_tensor *wk_layer_attention(struct wk_tensor *x, const char *name,
                                     const struct wk_attention_options *options)
{
    char full[NAME_BYTES];
    int64_t width = width_of(x, name), heads = options ? options->heads : 0;
    int64_t pairs = options && options->kv_heads ? options->kv_heads : heads;
    if (!width)
        return NULL;
    if (heads < 1 || pairs < 1 || width % heads)
        return graph_refuse(x->graph,
                            "layer %s: %lld heads with %lld kv_heads in a width of %lld; heads "
                            "divide the width",
                            name ? name : "", (long long)heads, (long long)pairs, (long long)width);
    (void)snprintf(full, sizeof(full), "%s.qkv", name ? name : "");
    x = wk_layer_linear(x, full, width / heads * (heads + 2 * pairs));
    x = wk_op_attention(x, options);
    (void)snprintf(full, sizeof(full), "%s.out", name ? name : "");
    return wk_layer_linear(x, full, width);
}
