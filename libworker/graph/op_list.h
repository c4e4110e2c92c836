/* The operations, by their rows' names and in the order of the table. */
#ifndef GRAPH_OP_LIST_H
#define GRAPH_OP_LIST_H

#define OP_LIST(X)                                                                                 \
    OP_LIST_PRODUCTS(X)                                                                            \
    OP_LIST_ELEMENTS(X) OP_LIST_IMAGES(X) OP_LIST_SHAPES(X) OP_LIST_LOSSES(X) OP_LIST_BATCHES(X)

#define OP_LIST_PRODUCTS(X)                                                                        \
    X(linear)                                                                                      \
    X(matmul)                                                                                      \
    X(embedding)                                                                                   \
    X(layer_norm)                                                                                  \
    X(rms_norm)                                                                                    \
    X(group_norm)                                                                                  \
    X(attention)                                                                                   \
    X(rope)                                                                                        \
    X(cross_entropy)                                                                               \
    X(head_cross_entropy)

#define OP_LIST_ELEMENTS(X)                                                                        \
    X(add)                                                                                         \
    X(subtract)                                                                                    \
    X(multiply)                                                                                    \
    X(scale)                                                                                       \
    X(gelu)                                                                                        \
    X(gelu_erf)                                                                                    \
    X(relu)                                                                                        \
    X(leaky_relu)                                                                                  \
    X(silu)                                                                                        \
    X(tanh)                                                                                        \
    X(sigmoid)                                                                                     \
    X(swiglu)                                                                                      \
    X(softmax)                                                                                     \
    X(dropout)

#define OP_LIST_IMAGES(X) X(conv2d) X(pool2d)

#define OP_LIST_SHAPES(X)                                                                          \
    X(convert)                                                                                     \
    X(prefix)                                                                                      \
    X(positions)                                                                                   \
    X(window)                                                                                      \
    X(reshape)                                                                                     \
    X(transpose)                                                                                   \
    X(slice)                                                                                       \
    X(concat)                                                                                      \
    X(gather_rows)                                                                                 \
    X(reduce)                                                                                      \
    X(stop_gradient)

#define OP_LIST_BATCHES(X)                                                                         \
    X(batch_norm_sums)                                                                             \
    X(batch_norm_squares)                                                                          \
    X(batch_norm)                                                                                  \
    X(batch_norm_running)                                                                          \
    X(all_reduce)                                                                                  \
    X(all_gather)

#define OP_LIST_LOSSES(X) X(squared_error) X(binary_cross_entropy) X(kl_divergence)

#endif
