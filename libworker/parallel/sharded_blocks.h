/* What a sharded model does when a pass enters and leaves a block: FSDP's gathers, and its sums of
 * gradients. Part of sharded.h. */
#ifndef PARALLEL_SHARDED_BLOCKS_H
#define PARALLEL_SHARDED_BLOCKS_H

#include "libworker/parallel/sharded.h"

/* Hooks for the model's blocks, with `s` as their argument; none without FSDP. */
struct model_hooks sharded_hooks(struct sharded *s);

/* A slot of the table (strategy_ops.h), for models that enter blocks 0, 1, 2 … */
int sharded_empty_pass(void *self, enum model_pass pass, struct error *err);

#endif
