/* fp16's loss scale through the loop's own calls: torch's and Accelerate's facts. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/libworker/small.h"

enum { SPOILED = 7 }; /* an element of the gradient */

/* One window of `passes`; a gradient of the last is `gradient` where that is not finite. */
static void window(struct small *s, int passes, float gradient)
{
    struct wk_batch batch;
    for (int i = 0; i < passes; i++) {
        cr_assert(wk_next(s->loader, &batch), "%s", wk_last_error(s->ctx));
        wk_forward(s->model, &batch, NULL);
        if (!isfinite(gradient) && i == passes - 1)
            unit_of_model(s->model)->strategy.grads[SPOILED] = gradient;
        wk_backward(s->model);
        wk_step(s->optimizer);
        wk_scheduler_step(s->scheduler);
    }
}

Test(mixed, overflows_skip_and_halve_as_in_torch)
{
    static const float gradients[] = {1, NAN, INFINITY, 1};
    static const bool skipped[] = {false, true, true, false};
    static const double scales[] = {65536, 32768, 16384, 16384};
    struct small s;
    small_open(&s, (const char *const[]){"mixed_precision=fp16", NULL});
    cr_assert_eq(small_prepare(&s), 0, "%s", wk_last_error(s.ctx));
    cr_assert_eq(wk_loss_scale(s.ctx), 65536);
    int64_t taken = 0;
    for (int i = 0; i < 4; i++) {
        double rate = wk_optimizer_rate(s.optimizer);
        float before = unit_of_model(s.model)->strategy.params[SPOILED];
        window(&s, 1, gradients[i]);
        taken += !skipped[i];
        cr_assert_eq(wk_step_skipped(s.ctx), skipped[i]);
        cr_assert_eq(wk_loss_scale(s.ctx), scales[i]);
        cr_assert_eq(wk_steps(s.ctx), taken);
        cr_assert_eq(s.optimizer->steps, taken);
        cr_assert_eq(wk_optimizer_rate(s.optimizer) == rate, skipped[i]);
        cr_assert_eq(unit_of_model(s.model)->strategy.params[SPOILED] == before, skipped[i]);
        cr_assert_eq(s.loader->committed, 2 * (i + 1)); /* the batch is used up either way */
        cr_assert_eq(unit_of_model(s.model)->strategy.grads[SPOILED], 0);
    }
    cr_assert_eq(wk_skipped_steps(s.ctx), 2);
    small_close(&s);
}

Test(mixed, the_scale_doubles_after_2000_clean_steps_not_passes)
{
    struct small s;
    small_open(&s, (const char *const[]){"mixed_precision=fp16", "loss_scale.initial=8",
                                         "gradient_accumulation_steps=2", NULL});
    cr_assert_eq(small_prepare(&s), 0, "%s", wk_last_error(s.ctx));
    unit_of_model(s.model)->scaler.clean_steps = 1997;
    for (int i = 0; i < 2; i++)
        window(&s, 2, 1);
    cr_assert_eq(wk_loss_scale(s.ctx), 8);
    window(&s, 2, 1);
    cr_assert_eq(wk_loss_scale(s.ctx), 16);
    window(&s, 2, NAN); /* and is counted from anew */
    cr_assert_eq(wk_loss_scale(s.ctx), 8);
    cr_assert_eq(unit_of_model(s.model)->scaler.clean_steps, 0);
    small_close(&s);
}

Test(mixed, the_settings_of_the_scale_count)
{
    struct small s;
    small_open(&s, (const char *const[]){"mixed_precision=fp16", "loss_scale.initial=100",
                                         "loss_scale.growth=3", "loss_scale.backoff=0.25",
                                         "loss_scale.interval=2", NULL});
    cr_assert_eq(small_prepare(&s), 0, "%s", wk_last_error(s.ctx));
    window(&s, 1, 1);
    window(&s, 1, 1);
    cr_assert_eq(wk_loss_scale(s.ctx), 300);
    window(&s, 1, NAN);
    cr_assert_eq(wk_loss_scale(s.ctx), 75);
    small_close(&s);
}

/* Clipping sees gradients divided by the scale, once, and the loss never was multiplied. */
Test(mixed, losses_and_norms_are_those_without_a_scale)
{
    double losses[3], updates[3];
    float norms[3];
    for (int i = 0; i < 3; i++) {
        static const char *const scales[] = {"loss_scale.initial=1", "loss_scale.initial=1024",
                                             "loss_scale.initial=65536"};
        struct small s;
        struct wk_batch batch;
        small_open(&s, (const char *const[]){"mixed_precision=fp16", scales[i], NULL});
        cr_assert_eq(small_prepare(&s), 0);
        float before = unit_of_model(s.model)->strategy.params[SPOILED];
        cr_assert(wk_next(s.loader, &batch));
        wk_forward(s.model, &batch, NULL);
        wk_backward(s.model);
        wk_clip_grad_norm(s.model, 0.01f, &norms[i]);
        wk_step(s.optimizer);
        losses[i] = wk_loss(s.ctx);
        updates[i] = (double)(unit_of_model(s.model)->strategy.params[SPOILED] - before);
        small_close(&s);
    }
    for (int i = 1; i < 3; i++) {
        cr_assert_eq(losses[i], losses[0]);
        cr_assert_float_eq(norms[i], norms[0], 1e-3f * norms[0]);
        cr_assert_float_eq(updates[i], updates[0], 1e-3 * fabs(updates[0]) + 1e-9);
    }
    cr_assert_gt(norms[0], 0.01f);
}

/* SGD moves by rate times what is left of the gradient: with the scale taken off and the mean
 * taken. */
Test(mixed, elements_are_limited_as_the_optimizer_sees_them)
{
    static const char *const precisions[] = {"mixed_precision=no", "mixed_precision=fp16"};
    for (int p = 0; p < 2; p++)
        for (int by_setting = 0; by_setting < 2; by_setting++) {
            struct small s;
            struct wk_batch batch;
            small_open(&s,
                       (const char *const[]){precisions[p], "gradient_accumulation_steps=2",
                                             by_setting ? "clip_grad_value=0.001" : NULL, NULL});
            cr_assert_eq(small_prepare(&s), 0);
            const float *params = unit_of_model(s.model)->strategy.params;
            size_t count = s.model->count, limited = 0;
            float *before = malloc(count * sizeof(*before));
            memcpy(before, params, count * sizeof(*before));
            for (int i = 0; i < 2; i++) {
                cr_assert(wk_next(s.loader, &batch));
                wk_forward(s.model, &batch, NULL);
                wk_backward(s.model);
                if (!by_setting)
                    cr_assert_eq(wk_clip_grad_value(s.model, 0.001f), 0);
                cr_assert_eq(wk_step(s.optimizer), 0, "%s", wk_last_error(s.ctx));
            }
            for (size_t i = 0; i < count; i++) {
                float moved = fabsf(params[i] - before[i]);
                cr_assert_leq(moved, 1.01e-4f + 1e-6f * fabsf(before[i]));
                limited += moved > 0.99e-4f;
            }
            cr_assert_gt(limited, 10);
            free(before);
            small_close(&s);
        }
}

Test(mixed, the_model_computes_with_the_copy_and_steps_write_it)
{
    struct small s;
    small_open(&s, (const char *const[]){"mixed_precision=bf16", NULL});
    cr_assert_eq(small_prepare(&s), 0);
    cr_assert_not_null(s.model->low);
    window(&s, 1, 1);
    uint16_t expected[64];
    s.model->kernels->narrow(expected, WK_BF16, unit_of_model(s.model)->strategy.params, 64);
    for (int i = 0; i < 64; i++)
        cr_assert_eq(s.model->params[0].low[i], expected[i]);
    cr_assert_eq(wk_loss_scale(s.ctx), 1);
    wk_close(s.ctx);
    cr_assert_null(s.model->low); /* unprepared: in float again */
    s.ctx = NULL;
    small_close(&s);
}
