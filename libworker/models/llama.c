/* Llama (Touvron et al. 2023): RMS norms, rotary positions, grouped keys and values, SwiGLU; linear
 * weights are [out, in] without bias, queries, keys and values side by side, as are gate and up. */
#include <math.h>
#include <stdio.h>

#include <worker/error.h>
#include <worker/graph.h>

#include "libworker/models/kind.h"
#include "libworker/nn/model.h"

enum { NAME_BYTES = 80, FULL_BYTES = 96 }; /* of a layer, of its parameter */

static const double INIT_STD = 0.02;

static struct wk_tensor *matrix(struct wk_graph *g, const char *name, struct wk_shape shape,
                                double std)
{
    char full[FULL_BYTES];
    snprintf(full, sizeof(full), "%s.weight", name);
    return wk_graph_param(g, full, shape, &(struct wk_param){.init = WK_INIT_NORMAL, .scale = std});
}

static struct wk_tensor *layer_matrix(struct wk_graph *g, int i, const char *name,
                                      struct wk_shape shape, double std)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof(full), "model.layers.%d.%s", i, name);
    return matrix(g, full, shape, std);
}

static struct wk_tensor *norm(struct wk_tensor *x, struct wk_graph *g,
                              const struct wk_llama_config *c, const char *name)
{
    char full[FULL_BYTES];
    snprintf(full, sizeof(full), "%s.weight", name);
    struct wk_tensor *weight =
        wk_graph_param(g, full, WK_SHAPE(c->width), &(struct wk_param){.init = WK_INIT_ONE});
    return wk_op_rms_norm(x, weight, c->norm_epsilon);
}

static struct wk_tensor *attend(struct wk_tensor *y, struct wk_graph *g,
                                const struct wk_llama_config *c, int i)
{
    int64_t size = c->width / c->heads, width = c->width, kv = c->kv_heads * size;
    struct wk_rope_options rope = {c->heads + c->kv_heads, size, c->rope_theta};
    struct wk_attention_options attention = {.heads = c->heads, .kv_heads = c->kv_heads};
    struct wk_linear_weights qkv = {.turned = true}, out = {.turned = true};
    double last = (double)((float)INIT_STD / sqrtf(2.0f * (float)c->layers));
    qkv.weight[0] = layer_matrix(g, i, "self_attn.q_proj", WK_SHAPE(width, width), INIT_STD);
    qkv.weight[1] = layer_matrix(g, i, "self_attn.k_proj", WK_SHAPE(kv, width), INIT_STD);
    qkv.weight[2] = layer_matrix(g, i, "self_attn.v_proj", WK_SHAPE(kv, width), INIT_STD);
    out.weight[0] = layer_matrix(g, i, "self_attn.o_proj", WK_SHAPE(width, width), last);
    y = wk_op_attention(wk_op_rope(wk_op_linear(y, &qkv), &rope), &attention);
    return wk_op_linear(y, &out);
}

static struct wk_tensor *feed_forward(struct wk_tensor *y, struct wk_graph *g,
                                      const struct wk_llama_config *c, int i)
{
    struct wk_linear_weights up = {.turned = true}, down = {.turned = true};
    double last = (double)((float)INIT_STD / sqrtf(2.0f * (float)c->layers));
    up.weight[0] = layer_matrix(g, i, "mlp.gate_proj", WK_SHAPE(c->inner, c->width), INIT_STD);
    up.weight[1] = layer_matrix(g, i, "mlp.up_proj", WK_SHAPE(c->inner, c->width), INIT_STD);
    down.weight[0] = layer_matrix(g, i, "mlp.down_proj", WK_SHAPE(c->width, c->inner), last);
    return wk_op_linear(wk_op_swiglu(wk_op_linear(y, &up)), &down);
}

static struct wk_tensor *layer(struct wk_tensor *x, struct wk_graph *g,
                               const struct wk_llama_config *c, int i)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof(name), "model.layers.%d", i);
    wk_graph_block(g, name);
    snprintf(name, sizeof(name), "model.layers.%d.input_layernorm", i);
    struct wk_tensor *y = attend(norm(x, g, c, name), g, c, i);
    x = wk_op_add(x, wk_op_dropout(y, -1));
    snprintf(name, sizeof(name), "model.layers.%d.post_attention_layernorm", i);
    y = feed_forward(norm(x, g, c, name), g, c, i);
    return wk_op_add(x, wk_op_dropout(y, -1));
}

static struct wk_graph *llama_graph(const struct wk_llama_config *c)
{
    struct wk_graph *g = wk_graph_new("llama");
    struct wk_param lookup = {.init = WK_INIT_NORMAL, .scale = INIT_STD, .lookup = true};
    struct wk_shape shape = WK_SHAPE(c->vocab, c->width);
    struct wk_tensor *tokens = wk_graph_input(g, "tokens", WK_I32, WK_SHAPE(WK_SAMPLES, WK_LENGTH));
    struct wk_tensor *targets =
        wk_graph_input(g, "targets", WK_I32, WK_SHAPE(WK_SAMPLES, WK_LENGTH));
    wk_graph_max_length(g, c->context);

    wk_graph_block(g, "embedding");
    struct wk_tensor *table = wk_graph_param(g, "model.embed_tokens.weight", shape, &lookup);
    struct wk_tensor *x = wk_op_dropout(wk_op_embedding(table, tokens), -1);
    for (int i = 0; i < c->layers; i++)
        x = layer(x, g, c, i);

    wk_graph_block(g, "head");
    x = norm(x, g, c, "model.norm");
    if (!c->tied)
        table = wk_graph_param(g, "lm_head.weight", shape, &lookup);
    struct wk_linear_weights head = {.weight = {table}, .turned = true};
    wk_graph_output(g, "logits", wk_op_linear(x, &head));
    wk_graph_loss(g, "loss", wk_op_head_cross_entropy(x, table, targets, NULL), NULL);
    return g;
}

static int check_values(const struct wk_llama_config *c, struct error *err)
{
    if (c->width % c->heads)
        return error_set(err, WK_EINVAL, "%d heads do not divide a width of %d", c->heads,
                         c->width);
    if (c->width / c->heads % 2)
        return error_set(err, WK_EINVAL, "a head of %d is not even", c->width / c->heads);
    if (c->heads % c->kv_heads)
        return error_set(err, WK_EINVAL, "%d kv_heads do not divide %d heads", c->kv_heads,
                         c->heads);
    if (!(c->rope_theta > 1) || !isfinite(c->rope_theta))
        return error_set(err, WK_EINVAL, "rope_theta is %g: it must be above 1", c->rope_theta);
    if (!(c->norm_epsilon > 0) || !isfinite(c->norm_epsilon))
        return error_set(err, WK_EINVAL, "norm_epsilon is %g: it must be above 0", c->norm_epsilon);
    return 0;
}

static int check(const struct wk_llama_config *c, struct error *err)
{
    if (!c)
        return error_set(err, WK_EINVAL, "a model's config is NULL");
    const struct config_bound bounds[] = {
        {"layers", c->layers, CONFIG_LAYERS_MAX}, {"width", c->width, CONFIG_WIDTH_MAX},
        {"heads", c->heads, CONFIG_WIDTH_MAX},    {"kv_heads", c->kv_heads, CONFIG_WIDTH_MAX},
        {"inner", c->inner, CONFIG_INNER_MAX},    {"context", c->context, CONFIG_CONTEXT_MAX},
        {"vocab", c->vocab, CONFIG_VOCAB_MAX}};
    int rc = config_check(bounds, (int)(sizeof(bounds) / sizeof(bounds[0])), err);
    if (rc)
        return rc;
    return check_values(c, err);
}

int wk_llama_new(const struct wk_llama_config *config, struct wk_model **ret_model)
{
    struct error err = {0};
    if (check(config, &err))
        return model_refuse(&err, ret_model);
    struct model_kind kind = {.family = FAMILY_LLAMA, .llama = *config};
    return model_of_kind(llama_graph(config), &kind, ret_model);
}
