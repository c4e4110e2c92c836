/* Llama (Touvron et al. 2023): RMS norms, rotary positions, grouped keys and values, SwiGLU; linear
 * weights are [out, in] without bias, queries, keys and values side by side, as are gate and up.
 */
#include <math.h>
#include <stdio.h>

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

static bool acceptable(const struct wk_llama_config *c)
{
    return c->layers >= 1 && c->layers <= LAYERS_MAX && c->width >= 1 && c->width <= WIDTH_MAX &&
           c->heads >= 1 && c->width % c->heads == 0 && c->width / c->heads % 2 == 0 &&
           c->kv_heads >= 1 && c->heads % c->kv_heads == 0 && c->inner >= 1 &&
           c->inner <= INNER_MAX && c->context >= 1 && c->context <= CONTEXT_MAX && c->vocab >= 1 &&
           c->vocab <= VOCAB_MAX && c->rope_theta > 1 && isfinite(c->rope_theta) &&
           c->norm_epsilon > 0 && isfinite(c->norm_epsilon);
}

int wk_llama_new(const struct wk_llama_config *config, struct wk_model **ret_model)
{
    if (!acceptable(config))
        return WK_EINVAL;
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
        return rc;
    add_params(&g->model, &shape);
    *ret_model = &g->model;
    return 0;
}
