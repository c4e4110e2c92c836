/* As test_gradients.c, for Llama's layers, convolution, embedding, dropout and the square loss. */
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
#include "tests/numeric/nn/subject.h"

enum { ROWS = 5, IN = 7, OUT = 6, WIDTH = 12 };

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
    subject_input(&s, "x", ROWS, 1);
    subject_input(&s, "target", ROWS, 1);
    subject_output(&s, 1);
    subject_check(&s);
}

Test(gradients, square_loss)
{
    subject_each(check_square);
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
    mlp_forward(&mlp, s->out, subject_x(s), s->inputs[0], ROWS);
}

static void gated_back(struct subject *s)
{
    float memory[4][ROWS * OUT];
    struct mlp mlp = gated_of(s, memory);
    mlp_forward(&mlp, s->out, subject_x(s), s->inputs[0], ROWS);
    mlp_backward(&mlp, s->grads[0], subject_x(s), s->dout, ROWS);
    for (size_t i = 0; i < ROWS * IN; i++)
        s->grads[0][i] += s->dout[i]; /* the residual's own */
}

static void check_gated(const struct kernel_table *kernels)
{
    struct subject s = {"gated mlp", kernels, .forward = gated_out, .backward = gated_back};
    subject_input(&s, "x", ROWS * IN, 1);
    subject_input(&s, "up", OUT * IN, 0.5);
    subject_input(&s, "down", IN * OUT / 2, 0.5);
    subject_output(&s, ROWS * IN);
    subject_check(&s);
}

Test(gradients, gated_mlp)
{
    subject_each(check_gated);
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
    subject_input(&s, "x", 6 * 9, 1);
    subject_output(&s, 6 * 9);
    subject_check(&s);
}

Test(gradients, rotary_positions)
{
    subject_each(check_rope);
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
    subject_input(&s, "x", 2 * CONV_IN, 1);
    subject_input(&s, "weight", CONV_OUT * CONV_ROW, 0.5);
    subject_input(&s, "bias", CONV_OUT, 1);
    subject_output(&s, 2 * CONV_OUT * CONV_PLACES);
    subject_check(&s);
}

Test(gradients, convolution)
{
    subject_each(check_conv);
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
    subject_input(&s, "table", TOKENS * WIDTH, 1);
    subject_input(&s, "places", PLACES * WIDTH, 1);
    subject_output(&s, ROWS * WIDTH);
    subject_check(&s);
}

Test(gradients, embedding)
{
    subject_each(check_embedding);
}

/* The same key drops the same elements, forward and backward. */
static void dropout_out(struct subject *s)
{
    memcpy(s->out, s->inputs[0], s->out_count * sizeof(float));
    s->kernels->dropout(s->out, s->out_count, 9, 0.7f);
}

static void dropout_back(struct subject *s)
{
    memcpy(s->grads[0], s->dout, s->out_count * sizeof(float));
    s->kernels->dropout(s->grads[0], s->out_count, 9, 0.7f);
}

static void check_dropout(const struct kernel_table *kernels)
{
    struct subject s = {"dropout", kernels, .forward = dropout_out, .backward = dropout_back};
    subject_input(&s, "x", ROWS * WIDTH, 1);
    subject_output(&s, ROWS * WIDTH);
    subject_check(&s);
}

Test(gradients, dropout)
{
    subject_each(check_dropout);
}
