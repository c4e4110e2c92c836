/* The operations of the module, by the names of their tables: X(gelu) is cuda_op_gelu. One a line,
 * in the order of the alphabet. */
#ifndef CUDA_OP_LIST_H
#define CUDA_OP_LIST_H

/* clang-format off */
#define CUDA_OP_PLAIN(X)    \
    X(add)                  \
    X(add_norm)             \
    X(batch_norm)           \
    X(batch_norm_running)   \
    X(batch_norm_squares)   \
    X(batch_norm_sums)      \
    X(binary_cross_entropy) \
    X(concat)               \
    X(convert)              \
    X(cross_entropy)        \
    X(dropout)              \
    X(embedding)            \
    X(gather_rows)          \
    X(gelu)                 \
    X(gelu_erf)             \
    X(group_norm)           \
    X(kl_divergence)        \
    X(layer_norm)           \
    X(leaky_relu)           \
    X(multiply)             \
    X(pool2d)               \
    X(positions)            \
    X(reduce)               \
    X(relu)                 \
    X(rms_norm)             \
    X(rope)                 \
    X(scale)                \
    X(sigmoid)              \
    X(silu)                 \
    X(slice)                \
    X(softmax)              \
    X(squared_error)        \
    X(subtract)             \
    X(swiglu)               \
    X(tanh)                 \
    X(transpose)            \
    X(window)

/* Those with products by cuBLASLt, and attention. */
#define CUDA_OP_PRODUCTS(X) \
    X(attention)            \
    X(conv2d)               \
    X(head_cross_entropy)   \
    X(linear)               \
    X(matmul)
/* clang-format on */

#define CUDA_OP_LIST(X) CUDA_OP_PLAIN(X) CUDA_OP_PRODUCTS(X)

#endif
