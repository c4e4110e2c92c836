#include "tests/numeric/train/masked.h"

#include <math.h>

#include <worker/nn.h>

enum { SAMPLES = 64, LENGTH = MASKED_LENGTH, MASK = 15, VOCAB = 16, WIDTH = 16, HEADS = 2 };

/* Share of a sample's positions that count: of some none, of others nearly all. */
static double share_of(int64_t sample)
{
    return sample % 5 == 0 ? 0 : (double)(sample % 7 + 1) / 8;
}

static void draw_position(int64_t sample, int i, bool hides, void *const *fields)
{
    uint64_t key = wk_noise_key(9, 0, sample);
    int32_t token = (int32_t)((sample + i * (1 + sample % 2)) % MASK);
    bool counts = wk_noise(key, (uint64_t)i) < share_of(sample);
    ((int32_t *)fields[0])[i] = counts && hides ? MASK : token;
    ((int32_t *)fields[1])[i] = counts ? (hides ? token : (token + 1) % MASK) : WK_IGNORED;
    ((float *)fields[2])[i] = counts ? (float)wk_noise(key, (uint64_t)(LENGTH + i)) : 0;
    ((float *)fields[3])[i] = sinf((float)token);
}

static int draw(void *arg, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields)
{
    const bool *hides = arg;
    (void)epoch;
    (void)seed;
    for (int i = 0; i < LENGTH; i++)
        draw_position(sample, i, hides != NULL, fields);
    return 0;
}

static int64_t length_of(void *arg, int64_t sample)
{
    (void)arg;
    return 1 + sample * 5 % LENGTH;
}

static int draw_short(void *arg, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields)
{
    (void)arg;
    (void)epoch;
    (void)seed;
    for (int i = 0; i < length_of(NULL, sample); i++)
        draw_position(sample, i, false, fields);
    return 0;
}

static const struct wk_field fields[] = {{"tokens", WK_I32, 1, {LENGTH}, true, 0},
                                         {"targets", WK_I32, 1, {LENGTH}, true, 0},
                                         {"weights", WK_F32, 1, {LENGTH}, true, 0},
                                         {"values", WK_F32, 1, {LENGTH}, true, 0}};
static bool hides = true;
static const struct wk_row_options text = {SAMPLES, fields, 4, draw, NULL, NULL, NULL};
static const struct wk_row_options hidden = {SAMPLES, fields, 4, draw, &hides, NULL, NULL};
static const struct wk_row_options lengths = {SAMPLES, fields, 4,        draw_short,
                                              NULL,    NULL,   length_of};

static struct wk_tensor *input(struct wk_graph *g, const char *name, enum wk_dtype type)
{
    return wk_graph_input(g, name, type, WK_SHAPE(WK_SAMPLES, WK_LENGTH));
}

/* Keys have no bias (graphs.c says why). */
static struct wk_tensor *trunk(struct wk_graph *g, bool full)
{
    struct wk_attention_options attention = {.heads = HEADS, .full = full};
    const struct wk_param spread = {.init = WK_INIT_NORMAL, .scale = 0.5};
    wk_graph_block(g, "embedding");
    struct wk_tensor *x = wk_layer_embedding(input(g, "tokens", WK_I32), "token", VOCAB, WIDTH);
    struct wk_tensor *position = wk_graph_param(g, "position", WK_SHAPE(LENGTH, WIDTH), &spread);
    x = wk_op_add(x, wk_op_prefix(position));
    wk_graph_scope(g, "layer");
    struct wk_linear_weights qkv = {
        .weight = {wk_graph_param(g, "qkv.weight", WK_SHAPE(WIDTH, 3 * WIDTH), NULL)}};
    struct wk_tensor *y =
        wk_op_attention(wk_op_linear(wk_layer_norm(x, "norm1"), &qkv), &attention);
    x = wk_op_add(x, wk_layer_linear(y, "out", WIDTH));
    y = wk_op_gelu(wk_layer_linear(wk_layer_norm(x, "norm2"), "up", 2 * WIDTH));
    x = wk_op_add(x, wk_layer_linear(y, "down", WIDTH));
    wk_graph_block(g, "head");
    return wk_layer_norm(x, "norm");
}

static void tokens_loss(struct wk_graph *g, struct wk_tensor *x)
{
    x = wk_layer_linear(x, "head", VOCAB);
    wk_graph_loss(g, "tokens", wk_op_cross_entropy(x, input(g, "targets", WK_I32), NULL), NULL);
}

static struct wk_tensor *error_of(struct wk_graph *g, struct wk_tensor *x)
{
    struct wk_shape shape = WK_SHAPE(WK_SAMPLES, WK_LENGTH);
    x = wk_op_reshape(wk_layer_linear(x, "value", 1), shape);
    return wk_op_squared_error(x, input(g, "values", WK_F32));
}

static struct wk_graph *decoder(void)
{
    struct wk_graph *g = wk_graph_new("decoder");
    tokens_loss(g, trunk(g, false));
    return g;
}

static struct wk_graph *encoder(void)
{
    struct wk_graph *g = wk_graph_new("encoder");
    tokens_loss(g, trunk(g, true));
    return g;
}

static struct wk_graph *three(void)
{
    struct wk_graph *g = wk_graph_new("three");
    struct wk_tensor *x = trunk(g, false), *weights = input(g, "weights", WK_F32);
    tokens_loss(g, x);
    struct wk_tensor *error = error_of(g, x);
    wk_graph_loss(g, "weighted", wk_op_multiply(error, weights),
                  &(struct wk_loss){.weight = 0.7, .per = WK_PER_INPUT, .input = weights});
    wk_graph_loss(g, "all", error, &(struct wk_loss){.weight = 0.2, .per = WK_PER_ELEMENT});
    return g;
}

struct wk_graph *masked_per_element(void)
{
    struct wk_graph *g = wk_graph_new("per_element");
    wk_graph_loss(g, "all", error_of(g, trunk(g, false)), &(struct wk_loss){.per = WK_PER_ELEMENT});
    return g;
}

const struct masked_kind masked_kinds[MASKED_KINDS] = {
    {"decoder", decoder, &text},
    {"decoder of lengths", decoder, &lengths},
    {"encoder", encoder, &hidden},
    {"three losses", three, &text},
};

void masked_fill(struct masked_batch *ret, int64_t first, int64_t count)
{
    for (int64_t s = 0; s < count; s++) {
        void *at[] = {ret->tokens + s * LENGTH, ret->targets + s * LENGTH,
                      ret->weights + s * LENGTH, ret->values + s * LENGTH};
        draw(NULL, first + s, 0, 0, at);
    }
    ret->tensors[0] = (struct wk_batch_tensor){"weights", ret->weights, WK_F32, LENGTH};
    ret->tensors[1] = (struct wk_batch_tensor){"values", ret->values, WK_F32, LENGTH};
    ret->batch = (struct wk_batch){.tokens = ret->tokens,
                                   .targets = ret->targets,
                                   .samples = count,
                                   .length = LENGTH,
                                   .tensors = ret->tensors,
                                   .n_tensors = 2};
}
