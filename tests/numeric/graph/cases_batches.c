/* Operations over the samples of a batch. */
#include <math.h>

#include "tests/numeric/graph/harness.h"

enum { X, SUMS, SQUARES, WEIGHT, BIAS, MEAN, VARIANCE };

/* option: dimension of the channels, whether there are weight and bias. number: epsilon. */
static struct wk_tensor *result_of(const struct op_case *c, struct wk_tensor *const *in)
{
    struct wk_graph *graph = in[0]->graph;
    struct wk_shape shape = WK_SHAPE(wk_tensor_shape(in[0]).size[c->option[0]]);
    struct wk_batch_norm norm = {.channels = c->option[0],
                                 .epsilon = c->number,
                                 .momentum = 0.25,
                                 .mean = wk_graph_buffer(graph, "mean", shape, 0),
                                 .variance = wk_graph_buffer(graph, "variance", shape, 1)};
    if (c->option[1]) {
        norm.weight = wk_graph_param(graph, "weight", shape, NULL);
        norm.bias = wk_graph_param(graph, "bias", shape, NULL);
    }
    return wk_op_batch_norm(in[0], &norm);
}

static struct wk_tensor *sums(const struct op_case *c, struct wk_tensor *const *in)
{
    return result_of(c, in)->node->in[SUMS];
}

static struct wk_tensor *squares(const struct op_case *c, struct wk_tensor *const *in)
{
    return result_of(c, in)->node->in[SQUARES];
}

/* option[2]: of the variance. */
static struct wk_tensor *running(const struct op_case *c, struct wk_tensor *const *in)
{
    struct wk_tensor *result = result_of(c, in);
    return result->graph->buffers[c->option[2]].next;
}

static struct wk_tensor *all_reduce(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return wk_op_all_reduce(in[0], "dp");
}

static struct wk_tensor *all_gather(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return wk_op_all_gather(in[0], NULL);
}

static int64_t channels_of(const struct reference *r)
{
    return r->call->in[X].shape[r->c->option[0]];
}

static int64_t channel_at(const struct reference *r, int64_t i)
{
    const struct op_tensor *x = &r->call->in[X];
    int64_t inner = 1;
    for (int k = r->c->option[0] + 1; k < x->dims; k++)
        inner *= x->shape[k];
    return i / inner % channels_of(r);
}

static void sums_reference(const struct reference *r)
{
    for (int64_t i = 0; i < r->call->in[X].count; i++)
        r->out[channel_at(r, i)] += r->in[X][i];
    r->out[channels_of(r)] = (double)(r->call->in[X].count / channels_of(r));
}

static double mean_of(const struct reference *r, int64_t c)
{
    return r->in[SUMS][c] / r->in[SUMS][channels_of(r)];
}

static void squares_reference(const struct reference *r)
{
    for (int64_t i = 0; i < r->call->in[X].count; i++) {
        int64_t c = channel_at(r, i);
        r->out[c] += pow(r->in[X][i] - mean_of(r, c), 2);
    }
}

static void norm_reference(const struct reference *r)
{
    bool trains = !r->call->pass || r->call->pass->trains;
    for (int64_t i = 0; i < r->call->in[X].count; i++) {
        int64_t c = channel_at(r, i);
        double n = r->in[SUMS][channels_of(r)];
        double mean = trains ? mean_of(r, c) : r->in[MEAN][c];
        double variance = trains ? r->in[SQUARES][c] / n : r->in[VARIANCE][c];
        double y = (r->in[X][i] - mean) / sqrt(variance + r->c->number);
        r->out[i] = y * (r->in[WEIGHT] ? r->in[WEIGHT][c] : 1) + (r->in[BIAS] ? r->in[BIAS][c] : 0);
    }
}

/* As torch's: the variance is of n - 1. */
static void running_reference(const struct reference *r)
{
    int64_t channels = r->call->out[0].count;
    double n = r->in[1][channels];
    for (int64_t c = 0; c < channels; c++) {
        double now = r->c->option[2] ? r->in[2][c] / (n - 1) : r->in[1][c] / n;
        r->out[c] = 0.75 * r->in[0][c] + 0.25 * now;
    }
}

static const unsigned wide_norm = OP_IN(SUMS) | OP_IN(SQUARES) | OP_IN(MEAN) | OP_IN(VARIANCE);

#define SUMS_OF(what_, image, dim)                                                                 \
    {                                                                                              \
        "batch_norm_sums", what_, sums, .in = {{image}}, .reference = sums_reference,              \
                                        .option = {dim}, .wide = OP_OUT(0), .mixes = true          \
    }
#define SQUARES_OF(what_, image, dim)                                                              \
    {                                                                                              \
        "batch_norm_squares", what_, squares, .in = {{image}, {.fill = FILL_COUNTED}},             \
                                              .reference = squares_reference, .option = {dim},     \
                                              .wide = OP_IN(1) | OP_OUT(0), .mixes = true          \
    }
#define NORM(what_, image, ...)                                                                    \
    {                                                                                              \
        "batch_norm", what_, result_of,                                                            \
            .in = {{image},                                                                        \
                   {.fill = FILL_COUNTED},                                                         \
                   {.fill = FILL_SHARE},                                                           \
                   {.fill = FILL_NORMAL},                                                          \
                   {.fill = FILL_NORMAL},                                                          \
                   {.fill = FILL_NORMAL},                                                          \
                   {.fill = FILL_SHARE}},                                                          \
            .reference = norm_reference, .option = {__VA_ARGS__}, .number = 0.5,                   \
            .wide = wide_norm, .mixes = true                                                       \
    }
#define RUNNING(what_, variance)                                                                   \
    {                                                                                              \
        "batch_norm_running", what_, running,                                                      \
            .in = {{WK_SHAPE(WK_SAMPLES, 5, 2)}, {.fill = FILL_COUNTED}, {.fill = FILL_SHARE}},    \
            .reference = running_reference, .option = {1, 0, variance},                            \
            .wide = OP_IN(0) | OP_IN(1) | OP_IN(2) | OP_OUT(0), .mixes = true                      \
    }

const struct op_case cases_batches[] = {
    SUMS_OF("images", WK_SHAPE(WK_SAMPLES, 3, 4, 5), 1),
    SUMS_OF("rows", WK_SHAPE(WK_SAMPLES, 7), 1),
    SUMS_OF("positions, more than a tile", WK_SHAPE(WK_SAMPLES, WK_LENGTH, 2100), 2),
    SUMS_OF("images of more than a tile", WK_SHAPE(WK_SAMPLES, 2, 47, 47), 1),
    SUMS_OF("channels innermost", WK_SHAPE(WK_SAMPLES, 9, 11, 8), 3),
    SQUARES_OF("images of more than a tile", WK_SHAPE(WK_SAMPLES, 2, 47, 48), 1),
    SQUARES_OF("many rows", WK_SHAPE(WK_SAMPLES, 90, 3), 2),
    SQUARES_OF("images", WK_SHAPE(WK_SAMPLES, 3, 4, 5), 1),
    SQUARES_OF("positions", WK_SHAPE(WK_SAMPLES, WK_LENGTH, 6), 2),
    NORM("images", WK_SHAPE(WK_SAMPLES, 3, 4, 5), 1, 1),
    NORM("images of more than a tile", WK_SHAPE(WK_SAMPLES, 2, 47, 48), 1, 1),
    NORM("narrow images", WK_SHAPE(WK_SAMPLES, 80, 3, 2), 1, 1),
    NORM("without weights", WK_SHAPE(WK_SAMPLES, 3, 4, 5), 1, 0),
    NORM("positions", WK_SHAPE(WK_SAMPLES, WK_LENGTH, 6), 2, 1),
    NORM("rows of more than a tile", WK_SHAPE(WK_SAMPLES, 2100), 1, 1),
    RUNNING("mean", 0),
    RUNNING("variance", 1),
    {"all_reduce", "a vector", all_reduce, .in = {{WK_SHAPE(8), .param = true}}, .mixes = true},
    {"all_gather", "features", all_gather, .in = {{WK_SHAPE(WK_SAMPLES, 5)}}, .mixes = true},
    {0},
};
