/* Private to kernel/cpu: the tiles of the fast attention kernels, and their memory. It is the same
 * for every build, so that a plan does not depend on the machine. Pure; any thread.
 */
#ifndef KERNEL_CPU_ATTENTION_TILES_H
#define KERNEL_CPU_ATTENTION_TILES_H

#include "libworker/kernel/attention.h"

/* The plain kernels, and the builds of fast_attention.c, one for each table of cpu.h. */
extern const struct attention_kernels attention_reference;
extern const struct attention_kernels attention_fast_own;
extern const struct attention_kernels attention_fast_base;
extern const struct attention_kernels attention_fast_avx2;
extern const struct attention_kernels attention_fast_avx512;

/* A tile has ROWS queries and COLS keys; its scores stay in the second-level cache. COLS is a
 * multiple of PANEL, the widest product that is computed at once, and ROWS of STRIP, its rows. A
 * row of scores is longer than COLS by one line: rows a power of two apart would compete for few
 * places of the cache. */
enum {
    ATTENTION_ROWS = 96,
    ATTENTION_COLS = 384,
    ATTENTION_SCORES = ATTENTION_COLS + 16,
    ATTENTION_PANEL = 64,
    ATTENTION_STRIP = 6,
};

/* Elements from one row of a head's copy to the next: `size` and zeros up to whole vectors. */
static inline int64_t attention_padded(int64_t size)
{
    return (size + 15) / 16 * 16;
}

/* Keys of a head's copy: whole panels, and one strip that a product may reach beyond. */
static inline int64_t attention_keys_padded(int64_t keys)
{
    return (keys + ATTENTION_PANEL - 1) / ATTENTION_PANEL * ATTENTION_PANEL + ATTENTION_PANEL;
}

/* Query i of the sample sees keys first[i] to end[i] - 1: none if that is empty. Every mask is such
 * a span. Within [0, keys] whatever `starts` has. */
void attention_spans(const struct kernel_attention *attention, int64_t sample, int32_t *first,
                     int32_t *end);

#endif
