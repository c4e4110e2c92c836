#include "libworker/nn/conv.h"

static int64_t along(const struct kernel_windows *w, int64_t size)
{
    int64_t room = size + 2 * w->padding - w->kernel;
    return room < 0 ? 0 : room / w->stride + 1;
}

int64_t conv_places(const struct conv *c)
{
    return along(&c->windows, c->windows.height) * along(&c->windows, c->windows.width);
}

static int64_t row_length(const struct conv *c)
{
    return c->windows.channels * c->windows.kernel * c->windows.kernel;
}

static int64_t image_size(const struct conv *c)
{
    return c->windows.channels * c->windows.height * c->windows.width;
}

/* As they are multiplied: one sample's side by side. */
static struct kernel_windows windows_of(const struct conv *c)
{
    struct kernel_windows windows = c->windows;
    windows.ld = conv_places(c);
    return windows;
}

void conv_forward(const struct conv *c, float *y, const float *x)
{
    const struct kernel_windows windows = windows_of(c);
    int64_t places = conv_places(c), length = row_length(c);
    for (int64_t s = 0; s < c->samples; s++) {
        float *out = y + s * c->out * places;
        c->kernels->windows_forward(&windows, c->rows, x + s * image_size(c));
        for (int64_t o = 0; o < c->out; o++)
            c->kernels->fill(out + o * places, c->bias ? c->bias[o] : 0, (size_t)places);
        product(c->kernels, (int64_t[]){c->out, places, length},
                (struct factor){c->weight, length, false}, (struct factor){c->rows, places, false},
                (struct result){out, places, 1});
    }
}

static void bias_backward(const struct conv *c, const float *dout, int64_t places)
{
    for (int64_t o = 0; o < c->out; o++) {
        double sum = 0;
        for (int64_t i = 0; i < places; i++)
            sum += (double)dout[o * places + i];
        c->dbias[o] += (float)sum;
    }
}

void conv_backward(const struct conv *c, float *dx, const float *x, const float *dy)
{
    const struct kernel_windows windows = windows_of(c);
    int64_t places = conv_places(c), length = row_length(c);
    for (int64_t s = 0; s < c->samples; s++) {
        const float *dout = dy + s * c->out * places;
        if (c->dbias)
            bias_backward(c, dout, places);
        c->kernels->windows_forward(&windows, c->rows, x + s * image_size(c));
        product(c->kernels, (int64_t[]){c->out, length, places},
                (struct factor){dout, places, false}, (struct factor){c->rows, places, true},
                (struct result){c->dweight, length, 1});
        if (!dx)
            continue;
        product(c->kernels, (int64_t[]){length, places, c->out},
                (struct factor){c->weight, length, true}, (struct factor){dout, places, false},
                (struct result){c->rows, places, 0});
        c->kernels->windows_backward(&windows, dx + s * image_size(c), c->rows);
    }
}
