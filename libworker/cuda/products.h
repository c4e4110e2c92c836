/* What operations with products share: factors in the compute type, memory for cuBLASLt, sizes that
 * are 0. Scratch memory of a call is the workspace, then what products_take hands out. One thread.
 */
#ifndef CUDA_PRODUCTS_H
#define CUDA_PRODUCTS_H

#include "libworker/cuda/kernels/product.h"
#include "libworker/cuda/lt.h"
#include "libworker/graph/op_call.h"

/* A call's products, while they are enqueued. */
struct products {
    const struct op_call *call;
    struct cuda_queue *queue;
    uint8_t *room; /* of the scratch memory, what is left */
    void *workspace;
    size_t workspace_bytes;
};

/* Scratch memory for a workspace of that size, the most of all products of a call; its beginning
 * becomes that. */
size_t products_workspace_bytes(size_t workspace_bytes);
struct products products_begin(const struct op_call *call, struct cuda_queue *queue,
                               size_t workspace_bytes);

/* `count` elements of a type, and the scratch memory that they take. */
void *products_take(struct products *products, enum wk_dtype type, int64_t count);
size_t products_taken(enum wk_dtype type, int64_t count);

/* x as a factor, in the compute type: itself, or converted into scratch memory. */
const void *products_factor(struct products *products, const struct op_tensor *x);
size_t products_factor_bytes(const struct op_call *call, const struct op_tensor *x);

/* to[count] = from. */
void products_convert(const struct products *products, struct typed_array to,
                      struct typed_array from, int64_t count);

/* Enqueue one product with factors in the compute type. Sizes may be 0: an empty sum is 0. */
void products_run(const struct products *products, struct lt_product product);

/* A kernel has been launched: the device fails if it could not be. */
void products_check(const struct products *products, const char *what);

#endif
