/* Two-dimensional convolution as products: windows of images side by side (im2col), a group of
 * channels at a time, several samples at once where images are small. Inputs: x[samples, channels,
 * height, width], weight[out, channels / groups, kernel, kernel], bias[out] or NULL.
 *
 * Order of sums: an element of the result and of x's gradient is its sample's alone, whatever is
 * multiplied at once. Gradients of weights are summed within what is multiplied at once first. */
#include "libworker/graph/op/conv2d.h"
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/factor.h"
#include "libworker/graph/op/room.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

enum { IMAGE = CONV2D_IMAGE, WEIGHT = CONV2D_WEIGHT, BIAS = CONV2D_BIAS };
enum { WINDOWS_MAX = 1 << 18 }; /* elements at once, if that is a sample or more: 1 MiB of floats */

/* A call's sizes; elements of one sample. */
struct conv2d {
    struct kernel_windows windows; /* of a group */
    int64_t groups, out;           /* out: channels of the result in a group */
    int64_t places, length;        /* windows, and elements of each */
    int64_t image, result;         /* of a group */
    int64_t at_once;               /* samples */
};

/* What a call has in its scratch memory, for a group of `at_once` samples. */
struct conv2d_room {
    float *windows; /* [length, samples, places] */
    float *result;  /* [out, samples, places]; or its gradient */
    float *image, *part;
    struct factor weight;
    uint8_t *rest; /* for factors that are converted again each time */
};

/* The samples that are multiplied at once, and the group. */
struct conv2d_part {
    int64_t first, samples, group;
};

static struct conv2d conv2d_of(const struct op_call *call)
{
    const struct conv2d_sizes sizes = conv2d_sizes(call);
    struct conv2d c = {
        .windows = {.channels = sizes.channels,
                    .height = sizes.height,
                    .width = sizes.width,
                    .kernel = sizes.kernel,
                    .stride = sizes.stride,
                    .padding = sizes.padding},
        .groups = sizes.groups,
        .out = sizes.out,
        .places = sizes.down * sizes.across,
        .length = sizes.length,
        .image = sizes.channels * sizes.height * sizes.width,
    };
    c.result = c.out * c.places;
    c.at_once = conv2d_at_once(&sizes, c.places * c.length, WINDOWS_MAX);
    return c;
}

/* What is computed in the scratch memory, as a factor. */
static struct op_tensor floats(float *data, int64_t count)
{
    return (struct op_tensor){.data = data, .type = WK_F32, .count = count};
}

/* Floats of the scratch memory's parts; 0 where values are used in place. */
struct conv2d_needs {
    int64_t windows, result, image, part;
};

static struct conv2d_needs needs_of(const struct op_call *call, const struct conv2d *c,
                                    bool backward)
{
    bool low = !backward && tensor_is_low(&call->out[0]), several = c->at_once > 1;
    return (struct conv2d_needs){
        .windows = c->length * c->at_once * c->places,
        .result = several || low ? c->out * c->at_once * c->places : 0,
        .image = tensor_is_low(&call->in[IMAGE]) ? c->image : 0,
        .part = several && low ? c->result : 0,
    };
}

static size_t conv2d_scratch(const struct op_call *call, bool backward)
{
    struct conv2d c = conv2d_of(call);
    struct conv2d_needs needs = needs_of(call, &c, backward);
    struct op_tensor windows = floats(NULL, needs.windows);
    struct op_tensor result = floats(NULL, c.out * c.at_once * c.places);
    size_t bytes = room_rounded((size_t)needs.windows * sizeof(float)) +
                   room_rounded((size_t)needs.result * sizeof(float)) +
                   room_rounded((size_t)needs.image * sizeof(float)) +
                   room_rounded((size_t)needs.part * sizeof(float)) +
                   op_factor_input_bytes(call, WEIGHT, backward) + op_factor_bytes(call, &windows);
    return backward ? bytes + op_factor_bytes(call, &result) : bytes;
}

static struct conv2d_room room_of(const struct op_call *call, const struct conv2d *c, bool backward)
{
    struct conv2d_needs needs = needs_of(call, c, backward);
    struct conv2d_room r = {.rest = call->scratch};
    r.windows = room_take(&r.rest, needs.windows, sizeof(float));
    r.result = room_take(&r.rest, needs.result, sizeof(float));
    r.image = room_take(&r.rest, needs.image, sizeof(float));
    r.part = room_take(&r.rest, needs.part, sizeof(float));
    if (!backward || call->d_in[IMAGE].data)
        r.weight = op_factor(call, &call->in[WEIGHT], c->length, &r.rest);
    return r;
}

/* Elements before a group of a sample, where a group has `each`. */
static int64_t before(const struct conv2d *c, const struct conv2d_part *p, int64_t sample,
                      int64_t each)
{
    return ((p->first + sample) * c->groups + p->group) * each;
}

static struct kernel_windows kernel_of(const struct conv2d *c, const struct conv2d_part *p)
{
    struct kernel_windows windows = c->windows;
    windows.ld = p->samples * c->places;
    return windows;
}

/* The windows of all images of the part, as a factor [length, samples * places]. */
static struct factor windows_of(const struct op_call *call, const struct conv2d *c,
                                const struct conv2d_room *room, const struct conv2d_part *p,
                                uint8_t **rest)
{
    const struct kernel_table *k = call->pass->kernels;
    const struct kernel_windows windows = kernel_of(c, p);
    struct op_tensor all = floats(room->windows, c->length * windows.ld);
    for (int64_t s = 0; s < p->samples; s++) {
        const float *image =
            tile_read(k, &call->in[IMAGE], before(c, p, s, c->image), c->image, room->image);
        k->windows_forward(&windows, room->windows + s * c->places, image);
    }
    return op_factor(call, &all, windows.ld, rest);
}

/* One sample's channels; rows of both are `to_row` and `from_row` apart. */
static void channels_copy(const struct conv2d *c, float *to, int64_t to_row, const float *from,
                          int64_t from_row)
{
    for (int64_t o = 0; o < c->out; o++)
        memcpy(to + o * to_row, from + o * from_row, (size_t)c->places * sizeof(*to));
}

static void part_forward(const struct op_call *call, const struct conv2d *c,
                         const struct conv2d_room *room, const struct conv2d_part *p)
{
    const struct kernel_table *k = call->pass->kernels;
    const float *bias = call->in[BIAS].data;
    const struct op_tensor *out = &call->out[0];
    int64_t columns = p->samples * c->places;
    uint8_t *rest = room->rest;
    struct factor windows = windows_of(call, c, room, p, &rest);
    float *result =
        p->samples > 1 ? room->result : tile_target(out, before(c, p, 0, c->result), room->result);
    for (int64_t o = 0; o < c->out; o++)
        k->fill(result + o * columns, bias ? bias[p->group * c->out + o] : 0, (size_t)columns);
    op_product(call, (int64_t[]){c->out, columns, c->length},
               factor_at(room->weight, p->group * c->out * c->length), windows,
               (struct result){result, columns, 1, NULL});
    for (int64_t s = 0; s < p->samples; s++) {
        int64_t at = before(c, p, s, c->result);
        float *to = p->samples > 1 ? tile_target(out, at, room->part) : result;
        if (p->samples > 1)
            channels_copy(c, to, c->places, result + s * c->places, columns);
        tile_store(k, out, at, c->result, to);
    }
}

/* The gradient of the part's result [out, samples * places]. */
static float *part_gradient(const struct op_call *call, const struct conv2d *c,
                            const struct conv2d_room *room, const struct conv2d_part *p)
{
    float *dout = call->d_out.data;
    if (p->samples == 1)
        return dout + before(c, p, 0, c->result);
    for (int64_t s = 0; s < p->samples; s++)
        channels_copy(c, room->result + s * c->places, p->samples * c->places,
                      dout + before(c, p, s, c->result), c->places);
    return room->result;
}

static void part_backward(const struct op_call *call, const struct conv2d *c,
                          const struct conv2d_room *room, const struct conv2d_part *p)
{
    const struct kernel_table *k = call->pass->kernels;
    const struct kernel_windows windows = kernel_of(c, p);
    float *dweight = call->d_in[WEIGHT].data, *dx = call->d_in[IMAGE].data;
    int64_t first = p->group * c->out * c->length;
    uint8_t *rest = room->rest;
    struct op_tensor slope = floats(part_gradient(call, c, room, p), c->out * windows.ld);
    struct factor d = op_factor(call, &slope, windows.ld, &rest);
    if (dweight)
        op_product(call, (int64_t[]){c->out, c->length, windows.ld}, d,
                   factor_turned(windows_of(call, c, room, p, &rest)),
                   (struct result){dweight + first, c->length, 1, NULL});
    if (dx)
        op_product(call, (int64_t[]){c->length, windows.ld, c->out},
                   factor_turned(factor_at(room->weight, first)), d,
                   (struct result){room->windows, windows.ld, 0, NULL});
    for (int64_t s = 0; dx && s < p->samples; s++)
        k->windows_backward(&windows, dx + before(c, p, s, c->image),
                            room->windows + s * c->places);
}

typedef void part_fn(const struct op_call *call, const struct conv2d *c,
                     const struct conv2d_room *room, const struct conv2d_part *part);

static void each_part(const struct op_call *call, const struct conv2d *c,
                      const struct conv2d_room *room, part_fn *visit)
{
    int64_t samples = call->in[IMAGE].shape[0];
    for (int64_t s = 0; s < samples; s += c->at_once) {
        struct conv2d_part part = {.first = s, .samples = samples - s};
        part.samples = part.samples < c->at_once ? part.samples : c->at_once;
        for (part.group = 0; part.group < c->groups; part.group++)
            visit(call, c, room, &part);
    }
}

static void conv2d_forward(const struct op_call *call)
{
    struct conv2d c = conv2d_of(call);
    struct conv2d_room room = room_of(call, &c, false);
    each_part(call, &c, &room, part_forward);
}

/* Sample by sample, each in double. */
static void bias_backward(const struct op_call *call, const struct conv2d *c)
{
    const float *dout = call->d_out.data;
    float *dbias = call->d_in[BIAS].data;
    int64_t channels = c->groups * c->out;
    for (int64_t o = 0; dbias && o < call->d_out.shape[0] * channels; o++) {
        double sum = 0;
        for (int64_t i = 0; i < c->places; i++)
            sum += (double)dout[o * c->places + i];
        dbias[o % channels] += (float)sum;
    }
}

static void conv2d_backward(const struct op_call *call)
{
    struct conv2d c = conv2d_of(call);
    for (int i = 0; i < call->node->n_in; i++)
        tile_zero(call->pass->kernels, &call->d_in[i]);
    bias_backward(call, &c);
    struct conv2d_room room = room_of(call, &c, true);
    each_part(call, &c, &room, part_backward);
}

static unsigned conv2d_keeps(const struct node *node)
{
    return op_product_keeps(node, IMAGE, WEIGHT);
}

/* A product forward; backward, one for each gradient. */
static void conv2d_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    struct conv2d c = conv2d_of(call);
    double product = 2.0 * (double)call->out[0].count * (double)c.length;
    double products = backward ? 0 : 1;
    for (int i = IMAGE; i <= WEIGHT && backward; i++)
        products += call->node->in[i]->trains ? 1 : 0;
    ret->flop = products * product;
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
    .keeps_of = conv2d_keeps,
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
