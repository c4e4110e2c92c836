#include "libworker/cuda/kernels/scatter.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/divider.h"
#include "libworker/cuda/kernels/flat.h"
#include "libworker/cuda/kernels/grid.h"
#include "libworker/cuda/kernels/warp.h"

namespace
{

enum { THREADS = 256 };

/* Rows of dout that may have come from a row of the result: `count` of them, number c is `row`. */
struct numbered {
    const int32_t *index;
    struct divider rows;
    int64_t n;
    __device__ int64_t count(int64_t) const
    {
        return n;
    }
    __device__ int64_t row(int64_t to, int64_t c) const
    {
        return divide(rows, to) * n + c;
    }
    __device__ bool came(int64_t to, int64_t from) const
    {
        return index[from] == to - divide(rows, to) * rows.by;
    }
};

/* Samples of one document: one row of each. */
struct whole {
    int64_t samples, length, past;
    __device__ int64_t count(int64_t to) const
    {
        return to < past || to >= past + length ? 0 : samples;
    }
    __device__ int64_t row(int64_t to, int64_t c) const
    {
        return c * length + to - past;
    }
    __device__ bool came(int64_t, int64_t) const
    {
        return true;
    }
};

struct documents {
    const int32_t *starts;
    struct divider length;
    int64_t rows, past;
    __device__ int64_t count(int64_t) const
    {
        return rows;
    }
    __device__ int64_t row(int64_t, int64_t c) const
    {
        return c;
    }
    __device__ bool came(int64_t to, int64_t from) const
    {
        int64_t place = from - divide(length, from) * length.by;
        return past + place - starts[from] == to;
    }
};

/* The candidates of a block that came from its row, in order. Returns how many; all of its threads
 * call it. */
static __device__ __forceinline__ int found_order(bool came, int64_t from, int64_t *found,
                                                  int *counts)
{
    int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, before = 0, all = 0;
    unsigned votes = __ballot_sync(0xffffffffu, came);
    if (lane == 0)
        counts[warp] = __popc(votes);
    __syncthreads();
    for (int i = 0; i < THREADS / WARP; i++) {
        before += i < warp ? counts[i] : 0;
        all += counts[i];
    }
    if (came)
        found[before + __popc(votes & ((1u << lane) - 1))] = from;
    __syncthreads();
    return all;
}

template <class Rows>
__global__ void rows_sum(Rows rows, struct gpu_gradient d, const float *dout, int64_t width)
{
    GPU_SHARED(int64_t, found, THREADS);
    GPU_SHARED(int, counts, THREADS / WARP);
    int64_t to = blockIdx.x, columns = blockIdx.y * span_step();
    struct span s = span_at(columns, width);
    float sum[SPAN], x[SPAN];
    GPU_UNROLL
    for (int j = 0; j < SPAN; j++)
        sum[j] = 0;
    if (d.add)
        span_read(s, floats_value(d.at), to * width, sum);
    int64_t count = rows.count(to);
    for (int64_t first = 0; first < count; first += THREADS) {
        int64_t c = first + threadIdx.x, from = c < count ? rows.row(to, c) : 0;
        bool came = c < count && rows.came(to, from);
        int n = found_order(came, from, found, counts);
        for (int i = 0; i < n; i++) {
            span_read(s, floats_value(dout), found[i] * width, x);
            GPU_UNROLL
            for (int j = 0; j < SPAN; j++)
                sum[j] += x[j];
        }
        __syncthreads();
    }
    span_write(s, floats_value(d.at), to * width, sum);
}

template <class Rows>
void launch(const Rows &rows, int64_t n_rows, struct gpu_gradient d, const float *dout,
            int64_t width, cudaStream_t stream)
{
    int64_t columns = (width + THREADS * SPAN - 1) / (THREADS * SPAN);
    if (n_rows && width)
        GPU_LAUNCH(rows_sum<Rows>, dim3((unsigned)n_rows, (unsigned)columns), THREADS, 0, stream,
                   rows, d, dout, width);
}

/* One element of a window's input: the positions that it was copied to, in order. */
static __device__ __forceinline__ float window_sum(const struct gpu_windows &w,
                                                   struct divider length, const float *dout,
                                                   int64_t row, int64_t column, float sum)
{
    int64_t place = row - divide(length, row) * w.length;
    for (int64_t back = 0; back < w.window && place + back < w.length; back++)
        sum += dout[((row + back) * w.window + w.window - 1 - back) * w.width + column];
    return sum;
}

__global__ void windows_sum(struct gpu_windows w, struct divider length, struct divider width,
                            struct gpu_gradient d, const float *dout)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < w.rows * w.width;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t row = divide(width, i);
        d.at[i] = window_sum(w, length, dout, row, i - row * w.width, d.add ? d.at[i] : 0.0f);
    }
}

} // namespace

extern "C" void gpu_scatter_numbered(const struct gpu_numbered *n, struct gpu_gradient d,
                                     const float *dout, int64_t width, cudaStream_t stream)
{
    struct numbered rows = {n->index, divider_of(n->rows), n->n};
    launch(rows, n->samples * n->rows, d, dout, width, stream);
}

extern "C" void gpu_scatter_placed(const struct gpu_placed *p, int64_t n_rows,
                                   struct gpu_gradient d, const float *dout, int64_t width,
                                   cudaStream_t stream)
{
    struct whole whole = {p->samples, p->length, p->past};
    struct documents documents = {p->starts, divider_of(p->length), p->samples * p->length,
                                  p->past};
    if (p->starts)
        launch(documents, n_rows, d, dout, width, stream);
    else
        launch(whole, n_rows, d, dout, width, stream);
}

extern "C" void gpu_scatter_windows(const struct gpu_windows *w, struct gpu_gradient d,
                                    const float *dout, cudaStream_t stream)
{
    int64_t count = w->rows * w->width;
    if (count)
        GPU_LAUNCH(windows_sum, grid_of(count, THREADS), THREADS, 0, stream, *w,
                   divider_of(w->length), divider_of(w->width), d, dout);
}
