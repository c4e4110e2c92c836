/* The feed-forward language model of Bengio et al. 2003; linear weights are [in, out]. */
#include <math.h>
#include <stdio.h>

#include <worker/error.h>
#include <worker/graph.h>

#include "libworker/models/kind.h"
#include "libworker/nn/model.h"

enum { NAME_BYTES = 80, FULL_BYTES = 96 }; /* of a layer, of its parameter */

/* Outputs as large as inputs (LeCun et al. 1998). */
static struct wk_tensor *linear(struct wk_tensor *x, struct wk_graph *g, const int64_t size[2],
                                const char *name)
{
    char weight[FULL_BYTES], bias[FULL_BYTES];
    snprintf(weight, sizeof(weight), "%s.weight", name);
    snprintf(bias, sizeof(bias), "%s.bias", name);
    struct wk_param normal = {.init = WK_INIT_NORMAL, .scale = (double)(1 / sqrtf((float)size[0]))};
    struct wk_linear_weights weights = {0};
    weights.weight[0] = wk_graph_param(g, weight, WK_SHAPE(size[0], size[1]), &normal);
    weights.bias = wk_graph_param(g, bias, WK_SHAPE(size[1]), NULL);
    return wk_op_linear(x, &weights);
}

static struct wk_graph *mlp_graph(const struct wk_mlp_config *c)
{
    struct wk_graph *g = wk_graph_new("mlp");
    struct wk_param table = {.init = WK_INIT_NORMAL, .scale = 1, .lookup = true};
    struct wk_tensor *tokens = wk_graph_input(g, "tokens", WK_I32, WK_SHAPE(WK_SAMPLES, WK_LENGTH));
    struct wk_tensor *targets =
        wk_graph_input(g, "targets", WK_I32, WK_SHAPE(WK_SAMPLES, WK_LENGTH));
    wk_graph_max_length(g, c->context);

    wk_graph_block(g, "embedding");
    struct wk_tensor *embed =
        wk_graph_param(g, "embed.weight", WK_SHAPE(c->vocab, c->embedding), &table);
    struct wk_tensor *x = wk_op_window(wk_op_embedding(embed, tokens), c->window);
    int64_t in = (int64_t)c->window * c->embedding;
    for (int i = 0; i < c->layers; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof(name), "layers.%d", i);
        wk_graph_block(g, name);
        x = wk_op_gelu(linear(x, g, (int64_t[]){in, c->width}, name));
        in = c->width;
    }
    wk_graph_block(g, "head");
    x = linear(x, g, (int64_t[]){in, c->vocab}, "head");
    wk_graph_output(g, "logits", x);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, targets, NULL), NULL);
    return g;
}

static int check(const struct wk_mlp_config *c, struct error *err)
{
    if (!c)
        return error_set(err, WK_EINVAL, "a model's config is NULL");
    const struct config_bound bounds[] = {
        {"layers", c->layers, CONFIG_LAYERS_MAX},      {"window", c->window, CONFIG_WINDOW_MAX},
        {"embedding", c->embedding, CONFIG_WIDTH_MAX}, {"width", c->width, CONFIG_WIDTH_MAX},
        {"context", c->context, CONFIG_CONTEXT_MAX},   {"vocab", c->vocab, CONFIG_VOCAB_MAX}};
    return config_check(bounds, (int)(sizeof(bounds) / sizeof(bounds[0])), err);
}

int wk_mlp_new(const struct wk_mlp_config *config, struct wk_model **ret_model)
{
    struct error err = {0};
    if (check(config, &err))
        return model_refuse(&err, ret_model);
    struct model_kind kind = {.family = FAMILY_MLP, .mlp = *config};
    return model_of_kind(mlp_graph(config), &kind, ret_model);
}
