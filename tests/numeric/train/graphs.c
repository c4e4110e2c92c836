#include "tests/numeric/train/graphs.h"

#include <worker/custom_op.h>
#include <worker/nn.h>

#include "tests/docs/prelu.h"

enum { SAMPLES = 64, SIDE = 8, PIXELS = SIDE * SIDE, PATCH = 2, KINDS = PATCH * PATCH };
enum { LENGTH = 12, MASK = 15, VOCAB = 16 };
enum { WIDTH = 16, HEADS = 2, LAYERS = 2, CHANNELS = 8, GROUPS = 4 };
enum { PATCHES = PIXELS / (PATCH * PATCH) };

/* An image of kind k is bright at pixel k of each patch. */
static int draw_image(void *arg, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields)
{
    uint64_t key = wk_noise_key(seed, epoch, sample);
    float *pixels = fields[0];
    int32_t kind = (int32_t)(sample % KINDS);
    (void)arg;
    for (int i = 0; i < PIXELS; i++) {
        int place = i / SIDE % PATCH * PATCH + i % PATCH;
        pixels[i] = (float)(wk_noise(key, (uint64_t)i) - 0.5 + (place == kind));
    }
    *(int32_t *)fields[1] = kind;
    return 0;
}

/* Tokens count up by a step; some are hidden, more of them in one sample than in another. */
static int draw_text(void *arg, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields)
{
    uint64_t key = wk_noise_key(seed, epoch, sample);
    int32_t *tokens = fields[0], *targets = fields[1];
    double share = 0.1 + 0.3 * wk_noise(key, LENGTH);
    (void)arg;
    for (int i = 0; i < LENGTH; i++) {
        int32_t token = (int32_t)((sample + i * (1 + sample % 2)) % MASK);
        bool hides = wk_noise(key, (uint64_t)i) < share;
        tokens[i] = hides ? MASK : token;
        targets[i] = hides ? token : WK_IGNORED;
    }
    return 0;
}

static const struct wk_field image_fields[] = {{"pixels", WK_F32, 3, {1, SIDE, SIDE}, false, 0},
                                               {"label", WK_I32, 0, {0}, false, 0}};
static const struct wk_field text_fields[] = {{"tokens", WK_I32, 1, {LENGTH}, false, 0},
                                              {"targets", WK_I32, 1, {LENGTH}, false, 0}};
static const struct wk_row_options images = {
    .count = SAMPLES, .fields = image_fields, .n_fields = 2, .read = draw_image};
static const struct wk_row_options text = {
    .count = SAMPLES, .fields = text_fields, .n_fields = 2, .read = draw_text};

static struct wk_tensor *pixels_of(struct wk_graph *g)
{
    return wk_graph_input(g, "pixels", WK_F32, WK_SHAPE(WK_SAMPLES, 1, SIDE, SIDE));
}

static struct wk_tensor *label_of(struct wk_graph *g)
{
    return wk_graph_input(g, "label", WK_I32, WK_SHAPE(WK_SAMPLES));
}

/* Keys have no bias: softmax takes away what all keys have, so its gradient would be rounding
 * alone, of which Adam makes whole steps. */
static struct wk_tensor *encoder_layer(struct wk_graph *g, struct wk_tensor *x)
{
    struct wk_attention_options all = {.heads = HEADS, .full = true};
    struct wk_linear_weights qkv = {
        .weight = {wk_graph_param(g, "qkv.weight", WK_SHAPE(WIDTH, 3 * WIDTH), NULL)}};
    struct wk_tensor *y = wk_op_linear(wk_layer_norm(x, "norm1"), &qkv);
    x = wk_op_add(x, wk_layer_linear(wk_op_attention(y, &all), "out", WIDTH));
    y = wk_layer_linear(wk_layer_norm(x, "norm2"), "up", 2 * WIDTH);
    return wk_op_add(x, wk_layer_linear(wk_op_gelu_erf(y), "down", WIDTH));
}

static struct wk_tensor *encoder(struct wk_graph *g, struct wk_tensor *x)
{
    for (int i = 0; i < LAYERS; i++) {
        wk_graph_scope(g, "layer%d", i);
        x = encoder_layer(g, x);
    }
    wk_graph_block(g, "head");
    return x;
}

static const struct wk_param spread = {.init = WK_INIT_NORMAL, .scale = 0.5}; /* of positions */

static struct wk_graph *vit(void)
{
    struct wk_graph *g = wk_graph_new("vit");
    struct wk_conv_options apart = {.stride = PATCH};
    wk_graph_block(g, "patches");
    struct wk_tensor *x = wk_layer_conv2d(pixels_of(g), "patch", WIDTH, PATCH, &apart);
    x = wk_op_transpose(wk_op_reshape(x, WK_SHAPE(WK_SAMPLES, WIDTH, PATCHES)), WK_SHAPE(0, 2, 1));
    x = wk_op_add(x, wk_graph_param(g, "position", WK_SHAPE(PATCHES, WIDTH), &spread));
    x = wk_layer_linear(wk_op_reduce(encoder(g, x), WK_REDUCE_MEAN, 1), "head", KINDS);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, label_of(g), NULL), NULL);
    return g;
}

static struct wk_graph *bert(void)
{
    struct wk_graph *g = wk_graph_new("bert");
    struct wk_shape shape = WK_SHAPE(WK_SAMPLES, WK_LENGTH);
    struct wk_tensor *tokens = wk_graph_input(g, "tokens", WK_I32, shape);
    struct wk_tensor *targets = wk_graph_input(g, "targets", WK_I32, shape);
    wk_graph_block(g, "embedding");
    struct wk_tensor *x = wk_layer_embedding(tokens, "token", VOCAB, WIDTH);
    struct wk_tensor *position = wk_graph_param(g, "position", WK_SHAPE(LENGTH, WIDTH), &spread);
    x = encoder(g, wk_op_add(x, wk_op_prefix(position)));
    x = wk_layer_linear(wk_layer_norm(x, "norm"), "head", VOCAB);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, targets, NULL), NULL);
    return g;
}

static struct wk_tensor *conv_norm(struct wk_tensor *x, const char *conv, const char *norm)
{
    x = wk_layer_conv2d(x, conv, CHANNELS, 3, &(struct wk_conv_options){.padding = 1});
    return wk_layer_group_norm(x, norm, GROUPS);
}

/* Means are pooled: the place of a largest value, to which its gradient goes, changes with rounding
 * to narrow values, and the training with it by any amount. */
static struct wk_graph *kind_of(struct wk_graph *g, struct wk_tensor *x)
{
    x = wk_op_pool2d(x, &(struct wk_pool_options){.kind = WK_REDUCE_MEAN, .kernel = SIDE / 4});
    x = wk_layer_linear(wk_op_reshape(x, WK_SHAPE(WK_SAMPLES, WK_REST)), "head", KINDS);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, label_of(g), NULL), NULL);
    return g;
}

static struct wk_graph *residual(void)
{
    struct wk_graph *g = wk_graph_new("residual");
    wk_graph_block(g, "stem");
    struct wk_tensor *x = wk_op_relu(conv_norm(pixels_of(g), "conv", "norm"));
    wk_graph_block(g, "layer");
    struct wk_tensor *y = wk_op_relu(conv_norm(x, "conv1", "norm1"));
    x = wk_op_relu(wk_op_add(x, conv_norm(y, "conv2", "norm2")));
    wk_graph_block(g, "head");
    return kind_of(g, x);
}

/* With an operation of the program's own, which has parameters. */
static struct wk_graph *own_operation(void)
{
    struct wk_graph *g = wk_graph_new("own_operation");
    struct wk_param quarter = {.init = WK_INIT_UNIFORM, .scale = 0.25};
    struct wk_tensor *x = wk_op_reshape(pixels_of(g), WK_SHAPE(WK_SAMPLES, PIXELS));
    for (int i = 0; i < LAYERS; i++) {
        wk_graph_scope(g, "layer%d", i);
        x = wk_layer_linear(x, "linear", WIDTH);
        x = prelu(x, wk_graph_param(g, "slope", WK_SHAPE(WIDTH), &quarter));
    }
    wk_graph_block(g, "head");
    x = wk_layer_linear(x, "head", KINDS);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, label_of(g), NULL), NULL);
    return g;
}

/* The convolution has no bias: the norm takes it away, as softmax does that of keys. */
static struct wk_tensor *conv_batch_norm(struct wk_graph *g, struct wk_tensor *x,
                                         const char *const names[2])
{
    const struct wk_param weights = {.init = WK_INIT_NORMAL, .scale = 0.3};
    int64_t in = wk_tensor_shape(x).size[1];
    struct wk_tensor *kernel = wk_graph_param(g, names[0], WK_SHAPE(CHANNELS, in, 3, 3), &weights);
    x = wk_op_conv2d(x, kernel, NULL, &(struct wk_conv_options){.padding = 1});
    return wk_layer_batch_norm(x, names[1], &(struct wk_batch_norm){.synchronised = true});
}

static struct wk_graph *batch_norm(void)
{
    struct wk_graph *g = wk_graph_new("batch_norm");
    wk_graph_block(g, "stem");
    struct wk_tensor *x =
        wk_op_relu(conv_batch_norm(g, pixels_of(g), (const char *[]){"conv", "norm"}));
    wk_graph_block(g, "layer");
    struct wk_tensor *y = wk_op_relu(conv_batch_norm(g, x, (const char *[]){"conv1", "norm1"}));
    x = wk_op_relu(wk_op_add(x, conv_batch_norm(g, y, (const char *[]){"conv2", "norm2"})));
    wk_graph_block(g, "head");
    x = wk_op_pool2d(x, &(struct wk_pool_options){.kind = WK_REDUCE_MAX, .kernel = SIDE / 2});
    x = wk_layer_linear(wk_op_reshape(x, WK_SHAPE(WK_SAMPLES, WK_REST)), "head", KINDS);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, label_of(g), NULL), NULL);
    return g;
}

/* The stem and the layer's first half are frozen; the rest is trained on what they compute. */
static struct wk_graph *tuned(void)
{
    struct wk_graph *g = wk_graph_new("tuned");
    wk_graph_block(g, "stem");
    wk_graph_freeze(g, true);
    struct wk_tensor *x = wk_op_relu(conv_norm(pixels_of(g), "conv", "norm"));
    wk_graph_block(g, "layer");
    struct wk_tensor *y =
        wk_layer_conv2d(x, "conv1", CHANNELS, 3, &(struct wk_conv_options){.padding = 1});
    wk_graph_freeze(g, false);
    y = conv_norm(wk_op_relu(y), "conv2", "norm2");
    x = wk_op_relu(wk_op_add(x, y));
    wk_graph_block(g, "head");
    return kind_of(g, x);
}

/* The frozen head begins with a product that a block before it trains, too. */
static struct wk_graph *shared(void)
{
    struct wk_graph *g = wk_graph_new("shared");
    struct wk_tensor *x = wk_op_reshape(pixels_of(g), WK_SHAPE(WK_SAMPLES, PIXELS));
    wk_graph_block(g, "first");
    x = wk_op_tanh(wk_layer_linear(x, "first", WIDTH));
    wk_graph_block(g, "layer");
    struct wk_linear_weights twice = {
        .weight = {wk_graph_param(g, "twice", WK_SHAPE(WIDTH, WIDTH), &spread)}};
    x = wk_op_tanh(wk_op_linear(x, &twice));
    wk_graph_block(g, "head");
    wk_graph_freeze(g, true);
    x = wk_layer_linear(wk_op_tanh(wk_op_linear(x, &twice)), "head", KINDS);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, label_of(g), NULL), NULL);
    return g;
}

/* What an image shows, with weights of its kinds, and the image again from a few numbers. */
static struct wk_graph *two_losses(void)
{
    struct wk_graph *g = wk_graph_new("two_losses");
    struct wk_tensor *pixels = wk_op_reshape(pixels_of(g), WK_SHAPE(WK_SAMPLES, PIXELS));
    wk_graph_block(g, "trunk");
    struct wk_tensor *x = wk_op_tanh(wk_layer_linear(pixels, "trunk", WIDTH));
    wk_graph_block(g, "kind");
    struct wk_tensor *kind = wk_layer_linear(x, "kind", KINDS);
    wk_graph_block(g, "again");
    struct wk_tensor *again = wk_layer_linear(x, "again", PIXELS);
    static const float weights[KINDS] = {0.75f, 1, 1, 1.25f};
    struct wk_cross_entropy_options options = {.class_weights = weights};
    wk_graph_loss(g, "kind", wk_op_cross_entropy(kind, label_of(g), &options), NULL);
    wk_graph_loss(g, "again", wk_op_squared_error(again, pixels),
                  &(struct wk_loss){.weight = 0.5, .per = WK_PER_ELEMENT});
    return g;
}

const struct graph_kind graph_kinds[GRAPH_KINDS] = {
    {"vit", vit, &images},
    {"bert", bert, &text},
    {"residual", residual, &images},
    {"two losses", two_losses, &images},
    {"own operation", own_operation, &images},
    [GRAPH_BATCH_NORM] = {"batch norm", batch_norm, &images},
    [GRAPH_TUNED] = {"tuned", tuned, &images},
    [GRAPH_SHARED] = {"shared", shared, &images},
};
