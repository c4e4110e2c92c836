/* Dropout by keyed noise (precision/noise.h): the host's choice of elements, of which nothing is
 * kept. Each sample has a key, from it each DROPOUT_TILE elements of the sample.
 *
 * Bytes that one element moves, values of v bytes: forward v + v, backward 4 + 4, and 4 more where
 * it is added to.
 */
#ifndef CUDA_KERNELS_DROPOUT_H
#define CUDA_KERNELS_DROPOUT_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DROPOUT_TILE = 2048 };

struct op_keys;

struct gpu_dropout {
    int64_t samples, each; /* elements of a sample */
    uint64_t seed, first_sample, block, place;
    const struct op_keys *keys; /* the first two, in the device's memory; NULL: they count */
    float keep;                 /* the share that stays, divided by it; 1: all stay */
};
/* to = or += from, a share of it zeroed; to may be from. */
void gpu_drop(const struct gpu_dropout *dropout, struct gpu_value to, bool add,
              struct gpu_value from, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
