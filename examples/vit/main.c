/* A vision transformer (Dosovitskiy et al. 2021) learns images of digits: patches by a convolution,
 * positions that are learned, attention from every patch to all. The same program runs alone and as
 * `muster run -N 2 -- build/examples/vit`.
 */
#include <stdio.h>

#include <worker/worker.h>

#include "examples/flags/flags.h"
#include "examples/images/accuracy.h"
#include "examples/images/digits.h"

enum { TRAINED = 4096, TESTED = 512 };
enum { PATCH = 4, PATCHES = (DIGITS_SIDE / PATCH) * (DIGITS_SIDE / PATCH) };
enum { LAYERS = 3, HEADS = 4, WIDTH = 48, INNER = 4 * WIDTH };

/* pixels[samples, 1, side, side] -> [samples, PATCHES, WIDTH], each patch with its position. */
static struct wk_tensor *patches(struct wk_graph *g, struct wk_tensor *pixels)
{
    struct wk_conv_options apart = {.stride = PATCH};
    struct wk_tensor *x = wk_layer_conv2d(pixels, "patch", WIDTH, PATCH, &apart);
    x = wk_op_reshape(x, WK_SHAPE(WK_SAMPLES, WIDTH, PATCHES));
    x = wk_op_transpose(x, WK_SHAPE(0, 2, 1));
    struct wk_param like_patches = {.init = WK_INIT_NORMAL, .scale = 0.2};
    return wk_op_add(x, wk_graph_param(g, "position", WK_SHAPE(PATCHES, WIDTH), &like_patches));
}

static struct wk_tensor *layer(struct wk_tensor *x)
{
    struct wk_attention_options all = {.heads = HEADS, .full = true};
    struct wk_tensor *y = wk_layer_norm(x, "norm1");
    x = wk_op_add(x, wk_layer_attention(y, "attention", &all));
    y = wk_layer_norm(x, "norm2");
    y = wk_op_gelu_erf(wk_layer_linear(y, "up", INNER));
    return wk_op_add(x, wk_layer_linear(y, "down", WIDTH));
}

static struct wk_graph *vit(void)
{
    struct wk_graph *g = wk_graph_new("vit");
    struct wk_tensor *label = wk_graph_input(g, "label", WK_I32, WK_SHAPE(WK_SAMPLES));
    struct wk_tensor *x =
        wk_graph_input(g, "pixels", WK_F32, WK_SHAPE(WK_SAMPLES, 1, DIGITS_SIDE, DIGITS_SIDE));
    wk_graph_block(g, "patches");
    x = patches(g, x);
    for (int i = 0; i < LAYERS; i++) {
        wk_graph_scope(g, "layer%d", i);
        x = layer(x);
    }
    wk_graph_block(g, "head");
    x = wk_op_reduce(wk_layer_norm(x, "norm"), WK_REDUCE_MEAN, 1);
    x = wk_layer_linear(x, "head", DIGITS_KINDS);
    wk_graph_output(g, "logits", x);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, label, NULL), NULL);
    return g;
}

int main(int argc, char **argv)
{
    struct flags flags = {.steps = "300", .batch = 64, .rate = 2e-3};
    if (flags_parse(argc, argv, &flags))
        return WK_EXIT_CONFIG;
    struct digits seen = {.set = 1, .augment = true}, unseen = {.set = 2};
    struct wk_row_options train = {TRAINED, digits_fields, DIGITS_FIELDS, digits_read, &seen};
    struct wk_row_options test = {TESTED, digits_fields, DIGITS_FIELDS, digits_read, &unseen};
    struct wk_setting settings[] = {{"total_steps", flags.steps}, {"log_every", "50"}};
    struct wk_context *ctx = wk_begin(&(struct wk_options){.settings = settings, .n_settings = 2});
    struct wk_loader *loader =
        wk_rows_in(ctx, &train, &(struct wk_loader_options){.batch = flags.batch});
    struct wk_loader *held_out = wk_rows_in(
        ctx, &test, &(struct wk_loader_options){.batch = 64, .epochs = 1, .evaluation = true});
    struct wk_model *model = wk_graph_in(ctx, vit());
    struct wk_optimizer *optimizer =
        wk_optimizer_in(ctx, &(struct wk_optimizer_options){.rate = flags.rate});
    for (struct wk_batch batch; wk_next(loader, &batch);) {
        wk_forward(model, &batch, NULL);
        wk_backward(model);
        wk_clip_grad_norm(model, 1, NULL);
        wk_step(optimizer);
    }
    double accuracy = images_accuracy(ctx, model, held_out);
    if (!wk_status(ctx))
        wk_print(ctx, stdout, "done: %lld steps, loss %.4f, accuracy %.3f, %d ranks\n",
                 (long long)wk_steps(ctx), wk_loss(ctx), accuracy, wk_world(ctx));
    return wk_finish(ctx);
}
