/* Rows of a table by their numbers, and the sums of their gradients.
 *
 * The backward pass has the same bits on every run, without atomics. It sorts the pairs (number,
 * row), of which no two are equal, and sums the rows of each number in their order. A number that
 * occurs often is cut at every EMBEDDING_CHUNK sorted rows. Its pieces are added up in order.
 *
 * Bytes that one element of a row moves, with values of v bytes:
 *
 *     forward     v + v
 *     backward    4        dout
 *                 8        the table's gradient, once for each number that occurs
 *                 8 / 32   pieces of numbers that are in several chunks
 *
 * Sorting n rows is log2(n / 1024)^2 / 2 passes, or about so, over 8 n bytes.
 */
#ifndef CUDA_KERNELS_EMBEDDING_H
#define CUDA_KERNELS_EMBEDDING_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { EMBEDDING_CHUNK = 32 };

struct gpu_lookup {
    int64_t rows, width;
    const int32_t *index; /* [rows], each a row of the table */
};

/* out[rows, width] from table[…, width]. */
void gpu_embedding_forward(const struct gpu_lookup *lookup, struct gpu_value table,
                           struct gpu_value out, cudaStream_t stream);

struct gpu_lookup_gradients {
    const float *dout;          /* [rows, width] */
    struct gpu_gradient dtable; /* [table_rows, width] */
    int64_t table_rows;
    void *scratch; /* gpu_embedding_bytes of it */
};
size_t gpu_embedding_bytes(int64_t rows, int64_t width);
void gpu_embedding_backward(const struct gpu_lookup *lookup, const struct gpu_lookup_gradients *g,
                            cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
