/* Muon's update of one matrix but for its products (optim/muon.c). The sum of squares is in double,
 * in a fixed order; elements are computed as the plain kernels do.
 *
 * Bytes that one parameter moves:
 *
 *     begin    momentum and update 16, in one launch that also sums squares; 8 for the length
 *     end      12
 */
#ifndef CUDA_KERNELS_MUON_H
#define CUDA_KERNELS_MUON_H

#include "libworker/cuda/kernels/update.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MUON_PARTIALS = 1024, MUON_ROOM = MUON_PARTIALS + 1 };

struct gpu_muon {
    int64_t count;
    float *params, *momentum, *update;
    const float *grads;
    double *room; /* [MUON_ROOM], from begin to its end */
    float decay;  /* of the momentum */
    bool nesterov;
    double epsilon;                     /* added to the update's length */
    struct kernel_blend step;           /* params = a params + b update */
    const struct kernel_blend *step_at; /* the device's; NULL: the one above */
    struct gpu_factor factor;
};

/* Move the momentum. The update is made of it, with a length of 1. */
void gpu_muon_begin(const struct gpu_muon *muon, cudaStream_t stream);
int gpu_muon_partials(int64_t count); /* of its sum */

/* Apply the update. Neither changes parameters or momentum unless the factor applies. */
void gpu_muon_end(const struct gpu_muon *muon, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
