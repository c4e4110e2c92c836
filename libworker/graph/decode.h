/* Decoding a graph: texts that go on from the keys and values of what was computed of them. Each
 * pass computes the positions that follow those in the cache; only the last one's logits, or none.
 * What a graph's operations need for it is in their rows (op.h). One thread.
 */
#ifndef GRAPH_DECODE_H
#define GRAPH_DECODE_H

#include "libworker/nn/decode.h"

extern const struct decode_ops graph_decode_ops;

#endif
