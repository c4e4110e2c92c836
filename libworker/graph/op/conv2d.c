/* Two-dimensional convolution as products: the windows of a sample's image become rows (im2col), a
 * group of channels at a time. Inputs: x[samples, channels, height, width], weight[out, channels /
 * groups, kernel, kernel], bias[out] or NULL. */
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/factor.h"
#include "libworker/graph/op/room.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

enum { IMAGE = 0, WEIGHT = 1, BIAS = 2 };

/* A call's sizes; elements of one sample. */
struct conv2d {
    struct kernel_windows windows; /* of a group */
    int64_t groups, out;           /* out: channels of the result in a group */
    int64_t places, length;        /* windows, and elements of each */
    int64_t image, result;
};

/* What a call has in its scratch memory: for one sample, the windows of one group. */
struct conv2d_room {
    float *rows, *image, *result;
    struct factor weight;
    uint8_t *rest; /* for factors that are converted again for each sample */
};

static int64_t places_along(const struct kernel_windows *w, int64_t size)
{
    return (size + 2 * w->padding - w->kernel) / w->stride + 1;
}

static struct conv2d conv2d_of(const struct op_call *call)
{
    const struct wk_conv_options *o = call->node->attributes;
    const struct op_tensor *x = &call->in[IMAGE], *weight = &call->in[WEIGHT];
    struct conv2d c = {
        .windows = {.channels = weight->shape[1],
                    .height = x->shape[2],
                    .width = x->shape[3],
                    .kernel = weight->shape[2],
                    .stride = o->stride,
                    .padding = o->padding},
        .groups = o->groups,
        .out = weight->shape[0] / o->groups,
        .length = weight->shape[1] * weight->shape[2] * weight->shape[3],
        .image = x->shape[1] * x->shape[2] * x->shape[3],
    };
    c.places = places_along(&c.windows, x->shape[2]) * places_along(&c.windows, x->shape[3]);
    c.result = weight->shape[0] * c.places;
    return c;
}

/* Windows, or a group's gradient, as a factor. */
static struct op_tensor floats(float *data, int64_t count)
{
    return (struct op_tensor){.data = data, .type = WK_F32, .count = count};
}

static size_t conv2d_scratch(const struct op_call *call, bool backward)
{
    struct conv2d c = conv2d_of(call);
    struct op_tensor rows = floats(NULL, c.places * c.length);
    struct op_tensor dout = floats(NULL, c.out * c.places);
    size_t bytes = room_rounded((size_t)rows.count * sizeof(float));
    bytes += room_rounded(op_factor_bytes(call, &call->in[WEIGHT]));
    bytes += room_rounded(op_factor_bytes(call, &rows));
    if (tensor_is_low(&call->in[IMAGE]))
        bytes += room_rounded((size_t)c.image * sizeof(float));
    if (backward)
        bytes += room_rounded(op_factor_bytes(call, &dout));
    else if (tensor_is_low(&call->out[0]))
        bytes += room_rounded((size_t)c.result * sizeof(float));
    return bytes;
}

static struct conv2d_room room_of(const struct op_call *call, const struct conv2d *c, bool backward)
{
    struct conv2d_room r = {.rest = call->scratch};
    r.rows = room_take(&r.rest, c->places * c->length, sizeof(float));
    if (tensor_is_low(&call->in[IMAGE]))
        r.image = room_take(&r.rest, c->image, sizeof(float));
    if (!backward && tensor_is_low(&call->out[0]))
        r.result = room_take(&r.rest, c->result, sizeof(float));
    r.weight = op_factor(call, &call->in[WEIGHT], c->length, &r.rest);
    return r;
}

/* The windows of a group of the sample's image, in the room. */
static struct factor windows_of(const struct op_call *call, const struct conv2d *c,
                                const struct conv2d_room *room, const float *image, uint8_t **rest)
{
    struct op_tensor rows = floats(room->rows, c->places * c->length);
    call->pass->kernels->windows_forward(&c->windows, room->rows, image);
    return op_factor(call, &rows, c->length, rest);
}

static void sample_forward(const struct op_call *call, const struct conv2d *c,
                           const struct conv2d_room *room, int64_t sample)
{
    const struct kernel_table *k = call->pass->kernels;
    const float *bias = call->in[BIAS].data;
    const float *image = tile_read(k, &call->in[IMAGE], sample * c->image, c->image, room->image);
    float *out = tile_target(&call->out[0], sample * c->result, room->result);
    for (int64_t g = 0; g < c->groups; g++) {
        uint8_t *rest = room->rest;
        struct factor rows = windows_of(call, c, room, image + g * (c->image / c->groups), &rest);
        float *to = out + g * c->out * c->places;
        for (int64_t o = 0; o < c->out; o++)
            k->fill(to + o * c->places, bias ? bias[g * c->out + o] : 0, (size_t)c->places);
        op_product(call, (int64_t[]){c->out, c->places, c->length},
                   factor_at(room->weight, g * c->out * c->length), factor_turned(rows),
                   (struct result){to, c->places, 1, NULL});
    }
    tile_store(k, &call->out[0], sample * c->result, c->result, out);
}

static void conv2d_forward(const struct op_call *call)
{
    struct conv2d c = conv2d_of(call);
    struct conv2d_room room = room_of(call, &c, false);
    for (int64_t s = 0; s < call->in[IMAGE].shape[0]; s++)
        sample_forward(call, &c, &room, s);
}

static void bias_backward(const struct op_call *call, const struct conv2d *c, const float *dout)
{
    float *dbias = call->d_in[BIAS].data;
    for (int64_t o = 0; dbias && o < c->groups * c->out; o++) {
        double sum = 0;
        for (int64_t i = 0; i < c->places; i++)
            sum += (double)dout[o * c->places + i];
        dbias[o] += (float)sum;
    }
}

/* One group of one sample. */
static void group_backward(const struct op_call *call, const struct conv2d *c,
                           const struct conv2d_room *room, int64_t sample, int64_t group)
{
    const struct kernel_table *k = call->pass->kernels;
    float *dweight = call->d_in[WEIGHT].data, *dx = call->d_in[IMAGE].data;
    int64_t part = c->image / c->groups, first = group * c->out;
    uint8_t *rest = room->rest;
    float *dout = (float *)call->d_out.data + sample * c->result + first * c->places;
    struct op_tensor slope = floats(dout, c->out * c->places);
    struct factor d = op_factor(call, &slope, c->places, &rest);
    if (dweight) {
        const float *image =
            tile_read(k, &call->in[IMAGE], sample * c->image + group * part, part, room->image);
        struct factor rows = windows_of(call, c, room, image, &rest);
        op_product(call, (int64_t[]){c->out, c->length, c->places}, d, rows,
                   (struct result){dweight + first * c->length, c->length, 1, NULL});
    }
    if (dx) {
        op_product(call, (int64_t[]){c->places, c->length, c->out}, factor_turned(d),
                   factor_at(room->weight, first * c->length),
                   (struct result){room->rows, c->length, 0, NULL});
        k->windows_backward(&c->windows, dx + sample * c->image + group * part, room->rows);
    }
}

static void conv2d_backward(const struct op_call *call)
{
    struct conv2d c = conv2d_of(call);
    struct conv2d_room room = room_of(call, &c, true);
    for (int i = 0; i < call->node->n_in; i++)
        tile_zero(call->pass->kernels, &call->d_in[i]);
    for (int64_t s = 0; s < call->in[IMAGE].shape[0]; s++) {
        bias_backward(call, &c, (const float *)call->d_out.data + s * c.result);
        for (int64_t g = 0; g < c.groups; g++)
            group_backward(call, &c, &room, s, g);
    }
}

static void conv2d_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    struct conv2d c = conv2d_of(call);
    double product = 2.0 * (double)call->out[0].count * (double)c.length;
    ret->flop = backward ? 2 * product : product;
    ret->bytes = cost_bytes(call, backward);
}

static int options_check(const struct op_signature *s, struct error *err)
{
    const struct wk_conv_options *o = s->attributes;
    const struct wk_tensor *x = s->in[IMAGE], *weight = s->in[WEIGHT];
    char text[TENSOR_TEXT_MAX], wanted[TENSOR_TEXT_MAX];
    if (o->stride < 1 || o->padding < 0 || o->groups < 1)
        return error_set(err, WK_EINVAL,
                         "stride %d, padding %d, groups %d; it takes 0 or more of each", o->stride,
                         o->padding, o->groups);
    if (!dim_is_fixed(x->shape[1]) || !dim_is_fixed(x->shape[2]) || !dim_is_fixed(x->shape[3]))
        return error_set(err, WK_EINVAL, "%s; channels, height and width are fixed",
                         tensor_text(x, text));
    if (x->shape[1].fixed % o->groups || weight->shape[0].fixed % o->groups ||
        weight->shape[1].fixed * o->groups != x->shape[1].fixed)
        return error_set(err, WK_EINVAL,
                         "%s with weight %s and %d groups; the weight is [out, channels / groups, "
                         "kernel, kernel], and groups divide both channels and out",
                         tensor_text(x, text), tensor_text(weight, wanted), o->groups);
    return 0;
}

static int conv2d_shape(struct op_signature *s, struct error *err)
{
    const struct wk_conv_options *o = s->attributes;
    const struct wk_tensor *x = s->in[IMAGE], *weight = s->in[WEIGHT];
    char text[TENSOR_TEXT_MAX];
    int rc = rule_values(s, err);
    for (int i = IMAGE; i <= WEIGHT && !rc; i++)
        rc = rule_dims(s, i, (int[]){4, 4}, err);
    if (!rc)
        rc = options_check(s, err);
    if (!rc)
        rc = rule_vector(s, BIAS, weight->shape[0], err);
    if (rc)
        return rc;
    int64_t kernel = weight->shape[2].fixed, padding = 2 * (int64_t)o->padding;
    if (!dim_is_fixed(weight->shape[2]) || !dim_equal(weight->shape[2], weight->shape[3]) ||
        kernel > x->shape[2].fixed + padding || kernel > x->shape[3].fixed + padding)
        return error_set(err, WK_EINVAL,
                         "weight %s; the kernel is square and fits into the image and its padding",
                         tensor_text(weight, text));
    s->out[0] = rule_output(x, 0);
    s->out[0].shape[1] = weight->shape[0];
    for (int i = 2; i < 4; i++)
        s->out[0].shape[i].fixed = (x->shape[i].fixed + padding - kernel) / o->stride + 1;
    return 0;
}

static const struct op_attribute conv2d_attributes[] = {
    OP_ATTRIBUTE(struct wk_conv_options, stride),
    OP_ATTRIBUTE(struct wk_conv_options, padding),
    OP_ATTRIBUTE(struct wk_conv_options, groups),
    {0},
};

const struct op_row op_conv2d = {
    .name = "conv2d",
    .attributes = conv2d_attributes,
    .result = RESULT_NARROW,
    .min_in = 2,
    .max_in = 3,
    .optional = OP_IN(BIAS),
    .cuts = OP_CUT_SAMPLES,
    .shape = conv2d_shape,
    .keeps = OP_IN(IMAGE) | OP_IN(WEIGHT),
    .differentiable = OP_IN(IMAGE) | OP_IN(WEIGHT) | OP_IN(BIAS),
    .factors = OP_IN(IMAGE) | OP_IN(WEIGHT),
    .scratch_bytes = conv2d_scratch,
    .cost = conv2d_cost,
    .forward = conv2d_forward,
    .backward = conv2d_backward,
};

struct wk_tensor *wk_op_conv2d(struct wk_tensor *x, struct wk_tensor *weight,
                               struct wk_tensor *bias, const struct wk_conv_options *options)
{
    struct wk_conv_options o = options ? *options : (struct wk_conv_options){0};
    o.stride = o.stride ? o.stride : 1;
    o.groups = o.groups ? o.groups : 1;
    return graph_add(&(struct node_request){.row = &op_conv2d,
                                            .attributes = &o,
                                            .attributes_bytes = sizeof(o),
                                            .n_in = 3,
                                            .in = {x, weight, bias}});
}
