/* What building a graph refuses: each wrong call leaves a sentence with the operation, the shapes
 * and what would fit. */
#include <criterion/criterion.h>
#include <string.h>

#include <worker/custom_op.h>
#include <worker/graph.h>

#include "libworker/graph/graph.h"

/* Inputs and a parameter of many shapes. */
struct parts {
    struct wk_graph *graph;
    struct wk_tensor *text, *row, *image, *index, *one, *kernel, *other;
};

static struct parts parts_new(struct wk_graph *other)
{
    struct wk_graph *g = wk_graph_new("refused");
    return (struct parts){
        .graph = g,
        .text = wk_graph_input(g, "text", WK_F32, WK_SHAPE(WK_SAMPLES, WK_LENGTH, 6)),
        .row = wk_graph_input(g, "row", WK_F32, WK_SHAPE(WK_SAMPLES, 5)),
        .image = wk_graph_input(g, "image", WK_F32, WK_SHAPE(WK_SAMPLES, 4, 3, 3)),
        .index = wk_graph_input(g, "index", WK_I32, WK_SHAPE(WK_SAMPLES, 2)),
        .one = wk_graph_input(g, "one", WK_I32, WK_SHAPE(WK_SAMPLES)),
        .kernel = wk_graph_param(g, "kernel", WK_SHAPE(6, 4, 3, 3), NULL),
        .other = wk_graph_input(other, "x", WK_F32, WK_SHAPE(WK_SAMPLES, 5)),
    };
}

#define POOL(...)                                                                                  \
    &(struct wk_pool_options)                                                                      \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define CONV(...)                                                                                  \
    &(struct wk_conv_options)                                                                      \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

#define ENTROPY(...)                                                                               \
    &(struct wk_cross_entropy_options)                                                             \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

#define TEN_BYTES "0123456789"
/* Fits a block, and no parameter in it. */
#define LONG_NAME                                                                                  \
    TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES TEN_BYTES

/* Call, and expect NULL with every one of these words in the sentence. */
#define REFUSES(call, ...)                                                                         \
    do {                                                                                           \
        struct wk_graph *other_ = wk_graph_new("other");                                           \
        struct parts p = parts_new(other_);                                                        \
        cr_assert_str_empty(wk_graph_error(p.graph));                                              \
        cr_expect_null(call, "%s", #call);                                                         \
        const char *const words[] = {__VA_ARGS__};                                                 \
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)                              \
            cr_expect_not_null(strstr(wk_graph_error(p.graph), words[i]), "%s: \"%s\" in \"%s\"",  \
                               #call, words[i], wk_graph_error(p.graph));                          \
        wk_graph_free(p.graph);                                                                    \
        wk_graph_free(other_);                                                                     \
    } while (0)

Test(graph_refusals, elements)
{
    REFUSES(wk_op_add(p.row, p.text), "add: ", "[samples, 5] f32", "[samples, length, 6] f32", "1");
    REFUSES(wk_op_multiply(p.row, p.index), "multiply: ", "[samples, 2] i32", "f32, bf16 and f16");
    REFUSES(wk_op_subtract(p.row, NULL), "subtract: ", "input 1 is NULL");
    REFUSES(wk_op_add(p.row, p.other), "add: ", "another graph");
    REFUSES(wk_op_gelu(p.index), "gelu: ", "i32");
    REFUSES(wk_op_relu(p.index), "relu: ", "i32");
    REFUSES(wk_op_leaky_relu(p.row, 0), "leaky_relu: ", "slope of 0", "above 0");
    REFUSES(wk_op_leaky_relu(p.index, 0.1), "leaky_relu: ", "i32");
    REFUSES(wk_op_scale(p.row, 1e300), "scale: ", "1e+300", "finite");
    REFUSES(wk_op_swiglu(p.row), "swiglu: ", "[samples, 5]", "even");
    REFUSES(wk_op_softmax(p.index), "softmax: ", "i32");
    REFUSES(wk_op_dropout(p.row, 1), "dropout: ", "less than 1");
    REFUSES(wk_op_dropout(p.kernel, 0.5), "dropout: ", "[6, 4, 3, 3]", "samples");
}

Test(graph_refusals, images)
{
    REFUSES(wk_op_conv2d(p.row, p.kernel, NULL, NULL), "conv2d: ", "[samples, 5]", "4 dimensions");
    REFUSES(wk_op_conv2d(p.image, NULL, NULL, NULL), "conv2d: ", "input 1 is NULL");
    REFUSES(wk_op_conv2d(p.image, p.kernel, p.row, NULL), "conv2d: ", "input 2", "[6]");
    REFUSES(wk_op_conv2d(p.image, p.kernel, NULL, CONV(.groups = 3)), "conv2d: ", "3 groups",
            "[samples, 4, 3, 3]", "channels / groups");
    REFUSES(wk_op_conv2d(p.image, p.kernel, NULL, CONV(.stride = -1)), "conv2d: ", "stride -1");
    REFUSES(wk_op_pool2d(p.image, POOL(.kind = WK_REDUCE_SUM, .kernel = 2)), "pool2d: ", "MEAN");
    REFUSES(wk_op_pool2d(p.image, POOL(.kind = (enum wk_reduce)9, .kernel = 2)), "pool2d: ", "9");
    REFUSES(wk_op_pool2d(p.image, POOL(.kind = WK_REDUCE_MAX, .kernel = 4)),
            "pool2d: ", "kernel, 4");
    REFUSES(wk_op_pool2d(p.image, POOL(.kind = WK_REDUCE_MAX, .kernel = 2, .padding = 2)),
            "pool2d: ", "padding 2", "half");
    REFUSES(wk_op_pool2d(p.image, NULL), "pool2d: ");
}

Test(graph_refusals, moves)
{
    REFUSES(wk_op_reshape(p.row, WK_SHAPE(WK_SAMPLES, 3)), "reshape: ", "[samples, 5] f32",
            "[samples, 3]", "same elements");
    REFUSES(wk_op_reshape(p.text, WK_SHAPE(WK_REST, WK_REST)), "reshape: ", "WK_REST", "one");
    REFUSES(wk_op_reshape(p.row, WK_SHAPE(WK_SAMPLES, 0)), "reshape: ", "dimension 1", "0");
    REFUSES(wk_op_transpose(p.row, WK_SHAPE(0, 0)), "transpose: ", "[samples, 5]", "once");
    REFUSES(wk_op_transpose(p.row, WK_SHAPE(0)), "transpose: ", "2 dimensions");
    REFUSES(wk_op_transpose(p.row, WK_SHAPE(1, 0, 2)), "transpose: ", "2 dimensions");
    REFUSES(wk_op_slice(p.text, 1, 0, 1), "slice: ", "dimension 1", "fixed");
    REFUSES(wk_op_slice(p.row, 1, 3, 3), "slice: ", "3 elements from 3", "[samples, 5]");
    REFUSES(wk_op_slice(p.row, 2, 0, 1), "slice: ", "dimension 2", "0 to 1");
    REFUSES(wk_op_concat((struct wk_tensor *[]){p.row, p.text}, 2, 1), "concat: ", "[samples, 5]",
            "[samples, length, 6]");
    REFUSES(wk_op_concat((struct wk_tensor *[]){p.row, p.index}, 2, 1), "concat: ", "i32");
    REFUSES(wk_op_concat((struct wk_tensor *[]){p.row, NULL}, 2, 1), "concat: ", "input 1 is NULL");
    REFUSES(wk_op_concat((struct wk_tensor *[]){p.row}, 9, 1), "concat: ", "9 inputs", "8");
    REFUSES(wk_op_gather_rows(p.text, p.index), "gather_rows: ", "fixed number of rows");
    REFUSES(wk_op_gather_rows(p.image, p.row), "gather_rows: ", "[samples, n] i32");
    REFUSES(wk_op_reduce(p.row, WK_REDUCE_SUM, 0), "reduce: ", "dimension 0", "counts samples");
    REFUSES(wk_op_reduce(p.row, (enum wk_reduce)7, 1), "reduce: ", "kind 7", "WK_REDUCE_SUM");
    REFUSES(wk_op_reduce(p.row, WK_REDUCE_SUM, -1), "reduce: ", "dimension -1");
}

static struct wk_tensor *rotated(struct wk_tensor *x, double theta, struct wk_rope_scaling scaling)
{
    return wk_op_rope(x, &(struct wk_rope_options){1, 6, theta, scaling});
}

#define SCALING(...) ((struct wk_rope_scaling){__VA_ARGS__})

Test(graph_refusals, rotary_positions)
{
    REFUSES(rotated(p.text, 1, SCALING(0)), "rope: ", "theta is 1", "above 1");
    REFUSES(rotated(p.text, 10, SCALING(.type = WK_ROPE_LINEAR)), "rope: ", "factor is 0");
    REFUSES(rotated(p.text, 10, SCALING(.type = WK_ROPE_LLAMA3, .factor = 2)),
            "rope: ", "original_context is 0");
    REFUSES(rotated(p.text, 10,
                    SCALING(.type = WK_ROPE_YARN, .factor = 2, .original_context = 8, .low = 2,
                            .high = 1)),
            "rope: ", "low is 2 and high 1");
    REFUSES(rotated(p.text, 10, SCALING(.type = WK_ROPE_YARN, .amplitude = -1)),
            "rope: ", "amplitude is -1");
    REFUSES(rotated(p.text, 10, SCALING(.type = (enum wk_rope_type)9)), "rope: ", "type is 9");
}

Test(graph_refusals, losses)
{
    REFUSES(wk_op_squared_error(p.row, p.text), "squared_error: ", "same shape", "[samples, 5]");
    REFUSES(wk_op_binary_cross_entropy(p.row, p.index), "binary_cross_entropy: ", "i32");
    REFUSES(wk_op_kl_divergence(p.row, p.text), "kl_divergence: ", "same shape");
    REFUSES(wk_op_kl_divergence(p.row, p.other), "kl_divergence: ", "another graph");
    REFUSES(wk_op_cross_entropy(p.row, p.one, ENTROPY(.smoothing = 1)), "cross_entropy: ", "is 1",
            "below 1");
    REFUSES(wk_op_cross_entropy(p.row, p.one, ENTROPY(.class_weights = (float[]){1, 1, -2, 1, 1})),
            "cross_entropy: ", "the weight of class 2 is -2");
    REFUSES(wk_op_cross_entropy(p.row, p.index, ENTROPY(.class_weights = (float[]){1, 1, 1, 1, 1})),
            "cross_entropy: ", "[samples, 2] i32", "[samples] i32");
}

static int never_called(struct wk_op_call *call)
{
    return wk_op_fail(call, "called");
}

static struct wk_tensor *custom(struct wk_tensor *x, struct wk_custom_op op)
{
    return wk_op_custom(&x, 1, &op);
}

static struct wk_tensor *custom_of_many(struct wk_tensor *x, struct wk_tensor *y, int n)
{
    struct wk_custom_op op = {.name = "own", .functions = {{"cpu", never_called, NULL}}};
    return wk_op_custom((struct wk_tensor *[9]){x, y}, n, &op);
}

#define ON(name)                                                                                   \
    {                                                                                              \
        name, never_called, never_called                                                           \
    }
#define CUSTOM(...) custom(p.row, (struct wk_custom_op){__VA_ARGS__})
/* One that fits, but for what is given. */
#define OWN(...)                                                                                   \
    CUSTOM(.name = "own", .functions = {ON("cpu")}, .result = {.like = p.row}, __VA_ARGS__)

Test(graph_refusals, operations_of_the_program)
{
    REFUSES(CUSTOM(.functions = {ON("cpu")}), "wk_op_custom: ", "a name has 1 to 95 bytes");
    REFUSES(CUSTOM(.name = "own"), "own: ", "no functions", "\"cpu\"");
    REFUSES(CUSTOM(.name = "own", .functions = {{"cpu", NULL, NULL}}), "own: ", "no forward",
            "cpu");
    REFUSES(CUSTOM(.name = "own", .functions = {ON("cpu"), ON("cpu")}), "own: ", "cpu twice");
    REFUSES(CUSTOM(.name = "own", .functions = {ON("cpu"), {"tpu", never_called, NULL}}),
            "own: ", "a backward function for the device cpu and none for tpu");
    REFUSES(CUSTOM(.name = "own", .functions = {ON("cpu")}, .result = {.shape = WK_SHAPE(5)}),
            "own: ", "[5] f32", "[samples, 5] f32", "counts the samples");
    REFUSES(CUSTOM(.name = "own", .functions = {ON("cpu")},
                   .result = {.shape = WK_SHAPE(WK_SAMPLES, 0)}),
            "own: ", "dimension 1 is 0");
    REFUSES(
        CUSTOM(.name = "own", .functions = {ON("cpu")}, .result = {.like = p.row, .type = WK_I32}),
        "own: ", "[samples, 5] i32", "results are f32");
    REFUSES(CUSTOM(.name = "own", .functions = {ON("cpu")}, .result = {.like = p.other}),
            "own: ", "another graph");
    REFUSES(OWN(.n_saved = 3), "own: ", "3 saved values", "0 to 2");
    REFUSES(OWN(.n_saved = 1, .saved = {{.type = (enum wk_dtype)99}}), "own: ", "type 99");
    REFUSES(OWN(.keeps = WK_OP_IN(1)), "own: ", "keeps is 0x2", "1 inputs");
    REFUSES(OWN(.keeps = WK_OP_OUT(1)), "own: ", "keeps", "0 saved");
    REFUSES(OWN(.constants = WK_OP_IN(1)), "own: ", "constants is 0x2");
    REFUSES(OWN(.as_kept = WK_OP_OUT(2)), "own: ", "as_kept");
    REFUSES(wk_op_custom(&p.row, 1, NULL), "wk_op_custom: ", "NULL");
    REFUSES(custom_of_many(p.row, NULL, 2), "own: ", "input 1 is NULL");
    REFUSES(custom_of_many(p.row, p.other, 2), "own: ", "input 1 is of another graph");
    REFUSES(custom_of_many(p.row, NULL, 9), "own: ", "9 inputs");
    REFUSES(wk_op_refuse(p.row, "mine: %d is odd", 3), "mine: 3 is odd");
    cr_expect_null(wk_op_custom((struct wk_tensor *[]){NULL}, 1, &(struct wk_custom_op){0}));
    cr_expect_null(wk_op_refuse(NULL, "nothing"));
}

/* Make a scope, then call. */
static struct wk_tensor *scoped(struct wk_graph *graph, const char *scope, struct wk_tensor *x)
{
    wk_graph_scope(graph, "%s", scope);
    return wk_layer_linear(x, "up", 3);
}

Test(graph_refusals, layers)
{
    struct wk_attention_options uneven = {.heads = 4}, none = {.heads = 0};
    REFUSES(wk_layer_conv2d(p.row, "c", 4, 3, NULL), "conv2d: ", "[samples, 5]", "4 dimensions");
    REFUSES(wk_layer_conv2d(p.text, "c", 4, 3, NULL), "layer c: ", "length, 6", "channels");
    REFUSES(wk_layer_conv2d(p.image, "c", 4, 0, NULL), "layer c: ", "kernel of 0", "above 0");
    REFUSES(wk_layer_conv2d(p.image, "c", 4, 3, CONV(.groups = 3)), "layer c: ", "3 groups");
    REFUSES(wk_layer_group_norm(p.image, "n", 3), "group_norm: ", "3 groups", "[samples, 4, 3, 3]");
    REFUSES(wk_layer_group_norm(p.text, "n", 3), "layer n: ", "channels");
    REFUSES(wk_layer_attention(p.text, "a", &uneven), "layer a: ", "4 heads", "width of 6");
    REFUSES(wk_layer_attention(p.text, "a", &none), "layer a: ", "0 heads");
    REFUSES(wk_layer_attention(p.text, "a", NULL), "layer a: ", "0 heads");
    REFUSES(wk_op_attention(p.text, NULL), "attention: ", "0 heads");
    REFUSES(scoped(p.graph, "", p.row), "wk_graph_scope: ", "1 to 95 bytes");
    REFUSES((scoped(p.graph, "a", p.row), scoped(p.graph, "a", p.row)), "two blocks named a");
    REFUSES(scoped(p.graph, LONG_NAME, p.row), "wk_graph_param: ", "1 to 95 bytes");
}

/* A call without a result. */
#define DONE(call) ((call), (struct wk_tensor *)NULL)

/* A buffer of 4 channels, or a norm that lacks or spoils one. */
static struct wk_tensor *channels_of(struct wk_graph *graph, const char *name)
{
    return wk_graph_buffer(graph, name, WK_SHAPE(4), 0);
}

static struct wk_tensor *normal(const struct parts *p, struct wk_tensor *mean, double momentum)
{
    struct wk_batch_norm norm = {
        .mean = mean, .variance = channels_of(p->graph, "variance"), .momentum = momentum};
    return wk_op_batch_norm(p->image, &norm);
}

Test(graph_refusals, buffers)
{
    REFUSES(wk_graph_buffer(p.graph, "", WK_SHAPE(2), 0), "wk_graph_buffer: ", "1 to 95 bytes");
    REFUSES(wk_graph_buffer(p.graph, "b", WK_SHAPE(WK_SAMPLES), 0), "buffer b: ", "fixed");
    REFUSES(wk_graph_buffer(p.graph, "b", (struct wk_shape){0}, 0), "buffer b: ", "one dimension");
    REFUSES(wk_graph_buffer(p.graph, "kernel", WK_SHAPE(2), 0), "parameter and a buffer",
            "named kernel");
    REFUSES((channels_of(p.graph, "b"), channels_of(p.graph, "b")), "two buffers named b");
    REFUSES(DONE(wk_graph_update(p.graph, NULL, p.row)), "wk_graph_update: buffer", "NULL");
    REFUSES(DONE(wk_graph_update(p.graph, p.kernel, p.row)), "[6, 4, 3, 3]", "not a buffer");
    REFUSES(DONE(wk_graph_update(p.graph, channels_of(p.graph, "b"), p.row)),
            "buffer b: ", "result of an operation");
    REFUSES(DONE(wk_graph_update(p.graph, channels_of(p.graph, "b"), wk_op_relu(p.row))),
            "buffer b: ", "[samples, 5]", "the buffer's shape");
}

Test(graph_refusals, a_buffer_is_updated_once)
{
    struct wk_graph *g = wk_graph_new("twice");
    struct wk_tensor *b = channels_of(g, "b");
    wk_graph_update(g, b, wk_op_scale(b, 0.5));
    cr_expect_str_empty(wk_graph_error(g));
    wk_graph_update(g, b, wk_op_scale(b, 0.5));
    cr_expect_str_eq(wk_graph_error(g), "buffer b is updated twice");
    wk_graph_free(g);
}

Test(graph_refusals, batches)
{
    struct wk_batch_norm far = {.channels = 4};
    REFUSES(wk_op_batch_norm(p.image, NULL), "batch_norm: ", "mean is a buffer");
    REFUSES(normal(&p, p.kernel, 0), "batch_norm: ", "mean is a buffer");
    REFUSES(normal(&p, wk_graph_buffer(p.graph, "b", WK_SHAPE(3), 0), 0), "batch_norm: ", "input 5",
            "[3]", "[4]");
    REFUSES(normal(&p, channels_of(p.graph, "b"), 2), "batch_norm_running: ", "momentum is 2");
    REFUSES(wk_layer_batch_norm(p.text, "n", NULL), "layer n: ", "length, 6", "channels");
    REFUSES(wk_layer_batch_norm(p.image, "n", &far), "layer n: ", "[samples, 4, 3, 3]");
    REFUSES(wk_op_all_reduce(p.kernel, "tp"), "all_reduce: ", "axis tp", "dp");
    REFUSES(wk_op_all_gather(p.index, NULL), "all_gather: ", "[samples, 2] i32", "f32");
    REFUSES(wk_graph_input(p.graph, "r", WK_F32, WK_SHAPE(WK_SAMPLES, WK_RANKS)),
            "input r: ", "WK_RANKS");
    REFUSES(wk_graph_param(p.graph, "r", WK_SHAPE(WK_RANKS), NULL), "parameter r: ", "fixed");
    REFUSES(wk_op_all_reduce(p.row, NULL), "all_reduce: ", "[samples, 5]", "fixed sizes");
}

Test(graph_refusals, a_scope_begins_names_until_the_next_block)
{
    struct wk_graph *g = wk_graph_new("scopes");
    struct wk_tensor *x = wk_graph_input(g, "x", WK_F32, WK_SHAPE(WK_SAMPLES, 3));
    for (int i = 0; i < 2; i++) {
        wk_graph_scope(g, "layer%d", i);
        x = wk_layer_linear(x, "up", 3);
    }
    wk_graph_block(g, "head");
    x = wk_layer_linear(x, "up", 3);
    wk_graph_loss(g, "loss", wk_op_squared_error(x, x), NULL);
    cr_assert_str_empty(wk_graph_error(g));
    static const char *const names[] = {"layer0.up.weight", "layer0.up.bias", "layer1.up.weight",
                                        "layer1.up.bias",   "up.weight",      "up.bias"};
    for (int i = 0; i < 6; i++)
        cr_expect_str_eq(g->params[i].tensor->name, names[i]);
    wk_graph_free(g);
}

Test(graph_refusals, only_the_first_sentence_stays)
{
    struct wk_graph *other = wk_graph_new("other");
    struct parts p = parts_new(other);
    cr_expect_null(wk_op_swiglu(p.row));
    char first[1024];
    strncpy(first, wk_graph_error(p.graph), sizeof(first) - 1);
    cr_expect_null(wk_op_add(p.row, p.text));
    cr_expect_null(wk_op_relu(p.row), "nothing is added after a failure");
    cr_expect_null(wk_op_relu(NULL));
    cr_expect_str_eq(wk_graph_error(p.graph), first);
    cr_expect_str_empty(wk_graph_error(other), "graphs are independent");
    wk_graph_free(p.graph);
    wk_graph_free(other);
}

#define LOSS(...) (wk_graph_loss(p.graph, "l", p.row, &(struct wk_loss){__VA_ARGS__}), (void *)NULL)

Test(graph_refusals, denominators)
{
    REFUSES(LOSS(.per = WK_PER_INPUT), "loss l: ", "WK_PER_INPUT needs an input");
    REFUSES(LOSS(.per = WK_PER_INPUT, .input = p.other), "loss l: ", "an input of this graph");
    REFUSES(LOSS(.per = WK_PER_INPUT, .input = p.kernel), "loss l: ", "an input of the batch");
    REFUSES(LOSS(.per = WK_PER_SAMPLE, .input = p.row), "loss l: ", "only with WK_PER_INPUT");
    REFUSES(LOSS(.per = (enum wk_per)9), "loss l: ", "9 is no denominator");
}

Test(graph_refusals, starts_of_documents)
{
    struct wk_attention_options attention = {.heads = 1};
    struct wk_rope_options rope = {.heads = 1, .size = 6, .theta = 100};
    REFUSES((attention.starts = p.row, wk_op_attention(p.text, &attention)),
            "attention: ", "row [samples, 5] f32", "[samples, length] i32");
    REFUSES((rope.starts = p.index, wk_op_rope(p.text, &rope)), "rope: ", "index [samples, 2] i32");
    REFUSES(wk_op_positions(p.row, p.index), "positions: ", "row [samples, 5] f32", "a parameter");
    REFUSES(wk_op_positions(p.kernel, p.index), "positions: ", "kernel", "2 dimensions");
}
