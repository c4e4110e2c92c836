/* One transformer block, forward and backward side by side. */
#include "libworker/nn/attention.h"
#include "libworker/nn/gpt.h"
#include "libworker/nn/linear.h"
#include "libworker/nn/mlp.h"
#include "libworker/nn/norm.h"

static struct attention attention_of(const struct gpt *g, const struct gpt_layer *layer)
{
    return (struct attention){
        .kernels = g->model.kernels,
        .samples = g->samples,
        .length = g->length,
        .heads = g->config.heads,
        .size = g->config.width / g->config.heads,
        .qkv = layer->qkv,
        .probs = layer->probs,
        .scratch = g->memory.scratch,
    };
}

static struct mlp mlp_of(const struct gpt *g, int i)
{
    return (struct mlp){
        .fc = linear_at(&g->model, gpt_index(i, LAYER_MLP_FC)),
        .proj = linear_at(&g->model, gpt_index(i, LAYER_MLP_PROJ)),
        .hidden = g->layers[i].hidden,
        .active = g->layers[i].active,
        .dhidden = g->memory.dhidden,
    };
}

void gpt_layer_forward(struct gpt *g, int i)
{
    struct gpt_layer *layer = &g->layers[i];
    int64_t rows = g->samples * g->length;
    struct norm norm1 = norm_at(&g->model, gpt_index(i, LAYER_NORM1), layer->stats1, rows);
    struct norm norm2 = norm_at(&g->model, gpt_index(i, LAYER_NORM2), layer->stats2, rows);
    struct linear qkv = linear_at(&g->model, gpt_index(i, LAYER_QKV));
    struct linear proj = linear_at(&g->model, gpt_index(i, LAYER_PROJ));
    struct attention attention = attention_of(g, layer);
    struct mlp mlp = mlp_of(g, i);

    norm_forward(&norm1, layer->norm1, layer->input, rows);
    linear_forward(&qkv, layer->qkv, layer->norm1, NULL, rows);
    attention_forward(&attention, layer->mixed);
    linear_forward(&proj, layer->middle, layer->mixed, layer->input, rows);

    norm_forward(&norm2, layer->norm2, layer->middle, rows);
    mlp_forward(&mlp, layer->output, layer->norm2, layer->middle, rows);
}

static void announce(struct gpt *g, int i, int from, int to)
{
    for (int place = from; place >= to; place--)
        model_announce(&g->model, gpt_index(i, place));
}

void gpt_layer_backward(struct gpt *g, int i)
{
    struct gpt_layer *layer = &g->layers[i];
    int64_t rows = g->samples * g->length;
    float *dx = g->memory.dx, *dnorm = g->memory.dnorm, *dqkv = g->memory.dqkv;
    struct norm norm1 = norm_at(&g->model, gpt_index(i, LAYER_NORM1), layer->stats1, rows);
    struct norm norm2 = norm_at(&g->model, gpt_index(i, LAYER_NORM2), layer->stats2, rows);
    struct linear qkv = linear_at(&g->model, gpt_index(i, LAYER_QKV));
    struct linear proj = linear_at(&g->model, gpt_index(i, LAYER_PROJ));
    struct attention attention = attention_of(g, layer);
    struct mlp mlp = mlp_of(g, i);

    mlp_backward(&mlp, dnorm, layer->norm2, dx, rows);
    announce(g, i, LAYER_MLP_PROJ + 1, LAYER_MLP_FC);
    norm_backward(&norm2, dx, layer->middle, dnorm, rows);
    announce(g, i, LAYER_NORM2 + 1, LAYER_NORM2);

    linear_backward_weights(&proj, layer->mixed, dx, rows);
    announce(g, i, LAYER_PROJ + 1, LAYER_PROJ);
    linear_backward_input(&proj, dnorm, dx, rows);
    attention_backward(&attention, dqkv, dnorm);
    linear_backward_weights(&qkv, layer->norm1, dqkv, rows);
    announce(g, i, LAYER_QKV + 1, LAYER_QKV);
    linear_backward_input(&qkv, dnorm, dqkv, rows);
    norm_backward(&norm1, dx, layer->input, dnorm, rows);
    announce(g, i, LAYER_NORM1 + 1, LAYER_NORM1);
}
