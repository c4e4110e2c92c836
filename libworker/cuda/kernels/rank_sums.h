/* Rows of the ranks, summed in rank order (parallel/rank_sums.h). Each element is read once from
 * every row and written once: world * bytes + out bytes, four elements a thread. The same bits as
 * the host's: f32 sums in order, rounded once to nearest even.
 */
#ifndef CUDA_KERNELS_RANK_SUMS_H
#define CUDA_KERNELS_RANK_SUMS_H

#include <stdbool.h>

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gpu_rank_sums {
    struct gpu_value rows, out; /* [world, count], [count]; f32, f16 or bf16 */
    int64_t count;
    int world; /* at least 1 */
};
void gpu_sum_ranks(const struct gpu_rank_sums *sums, cudaStream_t stream);

/* The same in double, of few elements; as_float: each number and each sum is rounded to float. */
struct gpu_rank_numbers {
    const double *rows;
    double *out;
    int64_t count;
    int world;
    bool as_float;
};
void gpu_sum_rank_numbers(const struct gpu_rank_numbers *sums, cudaStream_t stream);

/* If *stop is not 0, *finite = 0. `stop` is pinned memory, which the host writes at any time. */
void gpu_note_stop(const int *stop, double *finite, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
