/* Reductions of one block, in rank order: the only place where contributions meet, so the bits
 * cannot depend on transport or timing. Pure functions, any thread, no ownership.
 */
#ifndef COMM_REDUCE_H
#define COMM_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/types.h>

enum {
    REDUCE_SOURCES_MAX = 257, /* every rank, or a partial sum and the ranks of a host */
    REDUCE_BLOCK = 2048,      /* elements: a block's reads and writes stay in the first cache */
    REDUCE_SCRATCH_BYTES = 2 * REDUCE_BLOCK * 8,
    TALLY_LANES = 16,
};

/* Statistics of the results, collected during the reduction. Element i is added to lane i mod
 * TALLY_LANES, so the sum of squares does not depend on the cut into blocks. */
struct tally {
    double lanes[TALLY_LANES];
    size_t at; /* elements so far */
    bool nonfinite;
};

/* Work on the results, floats only; zeroed: none. */
struct finish {
    bool active;
    enum wk_dtype out;   /* results are converted to this type: see finish_valid */
    double scale;        /* results are multiplied by it; 0 and 1: unchanged */
    struct tally *tally; /* NULL: no statistics; else those asked for: */
    bool squares, nonfinite;
};

struct reduction {
    enum wk_dtype dtype;
    enum wk_op op;
    int sources;
    int divisor;   /* of MEAN; 0: the number of sources */
    bool partial;  /* f16 and bf16: the first source is a running sum in f32 */
    bool open;     /* the result is such a running sum: no division, no rounding, no finish */
    void *scratch; /* REDUCE_SCRATCH_BYTES */
    struct finish finish;
};

/* dst[i] = sources[0][i] op sources[1][i] op ..., from the left, i < count. f16 and bf16 are
 * widened to f32 and rounded once at the end; MEAN divides at the end by the number of sources.
 * Pointers may be unaligned; `dst` may be one of the sources unless the finish converts. */
void reduce(const struct reduction *reduction, const void *const *sources, void *dst, size_t count);

/* The same results in two places, written together: a second pass over `dst` would cost a third of
 * the time. `also` may be a source too, or NULL. */
void reduce_to_both(const struct reduction *reduction, const void *const *sources, void *dst,
                    void *also, size_t count);

/* Bytes of an element of the running sum of `dtype`. */
size_t reduce_partial_bytes(enum wk_dtype dtype);

/* True for f32, f16 and bf16 into each other, and f64 into f64; other types cannot be finished. */
bool finish_valid(enum wk_dtype from, enum wk_dtype to);

double tally_squares(const struct tally *tally);

#endif
