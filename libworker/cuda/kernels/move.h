/* Elements from one place to another: rows of them, each from a row of the source.
 *
 *     to[to_first + row * to_apart + k] = from[from_first + source(row) * from_apart + k]
 *
 * Elements of any type are copied in units of up to 16 bytes. Values may also change their type, to
 * nearest even, or be added to a gradient in f32. A row without a source becomes 0.
 *
 * Bytes that one element moves, of v and w bytes: v + w, and 4 more where it is added.
 */
#ifndef CUDA_KERNELS_MOVE_H
#define CUDA_KERNELS_MOVE_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MOVE_DIMS_MAX = 6 };

/* An array in the device's memory, of any type. */
struct gpu_array {
    void *at;
    enum wk_dtype type;
};

struct gpu_move {
    struct gpu_array to, from;
    bool add;
    int64_t rows, span; /* of what is written; elements of a row */
    int64_t to_first, to_apart, from_first, from_apart;
};

/* source(row) = row. */
void gpu_move_apart(const struct gpu_move *move, cudaStream_t stream);

/* Of each `all` rows, `count` from `first` on have a source, in order; the others do not. */
struct gpu_part {
    int64_t all, first, count;
};
void gpu_move_part(const struct gpu_move *move, const struct gpu_part *part, cudaStream_t stream);

/* By numbers: of each sample's n rows, row i is from its row index[i] of `rows`; a number outside
 * has no source. */
struct gpu_numbered {
    const int32_t *index; /* [samples, n] */
    int64_t samples, n, rows;
};
void gpu_move_numbered(const struct gpu_move *move, const struct gpu_numbered *numbered,
                       cudaStream_t stream);

/* source(row) = past + its place in the sample, less where its document starts. */
struct gpu_placed {
    const int32_t *starts; /* [samples, length] or NULL */
    int64_t samples, length, past;
};
void gpu_move_placed(const struct gpu_move *move, const struct gpu_placed *placed,
                     cudaStream_t stream);

/* `window` rows for each position of samples of `length`: those before it and itself. Rows before
 * the sample have no source. */
void gpu_move_window(const struct gpu_move *move, int64_t length, int64_t window,
                     cudaStream_t stream);

/* The result's dimensions from the outermost on, with each one's stride in the source. Both sides
 * are whole arrays; rows, span and places of the move are not read. */
struct gpu_turn {
    int dims;
    int64_t size[MOVE_DIMS_MAX], stride[MOVE_DIMS_MAX];
};
void gpu_move_turned(const struct gpu_move *move, const struct gpu_turn *turn, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
