/* Memory of one pass's activations: one slab with a new layout for each shape of batch. */
#include <stdint.h>

#include <worker/layers.h>

#include "libworker/nn/attention.h"
#include "libworker/nn/lm.h"
#include "libworker/nn/mlp.h"

/* Counts on a first pass (slab NULL) and hands out views on a second, from the same list. */
struct layout {
    struct slab *slab;
    size_t total;
};

static void view(struct layout *layout, float **ret_view, int64_t count)
{
    layout->total += slab_rounded((size_t)count);
    if (layout->slab)
        *ret_view = slab_take(layout->slab, (size_t)count);
}

static void view_operand(struct layout *layout, const struct lm *g, struct operand *ret_operand,
                         int64_t count)
{
    float *data = NULL;
    view(layout, &data, g->layout.low ? (count + 1) / 2 : count);
    if (layout->slab)
        *ret_operand = g->layout.low ? (struct operand){.low = (uint16_t *)data}
                                     : (struct operand){.data = data};
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t qkv_width(const struct lm_shape *s)
{
    return (s->heads + 2 * s->kv_heads) * s->size;
}

static void lay_out_layer(struct layout *layout, const struct lm *g, struct lm_layer *layer)
{
    const struct lm_shape *s = &g->shape;
    int64_t n = g->layout.samples * g->layout.length, c = s->width;
    view(layout, &layer->stats1, 2 * n);
    view_operand(layout, g, &layer->norm1, n * c);
    view(layout, &layer->qkv, n * qkv_width(s));
    view(layout, &layer->probs, n * s->heads * g->layout.length);
    view_operand(layout, g, &layer->mixed, n * s->heads * s->size);
    view(layout, &layer->middle, n * c);
    view(layout, &layer->stats2, 2 * n);
    view_operand(layout, g, &layer->norm2, n * c);
    view(layout, &layer->hidden, n * s->inner * (s->gated ? 2 : 1));
    view_operand(layout, g, &layer->active, n * s->inner);
}

/* Room for the largest left and right factor of a layer or the head, and for a block of
 * probabilities and their gradient, two to a float.
 */
static void lay_out_low(struct layout *layout, struct lm *g)
{
    const struct lm_shape *s = &g->shape;
    int64_t n = g->layout.samples * g->layout.length;
    int64_t widest = larger(larger(qkv_width(s), s->inner * 2), larger(s->vocab, s->width));
    int64_t each = (n * widest + 1) / 2, probs = ATTENTION_BLOCK * g->layout.length / 2;
    view(layout, &g->memory.tile, larger(larger(MLP_TILE, s->inner), LM_TILE_ROWS * s->width));
    view(layout, &g->memory.low, 2 * each + 2 * probs);
    if (!layout->slab)
        return;
    struct low *low = &g->model.low_storage;
    low->left = (uint16_t *)g->memory.low;
    low->right = (uint16_t *)(g->memory.low + each);
    g->probs_low = (uint16_t *)(g->memory.low + 2 * each);
    g->dprobs_low = (uint16_t *)(g->memory.low + 2 * each + probs);
}

static void lay_out(struct layout *layout, struct lm *g)
{
    const struct lm_shape *s = &g->shape;
    int64_t n = g->layout.samples * g->layout.length, c = s->width;
    struct lm_memory *m = &g->memory;
    view(layout, &m->embedded, n * c);
    for (int i = 0; i < s->layers; i++) {
        if (i == 0 || !g->layout.recompute)
            lay_out_layer(layout, g, &g->layers[i]);
        else
            g->layers[i] = g->layers[0];
        view(layout, &g->layers[i].output, n * c);
    }
    view(layout, &m->final_stats, 2 * n);
    view_operand(layout, g, &m->final, n * c);
    view(layout, &m->logits, n * s->vocab);
    view(layout, &m->dx, n * c);
    view(layout, &m->dnorm, n * larger(c, s->heads * s->size));
    view(layout, &m->dqkv, n * qkv_width(s));
    view(layout, &m->dhidden, n * s->inner * (s->gated ? 2 : 1));
    view(layout, &m->dactive, n * s->inner);
    view(layout, &m->scratch, ATTENTION_BLOCK * g->layout.length);
    if (g->layout.dropout)
        view(layout, &m->branch, n * c);
    if (s->rope_theta > 0) {
        view(layout, &m->cos, g->layout.length * s->size / 2);
        view(layout, &m->sin, g->layout.length * s->size / 2);
    }
    if (g->layout.low)
        lay_out_low(layout, g);
}

int lm_reserve(struct lm *g, int64_t samples, int64_t length, struct error *err)
{
    struct lm_layout wanted = {samples, length, g->model.recompute, g->model.low != NULL,
                               g->model.dropout > 0};
    struct lm_layout *present = &g->layout;
    if (present->samples == samples && present->length == length &&
        present->recompute == wanted.recompute && present->low == wanted.low &&
        present->dropout == wanted.dropout)
        return 0;
    *present = wanted;
    struct layout counted = {0};
    lay_out(&counted, g);
    int rc = slab_reset(&g->slab, counted.total, err);
    if (rc) {
        *present = (struct lm_layout){0};
        return error_wrap(err, "activations of %lld samples of %lld tokens", (long long)samples,
                          (long long)length);
    }
    struct layout placed = {.slab = &g->slab};
    lay_out(&placed, g);
    for (int i = 0; i < g->shape.layers; i++)
        g->layers[i].input = i ? g->layers[i - 1].output : g->memory.embedded;
    if (g->shape.rope_theta > 0)
        wk_rope_angles(g->memory.cos, g->memory.sin, g->layout.length, g->shape.size,
                       g->shape.rope_theta);
    return 0;
}
