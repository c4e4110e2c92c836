/* The GPT-2-shaped model: its parameter table, the memory of one pass, and its blocks.
 * Private to gpt*.c. Shapes: N = samples * length rows, C = width, V = vocab.
 */
#ifndef NN_GPT_H
#define NN_GPT_H

#include <stdint.h>

#include "libworker/nn/model.h"
#include "libworker/tensor/slab.h"

/* Places in the parameter table: the embeddings, then each layer's, then the final norm. Every bias
 * follows its weight.
 */
enum {
    GPT_WTE,
    GPT_WPE,
    GPT_LAYERS,

    LAYER_NORM1 = 0,
    LAYER_QKV = 2,
    LAYER_PROJ = 4,
    LAYER_NORM2 = 6,
    LAYER_MLP_FC = 8,
    LAYER_MLP_PROJ = 10,
    LAYER_PARAMS = 12,
};

/* What one layer keeps from forward to backward. */
struct gpt_layer {
    float *input;  /* [N, C], the output of what comes before; not its own */
    float *stats1; /* [2, N] */
    float *norm1;  /* [N, C] */
    float *qkv;    /* [N, 3C] */
    float *probs;  /* [samples, heads, length, length] */
    float *mixed;  /* [N, C], values mixed by attention */
    float *middle; /* [N, C], after the attention's residual */
    float *stats2; /* [2, N] */
    float *norm2;  /* [N, C] */
    float *hidden; /* [N, 4C] */
    float *active; /* [N, 4C] */
    float *output; /* [N, C] */
};

struct gpt_memory {
    float *embedded;    /* [N, C] */
    float *final_stats; /* [2, N] */
    float *final;       /* [N, C] */
    float *logits;      /* [N, V]; probabilities after the loss, gradients after its backward */
    float *dx;          /* [N, C], gradient of the residual stream */
    float *dnorm;       /* [N, C], gradient of a sub-layer's input or of `mixed` */
    float *dqkv;        /* [N, 3C] */
    float *dhidden;     /* [N, 4C] */
    float *scratch;     /* [ATTENTION_BLOCK, length] */
};

struct gpt {
    struct wk_model model; /* first, so that one pointer is both */
    struct wk_gpt_config config;
    int64_t samples, length; /* of the pass the memory is laid out for */
    struct gpt_layer *layers;
    struct gpt_memory memory;
    struct slab slab;
};

/* Index of a layer's parameter; of the final norm with layer == config.layers and LAYER_NORM1. */
int gpt_index(int layer, int place);

/* Lay the memory out for this many samples of this length. WK_ENOMEM. */
int gpt_reserve(struct gpt *gpt, int64_t samples, int64_t length, struct error *err);

/* layers[i].output from layers[i].input, and back: memory.dx goes from the gradient of the output
 * to that of the input.
 */
void gpt_layer_forward(struct gpt *gpt, int i);
void gpt_layer_backward(struct gpt *gpt, int i);

#endif
