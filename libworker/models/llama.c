/* Llama (Touvron et al. 2023): RMS norms, rotary positions, grouped keys and values, SwiGLU; linear
 * weights are [out, in], queries, keys and values side by side, as are gate and up. With biases, a
 * window or norms of queries and keys it is Qwen2, Mistral or Qwen3. */
#include <math.h>
#include <stdio.h>

#include <worker/error.h>
#include <worker/graph.h>

#include "libworker/models/kind.h"
#include "libworker/nn/model.h"

enum { NAME_BYTES = 80, FULL_BYTES = 96, PARTS = 3 }; /* of a block, of a parameter */

static const double INIT_STD = 0.02;

struct layer {
    struct wk_graph *graph;
    const struct wk_llama_config *config;
    int number;
};

static int64_t size_of(const struct wk_llama_config *c)
{
    return c->head_size ? c->head_size : c->width / c->heads;
}

/* The weights at the end of each half of a layer begin smaller, as in GPT-2. */
static double last_std(const struct wk_llama_config *c)
{
    return (double)((float)INIT_STD / sqrtf(2.0f * (float)c->layers));
}

static struct wk_tensor *layer_param(const struct layer *l, const char *name, struct wk_shape shape,
                                     const struct wk_param *options)
{
    char full[FULL_BYTES];
    snprintf(full, sizeof(full), "model.layers.%d.%s", l->number, name);
    return wk_graph_param(l->graph, full, shape, options);
}

/* The products of one x with their outputs side by side. */
struct linear {
    int64_t in;
    double std;
    bool biased;
    int n;
    struct part {
        const char *name;
        int64_t out;
    } part[PARTS];
};

static struct wk_tensor *linear(struct wk_tensor *x, const struct layer *l, const struct linear *to)
{
    char name[NAME_BYTES];
    struct wk_param normal = {.init = WK_INIT_NORMAL, .scale = to->std};
    struct wk_linear_weights weights = {.turned = true};
    struct wk_tensor *biases[PARTS];
    for (int i = 0; i < to->n; i++) {
        snprintf(name, sizeof(name), "%s.weight", to->part[i].name);
        weights.weight[i] = layer_param(l, name, WK_SHAPE(to->part[i].out, to->in), &normal);
    }
    for (int i = 0; i < to->n && to->biased; i++) {
        snprintf(name, sizeof(name), "%s.bias", to->part[i].name);
        biases[i] = layer_param(l, name, WK_SHAPE(to->part[i].out), NULL);
    }
    if (to->biased)
        weights.bias = to->n > 1 ? wk_op_concat(biases, to->n, 0) : biases[0];
    return wk_op_linear(x, &weights);
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

/* One of queries, keys and values, by heads: [samples, length, heads, size]. */
static struct wk_tensor *by_heads(struct wk_tensor *y, const struct layer *l,
                                  const struct part *part, const char *normed)
{
    const struct wk_llama_config *c = l->config;
    const struct linear to = {c->width, INIT_STD, c->qkv_bias, 1, {*part}};
    int64_t size = size_of(c);
    y = wk_op_reshape(linear(y, l, &to), WK_SHAPE(WK_SAMPLES, WK_LENGTH, part->out / size, size));
    if (!normed)
        return y;
    struct wk_tensor *weight =
        layer_param(l, normed, WK_SHAPE(size), &(struct wk_param){.init = WK_INIT_ONE});
    return wk_op_rms_norm(y, weight, c->norm_epsilon);
}

/* Queries, keys and values side by side, the first two normed by head if the config has it so. */
static struct wk_tensor *project(struct wk_tensor *y, const struct layer *l)
{
    const struct wk_llama_config *c = l->config;
    int64_t q = c->heads * size_of(c), kv = c->kv_heads * size_of(c);
    const struct linear qkv = {
        c->width,
        INIT_STD,
        c->qkv_bias,
        PARTS,
        {{"self_attn.q_proj", q}, {"self_attn.k_proj", kv}, {"self_attn.v_proj", kv}}};
    if (!c->qk_norm)
        return linear(y, l, &qkv);
    struct wk_tensor *parts[PARTS] = {by_heads(y, l, &qkv.part[0], "self_attn.q_norm.weight"),
                                      by_heads(y, l, &qkv.part[1], "self_attn.k_norm.weight"),
                                      by_heads(y, l, &qkv.part[2], NULL)};
    return wk_op_reshape(wk_op_concat(parts, PARTS, 2),
                         WK_SHAPE(WK_SAMPLES, WK_LENGTH, q + 2 * kv));
}

static struct wk_tensor *attend(struct wk_tensor *y, const struct layer *l)
{
    const struct wk_llama_config *c = l->config;
    int64_t size = size_of(c);
    const struct wk_rope_options rope = {.heads = c->heads + c->kv_heads,
                                         .size = size,
                                         .theta = c->rope_theta,
                                         .scaling = c->rope_scaling};
    const struct wk_attention_options attention = {
        .heads = c->heads,
        .kv_heads = c->kv_heads,
        .window = l->number >= c->window_layer ? c->window : 0};
    const struct linear out = {
        c->heads * size, last_std(c), c->out_bias, 1, {{"self_attn.o_proj", c->width}}};
    return linear(wk_op_attention(wk_op_rope(project(y, l), &rope), &attention), l, &out);
}

static struct wk_tensor *feed_forward(struct wk_tensor *y, const struct layer *l)
{
    const struct wk_llama_config *c = l->config;
    const struct linear up = {c->width,
                              INIT_STD,
                              c->mlp_bias,
                              2,
                              {{"mlp.gate_proj", c->inner}, {"mlp.up_proj", c->inner}}};
    const struct linear down = {
        c->inner, last_std(c), c->mlp_bias, 1, {{"mlp.down_proj", c->width}}};
    return linear(wk_op_swiglu(linear(y, l, &up)), l, &down);
}

static struct wk_tensor *layer(struct wk_tensor *x, struct wk_graph *g,
                               const struct wk_llama_config *c, int i)
{
    const struct layer l = {g, c, i};
    char name[NAME_BYTES];
    snprintf(name, sizeof(name), "model.layers.%d", i);
    wk_graph_block(g, name);
    snprintf(name, sizeof(name), "model.layers.%d.input_layernorm", i);
    x = wk_op_add(x, wk_op_dropout(attend(norm(x, g, c, name), &l), -1));
    snprintf(name, sizeof(name), "model.layers.%d.post_attention_layernorm", i);
    return wk_op_add(x, wk_op_dropout(feed_forward(norm(x, g, c, name), &l), -1));
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

/* The numbers of scaled positions are the operation's to check. */
static int check_values(const struct wk_llama_config *c, struct error *err)
{
    if (!c->head_size && c->width % c->heads)
        return error_set(err, WK_EINVAL, "%d heads do not divide a width of %d", c->heads,
                         c->width);
    if (size_of(c) < 2 || size_of(c) % 2)
        return error_set(err, WK_EINVAL, "a head of %lld is not even", (long long)size_of(c));
    if (c->heads % c->kv_heads)
        return error_set(err, WK_EINVAL, "%d kv_heads do not divide %d heads", c->kv_heads,
                         c->heads);
    if (!(c->rope_theta > 1) || !isfinite(c->rope_theta))
        return error_set(err, WK_EINVAL, "rope_theta is %g: it must be above 1", c->rope_theta);
    if (!(c->norm_epsilon > 0) || !isfinite(c->norm_epsilon))
        return error_set(err, WK_EINVAL, "norm_epsilon is %g: it must be above 0", c->norm_epsilon);
    if (c->window < 0 || c->window_layer < 0 || c->window_layer > c->layers)
        return error_set(err, WK_EINVAL,
                         "a window of %d from layer %d of %d on: none of them is below 0, and the "
                         "layer is at most their number",
                         c->window, c->window_layer, c->layers);
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
