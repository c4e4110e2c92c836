/* Products of small matrices on tensor cores, by one whole warp (mma.sync and ldmatrix, PTX ISA
 * 9.7.14). Sums are in f32.
 *
 *     D[16, 8] = A[16, 16] B[16, 8] + C[16, 8]
 *
 * The elements of lane l, with row = l / 4 and pair = l % 4 * 2. A register has two elements of 16
 * bits, the first in its low half.
 *
 *     a[0] = A[row    ][pair, pair + 1]      b[0] = B[pair,     pair + 1][row]
 *     a[1] = A[row + 8][pair, pair + 1]      b[1] = B[pair + 8, pair + 9][row]
 *     a[2] = A[row    ][pair + 8, pair + 9]
 *     a[3] = A[row + 8][pair + 8, pair + 9]
 *     d[0], d[1] = D[row][pair, pair + 1]    d[2], d[3] = D[row + 8][pair, pair + 1]
 */
#ifndef KERNELS_MMA_H
#define KERNELS_MMA_H

#include "libworker/cuda/gpu.h"

/* d += A B. T is gpu_bf16 or gpu_f16. */
template <class T>
__device__ __forceinline__ void gpu_mma(float d[4], const uint32_t a[4], const uint32_t b[2]);

#ifdef __CUDACC__
#define GPU_MMA(type, name)                                                                        \
    template <>                                                                                    \
    __device__ __forceinline__ void gpu_mma<type>(float d[4], const uint32_t a[4],                 \
                                                  const uint32_t b[2])                             \
    {                                                                                              \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 "                \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                              \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));          \
    }
GPU_MMA(gpu_bf16, "bf16")
GPU_MMA(gpu_f16, "f16")
#undef GPU_MMA
#else
template <> inline void gpu_mma<gpu_bf16>(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    emulated_mma<gpu_bf16>(d, a, b);
}
template <> inline void gpu_mma<gpu_f16>(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    emulated_mma<gpu_f16>(d, a, b);
}
#endif

/* Four matrices of 8 x 8 elements of 16 bits, from shared memory. Lanes 8 i to 8 i + 7 bring the
 * addresses of the rows of matrix i, each aligned to 16 bytes. Lane l gets [l / 4][pair, pair + 1]
 * of matrix i in r[i]; TURNED: [pair, pair + 1][l / 4]. */
template <bool TURNED>
static __device__ __forceinline__ void gpu_load_matrices(uint32_t r[4], const void *row)
{
#ifdef __CUDACC__
#ifdef __CUDA_ARCH__
    unsigned at = (unsigned)__cvta_generic_to_shared(row);
    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at)
                     : "memory");
#endif
#else
    emulated_load_matrices(r, row, TURNED);
#endif
}

#endif
