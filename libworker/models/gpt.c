/* GPT-2 (Radford et al. 2019): learned positions, layer norms, tanh GELU, tied head; linear weights
 * are [in, out], each followed by a bias. */
#include <math.h>
#include <stdio.h>

#include <worker/error.h>
#include <worker/graph.h>

#include "libworker/models/kind.h"
#include "libworker/nn/model.h"

enum { NAME_BYTES = 80, FULL_BYTES = 96 }; /* of a layer, of its parameter */

static const double INIT_STD = 0.02, EPSILON = 1e-5;

static struct wk_tensor *norm(struct wk_tensor *x, struct wk_graph *g, int64_t width,
                              const char *name)
{
    char weight[FULL_BYTES], bias[FULL_BYTES];
    snprintf(weight, sizeof(weight), "%s.weight", name);
    snprintf(bias, sizeof(bias), "%s.bias", name);
    struct wk_tensor *w =
        wk_graph_param(g, weight, WK_SHAPE(width), &(struct wk_param){.init = WK_INIT_ONE});
    struct wk_tensor *b = wk_graph_param(g, bias, WK_SHAPE(width), NULL);
    return wk_op_layer_norm(x, w, b, EPSILON);
}

struct shape {
    int64_t in, out;
    double std;
};

static struct wk_tensor *linear(struct wk_tensor *x, struct wk_graph *g, const struct shape *shape,
                                const char *name)
{
    char weight[FULL_BYTES], bias[FULL_BYTES];
    snprintf(weight, sizeof(weight), "%s.weight", name);
    snprintf(bias, sizeof(bias), "%s.bias", name);
    struct wk_param normal = {.init = WK_INIT_NORMAL, .scale = shape->std};
    struct wk_linear_weights weights = {0};
    weights.weight[0] = wk_graph_param(g, weight, WK_SHAPE(shape->in, shape->out), &normal);
    weights.bias = wk_graph_param(g, bias, WK_SHAPE(shape->out), NULL);
    return wk_op_linear(x, &weights);
}

/* x[N, C] through layer `i`. */
static struct wk_tensor *layer(struct wk_tensor *x, struct wk_graph *g,
                               const struct wk_gpt_config *c, int i)
{
    double last = (double)((float)INIT_STD / sqrtf(2.0f * (float)c->layers));
    int64_t width = c->width;
    struct shape qkv = {width, 3 * width, INIT_STD}, proj = {width, width, last};
    struct shape up = {width, 4 * width, INIT_STD}, down = {4 * width, width, last};
    struct wk_attention_options attention = {.heads = c->heads};
    char name[NAME_BYTES];
    snprintf(name, sizeof(name), "h.%d", i);
    wk_graph_block(g, name);

    snprintf(name, sizeof(name), "h.%d.ln_1", i);
    struct wk_tensor *y = norm(x, g, width, name);
    snprintf(name, sizeof(name), "h.%d.attn.c_attn", i);
    y = wk_op_attention(linear(y, g, &qkv, name), &attention);
    snprintf(name, sizeof(name), "h.%d.attn.c_proj", i);
    x = wk_op_add(x, wk_op_dropout(linear(y, g, &proj, name), -1));

    snprintf(name, sizeof(name), "h.%d.ln_2", i);
    y = norm(x, g, width, name);
    snprintf(name, sizeof(name), "h.%d.mlp.c_fc", i);
    y = wk_op_gelu(linear(y, g, &up, name));
    snprintf(name, sizeof(name), "h.%d.mlp.c_proj", i);
    return wk_op_add(x, wk_op_dropout(linear(y, g, &down, name), -1));
}

static struct wk_graph *gpt_graph(const struct wk_gpt_config *c)
{
    struct wk_graph *g = wk_graph_new("gpt");
    struct wk_param table = {.init = WK_INIT_NORMAL, .scale = INIT_STD, .lookup = true};
    struct wk_tensor *tokens = wk_graph_input(g, "tokens", WK_I32, WK_SHAPE(WK_SAMPLES, WK_LENGTH));
    struct wk_tensor *targets =
        wk_graph_input(g, "targets", WK_I32, WK_SHAPE(WK_SAMPLES, WK_LENGTH));

    wk_graph_block(g, "embedding");
    struct wk_tensor *wte = wk_graph_param(g, "wte.weight", WK_SHAPE(c->vocab, c->width), &table);
    struct wk_tensor *wpe = wk_graph_param(g, "wpe.weight", WK_SHAPE(c->context, c->width), &table);
    struct wk_tensor *x = wk_op_add(wk_op_embedding(wte, tokens), wk_op_prefix(wpe));
    x = wk_op_dropout(x, -1);
    for (int i = 0; i < c->layers; i++)
        x = layer(x, g, c, i);

    wk_graph_block(g, "head");
    x = norm(x, g, c->width, "ln_f");
    struct wk_linear_weights head = {.weight = {wte}, .turned = true};
    wk_graph_output(g, "logits", wk_op_linear(x, &head));
    wk_graph_loss(g, "loss", wk_op_head_cross_entropy(x, wte, targets, NULL), NULL);
    return g;
}

static int check(const struct wk_gpt_config *c, struct error *err)
{
    if (!c)
        return error_set(err, WK_EINVAL, "a model's config is NULL");
    const struct config_bound bounds[] = {{"layers", c->layers, CONFIG_LAYERS_MAX},
                                          {"width", c->width, CONFIG_WIDTH_MAX},
                                          {"heads", c->heads, CONFIG_WIDTH_MAX},
                                          {"context", c->context, CONFIG_CONTEXT_MAX},
                                          {"vocab", c->vocab, CONFIG_VOCAB_MAX}};
    int rc = config_check(bounds, (int)(sizeof(bounds) / sizeof(bounds[0])), err);
    if (!rc && c->width % c->heads)
        rc = error_set(err, WK_EINVAL, "%d heads do not divide a width of %d", c->heads, c->width);
    return rc;
}

int wk_gpt_new(const struct wk_gpt_config *config, struct wk_model **ret_model)
{
    struct error err = {0};
    if (check(config, &err))
        return model_refuse(&err, ret_model);
    struct model_kind kind = {.family = FAMILY_GPT, .gpt = *config};
    return model_of_kind(gpt_graph(config), &kind, ret_model);
}
