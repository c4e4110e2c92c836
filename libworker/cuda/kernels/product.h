/* What products need beside cuBLASLt: factors in another type, sums of columns, factors of rows.
 * Host functions launch on the stream (gpu.h). Sizes may be 0. Any
 * thread. Bytes moved: each element that is read and each that is written, once. */
#ifndef CUDA_KERNELS_PRODUCT_H
#define CUDA_KERNELS_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/types.h>

#include "libworker/cuda/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct typed_array {
    const void *at;
    enum wk_dtype type;
};

/* to[count] = from, to nearest even. */
void factor_convert(struct typed_array to, struct typed_array from, int64_t count,
                    cudaStream_t stream);

/* sums[cols] = the sums of x[rows, cols], or that added. They are added in parts of rows, whose
 * number depends on `rows` alone, and the parts in order: the same bits on every run.
 * `parts` is scratch memory of column_parts(rows) * cols floats. x is read once, and written once
 * to `copy`, in its type. */
struct column_sums {
    struct typed_array x;
    int64_t rows, cols;
    float *parts, *sums;
    bool add;
    struct typed_array copy; /* [rows, cols]; at NULL: none */
};
int64_t column_parts(int64_t rows);
void column_sums_add_up(const struct column_sums *sums, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
