/* fp16's loss scale through the loop's own calls: torch's and Accelerate's facts. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/rounding.h"
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
            small_range(s)->grads[SPOILED] = gradient;
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
        float before = small_range(&s)->data[SPOILED];
        window(&s, 1, gradients[i]);
        taken += !skipped[i];
        cr_assert_eq(wk_step_skipped(s.ctx), skipped[i]);
        cr_assert_eq(wk_loss_scale(s.ctx), scales[i]);
        cr_assert_eq(wk_steps(s.ctx), taken);
        cr_assert_eq(s.optimizer->steps, taken);
        cr_assert_eq(wk_optimizer_rate(s.optimizer) == rate, skipped[i]);
        cr_assert_eq(small_range(&s)->data[SPOILED] == before, skipped[i]);
        cr_assert_eq(s.loader->committed, 2 * (i + 1)); /* the batch is used up either way */
        cr_assert_eq(small_range(&s)->grads[SPOILED], 0);
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
        float before = small_range(&s)->data[SPOILED];
        cr_assert(wk_next(s.loader, &batch));
        wk_forward(s.model, &batch, NULL);
        wk_backward(s.model);
        wk_clip_grad_norm(s.model, 0.01f, &norms[i]);
        wk_step(s.optimizer);
        losses[i] = wk_loss(s.ctx);
        updates[i] = (double)(small_range(&s)->data[SPOILED] - before);
        small_close(&s);
    }
    for (int i = 1; i < 3; i++) {
        cr_assert_eq(losses[i], losses[0]);
        cr_assert_float_eq(norms[i], norms[0], 2 * ROUNDING_F16 * (double)norms[0]);
        cr_assert_float_eq(updates[i], updates[0], 2 * ROUNDING_F16 * fabs(updates[0]) + 1e-9);
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
            const float *params = small_range(&s)->data;
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
    s.model->kernels->narrow(expected, WK_BF16, small_range(&s)->data, 64);
    for (int i = 0; i < 64; i++)
        cr_assert_eq(s.model->params[0].low[i], expected[i]);
    cr_assert_eq(wk_loss_scale(s.ctx), 1);
    wk_close(s.ctx);
    cr_assert_null(s.model->low); /* unprepared: in float again */
    s.ctx = NULL;
    small_close(&s);
}

/* A custom model in place of the GPT: matrices that passes take as nothing, as bf16, and as either
 * with gradients in float; a vector that they take as it is, and one narrow.
 */
enum { FLOATS, BF16_ONLY, EITHER, VECTOR, NARROW_VECTOR, OWN_BUFFERS };

static struct wk_model *prepare_own(struct small *s, const char *precision)
{
    enum { BOTH = WK_TAKES_BF16 | WK_TAKES_F16 };
    static const float third[] = {1.0f / 3, 1.0f / 3, 1.0f / 3, 1.0f / 3};
    const struct wk_buffer buffers[OWN_BUFFERS] = {
        {"floats", 2, {2, 2}, third},
        {"bf16", 2, {2, 2}, third, .narrow = WK_TAKES_BF16},
        {"either", 2, {2, 2}, third, .narrow = BOTH | WK_GIVES_FLOAT},
        {"vector", 1, {4}, third},
        {"narrow_vector", 1, {4}, third, .narrow = BOTH},
    };
    struct wk_model *own;
    small_open(s, (const char *const[]){precision, NULL});
    cr_assert_eq(wk_custom_new(buffers, OWN_BUFFERS, &own), 0);
    for (int i = 0; i < OWN_BUFFERS; i++) {
        cr_assert_eq(wk_parameter_type(own, i), WK_F32);
        cr_assert(!wk_parameter_low(own, i) && !wk_parameter_low_grad(own, i));
    }
    cr_assert_eq(wk_backward_scale(own), 1);
    cr_assert_eq(
        wk_prepare_all(s->ctx, WK_OBJECT(own), WK_OBJECT(s->optimizer), WK_OBJECT(s->loader)), 0,
        "%s", wk_last_error(s->ctx));
    return own;
}

static void close_own(struct small *s, struct wk_model *own)
{
    (void)wk_close(s->ctx);
    s->ctx = NULL;
    small_close(s);
    wk_model_free(own);
}

Test(mixed, passes_of_the_programs_own_read_and_give_what_their_buffers_say)
{
    static const char *const precisions[] = {"mixed_precision=no", "mixed_precision=bf16",
                                             "mixed_precision=fp16"};
    static const enum wk_dtype types[] = {WK_F32, WK_BF16, WK_F16};
    for (int p = 0; p < 3; p++) {
        const enum wk_dtype type = types[p], bf16_only = p == 1 ? WK_BF16 : WK_F32;
        const enum wk_dtype expected[] = {WK_F32, bf16_only, type, WK_F32, type};
        struct small s;
        struct wk_batch batch;
        struct wk_model *own = prepare_own(&s, precisions[p]);
        cr_assert(wk_next(s.loader, &batch), "%s", wk_last_error(s.ctx));
        for (int i = 0; i < OWN_BUFFERS; i++) {
            bool bits = expected[i] != WK_F32;
            cr_expect_eq(wk_parameter_type(own, i), expected[i]);
            cr_expect_eq(wk_parameter_low(own, i) != NULL, bits);
            cr_expect_eq(wk_parameter_low_grad(own, i) != NULL, bits && i != EITHER);
            cr_expect_not_null(wk_parameter_grad(own, i));
            bool rounded = type != WK_F32 && !bits && i != VECTOR;
            cr_expect_eq(*wk_parameter_data(own, i) != 1.0f / 3, rounded);
        }
        cr_expect_eq(wk_backward_scale(own), p == 2 ? 65536 : 1);
        cr_expect_eq(wk_parameter_type(own, OWN_BUFFERS), WK_F32);
        cr_expect_null(wk_parameter_low_grad(own, -1));
        close_own(&s, own);
    }
    cr_expect_eq(wk_parameter_type(NULL, 0), WK_F32);
    cr_expect_null(wk_parameter_low(NULL, 0));
    cr_expect_null(wk_parameter_low_grad(NULL, 0));
    cr_expect_eq(wk_backward_scale(NULL), 1);
}

/* Reading the master, and saving it, in the middle of a step. */
Test(mixed, the_master_is_shown_until_the_next_step_and_saving_shows_nothing)
{
    struct small s;
    struct wk_batch batch;
    struct wk_model *own = prepare_own(&s, "mixed_precision=bf16");
    cr_assert(wk_next(s.loader, &batch));
    const float *rounded = wk_parameter_data(own, FLOATS);
    cr_expect_neq(*rounded, 1.0f / 3);
    cr_expect_eq(wk_model_save(s.ctx, own, "/proc/no", NULL) == 0, false);
    cr_expect_eq(wk_parameter_data(own, FLOATS), rounded);
    cr_assert_eq(wk_gather_parameters(own), 0);
    cr_expect_eq(*wk_parameter_data(own, FLOATS), 1.0f / 3);
    cr_expect_neq(*rounded, 1.0f / 3);
    wk_backward(own);
    wk_step(s.optimizer);
    cr_assert(wk_next(s.loader, &batch));
    cr_expect_eq(wk_parameter_data(own, FLOATS), rounded);
    close_own(&s, own);
}

/* SGD with rate 0.1 takes it off again. */
Test(mixed, gradients_given_narrow_are_added_to_those_in_float)
{
    struct small s;
    struct wk_batch batch;
    struct wk_model *own = prepare_own(&s, "mixed_precision=bf16");
    for (int pass = 0; pass < 2; pass++) {
        cr_assert(wk_next(s.loader, &batch));
        uint16_t *low = wk_parameter_low_grad(own, BF16_ONLY);
        cr_expect_eq(low[1], 0);
        low[1] = 0x3f80; /* 1 */
        wk_parameter_grad(own, BF16_ONLY)[1] = 0.5f;
        wk_backward(own);
        cr_expect_eq(unit_of_model(own)->model->params[BF16_ONLY].grad[1], 1.5f);
        wk_step(s.optimizer);
    }
    cr_expect_eq(wk_status(s.ctx), 0, "%s", wk_last_error(s.ctx));
    cr_assert_eq(wk_gather_parameters(own), 0);
    cr_expect_float_eq(wk_parameter_data(own, BF16_ONLY)[1], 1.0f / 3 - 0.3f, 1e-6);
    close_own(&s, own);
}
