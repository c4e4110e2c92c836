/* Causal self-attention of several heads (Vaswani et al. 2017), without its linear layers; groups
 * of heads may share keys and values (Ainslie et al. 2023).
 *
 * Queries go in blocks of ATTENTION_BLOCK positions; a block multiplies only the keys it may see,
 * so the work is little more than the half that the mask leaves. Per sequence and head, FLOP: about
 * 2 length^2 size forward and 5 length^2 size backward.
 */
#ifndef NN_ATTENTION_H
#define NN_ATTENTION_H

#include <stdint.h>

#include "libworker/kernel/kernel.h"
#include "libworker/nn/product.h"

enum { ATTENTION_BLOCK = 64 };

struct attention {
    const struct kernel_table *kernels;
    int64_t samples, length, heads, kv_heads, size; /* heads is a multiple of kv_heads */
    const float *qkv; /* [samples, length, (heads + 2 kv_heads) * size]: queries, keys, values side
                         by side, each [heads, size] */
    float *probs;     /* [samples, heads, length, length], kept from forward to backward; to the
                       * right of a block's last key nothing is written */
    float *scratch;   /* [ATTENTION_BLOCK, length], backward only */

    /* Products in bf16 or f16: NULL in float. left has room for qkv, right for dout, and these for
     * a block's probabilities and their gradient, each [ATTENTION_BLOCK, length]. */
    const struct low *low;
    uint16_t *probs_low, *dprobs_low;
};

/* out[samples, length, heads * size] from qkv. */
void attention_forward(const struct attention *attention, float *out);

/* dqkv, laid out as qkv and overwritten, from dout as out. */
void attention_backward(const struct attention *attention, float *dqkv, const float *dout);

#endif
