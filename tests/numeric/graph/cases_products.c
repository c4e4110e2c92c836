/* Operations with products, norms and losses of logits, against loops in double. */
#include <math.h>
#include <stdlib.h>

#include "tests/numeric/graph/harness.h"

static const double MODEL_SMOOTHING = 0.125; /* of trial_new */

static int64_t last_of(const struct op_tensor *x)
{
    return x->shape[x->dims - 1];
}

/* ---- linear: option[0] is turned; in[5] the residual ---- */

static struct wk_tensor *linear(const struct op_case *c, struct wk_tensor *const *in)
{
    struct wk_linear_weights weights = {
        .weight = {in[1], in[2], in[3]}, .bias = in[4], .turned = c->option[0]};
    struct wk_tensor *y = wk_op_linear(in[0], &weights);
    if (y && in[LINEAR_RESIDUAL]) {
        y->node->n_in = LINEAR_RESIDUAL + 1;
        y->node->in[LINEAR_RESIDUAL] = in[LINEAR_RESIDUAL];
    }
    return y;
}

static void linear_reference(const struct reference *r)
{
    int64_t in = last_of(&r->call->in[0]), out = last_of(&r->call->out[0]);
    for (int64_t i = 0; i < r->call->out[0].count; i++) {
        int64_t row = i / out, at = i % out, w = LINEAR_WEIGHTS;
        int64_t each = r->call->in[w].count / in;
        double sum = r->in[LINEAR_BIAS] ? r->in[LINEAR_BIAS][at] : 0;
        sum += r->in[LINEAR_RESIDUAL] ? r->in[LINEAR_RESIDUAL][i] : 0;
        for (; at >= each; each = r->call->in[w].count / in) {
            at -= each;
            w++;
        }
        for (int64_t k = 0; k < in; k++)
            sum += r->in[0][row * in + k] * r->in[w][r->c->option[0] ? at * in + k : k * each + at];
        r->out[i] = sum;
    }
}

/* ---- matmul: option {transpose a, transpose b} ---- */

static struct wk_tensor *matmul(const struct op_case *c, struct wk_tensor *const *in)
{
    return wk_op_matmul(in[0], in[1], c->option[0], c->option[1]);
}

static void matmul_reference(const struct reference *r)
{
    const struct op_tensor *c = &r->call->out[0], *a = &r->call->in[0];
    int64_t m = c->shape[c->dims - 2], n = last_of(c), k = a->count / (c->count / n);
    bool turn_a = r->c->option[0], turn_b = r->c->option[1];
    for (int64_t i = 0; i < c->count; i++) {
        const double *left = r->in[0] + i / (m * n) * m * k;
        const double *right = r->in[1] + i / (m * n) * k * n;
        int64_t row = i / n % m, col = i % n;
        for (int64_t l = 0; l < k; l++)
            r->out[i] += left[turn_a ? l * m + row : row * k + l] *
                         right[turn_b ? col * k + l : l * n + col];
    }
}

/* ---- embedding ---- */

static struct wk_tensor *embedding(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return wk_op_embedding(in[0], in[1]);
}

static void embedding_reference(const struct reference *r)
{
    int64_t width = last_of(&r->call->out[0]);
    for (int64_t i = 0; i < r->call->out[0].count; i++)
        r->out[i] = r->in[0][(int64_t)r->in[1][i / width] * width + i % width];
}

/* ---- positions ---- */

static struct wk_tensor *positions(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return wk_op_positions(in[0], in[1]);
}

static void positions_reference(const struct reference *r)
{
    const struct op_tensor *out = &r->call->out[0];
    int64_t width = last_of(out), length = out->shape[1];
    for (int64_t i = 0; i < out->count; i++) {
        int64_t row = i / width, position = row % length - (int64_t)r->in[1][row];
        r->out[i] = r->in[0][position * width + i % width];
    }
}

/* ---- norms: number is epsilon, option[0] the groups ---- */

static struct wk_tensor *layer_norm(const struct op_case *c, struct wk_tensor *const *in)
{
    return wk_op_layer_norm(in[0], in[1], in[2], c->number);
}

static struct wk_tensor *rms_norm(const struct op_case *c, struct wk_tensor *const *in)
{
    return wk_op_rms_norm(in[0], in[1], c->number);
}

static struct wk_tensor *group_norm(const struct op_case *c, struct wk_tensor *const *in)
{
    return wk_op_group_norm(in[0], in[1], in[2], c->option[0], c->number);
}

/* Rows of `width`; element i has the parameter i / each % channels. */
static void norm_rows(const struct reference *r, int64_t width, int64_t channels, bool centred)
{
    int64_t each = width / channels;
    const struct op_tensor *x = &r->call->in[0];
    if (r->c->option[0]) {
        channels = x->shape[1];
        each = x->count / (x->shape[0] ? x->shape[0] : 1) / channels;
    }
    for (int64_t row = 0; row < x->count / width; row++) {
        const double *from = r->in[0] + row * width;
        double mean = 0, square = 0;
        for (int64_t i = 0; i < width && centred; i++)
            mean += from[i] / (double)width;
        for (int64_t i = 0; i < width; i++)
            square += (from[i] - mean) * (from[i] - mean) / (double)width;
        for (int64_t i = 0; i < width; i++) {
            int64_t at = row * width + i, channel = at / each % channels;
            r->out[at] =
                (from[i] - mean) / sqrt(square + (double)(float)r->c->number) * r->in[1][channel];
            r->out[at] += r->in[2] ? r->in[2][channel] : 0;
        }
    }
}

static void layer_norm_reference(const struct reference *r)
{
    int64_t width = last_of(&r->call->in[0]);
    norm_rows(r, width, width, true);
}

static void rms_norm_reference(const struct reference *r)
{
    int64_t width = last_of(&r->call->in[0]);
    norm_rows(r, width, width, false);
}

static void group_norm_reference(const struct reference *r)
{
    const struct op_tensor *x = &r->call->in[0];
    int64_t each = 1;
    for (int i = 2; i < x->dims; i++)
        each *= x->shape[i];
    int64_t channels = x->shape[1] / r->c->option[0];
    norm_rows(r, channels * each, channels, true);
}

/* ---- attention: option {heads, kv_heads, full, window}, number the scale ---- */

static struct wk_tensor *attention(const struct op_case *c, struct wk_tensor *const *in)
{
    struct wk_attention_options options = {.heads = c->option[0],
                                           .kv_heads = c->option[1],
                                           .full = c->option[2],
                                           .window = c->option[3],
                                           .scale = c->number,
                                           .starts = in[1]};
    return wk_op_attention(in[0], &options);
}

struct head {
    const double *q, *k, *v; /* of position 0 */
    int64_t stride, size;
    double scale;
};

static double score(const struct head *h, int64_t query, int64_t key)
{
    double sum = 0;
    for (int64_t i = 0; i < h->size; i++)
        sum += h->q[query * h->stride + i] * h->k[key * h->stride + i];
    return sum * h->scale;
}

static void attend(const struct head *h, double *out, int64_t query, const int64_t keys[2])
{
    double total = 0;
    for (int64_t key = keys[0]; key < keys[1]; key++)
        total += exp(score(h, query, key));
    for (int64_t key = keys[0]; key < keys[1]; key++) {
        double p = exp(score(h, query, key)) / total;
        for (int64_t i = 0; i < h->size; i++)
            out[i] += p * h->v[key * h->stride + i];
    }
}

static void attention_reference(const struct reference *r)
{
    const struct op_tensor *qkv = &r->call->in[0], *out = &r->call->out[0];
    int64_t heads = r->c->option[0], kv_heads = r->c->option[1] ? r->c->option[1] : heads;
    int64_t stride = last_of(qkv), length = qkv->shape[1], size = last_of(out) / heads;
    for (int64_t i = 0; i < qkv->shape[0] * heads; i++) {
        int64_t head = i % heads, sample = i / heads;
        const double *base = r->in[0] + sample * length * stride;
        const double *keys = base + (heads + head / (heads / kv_heads)) * size;
        struct head h = {base + head * size,
                         keys,
                         keys + kv_heads * size,
                         stride,
                         size,
                         r->c->number > 0 ? r->c->number : 1 / sqrt((double)size)};
        int64_t window = r->c->option[3] ? r->c->option[3] : length;
        for (int64_t q = 0; q < length; q++) {
            int64_t last = r->c->option[2] ? q + window : q + 1;
            int64_t keys[2] = {q - window + 1 > 0 ? q - window + 1 : 0,
                               last < length ? last : length};
            for (int64_t i = 0; r->in[1] && i < length; i++) { /* its own document */
                bool other = r->in[1][sample * length + i] != r->in[1][sample * length + q];
                keys[0] = other && i < q && i >= keys[0] ? i + 1 : keys[0];
                keys[1] = other && i > q && i < keys[1] ? i : keys[1];
            }
            attend(&h, r->out + ((sample * length + q) * heads + head) * size, q, keys);
        }
    }
}

/* ---- rope: option {heads, size, scaling}, number theta ---- */

static const struct wk_rope_scaling scalings[] = {
    {0},
    {.type = WK_ROPE_LINEAR, .factor = 4},
    {.type = WK_ROPE_DYNAMIC, .factor = 4},
    {.type = WK_ROPE_LLAMA3, .factor = 8, .original_context = 64, .low = 1, .high = 4},
    {.type = WK_ROPE_YARN, .factor = 4, .original_context = 64, .low = 1, .high = 8},
    {.type = WK_ROPE_YARN, .factor = 4, .original_context = 64, .low = 1, .high = 8, .exact = true},
    {.type = WK_ROPE_YARN,
     .factor = 4,
     .original_context = 64,
     .low = 1,
     .high = 8,
     .amplitude = 0.75},
};

static struct wk_tensor *rope(const struct op_case *c, struct wk_tensor *const *in)
{
    struct wk_rope_options options = {c->option[0], c->option[1], c->number, scalings[c->option[2]],
                                      in[1]};
    return wk_op_rope(in[0], &options);
}

/* By wavelengths, as Llama 3.1 describes it. */
static double llama3_frequency(const struct wk_rope_scaling *s, double frequency)
{
    double wave = 2 * M_PI / frequency;
    if (wave < s->original_context / s->high)
        return frequency;
    if (wave > s->original_context / s->low)
        return frequency / s->factor;
    double smooth = (s->original_context / wave - s->low) / (s->high - s->low);
    return (1 - smooth) * frequency / s->factor + smooth * frequency;
}

/* Pairs before the one that rotates `high` times are kept, pairs after the one of `low` are
 * interpolated, between the two evenly (Peng et al. 2023, section 3.2). For theta 100, a size of 16
 * and 64 positions those two are 0.42 and 4.03. */
static double yarn_frequency(const struct wk_rope_scaling *s, double frequency, int64_t pair)
{
    double first = s->exact ? 0.4196404745353142 : 0;
    double last = s->exact ? 4.0320004225030885 : 5;
    double at = ((double)pair - first) / (last - first), gamma = at < 0 ? 1 : at > 1 ? 0 : 1 - at;
    return (1 - gamma) * frequency / s->factor + gamma * frequency;
}

static double scaled_frequency(const struct wk_rope_scaling *s, double frequency, int64_t pair)
{
    switch (s->type) {
    case WK_ROPE_DEFAULT:
    case WK_ROPE_DYNAMIC:
        return frequency;
    case WK_ROPE_LINEAR:
        return frequency / s->factor;
    case WK_ROPE_LLAMA3:
        return llama3_frequency(s, frequency);
    case WK_ROPE_YARN:
        return yarn_frequency(s, frequency, pair);
    }
    return NAN;
}

static void rope_reference(const struct reference *r)
{
    const struct op_tensor *x = &r->call->in[0];
    const struct wk_rope_scaling *s = &scalings[r->c->option[2]];
    int64_t width = last_of(x), size = r->c->option[1], half = size / 2;
    for (int64_t i = 0; i < x->count; i++) {
        int64_t at = i % width, position = i / width % x->shape[1], pair = at % size % half;
        position -= r->in[1] ? (int64_t)r->in[1][i / width] : 0;
        double frequency = pow(r->c->number, -2 * (double)pair / (double)size);
        double angle = (double)position * scaled_frequency(s, frequency, pair);
        double amplitude = s->type != WK_ROPE_YARN ? 1
                           : s->amplitude > 0      ? 0.75
                                                   : 1.138629436111989;
        r->out[i] = r->in[0][i];
        if (at >= r->c->option[0] * size)
            continue;
        bool second = at % size >= half;
        r->out[i] = r->in[0][i] * cos(angle) +
                    r->in[0][second ? i - half : i + half] * sin(angle) * (second ? 1 : -1);
        r->out[i] *= amplitude;
    }
}

/* ---- cross-entropy: number is the smoothing; with option 0 classes have weights ---- */

enum { CLASSES_MAX = 2048 };

static double class_weight(const struct op_case *c, int64_t target)
{
    return c->option[0] ? (double)(target % 4) / 2 : 1;
}

/* weights[CLASSES_MAX] are copied by the operation. */
static struct wk_cross_entropy_options entropy_options(const struct op_case *c, float *weights)
{
    for (int i = 0; i < CLASSES_MAX; i++)
        weights[i] = (float)class_weight(c, i);
    return (struct wk_cross_entropy_options){c->number, c->option[0] ? weights : NULL};
}

static struct wk_tensor *cross_entropy(const struct op_case *c, struct wk_tensor *const *in)
{
    float weights[CLASSES_MAX];
    struct wk_cross_entropy_options options = entropy_options(c, weights);
    return wk_op_cross_entropy(in[0], in[1], &options);
}

static struct wk_tensor *head_cross_entropy(const struct op_case *c, struct wk_tensor *const *in)
{
    float weights[CLASSES_MAX];
    struct wk_cross_entropy_options options = entropy_options(c, weights);
    return wk_op_head_cross_entropy(in[0], in[1], in[2], &options);
}

static double entropy(const double *logits, int64_t classes, int64_t target, double smoothing)
{
    double total = 0, mean = 0;
    for (int64_t i = 0; i < classes; i++) {
        total += exp(logits[i]);
        mean += logits[i] / (double)classes;
    }
    if (target < 0)
        return 0;
    return log(total) - (1 - smoothing) * logits[target] - smoothing * mean;
}

static void cross_entropy_reference(const struct reference *r)
{
    int64_t classes = last_of(&r->call->in[0]);
    for (int64_t i = 0; i < r->call->out[0].count; i++)
        r->out[i] = entropy(r->in[0] + i * classes, classes, (int64_t)r->in[1][i],
                            r->c->number + MODEL_SMOOTHING) *
                    class_weight(r->c, (int64_t)r->in[1][i]);
}

static void head_cross_entropy_reference(const struct reference *r)
{
    int64_t classes = r->call->in[1].shape[0], width = r->call->in[1].shape[1];
    double *logits = malloc((size_t)classes * sizeof(*logits));
    for (int64_t i = 0; i < r->call->out[0].count; i++) {
        for (int64_t c = 0; c < classes; c++) {
            logits[c] = 0;
            for (int64_t k = 0; k < width; k++)
                logits[c] += r->in[0][i * width + k] * r->in[1][c * width + k];
        }
        r->out[i] = entropy(logits, classes, (int64_t)r->in[2][i], r->c->number + MODEL_SMOOTHING) *
                    class_weight(r->c, (int64_t)r->in[2][i]);
    }
    free(logits);
}

#define TEXT(width) WK_SHAPE(WK_SAMPLES, WK_LENGTH, width)
#define PARAM(...)                                                                                 \
    {                                                                                              \
        .shape = WK_SHAPE(__VA_ARGS__), .param = true                                              \
    }
#define NONE                                                                                       \
    {                                                                                              \
        .fill = FILL_NONE                                                                          \
    }
#define INDEX(fill_)                                                                               \
    {                                                                                              \
        .shape = WK_SHAPE(WK_SAMPLES, WK_LENGTH), .fill = fill_                                    \
    }

const struct op_case cases_products[] = {
    {"linear", "plain", linear, .in = {{TEXT(7)}, PARAM(7, 5)}, .reference = linear_reference},
    {"linear", "a bias", linear, .in = {{TEXT(7)}, PARAM(7, 5), NONE, NONE, PARAM(5)},
     .reference = linear_reference},
    {"linear", "a residual", linear,
     .in = {{TEXT(7)}, PARAM(7, 5), NONE, NONE, PARAM(5), {TEXT(5)}},
     .reference = linear_reference},
    {"linear", "turned", linear, .in = {{TEXT(7)}, PARAM(5, 7)}, .option = {1},
     .reference = linear_reference},
    {"linear", "three turned, a residual", linear,
     .in = {{TEXT(7)}, PARAM(5, 7), PARAM(2, 7), PARAM(3, 7), PARAM(10), {TEXT(10)}}, .option = {1},
     .reference = linear_reference},
    {"linear", "two side by side", linear,
     .in = {{WK_SHAPE(WK_SAMPLES, 7)}, PARAM(7, 5), PARAM(7, 2)}, .reference = linear_reference},
    {"linear", "more rows than at once", linear,
     .in = {{WK_SHAPE(WK_SAMPLES, 150, 3)}, PARAM(3, 2), NONE, NONE, PARAM(2)},
     .reference = linear_reference},
    {"matmul", "plain", matmul,
     .in = {{WK_SHAPE(WK_SAMPLES, 2, 4, 7)}, {WK_SHAPE(WK_SAMPLES, 2, 7, 3)}},
     .reference = matmul_reference},
    {"matmul", "a turned", matmul,
     .in = {{WK_SHAPE(WK_SAMPLES, 7, 4)}, {WK_SHAPE(WK_SAMPLES, 7, 3)}}, .option = {1, 0},
     .reference = matmul_reference},
    {"matmul", "b turned", matmul,
     .in = {{WK_SHAPE(WK_SAMPLES, WK_LENGTH, 7)}, {WK_SHAPE(WK_SAMPLES, WK_LENGTH, 7)}},
     .option = {0, 1}, .reference = matmul_reference},
    {"matmul", "both turned", matmul,
     .in = {{WK_SHAPE(WK_SAMPLES, 7, 4)}, {WK_SHAPE(WK_SAMPLES, 3, 7)}}, .option = {1, 1},
     .reference = matmul_reference},
    {"matmul", "samples are summed over", matmul,
     .in = {{WK_SHAPE(WK_SAMPLES, 4)}, {WK_SHAPE(WK_SAMPLES, 3)}}, .option = {1, 0},
     .reference = matmul_reference, .mixes = true},
    {"embedding", "tokens", embedding, .in = {PARAM(9, 6), INDEX(FILL_INDEX)},
     .reference = embedding_reference},
    {"embedding", "rows that occur often", embedding,
     .in = {PARAM(9, 6), {WK_SHAPE(WK_SAMPLES, 700), FILL_INDEX}}, .reference = embedding_reference,
     .roundings = 300},
    {"embedding", "aligned rows, most of them once", embedding,
     .in = {PARAM(3000, 16), {WK_SHAPE(WK_SAMPLES, 400), FILL_INDEX}},
     .reference = embedding_reference},
    {"positions", "aligned rows", positions, .in = {PARAM(9, 16), INDEX(FILL_STARTS)},
     .reference = positions_reference},
    {"positions", "documents", positions, .in = {PARAM(9, 6), INDEX(FILL_STARTS)},
     .reference = positions_reference},
    {"layer_norm", "a bias", layer_norm, .in = {{TEXT(19)}, PARAM(19), PARAM(19)},
     .reference = layer_norm_reference, .number = 1e-5, .roundings = 64},
    {"layer_norm", "no bias", layer_norm, .in = {{TEXT(19)}, PARAM(19)},
     .reference = layer_norm_reference, .number = 0.5, .roundings = 64},
    {"layer_norm", "aligned rows", layer_norm, .in = {{TEXT(24)}, PARAM(24), PARAM(24)},
     .reference = layer_norm_reference, .number = 1e-5, .roundings = 64},
    {"layer_norm", "wide rows", layer_norm,
     .in = {{WK_SHAPE(WK_SAMPLES, 1301)}, PARAM(1301), PARAM(1301)},
     .reference = layer_norm_reference, .number = 1e-5, .roundings = 256},
    {"layer_norm", "rows wider than a block's memory", layer_norm,
     .in = {{WK_SHAPE(WK_SAMPLES, 6400)}, PARAM(6400)}, .reference = layer_norm_reference,
     .number = 1e-5, .roundings = 1024},
    {"layer_norm", "many rows", layer_norm,
     .in = {{WK_SHAPE(WK_SAMPLES, 100, 8)}, PARAM(8), PARAM(8)}, .reference = layer_norm_reference,
     .number = 1e-5, .roundings = 256},
    {"rms_norm", "aligned wide rows", rms_norm, .in = {{WK_SHAPE(WK_SAMPLES, 1304)}, PARAM(1304)},
     .reference = rms_norm_reference, .number = 1e-5, .roundings = 256},
    {"rms_norm", "text", rms_norm, .in = {{TEXT(19)}, PARAM(19)}, .reference = rms_norm_reference,
     .number = 1e-5, .roundings = 64},
    {"group_norm", "images", group_norm,
     .in = {{WK_SHAPE(WK_SAMPLES, 6, 3, 2)}, PARAM(6), PARAM(6)}, .reference = group_norm_reference,
     .number = 1e-5, .option = {2}, .roundings = 64},
    {"group_norm", "large images", group_norm,
     .in = {{WK_SHAPE(WK_SAMPLES, 4, 24, 23)}, PARAM(4), PARAM(4)},
     .reference = group_norm_reference, .number = 1e-5, .option = {2}, .roundings = 256},
    {"group_norm", "one group of features", group_norm,
     .in = {{WK_SHAPE(WK_SAMPLES, 16)}, PARAM(16), PARAM(16)}, .reference = group_norm_reference,
     .number = 1e-5, .option = {1}, .roundings = 64},
    {"group_norm", "instances, no bias", group_norm, .in = {{WK_SHAPE(WK_SAMPLES, 3, 5)}, PARAM(3)},
     .reference = group_norm_reference, .number = 1e-5, .option = {3}, .roundings = 64},
    {"attention", "heads", attention, .in = {{TEXT(2 * 3 * 4)}}, .option = {2, 0},
     .reference = attention_reference, .roundings = 64},
    {"attention", "groups", attention, .in = {{TEXT((4 + 2 * 2) * 3)}}, .option = {4, 2},
     .reference = attention_reference, .roundings = 64},
    {"attention", "all positions, a scale", attention, .in = {{TEXT(2 * 3 * 4)}},
     .option = {2, 0, 1}, .number = 0.3, .reference = attention_reference, .roundings = 64},
    {"attention", "a window", attention, .in = {{TEXT(2 * 3 * 4)}}, .option = {2, 0, 0, 2},
     .reference = attention_reference, .roundings = 64},
    {"attention", "a window to both sides", attention, .in = {{TEXT(2 * 3 * 4)}},
     .option = {2, 0, 1, 2}, .reference = attention_reference, .roundings = 64},
    {"attention", "documents", attention, .in = {{TEXT(2 * 3 * 4)}, INDEX(FILL_STARTS)},
     .option = {2, 0}, .reference = attention_reference, .roundings = 64},
    {"attention", "all of a document", attention,
     .in = {{TEXT((4 + 2 * 2) * 3)}, INDEX(FILL_STARTS)}, .option = {4, 2, 1},
     .reference = attention_reference, .roundings = 64},
    {"rope", "documents", rope, .in = {{TEXT(4 * 3)}, INDEX(FILL_STARTS)}, .option = {3, 4},
     .number = 100, .reference = rope_reference},
    {"rope", "aligned heads and documents", rope, .in = {{TEXT(2 * 16 + 8)}, INDEX(FILL_STARTS)},
     .option = {2, 16}, .number = 100, .reference = rope_reference},
    {"rope", "heads", rope, .in = {{TEXT(4 * 3)}}, .option = {3, 4}, .number = 100,
     .reference = rope_reference},
    {"rope", "linear", rope, .in = {{TEXT(2 * 16)}}, .option = {2, 16, 1}, .number = 100,
     .reference = rope_reference},
    {"rope", "dynamic", rope, .in = {{TEXT(2 * 16)}}, .option = {2, 16, 2}, .number = 100,
     .reference = rope_reference},
    {"rope", "llama3", rope, .in = {{TEXT(2 * 16)}}, .option = {2, 16, 3}, .number = 100,
     .reference = rope_reference},
    {"rope", "yarn", rope, .in = {{TEXT(2 * 16)}}, .option = {2, 16, 4}, .number = 100,
     .reference = rope_reference},
    {"rope", "yarn, exact", rope, .in = {{TEXT(2 * 16)}}, .option = {2, 16, 5}, .number = 100,
     .reference = rope_reference},
    {"rope", "yarn, an amplitude", rope, .in = {{TEXT(2 * 16)}}, .option = {2, 16, 6},
     .number = 100, .reference = rope_reference},
    {"rope", "the first two of four", rope, .in = {{TEXT(6 * 4)}}, .option = {2, 6},
     .number = 10000, .reference = rope_reference},
    {"cross_entropy", "text", cross_entropy, .in = {{TEXT(11)}, INDEX(FILL_TARGET)},
     .reference = cross_entropy_reference, .roundings = 32},
    {"cross_entropy", "smoothing", cross_entropy,
     .in = {{WK_SHAPE(WK_SAMPLES, 11)}, {WK_SHAPE(WK_SAMPLES), FILL_TARGET}},
     .reference = cross_entropy_reference, .number = 0.25, .roundings = 32},
    {"cross_entropy", "weights of classes", cross_entropy, .in = {{TEXT(11)}, INDEX(FILL_TARGET)},
     .option = {1}, .reference = cross_entropy_reference, .roundings = 32},
    {"cross_entropy", "many classes with weights", cross_entropy,
     .in = {{WK_SHAPE(WK_SAMPLES, 2008)}, {WK_SHAPE(WK_SAMPLES), FILL_TARGET}}, .option = {1},
     .reference = cross_entropy_reference, .number = 0.25, .roundings = 512},
    {"head_cross_entropy", "text", head_cross_entropy,
     .in = {{TEXT(8)}, PARAM(16, 8), INDEX(FILL_TARGET)}, .reference = head_cross_entropy_reference,
     .roundings = 32},
    {"head_cross_entropy", "weights of classes", head_cross_entropy,
     .in = {{TEXT(8)}, PARAM(16, 8), INDEX(FILL_TARGET)}, .option = {1},
     .reference = head_cross_entropy_reference, .roundings = 32},
    {0},
};
