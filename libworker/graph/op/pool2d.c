/* Windows of an image reduced to one element each, as torch's MaxPool2d and AvgPool2d by default:
 * a mean counts the zeros of the padding, a maximum does not see them. A maximum sends its gradient
 * to the first of equals, in the order of rows. NaN is larger than everything. */
#include <math.h>

#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/room.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

/* One plane of an image and of the result. */
struct plane {
    int64_t height, width, out_height, out_width;
    int kernel, stride, padding;
};

static struct plane plane_of(const struct op_call *call)
{
    const struct wk_pool_options *o = call->node->attributes;
    return (struct plane){.height = call->in[0].shape[2],
                          .width = call->in[0].shape[3],
                          .out_height = call->out[0].shape[2],
                          .out_width = call->out[0].shape[3],
                          .kernel = o->kernel,
                          .stride = o->stride,
                          .padding = o->padding};
}

/* The part of window i along one side of the image that is inside: [from, to). */
struct span {
    int64_t from, to;
};

static struct span span_of(const struct plane *p, int64_t i, int64_t size)
{
    int64_t from = i * p->stride - p->padding, to = from + p->kernel;
    return (struct span){from < 0 ? 0 : from, to > size ? size : to};
}

static bool is_max(const struct node *node)
{
    return ((const struct wk_pool_options *)node->attributes)->kind == WK_REDUCE_MAX;
}

/* The element of the plane that is the window's maximum. */
static int64_t largest_at(const struct plane *p, const float *x, struct span y, struct span across)
{
    int64_t best = y.from * p->width + across.from;
    for (int64_t i = y.from; i < y.to; i++) {
        for (int64_t j = across.from; j < across.to; j++) {
            int64_t at = i * p->width + j;
            if (x[at] > x[best] || (isnan(x[at]) && !isnan(x[best])))
                best = at;
        }
    }
    return best;
}

static float mean_of(const struct plane *p, const float *x, struct span y, struct span across)
{
    double sum = 0;
    for (int64_t i = y.from; i < y.to; i++) {
        for (int64_t j = across.from; j < across.to; j++)
            sum += (double)x[i * p->width + j];
    }
    return (float)(sum / ((double)p->kernel * p->kernel));
}

static void plane_forward(const struct plane *p, bool max, float *out, const float *x)
{
    for (int64_t i = 0; i < p->out_height; i++) {
        struct span y = span_of(p, i, p->height);
        for (int64_t j = 0; j < p->out_width; j++) {
            struct span across = span_of(p, j, p->width);
            out[i * p->out_width + j] =
                max ? x[largest_at(p, x, y, across)] : mean_of(p, x, y, across);
        }
    }
}

/* dx += …; x is NULL for a mean. */
static void plane_backward(const struct plane *p, float *dx, const float *x, const float *dout)
{
    float share = 1.0f / (float)(p->kernel * p->kernel);
    for (int64_t i = 0; i < p->out_height; i++) {
        struct span y = span_of(p, i, p->height);
        for (int64_t j = 0; j < p->out_width; j++) {
            struct span across = span_of(p, j, p->width);
            float d = dout[i * p->out_width + j];
            if (x)
                dx[largest_at(p, x, y, across)] += d;
            for (int64_t r = y.from; !x && r < y.to; r++) {
                for (int64_t c = across.from; c < across.to; c++)
                    dx[r * p->width + c] += d * share;
            }
        }
    }
}

static size_t pool2d_scratch(const struct op_call *call, bool backward)
{
    struct plane p = plane_of(call);
    size_t x = room_rounded((size_t)(p.height * p.width) * sizeof(float));
    size_t out = room_rounded((size_t)(p.out_height * p.out_width) * sizeof(float));
    size_t bytes = tensor_is_low(&call->in[0]) ? x : 0;
    if (!backward && tensor_is_low(&call->out[0]))
        bytes += out;
    return bytes;
}

static int64_t planes_of(const struct op_call *call)
{
    return call->in[0].shape[0] * call->in[0].shape[1];
}

static void pool2d_forward(const struct op_call *call)
{
    const struct kernel_table *k = call->pass->kernels;
    struct plane p = plane_of(call);
    int64_t in = p.height * p.width, out = p.out_height * p.out_width;
    uint8_t *rest = call->scratch;
    float *x_room = tensor_is_low(&call->in[0]) ? room_take(&rest, in, sizeof(float)) : NULL;
    float *y_room = tensor_is_low(&call->out[0]) ? room_take(&rest, out, sizeof(float)) : NULL;
    for (int64_t i = 0; i < planes_of(call); i++) {
        const float *x = tile_read(k, &call->in[0], i * in, in, x_room);
        float *y = tile_target(&call->out[0], i * out, y_room);
        plane_forward(&p, is_max(call->node), y, x);
        tile_store(k, &call->out[0], i * out, out, y);
    }
}

static void pool2d_backward(const struct op_call *call)
{
    const struct kernel_table *k = call->pass->kernels;
    struct plane p = plane_of(call);
    int64_t in = p.height * p.width, out = p.out_height * p.out_width;
    float *dx = call->d_in[0].data;
    const float *dout = call->d_out.data;
    tile_zero(k, &call->d_in[0]);
    for (int64_t i = 0; dx && i < planes_of(call); i++) {
        const float *x =
            is_max(call->node) ? tile_read(k, &call->in[0], i * in, in, call->scratch) : NULL;
        plane_backward(&p, dx + i * in, x, dout + i * out);
    }
}

static unsigned pool2d_keeps(const struct node *node)
{
    return is_max(node) ? OP_IN(0) : 0;
}

static void pool2d_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    struct plane p = plane_of(call);
    cost_elements(call, backward, (double)p.kernel * p.kernel, ret);
}

static int pool2d_shape(struct op_signature *s, struct error *err)
{
    const struct wk_pool_options *o = s->attributes;
    const struct wk_tensor *x = s->in[0];
    char text[TENSOR_TEXT_MAX];
    int rc = rule_values(s, err);
    if (!rc)
        rc = rule_dims(s, 0, (int[]){4, 4}, err);
    if (rc)
        return rc;
    if (o->kind != WK_REDUCE_MEAN && o->kind != WK_REDUCE_MAX)
        return error_set(err, WK_EINVAL, "kind %d; it takes WK_REDUCE_MEAN or WK_REDUCE_MAX",
                         (int)o->kind);
    if (o->kernel < 1 || o->stride < 1 || o->padding < 0 || o->padding > o->kernel / 2)
        return error_set(err, WK_EINVAL,
                         "kernel %d, stride %d, padding %d; a padding is at most half the kernel",
                         o->kernel, o->stride, o->padding);
    s->out[0] = rule_output(x, 0);
    for (int i = 2; i < 4; i++) {
        int64_t size = x->shape[i].fixed + 2 * (int64_t)o->padding;
        if (!dim_is_fixed(x->shape[i]) || size < o->kernel)
            return error_set(err, WK_EINVAL,
                             "%s; height and width are fixed and not below the kernel, %d",
                             tensor_text(x, text), o->kernel);
        s->out[0].shape[i].fixed = (size - o->kernel) / o->stride + 1;
    }
    return 0;
}

static const struct op_attribute pool2d_attributes[] = {
    OP_ATTRIBUTE(struct wk_pool_options, kind),
    OP_ATTRIBUTE(struct wk_pool_options, kernel),
    OP_ATTRIBUTE(struct wk_pool_options, stride),
    OP_ATTRIBUTE(struct wk_pool_options, padding),
    {0},
};

const struct op_row op_pool2d = {
    .name = "pool2d",
    .attributes = pool2d_attributes,
    .result = RESULT_LIKE,
    .min_in = 1,
    .max_in = 1,
    .cuts = OP_CUT_SAMPLES,
    .shape = pool2d_shape,
    .keeps_of = pool2d_keeps,
    .differentiable = OP_IN(0),
    .scratch_bytes = pool2d_scratch,
    .cost = pool2d_cost,
    .forward = pool2d_forward,
    .backward = pool2d_backward,
};

struct wk_tensor *wk_op_pool2d(struct wk_tensor *x, const struct wk_pool_options *options)
{
    struct wk_pool_options o = options ? *options : (struct wk_pool_options){0};
    o.stride = o.stride ? o.stride : o.kernel;
    return graph_add(&(struct node_request){
        .row = &op_pool2d, .attributes = &o, .attributes_bytes = sizeof(o), .n_in = 1, .in = {x}});
}
