#include "libworker/cuda/kernels/product.h"

#include "libworker/cuda/kernels/element.h"

enum {
    FOUR = 4,
    LINE = 32, /* columns of a block */
    LINES = LOOP_THREADS / LINE,
    PART_ROWS = 256,
    PARTS_MAX = 64,
};

/* Four elements of the type at once. */
template <class T> struct alignas(FOUR * sizeof(T)) four {
    T each[FOUR];
};

/* Halves are read and written by their bits. */
template <class T>
static __device__ inline void four_read(float (&x)[FOUR], const void *at, enum wk_dtype type,
                                        int64_t i)
{
    four<T> all = ((const four<T> *)at)[i];
    GPU_UNROLL
    for (int k = 0; k < FOUR; k++)
        x[k] = element_read(&all.each[k], type, 0);
}

template <class T>
static __device__ inline void four_write(void *at, enum wk_dtype type, int64_t i,
                                         const float (&x)[FOUR])
{
    four<T> all;
    GPU_UNROLL
    for (int k = 0; k < FOUR; k++)
        element_write(&all.each[k], type, 0, x[k]);
    ((four<T> *)at)[i] = all;
}

static __global__ void __launch_bounds__(LOOP_THREADS)
    convert_fours(struct typed_array to, struct typed_array from, int64_t count)
{
    for (int64_t i = loop_first(); i < count / FOUR; i += loop_step()) {
        float x[FOUR];
        if (from.type == WK_F32)
            four_read<float>(x, from.at, from.type, i);
        else
            four_read<uint16_t>(x, from.at, from.type, i);
        if (to.type == WK_F32)
            four_write<float>((void *)(uintptr_t)to.at, to.type, i, x);
        else
            four_write<uint16_t>((void *)(uintptr_t)to.at, to.type, i, x);
    }
}

static __global__ void __launch_bounds__(LOOP_THREADS)
    convert_each(struct typed_array to, struct typed_array from, int64_t first, int64_t count)
{
    for (int64_t i = first + loop_first(); i < count; i += loop_step())
        element_write((void *)(uintptr_t)to.at, to.type, i, element_read(from.at, from.type, i));
}

void factor_convert(struct typed_array to, struct typed_array from, int64_t count,
                    cudaStream_t stream)
{
    bool aligned = ((uintptr_t)to.at | (uintptr_t)from.at) % (FOUR * sizeof(float)) == 0;
    int64_t fours = aligned ? count / FOUR : 0, rest = count - fours * FOUR;
    if (fours > 0)
        GPU_LAUNCH(convert_fours, loop_blocks(fours), dim3(LOOP_THREADS), 0, stream, to, from,
                   count);
    if (rest > 0)
        GPU_LAUNCH(convert_each, loop_blocks(rest), dim3(LOOP_THREADS), 0, stream, to, from,
                   fours * FOUR, count);
}

static __host__ __device__ inline int64_t parts_of(int64_t rows)
{
    int64_t parts = (rows + PART_ROWS - 1) / PART_ROWS, most = PARTS_MAX;
    return parts < 1 ? 1 : parts < most ? parts : most;
}

int64_t column_parts(int64_t rows)
{
    return parts_of(rows);
}

/* A block has a line of columns and a part of the rows; its threads of a column have every
 * LINES-th row, and the first of them adds theirs in order. */
static __global__ void __launch_bounds__(LOOP_THREADS) part_kernel(const struct column_sums s)
{
    GPU_SHARED(float, sums, LOOP_THREADS);
    int64_t parts = parts_of(s.rows), each = (s.rows + parts - 1) / parts;
    int64_t lines = (s.cols + LINE - 1) / LINE, part = blockIdx.x / lines;
    int64_t col = blockIdx.x % lines * LINE + threadIdx.x % LINE;
    int64_t first = part * each, end = first + each < s.rows ? first + each : s.rows;
    float sum = 0;
    for (int64_t r = first + threadIdx.x / LINE; r < end && col < s.cols; r += LINES) {
        float x = element_read(s.x.at, s.x.type, r * s.cols + col);
        sum += x;
        if (s.copy.at)
            element_write((void *)(uintptr_t)s.copy.at, s.copy.type, r * s.cols + col, x);
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int i = 1; i < LINES && threadIdx.x < LINE; i++)
        sum += sums[i * LINE + threadIdx.x];
    if (threadIdx.x < LINE && col < s.cols)
        s.parts[part * s.cols + col] = sum;
}

static __global__ void __launch_bounds__(LOOP_THREADS) whole_kernel(const struct column_sums s)
{
    int64_t parts = parts_of(s.rows);
    for (int64_t col = loop_first(); col < s.cols; col += loop_step()) {
        float sum = 0;
        for (int64_t part = 0; part < parts; part++)
            sum += s.parts[part * s.cols + col];
        s.sums[col] = s.add ? s.sums[col] + sum : sum;
    }
}

void column_sums_add_up(const struct column_sums *sums, cudaStream_t stream)
{
    int64_t blocks = parts_of(sums->rows) * ((sums->cols + LINE - 1) / LINE);
    if (sums->cols == 0)
        return;
    GPU_LAUNCH(part_kernel, dim3((unsigned)blocks), dim3(LOOP_THREADS), 0, stream, *sums);
    GPU_LAUNCH(whole_kernel, loop_blocks(sums->cols), dim3(LOOP_THREADS), 0, stream, *sums);
}
