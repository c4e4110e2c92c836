/* A linear layer after a GELU. On devices that can, the layer's backward product multiplies the
 * gradient of its x by the GELU's slopes at h. So no kernel does that.
 *
 *     h ── gelu ──► x ── linear ──► y         dh = (dy W^T) gelu'(h), in the compute type
 *
 * The forward pass stays as it is. So a value that is computed again has the same bits. Only the
 * GELU by the tanh formula is bent: cuBLASLt has no other.
 */
#ifndef GRAPH_BEND_H
#define GRAPH_BEND_H

#include "libworker/graph/emit.h"

/* Find such layers: h becomes their input LINEAR_SLOPES. Needs what kernels keep. WK_ENOMEM. */
int bend_find(struct emitter *emitter);

/* The tensor of which the backward kernel of `work` computes the gradient, for this input. */
static inline struct wk_tensor *bend_target(const struct work *work, int input)
{
    bool bent = input == 0 && work->node->row == &op_linear && work->in[LINEAR_SLOPES];
    return work->in[bent ? LINEAR_SLOPES : input];
}

#endif
