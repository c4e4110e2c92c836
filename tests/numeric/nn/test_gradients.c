/* Each layer's backward pass against central differences of its forward pass: linear, norms, MLPs,
 * attention, losses.
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
#include "tests/numeric/nn/subject.h"

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
    linear_forward(&linear, s->out, subject_x(s), s->inputs[3], ROWS);
}

static void linear_back(struct subject *s)
{
    struct linear linear = linear_of(s, 1, IN, OUT);
    linear_backward(&linear, s->grads[0], subject_x(s), s->dout, ROWS);
    memcpy(s->grads[3], s->dout, s->counts[3] * sizeof(float)); /* the residual's own */
}

static void check_linear(const struct kernel_table *kernels)
{
    struct subject s = {"linear", kernels, .forward = linear_out, .backward = linear_back};
    subject_input(&s, "x", ROWS * IN, 1);
    subject_input(&s, "weight", IN * OUT, 1);
    subject_input(&s, "bias", OUT, 1);
    subject_input(&s, "residual", ROWS * OUT, 1);
    subject_output(&s, ROWS * OUT);
    subject_check(&s);
}

Test(gradients, linear)
{
    subject_each(check_linear);
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
    subject_input(&s, "x", ROWS * WIDTH, 2);
    subject_input(&s, "weight", WIDTH, 1);
    subject_input(&s, "bias", WIDTH, 1);
    subject_output(&s, ROWS * WIDTH);
    subject_check(&s);
}

Test(gradients, layer_norm)
{
    subject_each(check_norm);
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
    subject_input(&s, "x", ROWS * WIDTH, 2);
    subject_input(&s, "weight", WIDTH, 1);
    subject_output(&s, ROWS * WIDTH);
    subject_check(&s);
}

Test(gradients, rms_norm)
{
    subject_each(check_rms);
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
    mlp_forward(&mlp, s->out, subject_x(s), residual, ROWS);
}

static void mlp_back(struct subject *s)
{
    static const float residual[ROWS * IN];
    float memory[3][ROWS * OUT];
    struct mlp mlp = mlp_of(s, memory);
    mlp_forward(&mlp, s->out, subject_x(s), residual, ROWS);
    mlp_backward(&mlp, s->grads[0], subject_x(s), s->dout, ROWS);
}

static void check_mlp(const struct kernel_table *kernels)
{
    struct subject s = {"mlp", kernels, .forward = mlp_out, .backward = mlp_back};
    subject_input(&s, "x", ROWS * IN, 1);
    subject_input(&s, "fc", IN * OUT, 0.5);
    subject_input(&s, "fc bias", OUT, 0.5);
    subject_input(&s, "proj", OUT * IN, 0.5);
    subject_input(&s, "proj bias", IN, 0.5);
    subject_output(&s, ROWS * IN);
    subject_check(&s);
}

Test(gradients, mlp_with_gelu)
{
    subject_each(check_mlp);
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
    subject_input(&s, "qkv", SAMPLES * LENGTH * QKV, 1);
    subject_output(&s, SAMPLES * LENGTH * HEADS * SIZE);
    subject_check(&s);
}

/* Four heads of queries over two of keys and values. */
static void check_grouped(const struct kernel_table *kernels)
{
    struct subject s = {"grouped attention", kernels, .forward = attention_out,
                        .backward = attention_back};
    s.heads = GROUPED_HEADS;
    subject_input(&s, "qkv", SAMPLES * LENGTH * GROUPED_QKV, 1);
    subject_output(&s, SAMPLES * LENGTH * GROUPED_HEADS * SIZE);
    subject_check(&s);
}

Test(gradients, grouped_attention)
{
    subject_each(check_grouped);
}

Test(gradients, causal_attention)
{
    subject_each(check_attention);
}

/* A position must not see what comes after it. */
Test(gradients, attention_is_causal)
{
    struct subject s = {"attention", kernel_cpu(), .forward = attention_out};
    s.heads = HEADS;
    subject_input(&s, "qkv", SAMPLES * LENGTH * QKV, 1);
    subject_output(&s, SAMPLES * LENGTH * HEADS * SIZE);
    s.forward(&s);
    size_t early = 40 * HEADS * SIZE;
    float before[40 * HEADS * SIZE];
    memcpy(before, s.out, sizeof(before));
    for (size_t i = 40 * QKV; i < (size_t)LENGTH * QKV; i++)
        s.inputs[0][i] += 3;
    s.forward(&s);
    cr_expect_eq(memcmp(before, s.out, sizeof(before)), 0);
    cr_expect_neq(s.out[early], before[0]);
    subject_release(&s);
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
    s->out[0] = (float)head_loss_forward(&head, logits, subject_x(s));
}

static void loss_back(struct subject *s)
{
    float logits[ROWS * OUT];
    struct head_loss head = head_of(s);
    head_loss_forward(&head, logits, subject_x(s));
    head_loss_backward(&head, s->grads[0], logits, subject_x(s), s->dout[0]);
}

static void check_loss(const struct kernel_table *kernels)
{
    struct subject s = {"loss", kernels, .forward = loss_out, .backward = loss_back};
    subject_input(&s, "x", ROWS * IN, 1);
    subject_input(&s, "table", OUT * IN, 1);
    subject_output(&s, 1);
    subject_check(&s);
}

Test(gradients, tied_head_and_cross_entropy)
{
    subject_each(check_loss);
}

static void check_smooth_loss(const struct kernel_table *kernels)
{
    struct subject s = {"smooth loss", kernels, .forward = loss_out, .backward = loss_back};
    s.smoothing = 0.2f;
    subject_input(&s, "x", ROWS * IN, 1);
    subject_input(&s, "table", OUT * IN, 1);
    subject_output(&s, 1);
    subject_check(&s);
}

Test(gradients, cross_entropy_with_label_smoothing)
{
    subject_each(check_smooth_loss);
}
