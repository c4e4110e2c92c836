/* GPT-2 (Radford et al. 2019): learned positions, layer norms, tanh GELU, tied head; linear weights
 * are [in, out], each followed by a bias. */
#include <math.h>
#include <stdio.h>

#include "common/base/parse.h"
#include "libworker/nn/lm.h"
#include "libworker/nn/param.h"

enum {
    LAYERS_MAX = 1024,
    WIDTH_MAX = 65536,
    CONTEXT_MAX = 1 << 20,
    VOCAB_MAX = 1 << 24,
};

static const float INIT_STD = 0.02f;

static void add_norm(struct wk_model *model, int64_t width, int block, const char *name)
{
    param_table_add(model, &(struct param_spec){.rows = width, .block = block, .init = PARAM_ONE},
                    "%s.weight", name);
    param_table_add(model, &(struct param_spec){.rows = width, .block = block, .init = PARAM_ZERO},
                    "%s.bias", name);
}

static void add_linear(struct wk_model *model, const struct param_spec *weight, const char *name)
{
    param_table_add(model, weight, "%s.weight", name);
    struct param_spec bias = {.rows = weight->cols, .block = weight->block, .init = PARAM_ZERO};
    param_table_add(model, &bias, "%s.bias", name);
}

static void add_layer(struct wk_model *model, const struct wk_gpt_config *c, int i)
{
    const struct {
        const char *norm, *name[2];
        int64_t in[2], out[2];
    } halves[2] = {
        {"ln_1", {"attn.c_attn", "attn.c_proj"}, {c->width, c->width}, {3 * c->width, c->width}},
        {"ln_2", {"mlp.c_fc", "mlp.c_proj"}, {c->width, 4 * c->width}, {4 * c->width, c->width}},
    };
    char name[PARAM_NAME_MAX];
    for (int half = 0; half < 2; half++) {
        snprintf(name, sizeof(name), "h.%d.%s", i, halves[half].norm);
        add_norm(model, c->width, 1 + i, name);
        for (int j = 0; j < 2; j++) {
            float std = j ? INIT_STD / sqrtf(2.0f * (float)c->layers) : INIT_STD;
            struct param_spec spec = {.rows = halves[half].in[j],
                                      .cols = halves[half].out[j],
                                      .block = 1 + i,
                                      .init = PARAM_NORMAL,
                                      .init_std = std};
            snprintf(name, sizeof(name), "h.%d.%s", i, halves[half].name[j]);
            add_linear(model, &spec, name);
        }
    }
}

static void add_params(struct wk_model *model, const struct wk_gpt_config *c)
{
    struct param_spec embedding = {.rows = c->vocab,
                                   .cols = c->width,
                                   .init = PARAM_NORMAL,
                                   .init_std = INIT_STD,
                                   .lookup = true};
    param_table_add(model, &embedding, "wte.weight");
    embedding.rows = c->context;
    param_table_add(model, &embedding, "wpe.weight");
    for (int i = 0; i < c->layers; i++)
        add_layer(model, c, i);
    add_norm(model, c->width, 1 + c->layers, "ln_f");
}

static int check(const struct wk_gpt_config *c, struct error *err)
{
    if (!c)
        return error_set(err, WK_EINVAL, "a model's config is NULL");
    const struct {
        const char *name;
        int64_t value, max;
    } bounds[] = {{"layers", c->layers, LAYERS_MAX},
                  {"width", c->width, WIDTH_MAX},
                  {"heads", c->heads, WIDTH_MAX},
                  {"context", c->context, CONTEXT_MAX},
                  {"vocab", c->vocab, VOCAB_MAX}};
    int rc = 0;
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]) && !rc; i++)
        rc = number_within(bounds[i].name, bounds[i].value, 1, bounds[i].max, err);
    if (!rc && c->width % c->heads)
        rc = error_set(err, WK_EINVAL, "%d heads do not divide a width of %d", c->heads, c->width);
    return rc;
}

int wk_gpt_new(const struct wk_gpt_config *config, struct wk_model **ret_model)
{
    struct error err = {0};
    if (check(config, &err))
        return model_refuse(&err, ret_model);
    struct lm_shape shape = {
        .layers = config->layers,
        .heads = config->heads,
        .kv_heads = config->heads,
        .width = config->width,
        .size = config->width / config->heads,
        .inner = 4 * (int64_t)config->width,
        .context = config->context,
        .vocab = config->vocab,
        .norm_epsilon = 1e-5f,
        .tied = true,
        .places = {.norm1 = 0, .qkv = 2, .proj = 4, .norm2 = 6, .up = 8, .down = 10, .count = 12},
    };
    struct lm *g;
    int rc = lm_new(&shape, lm_layer_index(&shape, config->layers) + 2, &g);
    if (rc)
        return model_refuse_memory(ret_model);
    add_params(&g->model, config);
    *ret_model = &g->model;
    return 0;
}
