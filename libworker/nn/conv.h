/* Two-dimensional convolution as a product: windows of the image side by side (im2col). Images are
 * [samples, channels, height, width], weights [out, channels, kernel, kernel], as torch's. FLOP: 2
 * samples out height' width' channels kernel^2 forward, twice that backward.
 */
#ifndef NN_CONV_H
#define NN_CONV_H

#include <stdint.h>

#include "libworker/nn/product.h"

struct conv {
    const struct kernel_table *kernels;
    struct kernel_windows windows; /* of one sample */
    int64_t samples, out;
    const float *weight, *bias; /* [out, channels * kernel^2], [out] or NULL */
    float *dweight, *dbias;     /* the same shapes */
    float *rows;                /* scratch: [channels * kernel^2, conv_places] */
};

/* Places of the output of one sample: its height times its width. 0 when the image is too small. */
int64_t conv_places(const struct conv *conv);

/* y[samples, out, places] from x[samples, channels, height, width]. */
void conv_forward(const struct conv *conv, float *y, const float *x);

/* dweight and dbias are added to, dx too (zero it before); `dx` may be NULL. */
void conv_backward(const struct conv *conv, float *dx, const float *x, const float *dy);

#endif
