/* A language model of pre-norm blocks: embeddings, layers, final norm, head, loss. GPT-2 and Llama
 * are tables of parameters and the choices in lm_shape. Private to libworker/nn except for the
 * shape. Shapes: N = samples * length rows, C = width, Q = (heads + 2 kv_heads) * size, I = inner,
 * U = I or, gated, 2 I, V = vocab. */
#ifndef NN_LM_H
#define NN_LM_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/nn/model.h"
#include "libworker/tensor/slab.h"

/* Offsets of a layer's parameters from its first one. */
struct lm_places {
    int norm1, qkv, proj, norm2, up, down, count;
};

struct lm_shape {
    int layers, heads, kv_heads;
    int64_t width, size, inner, context, vocab;
    float norm_epsilon;
    bool rms;          /* norms have no mean and no bias */
    bool joined;       /* linear layers are without bias, several weights [out, in] side by side */
    bool gated;        /* SwiGLU instead of GELU */
    double rope_theta; /* base of the rotary positions; 0: learned positions follow the embedding */
    bool tied;         /* the head is the embedding; else it follows the final norm */
    struct lm_places places;
};

/* What one layer keeps from forward to backward. */
struct lm_layer {
    float *input;          /* [N, C], the previous output; not its own */
    float *stats1;         /* [2, N] */
    struct operand norm1;  /* [N, C]; operands are kept rounded where the model computes so */
    float *qkv;            /* [N, Q], queries and keys rotated */
    float *probs;          /* [samples, heads, length, length] */
    struct operand mixed;  /* [N, heads * size], values mixed by attention */
    float *middle;         /* [N, C], after the attention's residual */
    float *stats2;         /* [2, N] */
    struct operand norm2;  /* [N, C] */
    float *hidden;         /* [N, U] */
    struct operand active; /* [N, I] */
    float *output;         /* [N, C] */
};

struct lm_memory {
    float *embedded;      /* [N, C] */
    float *final_stats;   /* [2, N] */
    struct operand final; /* [N, C] */
    float *logits;        /* [N, V]; probabilities after the loss, gradients after its backward */
    float *dx;            /* [N, C], gradient of the residual stream */
    float *dnorm;         /* [N, max(C, heads * size)], of a sub-layer's input or of `mixed` */
    float *dqkv;          /* [N, Q] */
    float *dhidden;       /* [N, U] */
    float *dactive;       /* [N, I] */
    float *scratch;       /* [ATTENTION_BLOCK, length] */
    float *branch;        /* [N, C], what a half adds, or its gradient; with dropout */
    float *cos, *sin;     /* [length, size / 2], with rope_theta */
    float *low;           /* room of low products, as floats */
    float *tile;          /* [max(MLP_TILE, I, LM_TILE_ROWS * C)], what is about to be rounded */
};

enum { LM_TILE_ROWS = 8 };

/* What the memory is laid out for. */
struct lm_layout {
    int64_t samples, length;
    bool recompute, low, dropout;
};

struct lm {
    struct wk_model model; /* first, so that one pointer is both */
    struct lm_shape shape;
    struct lm_layout layout;
    struct lm_layer *layers; /* with recompute all share what is not input or output */
    bool dropping;           /* in this pass */
    int held;                /* the layer with its activations in shared memory */
    struct lm_memory memory;
    uint16_t *probs_low, *dprobs_low; /* [ATTENTION_BLOCK, length] */
    struct slab slab;
};

/* A model of this shape with an empty table for `n_params`; the caller adds the parameters: table,
 * positions, layers, norm, head. WK_ENOMEM. */
int lm_new(const struct lm_shape *shape, int n_params, struct lm **ret_lm);

/* What the model is made of, or NULL if it is no such model. */
const struct lm_shape *lm_shape_of(const struct wk_model *model);

/* Index of a layer's first parameter; with layer == layers, of the final norm. */
int lm_layer_index(const struct lm_shape *shape, int layer);

/* Lay the memory out for this many samples of this length. WK_ENOMEM. */
int lm_reserve(struct lm *g, int64_t samples, int64_t length, struct error *err);

/* layers[i].output from layers[i].input; and backward: memory.dx changes from the gradient of the
 * output to that of the input. */
void lm_layer_forward(struct lm *g, int i);
void lm_layer_backward(struct lm *g, int i);

/* Drop from x[N, C] what this pass drops at `place`, a number of its own for each such x; forward
 * on values and backward on gradients alike. Nothing outside training passes. */
void lm_drop(struct lm *g, float *x, uint64_t place);

/* The norm with weight parameter `index`; `stats` is [2, N]. */
struct norm lm_norm(struct lm *g, int index, float *stats);

/* y[N, C] from x[N, C] through the norm, in float or rounded, as y requires. */
void lm_norm_forward(struct lm *g, const struct norm *norm, struct operand y, const float *x);

#endif
