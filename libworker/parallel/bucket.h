/* Cutting a gradient arena into buckets that are reduced together. A bucket is a contiguous range
 * made of whole parameters; buckets are numbered from the arena's end, which is the order a
 * backward pass finishes them in. The first is small so that reducing starts early, the others
 * large so that each costs little. Pure; any thread. Source of the sizes: Li et al. 2020, "PyTorch
 * Distributed".
 */
#ifndef PARALLEL_BUCKET_H
#define PARALLEL_BUCKET_H

#include <stddef.h>

struct param;

struct bucket {
    size_t offset, count; /* elements of the arena */
    int params;           /* parameters inside */
};

struct bucket_sizes {
    size_t first_bytes, bytes; /* a bucket is closed at this size; 0 = one parameter each */
};

/* Cut `params[n_params]`, which are in arena order. The elements after the last parameter up to
 * `arena_count` (the step's own numbers) join bucket 0; gaps join the parameter before them. Writes
 * at most n_params buckets and the bucket of each parameter. Returns the number of buckets.
 * n_params ≥ 1. */
int bucket_cut(const struct param *params, int n_params, size_t arena_count,
               const struct bucket_sizes *sizes, struct bucket *ret_buckets, int *ret_bucket_of);

#endif
