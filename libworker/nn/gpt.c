/* GPT-2 (Radford et al. 2019): embeddings, pre-norm blocks, final norm, tied head. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "libworker/nn/gpt.h"
#include "libworker/nn/loss.h"
#include "libworker/nn/norm.h"
#include "libworker/nn/param.h"

enum {
    LAYERS_MAX = 1024,
    WIDTH_MAX = 65536,
    CONTEXT_MAX = 1 << 20,
    VOCAB_MAX = 1 << 24,
};

static const float INIT_STD = 0.02f;

static struct gpt *gpt_of(struct wk_model *model)
{
    return (struct gpt *)model;
}

int gpt_index(int layer, int place)
{
    return GPT_LAYERS + layer * LAYER_PARAMS + place;
}

static struct norm final_norm(const struct gpt *g)
{
    return norm_at(&g->model, gpt_index(g->config.layers, LAYER_NORM1), g->memory.final_stats,
                   g->samples * g->length);
}

static struct head_loss head_of(const struct gpt *g)
{
    const struct param *wte = &g->model.params[GPT_WTE];
    return (struct head_loss){
        .kernels = g->model.kernels,
        .rows = g->samples * g->length,
        .width = g->config.width,
        .vocab = g->config.vocab,
        .targets = g->model.batch.targets,
        .table = wte->data,
        .dtable = wte->grad,
    };
}

/* memory.final from the tokens. */
static void trunk_forward(struct gpt *g, const int32_t *tokens)
{
    const struct param *params = g->model.params;
    int64_t rows = g->samples * g->length;
    const int64_t size[3] = {rows, g->length, g->config.width};
    g->model.kernels->embedding_forward(g->memory.embedded, tokens, params[GPT_WTE].data,
                                        params[GPT_WPE].data, size);
    for (int i = 0; i < g->config.layers; i++)
        gpt_layer_forward(g, i);
    struct norm norm = final_norm(g);
    norm_forward(&norm, g->memory.final, g->layers[g->config.layers - 1].output, rows);
}

static int gpt_forward(struct wk_model *model, const struct wk_batch *batch, double *ret_loss,
                       struct error *err)
{
    struct gpt *g = gpt_of(model);
    int rc = gpt_reserve(g, batch->samples, batch->length, err);
    if (rc)
        return rc;
    trunk_forward(g, batch->tokens);
    struct head_loss head = head_of(g);
    *ret_loss = head_loss_forward(&head, g->memory.logits, g->memory.final) / batch->denominator;
    return 0;
}

static int gpt_backward(struct wk_model *model, float scale, struct error *err)
{
    (void)err;
    struct gpt *g = gpt_of(model);
    struct gpt_memory *m = &g->memory;
    const struct param *params = model->params;
    int64_t rows = g->samples * g->length;

    struct head_loss head = head_of(g);
    head_loss_backward(&head, m->dnorm, m->logits, m->final, scale);
    struct norm norm = final_norm(g);
    model->kernels->fill(m->dx, 0, (size_t)(rows * g->config.width));
    norm_backward(&norm, m->dx, g->layers[g->config.layers - 1].output, m->dnorm, rows);
    model_announce(model, model->n_params - 1);
    model_announce(model, model->n_params - 2);
    for (int i = g->config.layers - 1; i >= 0; i--)
        gpt_layer_backward(g, i);

    const int64_t size[3] = {rows, g->length, g->config.width};
    model->kernels->embedding_backward(params[GPT_WTE].grad, params[GPT_WPE].grad,
                                       model->batch.tokens, m->dx, size);
    model_announce(model, GPT_WPE);
    model_announce(model, GPT_WTE);
    return 0;
}

static int gpt_logits(struct wk_model *model, const struct wk_batch *batch, float *ret_logits,
                      struct error *err)
{
    struct gpt *g = gpt_of(model);
    int rc = gpt_reserve(g, batch->samples, batch->length, err);
    if (rc)
        return rc;
    trunk_forward(g, batch->tokens);
    struct head_loss head = head_of(g);
    head.rows = 1;
    for (int64_t i = 0; i < batch->samples; i++) {
        int64_t last = (i + 1) * batch->length - 1;
        head_logits(&head, ret_logits + i * head.vocab, g->memory.final + last * head.width);
    }
    return 0;
}

static void gpt_free(struct wk_model *model)
{
    struct gpt *g = gpt_of(model);
    param_table_fini(model);
    slab_fini(&g->slab);
    free(g->layers);
    free(g);
}

static const struct model_ops gpt_ops = {
    .name = "gpt",
    .forward = gpt_forward,
    .backward = gpt_backward,
    .logits = gpt_logits,
    .free = gpt_free,
};

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
    model->n_blocks = c->layers + 2;
}

static bool acceptable(const struct wk_gpt_config *c)
{
    return c->layers >= 1 && c->layers <= LAYERS_MAX && c->width >= 1 && c->width <= WIDTH_MAX &&
           c->heads >= 1 && c->width % c->heads == 0 && c->context >= 1 &&
           c->context <= CONTEXT_MAX && c->vocab >= 1 && c->vocab <= VOCAB_MAX;
}

int wk_gpt_new(const struct wk_gpt_config *config, struct wk_model **ret_model)
{
    if (!acceptable(config))
        return WK_EINVAL;
    struct gpt *g = calloc(1, sizeof(*g));
    if (!g)
        return WK_ENOMEM;
    g->config = *config;
    g->model.ops = &gpt_ops;
    g->model.kernels = kernel_cpu();
    g->model.context = config->context;
    g->model.vocab = config->vocab;
    g->layers = calloc((size_t)config->layers, sizeof(*g->layers));
    if (!g->layers || param_table_init(&g->model, gpt_index(config->layers, 2))) {
        gpt_free(&g->model);
        return WK_ENOMEM;
    }
    add_params(&g->model, config);
    *ret_model = &g->model;
    return 0;
}
