/* Misuse is refused with a reason, never undefined: each row does one thing wrong in a context of
 * its own and names the code and the words of the refusal. After it every call returns the same
 * error.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/unit/libworker/small.h"

static struct wk_batch batch;

static int prepare_everything(struct small *s)
{
    return small_prepare(s);
}

static int pass(struct small *s)
{
    if (!wk_next(s->loader, &batch))
        return wk_status(s->ctx);
    wk_forward(s->model, &batch, NULL);
    return wk_backward(s->model);
}

static int no_optimizer(struct small *s)
{
    return wk_prepare_all(s->ctx, WK_OBJECT(s->model), WK_OBJECT(s->loader));
}

static int no_model(struct small *s)
{
    return wk_prepare_all(s->ctx, WK_OBJECT(s->optimizer));
}

static int nothing_at_all(struct small *s)
{
    return wk_prepare_all(s->ctx, WK_OBJECT((struct wk_model *)NULL));
}

static int scheduler_alone(struct small *s)
{
    return wk_prepare_all(s->ctx, WK_OBJECT(s->model), WK_OBJECT(s->scheduler));
}

static int prepare_more_later(struct small *s)
{
    int rc = wk_prepare_all(s->ctx, WK_OBJECT(s->model));
    return rc ? rc : wk_prepare_all(s->ctx, WK_OBJECT(s->loader));
}

/* What belongs to another context, of another world or not, stays there. */
static int elsewhere(struct small *s, const struct wk_object *object)
{
    struct small other;
    small_open(&other, NULL);
    cr_assert_eq(small_prepare(&other), 0);
    struct wk_object objects[] = {WK_OBJECT(other.model), WK_OBJECT(other.loader),
                                  WK_OBJECT(other.optimizer)};
    struct wk_object own[] = {WK_OBJECT(s->model), WK_OBJECT(s->optimizer), *object};
    for (int i = 0; i < 3; i++)
        if (object->kind == objects[i].kind)
            own[2] = objects[i];
    if (object->kind == WK_OBJECT_OPTIMIZER)
        own[1] = own[0];
    int rc = wk_prepare(s->ctx, object->kind == WK_OBJECT_MODEL ? own + 2 : own,
                        object->kind == WK_OBJECT_MODEL ? 1 : 3);
    /* And trains on. */
    cr_assert_eq(pass(&other), 0);
    cr_assert_eq(wk_step(other.optimizer), 0);
    small_close(&other);
    return rc;
}

static int model_of_another(struct small *s)
{
    return elsewhere(s, &(struct wk_object){.kind = WK_OBJECT_MODEL});
}

static int loader_of_another(struct small *s)
{
    return elsewhere(s, &(struct wk_object){.kind = WK_OBJECT_LOADER});
}

static int optimizer_of_another(struct small *s)
{
    return elsewhere(s, &(struct wk_object){.kind = WK_OBJECT_OPTIMIZER});
}

static int samples_too_long(struct small *s)
{
    wk_loader_free(s->loader);
    struct wk_loader_options options = {.source = s->source, .length = 9, .batch = 2};
    wk_loader_new(s->ctx, &options, &s->loader);
    return small_prepare(s);
}

static int batch_too_long(struct small *s)
{
    static const int32_t tokens[32];
    struct wk_batch own = {.tokens = tokens, .targets = tokens, .samples = 2, .length = 16};
    small_prepare(s);
    return wk_forward(s->model, &own, NULL);
}

static int unknown_token(struct small *s)
{
    static const int32_t tokens[8] = {0, 1, 2, 128};
    struct wk_batch own = {.tokens = tokens, .targets = tokens, .samples = 1, .length = 8};
    small_prepare(s);
    return wk_forward(s->model, &own, NULL);
}

/* Kept until the row is over: a context's objects outlive it. */
static struct wk_model *custom;

static int whole_tensors(struct small *s)
{
    struct wk_muon_options options = {1e-3, 0.95, true, 0.1, {1e-3, 0.9, 0.95, 1e-8, 0.1}};
    wk_scheduler_free(s->scheduler);
    wk_optimizer_free(s->optimizer);
    s->scheduler = NULL;
    cr_assert_eq(wk_muon_new(&options, &s->optimizer), 0);
    return wk_prepare_all(s->ctx, WK_OBJECT(s->model), WK_OBJECT(s->optimizer));
}

static int never_ready(struct small *s)
{
    struct wk_buffer buffers[] = {{.name = "a", .dims = 1, .shape = {4}},
                                  {.name = "b", .dims = 1, .shape = {5}}};
    cr_assert_eq(wk_custom_new(buffers, 2, &custom), 0);
    wk_prepare_all(s->ctx, WK_OBJECT(custom), WK_OBJECT(s->optimizer), WK_OBJECT(s->loader));
    cr_assert(wk_next(s->loader, &batch), "%s", wk_last_error(s->ctx));
    cr_assert_eq(wk_grad_ready(custom, 2), WK_EINVAL);
    wk_grad_ready(custom, 1); /* twice is once, 0 never */
    wk_grad_ready(custom, 1);
    wk_backward(custom);
    return wk_step(s->optimizer);
}

static int forward_of_custom(struct small *s)
{
    struct wk_buffer buffer = {.name = "w", .dims = 1, .shape = {4}};
    cr_assert_eq(wk_custom_new(&buffer, 1, &custom), 0);
    wk_prepare_all(s->ctx, WK_OBJECT(custom), WK_OBJECT(s->optimizer), WK_OBJECT(s->loader));
    cr_assert(wk_next(s->loader, &batch), "%s", wk_last_error(s->ctx));
    return wk_forward(custom, &batch, NULL);
}

static int backward_alone(struct small *s)
{
    small_prepare(s);
    return wk_backward(s->model);
}

static int backward_twice(struct small *s)
{
    small_prepare(s);
    pass(s);
    return wk_backward(s->model);
}

static int pass_after_the_last(struct small *s)
{
    small_prepare(s);
    pass(s);
    return pass(s);
}

static int step_alone(struct small *s)
{
    small_prepare(s);
    return wk_step(s->optimizer);
}

static int step_twice(struct small *s)
{
    small_prepare(s);
    pass(s);
    wk_step(s->optimizer);
    return wk_step(s->optimizer);
}

static int loss_nan(struct small *s)
{
    small_prepare(s);
    wk_parameter_data(s->model, wk_model_parameters(s->model) - 1)[0] = NAN;
    pass(s);
    return wk_step(s->optimizer);
}

static int overflow_always(struct small *s)
{
    int steps = 0;
    small_prepare(s);
    for (; !wk_status(s->ctx) && steps < 100; steps++) {
        if (!wk_next(s->loader, &batch))
            break;
        wk_forward(s->model, &batch, NULL);
        small_range(s)->grads[3] = INFINITY;
        wk_backward(s->model);
        wk_step(s->optimizer);
    }
    cr_assert_eq(steps, 31); /* 2^16 to 2^-14, and once more */
    cr_assert_eq(wk_steps(s->ctx), 0);
    return wk_status(s->ctx);
}

static int clip_by_nothing(struct small *s)
{
    small_prepare(s);
    pass(s);
    return wk_clip_grad_value(s->model, 0);
}

static int clip_below_nothing(struct small *s)
{
    small_prepare(s);
    pass(s);
    return wk_clip_grad_norm(s->model, -1, NULL);
}

static int group_too_late(struct small *s)
{
    struct wk_group group = {.pattern = "*.bias", .rate_scale = 1};
    small_prepare(s);
    return wk_optimizer_group(s->optimizer, &group);
}

static int seed_too_late(struct small *s)
{
    small_prepare(s);
    return wk_model_init(s->model, 1);
}

static int no_loader(struct small *s)
{
    cr_assert_eq(wk_prepare_all(s->ctx, WK_OBJECT(s->model), WK_OBJECT(s->optimizer)), 0);
    cr_assert_not(wk_next(s->loader, &batch));
    return wk_status(s->ctx);
}

static int no_scheduler(struct small *s)
{
    wk_prepare_all(s->ctx, WK_OBJECT(s->model), WK_OBJECT(s->optimizer), WK_OBJECT(s->loader));
    pass(s);
    wk_step(s->optimizer);
    return wk_scheduler_step(s->scheduler);
}

static int no_batch_to_fill(struct small *s)
{
    small_prepare(s);
    cr_assert_not(wk_next(s->loader, NULL));
    return wk_status(s->ctx);
}

static int forward_of_nothing(struct small *s)
{
    small_prepare(s);
    return wk_forward(s->model, NULL, NULL);
}

static int save_to_nowhere(struct small *s)
{
    small_prepare(s);
    return wk_save(s->ctx);
}

static int seek_while_training(struct small *s)
{
    small_prepare(s);
    return wk_loader_seek(s->loader, 0);
}

enum { SETTINGS = 4 };

static const struct row {
    int (*misuse)(struct small *);
    const char *settings[SETTINGS];
    int code;
    const char *words;
} rows[] = {
    {no_optimizer, {"strategy=fsdp"}, WK_EINVAL, "strategy fsdp cuts a model together with"},
    {no_optimizer, {"strategy=zero1"}, WK_EINVAL, "there is no optimizer"},
    {no_model, {0}, WK_EINVAL, "there is no model to train"},
    {nothing_at_all, {0}, WK_EINVAL, "was given NULL"},
    {scheduler_alone, {0}, WK_EINVAL, "a scheduler's optimizer is not prepared with it"},
    {prepare_more_later, {0}, WK_ESTATE, "prepare everything in one call"},
    {model_of_another, {0}, WK_ESTATE, "the model is prepared in another context"},
    {loader_of_another, {0}, WK_ESTATE, "a loader is prepared in another context"},
    {optimizer_of_another, {0}, WK_ESTATE, "the optimizer is prepared in another context"},
    {samples_too_long, {0}, WK_EINVAL, "samples of 9 tokens do not fit the model's context of 8"},
    {batch_too_long, {0}, WK_EINVAL, "samples of length 16 do not fit the model's context of 8"},
    {unknown_token, {0}, WK_EINVAL, "input tokens: 128 at element 3 is outside 0 to 127"},
    {whole_tensors,
     {"strategy=zero2"},
     WK_EUNSUPPORTED,
     "whole tensors, which strategy zero2 cuts"},
    {never_ready, {0}, WK_ESTATE, "(on 0 of 1); announce all of them (wk_grad_ready), or none"},
    {forward_of_custom, {0}, WK_EUNSUPPORTED, "passes are the program's own"},
    {backward_alone, {0}, WK_ESTATE, "a backward pass without a forward pass"},
    {backward_twice, {0}, WK_ESTATE, "call wk_step first"},
    {pass_after_the_last, {0}, WK_ESTATE, "the gradients of model 1 were not used"},
    {step_alone, {0}, WK_ESTATE, "wk_step without wk_backward"},
    {step_twice, {0}, WK_ESTATE, "wk_step without wk_backward"},
    {loss_nan, {0}, WK_EOVERFLOW, "step 1 is not done: the loss (nan)"},
    {loss_nan, {"mixed_precision=bf16"}, WK_EOVERFLOW, "step 1 is not done: the loss (nan)"},
    {overflow_always, {"mixed_precision=fp16"}, WK_EOVERFLOW, "a loss scale of 6.10352e-05"},
    {clip_by_nothing, {0}, WK_EINVAL, "needs a limit above 0"},
    {clip_below_nothing, {0}, WK_EINVAL, "wk_clip_grad_norm needs a limit above 0, or 0"},
    {group_too_late, {0}, WK_ESTATE, "wk_optimizer_group after wk_prepare"},
    {seed_too_late, {0}, WK_ESTATE, "wk_model_init after wk_prepare"},
    {no_loader, {0}, WK_ESTATE, "wk_next of a loader that wk_prepare was not given"},
    {no_scheduler,
     {0},
     WK_ESTATE,
     "wk_scheduler_step of a scheduler that wk_prepare was not given"},
    {no_batch_to_fill, {0}, WK_EINVAL, "wk_next was given no batch to fill"},
    {forward_of_nothing, {0}, WK_EINVAL, "wk_forward was given no batch"},
    {save_to_nowhere, {0}, WK_ESTATE, "wk_save without a checkpoint.dir"},
    {seek_while_training, {0}, WK_ESTATE, "wk_loader_seek of a training loader"},

    /* Settings that contradict each other or the world. */
    {prepare_everything, {"mixed_precision=fp8"}, WK_EUNSUPPORTED, "which has bf16 or fp16"},
    {prepare_everything, {"stochastic_rounding=true"}, WK_EINVAL, "it needs bf16"},
    {prepare_everything,
     {"stochastic_rounding=true", "mixed_precision=fp16"},
     WK_EINVAL,
     "contradicts mixed_precision fp16: it needs bf16"},
    {prepare_everything,
     {"loss_scale.interval=5", "mixed_precision=bf16"},
     WK_EINVAL,
     "loss_scale.interval 5 contradicts mixed_precision bf16: it needs fp16"},
    {prepare_everything,
     {"low_gradients=true", "mixed_precision=bf16"},
     WK_EINVAL,
     "contradicts strategy ddp: it needs zero1, zero2 or fsdp"},
    {prepare_everything,
     {"low_gradients=true", "strategy=zero1"},
     WK_EINVAL,
     "contradicts mixed_precision no: it needs bf16 or fp16"},
    {prepare_everything, {"mesh.dp_shard=2"}, WK_EINVAL, "contradicts strategy ddp"},
    {prepare_everything, {"mesh.dp=2"}, WK_EINVAL, "mesh.dp is 2, but there are 1 ranks"},
};

Test(misuse, is_refused_with_the_code_and_the_reason)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        const char *settings[SETTINGS + 1] = {NULL};
        struct small s;
        memcpy(settings, row->settings, sizeof(row->settings));
        small_open(&s, settings);
        cr_assert_eq(wk_status(s.ctx), 0, "row %zu: %s", i, wk_last_error(s.ctx));
        int code = row->misuse(&s);
        cr_expect_eq(code, row->code, "row %zu: %d: %s", i, code, wk_last_error(s.ctx));
        cr_expect(strstr(wk_last_error(s.ctx), row->words), "row %zu: %s", i, wk_last_error(s.ctx));
        /* The error stays, and nothing happens any more. */
        cr_expect_eq(wk_prepare_all(s.ctx, WK_OBJECT(s.model)), row->code);
        cr_expect_not(wk_next(s.loader, &batch));
        /* What the program would do again is not tried again. */
        bool unfit = row->code != WK_EOVERFLOW && !wk_steps(s.ctx);
        cr_expect_eq(wk_close(s.ctx), unfit ? WK_EXIT_CONFIG : 1, "row %zu", i);
        s.ctx = NULL;
        small_close(&s);
        wk_model_free(custom);
        custom = NULL;
    }
}

/* What could not be made is NULL: the loop needs no checks. */
Test(misuse, calls_on_what_was_not_made_are_refused)
{
    static const struct wk_schedule_options endless = {.kind = WK_SCHEDULE_LINEAR};
    struct wk_model *model = NULL;
    struct wk_scheduler *scheduler = (struct wk_scheduler *)&batch;
    double loss;
    float norm;
    struct small s;
    small_open(&s, NULL);
    cr_assert_eq(wk_scheduler_new(s.optimizer, &endless, &scheduler), WK_EINVAL);
    cr_expect_null(scheduler);
    cr_expect_not(wk_next(NULL, &batch));
    cr_expect_eq(wk_find_batch(NULL, NULL, NULL), WK_EINVAL);
    cr_expect_eq(wk_loader_seek(NULL, 0), WK_EINVAL);
    cr_expect_eq(wk_forward(model, &batch, &loss), WK_EINVAL);
    cr_expect_eq(wk_backward(model), WK_EINVAL);
    cr_expect_eq(wk_set_loss(model, 1), WK_EINVAL);
    cr_expect_eq(wk_gather_parameters(model), WK_EINVAL);
    cr_expect_eq(wk_no_sync(model, true), WK_EINVAL);
    cr_expect_eq(wk_set_gradient_hook(model, NULL), WK_EINVAL);
    cr_expect_eq(wk_grad_ready(model, 0), WK_EINVAL);
    cr_expect_eq(wk_clip_grad_norm(model, 1, &norm), WK_EINVAL);
    cr_expect_eq(wk_clip_grad_value(model, 1), WK_EINVAL);
    cr_expect_eq(wk_step(NULL), WK_EINVAL);
    cr_expect_eq(wk_scheduler_step(scheduler), WK_EINVAL);
    /* Made, but of no context. */
    cr_expect_eq(wk_forward(s.model, &batch, &loss), WK_ESTATE);
    cr_expect_eq(wk_step(s.optimizer), WK_ESTATE);
    cr_expect_eq(wk_scheduler_step(s.scheduler), WK_ESTATE);
    cr_expect_eq(wk_find_batch(s.loader, NULL, NULL), WK_ESTATE);
    small_close(&s);
}

/* A loader outlives the context it was made in. */
Test(misuse, a_forgotten_loader_behind_the_end_is_only_over)
{
    struct small s;
    small_open(&s, NULL);
    cr_assert_eq(wk_close(s.ctx), 0);
    cr_expect_not(wk_next(s.loader, &batch));
    cr_expect_str_eq(wk_last_error(NULL), "wk_next of a loader that wk_prepare was not given");
    s.ctx = NULL;
    small_close(&s);
}

Test(misuse, a_loader_without_a_context_leaves_its_reason)
{
    struct wk_source *source;
    struct wk_loader *loader = NULL;
    struct wk_batch batch;
    cr_expect_eq(wk_source_bytes(NULL, "", 0, &source), WK_EINVAL);
    cr_expect_str_eq(wk_last_error(NULL), "a text without a byte has no samples");
    cr_assert_eq(wk_source_bytes(NULL, "in the beginning", 16, &source), 0);
    struct wk_loader_options options = {.source = source, .length = 16, .batch = 1};
    cr_expect_eq(wk_loader_new(NULL, &options, &loader), WK_EINVAL);
    cr_expect_str_eq(wk_last_error(NULL),
                     "16 tokens are too few for a sample of 16 and its successor");
    options.length = 4;
    cr_assert_eq(wk_loader_new(NULL, &options, &loader), 0);
    cr_expect_eq(wk_loader_seek(loader, -1), WK_EINVAL);
    cr_expect_str_eq(wk_last_error(NULL), "wk_loader_seek to sample -1");
    cr_expect_not(wk_next(loader, &batch));
    cr_expect_str_eq(wk_last_error(NULL), "wk_next of a loader that wk_prepare was not given");
    cr_expect_not(wk_next(NULL, &batch));
    cr_expect_str_eq(wk_last_error(NULL), "wk_next of NULL instead of a loader: 16 tokens are too "
                                          "few for a sample of 16 and its successor");
    wk_loader_free(loader);
    wk_source_free(source);
}

/* What has no context to keep its reason tells it to the thread. */
Test(misuse, a_constructor_without_a_context_leaves_its_reason)
{
    struct wk_gpt_config gpt = {.layers = 2, .heads = 3, .width = 32, .context = 8, .vocab = 16};
    struct wk_adamw_options adam = {.rate = 1e-3, .beta1 = 0.9, .beta2 = 1.5, .epsilon = 1e-8};
    struct wk_schedule_options schedule = {.kind = WK_SCHEDULE_COSINE, .warmup_steps = 10};
    struct wk_buffer buffers[] = {{.name = "w", .dims = 1, .shape = {4}},
                                  {.name = "w", .dims = 1, .shape = {4}}};
    struct wk_model *model = NULL;
    struct wk_optimizer *optimizer = NULL;
    struct wk_scheduler *scheduler = NULL;
    cr_expect_eq(wk_gpt_new(&gpt, &model), WK_EINVAL);
    cr_expect_str_eq(wk_last_error(NULL), "3 heads do not divide a width of 32");
    gpt.heads = 0;
    cr_expect_eq(wk_gpt_new(&gpt, &model), WK_EINVAL);
    cr_expect_str_eq(wk_last_error(NULL), "heads is 0, outside 1 to 65536");
    cr_expect_eq(wk_adamw_new(&adam, &optimizer), WK_EINVAL);
    cr_expect_str_eq(wk_last_error(NULL), "beta2 is 1.5: it must be in [0, 1)");
    cr_expect_eq(wk_custom_new(buffers, 2, &model), WK_EINVAL);
    cr_expect_str_eq(wk_last_error(NULL), "two buffers are called w");
    buffers[1] = (struct wk_buffer){"v", 1, {4}, .narrow = 8};
    cr_expect_eq(wk_custom_new(buffers, 2, &model), WK_EINVAL);
    cr_expect_str_eq(wk_last_error(NULL), "buffer v: narrow is 0x8");
    adam.beta2 = 0.95;
    cr_assert_eq(wk_adamw_new(&adam, &optimizer), 0);
    cr_expect_eq(wk_scheduler_new(optimizer, &schedule, &scheduler), WK_EINVAL);
    cr_expect_str_eq(wk_last_error(NULL), "total_steps is 0: it must be above warmup_steps, 10");
    wk_optimizer_free(optimizer);
}

Test(misuse, what_is_null_where_something_is_read_is_refused)
{
    struct wk_source *source = NULL;
    struct wk_optimizer *optimizer = NULL;
    struct small s;
    cr_expect_eq(wk_source_open(NULL, NULL, WK_SOURCE_TEXT, &source), WK_EINVAL);
    cr_expect_str_eq(wk_last_error(NULL), "data without a path");
    cr_expect_eq(wk_source_bytes(NULL, NULL, 16, &source), WK_EINVAL);
    cr_expect_str_eq(wk_last_error(NULL), "the text of 16 bytes is NULL");
    cr_expect_eq(wk_optimizer_new(NULL, &(struct wk_optimizer_options){.rate = 1}, &optimizer),
                 WK_EINVAL);
    cr_expect_str_eq(wk_last_error(NULL), "wk_optimizer_new in NULL instead of a context");
    small_open(&s, NULL);
    cr_expect_eq(wk_prepare(s.ctx, NULL, 3), WK_EINVAL);
    cr_expect_str_eq(wk_last_error(s.ctx), "prepare: the list of 3 objects is NULL");
    small_close(&s);
    small_open(&s, NULL);
    cr_assert_eq(small_prepare(&s), 0);
    cr_expect_float_eq(wk_batch_mean(s.ctx, NULL, 2), 2, 0);
    cr_expect_str_eq(wk_last_error(s.ctx), "wk_batch_mean was given no batch");
    small_close(&s);
}

/* It is no reason to end a training, but must not pass without a word. */
Test(misuse, a_metric_of_no_name_is_left_out)
{
    char longest[65] = {0};
    struct small s;
    small_open(&s, NULL);
    cr_assert_eq(small_prepare(&s), 0);
    cr_expect_eq(wk_log(s.ctx, "Eval Loss", 1), WK_EINVAL);
    cr_expect(strstr(wk_last_error(s.ctx), "\"Eval Loss\" is no metric's name"), "%s",
              wk_last_error(s.ctx));
    cr_expect(strstr(wk_last_notice(s.ctx), "wk_log: \"Eval Loss\" is no"), "%s",
              wk_last_notice(s.ctx));
    cr_expect_eq(wk_log(s.ctx, "", 1), WK_EINVAL);
    cr_expect_eq(wk_log(s.ctx, NULL, 1), WK_EINVAL);
    cr_expect(strstr(wk_last_notice(s.ctx), "Eval Loss"), "one notice is enough");
    memset(longest, 'a', 64);
    cr_expect_eq(wk_log(s.ctx, longest, 1), WK_EINVAL);
    longest[63] = '\0';
    cr_expect_eq(wk_log(s.ctx, longest, 1), 0, "as long as it may be");
    cr_expect_eq(wk_status(s.ctx), 0);
    cr_expect_eq(pass(&s), 0);
    cr_expect_eq(wk_step(s.optimizer), 0);
    cr_expect_eq(wk_close(s.ctx), 0);
    s.ctx = NULL;
    small_close(&s);
}

/* The first cause, not what followed from it: a program that looks at no code sees only this. */
Test(misuse, null_is_traced_to_what_could_not_be_made)
{
    struct wk_adamw_options adam = {.rate = 1e-3, .beta1 = 0.9, .beta2 = 95, .epsilon = 1e-8};
    struct wk_schedule_options schedule = {.kind = WK_SCHEDULE_CONSTANT};
    struct wk_optimizer *optimizer = NULL;
    struct wk_scheduler *scheduler = NULL;
    struct small s;
    small_open(&s, NULL);
    cr_assert_eq(wk_adamw_new(&adam, &optimizer), WK_EINVAL);
    cr_assert_eq(wk_scheduler_new(optimizer, &schedule, &scheduler), WK_EINVAL);
    cr_assert_eq(wk_custom_new(NULL, 0, &(struct wk_model *){NULL}), WK_EINVAL);
    const struct wk_object orders[][2] = {{WK_OBJECT(optimizer), WK_OBJECT(scheduler)},
                                          {WK_OBJECT(scheduler), WK_OBJECT(optimizer)}};
    for (int i = 0; i < 2; i++) {
        struct small other;
        small_open(&other, NULL);
        cr_expect_eq(wk_prepare(other.ctx, orders[i], 2), WK_EINVAL);
        cr_expect(strstr(wk_last_error(other.ctx), "beta2 is 95: it must be in [0, 1)"), "%s",
                  wk_last_error(other.ctx));
        cr_expect(strstr(wk_last_error(other.ctx),
                         i ? "NULL instead of a scheduler" : "NULL instead of an optimizer"),
                  "%s", wk_last_error(other.ctx));
        small_close(&other);
    }
    cr_expect_eq(wk_step(optimizer), WK_EINVAL);
    cr_expect_str_eq(wk_last_error(NULL), "wk_step of NULL instead of an optimizer: beta2 is 95: "
                                          "it must be in [0, 1)");
    small_close(&s);
}
