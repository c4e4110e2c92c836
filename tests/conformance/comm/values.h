/* Random values of every element type and the reference the collectives are held against: sums in
 * rank order, in double for the floats (exact for f32's and the halves' few summands up to one
 * rounding), modulo 2^64 for the integers. Test code. Pure.
 */
#ifndef COMM_VALUES_H
#define COMM_VALUES_H

#include <stdbool.h>

#include <worker/types.h>

/* Fill data[count] with what rank `rank` brings to case `seed`. */
void values_fill(void *data, size_t count, enum wk_dtype dtype, uint64_t seed, int rank);

struct values_case {
    enum wk_dtype dtype;
    enum wk_op op;
    uint64_t seed;
    int world;
};

enum { VALUES_WORLD_MAX = 64 };

/* Are the `count` elements of `data` what the reduction over all ranks gives from element `first`
 * on? */
bool values_reduced(const struct values_case *c, const void *data, size_t count, size_t first);

uint64_t values_hash(uint64_t hash, const void *data, size_t bytes);

#endif
