/* Kernels with a mistake that a parameter turns on, for the tests of the emulator. Each returns 0
 * if its result is right. */
#ifndef CUDA_PLANTED_H
#define CUDA_PLANTED_H

#ifdef __cplusplus
extern "C" {
#endif

#define PLANTED_EACH(X)                                                                            \
    X(missing_barrier)                                                                             \
    X(missing_second_barrier)                                                                      \
    X(missing_warp_barrier)                                                                        \
    X(uninitialised_shared)                                                                        \
    X(global_past_the_end)                                                                         \
    X(shared_past_the_end)                                                                         \
    X(dynamic_past_the_end)                                                                        \
    X(diverging_barrier)                                                                           \
    X(early_end)                                                                                   \
    X(wrong_mask)                                                                                  \
    X(reads_outside_the_mask)                                                                      \
    X(half_a_warp)                                                                                 \
    X(two_operations)                                                                              \
    X(deadlock)                                                                                    \
    X(copy_not_waited_for)                                                                         \
    X(copy_without_barrier)                                                                        \
    X(copy_forgotten)                                                                              \
    X(misaligned_vector)                                                                           \
    X(empty_grid)                                                                                  \
    X(large_block)                                                                                 \
    X(much_shared)                                                                                 \
    X(much_static)                                                                                 \
    X(racing_blocks)

#define PLANTED_DECLARE(name) int planted_##name(int wrong);
PLANTED_EACH(PLANTED_DECLARE)
#undef PLANTED_DECLARE

#ifdef __cplusplus
}
#endif

#endif
