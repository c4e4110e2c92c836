/* Several models in one context: which optimizer goes with which, what is refused and why, whose
 * step an overflow skips, and what checkpoints call them.
 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libworker/checkpoint/load.h"
#include "libworker/checkpoint/manifest.h"
#include "libworker/pretrained/pretrained.h"
#include "libworker/step/member.h"
#include "tests/lib/rounding.h"
#include "tests/lib/tmpdir.h"
#include "tests/unit/libworker/small.h"

/* What a row has beside a small context; freed after it. */
static struct wk_model *second;
static struct wk_optimizer *its;

static void make_second(struct small *s)
{
    struct wk_mlp_config mlp = {1, 2, 4, 8, 8, 128};
    struct wk_sgd_options sgd = {.rate = 0.1};
    small_open(s, NULL);
    cr_assert_eq(wk_mlp_new(&mlp, &second), 0);
    cr_assert_eq(wk_sgd_new(&sgd, &its), 0);
}

static void open_both(struct small *s, const char *const *settings)
{
    make_second(s);
    if (settings) {
        small_close(s);
        small_open(s, settings);
    }
}

static void close_both(struct small *s)
{
    small_close(s);
    wk_model_free(second);
    wk_optimizer_free(its);
}

static int prepare_both(struct small *s)
{
    cr_assert_eq(wk_optimizer_over(s->optimizer, s->model), 0);
    cr_assert_eq(wk_optimizer_over(its, second), 0);
    return wk_prepare_all(s->ctx, WK_OBJECT(its), WK_OBJECT(s->model), WK_OBJECT(s->loader),
                          WK_OBJECT(s->optimizer), WK_OBJECT(second), WK_OBJECT(s->scheduler));
}

Test(units, optimizers_step_the_model_they_are_over_whatever_the_order)
{
    struct small s;
    struct wk_batch batch;
    open_both(&s, NULL);
    cr_assert_eq(prepare_both(&s), 0, "%s", wk_last_error(s.ctx));
    cr_assert_eq(unit_of_optimizer(its), unit_of_model(second));
    cr_assert_eq(unit_of_optimizer(s.optimizer), unit_of_model(s.model));
    cr_assert(wk_next(s.loader, &batch));
    float before = wk_parameter_data(second, 0)[0], first = wk_parameter_data(s.model, 0)[0];
    wk_forward(s.model, &batch, NULL);
    wk_backward(s.model);
    cr_assert_eq(wk_step(s.optimizer), 0);
    cr_assert_eq(wk_steps(s.ctx), 0); /* the other has not stepped */
    wk_forward(second, &batch, NULL);
    wk_backward(second);
    cr_assert_eq(wk_step(its), 0);
    cr_assert_eq(wk_steps(s.ctx), 1);
    cr_assert(wk_parameter_data(s.model, 0)['a' * 8] != first || first == 0);
    cr_assert_eq(wk_loss(s.ctx), wk_model_loss(s.model));
    cr_assert_neq(wk_model_loss(second), wk_model_loss(s.model));
    cr_assert(isfinite(wk_model_loss(second)) && isfinite((double)before));
    close_both(&s);
}

/* The next batch ends a step in which only one has stepped. */
Test(units, a_step_is_over_when_the_next_batch_is_asked_for)
{
    struct small s;
    struct wk_batch batch;
    open_both(&s, NULL);
    cr_assert_eq(prepare_both(&s), 0);
    for (int i = 0; i < 3; i++) {
        cr_assert(wk_next(s.loader, &batch));
        cr_assert_eq(wk_steps(s.ctx), i);
        cr_assert_eq(batch.position, 2 * i);
        wk_forward(second, &batch, NULL);
        wk_backward(second);
        cr_assert_eq(wk_step(its), 0);
        cr_assert_eq(wk_scheduler_step(s.scheduler), 0); /* its optimizer has taken no step */
        cr_assert_eq(s.scheduler->step, 0);
    }
    close_both(&s);
}

static void refused(struct small *s, int rc, int code, const char *words)
{
    cr_assert_eq(rc, code, "%d: %s", rc, wk_last_error(s->ctx));
    cr_assert_not_null(strstr(wk_last_error(s->ctx), words), "%s", wk_last_error(s->ctx));
    close_both(s);
}

Test(units, what_could_go_wrong_without_a_sign_is_refused)
{
    struct small s;
    open_both(&s, NULL);
    refused(&s,
            wk_prepare_all(s.ctx, WK_OBJECT(s.model), WK_OBJECT(s.optimizer), WK_OBJECT(second),
                           WK_OBJECT(its)),
            WK_EINVAL, "there are 2 models, and the one that optimizer 1 (sgd) updates is not set");
    open_both(&s, NULL);
    wk_optimizer_over(s.optimizer, second);
    wk_optimizer_over(its, second);
    refused(&s,
            wk_prepare_all(s.ctx, WK_OBJECT(s.model), WK_OBJECT(s.optimizer), WK_OBJECT(second),
                           WK_OBJECT(its)),
            WK_EUNSUPPORTED, "model 2 has two (sgd and sgd)");
    open_both(&s, NULL);
    wk_optimizer_over(s.optimizer, second);
    refused(&s, wk_prepare_all(s.ctx, WK_OBJECT(s.model), WK_OBJECT(s.optimizer)), WK_EINVAL,
            "optimizer 1 (sgd) is over a model that is not prepared with it");
    open_both(&s, NULL);
    refused(&s, wk_prepare_all(s.ctx, WK_OBJECT(s.model), WK_OBJECT(s.optimizer), WK_OBJECT(its)),
            WK_EUNSUPPORTED, "a model has one optimizer");
    open_both(&s, (const char *const[]){"strategy=fsdp", NULL});
    wk_optimizer_over(its, second);
    refused(&s, wk_prepare_all(s.ctx, WK_OBJECT(s.model), WK_OBJECT(second), WK_OBJECT(its)),
            WK_EINVAL, "there is no optimizer over model 1");
    open_both(&s, (const char *const[]){"mixed_precision=fp8", NULL});
    refused(&s, prepare_both(&s), WK_EUNSUPPORTED, "fp8");
}

/* Each rank says its own on stderr, from which the agent takes why it ended. */
Test(units, an_error_is_printed_on_whichever_rank_it_is)
{
    struct small s;
    cr_redirect_stderr();
    small_open(&s, NULL);
    wk_print_error(s.ctx, stderr); /* nothing */
    s.ctx->group.rank = 3;
    struct error err = {.code = WK_EINVAL, .text = "this and that"};
    (void)context_fail(s.ctx, &err);
    wk_print_error(s.ctx, stderr);
    small_close(&s);
    cr_assert_stderr_eq_str("rank 3: this and that\n");
}

static void pass_over(struct wk_model *model, const struct wk_batch *batch)
{
    wk_forward(model, batch, NULL);
    wk_backward(model);
}

/* Such a step would never be over: no checkpoint, no stop, no new generation. */
Test(units, a_batch_is_not_dealt_over_gradients_that_nobody_took)
{
    struct small s;
    struct wk_batch batch;
    open_both(&s, NULL);
    cr_assert_eq(prepare_both(&s), 0);
    cr_assert(wk_next(s.loader, &batch));
    pass_over(s.model, &batch);
    pass_over(second, &batch);
    wk_step(its);
    cr_assert_not(wk_next(s.loader, &batch));
    refused(&s, wk_status(s.ctx), WK_ESTATE, "the gradients of model 1 were not used");
}

static int told;
static void count_notice(void *arg, const char *text)
{
    (void)arg;
    told += strstr(text, "model 1 has 1 of 2 passes after 32 batches") != NULL;
}

/* One model fills its window over several steps of another, which is fine as long as it does. */
Test(units, a_window_that_waits_for_passes_is_told_of)
{
    struct small s;
    struct wk_batch batch;
    open_both(&s, (const char *const[]){"gradient_accumulation_steps=2", NULL});
    cr_assert_eq(prepare_both(&s), 0);
    s.ctx->notices.call = count_notice;
    told = 0;
    for (int i = 0; i < 40; i++) {
        cr_assert(wk_next(s.loader, &batch), "%s", wk_last_error(s.ctx));
        if (i == 0)
            pass_over(s.model, &batch);
        pass_over(second, &batch);
        wk_step(its);
    }
    cr_assert_eq(told, 1);
    cr_assert_eq(wk_steps(s.ctx), 0);
    pass_over(s.model, &batch);
    cr_assert_eq(wk_step(s.optimizer), 0, "%s", wk_last_error(s.ctx));
    cr_assert_eq(wk_steps(s.ctx), 1);
    close_both(&s);
}

enum { OFF = 4 }; /* roundings of that: */

/* What a step takes off a parameter whose gradient is 8, with rate 1. */
static float taken_off(struct wk_model *model, struct wk_optimizer *optimizer)
{
    float before = wk_parameter_data(model, 0)[0];
    wk_parameter_grad(model, 0)[0] += 8;
    wk_backward(model);
    wk_step(optimizer);
    return before - wk_parameter_data(model, 0)[0];
}

/* Program's data and a loader's in one step: only passes on the former are divided by its weight.
 */
Test(units, a_weight_is_not_lost_when_a_loader_is_asked_before_the_pass)
{
    struct wk_buffer buffer = {.name = "own", .dims = 1, .shape = {4}};
    struct wk_sgd_options sgd = {.rate = 1};
    struct wk_batch batch;
    struct small s;
    small_open(&s, NULL);
    cr_assert_eq(wk_custom_new(&buffer, 1, &second), 0);
    cr_assert_eq(wk_sgd_new(&sgd, &its), 0);
    cr_assert_eq(prepare_both(&s), 0, "%s", wk_last_error(s.ctx));
    struct unit *unit = unit_of_model(s.model);
    for (int joined_first = 0; joined_first < 2; joined_first++) {
        if (joined_first)
            cr_assert(wk_join(s.ctx, 4));
        cr_assert(wk_next(s.loader, &batch));
        if (!joined_first)
            cr_assert(wk_join(s.ctx, 4));
        pass_over(s.model, &batch);
        cr_assert_eq(window_weight(unit), 1); /* the batch has its own divisor */
        wk_step(s.optimizer);
        cr_assert_float_eq(taken_off(second, its), 2, 2 * rounding_bound(OFF), "%d", joined_first);
    }
    /* And the pass behind a batch that came after the weighed one is the batch's. */
    cr_assert(wk_join(s.ctx, 4));
    cr_assert_float_eq(taken_off(second, its), 2, 2 * rounding_bound(OFF));
    cr_assert(wk_next(s.loader, &batch));
    cr_assert_float_eq(taken_off(second, its), 8, 8 * rounding_bound(OFF));
    close_both(&s);
}

Test(units, a_setting_computes_activations_again_while_models_are_prepared)
{
    for (int own = 0; own < 2; own++) {
        struct small s;
        small_open(&s, (const char *const[]){"recompute=true", NULL});
        wk_model_recompute(s.model, own);
        cr_assert_eq(small_prepare(&s), 0, "%s", wk_last_error(s.ctx));
        cr_expect(s.model->recompute);
        wk_close(s.ctx);
        s.ctx = NULL;
        cr_expect_eq((int)s.model->recompute, own, "what the program asked for is there again");
        small_close(&s);
    }
}

Test(units, a_setting_may_name_operations_or_bytes)
{
    static const char *const settings[] = {"recompute=operations", "recompute=3MiB",
                                           "recompute=none", "recompute=off"};
    static const enum wk_recompute policies[] = {WK_RECOMPUTE_OPERATIONS, WK_RECOMPUTE_WITHIN,
                                                 WK_RECOMPUTE_NONE, WK_RECOMPUTE_NONE};
    for (int i = 0; i < 4; i++) {
        struct small s;
        small_open(&s, (const char *const[]){settings[i], NULL});
        cr_assert_eq(small_prepare(&s), 0, "%s", wk_last_error(s.ctx));
        cr_expect_eq(s.model->recompute, policies[i], "%s", settings[i]);
        cr_expect_eq(s.model->recompute_bytes, i == 1 ? 3 << 20 : 0);
        small_close(&s);
    }
}

Test(units, values_stay_where_they_are_on_the_cpu)
{
    struct small s;
    small_open(&s, (const char *const[]){"offload.activations=host", "total_steps=3", NULL});
    cr_assert_eq(small_prepare(&s), 0, "%s", wk_last_error(s.ctx));
    cr_expect_str_eq(wk_last_notice(s.ctx),
                     "offload.activations is host, which has no effect on the CPU");
    small_close(&s);
}

Test(units, seventeen_models_are_too_many)
{
    struct small s;
    struct wk_model *models[NUMBERS_UNITS_MAX + 1];
    struct wk_object objects[NUMBERS_UNITS_MAX + 1];
    struct wk_mlp_config mlp = {1, 2, 4, 8, 8, 128};
    open_both(&s, NULL);
    for (int i = 0; i <= NUMBERS_UNITS_MAX; i++) {
        cr_assert_eq(wk_mlp_new(&mlp, &models[i]), 0);
        objects[i] = WK_OBJECT(models[i]);
    }
    refused(&s, wk_prepare(s.ctx, objects, NUMBERS_UNITS_MAX + 1), WK_EINVAL,
            "more than 16 models");
    for (int i = 0; i <= NUMBERS_UNITS_MAX; i++)
        wk_model_free(models[i]);
}

/* A forgotten optimizer is noticed where the first gradient would be for nobody. */
Test(units, gradients_that_nothing_takes_are_refused_at_once)
{
    struct small s;
    struct wk_batch batch;
    open_both(&s, NULL);
    wk_optimizer_over(s.optimizer, s.model);
    cr_assert_eq(wk_prepare_all(s.ctx, WK_OBJECT(s.model), WK_OBJECT(s.optimizer),
                                WK_OBJECT(second), WK_OBJECT(s.loader)),
                 0);
    cr_assert(wk_next(s.loader, &batch));
    cr_assert_eq(wk_forward(second, &batch, NULL), 0); /* a teacher may be read */
    refused(&s, wk_backward(second), WK_ESTATE,
            "wk_backward of model 2, which has no use for gradients");
}

Test(units, optimizers_are_bound_before_they_are_prepared)
{
    struct small s;
    open_both(&s, NULL);
    cr_assert_eq(wk_optimizer_over(NULL, s.model), WK_EINVAL);
    cr_assert_eq(wk_optimizer_over(its, NULL), WK_EINVAL);
    cr_assert_eq(wk_status(s.ctx), 0);
    cr_assert_eq(prepare_both(&s), 0);
    refused(&s, wk_optimizer_over(its, s.model), WK_ESTATE, "wk_optimizer_over after wk_prepare");
}

Test(units, models_of_one_shape_begin_differently)
{
    struct small s;
    struct wk_model *twin;
    struct wk_gpt_config gpt = {1, 1, 8, 8, 128};
    open_both(&s, NULL);
    cr_assert_eq(wk_gpt_new(&gpt, &twin), 0);
    cr_assert_eq(wk_prepare_all(s.ctx, WK_OBJECT(s.model), WK_OBJECT(twin)), 0);
    cr_assert_neq(memcmp(wk_parameter_data(s.model, 0), wk_parameter_data(twin, 0), 64), 0);
    close_both(&s);
    wk_model_free(twin);
}

/* fp16: infinity in one model's gradient skips that model's step and lowers its scale alone. */
Test(units, an_overflow_skips_the_step_of_its_own_model_only)
{
    struct small s;
    struct wk_batch batch;
    open_both(&s, (const char *const[]){"mixed_precision=fp16", "loss_scale.initial=1024", NULL});
    cr_assert_eq(prepare_both(&s), 0, "%s", wk_last_error(s.ctx));
    struct unit *spoiled = unit_of_model(second);
    for (int i = 0; i < 2; i++) {
        cr_assert(wk_next(s.loader, &batch));
        wk_forward(s.model, &batch, NULL);
        wk_backward(s.model);
        wk_step(s.optimizer);
        cr_assert_not(wk_step_skipped(s.ctx));
        wk_forward(second, &batch, NULL);
        if (i == 0)
            strategy_range(&spoiled->strategy)->grads[3] = INFINITY;
        wk_backward(second);
        float before = strategy_range(&spoiled->strategy)->data[0];
        cr_assert_eq(wk_step(its), 0, "%s", wk_last_error(s.ctx));
        cr_assert_eq(wk_step_skipped(s.ctx), i == 0);
        cr_assert(i == 1 || strategy_range(&spoiled->strategy)->data[0] == before);
        cr_assert_eq(wk_steps(s.ctx), i + 1);
    }
    cr_assert_eq(wk_skipped_steps(s.ctx), 1);
    cr_assert_eq(unit_of_model(s.model)->scaler.scale, 1024);
    cr_assert_eq(spoiled->scaler.scale, 512);
    cr_assert_eq(wk_loss_scale(s.ctx), 512);
    cr_assert(s.optimizer->steps == 2 && its->steps == 1);
    close_both(&s);
}

/* Two loaders of different lengths, in windows of three: the second is at its end while a window is
 * open. That is the end of the loop as any other, with the last checkpoint.
 */
Test(units, a_loader_that_ends_inside_a_window_ends_the_loop)
{
    struct small s;
    struct tmpdir dir = tmpdir_make();
    struct wk_loader *short_one;
    struct wk_batch batch;
    char setting[300];
    snprintf(setting, sizeof(setting), "checkpoint.dir=%s", dir.path);
    open_both(&s, (const char *const[]){"strategy=zero1", "gradient_accumulation_steps=3", setting,
                                        NULL});
    struct wk_loader_options of_five = {
        .source = s.source, .length = 8, .batch = 10, .epochs = 1, .drop_last = true};
    cr_assert_eq(wk_loader_new(s.ctx, &of_five, &short_one), 0);
    wk_optimizer_over(s.optimizer, s.model);
    wk_optimizer_over(its, second);
    cr_assert_eq(wk_prepare_all(s.ctx, WK_OBJECT(s.model), WK_OBJECT(s.optimizer),
                                WK_OBJECT(second), WK_OBJECT(its), WK_OBJECT(s.loader),
                                WK_OBJECT(short_one)),
                 0, "%s", wk_last_error(s.ctx));
    int batches = 0;
    for (; wk_next(s.loader, &batch); batches++) {
        wk_forward(s.model, &batch, NULL);
        wk_backward(s.model);
        wk_step(s.optimizer);
        if (!wk_next(short_one, &batch))
            break;
        wk_forward(second, &batch, NULL);
        wk_backward(second);
        wk_step(its);
    }
    cr_assert(batches % 3 != 0, "%d", batches);
    cr_assert(s.ctx->loop.ended);
    cr_assert_eq(wk_status(s.ctx), 0, "%s", wk_last_error(s.ctx));
    cr_assert_eq(s.ctx->saving.saved_step, wk_steps(s.ctx));
    cr_assert(wk_steps(s.ctx) > 0);
    cr_assert_not(wk_next(s.loader, &batch));
    close_both(&s);
    wk_loader_free(short_one);
    tmpdir_remove(&dir);
}

/* NULL is no object that was prepared, also where a model has no optimizer. */
Test(units, a_second_prepare_takes_what_is_prepared_and_nothing_else)
{
    struct small s;
    open_both(&s, NULL);
    cr_assert_eq(wk_prepare_all(s.ctx, WK_OBJECT(s.model), WK_OBJECT(second)), 0);
    cr_assert_eq(wk_prepare_all(s.ctx, WK_OBJECT(second), WK_OBJECT(s.model)), 0);
    struct wk_object nothing = {WK_OBJECT_OPTIMIZER, NULL};
    refused(&s, wk_prepare(s.ctx, &nothing, 1), WK_ESTATE, "prepare everything in one call");
}

/* Who has ended a step in which every window was skipped has taken no more than who has not: it
 * goes on with another batch, so they are not where each other is. */
Test(units, members_beside_a_step_that_came_to_nothing_are_not_level)
{
    struct member before = {.trained = 1, .step = 5, .windows = 9, .taken = 8, .done = 1};
    struct member behind = before;
    behind.done = 0;
    cr_assert(member_level(&before, &before) && !member_level(&before, &behind));
    cr_assert(member_further(&behind, &before) && !member_further(&before, &behind));
    cr_assert(!member_further(&before, &before));
}

/* Parameters and optimizers are further by windows, whatever the steps; then by steps; then by
 * whose step is over.
 */
Test(units, the_furthest_member_is_told_by_windows_then_steps_then_what_is_open)
{
    static const struct member order[] = {
        {.windows = 6, .step = 9, .done = 0}, {.windows = 7, .step = 3, .done = 1},
        {.windows = 7, .step = 3, .done = 0}, {.windows = 7, .step = 4, .done = 2},
        {.windows = 7, .step = 4, .done = 1}, {.windows = 8, .step = 2, .done = 5},
        {.windows = 8, .step = 2, .done = 4},
    };
    int n = (int)(sizeof(order) / sizeof(order[0]));
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            cr_expect_eq(member_further(&order[i], &order[j]), i > j, "%d, %d", i, j);
            cr_expect_eq(member_level(&order[i], &order[j]), i == j, "%d, %d", i, j);
        }
    }
}

static void read_file(const char *path, char *ret, size_t size)
{
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    ret[fread(ret, 1, size - 1, file)] = 0;
    fclose(file);
}

static void train_two_steps(struct small *s, bool both)
{
    struct wk_batch batch;
    for (int i = 0; i < 2; i++) {
        cr_assert(wk_next(s->loader, &batch), "%s", wk_last_error(s->ctx));
        wk_forward(s->model, &batch, NULL);
        wk_backward(s->model);
        wk_step(s->optimizer);
        wk_scheduler_step(s->scheduler);
        if (!both)
            continue;
        wk_forward(second, &batch, NULL);
        wk_backward(second);
        wk_step(its);
    }
}

/* What weights taken from it are beside: config.json says what the model is. */
static void check_export(const struct tmpdir *dir, int model, bool is_gpt)
{
    char from[300], to[300], config[4096];
    struct pretrained_export what = {.checkpoint = from, .path = to, .model = model};
    struct error err = {0};
    bool has_config;
    snprintf(from, sizeof(from), "%s/step-00000002", dir->path);
    snprintf(to, sizeof(to), "%s/model-%d", dir->path, model);
    cr_assert_eq(pretrained_export(&what, &has_config, &err), 0, "%s", err.text);
    cr_expect_eq(has_config, is_gpt);
    snprintf(to + strlen(to), sizeof(to) - strlen(to), "/config.json");
    cr_expect_eq(access(to, F_OK) == 0, is_gpt);
    if (!is_gpt)
        return;
    read_file(to, config, sizeof(config));
    cr_expect(strstr(config, "\"model_type\": \"gpt2\"") && strstr(config, "\"n_embd\": 8,"), "%s",
              config);
}

/* The name under which a tensor is asked for, in the checkpoint of step 2. */
static bool holds(const struct tmpdir *dir, const char *name)
{
    struct checkpoint_reader *reader;
    struct error err = {0};
    cr_assert_eq(checkpoint_open(tmpdir_path(dir, "step-00000002"), &reader, &err), 0, "%s",
                 err.text);
    bool found = manifest_find(checkpoint_manifest(reader), name);
    checkpoint_close(reader);
    return found;
}

static const char one_models_state[] = "{\n"
                                       "  \"version\": 1,\n"
                                       "  \"step\": 2,\n"
                                       "  \"total_steps\": 0,\n"
                                       "  \"optimizer_steps\": 2,\n"
                                       "  \"loaders\": [4],\n"
                                       "  \"schedulers\": [2],\n"
                                       "  \"rng\": \"";

Test(units, checkpoints_of_one_model_are_as_they_were_and_of_several_say_which)
{
    for (int both = 0; both < 2; both++) {
        struct small s;
        struct tmpdir dir = tmpdir_make();
        char setting[300], state[4096], words[200];
        snprintf(setting, sizeof(setting), "checkpoint.dir=%s", dir.path);
        open_both(&s, (const char *const[]){setting, NULL});
        cr_assert_eq(both ? prepare_both(&s) : small_prepare(&s), 0);
        train_two_steps(&s, both);
        close_both(&s); /* saves */
        read_file(tmpdir_path(&dir, "step-00000002/state.json"), state, sizeof(state));
        cr_assert(both || !strncmp(state, one_models_state, strlen(one_models_state)), "%s", state);
        cr_assert_eq(holds(&dir, "model.wte.weight"), !both);
        cr_assert_eq(holds(&dir, "1.model.wte.weight"), both);
        cr_assert(!both || strstr(state, "\"units\": ["), "%s", state);
        check_export(&dir, both, true);
        if (both)
            check_export(&dir, 2, false);
        /* Another number of models is not what it is of. */
        open_both(&s, (const char *const[]){setting, "resume_from=latest", NULL});
        snprintf(words, sizeof(words), "%s",
                 both ? "is of 2 models and 1 is prepared: its model 2 is none of them"
                      : "is of 1 model and 2 are prepared: its model 2 is missing");
        refused(&s, both ? small_prepare(&s) : prepare_both(&s), WK_EMISMATCH, words);
        tmpdir_remove(&dir);
    }
}
