/* Where the activations of one pass lie: one slab, laid out anew for each shape of batch. */
#include <stdint.h>

#include "libworker/nn/attention.h"
#include "libworker/nn/gpt.h"

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

static void lay_out_layer(struct layout *layout, const struct gpt *g, struct gpt_layer *layer)
{
    int64_t n = g->samples * g->length, c = g->config.width;
    view(layout, &layer->stats1, 2 * n);
    view(layout, &layer->norm1, n * c);
    view(layout, &layer->qkv, n * 3 * c);
    view(layout, &layer->probs, n * g->config.heads * g->length);
    view(layout, &layer->mixed, n * c);
    view(layout, &layer->middle, n * c);
    view(layout, &layer->stats2, 2 * n);
    view(layout, &layer->norm2, n * c);
    view(layout, &layer->hidden, n * 4 * c);
    view(layout, &layer->active, n * 4 * c);
    view(layout, &layer->output, n * c);
}

static void lay_out(struct layout *layout, struct gpt *g)
{
    int64_t n = g->samples * g->length, c = g->config.width;
    struct gpt_memory *m = &g->memory;
    view(layout, &m->embedded, n * c);
    for (int i = 0; i < g->config.layers; i++)
        lay_out_layer(layout, g, &g->layers[i]);
    view(layout, &m->final_stats, 2 * n);
    view(layout, &m->final, n * c);
    view(layout, &m->logits, n * g->config.vocab);
    view(layout, &m->dx, n * c);
    view(layout, &m->dnorm, n * c);
    view(layout, &m->dqkv, n * 3 * c);
    view(layout, &m->dhidden, n * 4 * c);
    view(layout, &m->scratch, ATTENTION_BLOCK * g->length);
}

int gpt_reserve(struct gpt *g, int64_t samples, int64_t length, struct error *err)
{
    if (g->samples == samples && g->length == length)
        return 0;
    g->samples = samples;
    g->length = length;
    struct layout counted = {0};
    lay_out(&counted, g);
    int rc = slab_reset(&g->slab, counted.total, err);
    if (rc) {
        g->samples = g->length = 0;
        return error_wrap(err, "activations of %lld samples of %lld tokens", (long long)samples,
                          (long long)length);
    }
    struct layout placed = {.slab = &g->slab};
    lay_out(&placed, g);
    for (int i = 0; i < g->config.layers; i++)
        g->layers[i].input = i ? g->layers[i - 1].output : g->memory.embedded;
    return 0;
}
