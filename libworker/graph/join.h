/* A sum and the norm that is computed next of it, in one launch of the forward pass. It reads the
 * sum's parts and writes both results, so the sum is not read again (op/add_norm.c).
 *
 *     add(x, y) ── sum ── norm ──► …          add_norm(x, y) ── sum, norm ──► …
 *                   └──► later sums                              └──► later sums
 *
 * Only launches are joined. Works, types, gradients and what is kept stay as they are: so do the
 * bits and the order of gradients. The backward pass has one kernel in any case: that of the norm
 * adds to the sum's gradient, which is that of its parts.
 *
 * Two launches are joined where their memory is enough. Then the norm is in the memory of the part
 * that ends here, or both parts stay. A sum that became a linear layer's (trace.h) stays there:
 * adding up in another order has other bits.
 */
#ifndef GRAPH_JOIN_H
#define GRAPH_JOIN_H

#include "libworker/graph/emit.h"

/* Find the pairs. WK_ENOMEM. */
int join_find(struct emitter *emitter);

/* The sum and the work after it are to be one launch; `again`: in the backward pass. */
bool join_fits(const struct emitter *emitter, const struct work *add, bool again);

/* Emit that launch. */
void join_emit(struct emitter *emitter, const struct work *add, bool again);

#endif
