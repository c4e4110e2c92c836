/* Work on the elements of flat arrays: gradients, parameters, and their copies in bf16 or f16.
 *
 * Bytes that one element moves:
 *
 *     fill 4     scale, limit 8     add 12     convert 6     add to narrow ones 8     move 4 or 8
 */
#ifndef CUDA_KERNELS_ELEMENTS_H
#define CUDA_KERNELS_ELEMENTS_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Nothing for 0 bytes, of which there are whole floats. */
void gpu_zero(void *at, size_t bytes, cudaStream_t stream);
/* x[count] = or += value. */
void gpu_fill(struct gpu_gradient x, float value, int64_t count, cudaStream_t stream);
/* The same of a number in the device's memory. */
void gpu_fill_from(struct gpu_gradient x, const double *value, int64_t count, cudaStream_t stream);

/* to[count] = from[count], numbers of the host that go along with launches: nothing waits for them,
 * and they may change after the call. */
void gpu_numbers_put(float *to, const float *from, int64_t count, cudaStream_t stream);

void gpu_scale(float *x, float factor, int64_t count, cudaStream_t stream);
/* to += from; each is in f32, or narrow and rounded once to nearest even. */
void gpu_add(struct gpu_value to, struct gpu_value from, int64_t count, cudaStream_t stream);
/* to = from, rounded to nearest even. */
void gpu_convert(struct gpu_value to, struct gpu_value from, int64_t count, cudaStream_t stream);

/* to[i] = from[i] in bf16, up or down by chance: the bits of (noise, first + i), as
 * wk_narrow_stochastic. */
struct gpu_chances {
    const float *from;
    uint16_t *to;
    int64_t count;
    uint64_t noise, first;
};
void gpu_narrow_by_chance(const struct gpu_chances *chances, cudaStream_t stream);

/* x into [-limit, limit], where limit = most / *scale, unless *finite is 0; NaN stays. Both numbers
 * are in the device's memory. */
struct gpu_limit {
    struct gpu_value x;
    int64_t count;
    double most;
    const double *scale, *finite;
};
void gpu_limit_values(const struct gpu_limit *limit, cudaStream_t stream);

/* `bytes` from `from` to an address at or before it; both are whole elements of `element` bytes, 2
 * or 4. They may overlap. */
void gpu_move_back(void *to, const void *from, size_t bytes, size_t element, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
