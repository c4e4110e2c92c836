/* The operations of the module, by the names of their tables: X(gelu) is cuda_op_gelu. One a line,
 * in the order of the alphabet. */
#ifndef CUDA_OP_LIST_H
#define CUDA_OP_LIST_H

/* clang-format off */
#define CUDA_OP_LIST(X)     \
    X(add_norm)             \
    X(batch_norm)           \
    X(batch_norm_running)   \
    X(batch_norm_squares)   \
    X(batch_norm_sums)      \
    X(binary_cross_entropy) \
    X(cross_entropy)        \
    X(embedding)            \
    X(group_norm)           \
    X(kl_divergence)        \
    X(layer_norm)           \
    X(pool2d)               \
    X(rms_norm)             \
    X(softmax)              \
    X(squared_error)
/* clang-format on */

#endif
