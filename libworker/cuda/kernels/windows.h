/* What convolutions have beside their products: windows of images side by side (im2col), and their
 * way back. Images are [samples, channels, height, width]; windows [channels * kernel * kernel,
 * samples * places], zeros outside the image.
 *
 * Each element is written once and each sum has a fixed order, so results have the same bits on
 * every run. Bytes: elements of windows once, those of images kernel^2 / stride^2 times, mostly
 * from the cache. Host functions launch on the stream (gpu.h). Samples may be 0. Any thread. */
#ifndef CUDA_KERNELS_WINDOWS_H
#define CUDA_KERNELS_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/cuda/kernels/product.h"

#ifdef __cplusplus
extern "C" {
#endif

struct image_windows {
    int64_t samples, channels, height, width; /* of all groups */
    int64_t kernel, stride, padding;
    int64_t across, places; /* windows in a row, and of an image */
};

/* windows = those of the images. */
void windows_gather(const struct image_windows *w, struct typed_array windows,
                    struct typed_array images, cudaStream_t stream);

/* images = the sums of what is at their places in windows, or that added to them. */
void windows_sum(const struct image_windows *w, float *images, const float *windows, bool add,
                 cudaStream_t stream);

/* Results and their gradients: rows[channels, samples * places] and planes[samples, channels,
 * places]. */
struct planes {
    int64_t samples, channels, places;
};

/* planes = rows + bias[channel]; bias may be NULL. */
void planes_from_rows(const struct planes *p, struct typed_array planes, const float *rows,
                      const float *bias, cudaStream_t stream);
/* rows = planes. */
void rows_from_planes(const struct planes *p, struct typed_array rows, const float *planes,
                      cudaStream_t stream);
/* sums[channels] = those over samples and places, or that added. */
void planes_sum(const struct planes *p, float *sums, const float *planes, bool add,
                cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
