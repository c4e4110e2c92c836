/* The passes from tokens to loss and back; gpt.c and llama.c define the blocks. */
#include <stdlib.h>

#include "libworker/nn/lm.h"
#include "libworker/nn/loss.h"
#include "libworker/nn/norm.h"
#include "libworker/nn/outputs.h"
#include "libworker/nn/param.h"
#include "libworker/nn/random.h"

enum { TABLE, POSITIONS };

static struct lm *lm_of(struct wk_model *model)
{
    return (struct lm *)model;
}

int lm_layer_index(const struct lm_shape *shape, int layer)
{
    return (shape->rope_theta > 0 ? 1 : 2) + layer * shape->places.count;
}

static int final_norm(const struct lm *g)
{
    return lm_layer_index(&g->shape, g->shape.layers);
}

static int head_index(const struct lm *g)
{
    return g->shape.tied ? TABLE : final_norm(g) + (g->shape.rms ? 1 : 2);
}

static int64_t rows_of(const struct lm *g)
{
    return g->layout.samples * g->layout.length;
}

static struct head_loss head_of(const struct lm *g)
{
    const struct param *table = &g->model.params[head_index(g)];
    return (struct head_loss){
        .kernels = g->model.kernels,
        .rows = rows_of(g),
        .width = g->shape.width,
        .vocab = g->shape.vocab,
        .targets = g->model.batch.targets,
        .smoothing = g->model.label_smoothing,
        .table = table->data,
        .dtable = table->grad,
        .low = g->model.low,
        .table_low = table->low,
    };
}

static float *stream(const struct lm *g)
{
    return g->layers[g->shape.layers - 1].output;
}

/* A key for each sample, of what makes it this sample in this step. */
static uint64_t sample_key(const struct lm *g, int64_t sample)
{
    const struct wk_batch *batch = &g->model.batch;
    uint64_t hash = g->model.dropout_seed ^ random_bits((uint64_t)batch->position, 0);
    for (int64_t i = 0; i < batch->length; i++)
        hash = (hash ^ (uint64_t)batch->tokens[sample * batch->length + i]) * 0x100000001b3u;
    return hash;
}

void lm_drop(struct lm *g, float *x, uint64_t place)
{
    int64_t each = g->layout.length * g->shape.width;
    for (int64_t i = 0; i < g->layout.samples && g->dropping; i++)
        g->model.kernels->dropout(x + i * each, (size_t)each, random_bits(sample_key(g, i), place),
                                  1 - g->model.dropout);
}

/* The same as the kernel, from tables in bf16 or f16. */
static void look_up(struct lm *g, const int32_t *tokens)
{
    const struct wk_model *m = &g->model;
    int64_t width = g->shape.width;
    for (int64_t r = 0; r < rows_of(g); r++) {
        float *out = g->memory.embedded + r * width;
        model_look_up(m, &m->params[TABLE], tokens[r], out);
        if (g->shape.rope_theta > 0)
            continue;
        model_look_up(m, &m->params[POSITIONS], r % g->layout.length, g->memory.tile);
        m->kernels->add(out, g->memory.tile, (size_t)width);
    }
}

static int embed(struct lm *g, const int32_t *tokens, struct error *err)
{
    struct wk_model *m = &g->model;
    const int64_t size[3] = {rows_of(g), g->layout.length, g->shape.width};
    int rc = model_enter(m, 0, MODEL_FORWARD, err);
    if (rc)
        return rc;
    const float *positions = g->shape.rope_theta > 0 ? NULL : m->params[POSITIONS].data;
    if (m->low)
        look_up(g, tokens);
    else
        m->kernels->embedding_forward(g->memory.embedded, tokens, m->params[TABLE].data, positions,
                                      size);
    lm_drop(g, g->memory.embedded, 0);
    return model_leave(m, 0, MODEL_FORWARD, err);
}

/* The stream after the last layer, from the tokens. */
static int trunk_forward(struct lm *g, const int32_t *tokens, struct error *err)
{
    int rc = embed(g, tokens, err);
    for (int i = 0; i < g->shape.layers && !rc; i++) {
        rc = model_enter(&g->model, 1 + i, MODEL_FORWARD, err);
        if (rc)
            break;
        lm_layer_forward(g, i);
        g->held = i;
        rc = model_leave(&g->model, 1 + i, MODEL_FORWARD, err);
    }
    return rc;
}

/* The last block, and around a tied head the first one too. */
static int enter_head(struct lm *g, enum model_pass pass, struct error *err)
{
    int rc = model_enter(&g->model, g->model.n_blocks - 1, pass, err);
    return rc || !g->shape.tied ? rc : model_enter(&g->model, 0, pass, err);
}

static int leave_head(struct lm *g, enum model_pass pass, struct error *err)
{
    int rc = g->shape.tied ? model_leave(&g->model, 0, pass, err) : 0;
    return rc ? rc : model_leave(&g->model, g->model.n_blocks - 1, pass, err);
}

/* From the tokens into the head's brackets: memory.final. */
static int forward_to_head(struct lm *g, const struct wk_batch *batch, struct error *err)
{
    int rc = lm_reserve(g, batch->samples, batch->length, err);
    rc = rc ? rc : trunk_forward(g, batch->tokens, err);
    rc = rc ? rc : enter_head(g, MODEL_FORWARD, err);
    if (rc)
        return rc;
    struct norm norm = lm_norm(g, final_norm(g), g->memory.final_stats);
    lm_norm_forward(g, &norm, g->memory.final, stream(g));
    return 0;
}

static int lm_forward(struct wk_model *model, const struct wk_batch *batch, double *ret_loss,
                      struct error *err)
{
    struct lm *g = lm_of(model);
    g->dropping = model->dropout > 0;
    int rc = forward_to_head(g, batch, err);
    if (rc)
        return rc;
    struct head_loss head = head_of(g);
    *ret_loss = head_loss_forward(&head, g->memory.logits, g->memory.final) / batch->denominator;
    return leave_head(g, MODEL_FORWARD, err);
}

static int head_backward(struct lm *g, float scale, struct error *err)
{
    struct lm_memory *m = &g->memory;
    int rc = enter_head(g, MODEL_BACKWARD, err);
    if (rc)
        return rc;
    struct head_loss head = head_of(g);
    head_loss_backward(&head, m->dnorm, m->logits, m->final, scale);
    if (!g->shape.tied)
        model_announce(&g->model, head_index(g));
    struct norm norm = lm_norm(g, final_norm(g), m->final_stats);
    g->model.kernels->fill(m->dx, 0, (size_t)(rows_of(g) * g->shape.width));
    norm_backward(&norm, m->dx, stream(g), m->dnorm, rows_of(g));
    return leave_head(g, MODEL_BACKWARD, err);
}

static int layer_backward(struct lm *g, int i, struct error *err)
{
    int rc = model_enter(&g->model, 1 + i, MODEL_BACKWARD, err);
    if (rc)
        return rc;
    if (g->layout.recompute && g->held != i)
        lm_layer_forward(g, i);
    g->held = i;
    lm_layer_backward(g, i);
    return model_leave(&g->model, 1 + i, MODEL_BACKWARD, err);
}

static int embed_backward(struct lm *g, struct error *err)
{
    struct wk_model *m = &g->model;
    bool learned = g->shape.rope_theta <= 0;
    const int64_t size[3] = {rows_of(g), g->layout.length, g->shape.width};
    int rc = model_enter(m, 0, MODEL_BACKWARD, err);
    if (rc)
        return rc;
    lm_drop(g, g->memory.dx, 0);
    m->kernels->embedding_backward(m->params[TABLE].grad,
                                   learned ? m->params[POSITIONS].grad : NULL, m->batch.tokens,
                                   g->memory.dx, size);
    if (learned)
        model_announce(m, POSITIONS);
    model_announce(m, TABLE);
    return model_leave(m, 0, MODEL_BACKWARD, err);
}

static int lm_backward(struct wk_model *model, float scale, struct error *err)
{
    struct lm *g = lm_of(model);
    int rc = head_backward(g, scale, err);
    for (int i = g->shape.layers - 1; i >= 0 && !rc; i--)
        rc = layer_backward(g, i, err);
    return rc ? rc : embed_backward(g, err);
}

static struct operand row_of(const struct operand *rows, int64_t offset)
{
    return (struct operand){rows->data ? rows->data + offset : NULL,
                            rows->low ? rows->low + offset : NULL};
}

static int lm_logits(struct wk_model *model, const struct wk_batch *batch, float *ret_logits,
                     struct error *err)
{
    struct lm *g = lm_of(model);
    g->dropping = false;
    int rc = forward_to_head(g, batch, err);
    if (rc)
        return rc;
    struct head_loss head = head_of(g);
    head.rows = 1;
    for (int64_t i = 0; i < batch->samples; i++) {
        int64_t last = (i + 1) * batch->length - 1;
        head_logits(&head, ret_logits + i * head.vocab,
                    row_of(&g->memory.final, last * head.width));
    }
    return leave_head(g, MODEL_FORWARD, err);
}

static int lm_evaluate(struct wk_model *model, const struct wk_batch *batch, double *ret_loss,
                       const struct wk_outputs *outputs, struct error *err)
{
    struct lm *g = lm_of(model);
    g->dropping = false;
    int rc = forward_to_head(g, batch, err);
    if (rc)
        return rc;
    struct head_loss head = head_of(g);
    struct kernel_entropy entropy = {head.rows, head.vocab, batch->targets, 0};
    head_logits(&head, g->memory.logits, g->memory.final);
    *ret_loss =
        outputs_take(model->kernels, &entropy, g->memory.logits, outputs) / batch->denominator;
    return leave_head(g, MODEL_FORWARD, err);
}

static int lm_model_reserve(struct wk_model *model, int64_t samples, int64_t length,
                            struct error *err)
{
    struct lm *g = lm_of(model);
    if (samples == 0) {
        slab_fini(&g->slab);
        g->layout = (struct lm_layout){0};
        return 0;
    }
    int rc = lm_reserve(g, samples, length, err);
    if (!rc)
        slab_touch(&g->slab);
    g->layout = (struct lm_layout){0}; /* the old layout is invalid: angles, and a waiting pass */
    return rc;
}

static void lm_free(struct wk_model *model)
{
    struct lm *g = lm_of(model);
    param_table_fini(model);
    slab_fini(&g->slab);
    free(g->layers);
    free(g);
}

static const struct model_ops lm_ops = {
    .name = "lm",
    .forward = lm_forward,
    .backward = lm_backward,
    .evaluate = lm_evaluate,
    .logits = lm_logits,
    .free = lm_free,
    .drops = true,
    .reserve = lm_model_reserve,
};

const struct lm_shape *lm_shape_of(const struct wk_model *model)
{
    return model->ops == &lm_ops ? &((const struct lm *)model)->shape : NULL;
}

int lm_new(const struct lm_shape *shape, int n_params, struct lm **ret_lm)
{
    struct lm *g = calloc(1, sizeof(*g));
    if (!g)
        return WK_ENOMEM;
    g->shape = *shape;
    g->model.ops = &lm_ops;
    g->model.kernels = kernel_cpu();
    g->model.context = shape->context;
    g->model.vocab = shape->vocab;
    g->model.n_blocks = shape->layers + 2;
    g->layers = calloc((size_t)shape->layers, sizeof(*g->layers));
    if (!g->layers || param_table_init(&g->model, n_params)) {
        lm_free(&g->model);
        return WK_ENOMEM;
    }
    *ret_lm = g;
    return 0;
}
