/* The operations on elements and shapes: those that these tests run on emulated kernels. */
#ifndef CUDA_ELEMENTS_TABLE_H
#define CUDA_ELEMENTS_TABLE_H

#define ELEMENTS_LIST(X)                                                                           \
    X(add)                                                                                         \
    X(concat)                                                                                      \
    X(convert)                                                                                     \
    X(dropout)                                                                                     \
    X(gather_rows)                                                                                 \
    X(gelu)                                                                                        \
    X(gelu_erf)                                                                                    \
    X(leaky_relu)                                                                                  \
    X(multiply)                                                                                    \
    X(positions)                                                                                   \
    X(reduce)                                                                                      \
    X(relu)                                                                                        \
    X(rope)                                                                                        \
    X(scale)                                                                                       \
    X(sigmoid)                                                                                     \
    X(silu)                                                                                        \
    X(slice)                                                                                       \
    X(subtract)                                                                                    \
    X(swiglu)                                                                                      \
    X(tanh)                                                                                        \
    X(transpose)                                                                                   \
    X(window)

#endif
