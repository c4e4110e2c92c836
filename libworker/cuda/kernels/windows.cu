#include "libworker/cuda/kernels/windows.h"

#include "libworker/cuda/kernels/element.h"
#include "libworker/cuda/kernels/warp.h"

static __device__ inline void *writable(struct typed_array x)
{
    return (void *)(uintptr_t)x.at;
}

/* Consecutive threads have windows side by side. */
static __global__ void __launch_bounds__(LOOP_THREADS)
    gather_kernel(struct image_windows w, struct typed_array windows, struct typed_array images)
{
    int64_t columns = w.samples * w.places, count = w.channels * w.kernel * w.kernel * columns;
    for (int64_t i = loop_first(); i < count; i += loop_step()) {
        int64_t column = i % columns, row = i / columns;
        int64_t sample = column / w.places, place = column % w.places;
        int64_t channel = row / (w.kernel * w.kernel), at = row % (w.kernel * w.kernel);
        int64_t y = place / w.across * w.stride + at / w.kernel - w.padding;
        int64_t x = place % w.across * w.stride + at % w.kernel - w.padding;
        bool inside = y >= 0 && y < w.height && x >= 0 && x < w.width;
        int64_t from = ((sample * w.channels + channel) * w.height + y) * w.width + x;
        element_write(writable(windows), windows.type, i,
                      inside ? element_read(images.at, images.type, from) : 0);
    }
}

void windows_gather(const struct image_windows *w, struct typed_array windows,
                    struct typed_array images, cudaStream_t stream)
{
    int64_t count = w->channels * w->kernel * w->kernel * w->samples * w->places;
    if (count > 0)
        GPU_LAUNCH(gather_kernel, loop_blocks(count), dim3(LOOP_THREADS), 0, stream, *w, windows,
                   images);
}

/* A thread has an element of an image and visits the windows that it is in, in their order. */
static __global__ void __launch_bounds__(LOOP_THREADS)
    sum_kernel(struct image_windows w, float *images, const float *windows, bool add)
{
    int64_t columns = w.samples * w.places, down = w.places / w.across;
    int64_t count = w.samples * w.channels * w.height * w.width;
    for (int64_t i = loop_first(); i < count; i += loop_step()) {
        int64_t x = i % w.width + w.padding, y = i / w.width % w.height + w.padding;
        int64_t channel = i / w.width / w.height % w.channels;
        int64_t sample = i / w.width / w.height / w.channels;
        float sum = 0;
        for (int64_t ky = 0; ky < w.kernel; ky++) {
            for (int64_t kx = 0; kx < w.kernel; kx++) {
                int64_t py = (y - ky) / w.stride, px = (x - kx) / w.stride;
                bool is_there = y >= ky && x >= kx && (y - ky) % w.stride == 0 &&
                                (x - kx) % w.stride == 0 && py < down && px < w.across;
                int64_t row = (channel * w.kernel + ky) * w.kernel + kx;
                if (is_there)
                    sum += windows[row * columns + sample * w.places + py * w.across + px];
            }
        }
        images[i] = add ? images[i] + sum : sum;
    }
}

void windows_sum(const struct image_windows *w, float *images, const float *windows, bool add,
                 cudaStream_t stream)
{
    int64_t count = w->samples * w->channels * w->height * w->width;
    if (count > 0)
        GPU_LAUNCH(sum_kernel, loop_blocks(count), dim3(LOOP_THREADS), 0, stream, *w, images,
                   windows, add);
}

static __device__ inline int64_t place_in_rows(struct planes p, int64_t i)
{
    int64_t place = i % p.places, channel = i / p.places % p.channels;
    int64_t sample = i / p.places / p.channels;
    return (channel * p.samples + sample) * p.places + place;
}

static __global__ void __launch_bounds__(LOOP_THREADS)
    from_rows_kernel(struct planes p, struct typed_array planes, const float *rows,
                     const float *bias)
{
    for (int64_t i = loop_first(); i < p.samples * p.channels * p.places; i += loop_step()) {
        float x = rows[place_in_rows(p, i)];
        element_write(writable(planes), planes.type, i,
                      bias ? x + bias[i / p.places % p.channels] : x);
    }
}

static __global__ void __launch_bounds__(LOOP_THREADS)
    from_planes_kernel(struct planes p, struct typed_array rows, const float *planes)
{
    for (int64_t i = loop_first(); i < p.samples * p.channels * p.places; i += loop_step())
        element_write(writable(rows), rows.type, place_in_rows(p, i), planes[i]);
}

void planes_from_rows(const struct planes *p, struct typed_array planes, const float *rows,
                      const float *bias, cudaStream_t stream)
{
    int64_t count = p->samples * p->channels * p->places;
    if (count > 0)
        GPU_LAUNCH(from_rows_kernel, loop_blocks(count), dim3(LOOP_THREADS), 0, stream, *p, planes,
                   rows, bias);
}

void rows_from_planes(const struct planes *p, struct typed_array rows, const float *planes,
                      cudaStream_t stream)
{
    int64_t count = p->samples * p->channels * p->places;
    if (count > 0)
        GPU_LAUNCH(from_planes_kernel, loop_blocks(count), dim3(LOOP_THREADS), 0, stream, *p, rows,
                   planes);
}

/* A block has a channel: its threads' sums, then those of warps, in order. */
static __global__ void __launch_bounds__(LOOP_THREADS)
    planes_kernel(struct planes p, float *sums, const float *planes, bool add)
{
    GPU_SHARED(float, room, WARPS_MAX);
    int64_t channel = blockIdx.x;
    float sum = 0;
    for (int64_t i = threadIdx.x; i < p.samples * p.places; i += LOOP_THREADS)
        sum += planes[(i / p.places * p.channels + channel) * p.places + i % p.places];
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        sums[channel] = add ? sums[channel] + sum : sum;
}

void planes_sum(const struct planes *p, float *sums, const float *planes, bool add,
                cudaStream_t stream)
{
    GPU_LAUNCH(planes_kernel, dim3((unsigned)p->channels), dim3(LOOP_THREADS), 0, stream, *p, sums,
               planes, add);
}
