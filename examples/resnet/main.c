/* A small residual network (He et al. 2016) with group norm learns images of digits. It
 * augments them itself: in every epoch they are moved and covered in another way. The same program
 * runs alone and as `muster run -N 2 -- build/examples/resnet`.
 */
#include <stdio.h>

#include <worker/worker.h>

#include "examples/flags/flags.h"
#include "examples/images/accuracy.h"
#include "examples/images/digits.h"

enum { TRAINED = 4096, TESTED = 512, GROUPS = 4, SHIFT_MAX = 2, COVER = 5 };

/* Augmentation: the image moved, with a square of it covered. All follows from the arguments. */
static int draw(void *digits, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields)
{
    float image[DIGITS_PIXELS], *out = fields[0];
    uint64_t key = wk_noise_key(seed, epoch, sample);
    int right = (int)(wk_noise(key, 0) * (2 * SHIFT_MAX + 1)) - SHIFT_MAX;
    int down = (int)(wk_noise(key, 1) * (2 * SHIFT_MAX + 1)) - SHIFT_MAX;
    int left = (int)(wk_noise(key, 2) * DIGITS_SIDE), top = (int)(wk_noise(key, 3) * DIGITS_SIDE);
    int rc = digits_read(digits, sample, epoch, seed, (void *const[]){image, fields[1]});
    for (int y = 0; y < DIGITS_SIDE; y++) {
        for (int x = 0; x < DIGITS_SIDE; x++) {
            int from_y = y - down, from_x = x - right;
            bool inside =
                from_y >= 0 && from_y < DIGITS_SIDE && from_x >= 0 && from_x < DIGITS_SIDE;
            bool covered = x >= left && x < left + COVER && y >= top && y < top + COVER;
            out[y * DIGITS_SIDE + x] =
                inside && !covered ? image[from_y * DIGITS_SIDE + from_x] : 0;
        }
    }
    return rc;
}

/* A convolution of kernel 3, its norm. */
static struct wk_tensor *conv_norm(struct wk_tensor *x, const char *conv, const char *norm,
                                   int64_t out, int stride)
{
    struct wk_conv_options options = {.stride = stride, .padding = 1};
    return wk_layer_group_norm(wk_layer_conv2d(x, conv, out, 3, &options), norm, GROUPS);
}

/* Two convolutions, and the way around them; where the size changes, by a kernel of 1. */
static struct wk_tensor *residual(struct wk_tensor *x, int64_t out, int stride)
{
    struct wk_tensor *y = wk_op_relu(conv_norm(x, "conv1", "norm1", out, stride));
    y = conv_norm(y, "conv2", "norm2", out, 1);
    if (wk_tensor_shape(x).size[1] != out)
        x = wk_layer_conv2d(x, "around", out, 1, &(struct wk_conv_options){.stride = stride});
    return wk_op_relu(wk_op_add(x, y));
}

static struct wk_graph *resnet(void)
{
    static const int64_t widths[] = {8, 16, 32};
    struct wk_graph *g = wk_graph_new("resnet");
    struct wk_tensor *label = wk_graph_input(g, "label", WK_I32, WK_SHAPE(WK_SAMPLES));
    struct wk_tensor *x =
        wk_graph_input(g, "pixels", WK_F32, WK_SHAPE(WK_SAMPLES, 1, DIGITS_SIDE, DIGITS_SIDE));
    wk_graph_block(g, "stem");
    x = wk_op_relu(conv_norm(x, "conv", "norm", widths[0], 1));
    for (int i = 0; i < 3; i++) {
        wk_graph_scope(g, "layer%d", i);
        x = residual(x, widths[i], i ? 2 : 1);
    }
    wk_graph_block(g, "head");
    x = wk_op_reduce(wk_op_reduce(x, WK_REDUCE_MEAN, 3), WK_REDUCE_MEAN, 2);
    x = wk_layer_linear(x, "head", DIGITS_KINDS);
    wk_graph_output(g, "logits", x);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, label, NULL), NULL);
    return g;
}

int main(int argc, char **argv)
{
    struct flags flags = {.steps = "150", .batch = 64, .rate = 3e-3};
    if (flags_parse(argc, argv, &flags))
        return WK_EXIT_CONFIG;
    struct digits seen = {.set = 1}, unseen = {.set = 2};
    struct wk_row_options train = {TRAINED, digits_fields, DIGITS_FIELDS, draw, &seen};
    struct wk_row_options test = {TESTED, digits_fields, DIGITS_FIELDS, digits_read, &unseen};
    struct wk_setting settings[] = {{"total_steps", flags.steps}, {"log_every", "25"}};
    struct wk_context *ctx = wk_begin(&(struct wk_options){.settings = settings, .n_settings = 2});
    struct wk_loader *loader =
        wk_rows_in(ctx, &train, &(struct wk_loader_options){.batch = flags.batch});
    struct wk_loader *held_out = wk_rows_in(
        ctx, &test, &(struct wk_loader_options){.batch = 64, .epochs = 1, .evaluation = true});
    struct wk_model *model = wk_graph_in(ctx, resnet());
    struct wk_optimizer *optimizer =
        wk_optimizer_in(ctx, &(struct wk_optimizer_options){.rate = flags.rate});
    for (struct wk_batch batch; wk_next(loader, &batch);) {
        wk_forward(model, &batch, NULL);
        wk_backward(model);
        wk_step(optimizer);
    }
    double accuracy = images_accuracy(ctx, model, held_out);
    if (!wk_status(ctx))
        wk_print(ctx, stdout, "done: %lld steps, loss %.4f, accuracy %.3f, %d ranks\n",
                 (long long)wk_steps(ctx), wk_loss(ctx), accuracy, wk_world(ctx));
    return wk_finish(ctx);
}
