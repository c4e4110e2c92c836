/* Updates of element-wise optimizers over flat ranges, with the parameters' copy in bf16 or f16 in
 * the same pass. Compiled without fused products and sums, so that a parameter has the bits of the
 * plain kernels (kernel/cpu/reference.c).
 *
 * Bytes that one parameter moves, with gradients of g bytes (4, or 2 in bf16 and f16):
 *
 *     adam, adamw   g read, parameter and two moments read and written     g + 24
 *     sgd           without momentum g + 8, with it g + 16                 lion g + 16
 *     the copy      2 more                                                 floor: the same
 */
#ifndef CUDA_KERNELS_UPDATE_H
#define CUDA_KERNELS_UPDATE_H

#include "libworker/cuda/kernels/value.h"
#include "libworker/kernel/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What gradients are multiplied with, and whether anything is done at all: numbers of the device's
 * memory, or the host's where `scale` is NULL. */
struct gpu_factor {
    const double *scale, *applies;
    float value;
};

struct gpu_copy {
    uint16_t *low; /* NULL: none is wanted */
    enum wk_dtype type;
    bool by_chance; /* bf16 (elements.h): */
    uint64_t noise, first;
    const uint64_t *noise_at; /* the device's noise; NULL: the one above */
};

struct gpu_update {
    int64_t count;
    float *params;
    struct gpu_value grads;
    float *state[2]; /* SGD without momentum has none */
    struct gpu_factor factor;
    struct gpu_copy copy;
};

/* Elements of it with equal numbers. grad_scale of the rules is not read. */
enum { GPU_PARTS_MAX = 48 };
struct gpu_part {
    int64_t first, count;
    bool moves; /* false: only the copy is written */
    union {
        struct kernel_adamw adamw;
        struct kernel_sgd sgd;
        struct kernel_lion lion;
    } rule;
    const struct kernel_adamw *adamw_at; /* the device's rule; NULL: the one above */
};

/* n <= GPU_PARTS_MAX, in one launch. adamw_at is read where n is 1. */
void gpu_adamw(const struct gpu_update *update, const struct gpu_part *parts, int n,
               cudaStream_t stream);
void gpu_sgd(const struct gpu_update *update, const struct gpu_part *parts, int n,
             cudaStream_t stream);
void gpu_lion(const struct gpu_update *update, const struct gpu_part *parts, int n,
              cudaStream_t stream);

/* Only the copy, if the factor applies. */
void gpu_copy_params(const struct gpu_update *update, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
