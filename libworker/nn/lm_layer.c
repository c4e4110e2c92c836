/* One transformer block, forward and backward side by side. */
#include "libworker/nn/attention.h"
#include "libworker/nn/linear.h"
#include "libworker/nn/lm.h"
#include "libworker/nn/mlp.h"
#include "libworker/nn/norm.h"

/* The parts of a block. */
struct block {
    struct norm norm1, norm2;
    struct linear qkv, proj;
    struct attention attention;
    struct mlp mlp;
    struct kernel_rope rope;
};

static int64_t rows_of(const struct lm *g)
{
    return g->layout.samples * g->layout.length;
}

struct norm lm_norm(struct lm *g, int index, float *stats)
{
    const struct param *weight = &g->model.params[index], *bias = weight + 1;
    return (struct norm){
        .kernels = g->model.kernels,
        .width = weight->shape[0],
        .epsilon = g->shape.norm_epsilon,
        .weight = weight->data,
        .bias = g->shape.rms ? NULL : bias->data,
        .dweight = weight->grad,
        .dbias = g->shape.rms ? NULL : bias->grad,
        .mean = stats,
        .rstd = stats + rows_of(g),
        .model = &g->model,
        .first = index,
    };
}

static struct linear linear_of(struct lm *g, int index, int n)
{
    return g->shape.joined ? linear_joined(&g->model, index, n) : linear_at(&g->model, index);
}

static struct block block_at(struct lm *g, int i)
{
    const struct lm_shape *s = &g->shape;
    struct lm_layer *layer = &g->layers[i];
    int first = lm_layer_index(s, i);
    struct block b = {
        .norm1 = lm_norm(g, first + s->places.norm1, layer->stats1),
        .norm2 = lm_norm(g, first + s->places.norm2, layer->stats2),
        .qkv = linear_of(g, first + s->places.qkv, 3),
        .proj = linear_of(g, first + s->places.proj, 1),
    };
    b.attention = (struct attention){
        .kernels = g->model.kernels,
        .samples = g->layout.samples,
        .length = g->layout.length,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .size = s->size,
        .qkv = layer->qkv,
        .probs = layer->probs,
        .scratch = g->memory.scratch,
        .low = g->model.low,
        .probs_low = g->probs_low,
        .dprobs_low = g->dprobs_low,
    };
    b.mlp = (struct mlp){
        .up = linear_of(g, first + s->places.up, 2),
        .down = linear_of(g, first + s->places.down, 1),
        .gated = s->gated,
        .hidden = layer->hidden,
        .active = layer->active,
        .tile = g->memory.tile,
        .dactive = g->memory.dactive,
        .dhidden = g->memory.dhidden,
    };
    b.rope = (struct kernel_rope){
        .rows = rows_of(g),
        .length = g->layout.length,
        .heads = s->heads + s->kv_heads,
        .size = s->size,
        .stride = (s->heads + 2 * s->kv_heads) * s->size,
        .cos = g->memory.cos,
        .sin = g->memory.sin,
    };
    return b;
}

void lm_norm_forward(struct lm *g, const struct norm *norm, struct operand y, const float *x)
{
    int64_t rows = rows_of(g), width = norm->width;
    if (!y.low) {
        norm_forward(norm, y.data, x, rows);
        return;
    }
    for (int64_t r = 0; r < rows; r += LM_TILE_ROWS) {
        int64_t n = rows - r < LM_TILE_ROWS ? rows - r : LM_TILE_ROWS;
        struct norm part = *norm;
        part.mean += r;
        part.rstd += r;
        norm_forward(&part, g->memory.tile, x + r * width, n);
        norm->kernels->narrow(y.low + r * width, g->model.low->type, g->memory.tile,
                              (size_t)(n * width));
    }
}

/* A backward buffer serves as room for the values in float. */
static void mix(struct lm *g, const struct attention *attention, struct operand mixed)
{
    float *out = mixed.low ? g->memory.dnorm : mixed.data;
    attention_forward(attention, out);
    if (mixed.low)
        g->model.kernels->narrow(mixed.low, g->model.low->type, out,
                                 (size_t)(rows_of(g) * g->shape.heads * g->shape.size));
}

/* Where each half of a layer drops; 0 is the embedding. */
static uint64_t place_of(int layer, int half)
{
    return (uint64_t)(1 + 2 * layer + half);
}

/* stream[N, C] = input + what is left of the half's branch. */
static void add_branch(struct lm *g, float *stream, const float *input, uint64_t place)
{
    size_t count = (size_t)(rows_of(g) * g->shape.width);
    lm_drop(g, g->memory.branch, place);
    g->model.kernels->blend(stream, &(struct kernel_blend){1, 1}, input, g->memory.branch, count);
}

/* The gradient of a half's branch from that of the stream. */
static const float *branch_gradient(struct lm *g, uint64_t place)
{
    size_t count = (size_t)(rows_of(g) * g->shape.width);
    if (!g->dropping)
        return g->memory.dx;
    g->model.kernels->blend(g->memory.branch, &(struct kernel_blend){1, 0}, g->memory.dx,
                            g->memory.dx, count);
    lm_drop(g, g->memory.branch, place);
    return g->memory.branch;
}

void lm_layer_forward(struct lm *g, int i)
{
    struct lm_layer *layer = &g->layers[i];
    struct block b = block_at(g, i);
    int64_t rows = rows_of(g);

    lm_norm_forward(g, &b.norm1, layer->norm1, layer->input);
    linear_forward(&b.qkv, layer->qkv, layer->norm1, NULL, rows);
    if (g->shape.rope_theta > 0)
        g->model.kernels->rope(&b.rope, layer->qkv);
    mix(g, &b.attention, layer->mixed);
    if (g->dropping) {
        linear_forward(&b.proj, g->memory.branch, layer->mixed, NULL, rows);
        add_branch(g, layer->middle, layer->input, place_of(i, 0));
    } else {
        linear_forward(&b.proj, layer->middle, layer->mixed, layer->input, rows);
    }

    lm_norm_forward(g, &b.norm2, layer->norm2, layer->middle);
    if (g->dropping) {
        mlp_forward(&b.mlp, g->memory.branch, layer->norm2, NULL, rows);
        add_branch(g, layer->output, layer->middle, place_of(i, 1));
    } else {
        mlp_forward(&b.mlp, layer->output, layer->norm2, layer->middle, rows);
    }
}

void lm_layer_backward(struct lm *g, int i)
{
    struct lm_layer *layer = &g->layers[i];
    struct block b = block_at(g, i);
    int64_t rows = rows_of(g);
    float *dx = g->memory.dx, *dnorm = g->memory.dnorm, *dqkv = g->memory.dqkv;

    mlp_backward(&b.mlp, dnorm, layer->norm2, branch_gradient(g, place_of(i, 1)), rows);
    norm_backward(&b.norm2, dx, layer->middle, dnorm, rows);

    linear_backward(&b.proj, dnorm, layer->mixed, branch_gradient(g, place_of(i, 0)), rows);
    attention_backward(&b.attention, dqkv, dnorm);
    b.rope.back = true;
    if (g->shape.rope_theta > 0)
        g->model.kernels->rope(&b.rope, dqkv);
    linear_backward(&b.qkv, dnorm, layer->norm1, dqkv, rows);
    norm_backward(&b.norm1, dx, layer->input, dnorm, rows);
}
