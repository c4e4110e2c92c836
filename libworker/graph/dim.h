/* One dimension of a shape: a fixed number, times the samples or the length of a batch where they
 * are free, and the ranks that share it. [samples, length, 8] merged is 8 * samples * length.
 * Pure. */
#ifndef GRAPH_DIM_H
#define GRAPH_DIM_H

#include <stdbool.h>
#include <stdint.h>

struct dim {
    int64_t fixed;                  /* >= 1; 0 where nothing is left */
    uint8_t samples, length, ranks; /* how often each is a factor */
};

/* A batch's sizes. */
struct sizes {
    int64_t samples, length;
    int64_t ranks; /* that share the global batch; 0 is 1 */
};

static inline struct dim dim_fixed(int64_t size)
{
    return (struct dim){.fixed = size};
}

/* From the public code: WK_SAMPLES, WK_LENGTH, WK_RANKS or a number. */
struct dim dim_of(int64_t code);

static inline bool dim_equal(struct dim a, struct dim b)
{
    return a.fixed == b.fixed && a.samples == b.samples && a.length == b.length &&
           a.ranks == b.ranks;
}

static inline bool dim_is_fixed(struct dim d)
{
    return !d.samples && !d.length && !d.ranks;
}

static inline bool dim_is_one(struct dim d)
{
    return d.fixed == 1 && dim_is_fixed(d);
}

struct dim dim_times(struct dim a, struct dim b);

/* a / b, if b divides a in number and in factors; fixed 0 if it does not. */
struct dim dim_over(struct dim a, struct dim b);

/* The size in a batch. */
int64_t dim_size(struct dim d, const struct sizes *sizes);

/* "samples", "length", "8", "8*samples*length". */
enum { DIM_TEXT_MAX = 64 };
const char *dim_text(struct dim d, char ret[DIM_TEXT_MAX]);

#endif
