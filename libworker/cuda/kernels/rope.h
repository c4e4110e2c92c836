/* Rotary positions (Su et al. 2021): elements i and i + size / 2 of each head are rotated by the
 * angle of the row's position and of i. Columns after the heads stay as they are.
 *
 * Bytes that one element moves, values of v bytes. Forward: v + v. Backward: 4 + 4, and 4 more
 * where it is added to. Angles are read from the caches. They are computed in double, once a pass,
 * as the host does.
 */
#ifndef CUDA_KERNELS_ROPE_H
#define CUDA_KERNELS_ROPE_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ROPE_FREQUENCIES = 128 /* of one launch */ };

struct gpu_angles {
    float *cosines, *sines; /* [length, half] */
    int64_t length, half, past;
    double amplitude;
};
/* Those of pairs [first, first + count), by their radians a position. */
void gpu_rope_angles(const struct gpu_angles *angles, const double *frequencies, int64_t first,
                     int64_t count, cudaStream_t stream);

struct gpu_rope {
    int64_t rows, width, length, heads, half;
    const float *cosines, *sines; /* [length, half] */
    const int32_t *starts;        /* [rows], of each row's document; NULL: there is one */
    bool back;                    /* by the opposite angles */
};
/* to = or += from, rotated; to may be from. */
void gpu_rope_rotate(const struct gpu_rope *rope, struct gpu_value to, bool add,
                     struct gpu_value from, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
