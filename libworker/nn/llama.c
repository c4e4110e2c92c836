/* Llama (Touvron et al. 2023): RMS norms, rotary positions, grouped keys and values, SwiGLU; linear
 * weights are [out, in] without bias, queries, keys and values side by side, as are gate and up.
 */
#include <math.h>
#include <stdio.h>

#include "common/base/parse.h"
#include "libworker/nn/lm.h"
#include "libworker/nn/param.h"

enum {
    LAYERS_MAX = 1024,
    WIDTH_MAX = 65536,
    INNER_MAX = 1 << 20,
    CONTEXT_MAX = 1 << 20,
    VOCAB_MAX = 1 << 24,
};

static const float INIT_STD = 0.02f;

static void add_matrix(struct wk_model *model, const struct param_spec *spec, const char *name)
{
    struct param_spec normal = *spec;
    normal.init = PARAM_NORMAL;
    if (normal.init_std == 0)
        normal.init_std = INIT_STD;
    param_table_add(model, &normal, "%s.weight", name);
}

static void add_norm(struct wk_model *model, int64_t width, int block, const char *name)
{
    param_table_add(model, &(struct param_spec){.rows = width, .block = block, .init = PARAM_ONE},
                    "%s.weight", name);
}

static void add_layer(struct wk_model *model, const struct lm_shape *s, int i)
{
    float last_std = INIT_STD / sqrtf(2.0f * (float)s->layers);
    int64_t q = s->heads * s->size, kv = s->kv_heads * s->size;
    const struct {
        const char *name;
        int64_t out, in;
        float std;
    } parts[] = {
        {"input_layernorm", 0, 0, 0},
        {"self_attn.q_proj", q, s->width, 0},
        {"self_attn.k_proj", kv, s->width, 0},
        {"self_attn.v_proj", kv, s->width, 0},
        {"self_attn.o_proj", s->width, q, last_std},
        {"post_attention_layernorm", 0, 0, 0},
        {"mlp.gate_proj", s->inner, s->width, 0},
        {"mlp.up_proj", s->inner, s->width, 0},
        {"mlp.down_proj", s->width, s->inner, last_std},
    };
    char name[PARAM_NAME_MAX];
    for (size_t p = 0; p < sizeof(parts) / sizeof(*parts); p++) {
        snprintf(name, sizeof(name), "model.layers.%d.%s", i, parts[p].name);
        struct param_spec spec = {
            .rows = parts[p].out, .cols = parts[p].in, .block = 1 + i, .init_std = parts[p].std};
        if (parts[p].out)
            add_matrix(model, &spec, name);
        else
            add_norm(model, s->width, 1 + i, name);
    }
}

static void add_params(struct wk_model *model, const struct lm_shape *s)
{
    struct param_spec table = {.rows = s->vocab, .cols = s->width, .lookup = true};
    add_matrix(model, &table, "model.embed_tokens");
    for (int i = 0; i < s->layers; i++)
        add_layer(model, s, i);
    add_norm(model, s->width, 1 + s->layers, "model.norm");
    table.block = 1 + s->layers;
    if (!s->tied)
        add_matrix(model, &table, "lm_head");
}

static int check(const struct wk_llama_config *c, struct error *err)
{
    if (!c)
        return error_set(err, WK_EINVAL, "a model's config is NULL");
    const struct {
        const char *name;
        int64_t value, max;
    } bounds[] = {{"layers", c->layers, LAYERS_MAX}, {"width", c->width, WIDTH_MAX},
                  {"heads", c->heads, WIDTH_MAX},    {"kv_heads", c->kv_heads, WIDTH_MAX},
                  {"inner", c->inner, INNER_MAX},    {"context", c->context, CONTEXT_MAX},
                  {"vocab", c->vocab, VOCAB_MAX}};
    int rc = 0;
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]) && !rc; i++)
        rc = number_within(bounds[i].name, bounds[i].value, 1, bounds[i].max, err);
    if (!rc && c->width % c->heads)
        rc = error_set(err, WK_EINVAL, "%d heads do not divide a width of %d", c->heads, c->width);
    if (!rc && c->width / c->heads % 2)
        rc = error_set(err, WK_EINVAL, "a head of %d is not even", c->width / c->heads);
    if (!rc && c->heads % c->kv_heads)
        rc = error_set(err, WK_EINVAL, "%d kv_heads do not divide %d heads", c->kv_heads, c->heads);
    if (!rc && (!(c->rope_theta > 1) || !isfinite(c->rope_theta)))
        rc = error_set(err, WK_EINVAL, "rope_theta is %g: it must be above 1", c->rope_theta);
    if (!rc && (!(c->norm_epsilon > 0) || !isfinite(c->norm_epsilon)))
        rc = error_set(err, WK_EINVAL, "norm_epsilon is %g: it must be above 0", c->norm_epsilon);
    return rc;
}

int wk_llama_new(const struct wk_llama_config *config, struct wk_model **ret_model)
{
    struct error err = {0};
    if (check(config, &err))
        return model_refuse(&err, ret_model);
    struct lm_shape shape = {
        .layers = config->layers,
        .heads = config->heads,
        .kv_heads = config->kv_heads,
        .width = config->width,
        .size = config->width / config->heads,
        .inner = config->inner,
        .context = config->context,
        .vocab = config->vocab,
        .norm_epsilon = (float)config->norm_epsilon,
        .rms = true,
        .joined = true,
        .gated = true,
        .rope_theta = config->rope_theta,
        .tied = config->tied,
        .places = {.norm1 = 0, .qkv = 1, .proj = 4, .norm2 = 5, .up = 6, .down = 8, .count = 9},
    };
    struct lm *g;
    int rc = lm_new(&shape, lm_layer_index(&shape, config->layers) + 2, &g);
    if (rc)
        return model_refuse_memory(ret_model);
    add_params(&g->model, &shape);
    *ret_model = &g->model;
    return 0;
}
