/* conv2d on a GPU: windows side by side, then one product for all groups (kernels/windows.h). As
 * many samples at once as WINDOWS_MAX elements of windows allow, at least one. A weight's gradient
 * is summed within what is multiplied at once first. */
#include "libworker/cuda/kernels/windows.h"
#include "libworker/cuda/op.h"
#include "libworker/cuda/products.h"
#include "libworker/graph/op/conv2d.h"

enum { IMAGE = CONV2D_IMAGE, WEIGHT = CONV2D_WEIGHT, BIAS = CONV2D_BIAS };
enum { WINDOWS_MAX = 1 << 24 };

/* A call's sizes. */
struct conv2d {
    struct image_windows windows; /* of all samples */
    int64_t groups, out,
        length; /* out: channels of a group's result; length: elements of windows */
    int64_t at_once;
};

/* Scratch memory for the samples that are multiplied at once. */
struct conv2d_room {
    void *windows; /* [channels * kernel^2, samples * places], in the compute type */
    void *slopes;  /* backward: [channels of the result, samples * places], likewise */
    float *sums;   /* of products: forward like slopes, backward like windows */
};

static struct conv2d conv2d_of(const struct op_call *call)
{
    const struct conv2d_sizes sizes = conv2d_sizes(call);
    struct conv2d c = {
        .windows = {.samples = sizes.samples,
                    .channels = sizes.groups * sizes.channels,
                    .height = sizes.height,
                    .width = sizes.width,
                    .kernel = sizes.kernel,
                    .stride = sizes.stride,
                    .padding = sizes.padding,
                    .across = sizes.across,
                    .places = sizes.down * sizes.across},
        .groups = sizes.groups,
        .out = sizes.out,
        .length = sizes.length,
    };
    c.at_once = conv2d_at_once(&sizes, c.groups * c.length * c.windows.places, WINDOWS_MAX);
    return c;
}

static size_t workspace_of(const struct conv2d *c, bool backward)
{
    int64_t columns = c->at_once * c->windows.places;
    size_t rows = lt_workspace_bytes(c->out, columns, c->groups);
    size_t windows = lt_workspace_bytes(c->length, columns, c->groups);
    size_t weight = lt_workspace_bytes(c->out, c->length, c->groups);
    if (!backward)
        return rows;
    return windows > weight ? windows : weight;
}

static struct conv2d_room room_of(struct products *products, const struct conv2d *c, bool backward)
{
    enum wk_dtype compute = products->call->compute;
    int64_t windows = c->groups * c->length * c->at_once * c->windows.places;
    int64_t rows = c->groups * c->out * c->at_once * c->windows.places;
    struct conv2d_room room = {.windows = products_take(products, compute, windows)};
    if (backward)
        room.slopes = products_take(products, compute, rows);
    room.sums = products_take(products, WK_F32, backward ? windows : rows);
    return room;
}

static size_t scratch_bytes(const struct op_call *call, bool backward)
{
    struct conv2d c = conv2d_of(call);
    int64_t windows = c.groups * c.length * c.at_once * c.windows.places;
    int64_t rows = c.groups * c.out * c.at_once * c.windows.places;
    size_t bytes = products_workspace_bytes(workspace_of(&c, backward)) +
                   products_taken(call->compute, windows) +
                   products_factor_bytes(call, &call->in[WEIGHT]) +
                   products_taken(WK_F32, backward ? windows : rows);
    return bytes + (backward ? products_taken(call->compute, rows) : 0);
}

/* `samples` of a tensor from `first` on. */
static struct typed_array part_of(const struct op_tensor *x, int64_t first)
{
    int64_t each = x->count / x->shape[0], size = (int64_t)wk_dtype_bytes(x->type);
    return (struct typed_array){(char *)x->data + first * each * size, x->type};
}

static int64_t samples_from(const struct conv2d *c, int64_t first)
{
    int64_t left = c->windows.samples - first;
    return left < c->at_once ? left : c->at_once;
}

static void part_forward(struct products *products, const struct conv2d *c,
                         const struct conv2d_room *room, const void *weight, int64_t first)
{
    const struct op_call *call = products->call;
    struct image_windows windows = c->windows;
    windows.samples = samples_from(c, first);
    int64_t columns = windows.samples * windows.places;
    windows_gather(&windows, (struct typed_array){room->windows, call->compute},
                   part_of(&call->in[IMAGE], first), products->queue->stream);
    products_run(products, (struct lt_product){
                               .m = c->out,
                               .n = columns,
                               .k = c->length,
                               .batch = c->groups,
                               .result = WK_F32,
                               .a = {weight, c->length, c->out * c->length, false},
                               .b = {room->windows, columns, c->length * columns, false},
                               .d = room->sums,
                               .d_stride = columns,
                               .d_each = c->out * columns,
                           });
    struct planes planes = {windows.samples, c->groups * c->out, windows.places};
    planes_from_rows(&planes, part_of(&call->out[0], first), room->sums, call->in[BIAS].data,
                     products->queue->stream);
    products_check(products, "conv2d");
}

static void conv2d_forward(const struct op_call *call, struct cuda_queue *queue)
{
    struct conv2d c = conv2d_of(call);
    struct products products = products_begin(call, queue, workspace_of(&c, false));
    struct conv2d_room room = room_of(&products, &c, false);
    if (c.windows.samples == 0)
        return;
    const void *weight = products_factor(&products, &call->in[WEIGHT]);
    for (int64_t first = 0; first < c.windows.samples; first += c.at_once)
        part_forward(&products, &c, &room, weight, first);
}

/* dweight = slopes windows^T, for each group. */
static void weight_backward(struct products *products, const struct conv2d *c,
                            const struct conv2d_room *room, const struct image_windows *part,
                            bool add)
{
    const struct op_call *call = products->call;
    int64_t columns = part->samples * part->places;
    products_run(products, (struct lt_product){
                               .m = c->out,
                               .n = c->length,
                               .k = columns,
                               .batch = c->groups,
                               .result = WK_F32,
                               .a = {room->slopes, columns, c->out * columns, false},
                               .b = {room->windows, columns, c->length * columns, true},
                               .d = call->d_in[WEIGHT].data,
                               .d_stride = c->length,
                               .d_each = c->out * c->length,
                               .beta = add ? 1 : 0,
                           });
}

/* Windows' gradients = weight^T slopes, for each group. */
static void windows_backward(struct products *products, const struct conv2d *c,
                             const struct conv2d_room *room, const struct image_windows *part,
                             const void *weight)
{
    int64_t columns = part->samples * part->places;
    products_run(products, (struct lt_product){
                               .m = c->length,
                               .n = columns,
                               .k = c->out,
                               .batch = c->groups,
                               .result = WK_F32,
                               .a = {weight, c->length, c->out * c->length, true},
                               .b = {room->slopes, columns, c->out * columns, false},
                               .d = room->sums,
                               .d_stride = columns,
                               .d_each = c->length * columns,
                           });
}

static void part_backward(struct products *products, const struct conv2d *c,
                          const struct conv2d_room *room, const void *weight, int64_t first)
{
    const struct op_call *call = products->call;
    const struct op_tensor *dx = &call->d_in[IMAGE], *dweight = &call->d_in[WEIGHT];
    cudaStream_t stream = products->queue->stream;
    struct image_windows part = c->windows;
    part.samples = samples_from(c, first);
    struct planes planes = {part.samples, c->groups * c->out, part.places};
    rows_from_planes(&planes, (struct typed_array){room->slopes, call->compute},
                     part_of(&call->d_out, first).at, stream);
    if (dweight->data) {
        windows_gather(&part, (struct typed_array){room->windows, call->compute},
                       part_of(&call->in[IMAGE], first), stream);
        weight_backward(products, c, room, &part, first > 0 || dweight->add);
    }
    if (dx->data) {
        windows_backward(products, c, room, &part, weight);
        windows_sum(&part, (float *)(uintptr_t)part_of(dx, first).at, room->sums, dx->add, stream);
    }
    products_check(products, "conv2d's gradients");
}

/* A batch without samples: sums of nothing. */
static void clear_unless_added(struct cuda_queue *queue, const struct op_tensor *d)
{
    if (d->data && !d->add)
        (void)cuda_check(
            queue, cudaMemsetAsync(d->data, 0, (size_t)d->count * sizeof(float), queue->stream),
            "clear a gradient");
}

static void conv2d_backward(const struct op_call *call, struct cuda_queue *queue)
{
    const struct op_tensor *dbias = &call->d_in[BIAS];
    struct conv2d c = conv2d_of(call);
    struct products products = products_begin(call, queue, workspace_of(&c, true));
    struct conv2d_room room = room_of(&products, &c, true);
    struct planes planes = {c.windows.samples, c.groups * c.out, c.windows.places};
    if (dbias->data)
        planes_sum(&planes, dbias->data, call->d_out.data, dbias->add, queue->stream);
    if (c.windows.samples == 0) {
        clear_unless_added(queue, &call->d_in[WEIGHT]);
        return;
    }
    const void *weight =
        call->d_in[IMAGE].data ? products_factor(&products, &call->in[WEIGHT]) : NULL;
    for (int64_t first = 0; first < c.windows.samples; first += c.at_once)
        part_backward(&products, &c, &room, weight, first);
}

const struct cuda_op cuda_op_conv2d = {
    .name = "conv2d",
    .forward = conv2d_forward,
    .backward = conv2d_backward,
    .scratch_bytes = scratch_bytes,
};
