/* Training with products in bf16 and f16 follows training in float: master parameters in float, the
 * narrow copy written by the optimizer's pass, the loss scaled for f16.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "libworker/nn/random.h"
#include "libworker/optim/clip.h"
#include "libworker/optim/optimizer.h"
#include "libworker/precision/scaler.h"
#include "tests/numeric/nn/fixture.h"

enum { SAMPLES = 4, LENGTH = 32, VOCAB = 16, STEPS = 28, COUNT = SAMPLES * LENGTH };

static const struct wk_gpt_config config = {2, 2, 32, LENGTH, VOCAB};
static const struct wk_adamw_options adamw = {3e-3, 0.9, 0.95, 1e-8, 0.1};

struct run {
    struct fixture f;
    struct wk_optimizer *optimizer;
    struct scaler scaler;
    uint16_t *low;
};

static struct run run_new(enum wk_dtype type, double scale)
{
    struct run r = {.f = fixture_new(&config)};
    struct wk_model *model = r.f.model;
    struct wk_scaler_options options = {.initial = scale};
    wk_model_init(model, 2);
    cr_assert_eq(wk_adamw_new(&adamw, &r.optimizer), 0);
    cr_assert_eq(scaler_init(&r.scaler, &options, NULL), 0);
    cr_assert_eq(optimizer_bind(r.optimizer, model->params, model->n_params, 0, model->count, NULL),
                 0);
    if (type == WK_F32)
        return r;
    r.low = calloc(model->count, sizeof(*r.low));
    struct optimizer_copy copy = {.low = r.low, .type = type};
    cr_assert_eq(optimizer_set_copy(r.optimizer, &copy, NULL), 0);
    cr_assert_eq(model_set_compute(model, type, r.low, NULL), 0);
    optimizer_write_copy(r.optimizer, r.f.params);
    return r;
}

static void run_free(struct run *r)
{
    wk_optimizer_free(r->optimizer);
    fixture_free(&r->f);
    free(r->low);
}

/* One step of the loop; its loss. An overflow skips the update. */
static double step(struct run *r)
{
    int32_t tokens[COUNT + 1];
    for (uint64_t i = 0; i <= COUNT; i++) /* a text that can be learned: runs of eight */
        tokens[i] = (int32_t)(random_bits(3, i / 8) % VOCAB);
    struct wk_batch batch = {
        .tokens = tokens, .targets = tokens + 1, .samples = SAMPLES, .length = LENGTH};
    struct wk_model *model = r->f.model;
    double loss = NAN, scale = r->scaler.scale;
    bool skip = false;
    model_zero_grad(model);
    cr_assert_eq(model_forward(model, &batch, &loss, NULL), 0);
    cr_assert_eq(model_backward(model, scale, NULL), 0);
    double norm = sqrt(clip_sum_squares(model->kernels, r->f.grads, model->count)) / scale;
    cr_assert_eq(scaler_update(&r->scaler, isfinite(norm), &skip, NULL), 0);
    float factor = (float)(clip_factor(norm, 1) / scale);
    if (!skip)
        cr_assert_eq(optimizer_step(r->optimizer, r->f.params, r->f.grads, factor, NULL), 0);
    return loss;
}

/* Losses stay within a share of the first one. Not for longer: from step 30 on the loss is small,
 * the updates jump, and any two roundings part. */
static void follow(enum wk_dtype type, double tolerance)
{
    struct run plain = run_new(WK_F32, 1), mixed = run_new(type, type == WK_F16 ? 65536 : 1);
    double first = 0, expected = 0;
    for (int i = 0; i < STEPS; i++) {
        double loss = step(&mixed);
        expected = step(&plain);
        first = i ? first : expected;
        cr_expect_float_eq(loss, expected, tolerance * first, "step %d: %g, not %g", i, loss,
                           expected);
    }
    cr_expect_lt(expected, 0.7 * first, "float itself does not learn: %g", expected);
    cr_expect_eq(mixed.scaler.skipped, 0);
    run_free(&plain);
    run_free(&mixed);
}

Test(mixed, bf16_follows_float)
{
    follow(WK_BF16, 0.002);
}

Test(mixed, f16_follows_float)
{
    follow(WK_F16, 0.001);
}

/* A scale that is too large overflows the first steps, which are skipped, and is found in the end.
 */
Test(mixed, f16_finds_its_loss_scale)
{
    struct run r = run_new(WK_F16, 0x1p40);
    double first = step(&r), last = first;
    cr_expect_eq(r.scaler.skipped, 1);
    cr_expect_eq(r.optimizer->steps, 0);
    cr_expect_eq(step(&r), first); /* nothing was changed */
    for (int i = 0; i < 60; i++)
        last = step(&r);
    cr_expect_gt(r.scaler.skipped, 5);
    cr_expect_lt(last, 0.8 * first);
    run_free(&r);
}
