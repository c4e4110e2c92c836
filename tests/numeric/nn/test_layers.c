/* Layers as programs call them (worker/layers.h): right by their definitions, gradients by central
 * differences, what cannot be refused with its reason. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>
#include <worker/layers.h>

#include "common/base/error.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/nn/subject.h"

enum { ROWS = 5, IN = 7, OUT = 6, INNER = 3 };

/* --- linear: x[5, 7], weight, bias -> [5, 6] */

static bool turned;

static struct wk_linear linear_of(const struct subject *s)
{
    return (struct wk_linear){.in = IN,
                              .out = OUT,
                              .turned = turned,
                              .weight = s->inputs[1],
                              .bias = s->inputs[2],
                              .dweight = s->grads[1],
                              .dbias = s->grads[2]};
}

static void linear_out(struct subject *s)
{
    struct wk_linear linear = linear_of(s);
    cr_assert_eq(wk_linear_forward(&linear, s->out, s->inputs[0], ROWS), 0);
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < OUT; o++) {
            double sum = (double)s->inputs[2][o];
            for (int i = 0; i < IN; i++)
                sum += (double)s->inputs[0][r * IN + i] *
                       (double)s->inputs[1][turned ? o * IN + i : i * OUT + o];
            subject_near(s, r * OUT + o, sum, IN + 1);
        }
}

static void linear_back(struct subject *s)
{
    struct wk_linear linear = linear_of(s);
    cr_assert_eq(wk_linear_backward(&linear, s->grads[0], s->inputs[0], s->dout, ROWS), 0);
}

Test(layers, linear)
{
    for (int t = 0; t < 2; t++) {
        struct subject s = {"linear", kernel_cpu(), .forward = linear_out, .backward = linear_back};
        turned = t;
        subject_input(&s, "x", ROWS * IN, 1);
        subject_input(&s, "weight", IN * OUT, 1);
        subject_input(&s, "bias", OUT, 1);
        subject_output(&s, ROWS * OUT);
        subject_check(&s);
    }
}

/* --- embedding: table[4, 6], positions[3, 6] -> [5, 6] */

static const int32_t tokens[ROWS] = {1, 0, 3, 3, 1};

static struct wk_embedding embedding_of(const struct subject *s)
{
    return (struct wk_embedding){4, OUT, 3, s->inputs[0], s->inputs[1], s->grads[0], s->grads[1]};
}

static void embedding_out(struct subject *s)
{
    struct wk_embedding embedding = embedding_of(s);
    cr_assert_eq(wk_embedding_forward(&embedding, s->out, tokens, ROWS), 0);
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < OUT; i++)
            subject_near(s, r * OUT + i,
                         (double)s->inputs[0][tokens[r] * OUT + i] +
                             (double)s->inputs[1][r % 3 * OUT + i],
                         1);
}

static void embedding_back(struct subject *s)
{
    struct wk_embedding embedding = embedding_of(s);
    cr_assert_eq(wk_embedding_backward(&embedding, tokens, s->dout, ROWS), 0);
}

Test(layers, embedding)
{
    struct subject s = {"embedding", kernel_cpu(), .forward = embedding_out,
                        .backward = embedding_back};
    subject_input(&s, "table", 4 * OUT, 1);
    subject_input(&s, "positions", 3 * OUT, 1);
    subject_output(&s, ROWS * OUT);
    subject_check(&s);
}

/* --- norms: x[5, 7], weight[7], bias[7] -> [5, 7] */

static float mean[ROWS], rstd[ROWS];

static struct wk_norm norm_of(const struct subject *s)
{
    bool biased = s->n_inputs > 2;
    return (struct wk_norm){.width = IN,
                            .epsilon = 1e-5,
                            .weight = s->inputs[1],
                            .bias = biased ? s->inputs[2] : NULL,
                            .dweight = s->grads[1],
                            .dbias = s->grads[2],
                            .mean = mean,
                            .rstd = rstd};
}

static void norm_out(struct subject *s)
{
    struct wk_norm norm = norm_of(s);
    cr_assert_eq(wk_norm_forward(&norm, s->out, s->inputs[0], ROWS), 0);
    for (int r = 0; r < ROWS; r++) {
        const float *x = s->inputs[0] + r * IN;
        double middle = 0, squares = 0;
        for (int i = 0; i < IN && norm.bias; i++)
            middle += (double)x[i] / IN;
        for (int i = 0; i < IN; i++)
            squares += ((double)x[i] - middle) * ((double)x[i] - middle) / IN;
        for (int i = 0; i < IN; i++) {
            double y = ((double)x[i] - middle) / sqrt(squares + 1e-5) * (double)norm.weight[i];
            y += norm.bias ? (double)norm.bias[i] : 0;
            subject_near(s, r * IN + i, y, 2 * IN + 4); /* mean, squares, four more */
        }
    }
}

/* dx is overwritten, whatever stood there. */
static void norm_back(struct subject *s)
{
    struct wk_norm norm = norm_of(s);
    for (int i = 0; i < ROWS * IN; i++)
        s->grads[0][i] = 7;
    cr_assert_eq(wk_norm_backward(&norm, s->grads[0], s->inputs[0], s->dout, ROWS), 0);
}

Test(layers, norms)
{
    for (int biased = 0; biased < 2; biased++) {
        struct subject s = {biased ? "layer norm" : "rms norm", kernel_cpu(), .forward = norm_out,
                            .backward = norm_back};
        subject_input(&s, "x", ROWS * IN, 1);
        subject_input(&s, "weight", IN, 1);
        if (biased)
            subject_input(&s, "bias", IN, 1);
        subject_output(&s, ROWS * IN);
        subject_check(&s);
    }
}

/* --- rotary positions, then attention of 4 heads over 2 keys and values: [2, 5, 8 * 2] -> [2, 5,
 * 8] */

enum { SAMPLES = 2, HEADS = 4, KV_HEADS = 2, SIZE = 2, QKV = (HEADS + 2 * KV_HEADS) * SIZE };
enum { POSITIONS = SAMPLES * ROWS, MIXED = HEADS * SIZE };

static float probs[SAMPLES * HEADS * ROWS * ROWS], angles[2][ROWS * SIZE / 2];
static const struct wk_rope rope = {ROWS, HEADS + KV_HEADS, SIZE, QKV, angles[0], angles[1]};
static const struct wk_attention attention = {SAMPLES, ROWS, HEADS, KV_HEADS, SIZE, probs};

static void turn(struct subject *s, float qkv[POSITIONS * QKV])
{
    memcpy(qkv, s->inputs[0], sizeof(float) * POSITIONS * QKV);
    cr_assert_eq(wk_rope(&rope, qkv, POSITIONS, false), 0);
}

/* By the definition: position p of head h, whose key is that of its group. */
static double attended(const float *qkv, int64_t sample, int p, int h, int element)
{
    const float *row = qkv + (sample * ROWS + p) * QKV;
    double sum = 0, weights = 0;
    for (int other = 0; other <= p; other++) {
        const float *seen = qkv + (sample * ROWS + other) * QKV;
        const float *key = seen + (HEADS + h / (HEADS / KV_HEADS)) * SIZE;
        double score = 0;
        for (int i = 0; i < SIZE; i++)
            score += (double)row[h * SIZE + i] * (double)key[i];
        score = exp(score / sqrt(SIZE));
        weights += score;
        sum += score * (double)key[KV_HEADS * SIZE + element];
    }
    return sum / weights;
}

static void attention_out(struct subject *s)
{
    float qkv[POSITIONS * QKV];
    turn(s, qkv);
    cr_assert_eq(wk_attention_forward(&attention, s->out, qkv), 0);
    for (int i = 0; i < POSITIONS * MIXED; i++)
        subject_near(s, i,
                     attended(qkv, i / MIXED / ROWS, i / MIXED % ROWS, i % MIXED / SIZE, i % SIZE),
                     SIZE + 2 * ROWS + 4); /* a score, its exponential, two sums */
}

static void attention_back(struct subject *s)
{
    float qkv[POSITIONS * QKV];
    turn(s, qkv);
    cr_assert_eq(wk_attention_backward(&attention, s->grads[0], qkv, s->dout), 0);
    cr_assert_eq(wk_rope(&rope, s->grads[0], POSITIONS, true), 0);
}

Test(layers, attention_with_rotary_positions)
{
    struct subject s = {"attention", kernel_cpu(), .forward = attention_out,
                        .backward = attention_back};
    wk_rope_angles(angles[0], angles[1], ROWS, SIZE, 100);
    cr_assert_float_eq(angles[0][3], cos(3), rounding_bound(1));
    subject_input(&s, "qkv", POSITIONS * QKV, 1);
    subject_output(&s, POSITIONS * MIXED);
    subject_check(&s);
}

/* --- GELU of one half, SwiGLU of the other: [5, 6] twice -> [5, 6] and [5, 3] */

static void active_out(struct subject *s)
{
    wk_gelu_forward(s->out, s->inputs[0], ROWS * OUT);
    wk_swiglu_forward(s->out + ROWS * OUT, s->inputs[1], ROWS, INNER);
    double x = (double)s->inputs[0][0], gate = (double)s->inputs[1][0];
    subject_near(s, 0,
                 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x))), 8);
    subject_near(s, ROWS * OUT, gate / (1 + exp(-gate)) * (double)s->inputs[1][INNER], 8);
}

static void active_back(struct subject *s)
{
    wk_gelu_backward(s->grads[0], s->inputs[0], s->dout, ROWS * OUT);
    wk_swiglu_backward(s->grads[1], s->inputs[1], s->dout + ROWS * OUT, ROWS, INNER);
}

Test(layers, activations)
{
    struct subject s = {"activations", kernel_cpu(), .forward = active_out,
                        .backward = active_back};
    subject_input(&s, "x", ROWS * OUT, 1);
    subject_input(&s, "gated", ROWS * 2 * INNER, 1);
    subject_output(&s, ROWS * OUT + ROWS * INNER);
    subject_check(&s);
}

/* --- convolution: [2, 3, 6, 5] -> [2, 4, 3, 3], stride 2, one row and column of padding */

enum { CHANNELS = 3, HEIGHT = 6, WIDTH = 5, KERNEL = 3, STRIDE = 2, PLACES = 3 };
enum { IMAGE = CHANNELS * HEIGHT * WIDTH, WINDOW = CHANNELS * KERNEL * KERNEL };
enum { CONV_OUT = 4, CONV_COUNT = SAMPLES * CONV_OUT * PLACES * PLACES };

static struct wk_conv conv_of(const struct subject *s)
{
    return (struct wk_conv){.samples = SAMPLES,
                            .channels = CHANNELS,
                            .height = HEIGHT,
                            .width = WIDTH,
                            .out = CONV_OUT,
                            .kernel = KERNEL,
                            .stride = STRIDE,
                            .padding = 1,
                            .weight = s->inputs[1],
                            .bias = s->inputs[2],
                            .dweight = s->grads[1],
                            .dbias = s->grads[2]};
}

/* Element i of the output, by the definition. */
static double convolved(const struct subject *s, int i)
{
    int column = i % PLACES, row = i / PLACES % PLACES, o = i / (PLACES * PLACES) % CONV_OUT;
    const float *image = s->inputs[0] + i / (PLACES * PLACES * CONV_OUT) * IMAGE;
    double sum = (double)s->inputs[2][o];
    for (int w = 0; w < WINDOW; w++) {
        int y = row * STRIDE + w / KERNEL % KERNEL - 1, x = column * STRIDE + w % KERNEL - 1;
        if (y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH)
            sum += (double)s->inputs[1][o * WINDOW + w] *
                   (double)image[w / (KERNEL * KERNEL) * HEIGHT * WIDTH + y * WIDTH + x];
    }
    return sum;
}

static void conv_out(struct subject *s)
{
    struct wk_conv conv = conv_of(s);
    cr_assert_eq(wk_conv_forward(&conv, s->out, s->inputs[0]), 0);
    for (int i = 0; i < CONV_COUNT; i++)
        subject_near(s, i, convolved(s, i), WINDOW + 1);
}

static void conv_back(struct subject *s)
{
    struct wk_conv conv = conv_of(s);
    for (int i = 0; i < SAMPLES * IMAGE; i++)
        s->grads[0][i] = 7;
    cr_assert_eq(wk_conv_backward(&conv, s->grads[0], s->inputs[0], s->dout), 0);
}

Test(layers, convolution)
{
    struct subject s = {"convolution", kernel_cpu(), .forward = conv_out, .backward = conv_back};
    int64_t height = 0, width = 0;
    subject_input(&s, "x", SAMPLES * IMAGE, 1);
    subject_input(&s, "weight", CONV_OUT * WINDOW, 0.5);
    subject_input(&s, "bias", CONV_OUT, 1);
    subject_output(&s, CONV_COUNT);
    struct wk_conv conv = conv_of(&s);
    cr_assert_eq(wk_conv_size(&conv, &height, &width), 0);
    cr_assert(height == PLACES && width == PLACES);
    subject_check(&s);
}

/* --- losses: logits[5, 6] of which one row does not count; a vector against another */

static const int32_t targets[ROWS] = {0, 5, WK_IGNORED, 2, 3};
static const struct wk_cross_entropy entropy = {ROWS, OUT, targets, 0.1};

static double surprise(const float *logits, int target)
{
    double sum = 0, spread = 0;
    for (int i = 0; i < OUT; i++)
        sum += exp((double)logits[i]);
    for (int i = 0; i < OUT; i++)
        spread += (log(sum) - (double)logits[i]) / OUT;
    return 0.9 * (log(sum) - (double)logits[target]) + 0.1 * spread;
}

static void losses_out(struct subject *s)
{
    float x[ROWS * OUT], difference[ROWS];
    double loss = 0, expected = 0;
    memcpy(x, s->inputs[0], sizeof(x));
    cr_assert_eq(wk_cross_entropy_forward(&entropy, x, &loss), 0);
    for (int r = 0; r < ROWS; r++)
        expected += targets[r] == WK_IGNORED ? 0 : surprise(s->inputs[0] + r * OUT, targets[r]);
    cr_assert_float_eq(loss, expected, rounding_bound(OUT + 4) * expected);
    s->out[0] = (float)loss;
    s->out[1] = (float)wk_square_loss_forward(difference, s->inputs[1], s->inputs[2], ROWS);
}

static void losses_back(struct subject *s)
{
    float difference[ROWS];
    double loss;
    memcpy(s->grads[0], s->inputs[0], sizeof(float) * ROWS * OUT);
    cr_assert_eq(wk_cross_entropy_forward(&entropy, s->grads[0], &loss), 0);
    cr_assert_eq(wk_cross_entropy_backward(&entropy, s->grads[0], (double)s->dout[0]), 0);
    (void)wk_square_loss_forward(difference, s->inputs[1], s->inputs[2], ROWS);
    wk_square_loss_backward(s->grads[1], difference, (double)s->dout[1], ROWS);
    wk_square_loss_backward(s->grads[2], difference, -(double)s->dout[1], ROWS);
}

Test(layers, losses)
{
    struct subject s = {"losses", kernel_cpu(), .forward = losses_out, .backward = losses_back};
    subject_input(&s, "logits", ROWS * OUT, 1);
    subject_input(&s, "x", ROWS, 1);
    subject_input(&s, "target", ROWS, 1);
    subject_output(&s, 2);
    subject_check(&s);
}

/* --- what cannot be; nothing is written then */

static void expect_refused(int code, const char *words)
{
    const char *text = error_kept();
    cr_expect_eq(code, WK_EINVAL, "%s", words);
    cr_expect(strstr(text, words), "%s, not: %s", text, words);
}

Test(layers, what_cannot_be_is_refused_with_its_reason)
{
    static const int32_t wild[ROWS] = {1, 0, 4, 3, 1};
    static float table[4 * OUT], x[POSITIONS * QKV];
    float y[ROWS * OUT] = {7};
    double loss = 7;
    int64_t size[2];
    expect_refused(wk_linear_forward(&(struct wk_linear){.in = 0, .out = 2}, y, x, 1),
                   "a linear layer: in is 0, outside 1 to");
    expect_refused(wk_linear_backward(&(struct wk_linear){.in = 1, .out = 2}, y, x, x, -1),
                   "a linear layer: rows is -1");
    struct wk_embedding embedding = {4, OUT, 0, table, NULL, NULL, NULL};
    expect_refused(wk_embedding_forward(&embedding, y, wild, ROWS),
                   "token 4 at position 2 is outside 0 to 3");
    embedding.positions = table;
    expect_refused(wk_embedding_forward(&embedding, y, tokens, ROWS), "length is 0");
    expect_refused(wk_norm_forward(&(struct wk_norm){.width = 3}, y, x, 1), "epsilon must be");
    expect_refused(wk_attention_forward(&(struct wk_attention){1, 2, 3, 2, 4, probs}, y, x),
                   "kv_heads does not divide heads");
    expect_refused(wk_rope(&(struct wk_rope){4, 1, 3, 3, x, x}, y, 1, false), "size is odd");
    expect_refused(wk_rope(&(struct wk_rope){4, 2, 4, 7, x, x}, y, 1, false), "do not fit a row");
    struct wk_conv conv = {1, 1, 2, 2, 1, 5, 1, 1, x, NULL, NULL, NULL};
    expect_refused(wk_conv_size(&conv, &size[0], &size[1]), "larger than the padded image");
    conv.stride = 0;
    expect_refused(wk_conv_forward(&conv, y, x), "stride is 0");
    struct wk_cross_entropy wrong = {ROWS, 4, wild, 0};
    expect_refused(wk_cross_entropy_forward(&wrong, y, &loss), "target 4 at position 2");
    wrong.smoothing = 1;
    expect_refused(wk_cross_entropy_backward(&wrong, y, 1), "smoothing must be in [0, 1)");
    cr_expect(y[0] == 7 && loss == 7);
}

Test(layers, nothing_is_nothing_to_do)
{
    struct wk_linear linear = {.in = 2, .out = 2};
    struct wk_conv conv = {0, 1, 2, 2, 1, 1, 1, 0, NULL, NULL, NULL, NULL};
    struct wk_attention none = {0, 2, 2, 2, 4, NULL};
    double loss = 7;
    cr_expect_eq(wk_linear_forward(&linear, NULL, NULL, 0), 0);
    cr_expect_eq(wk_conv_forward(&conv, NULL, NULL), 0);
    cr_expect_eq(wk_attention_forward(&none, NULL, NULL), 0);
    cr_expect_eq(wk_cross_entropy_forward(&(struct wk_cross_entropy){0, 2, NULL, 0}, NULL, &loss),
                 0);
    cr_expect(loss >= 0 && loss <= 0);
}
