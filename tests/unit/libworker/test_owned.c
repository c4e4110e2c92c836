/* Objects that a context owns: freed with it (leaks are the sanitizers' matter), and the reason of
 * one that could not be made is the context's error. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/unit/libworker/small.h"

static const struct wk_gpt_config shape = {1, 1, 8, 8, 256};
static const struct wk_schedule_options steady = {.kind = WK_SCHEDULE_CONSTANT};
static const char text[] = "in the beginning was the word, and the word was with us, and so on";

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static struct wk_context *opened_with(const struct wk_options *options)
{
    static const struct environment empty = {.get = nothing};
    const struct context_seams seams = {.environment = &empty, .quiet = true};
    struct wk_context *ctx;
    cr_assert_eq(context_open(options, &seams, &ctx), 0);
    return ctx;
}

static struct wk_context *opened(void)
{
    return opened_with(NULL);
}

Test(owned, every_kind_is_made_prepared_and_freed)
{
    struct wk_context *ctx = opened();
    const struct wk_adamw_options adam = {1e-3, 0.9, 0.95, 1e-8, 0.1};
    const struct wk_llama_config llama = {.layers = 1,
                                          .heads = 2,
                                          .kv_heads = 1,
                                          .width = 8,
                                          .inner = 16,
                                          .context = 8,
                                          .vocab = 256,
                                          .rope_theta = 10000,
                                          .norm_epsilon = 1e-5,
                                          .tied = true};
    const struct wk_mlp_config mlp = {1, 2, 4, 8, 8, 256};
    float *data[1] = {NULL}, *grads[1] = {NULL};
    const struct wk_custom_options own = {
        .count = 1, .sizes = (const size_t[]){5}, .data = data, .grads = grads};
    struct wk_source *source;
    cr_assert_eq(wk_source_bytes(ctx, text, sizeof(text), &source), 0);
    struct wk_model *models[] = {wk_gpt_in(ctx, &shape), wk_llama_in(ctx, &llama),
                                 wk_mlp_in(ctx, &mlp), wk_custom_in(ctx, &own)};
    struct wk_optimizer *optimizers[] = {
        wk_adam_in(ctx, &adam), wk_adamw_in(ctx, &adam),
        wk_sgd_in(ctx, &(struct wk_sgd_options){.rate = 1}),
        wk_lion_in(ctx, &(struct wk_lion_options){1e-4, 0.9, 0.99, 0})};
    for (int i = 0; i < 4; i++) {
        cr_assert(models[i] && optimizers[i], "%d: %s", i, wk_last_error(ctx));
        cr_assert_eq(wk_optimizer_over(optimizers[i], models[i]), 0);
    }
    cr_assert(wk_scheduler_in(ctx, optimizers[0], &steady));
    const struct wk_loader_options deal = {source, 8, 2, .epochs = 1};
    struct wk_loader *loader = wk_loader_in(ctx, NULL, &deal);
    cr_assert(loader);
    cr_assert_eq(wk_prepare(ctx, NULL, 0), 0, "%s", wk_last_error(ctx));
    cr_expect(data[0] && data[0] == wk_parameter_data(models[3], 0));
    cr_expect(grads[0] && grads[0] == wk_parameter_grad(models[3], 0));
    cr_expect_eq(wk_prepare(ctx, NULL, 0), 0, "again changes nothing");
    struct wk_batch batch;
    cr_expect(wk_next(loader, &batch));
    wk_close(ctx);
    wk_source_free(source);
}

static struct wk_graph *line(int64_t out)
{
    struct wk_graph *g = wk_graph_new("line");
    struct wk_tensor *x = wk_graph_input(g, "x", WK_F32, WK_SHAPE(WK_SAMPLES, 2));
    struct wk_tensor *y = wk_graph_input(g, "y", WK_F32, WK_SHAPE(WK_SAMPLES, 1));
    wk_graph_loss(g, "loss", wk_op_squared_error(wk_layer_linear(x, "line", out), y), NULL);
    return g;
}

static const float points[] = {1, 2, 3, 4}, heights[] = {5, 6};
static const struct wk_field point_fields[] = {{"x", WK_F32, 1, {2}}, {"y", WK_F32, 1, {1}}};
static const void *const point_arrays[] = {points, heights};
static const struct wk_row_options two_points = {
    .count = 2, .fields = point_fields, .n_fields = 2, .arrays = point_arrays};

Test(owned, a_graph_and_rows_too)
{
    struct wk_context *ctx = opened();
    const struct wk_loader_options deal = {.batch = 2, .epochs = 1};
    struct wk_loader *loader = wk_rows_in(ctx, &two_points, &deal);
    struct wk_model *model = wk_graph_in(ctx, line(1));
    struct wk_batch batch;
    cr_assert(loader && model, "%s", wk_last_error(ctx));
    cr_assert(wk_sgd_in(ctx, &(struct wk_sgd_options){.rate = 0.1}));
    cr_assert(wk_next(loader, &batch));
    cr_expect_eq(wk_forward(model, &batch, NULL), 0, "%s", wk_last_error(ctx));
    cr_expect_eq(ctx->owned.count, 3);
    wk_close(ctx);
}

Test(owned, a_graph_that_cannot_be_built_is_the_contexts_error)
{
    struct wk_context *ctx = opened();
    cr_expect_null(wk_graph_in(ctx, line(3)));
    cr_expect(strstr(wk_last_error(ctx), "squared_error: "), "%s", wk_last_error(ctx));
    cr_expect_null(wk_graph_in(ctx, line(1)), "nothing is made after an error, and nothing leaks");
    cr_expect_null(wk_rows_in(ctx, &two_points, &(struct wk_loader_options){.batch = 2}));
    wk_close(ctx);
}

Test(owned, the_rest_of_the_optimizers_too)
{
    struct wk_context *ctx = opened();
    cr_expect(wk_adafactor_in(ctx, &(struct wk_adafactor_options){1e-3, 0.8, 1e-30, 1e-3, 1}));
    cr_expect(wk_muon_in(
        ctx, &(struct wk_muon_options){1e-3, 0.95, true, 0, {1e-3, 0.9, 0.95, 1e-8, 0}}));
    cr_expect(wk_optimizer_in(ctx, &(struct wk_optimizer_options){.rate = 1e-3}));
    cr_expect_eq(ctx->owned.count, 3);
    wk_close(ctx);
}

Test(owned, a_reason_is_the_contexts_error_and_stays_the_first)
{
    struct wk_context *ctx = opened();
    cr_expect_null(wk_sgd_in(ctx, &(struct wk_sgd_options){.rate = 0}));
    cr_expect_eq(wk_status(ctx), WK_EINVAL);
    cr_expect(strstr(wk_last_error(ctx), "rate"), "%s", wk_last_error(ctx));
    char first[1024];
    strcpy(first, wk_last_error(ctx));
    struct wk_model *model = wk_gpt_in(ctx, &shape);
    cr_expect_null(model, "nothing is made after an error");
    struct wk_loader *loader =
        wk_loader_in(ctx, "/nowhere", &(struct wk_loader_options){.batch = 1});
    cr_expect_null(loader);
    cr_expect_lt(wk_prepare(ctx, NULL, 0), 0);
    struct wk_batch batch;
    cr_expect_not(wk_next(loader, &batch));
    cr_expect_str_eq(wk_last_error(ctx), first);
    cr_expect_eq(wk_close(ctx), WK_EXIT_CONFIG);
    cr_expect_null(wk_gpt_in(NULL, &shape));
    cr_expect_eq(wk_prepare(NULL, NULL, 0), WK_EINVAL);
    cr_expect_eq(wk_finish(NULL), 1);
}

static const struct wk_loader_options short_deal = {.length = 4, .batch = 2, .batches = 2};

/* A context with a model, an optimizer and a loader of its own over `source`. */
static struct wk_context *filled(struct wk_source **ret_source, struct wk_loader **ret_loader)
{
    struct wk_context *ctx = opened();
    struct wk_loader_options deal = short_deal;
    cr_assert_eq(wk_source_bytes(ctx, text, sizeof(text) - 1, ret_source), 0);
    deal.source = *ret_source;
    *ret_loader = wk_loader_in(ctx, NULL, &deal);
    cr_assert(wk_gpt_in(ctx, &shape));
    cr_assert(wk_sgd_in(ctx, &(struct wk_sgd_options){.rate = 0.1}));
    return ctx;
}

Test(owned, what_a_context_owns_is_prepared_by_the_first_wk_next)
{
    struct wk_source *source = NULL;
    struct wk_loader *loader = NULL;
    struct wk_batch batch;
    struct wk_context *ctx = filled(&source, &loader);
    struct wk_model *model = ctx->owned.list[1].object;
    struct wk_optimizer *sgd = ctx->owned.list[2].object;
    for (int i = 0; i < 2; i++) {
        cr_assert(wk_next(loader, &batch), "%s", wk_last_error(ctx));
        cr_expect_eq(wk_forward(model, &batch, NULL), 0);
        cr_expect_eq(wk_backward(model), 0);
        cr_expect_eq(wk_step(sgd), 0, "%s", wk_last_error(ctx));
    }
    cr_expect_not(wk_next(loader, &batch));
    cr_expect_eq(wk_steps(ctx), 2);
    struct wk_loader *late = wk_loader_in(ctx, NULL, &(struct wk_loader_options){source, 4, 2});
    cr_expect_not(wk_next(late, &batch));
    cr_expect_str_eq(wk_last_error(ctx), "wk_next of a loader that wk_prepare was not given");
    wk_close(ctx);
    wk_source_free(source);
}

Test(owned, what_a_context_owns_is_prepared_by_the_first_wk_join)
{
    struct wk_source *source = NULL;
    struct wk_loader *loader = NULL;
    struct wk_context *ctx = filled(&source, &loader);
    cr_expect(wk_join(ctx, 1), "%s", wk_last_error(ctx));
    wk_close(ctx);
    wk_source_free(source);
}

Test(owned, what_cannot_be_prepared_ends_the_loop_with_the_reason)
{
    struct wk_source *source = NULL;
    struct wk_batch batch;
    struct wk_context *ctx = opened();
    struct wk_loader_options deal = short_deal;
    cr_assert_eq(wk_source_bytes(ctx, text, sizeof(text) - 1, &source), 0);
    deal.source = source;
    cr_expect_not(wk_next(wk_loader_in(ctx, NULL, &deal), &batch));
    cr_expect_str_eq(wk_last_error(ctx), "prepare: there is no model to train");
    cr_expect_eq(wk_close(ctx), WK_EXIT_CONFIG);
    wk_source_free(source);
    ctx = opened();
    cr_expect_not(wk_join(ctx, 1));
    cr_expect_str_eq(wk_last_error(ctx), "wk_join before wk_prepare");
    wk_close(ctx);
    cr_expect_not(wk_join(NULL, 1));
    cr_expect_str_eq(wk_last_error(NULL), "wk_join in NULL instead of a context");
}

static void keep_notice(void *arg, const char *sentence)
{
    (void)snprintf(arg, 256, "%s", sentence);
}

Test(owned, a_loop_that_never_steps_is_told_so)
{
    char last[256] = "";
    struct wk_options options = {.notice = keep_notice, .notice_arg = last};
    struct wk_context *ctx = opened_with(&options);
    struct wk_source *source = NULL;
    struct wk_batch batch;
    struct wk_loader_options deal = short_deal;
    cr_assert_eq(wk_source_bytes(ctx, text, sizeof(text) - 1, &source), 0);
    deal.source = source;
    struct wk_loader *loader = wk_loader_in(ctx, NULL, &deal);
    cr_assert(wk_gpt_in(ctx, &shape));
    cr_assert(wk_sgd_in(ctx, &(struct wk_sgd_options){.rate = 0.1}));
    while (wk_next(loader, &batch))
        ;
    cr_expect_eq(wk_close(ctx), 0);
    cr_expect(strstr(last, "without a step"), "%s", last);
    wk_source_free(source);
}

#define WITHOUT(name, call)                                                                        \
    static const void *without_##name(struct wk_context *ctx)                                      \
    {                                                                                              \
        return call;                                                                               \
    }
WITHOUT(gpt, wk_gpt_in(ctx, NULL))
WITHOUT(llama, wk_llama_in(ctx, NULL))
WITHOUT(mlp, wk_mlp_in(ctx, NULL))
WITHOUT(custom, wk_custom_in(ctx, NULL))
WITHOUT(loader, wk_loader_in(ctx, NULL, NULL))
WITHOUT(rows, wk_rows_in(ctx, NULL, NULL))
WITHOUT(dealt, wk_rows_in(ctx, &two_points, NULL))
WITHOUT(file, wk_loader_in(ctx, "text", NULL))
WITHOUT(adam, wk_adam_in(ctx, NULL))
WITHOUT(adamw, wk_adamw_in(ctx, NULL))
WITHOUT(sgd, wk_sgd_in(ctx, NULL))
WITHOUT(lion, wk_lion_in(ctx, NULL))
WITHOUT(adafactor, wk_adafactor_in(ctx, NULL))
WITHOUT(muon, wk_muon_in(ctx, NULL))
WITHOUT(optimizer, wk_optimizer_in(ctx, NULL))
WITHOUT(schedule, wk_scheduler_in(ctx, wk_sgd_in(ctx, &(struct wk_sgd_options){.rate = 1}), NULL))

Test(owned, options_that_are_null_are_refused)
{
    static const struct {
        const void *(*make)(struct wk_context *ctx);
        const char *words;
    } rows[] = {
        {without_gpt, "a model's config is NULL"},
        {without_llama, "a model's config is NULL"},
        {without_mlp, "a model's config is NULL"},
        {without_custom, "a model's options are NULL"},
        {without_loader, "a loader's options are NULL"},
        {without_rows, "the options of a source of rows are NULL"},
        {without_dealt, "a loader's options are NULL"},
        {without_file, "a loader's options are NULL"},
        {without_adam, "an optimizer's options are NULL"},
        {without_adamw, "an optimizer's options are NULL"},
        {without_sgd, "an optimizer's options are NULL"},
        {without_lion, "an optimizer's options are NULL"},
        {without_adafactor, "an optimizer's options are NULL"},
        {without_muon, "an optimizer's options are NULL"},
        {without_optimizer, "an optimizer's options are NULL"},
        {without_schedule, "a schedule's options are NULL"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wk_context *ctx = opened();
        cr_expect_null(rows[i].make(ctx), "row %zu", i);
        cr_expect_eq(wk_status(ctx), WK_EINVAL, "row %zu", i);
        cr_expect_str_eq(wk_last_error(ctx), rows[i].words, "row %zu", i);
        cr_expect_null(rows[i].make(NULL), "row %zu", i);
        cr_expect_eq(wk_close(ctx), WK_EXIT_CONFIG);
    }
}

Test(owned, a_reason_names_the_option_that_is_missing)
{
    static const struct {
        struct wk_loader_options options;
        const char *words;
    } rows[] = {
        {{.batch = 2}, "length is 0: it must be at least 1"},
        {{.length = 4}, "batch is 0: it must be at least 1"},
        {{.length = 4, .batch = 2, .epochs = -1}, "epochs is -1: it must be at least 0"},
        {{.length = 4, .batch = 2, .batches = -1}, "batches is -1: it must be at least 0"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wk_context *ctx = opened();
        struct wk_loader_options options = rows[i].options;
        struct wk_source *source = NULL;
        cr_assert_eq(wk_source_bytes(ctx, "in the beginning", 16, &source), 0);
        options.source = source;
        cr_expect_null(wk_loader_in(ctx, NULL, &options));
        cr_expect_str_eq(wk_last_error(ctx), rows[i].words);
        (void)wk_close(ctx);
        wk_source_free(source);
    }
    struct wk_context *ctx = opened();
    cr_expect_null(wk_custom_in(ctx, &(struct wk_custom_options){.count = 2}));
    cr_expect_str_eq(wk_last_error(ctx), "a model of 2 parameters needs its buffers or its sizes");
    (void)wk_close(ctx);
}

Test(owned, a_file_that_is_not_there_is_named)
{
    struct wk_context *ctx = opened();
    const struct wk_loader_options deal = {.length = 8, .batch = 2};
    cr_expect_null(wk_loader_in(ctx, "/nowhere/text", &deal));
    cr_expect_eq(wk_status(ctx), WK_ENOTFOUND);
    cr_expect(strstr(wk_last_error(ctx), "/nowhere/text"), "%s", wk_last_error(ctx));
    wk_close(ctx);
}

Test(owned, what_was_made_otherwise_can_be_given_to_it_once)
{
    struct wk_context *ctx = opened();
    struct wk_model *model;
    cr_assert_eq(wk_gpt_new(&shape, &model), 0);
    cr_expect_eq(wk_own(ctx, WK_OBJECT(model)), 0);
    cr_expect_eq(wk_own(ctx, WK_OBJECT(model)), 0);
    cr_expect_eq(wk_own(ctx, WK_OBJECT((struct wk_loader *)NULL)), 0);
    cr_expect_eq(wk_own(NULL, WK_OBJECT(model)), WK_EINVAL);
    cr_expect_eq(ctx->owned.count, 1);
    wk_close(ctx);
}

/* The order of programs that own their objects, before wk_close: it goes on with all of them. */
Test(owned, what_the_program_frees_is_freed_once_with_the_context)
{
    struct wk_context *ctx = opened();
    struct wk_source *source;
    cr_assert_eq(wk_source_bytes(ctx, text, sizeof(text), &source), 0);
    const struct wk_loader_options deal = {source, 8, 2, .epochs = 1};
    struct wk_model *model = wk_gpt_in(ctx, &shape);
    struct wk_optimizer *optimizer = wk_sgd_in(ctx, &(struct wk_sgd_options){.rate = 1});
    struct wk_scheduler *scheduler = wk_scheduler_in(ctx, optimizer, &steady);
    struct wk_loader *loader = wk_loader_in(ctx, NULL, &deal);
    cr_assert_eq(wk_prepare(ctx, NULL, 0), 0, "%s", wk_last_error(ctx));
    for (int times = 0; times < 2; times++) {
        wk_scheduler_free(scheduler);
        wk_optimizer_free(optimizer);
        wk_loader_free(loader);
        wk_model_free(model);
    }
    struct wk_batch batch;
    cr_assert(wk_next(loader, &batch));
    cr_expect_eq(wk_forward(model, &batch, NULL), 0);
    cr_expect_eq(wk_backward(model), 0);
    cr_expect_eq(wk_step(optimizer), 0);
    cr_expect_eq(wk_scheduler_step(scheduler), 0);
    cr_expect_eq(wk_steps(ctx), 1);
    cr_expect_eq(wk_close(ctx), 0);
    wk_source_free(source);
}

/* Those of the other context stay as they are; `kind` names the refused. */
static void expect_other(struct wk_context *ctx, struct wk_object object, const char *kind)
{
    struct wk_context *other = opened();
    cr_expect_eq(wk_own(other, object), WK_ESTATE);
    cr_expect(strstr(wk_last_error(other), "another context") && strstr(wk_last_error(other), kind),
              "%s", wk_last_error(other));
    cr_expect_eq(other->owned.count, 0);
    wk_close(other);
    cr_expect_eq(wk_status(ctx), 0);
}

Test(owned, what_one_context_owns_no_other_one_takes)
{
    struct wk_context *ctx = opened();
    struct wk_source *source;
    cr_assert_eq(wk_source_bytes(ctx, text, sizeof(text), &source), 0);
    const struct wk_loader_options deal = {source, 8, 2, .epochs = 1};
    struct wk_model *model = wk_gpt_in(ctx, &shape);
    struct wk_optimizer *optimizer = wk_sgd_in(ctx, &(struct wk_sgd_options){.rate = 1});
    expect_other(ctx, WK_OBJECT(model), "a model");
    expect_other(ctx, WK_OBJECT(optimizer), "an optimizer");
    expect_other(ctx, WK_OBJECT(wk_scheduler_in(ctx, optimizer, &steady)), "a scheduler");
    expect_other(ctx, WK_OBJECT(wk_loader_in(ctx, NULL, &deal)), "a loader");
    cr_expect_eq(wk_close(ctx), 0);
    wk_source_free(source);
}

/* One context would free what the other one uses. */
Test(owned, what_one_context_owns_no_other_one_prepares)
{
    struct wk_context *ctx = opened(), *other = opened();
    struct wk_model *model = wk_gpt_in(ctx, &shape);
    struct wk_optimizer *optimizer = wk_sgd_in(other, &(struct wk_sgd_options){.rate = 1});
    cr_expect_eq(wk_prepare_all(other, WK_OBJECT(model), WK_OBJECT(optimizer)), WK_ESTATE);
    cr_expect(strstr(wk_last_error(other), "a model that another context owns"), "%s",
              wk_last_error(other));
    cr_expect_eq(wk_status(ctx), 0);
    wk_close(ctx);
    wk_close(other);
}

Test(owned, what_another_context_has_prepared_is_not_taken)
{
    struct small s;
    small_open(&s, NULL);
    cr_assert_eq(small_prepare(&s), 0);
    expect_other(s.ctx, WK_OBJECT(s.model), "a model");
    expect_other(s.ctx, WK_OBJECT(s.optimizer), "an optimizer");
    expect_other(s.ctx, WK_OBJECT(s.loader), "a loader");
    expect_other(s.ctx, WK_OBJECT(s.scheduler), "a scheduler");
    cr_expect_eq(wk_own(s.ctx, WK_OBJECT(s.scheduler)), 0, "its own it takes");
    wk_close(s.ctx);
    s.ctx = NULL;
    s.scheduler = NULL;
    wk_optimizer_free(s.optimizer);
    wk_loader_free(s.loader);
    wk_source_free(s.source);
    wk_model_free(s.model);
}

Test(owned, has_a_limit_that_is_said)
{
    struct wk_context *ctx = opened();
    const struct wk_sgd_options sgd = {.rate = 1};
    for (int i = 0; i < WK_OWNED_MAX; i++)
        cr_assert(wk_sgd_in(ctx, &sgd));
    cr_expect_null(wk_sgd_in(ctx, &sgd));
    cr_expect_eq(wk_status(ctx), WK_ENOMEM);
    cr_expect(strstr(wk_last_error(ctx), "64 objects"), "%s", wk_last_error(ctx));
    wk_close(ctx);
}

Test(owned, means_over_shares_and_updates_are_for_passes_of_the_programs_own)
{
    struct small s;
    small_open(&s, (const char *const[]){"total_steps=2", NULL});
    cr_expect_eq(wk_mean_of_share(s.model, true), WK_EINVAL);
    cr_expect_eq(wk_mean_of_share(NULL, true), WK_EINVAL);
    cr_expect_eq(wk_bind_parameters(NULL, NULL, NULL), WK_EINVAL);
    cr_expect_eq(wk_update(NULL, 0), WK_EINVAL);
    cr_expect_eq(wk_update(s.optimizer, 0), WK_ESTATE);
    cr_assert_eq(small_prepare(&s), 0);
    struct wk_batch batch;
    cr_assert(wk_next(s.loader, &batch));
    cr_expect_eq(wk_update(s.optimizer, 0), WK_EINVAL);
    cr_expect(strstr(wk_last_error(s.ctx), "wk_backward and wk_step"), "%s", wk_last_error(s.ctx));
    small_close(&s);
}
