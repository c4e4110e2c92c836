/* Grids of one dimension: enough blocks for all elements, or a limit, after which the same blocks
 * go on. For kernels' launchers only. */
#ifndef CUDA_KERNELS_GRID_H
#define CUDA_KERNELS_GRID_H

#include <stdint.h>

enum { GRID_BLOCKS_MAX = 1 << 22 };

/* For `count` elements, each block having `each` of them; at least one block. */
static inline unsigned grid_of(int64_t count, int64_t each)
{
    int64_t blocks = (count + each - 1) / each, most = GRID_BLOCKS_MAX;
    blocks = blocks < most ? blocks : most;
    return blocks < 1 ? 1 : (unsigned)blocks;
}

#endif
