/* What wk_open and wk_prepare accept, refuse and say. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "libworker/step/context.h"

static const char *lookup(void *arg, const char *name)
{
    const char *const *pair = arg;
    return pair && strcmp(pair[0], name) == 0 ? pair[1] : NULL;
}

struct fixture {
    struct wk_context *ctx;
    struct wk_source *source;
    struct wk_loader *loader;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    struct wk_scheduler *scheduler;
};

static void open_with(struct fixture *f, const char *const *pair)
{
    struct environment environment = {lookup, (void *)pair};
    struct context_seams seams = {.environment = &environment, .quiet = true};
    memset(f, 0, sizeof(*f));
    cr_assert_eq(context_open(NULL, &seams, &f->ctx), 0, "%s", wk_last_error(f->ctx));
    char text[400];
    memset(text, 'a', sizeof(text));
    wk_source_bytes(f->ctx, text, sizeof(text), &f->source);
    struct wk_loader_options loader = {.source = f->source, .length = 8, .batch = 2};
    wk_loader_new(f->ctx, &loader, &f->loader);
    struct wk_gpt_config gpt = {1, 1, 8, 8, 128};
    wk_gpt_new(&gpt, &f->model);
    struct wk_sgd_options sgd = {.rate = 0.1};
    wk_sgd_new(&sgd, &f->optimizer);
    struct wk_schedule_options schedule = {.kind = WK_SCHEDULE_CONSTANT};
    wk_scheduler_new(f->optimizer, &schedule, &f->scheduler);
    cr_assert_eq(wk_status(f->ctx), 0);
}

static void close_all(struct fixture *f)
{
    wk_close(f->ctx);
    wk_scheduler_free(f->scheduler);
    wk_optimizer_free(f->optimizer);
    wk_loader_free(f->loader);
    wk_source_free(f->source);
    wk_model_free(f->model);
}

static int prepare_all(struct fixture *f)
{
    return wk_prepare_all(f->ctx, WK_OBJECT(f->scheduler), WK_OBJECT(f->loader),
                          WK_OBJECT(f->optimizer), WK_OBJECT(f->model));
}

Test(prepare, any_order_and_twice_is_once)
{
    struct fixture f;
    open_with(&f, NULL);
    cr_assert_eq(prepare_all(&f), 0, "%s", wk_last_error(f.ctx));
    float *memory = strategy_range(&unit_of_model(f.model)->strategy)->data;
    cr_assert_eq(prepare_all(&f), 0);
    cr_assert_eq(wk_prepare_all(f.ctx, WK_OBJECT(f.model)), 0);
    cr_assert_eq(strategy_range(&unit_of_model(f.model)->strategy)->data, memory);
    close_all(&f);
}

Test(prepare, handles_work_before_and_after_with_a_plain_error)
{
    struct fixture f;
    struct wk_batch batch;
    open_with(&f, NULL);
    cr_assert_eq(wk_forward(f.model, &batch, NULL), WK_ESTATE);
    cr_assert_eq(wk_backward(f.model), WK_ESTATE);
    cr_assert_eq(wk_step(f.optimizer), WK_ESTATE);
    cr_assert_eq(wk_scheduler_step(f.scheduler), WK_ESTATE);
    cr_assert_eq(prepare_all(&f), 0);
    cr_assert(wk_next(f.loader, &batch));
    cr_assert_eq(wk_close(f.ctx), 0);
    cr_assert_eq(wk_step(f.optimizer), WK_ESTATE);
    cr_assert_not(wk_next(f.loader, &batch));
    cr_assert_null(wk_parameter_data(f.model, 0));
    /* The same objects in another context. */
    struct environment environment = {lookup, NULL};
    struct context_seams seams = {.environment = &environment, .quiet = true};
    cr_assert_eq(context_open(NULL, &seams, &f.ctx), 0);
    cr_assert_eq(prepare_all(&f), 0, "%s", wk_last_error(f.ctx));
    close_all(&f);
}

Test(prepare, what_this_build_cannot_do_is_refused_with_the_setting_named)
{
    static const char *const pairs[][2] = {{"MUSTER_MESH_PP", "3"},
                                           {"MUSTER_MIXED_PRECISION", "fp8"},
                                           {"MUSTER_MESH_TP", "2"},
                                           {"MUSTER_MESH_DP", "4"},
                                           {"MUSTER_MESH_DP_SHARD", "2"}};
    static const char *const said[] = {"mesh.pp 3", "mixed_precision fp8", "mesh.tp 2",
                                       "mesh.dp is 4", "mesh.dp_shard 2 contradicts"};
    for (int i = 0; i < 5; i++) {
        struct fixture f;
        open_with(&f, pairs[i]);
        cr_assert_neq(prepare_all(&f), 0);
        cr_assert(strstr(wk_last_error(f.ctx), said[i]), "%s", wk_last_error(f.ctx));
        cr_assert_eq(wk_prepare_all(f.ctx, WK_OBJECT(f.model)), wk_status(f.ctx));
        close_all(&f);
    }
}

static int prepare_under(struct fixture *f, const char *strategy, struct wk_optimizer *optimizer)
{
    const char *const pair[] = {"MUSTER_STRATEGY", strategy};
    open_with(f, pair);
    return optimizer ? wk_prepare_all(f->ctx, WK_OBJECT(f->model), WK_OBJECT(optimizer))
                     : wk_prepare_all(f->ctx, WK_OBJECT(f->model));
}

Test(prepare, strategies_that_cut_refuse_what_cannot_be_cut)
{
    static const char *const names[] = {"zero1", "zero2", "fsdp"};
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        cr_assert_eq(prepare_under(&f, names[i], NULL), WK_EINVAL);
        cr_assert(strstr(wk_last_error(f.ctx), "there is no optimizer"));
        close_all(&f);
        struct wk_optimizer *muon;
        struct wk_muon_options options = {1e-3, 0.95, true, 0.1, {1e-3, 0.9, 0.95, 1e-8, 0.1}};
        cr_assert_eq(wk_muon_new(&options, &muon), 0);
        cr_assert_eq(prepare_under(&f, names[i], muon), WK_EUNSUPPORTED);
        cr_assert(strstr(wk_last_error(f.ctx), "whole tensors"), "%s", wk_last_error(f.ctx));
        close_all(&f);
        wk_optimizer_free(muon);
    }
    struct fixture f;
    cr_assert_eq(prepare_under(&f, "ddp", NULL), 0);
    close_all(&f);
}

Test(prepare, objects_that_do_not_fit_together_are_refused)
{
    struct fixture f;
    open_with(&f, NULL);
    cr_assert_eq(wk_prepare_all(f.ctx, WK_OBJECT(f.optimizer)), WK_EINVAL);
    cr_assert(strstr(wk_last_error(f.ctx), "no model"));
    close_all(&f);

    open_with(&f, NULL);
    cr_assert_eq(wk_prepare_all(f.ctx, WK_OBJECT(f.model), WK_OBJECT(f.scheduler)), WK_EINVAL);
    cr_assert(strstr(wk_last_error(f.ctx), "optimizer is not prepared"));
    close_all(&f);

    open_with(&f, NULL);
    wk_loader_free(f.loader);
    struct wk_loader_options loader = {.source = f.source, .length = 9, .batch = 2};
    wk_loader_new(f.ctx, &loader, &f.loader);
    cr_assert_eq(prepare_all(&f), WK_EINVAL);
    cr_assert(strstr(wk_last_error(f.ctx), "context of 8"), "%s", wk_last_error(f.ctx));
    close_all(&f);
}

Test(prepare, a_failed_open_still_gives_a_context_that_explains)
{
    static const char *const pair[] = {"MUSTER_SEED", "many"};
    struct environment environment = {lookup, (void *)pair};
    struct context_seams seams = {.environment = &environment, .quiet = true};
    struct wk_context *ctx = NULL;
    cr_assert_eq(context_open(NULL, &seams, &ctx), WK_EINVAL);
    cr_assert_not_null(ctx);
    cr_assert(strstr(wk_last_error(ctx), "MUSTER_SEED"));
    cr_assert_eq(wk_close(ctx), WK_EXIT_CONFIG);
}

Test(prepare, a_gradient_that_is_not_finite_stops_before_the_parameters_are_touched)
{
    struct fixture f;
    struct wk_batch batch;
    open_with(&f, NULL);
    cr_assert_eq(prepare_all(&f), 0);
    cr_assert(wk_next(f.loader, &batch));
    wk_forward(f.model, &batch, NULL);
    wk_backward(f.model);
    float before = strategy_range(&unit_of_model(f.model)->strategy)->data[3];
    strategy_range(&unit_of_model(f.model)->strategy)->grads[7] = INFINITY;
    wk_clip_grad_norm(f.model, 1.0f, NULL);
    cr_assert_eq(wk_step(f.optimizer), WK_EOVERFLOW);
    cr_assert_eq(strategy_range(&unit_of_model(f.model)->strategy)->data[3], before);
    cr_assert_eq(wk_steps(f.ctx), 0);
    cr_assert_not(wk_next(f.loader, &batch));
    close_all(&f);
}

Test(prepare, an_evaluation_loader_takes_no_part_in_steps)
{
    struct fixture f;
    struct wk_batch batch;
    struct wk_loader *evaluation;
    open_with(&f, NULL);
    struct wk_loader_options options = {.source = f.source,
                                        .length = 8,
                                        .batch = 10,
                                        .epochs = 1,
                                        .sequential = true,
                                        .evaluation = true};
    cr_assert_eq(wk_loader_new(f.ctx, &options, &evaluation), 0);
    cr_assert_eq(wk_prepare_all(f.ctx, WK_OBJECT(f.model), WK_OBJECT(f.optimizer),
                                WK_OBJECT(f.loader), WK_OBJECT(evaluation)),
                 0);
    for (int round = 0; round < 3; round++) {
        int batches = 0;
        double loss, total = 0;
        if (round == 2) { /* one that is left before its end goes on, unless told otherwise */
            cr_assert(wk_next(evaluation, &batch));
            cr_assert_eq(wk_loader_position(evaluation), 10);
            cr_assert_eq(wk_loader_seek(evaluation, 0), 0);
        }
        while (wk_next(evaluation, &batch)) {
            wk_forward(f.model, &batch, &loss);
            total += loss;
            batches++;
        }
        cr_assert_eq(wk_reduce_value(f.ctx, &total, WK_SUM), 0);
        cr_assert_eq(batches, 5);
        cr_assert(wk_next(f.loader, &batch));
        wk_forward(f.model, &batch, NULL);
        wk_backward(f.model);
        wk_step(f.optimizer);
        cr_assert_eq(wk_steps(f.ctx), round + 1);
    }
    cr_assert_eq(wk_loader_seek(f.loader, 0), WK_ESTATE);
    wk_close(f.ctx);
    wk_loader_free(evaluation);
    f.ctx = NULL;
    wk_scheduler_free(f.scheduler);
    wk_optimizer_free(f.optimizer);
    wk_loader_free(f.loader);
    wk_source_free(f.source);
    wk_model_free(f.model);
}
