/* Packed documents are computed as each of them alone: losses, gradients, whatever stands beside
 * them; with rotary positions and with learned ones. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <worker/graph.h>
#include <worker/nn.h>

#include "libworker/nn/model.h"
#include "tests/lib/rounding.h"

enum { LENGTH = 40, VOCAB = 11, WIDTH = 16, HEADS = 2, SIZE = WIDTH / HEADS, DOCUMENTS = 5 };
static const int documents[DOCUMENTS] = {7, 1, 13, 9, 10}; /* lengths */

/* Roundings behind a loss: two layers of products, norms and attention over up to LENGTH. */
static const double ROUNDINGS = 2 * (9.0 * WIDTH + 3 * LENGTH) + 2 * WIDTH;

static struct wk_tensor *layer(struct wk_graph *g, struct wk_tensor *x, struct wk_tensor *starts,
                               bool full)
{
    struct wk_attention_options attention = {.heads = HEADS, .full = full, .starts = starts};
    struct wk_rope_options rope = {
        .heads = 2 * HEADS, .size = SIZE, .theta = 100, .starts = starts};
    struct wk_tensor *y = wk_layer_linear(wk_layer_norm(x, "norm1"), "qkv", 3 * WIDTH);
    y = wk_op_attention(wk_op_rope(y, &rope), &attention);
    x = wk_op_add(x, wk_layer_linear(y, "out", WIDTH));
    (void)g;
    y = wk_op_gelu(wk_layer_linear(wk_layer_norm(x, "norm2"), "up", 2 * WIDTH));
    return wk_op_add(x, wk_layer_linear(y, "down", WIDTH));
}

static struct wk_model *model_of(bool full, bool learned, enum wk_dtype type)
{
    struct wk_graph *g = wk_graph_new("packed");
    struct wk_shape text = WK_SHAPE(WK_SAMPLES, WK_LENGTH);
    struct wk_tensor *tokens = wk_graph_input(g, "tokens", WK_I32, text);
    struct wk_tensor *targets = wk_graph_input(g, "targets", WK_I32, text);
    struct wk_tensor *starts = wk_graph_input(g, "starts", type, text);
    struct wk_param spread = {.init = WK_INIT_NORMAL, .scale = 0.5};
    struct wk_model *model;
    wk_graph_max_length(g, LENGTH);
    struct wk_tensor *x = wk_layer_embedding(tokens, "token", VOCAB, WIDTH);
    struct wk_tensor *table = wk_graph_param(g, "position", WK_SHAPE(LENGTH, WIDTH), &spread);
    x = learned ? wk_op_add(x, wk_op_positions(table, starts)) : wk_op_add(x, wk_op_prefix(table));
    for (int i = 0; i < 2; i++) {
        wk_graph_scope(g, "layer%d", i);
        x = layer(g, x, starts, full);
    }
    wk_graph_block(g, "head");
    x = wk_layer_linear(wk_layer_norm(x, "norm"), "head", VOCAB);
    wk_graph_output(g, "logits", x);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, targets, NULL), NULL);
    cr_assert_eq(wk_graph_model(g, &model), 0);
    return model;
}

struct bound {
    struct wk_model *model;
    float *params, *grads;
};

static struct bound bind(struct wk_model *model)
{
    struct bound b = {model, malloc(model->count * sizeof(float)),
                      calloc(model->count, sizeof(float))};
    wk_model_init(model, 3);
    cr_assert_eq(model_bind(model, b.params, b.grads), 0);
    return b;
}

static void unbind(struct bound *b)
{
    wk_model_free(b->model);
    free(b->params);
    free(b->grads);
}

static int32_t token_at(int document, int i)
{
    return (document * 5 + i * i + i) % VOCAB;
}

/* The loss of each position, and the gradient of their sum. */
static void pass(struct bound *b, const struct wk_batch *batch, float *ret_losses)
{
    struct wk_outputs outputs = {.losses = ret_losses};
    double loss;
    struct error err = {0};
    cr_assert_eq(model_evaluate(b->model, batch, &loss, &outputs, &err), 0, "%s", err.text);
    cr_assert_eq(model_forward(b->model, batch, &loss, NULL), 0);
    cr_assert_eq(model_backward(b->model, 1, NULL), 0);
}

/* All documents in one sample, or each in a sample of its own without starts. */
static void compute(struct bound *b, bool packed, enum wk_dtype type, float *ret_losses)
{
    int32_t tokens[LENGTH], targets[LENGTH], starts[LENGTH];
    int64_t wide[LENGTH];
    int at = 0;
    for (int d = 0; d < DOCUMENTS; d++) {
        int begin = at;
        for (int i = 0; i < documents[d]; i++, at++) {
            tokens[at] = token_at(d, i);
            targets[at] = i + 1 < documents[d] ? token_at(d, i + 1) : WK_IGNORED;
            starts[at] = begin;
            wide[at] = begin;
        }
        struct wk_batch alone = {.tokens = tokens + begin,
                                 .targets = targets + begin,
                                 .samples = 1,
                                 .length = documents[d],
                                 .denominator = 1};
        if (!packed)
            pass(b, &alone, ret_losses + begin);
    }
    struct wk_batch_tensor tensor = {"starts", starts, type, 0};
    if (type == WK_I64)
        tensor.data = wide;
    struct wk_batch whole = {.tokens = tokens,
                             .targets = targets,
                             .samples = 1,
                             .length = LENGTH,
                             .denominator = 1,
                             .tensors = &tensor,
                             .n_tensors = 1};
    if (packed)
        pass(b, &whole, ret_losses);
}

static double largest(const float *x, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

static void expect_alike(bool full, bool learned, enum wk_dtype type)
{
    float packed_losses[LENGTH], alone_losses[LENGTH];
    struct bound packed = bind(model_of(full, learned, type));
    struct bound alone = bind(model_of(full, learned, type));
    compute(&packed, true, type, packed_losses);
    compute(&alone, false, type, alone_losses);
    double most = largest(alone_losses, LENGTH);
    for (int i = 0; i < LENGTH; i++)
        cr_expect(
            fabs((double)(packed_losses[i] - alone_losses[i])) < rounding_bound(ROUNDINGS) * most,
            "position %d: %.9g and %.9g", i, (double)packed_losses[i], (double)alone_losses[i]);
    for (int p = 0; p < packed.model->n_params; p++) {
        const struct param *param = &packed.model->params[p];
        const float *a = packed.grads + param->offset, *b = alone.grads + param->offset;
        double size = largest(b, param->count);
        for (size_t i = 0; i < param->count; i++)
            cr_expect(fabs((double)(a[i] - b[i])) <= rounding_bound(4 * ROUNDINGS) * size,
                      "%s[%zu]: %.9g and %.9g", param->name, i, (double)a[i], (double)b[i]);
    }
    unbind(&packed);
    unbind(&alone);
}

Test(graph_packed, documents_are_computed_as_alone)
{
    expect_alike(false, true, WK_I32);
    expect_alike(true, true, WK_I32);
    expect_alike(false, true, WK_I64);
}

/* Without starts for positions, those are of the sample: another result, so that the test above is
 * not empty. */
Test(graph_packed, positions_of_the_sample_are_others)
{
    float with[LENGTH], without[LENGTH];
    struct bound a = bind(model_of(false, true, WK_I32)), b = bind(model_of(false, false, WK_I32));
    compute(&a, true, WK_I32, with);
    compute(&b, true, WK_I32, without);
    double most = 0;
    for (int i = 0; i < LENGTH; i++)
        most = fmax(most, fabs((double)(with[i] - without[i])));
    cr_expect_gt(most, 1e-2);
    unbind(&a);
    unbind(&b);
}

Test(graph_packed, starts_that_are_none_are_refused)
{
    struct bound b = bind(model_of(false, true, WK_I32));
    int32_t tokens[LENGTH] = {0}, targets[LENGTH] = {0};
    static const int32_t wrong[][4] = {
        {0, 0, 1, 1}, {0, 2, 2, 2}, {0, 1, 0, 0}, {-1, 0, 0, 0}, {1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct wk_batch_tensor tensor = {"starts", wrong[i], WK_I32, 4};
        struct wk_batch batch = {.tokens = tokens,
                                 .targets = targets,
                                 .samples = 1,
                                 .length = 4,
                                 .tensors = &tensor,
                                 .n_tensors = 1};
        struct error err = {0};
        double loss;
        cr_expect_eq(model_forward(b.model, &batch, &loss, &err), WK_EINVAL, "case %zu", i);
        cr_expect(strstr(err.text, "input starts: "), "%s", err.text);
    }
    unbind(&b);
}
