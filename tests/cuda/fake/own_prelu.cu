#include "tests/cuda/fake/own_prelu.h"

#include "libworker/cuda/gpu.h"

enum { THREADS = 64 };

__global__ void prelu_values(const float *x, const float *slope, float *y, int64_t count,
                             int64_t width)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        y[i] = x[i] < 0 ? slope[i % width] * x[i] : x[i];
}

__global__ void prelu_slopes(const float *x, const float *slope, const float *dy, float *dx,
                             int64_t count, int64_t width)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        dx[i] += x[i] < 0 ? slope[i % width] * dy[i] : dy[i];
}

/* A thread for each column: the sum has one order. */
__global__ void prelu_columns(const float *x, const float *dy, float *dslope, int64_t rows,
                              int64_t width)
{
    int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width)
        return;
    float sum = 0;
    for (int64_t i = column; i < rows * width; i += width)
        sum += x[i] < 0 ? x[i] * dy[i] : 0;
    dslope[column] += sum;
}

static dim3 blocks(int64_t count)
{
    return dim3((unsigned)((count + THREADS - 1) / THREADS));
}

extern "C" int own_prelu_forward(struct wk_op_call *call)
{
    int64_t count = call->out[0].count;
    if (!call->stream)
        return wk_op_fail(call, "there is no stream");
    GPU_LAUNCH(prelu_values, blocks(count), dim3(THREADS), 0, (cudaStream_t)call->stream,
               (const float *)call->in[0].data, (const float *)call->in[1].data,
               (float *)call->out[0].data, count, call->in[1].count);
    return 0;
}

extern "C" int own_prelu_backward(struct wk_op_call *call)
{
    const float *x = (const float *)call->in[0].data, *dy = (const float *)call->d_out.data;
    int64_t count = call->d_out.count, width = call->in[1].count;
    cudaStream_t stream = (cudaStream_t)call->stream;
    if (call->d_in[0].data)
        GPU_LAUNCH(prelu_slopes, blocks(count), dim3(THREADS), 0, stream, x,
                   (const float *)call->in[1].data, dy, (float *)call->d_in[0].data, count, width);
    if (call->d_in[1].data)
        GPU_LAUNCH(prelu_columns, blocks(width), dim3(THREADS), 0, stream, x, dy,
                   (float *)call->d_in[1].data, count / width, width);
    return 0;
}
