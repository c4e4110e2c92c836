/* Reductions of one block, in rank order: the only place where contributions meet, so the bits
 * cannot depend on transport or timing. Pure functions, any thread, no ownership.
 */
#ifndef COMM_REDUCE_H
#define COMM_REDUCE_H

#include <stddef.h>

#include <worker/types.h>

enum {
    REDUCE_SOURCES_MAX = 256,
    REDUCE_BLOCK = 4096, /* elements */
    REDUCE_SCRATCH_BYTES = 2 * REDUCE_BLOCK * 8,
};

struct reduction {
    enum wk_dtype dtype;
    enum wk_op op;
    int sources;
    void *scratch; /* REDUCE_SCRATCH_BYTES */
};

/* dst[i] = sources[0][i] op sources[1][i] op ..., from the left, i < count. f16 and bf16 are
 * widened to f32 and rounded once at the end; MEAN divides at the end by the number of sources.
 * Pointers may be unaligned; `dst` may be one of the sources. */
void reduce(const struct reduction *reduction, const void *const *sources, void *dst, size_t count);

#endif
