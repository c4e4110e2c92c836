/* What a model calls of its strategy. On the model's thread.
 *
 * Around each use of a block: a strategy gathers the block's parameters before and releases them
 * after. For operations over the ranks: collectives of all ranks that share the batch. */
#ifndef NN_HOOKS_H
#define NN_HOOKS_H

#include <stddef.h>

#include "common/base/error.h"

/* The block that a pass is about to use. Block 0 has the embeddings, block 1 + i layer i, the last
 * one the final norm (and a head of its own). A block's parameters are adjacent.
 *
 * Between before_block and after_block of a block and pass the model reads its parameters' data
 * (and low); backward it also adds to their grad. At other times it uses neither. So before_block
 * may change their addresses, and after_block may release the memory. A head tied to the embeddings
 * uses block 0 inside the last block's calls, in both passes. An error ends the pass with that
 * error, without after_block for entered blocks.
 *
 *     forward   0, 1 … L, (L+1 (0))        backward   (L+1 (0)), L … 1, 0
 */
enum model_pass { MODEL_FORWARD, MODEL_BACKWARD };
struct model_hooks {
    int (*before_block)(void *arg, int block, enum model_pass pass, struct error *err);
    int (*after_block)(void *arg, int block, enum model_pass pass, struct error *err);
    void *arg;
};

/* A collective over the ranks that share the batch, of memory of the model's queue: after what was
 * enqueued there, before what is enqueued next.
 *
 * sum: to[n] is the sum of each rank's from[n]. gather: to[count, n] of each rank's from[n].
 * scatter: to[n] of the sum of from[count, n], this rank's row. */
enum model_meeting_kind { MODEL_SUM, MODEL_GATHER, MODEL_SCATTER };
struct model_meeting {
    enum model_meeting_kind kind;
    const float *from;
    float *to; /* apart from it, or the same of a sum */
    size_t n;
};

/* Every rank calls in the same order; it may block. An error ends the pass. count 0: the model is
 * alone, and there is no function. */
struct model_ranks {
    int count;
    int (*meet)(void *arg, const struct model_meeting *meeting, struct error *err);
    void *arg;
};

#endif
