/* Distillation (Hinton et al. 2015): a convolutional teacher learns images of digits; then a small
 * student learns from the teacher's logits alone, it sees no label. Both phases are one loop, and
 * in each step one of the two optimizers steps. The same program runs alone and as
 * `muster run -N 2 -- build/examples/distill`.
 */
#include <stdio.h>
#include <string.h>

#include <worker/worker.h>

#include "examples/flags/flags.h"
#include "examples/images/accuracy.h"
#include "examples/images/digits.h"

enum { TRAINED = 4096, TESTED = 512, BATCH_MAX = 1024 };
static const double TEMPERATURE = 2;

static struct wk_tensor *pixels_of(struct wk_graph *g)
{
    return wk_graph_input(g, "pixels", WK_F32, WK_SHAPE(WK_SAMPLES, 1, DIGITS_SIDE, DIGITS_SIDE));
}

static struct wk_graph *teacher_graph(void)
{
    struct wk_graph *g = wk_graph_new("teacher");
    struct wk_tensor *label = wk_graph_input(g, "label", WK_I32, WK_SHAPE(WK_SAMPLES));
    struct wk_conv_options half = {.stride = 2, .padding = 1};
    struct wk_tensor *x = wk_op_relu(wk_layer_conv2d(pixels_of(g), "conv1", 12, 3, &half));
    wk_graph_block(g, "conv2");
    x = wk_op_relu(wk_layer_conv2d(x, "conv2", 24, 3, &half));
    wk_graph_block(g, "head");
    x = wk_op_reshape(x, WK_SHAPE(WK_SAMPLES, WK_REST));
    x = wk_layer_linear(x, "head", DIGITS_KINDS);
    wk_graph_output(g, "logits", x);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, label, NULL), NULL);
    return g;
}

/* The student's loss has the teacher's logits as an input of its own, "teacher". Gradients of
 * softened logits are smaller by the square of the temperature, which the weight makes up for. */
static struct wk_graph *student_graph(void)
{
    struct wk_graph *g = wk_graph_new("student");
    struct wk_tensor *taught =
        wk_graph_input(g, "teacher", WK_F32, WK_SHAPE(WK_SAMPLES, DIGITS_KINDS));
    struct wk_tensor *x = wk_op_reshape(pixels_of(g), WK_SHAPE(WK_SAMPLES, DIGITS_PIXELS));
    x = wk_op_relu(wk_layer_linear(x, "hidden", 48));
    wk_graph_block(g, "head");
    x = wk_layer_linear(x, "head", DIGITS_KINDS);
    wk_graph_output(g, "logits", x);
    struct wk_tensor *losses =
        wk_op_kl_divergence(wk_op_scale(x, 1 / TEMPERATURE), wk_op_scale(taught, 1 / TEMPERATURE));
    wk_graph_loss(g, "loss", losses, &(struct wk_loss){.weight = TEMPERATURE * TEMPERATURE});
    return g;
}

/* The batch with what the teacher makes of it. */
static void ask(struct wk_model *teacher, struct wk_batch *batch, struct wk_batch_tensor *tensors)
{
    static float logits[BATCH_MAX * DIGITS_KINDS];
    wk_evaluate(teacher, batch, NULL, &(struct wk_outputs){.logits = logits});
    memcpy(tensors, batch->tensors, DIGITS_FIELDS * sizeof(*tensors));
    tensors[DIGITS_FIELDS] = (struct wk_batch_tensor){"teacher", logits, WK_F32, DIGITS_KINDS};
    batch->tensors = tensors;
    batch->n_tensors = DIGITS_FIELDS + 1;
}

int main(int argc, char **argv)
{
    struct flags flags = {.steps = "400", .batch = 64, .rate = 3e-3};
    if (flags_parse(argc, argv, &flags))
        return WK_EXIT_CONFIG;
    if (flags.batch > BATCH_MAX)
        return fprintf(stderr, "distill: --batch is at most %d\n", BATCH_MAX), WK_EXIT_CONFIG;
    struct digits seen = {.set = 1, .augment = true}, unseen = {.set = 2};
    struct wk_row_options train = {TRAINED, digits_fields, DIGITS_FIELDS, digits_read, &seen};
    struct wk_row_options test = {TESTED, digits_fields, DIGITS_FIELDS, digits_read, &unseen};
    struct wk_setting settings[] = {{"total_steps", flags.steps}, {"log_every", "50"}};
    struct wk_context *ctx = wk_begin(&(struct wk_options){.settings = settings, .n_settings = 2});
    struct wk_loader *loader =
        wk_rows_in(ctx, &train, &(struct wk_loader_options){.batch = flags.batch});
    struct wk_loader *held_out = wk_rows_in(
        ctx, &test, &(struct wk_loader_options){.batch = 64, .epochs = 1, .evaluation = true});
    struct wk_optimizer_options adamw = {.rate = flags.rate};
    struct wk_model *teacher = wk_graph_in(ctx, teacher_graph());
    struct wk_optimizer *of_teacher = wk_optimizer_in(ctx, &adamw);
    struct wk_model *student = wk_graph_in(ctx, student_graph());
    struct wk_optimizer *of_student = wk_optimizer_in(ctx, &adamw);
    wk_optimizer_over(of_teacher, teacher);
    wk_optimizer_over(of_student, student);
    for (struct wk_batch batch; wk_next(loader, &batch);) {
        struct wk_batch_tensor tensors[DIGITS_FIELDS + 1];
        bool teaches = wk_steps(ctx) >= wk_total_steps(ctx) / 2;
        struct wk_model *model = teaches ? student : teacher;
        if (teaches)
            ask(teacher, &batch, tensors);
        wk_forward(model, &batch, NULL);
        wk_backward(model);
        wk_step(teaches ? of_student : of_teacher);
    }
    double of_both[] = {images_accuracy(ctx, teacher, held_out),
                        images_accuracy(ctx, student, held_out)};
    if (!wk_status(ctx))
        wk_print(ctx, stdout,
                 "done: %lld steps, loss %.4f of the student, accuracy %.3f after a teacher's "
                 "%.3f, %d ranks\n",
                 (long long)wk_steps(ctx), wk_model_loss(student), of_both[1], of_both[0],
                 wk_world(ctx));
    return wk_finish(ctx);
}
