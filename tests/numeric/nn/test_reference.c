/* Twenty steps of a small GPT against the same twenty steps by PyTorch in float32. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/optim/clip.h"
#include "libworker/optim/optimizer.h"
#include "libworker/optim/schedule.h"
#include "tests/lib/reference.h"
#include "tests/lib/rounding.h"
#include "tests/lib/safetensors_test.h"
#include "tests/numeric/nn/fixture.h"

enum { SAMPLES = 4, LENGTH = 16, VOCAB = 64, STEPS = 20 };

enum { LAYERS = 2, WIDTH = 32 };

static const double RATE = 0.003;

/* Roundings behind a logit: norms, products, softmax and its sum in each layer, and the head. */
enum { FORWARD = LAYERS * (9 * WIDTH + 3 * LENGTH) + 2 * WIDTH };
enum { GRADIENT = 3 * FORWARD + VOCAB + SAMPLES * LENGTH };

/* Called with every tensor of a file and the parameter of its name. */
typedef void visit_fn(struct param *param, const float *expected, size_t count);

static void visit_tensors(struct wk_model *model, const char *name, visit_fn *visit)
{
    char path[REFERENCE_PATH_MAX];
    struct safetensors_test file;
    cr_assert_eq(safetensors_test_open(reference_path(name, path), &file), 0, "%s", path);
    cr_assert_eq(safetensors_test_tensors(&file), (size_t)model->n_params);
    for (int i = 0; i < model->n_params; i++) {
        size_t count = 0;
        const float *tensor = safetensors_test_tensor(&file, model->params[i].name, &count);
        cr_assert_not_null(tensor, "%s lacks %s", path, model->params[i].name);
        cr_assert_eq(count, model->params[i].count);
        visit(&model->params[i], tensor, count);
    }
    safetensors_test_close(&file);
}

static void load(struct param *param, const float *expected, size_t count)
{
    memcpy(param->data, expected, count * sizeof(*expected));
}

static void expect_grad(struct param *param, const float *expected, size_t count)
{
    double distance = fixture_distance(param->grad, expected, count);
    cr_expect(distance <= rounding_bound(GRADIENT), "gradient of %s is %g off", param->name,
              distance);
}

/* Adam divides by the root of tiny squares, so rounding shows up as a share of the rate; a bias on
 * which the loss does not depend at all (of the keys) is nothing but such rounding.
 */
static void expect_weight(struct param *param, const float *expected, size_t count)
{
    struct rounding_weights most = rounding_adam(GRADIENT, STEPS * RATE);
    double sum = 0;
    size_t width = param->count / 3;
    bool qkv_bias = param->dims == 1 && strstr(param->name, "c_attn");
    for (size_t i = 0; i < count; i++) {
        if (qkv_bias && i >= width && i < 2 * width)
            continue;
        double off = fabs((double)param->data[i] - (double)expected[i]);
        cr_expect(off <= most.largest, "%s[%zu] is %g off", param->name, i, off);
        sum += off;
    }
    cr_expect(sum / (double)count <= most.mean, "%s is %g off on average", param->name,
              sum / (double)count);
}

/* Step `step`'s rows of LENGTH + 1 tokens, as inputs and, one later, targets. */
static void read_step(const json_t *data, int step, int32_t tokens[SAMPLES * LENGTH],
                      int32_t targets[SAMPLES * LENGTH])
{
    const json_t *rows = json_array_get(json_object_get(data, "tokens"), (size_t)step);
    for (size_t i = 0; i < SAMPLES * LENGTH; i++) {
        const json_t *row = json_array_get(rows, i / LENGTH);
        tokens[i] = (int32_t)json_integer_value(json_array_get(row, i % LENGTH));
        targets[i] = (int32_t)json_integer_value(json_array_get(row, i % LENGTH + 1));
    }
}

static double expected(const json_t *data, int step, const char *what)
{
    const json_t *entry = json_array_get(json_object_get(data, "expected"), (size_t)step);
    return json_number_value(json_object_get(entry, what));
}

/* One step of the training loop; everything it yields is compared. */
static void train_step(struct wk_model *model, struct wk_scheduler *scheduler, const json_t *data,
                       int step)
{
    int32_t tokens[SAMPLES * LENGTH], targets[SAMPLES * LENGTH];
    read_step(data, step, tokens, targets);
    struct wk_batch batch = {
        .tokens = tokens, .targets = targets, .samples = SAMPLES, .length = LENGTH};
    struct wk_optimizer *optimizer = scheduler->optimizer;
    double loss;
    model_zero_grad(model);
    cr_assert_eq(model_forward(model, &batch, &loss, NULL), 0);
    cr_assert_eq(model_backward(model, 1, NULL), 0);
    double moved = rounding_adam(GRADIENT, step * RATE).mean;
    double wanted = expected(data, step, "grad_norm_before_clip");
    cr_expect_float_eq(loss, expected(data, step, "loss"),
                       rounding_bound(FORWARD) * loss + moved * wanted,
                       "step %d: loss %.7f, not %.7f", step, loss, expected(data, step, "loss"));
    if (step == 0)
        visit_tensors(model, "gpt/gpt_grad0.safetensors", expect_grad);

    double norm = sqrt(clip_sum_squares(model->kernels, model->grad_arena, model->count));
    cr_expect_float_eq(norm, wanted, rounding_bound(GRADIENT) * wanted,
                       "step %d: norm %.7f, not %.7f", step, norm, wanted);
    double rate = expected(data, step, "lr");
    cr_expect_float_eq(wk_optimizer_rate(optimizer), rate, 1e-9 * rate);
    cr_assert_eq(optimizer_step(optimizer, model->param_arena, model->grad_arena,
                                (float)clip_factor(norm, 1), NULL),
                 0);
    scheduler_advance(scheduler);
}

static void train(const struct kernel_table *kernels)
{
    static const struct wk_gpt_config config = {LAYERS, 2, WIDTH, LENGTH, VOCAB};
    const struct wk_adamw_options adamw = {RATE, 0.9, 0.95, 1e-8, 0.1};
    static const struct wk_schedule_options cosine = {WK_SCHEDULE_COSINE, 4, STEPS, 0.1};
    json_t *data = reference_json("gpt/gpt.json");

    struct fixture f = fixture_new(&config);
    f.model->kernels = kernels;
    visit_tensors(f.model, "gpt/gpt_init.safetensors", load);
    struct wk_optimizer *optimizer;
    struct wk_scheduler *scheduler;
    cr_assert_eq(wk_adamw_new(&adamw, &optimizer), 0);
    optimizer->kernels = kernels;
    cr_assert_eq(wk_scheduler_new(optimizer, &cosine, &scheduler), 0);
    cr_assert_eq(
        optimizer_bind(optimizer, f.model->params, f.model->n_params, 0, f.model->count, NULL), 0);
    for (int step = 0; step < STEPS; step++)
        train_step(f.model, scheduler, data, step);
    visit_tensors(f.model, "gpt/gpt_final.safetensors", expect_weight);

    wk_scheduler_free(scheduler);
    wk_optimizer_free(optimizer);
    fixture_free(&f);
    json_decref(data);
}

Test(reference, twenty_steps_with_plain_kernels)
{
    train(kernel_reference());
}

Test(reference, twenty_steps_with_every_fast_build)
{
    const struct kernel_table *kernels;
    for (int i = 1; (kernels = kernel_cpu_variant(i)); i++)
        train(kernels);
}
