/* Each layer's backward pass against central differences of its forward pass, with plain and with
 * fast kernels: random weights reduce a function of random inputs to one number, summed in double.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/nn/attention.h"
#include "libworker/nn/conv.h"
#include "libworker/nn/linear.h"
#include "libworker/nn/loss.h"
#include "libworker/nn/mlp.h"
#include "libworker/nn/norm.h"
#include "tests/numeric/nn/fixture.h"

static const float NUDGE = 1e-2f;
static const double TOLERANCE = 2e-3; /* of the largest: float sums over the nudge, and its cube */

/* A function of several inputs with its gradients, both computed by `run`. */
struct subject {
    const char *name;
    const struct kernel_table *kernels;
    int n_inputs;
    float *inputs[5], *grads[5];
    size_t counts[5];
    int heads;       /* of attention */
    float smoothing; /* of the loss */
    size_t out_count;
    float *out, *dout;
    void (*forward)(struct subject *);  /* out from inputs */
    void (*backward)(struct subject *); /* grads from dout, after a forward */
};

static double value(struct subject *s)
{
    double sum = 0;
    s->forward(s);
    for (size_t i = 0; i < s->out_count; i++)
        sum += (double)s->out[i] * (double)s->dout[i];
    return sum;
}

static void nudge_input(struct subject *s, int input)
{
    size_t count = s->counts[input];
    float *x = s->inputs[input], *expected = malloc(count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        float kept = x[i], up = kept + NUDGE, down = kept - NUDGE;
        x[i] = up;
        double above = value(s);
        x[i] = down;
        double below = value(s);
        x[i] = kept;
        expected[i] = (float)((above - below) / ((double)up - (double)down));
    }
    double distance = fixture_distance(s->grads[input], expected, count);
    cr_expect(distance <= TOLERANCE, "%s with %s: gradient of input %d is %g off", s->name,
              s->kernels->name, input, distance);
    free(expected);
}

static void input(struct subject *s, const char *name, size_t count, double deviation)
{
    int i = s->n_inputs++;
    s->inputs[i] = fixture_normal(name, count, deviation);
    s->grads[i] = calloc(count, sizeof(float));
    s->counts[i] = count;
}

static void output(struct subject *s, size_t count)
{
    s->out_count = count;
    s->out = calloc(count, sizeof(float));
    s->dout = fixture_normal("dout", count, 1);
}

static void release(struct subject *s)
{
    for (int i = 0; i < s->n_inputs; i++) {
        free(s->inputs[i]);
        free(s->grads[i]);
    }
    free(s->out);
    free(s->dout);
}

/* Takes the subject's memory with it. */
static void check(struct subject *s)
{
    s->forward(s);
    s->backward(s);
    for (int i = 0; i < s->n_inputs; i++)
        nudge_input(s, i);
    release(s);
}

typedef void with_kernels_fn(const struct kernel_table *kernels);

static void with_plain_and_fast(with_kernels_fn *check_with)
{
    check_with(kernel_reference());
    check_with(kernel_cpu());
}

/* The first input as layers take it. */
static struct operand x_of(const struct subject *s)
{
    return (struct operand){.data = s->inputs[0]};
}

/* linear: x[5, 7] -> [5, 6] */
enum { ROWS = 5, IN = 7, OUT = 6 };

static struct linear linear_of(struct subject *s, int weight, int64_t in, int64_t out)
{
    return (struct linear){.kernels = s->kernels,
                           .in = in,
                           .out = out,
                           .weight = s->inputs[weight],
                           .bias = s->inputs[weight + 1],
                           .dweight = s->grads[weight],
                           .dbias = s->grads[weight + 1]};
}

static void linear_out(struct subject *s)
{
    struct linear linear = linear_of(s, 1, IN, OUT);
    linear_forward(&linear, s->out, x_of(s), s->inputs[3], ROWS);
}

static void linear_back(struct subject *s)
{
    struct linear linear = linear_of(s, 1, IN, OUT);
    linear_backward(&linear, s->grads[0], x_of(s), s->dout, ROWS);
    memcpy(s->grads[3], s->dout, s->counts[3] * sizeof(float)); /* the residual's own */
}

static void check_linear(const struct kernel_table *kernels)
{
    struct subject s = {"linear", kernels, .forward = linear_out, .backward = linear_back};
    input(&s, "x", ROWS * IN, 1);
    input(&s, "weight", IN * OUT, 1);
    input(&s, "bias", OUT, 1);
    input(&s, "residual", ROWS * OUT, 1);
    output(&s, ROWS * OUT);
    check(&s);
}

Test(gradients, linear)
{
    with_plain_and_fast(check_linear);
}

enum { WIDTH = 12 };

static struct norm norm_of(struct subject *s, float stats[2 * ROWS])
{
    return (struct norm){.kernels = s->kernels,
                         .width = WIDTH,
                         .epsilon = 1e-5f,
                         .weight = s->inputs[1],
                         .bias = s->inputs[2],
                         .dweight = s->grads[1],
                         .dbias = s->grads[2],
                         .mean = stats,
                         .rstd = stats + ROWS};
}

static void norm_out(struct subject *s)
{
    float stats[2 * ROWS];
    struct norm norm = norm_of(s, stats);
    norm_forward(&norm, s->out, s->inputs[0], ROWS);
}

static void norm_back(struct subject *s)
{
    float stats[2 * ROWS];
    struct norm norm = norm_of(s, stats);
    norm_forward(&norm, s->out, s->inputs[0], ROWS);
    norm_backward(&norm, s->grads[0], s->inputs[0], s->dout, ROWS);
}

static void check_norm(const struct kernel_table *kernels)
{
    struct subject s = {"norm", kernels, .forward = norm_out, .backward = norm_back};
    input(&s, "x", ROWS * WIDTH, 2);
    input(&s, "weight", WIDTH, 1);
    input(&s, "bias", WIDTH, 1);
    output(&s, ROWS * WIDTH);
    check(&s);
}

Test(gradients, layer_norm)
{
    with_plain_and_fast(check_norm);
}

/* mlp: x[5, 7] -> [5, 7] through 6 hidden */
static struct mlp mlp_of(struct subject *s, float memory[3][ROWS * OUT])
{
    return (struct mlp){.up = linear_of(s, 1, IN, OUT),
                        .down = linear_of(s, 3, OUT, IN),
                        .hidden = memory[0],
                        .active = {.data = memory[1]},
                        .dactive = memory[2],
                        .dhidden = memory[2]};
}

static void mlp_out(struct subject *s)
{
    static const float residual[ROWS * IN];
    float memory[3][ROWS * OUT];
    struct mlp mlp = mlp_of(s, memory);
    mlp_forward(&mlp, s->out, x_of(s), residual, ROWS);
}

static void mlp_back(struct subject *s)
{
    static const float residual[ROWS * IN];
    float memory[3][ROWS * OUT];
    struct mlp mlp = mlp_of(s, memory);
    mlp_forward(&mlp, s->out, x_of(s), residual, ROWS);
    mlp_backward(&mlp, s->grads[0], x_of(s), s->dout, ROWS);
}

static void check_mlp(const struct kernel_table *kernels)
{
    struct subject s = {"mlp", kernels, .forward = mlp_out, .backward = mlp_back};
    input(&s, "x", ROWS * IN, 1);
    input(&s, "fc", IN * OUT, 0.5);
    input(&s, "fc bias", OUT, 0.5);
    input(&s, "proj", OUT * IN, 0.5);
    input(&s, "proj bias", IN, 0.5);
    output(&s, ROWS * IN);
    check(&s);
}

Test(gradients, mlp_with_gelu)
{
    with_plain_and_fast(check_mlp);
}

/* attention over more than one block of queries, the last of them short */
enum { SAMPLES = 2, LENGTH = ATTENTION_BLOCK + 5, HEADS = 2, SIZE = 3, QKV = 3 * HEADS * SIZE };
enum { GROUPED_HEADS = 4, GROUPED_QKV = (GROUPED_HEADS + 2 * 2) * SIZE };
enum { PROBS = SAMPLES * GROUPED_HEADS * LENGTH * LENGTH };

static struct attention attention_of(struct subject *s, float *memory)
{
    return (struct attention){.kernels = s->kernels,
                              .samples = SAMPLES,
                              .length = LENGTH,
                              .heads = s->heads,
                              .kv_heads = HEADS,
                              .size = SIZE,
                              .qkv = s->inputs[0],
                              .probs = memory,
                              .scratch = memory + PROBS};
}

static void attention_out(struct subject *s)
{
    float *memory = malloc((PROBS + ATTENTION_BLOCK * LENGTH) * sizeof(float));
    struct attention attention = attention_of(s, memory);
    attention_forward(&attention, s->out);
    free(memory);
}

static void attention_back(struct subject *s)
{
    float *memory = malloc((PROBS + ATTENTION_BLOCK * LENGTH) * sizeof(float));
    struct attention attention = attention_of(s, memory);
    attention_forward(&attention, s->out);
    attention_backward(&attention, s->grads[0], s->dout);
    free(memory);
}

static void check_attention(const struct kernel_table *kernels)
{
    struct subject s = {"attention", kernels, .forward = attention_out, .backward = attention_back};
    s.heads = HEADS;
    input(&s, "qkv", SAMPLES * LENGTH * QKV, 1);
    output(&s, SAMPLES * LENGTH * HEADS * SIZE);
    check(&s);
}

/* Four heads of queries over two of keys and values. */
static void check_grouped(const struct kernel_table *kernels)
{
    struct subject s = {"grouped attention", kernels, .forward = attention_out,
                        .backward = attention_back};
    s.heads = GROUPED_HEADS;
    input(&s, "qkv", SAMPLES * LENGTH * GROUPED_QKV, 1);
    output(&s, SAMPLES * LENGTH * GROUPED_HEADS * SIZE);
    check(&s);
}

Test(gradients, grouped_attention)
{
    with_plain_and_fast(check_grouped);
}

Test(gradients, causal_attention)
{
    with_plain_and_fast(check_attention);
}

/* A position must not see what comes after it. */
Test(gradients, attention_is_causal)
{
    struct subject s = {"attention", kernel_cpu(), .forward = attention_out};
    s.heads = HEADS;
    input(&s, "qkv", SAMPLES * LENGTH * QKV, 1);
    output(&s, SAMPLES * LENGTH * HEADS * SIZE);
    s.forward(&s);
    size_t early = 40 * HEADS * SIZE;
    float before[40 * HEADS * SIZE];
    memcpy(before, s.out, sizeof(before));
    for (size_t i = 40 * QKV; i < (size_t)LENGTH * QKV; i++)
        s.inputs[0][i] += 3;
    s.forward(&s);
    cr_expect_eq(memcmp(before, s.out, sizeof(before)), 0);
    cr_expect_neq(s.out[early], before[0]);
    release(&s);
}

/* head and loss: x[5, 7], table[6, 7] -> one number */
static const int32_t targets[ROWS] = {0, 5, WK_IGNORED, 2, 3};

static struct head_loss head_of(struct subject *s)
{
    return (struct head_loss){.kernels = s->kernels,
                              .rows = ROWS,
                              .width = IN,
                              .vocab = OUT,
                              .targets = targets,
                              .smoothing = s->smoothing,
                              .table = s->inputs[1],
                              .dtable = s->grads[1]};
}

static void loss_out(struct subject *s)
{
    float logits[ROWS * OUT];
    struct head_loss head = head_of(s);
    s->out[0] = (float)head_loss_forward(&head, logits, x_of(s));
}

static void loss_back(struct subject *s)
{
    float logits[ROWS * OUT];
    struct head_loss head = head_of(s);
    head_loss_forward(&head, logits, x_of(s));
    head_loss_backward(&head, s->grads[0], logits, x_of(s), s->dout[0]);
}

static void check_loss(const struct kernel_table *kernels)
{
    struct subject s = {"loss", kernels, .forward = loss_out, .backward = loss_back};
    input(&s, "x", ROWS * IN, 1);
    input(&s, "table", OUT * IN, 1);
    output(&s, 1);
    check(&s);
}

Test(gradients, tied_head_and_cross_entropy)
{
    with_plain_and_fast(check_loss);
}

static void check_smooth_loss(const struct kernel_table *kernels)
{
    struct subject s = {"smooth loss", kernels, .forward = loss_out, .backward = loss_back};
    s.smoothing = 0.2f;
    input(&s, "x", ROWS * IN, 1);
    input(&s, "table", OUT * IN, 1);
    output(&s, 1);
    check(&s);
}

Test(gradients, cross_entropy_with_label_smoothing)
{
    with_plain_and_fast(check_smooth_loss);
}

static void square_out(struct subject *s)
{
    float difference[ROWS];
    s->out[0] =
        (float)square_loss_forward(s->kernels, difference, s->inputs[0], s->inputs[1], ROWS);
}

static void square_back(struct subject *s)
{
    float difference[ROWS];
    (void)square_loss_forward(s->kernels, difference, s->inputs[0], s->inputs[1], ROWS);
    square_loss_backward(s->kernels, s->grads[0], difference, s->dout[0], ROWS);
    square_loss_backward(s->kernels, s->grads[1], difference, -s->dout[0], ROWS);
}

static void check_square(const struct kernel_table *kernels)
{
    struct subject s = {"square loss", kernels, .forward = square_out, .backward = square_back};
    input(&s, "x", ROWS, 1);
    input(&s, "target", ROWS, 1);
    output(&s, 1);
    check(&s);
}

Test(gradients, square_loss)
{
    with_plain_and_fast(check_square);
}

static void rms_out(struct subject *s)
{
    float stats[2 * ROWS];
    struct norm norm = norm_of(s, stats);
    norm.bias = NULL;
    norm_forward(&norm, s->out, s->inputs[0], ROWS);
}

static void rms_back(struct subject *s)
{
    float stats[2 * ROWS];
    struct norm norm = norm_of(s, stats);
    norm.bias = norm.dbias = NULL;
    norm_forward(&norm, s->out, s->inputs[0], ROWS);
    norm_backward(&norm, s->grads[0], s->inputs[0], s->dout, ROWS);
}

static void check_rms(const struct kernel_table *kernels)
{
    struct subject s = {"rms norm", kernels, .forward = rms_out, .backward = rms_back};
    input(&s, "x", ROWS * WIDTH, 2);
    input(&s, "weight", WIDTH, 1);
    output(&s, ROWS * WIDTH);
    check(&s);
}

Test(gradients, rms_norm)
{
    with_plain_and_fast(check_rms);
}

/* gated mlp with weights [out, in]: x[5, 7] -> [5, 7] through 3 hidden */
static struct mlp gated_of(struct subject *s, float memory[4][ROWS * OUT])
{
    struct mlp mlp = {.up = {.kernels = s->kernels, .in = IN, .out = OUT, .turned = true},
                      .down = {.kernels = s->kernels, .in = OUT / 2, .out = IN, .turned = true},
                      .gated = true,
                      .hidden = memory[0],
                      .active = {.data = memory[1]},
                      .dactive = memory[2],
                      .dhidden = memory[3]};
    mlp.up.weight = s->inputs[1];
    mlp.up.dweight = s->grads[1];
    mlp.down.weight = s->inputs[2];
    mlp.down.dweight = s->grads[2];
    return mlp;
}

static void gated_out(struct subject *s)
{
    float memory[4][ROWS * OUT];
    struct mlp mlp = gated_of(s, memory);
    mlp_forward(&mlp, s->out, x_of(s), s->inputs[0], ROWS);
}

static void gated_back(struct subject *s)
{
    float memory[4][ROWS * OUT];
    struct mlp mlp = gated_of(s, memory);
    mlp_forward(&mlp, s->out, x_of(s), s->inputs[0], ROWS);
    mlp_backward(&mlp, s->grads[0], x_of(s), s->dout, ROWS);
    for (size_t i = 0; i < ROWS * IN; i++)
        s->grads[0][i] += s->dout[i]; /* the residual's own */
}

static void check_gated(const struct kernel_table *kernels)
{
    struct subject s = {"gated mlp", kernels, .forward = gated_out, .backward = gated_back};
    input(&s, "x", ROWS * IN, 1);
    input(&s, "up", OUT * IN, 0.5);
    input(&s, "down", IN * OUT / 2, 0.5);
    output(&s, ROWS * IN);
    check(&s);
}

Test(gradients, gated_mlp)
{
    with_plain_and_fast(check_gated);
}

/* rotation: x[6, 2 heads of 4] at positions 0, 1, 2, 0, 1, 2 */
static const float angles[2][6] = {{1, 1, 0.5f, 0.9f, -0.4f, 0.6f}, {0, 0, 0.8f, 0.4f, 0.9f, 0.8f}};

static void rope_out(struct subject *s)
{
    struct kernel_rope rope = {6, 3, 2, 4, 9, angles[0], angles[1], false};
    memcpy(s->out, s->inputs[0], s->out_count * sizeof(float));
    s->kernels->rope(&rope, s->out);
}

static void rope_back(struct subject *s)
{
    struct kernel_rope rope = {6, 3, 2, 4, 9, angles[0], angles[1], true};
    memcpy(s->grads[0], s->dout, s->out_count * sizeof(float));
    s->kernels->rope(&rope, s->grads[0]);
}

static void check_rope(const struct kernel_table *kernels)
{
    struct subject s = {"rope", kernels, .forward = rope_out, .backward = rope_back};
    input(&s, "x", 6 * 9, 1);
    output(&s, 6 * 9);
    check(&s);
}

Test(gradients, rotary_positions)
{
    with_plain_and_fast(check_rope);
}

/* conv: [2, 3, 6, 5] -> [2, 4, 3, 3], stride 2, one row and column of padding */
enum { CONV_OUT = 4, CONV_IN = 3 * 6 * 5, CONV_ROW = 3 * 3 * 3, CONV_PLACES = 9 };

static struct conv conv_of(struct subject *s, float rows[CONV_PLACES * CONV_ROW])
{
    struct conv conv = {.kernels = s->kernels,
                        .windows = {3, 6, 5, 3, 2, 1},
                        .samples = 2,
                        .out = CONV_OUT,
                        .weight = s->inputs[1],
                        .bias = s->inputs[2],
                        .dweight = s->grads[1],
                        .dbias = s->grads[2],
                        .rows = rows};
    cr_assert_eq(conv_places(&conv), CONV_PLACES);
    return conv;
}

static void conv_out(struct subject *s)
{
    float rows[CONV_PLACES * CONV_ROW];
    struct conv conv = conv_of(s, rows);
    conv_forward(&conv, s->out, s->inputs[0]);
}

static void conv_back(struct subject *s)
{
    float rows[CONV_PLACES * CONV_ROW];
    struct conv conv = conv_of(s, rows);
    conv_backward(&conv, s->grads[0], s->inputs[0], s->dout);
}

static void check_conv(const struct kernel_table *kernels)
{
    struct subject s = {"conv", kernels, .forward = conv_out, .backward = conv_back};
    input(&s, "x", 2 * CONV_IN, 1);
    input(&s, "weight", CONV_OUT * CONV_ROW, 0.5);
    input(&s, "bias", CONV_OUT, 1);
    output(&s, 2 * CONV_OUT * CONV_PLACES);
    check(&s);
}

Test(gradients, convolution)
{
    with_plain_and_fast(check_conv);
}

static const int32_t tokens[ROWS] = {1, 0, 3, 3, 1};
enum { TOKENS = 4, PLACES = 3 };
static const int64_t embedding_size[3] = {ROWS, PLACES, WIDTH};

static void embedding_out(struct subject *s)
{
    s->kernels->embedding_forward(s->out, tokens, s->inputs[0], s->inputs[1], embedding_size);
}

static void embedding_back(struct subject *s)
{
    s->kernels->embedding_backward(s->grads[0], s->grads[1], tokens, s->dout, embedding_size);
}

static void check_embedding(const struct kernel_table *kernels)
{
    struct subject s = {"embedding", kernels, .forward = embedding_out, .backward = embedding_back};
    input(&s, "table", TOKENS * WIDTH, 1);
    input(&s, "places", PLACES * WIDTH, 1);
    output(&s, ROWS * WIDTH);
    check(&s);
}

Test(gradients, embedding)
{
    with_plain_and_fast(check_embedding);
}
