/* Values that are repeated along some dimensions of others: b for each element of a, and sums over
 * what repeats, in a fixed order.
 *
 *     gpu_repeat_map    out[i] = a[i] op b[of i]               add, subtract, multiply, and their
 *                                                              gradients of a
 *     gpu_repeat_sum    out[j] = sum of x[i] * factor[i]       the gradient of b; sums and means
 *                       over all i that j is repeated for
 *
 * Bytes that one element of a or x moves, of v bytes. Map: v to read, and those of the result; 4
 * more for a gradient that is added to. b is read again from the caches. Sum: v, and those of its
 * factor. Partial sums add at most 16 / REPEAT_ROWS bytes. Sums are in f32 over 16 elements, and in
 * double over those sums.
 */
#ifndef CUDA_KERNELS_REPEAT_H
#define CUDA_KERNELS_REPEAT_H

#include "libworker/cuda/kernels/value.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    REPEAT_RUNS_MAX = 6, /* dimensions of a tensor */
    REPEAT_ROWS = 64,    /* that a partial sum has at least */
};

/* Neighbouring dimensions along which b moves are one run, and so are those along which it is
 * repeated; the last run is the innermost. At least one. */
struct gpu_repeat {
    int n;
    int64_t size[REPEAT_RUNS_MAX];
    bool moves[REPEAT_RUNS_MAX];
};

/* Of `dims` dimensions; those of size 1 are left out. */
struct gpu_repeat gpu_repeat_of(int dims, const int64_t *size, const bool *moves);

/* What is written: a value, or a gradient that may be added to. */
struct gpu_target {
    struct gpu_value value;
    bool add;
};

enum gpu_pair_kind { PAIR_ADD, PAIR_SUBTRACT, PAIR_MULTIPLY, PAIR_SHARE /* number * b, no a */ };

struct gpu_pair {
    enum gpu_pair_kind kind;
    float number;
    struct gpu_value a, b; /* out may be a */
};
void gpu_repeat_map(const struct gpu_repeat *repeat, struct gpu_target out,
                    const struct gpu_pair *pair, cudaStream_t stream);

struct gpu_repeat_terms {
    struct gpu_value x, factor; /* factor.at NULL: 1 */
    double divisor;             /* of the sums */
    void *scratch;              /* gpu_repeat_sum_bytes of it */
};
size_t gpu_repeat_sum_bytes(const struct gpu_repeat *repeat);
void gpu_repeat_sum(const struct gpu_repeat *repeat, struct gpu_target out,
                    const struct gpu_repeat_terms *terms, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
