/* The whole model: its gradient along random directions, and independence of how a batch is cut. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/nn/random.h"
#include "tests/numeric/nn/fixture.h"

enum { SAMPLES = 6, LENGTH = 70, VOCAB = 37, COUNT = SAMPLES * LENGTH };

static const struct wk_gpt_config config = {3, 2, 24, LENGTH, VOCAB};

static void fill_tokens(int32_t tokens[COUNT], int32_t targets[COUNT])
{
    for (uint64_t i = 0; i < COUNT; i++) {
        tokens[i] = (int32_t)(random_bits(1, i) % VOCAB);
        targets[i] = (int32_t)(random_bits(2, i) % VOCAB);
    }
}

/* Larger weights than training starts with, so that every path carries weight in the loss. */
static struct fixture busy_model(const struct kernel_table *kernels)
{
    struct fixture f = fixture_new(&config);
    f.model->kernels = kernels;
    wk_model_init(f.model, 3);
    float *noise = fixture_normal("noise", f.model->count, 0.15);
    for (size_t i = 0; i < f.model->count; i++)
        f.params[i] += noise[i];
    free(noise);
    return f;
}

static double loss_of(struct wk_model *model, const struct wk_batch *batch)
{
    double loss;
    cr_assert_eq(model_forward(model, batch, &loss, NULL), 0);
    return loss;
}

/* The slope of the loss along a random direction of one parameter, by differences. */
static double slope(struct wk_model *model, const struct param *param, const float *direction,
                    const struct wk_batch *batch)
{
    const float step = 2e-3f;
    float *kept = malloc(param->count * sizeof(float));
    double losses[2];
    memcpy(kept, param->data, param->count * sizeof(float));
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < param->count; i++)
            param->data[i] = kept[i] + (side ? -step : step) * direction[i];
        losses[side] = loss_of(model, batch);
    }
    memcpy(param->data, kept, param->count * sizeof(float));
    free(kept);
    return (losses[0] - losses[1]) / (2 * (double)step);
}

static void check_slopes(const struct kernel_table *kernels)
{
    int32_t tokens[COUNT], targets[COUNT];
    fill_tokens(tokens, targets);
    struct wk_batch batch = {.tokens = tokens, .targets = targets, .samples = 2, .length = LENGTH};
    struct fixture f = busy_model(kernels);
    loss_of(f.model, &batch);
    cr_assert_eq(model_backward(f.model, 1, NULL), 0);

    for (int i = 0; i < f.model->n_params; i++) {
        const struct param *param = &f.model->params[i];
        float *direction = fixture_normal(param->name, param->count, 1);
        double along = 0, square = 0;
        for (size_t j = 0; j < param->count; j++) {
            along += (double)param->grad[j] * (double)direction[j];
            square += (double)param->grad[j] * (double)param->grad[j];
        }
        double measured = slope(f.model, param, direction, &batch);
        cr_expect_float_eq(measured, along, 2e-4 + 5e-3 * sqrt(square),
                           "%s with %s: slope %g, gradient says %g", param->name, kernels->name,
                           measured, along);
        free(direction);
    }
    fixture_free(&f);
}

Test(model, gradient_is_the_slope_of_the_loss_with_plain_kernels)
{
    check_slopes(kernel_reference());
}

Test(model, gradient_is_the_slope_of_the_loss)
{
    check_slopes(kernel_cpu());
}

static void expect_same_gradients(const struct fixture *f, const float *expected, double tolerance)
{
    for (int i = 0; i < f->model->n_params; i++) {
        const struct param *param = &f->model->params[i];
        double distance = fixture_distance(param->grad, expected + param->offset, param->count);
        cr_expect(distance <= tolerance, "%s is %g off", param->name, distance);
    }
}

/* The whole batch once, then in pieces that share its denominator: losses add up, gradients too. */
static void check_pieces(const int64_t *pieces, int n)
{
    int32_t tokens[COUNT], targets[COUNT];
    fill_tokens(tokens, targets);
    struct wk_batch whole = {
        .tokens = tokens, .targets = targets, .samples = SAMPLES, .length = LENGTH};
    struct fixture f = busy_model(kernel_cpu());
    double loss = loss_of(f.model, &whole), sum = 0;
    cr_assert_eq(model_backward(f.model, 1, NULL), 0);
    float *expected = malloc(f.model->count * sizeof(float));
    memcpy(expected, f.grads, f.model->count * sizeof(float));

    model_zero_grad(f.model);
    int64_t first = 0;
    for (int i = 0; i < n; i++) {
        struct wk_batch piece = {.tokens = tokens + first * LENGTH,
                                 .targets = targets + first * LENGTH,
                                 .samples = pieces[i],
                                 .length = LENGTH,
                                 .denominator = COUNT};
        sum += loss_of(f.model, &piece);
        cr_assert_eq(model_backward(f.model, 1, NULL), 0);
        first += pieces[i];
    }
    cr_expect_float_eq(sum, loss, 1e-7);
    expect_same_gradients(&f, expected, 1e-6);
    free(expected);
    fixture_free(&f);
}

Test(model, cutting_a_batch_in_two_changes_nothing)
{
    check_pieces((const int64_t[]){3, 3}, 2);
}

Test(model, cutting_a_batch_unevenly_changes_nothing)
{
    check_pieces((const int64_t[]){1, 0, 4, 1}, 4);
}

Test(model, backward_twice_as_strong_is_twice_the_gradient)
{
    int32_t tokens[COUNT], targets[COUNT];
    fill_tokens(tokens, targets);
    struct wk_batch batch = {.tokens = tokens, .targets = targets, .samples = 2, .length = LENGTH};
    struct fixture f = busy_model(kernel_cpu());
    loss_of(f.model, &batch);
    cr_assert_eq(model_backward(f.model, 1, NULL), 0);
    float *twice = malloc(f.model->count * sizeof(float));
    for (size_t i = 0; i < f.model->count; i++)
        twice[i] = 2 * f.grads[i];
    model_zero_grad(f.model);
    loss_of(f.model, &batch);
    cr_assert_eq(model_backward(f.model, 2, NULL), 0);
    expect_same_gradients(&f, twice, 1e-6);
    free(twice);
    fixture_free(&f);
}

/* Two passes over the same batch give the same bits. */
Test(model, runs_repeat_exactly)
{
    int32_t tokens[COUNT], targets[COUNT];
    fill_tokens(tokens, targets);
    struct wk_batch batch = {.tokens = tokens, .targets = targets, .samples = 4, .length = LENGTH};
    struct fixture a = busy_model(kernel_cpu()), b = busy_model(kernel_cpu());
    double first = loss_of(a.model, &batch);
    cr_assert_eq(model_backward(a.model, 1, NULL), 0);
    cr_expect_eq(first, loss_of(b.model, &batch));
    cr_assert_eq(model_backward(b.model, 1, NULL), 0);
    cr_expect_eq(memcmp(a.grads, b.grads, a.model->count * sizeof(float)), 0);
    fixture_free(&a);
    fixture_free(&b);
}
