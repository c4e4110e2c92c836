/* Right kernels that use each thing the emulator offers, for its tests. Matrices are row-major. */
#ifndef CUDA_EXERCISE_H
#define CUDA_EXERCISE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* d[16, 8] = a[16, 16] b[16, 8] + c, a and b in bf16 or f16; a and b come through shared memory. */
void exercise_mma(int is_bf16, float *d, const uint16_t *a, const uint16_t *b, const float *c);

/* out[blocks]: sum of x[blocks, threads]; largest[blocks] likewise. */
void exercise_reduce(double *out, float *largest, const float *x, int blocks, int threads);

/* at[block][thread] = its indices, in the order of a 3-dimensional grid. */
void exercise_index(uint64_t *at, const unsigned grid[3], const unsigned block[3]);

/* What lane l of one warp gets of shuffles and votes: out[32][EXERCISE_LANE_VALUES]. */
enum { EXERCISE_LANE_VALUES = 8 };
void exercise_lanes(int64_t *out);

/* y[count] = x through shared memory by copies in `stages` groups; count is a multiple of 4. */
void exercise_copies(float *y, const float *x, int count);

/* counts[8] of values[count] modulo 8, by atomics; done by several blocks. */
void exercise_counts(int *counts, const int *values, int count);

/* *y = value, on a stream. */
void exercise_store(float *y, float value, void *stream);

#ifdef __cplusplus
}
#endif

#endif
