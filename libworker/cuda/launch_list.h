/* The other launches of the module: X(adamw) is cuda_launch_adamw. One a line, in the order of the
 * alphabet. */
#ifndef CUDA_LAUNCH_LIST_H
#define CUDA_LAUNCH_LIST_H

/* clang-format off */
#define CUDA_LAUNCH_PLAIN(X) \
    X(adafactor)             \
    X(adam)                  \
    X(adam_segments)         \
    X(adamw)                 \
    X(adamw_segments)        \
    X(graph_add)             \
    X(graph_add_seed)        \
    X(graph_narrow)          \
    X(graph_note)            \
    X(graph_seed)            \
    X(graph_sum_loss)        \
    X(graph_total)           \
    X(graph_widen)           \
    X(lion)                  \
    X(lion_segments)         \
    X(optim_add_loss)        \
    X(optim_clip)            \
    X(optim_copy)            \
    X(optim_judge)           \
    X(optim_limit)           \
    X(optim_measure)         \
    X(optim_open)            \
    X(optim_squares)         \
    X(parallel_add)          \
    X(parallel_add_narrow)   \
    X(parallel_add_widened)  \
    X(parallel_compact)      \
    X(parallel_narrow)       \
    X(parallel_narrow_model) \
    X(parallel_note_stop)    \
    X(parallel_scale)        \
    X(parallel_sum_ranks)    \
    X(parallel_widen)        \
    X(sgd)                   \
    X(sgd_segments)

/* Those with products by cuBLASLt. */
#define CUDA_LAUNCH_PRODUCTS(X) X(muon)
/* clang-format on */

#define CUDA_LAUNCH_LIST(X) CUDA_LAUNCH_PLAIN(X) CUDA_LAUNCH_PRODUCTS(X)

#endif
