#include "libworker/cuda/kernels/rank_sums.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/flat.h"

namespace
{

enum { NUMBERS_THREADS = 32 };

__global__ void sum_ranks(struct gpu_rank_sums a)
{
    for (int64_t at = flat_first(); at < a.count; at += flat_step()) {
        struct span s = flat_span(at, a.count);
        float sum[SPAN], more[SPAN];
        span_read(s, a.rows, 0, sum);
        for (int rank = 1; rank < a.world; rank++) {
            span_read(s, a.rows, rank * a.count, more);
            GPU_UNROLL
            for (int j = 0; j < SPAN; j++)
                sum[j] += more[j];
        }
        span_write(s, a.out, 0, sum);
    }
}

static __device__ __forceinline__ double narrowed(bool as_float, double value)
{
    return as_float ? (double)(float)value : value;
}

__global__ void rank_numbers(struct gpu_rank_numbers a)
{
    for (int64_t i = threadIdx.x; i < a.count; i += blockDim.x) {
        double sum = narrowed(a.as_float, a.rows[i]);
        for (int rank = 1; rank < a.world; rank++)
            sum = narrowed(a.as_float, sum + narrowed(a.as_float, a.rows[rank * a.count + i]));
        a.out[i] = sum;
    }
}

/* The host writes the word while kernels run: it is read from there, not from a cache. */
__global__ void note_stop(const volatile int *stop, double *finite)
{
    if (threadIdx.x == 0 && *stop)
        *finite = 0;
}

} // namespace

extern "C" void gpu_sum_ranks(const struct gpu_rank_sums *sums, cudaStream_t stream)
{
    if (sums->count)
        GPU_LAUNCH(sum_ranks, flat_grid(sums->count), FLAT_THREADS, 0, stream, *sums);
}

extern "C" void gpu_sum_rank_numbers(const struct gpu_rank_numbers *sums, cudaStream_t stream)
{
    if (sums->count)
        GPU_LAUNCH(rank_numbers, 1, NUMBERS_THREADS, 0, stream, *sums);
}

extern "C" void gpu_note_stop(const int *stop, double *finite, cudaStream_t stream)
{
    GPU_LAUNCH(note_stop, 1, NUMBERS_THREADS, 0, stream, stop, finite);
}
