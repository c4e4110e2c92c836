/* Convolution and pooling. */
#include <math.h>

#include "tests/numeric/graph/harness.h"

/* option: stride, padding, groups. */
static struct wk_tensor *conv2d(const struct op_case *c, struct wk_tensor *const *in)
{
    struct wk_conv_options options = {c->option[0], c->option[1], c->option[2]};
    return wk_op_conv2d(in[0], in[1], in[2], &options);
}

static double pixel(const double *plane, const int64_t *shape, int64_t y, int64_t x)
{
    bool inside = y >= 0 && y < shape[0] && x >= 0 && x < shape[1];
    return inside ? plane[y * shape[1] + x] : 0;
}

/* One element of the result: a sum over the channels of its group. */
static double conv2d_element(const struct reference *r, int64_t s, int64_t o, const int64_t at[2])
{
    const int64_t *image = r->call->in[0].shape, *weight = r->call->in[1].shape;
    int stride = r->c->option[0] ? r->c->option[0] : 1, padding = r->c->option[1];
    int64_t groups = image[1] / weight[1], first = o / (weight[0] / groups) * weight[1];
    double sum = r->in[2] ? r->in[2][o] : 0;
    for (int64_t c = 0; c < weight[1]; c++) {
        const double *plane = r->in[0] + (s * image[1] + first + c) * image[2] * image[3];
        const double *w = r->in[1] + (o * weight[1] + c) * weight[2] * weight[3];
        for (int64_t k = 0; k < weight[2] * weight[3]; k++)
            sum += w[k] * pixel(plane, image + 2, at[0] * stride - padding + k / weight[3],
                                at[1] * stride - padding + k % weight[3]);
    }
    return sum;
}

static void conv2d_reference(const struct reference *r)
{
    const int64_t *out = r->call->out[0].shape;
    for (int64_t i = 0; i < r->call->out[0].count; i++) {
        int64_t at[2] = {i / out[3] % out[2], i % out[3]};
        int64_t channel = i / out[3] / out[2];
        r->out[i] = conv2d_element(r, channel / out[1], channel % out[1], at);
    }
}

/* option: kind, kernel, stride, padding. */
static struct wk_tensor *pool2d(const struct op_case *c, struct wk_tensor *const *in)
{
    struct wk_pool_options options = {(enum wk_reduce)c->option[0], c->option[1], c->option[2],
                                      c->option[3]};
    return wk_op_pool2d(in[0], &options);
}

static double window_of(const struct reference *r, const double *plane, const int64_t at[2])
{
    const int64_t *shape = r->call->in[0].shape + 2;
    int kernel = r->c->option[1], stride = r->c->option[2] ? r->c->option[2] : kernel;
    double sum = 0, most = -INFINITY;
    for (int k = 0; k < kernel * kernel; k++) {
        int64_t y = at[0] * stride - r->c->option[3] + k / kernel;
        int64_t x = at[1] * stride - r->c->option[3] + k % kernel;
        sum += pixel(plane, shape, y, x);
        if (y >= 0 && y < shape[0] && x >= 0 && x < shape[1])
            most = fmax(most, plane[y * shape[1] + x]);
    }
    return r->c->option[0] == WK_REDUCE_MAX ? most : sum / (kernel * kernel);
}

static void pool2d_reference(const struct reference *r)
{
    const int64_t *in = r->call->in[0].shape, *out = r->call->out[0].shape;
    for (int64_t i = 0; i < r->call->out[0].count; i++) {
        int64_t at[2] = {i / out[3] % out[2], i % out[3]};
        r->out[i] = window_of(r, r->in[0] + i / out[3] / out[2] * in[2] * in[3], at);
    }
}

#define CONV(what_, image, weight_, bias_, ...)                                                    \
    {                                                                                              \
        "conv2d", what_, conv2d,                                                                   \
            .in = {{image}, {weight_, .param = true}, {bias_, .param = true}},                     \
            .reference = conv2d_reference, .option = {__VA_ARGS__}, .roundings = 300               \
    }
/* Many elements in a window, so that few samples are multiplied at once. */
#define MANY(what_, channels)                                                                      \
    {                                                                                              \
        "conv2d", what_, conv2d,                                                                   \
            .in = {{WK_SHAPE(WK_SAMPLES, channels, 8, 8)},                                         \
                   {WK_SHAPE(1, channels, 1, 1), .param = true},                                   \
                   {WK_SHAPE(1), .param = true}},                                                  \
            .reference = conv2d_reference, .roundings = channels                                   \
    }
#define POOL(what_, image, ...)                                                                    \
    {                                                                                              \
        "pool2d", what_, pool2d, .in = {{image}}, .reference = pool2d_reference, .option = {       \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

const struct op_case cases_images[] = {
    CONV("plain", WK_SHAPE(WK_SAMPLES, 3, 5, 6), WK_SHAPE(4, 3, 3, 3), WK_SHAPE(4), 0),
    CONV("no bias", WK_SHAPE(WK_SAMPLES, 2, 4, 4), WK_SHAPE(3, 2, 1, 1), (struct wk_shape){0}, 1, 0,
         1),
    CONV("stride and padding", WK_SHAPE(WK_SAMPLES, 2, 7, 5), WK_SHAPE(3, 2, 3, 3), WK_SHAPE(3), 2,
         1),
    CONV("groups", WK_SHAPE(WK_SAMPLES, 4, 5, 5), WK_SHAPE(6, 2, 3, 3), WK_SHAPE(6), 1, 1, 2),
    CONV("each channel alone", WK_SHAPE(WK_SAMPLES, 3, 4, 4), WK_SHAPE(3, 1, 2, 2), WK_SHAPE(3), 2,
         0, 3),
    MANY("two samples at once, of three", 1400),
    MANY("one sample at once", 2100),
    POOL("largest", WK_SHAPE(WK_SAMPLES, 2, 6, 6), WK_REDUCE_MAX, 2),
    POOL("largest with padding", WK_SHAPE(WK_SAMPLES, 2, 5, 7), WK_REDUCE_MAX, 3, 2, 1),
    POOL("mean", WK_SHAPE(WK_SAMPLES, 2, 4, 4), WK_REDUCE_MEAN, 2),
    POOL("mean with padding", WK_SHAPE(WK_SAMPLES, 2, 5, 7), WK_REDUCE_MEAN, 3, 1, 1),
    {0},
};
