/* The whole model: its gradient along random directions, and independence of how a batch is cut. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/nn/random.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/nn/fixture.h"

enum { SAMPLES = 6, LENGTH = 70, VOCAB = 37, COUNT = SAMPLES * LENGTH };

enum { LAYERS = 3, HEADS = 2, WIDTH = 24 };

static const struct wk_gpt_config config = {LAYERS, HEADS, WIDTH, LENGTH, VOCAB};

/* Roundings behind a logit: in each layer two norms, qkv, scores, the softmax and the sum over
 * positions, the projection, and both products of the MLP; then a norm and the head. A gradient has
 * the way back behind it too, where each product is done twice, and its own sum over positions. */
enum {
    BLOCK = 2 * WIDTH + WIDTH + WIDTH / HEADS + 2 * LENGTH + WIDTH + WIDTH + 4 * WIDTH,
    FORWARD = LAYERS * BLOCK + 2 * WIDTH,
    GRADIENT = 3 * FORWARD + VOCAB + COUNT,
};

static void fill_tokens(int32_t tokens[COUNT], int32_t targets[COUNT])
{
    for (uint64_t i = 0; i < COUNT; i++) {
        tokens[i] = (int32_t)(random_bits(1, i) % VOCAB);
        targets[i] = (int32_t)(random_bits(2, i) % VOCAB);
    }
}

static struct fixture busy(const struct kernel_table *kernels)
{
    struct wk_model *model;
    cr_assert_eq(wk_gpt_new(&config, &model), 0);
    return fixture_busy(model, kernels);
}

static void check_slopes(const struct kernel_table *kernels)
{
    int32_t tokens[COUNT], targets[COUNT];
    fill_tokens(tokens, targets);
    struct wk_batch batch = {.tokens = tokens, .targets = targets, .samples = 2, .length = LENGTH};
    struct fixture f = busy(kernels);
    fixture_loss(f.model, &batch);
    cr_assert_eq(model_backward(f.model, 1, NULL), 0);

    fixture_expect_slopes(f.model, &batch, 1, 5e-3);
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
    struct fixture f = busy(kernel_cpu());
    double loss = fixture_loss(f.model, &whole), sum = 0;
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
        sum += fixture_loss(f.model, &piece);
        cr_assert_eq(model_backward(f.model, 1, NULL), 0);
        first += pieces[i];
    }
    cr_expect_float_eq(sum, loss, rounding_bound(FORWARD + VOCAB) * loss);
    expect_same_gradients(&f, expected, rounding_bound(GRADIENT));
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
    struct fixture f = busy(kernel_cpu());
    fixture_loss(f.model, &batch);
    cr_assert_eq(model_backward(f.model, 1, NULL), 0);
    float *twice = malloc(f.model->count * sizeof(float));
    for (size_t i = 0; i < f.model->count; i++)
        twice[i] = 2 * f.grads[i];
    model_zero_grad(f.model);
    fixture_loss(f.model, &batch);
    cr_assert_eq(model_backward(f.model, 2, NULL), 0);
    expect_same_gradients(&f, twice, 0); /* a power of two rounds nothing */
    free(twice);
    fixture_free(&f);
}

/* Two passes over the same batch give the same bits. */
Test(model, runs_repeat_exactly)
{
    int32_t tokens[COUNT], targets[COUNT];
    fill_tokens(tokens, targets);
    struct wk_batch batch = {.tokens = tokens, .targets = targets, .samples = 4, .length = LENGTH};
    struct fixture a = busy(kernel_cpu()), b = busy(kernel_cpu());
    double first = fixture_loss(a.model, &batch);
    cr_assert_eq(model_backward(a.model, 1, NULL), 0);
    cr_expect_eq(first, fixture_loss(b.model, &batch));
    cr_assert_eq(model_backward(b.model, 1, NULL), 0);
    cr_expect_eq(memcmp(a.grads, b.grads, a.model->count * sizeof(float)), 0);
    fixture_free(&a);
    fixture_free(&b);
}
