#include "tests/numeric/train/rehearsed.h"

#include <stdio.h>
#include <string.h>

#include <worker/custom_op.h>

#include "libworker/device/device.h"
#include "libworker/device/reach.h"
#include "tests/docs/prelu.h"
#include "tests/lib/check.h"

enum { LENGTH = 8, TEXT = 700, BATCH = 3, VOCAB = 128 };

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static const struct environment empty = {.get = nothing};

static struct wk_graph *own_operation(const struct rehearsed *rehearsed)
{
    struct wk_graph *g = wk_graph_new("own");
    struct wk_shape shape = WK_SHAPE(WK_SAMPLES, WK_LENGTH);
    struct wk_tensor *targets = wk_graph_input(g, "targets", WK_I32, shape);
    struct wk_tensor *x = wk_graph_input(g, "tokens", WK_I32, shape);
    wk_graph_max_length(g, LENGTH);
    wk_graph_block(g, "first");
    x = wk_layer_linear(wk_layer_embedding(x, "embed", VOCAB, 16), "up", 24);
    wk_graph_block(g, "second");
    struct wk_tensor *slope = wk_graph_param(g, "slope", WK_SHAPE(24), NULL);
    x = rehearsed->own ? rehearsed->own(x, slope) : prelu(x, slope);
    x = wk_layer_linear(x, "head", VOCAB);
    wk_graph_output(g, "logits", x);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, targets, NULL), NULL);
    return g;
}

static struct wk_model *model_new(const struct rehearsed *rehearsed)
{
    enum rehearsed_model kind = rehearsed->model;
    int layers = rehearsed->layers ? rehearsed->layers : 1;
    struct wk_gpt_config gpt = {
        .layers = layers, .heads = 2, .width = 16, .context = LENGTH, .vocab = VOCAB};
    struct wk_llama_config llama = {layers, 4, 2, 16, 24, LENGTH, VOCAB, 10000, 1e-5, false};
    struct wk_mlp_config mlp = {1, 3, 8, 16, LENGTH, VOCAB};
    struct wk_model *model = NULL;
    CHECK((kind == REHEARSED_GPT     ? wk_gpt_new(&gpt, &model)
           : kind == REHEARSED_LLAMA ? wk_llama_new(&llama, &model)
           : kind == REHEARSED_MLP   ? wk_mlp_new(&mlp, &model)
                                     : wk_graph_model(own_operation(rehearsed), &model)) == 0);
    return model;
}

static struct wk_optimizer *optimizer_of(enum rehearsed_optimizer kind)
{
    struct wk_adamw_options adam = {3e-3, 0.9, 0.95, 1e-8, 0.1};
    struct wk_sgd_options sgd = {1e-2, 0, false, 0.1}, momentum = {1e-2, 0.9, true, 0.1};
    struct wk_lion_options lion = {1e-3, 0.9, 0.99, 0.1};
    struct wk_adafactor_options adafactor = {1e-2, 0.8, 1e-30, 1e-3, 1, true, 0};
    struct wk_muon_options muon = {3e-3, 0.95, true, 0.1, adam};
    struct wk_optimizer *optimizer = NULL;
    int rc = -1;
    switch (kind) {
    case REHEARSED_SGD:
        rc = wk_sgd_new(&sgd, &optimizer);
        break;
    case REHEARSED_MOMENTUM:
        rc = wk_sgd_new(&momentum, &optimizer);
        break;
    case REHEARSED_ADAM:
        rc = wk_adam_new(&adam, &optimizer);
        break;
    case REHEARSED_ADAMW:
        rc = wk_adamw_new(&adam, &optimizer);
        break;
    case REHEARSED_LION:
        rc = wk_lion_new(&lion, &optimizer);
        break;
    case REHEARSED_ADAFACTOR:
        rc = wk_adafactor_new(&adafactor, &optimizer);
        break;
    case REHEARSED_MUON:
        rc = wk_muon_new(&muon, &optimizer);
        break;
    case REHEARSED_OPTIMIZERS:
        break;
    }
    CHECK(rc == 0);
    return optimizer;
}

struct objects {
    struct wk_source *source;
    struct wk_loader *loader;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    struct wk_scheduler *scheduler;
};

/* The objects in the form of wk_prepare. */
static int prepare(struct wk_context *ctx, struct objects *o, bool schedules)
{
    const struct wk_schedule_options line = {
        .kind = WK_SCHEDULE_LINEAR, .total_steps = 2L * REHEARSED_STEPS, .min_ratio = 0.1};
    struct wk_object list[] = {
        WK_OBJECT(o->model), WK_OBJECT(o->loader), WK_OBJECT(o->optimizer), {0}};
    if (schedules) {
        CHECK(wk_scheduler_new(o->optimizer, &line, &o->scheduler) == 0);
        list[3] = WK_OBJECT(o->scheduler);
    }
    return wk_prepare(ctx, list, schedules ? 4 : 3);
}

static int make(const struct rehearsed *rehearsed, struct wk_context *ctx, struct objects *o)
{
    struct wk_buffer buffer = {.name = "w", .dims = 1, .shape = {4}};
    char text[TEXT];
    uint64_t state = 12345;
    for (int i = 0; i < TEXT; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        text[i] = (char)('a' + (state >> 33) % 8);
    }
    CHECK(wk_source_bytes(ctx, text, TEXT, &o->source) == 0);
    struct wk_loader_options options = {.source = o->source,
                                        .length = LENGTH,
                                        .batch = rehearsed->batch ? rehearsed->batch : BATCH};
    CHECK(wk_loader_new(ctx, &options, &o->loader) == 0);
    if (rehearsed->custom)
        CHECK(wk_custom_new(&buffer, 1, &o->model) == 0);
    else
        o->model = model_new(rehearsed);
    if (rehearsed->dropout > 0)
        CHECK(wk_model_dropout(o->model, rehearsed->dropout, 11) == 0);
    o->optimizer = optimizer_of(rehearsed->optimizer);
    const struct wk_group rests = {.pattern = rehearsed->resting};
    CHECK(!rehearsed->resting || wk_optimizer_group(o->optimizer, &rests) == 0);
    CHECK(!rehearsed->loads || wk_model_load(ctx, o->model, rehearsed->loads) == 0);
    return prepare(ctx, o, rehearsed->schedules);
}

static void drop(struct objects *o)
{
    wk_scheduler_free(o->scheduler);
    wk_optimizer_free(o->optimizer);
    wk_loader_free(o->loader);
    wk_source_free(o->source);
    wk_model_free(o->model);
}

static void loop(const struct rehearsed *rehearsed, struct wk_context *ctx, struct objects *o,
                 struct rehearsed_result *ret)
{
    struct wk_batch batch;
    double loss;
    float norm;
    int64_t fits = 0;
    CHECK(!rehearsed->finds || wk_find_batch(o->loader, NULL, &fits) == 0);
    if (rehearsed->ret_found)
        *rehearsed->ret_found = fits;
    else
        CHECK(!rehearsed->finds || fits == BATCH);
    for (int windows = 0; windows < REHEARSED_STEPS && wk_next(o->loader, &batch);) {
        wk_forward(o->model, &batch, rehearsed->asks ? &loss : NULL);
        wk_backward(o->model);
        if (rehearsed->passed)
            rehearsed->passed(o->model);
        if (rehearsed->clips)
            wk_clip_grad_norm(o->model, 1, rehearsed->asks ? &norm : NULL);
        int64_t done = wk_steps(ctx) + wk_skipped_steps(ctx);
        CHECK(wk_step(o->optimizer) == 0);
        CHECK(!o->scheduler || wk_scheduler_step(o->scheduler) == 0);
        if (rehearsed->stepped)
            rehearsed->stepped();
        if (wk_steps(ctx) + wk_skipped_steps(ctx) > done)
            CHECK(wk_step_numbers(o->optimizer, &ret->numbers[windows++]) == 0);
        if (rehearsed->between) {
            wk_evaluate(o->model, &batch, &ret->held_out, NULL);
            wk_gather_parameters(o->model);
            wk_evaluate(o->model, &batch, &ret->held_out, NULL);
        }
    }
    wk_evaluate(o->model, &batch, &ret->held_out, NULL);
}

static void take_weights(struct wk_context *ctx, struct rehearsed_result *ret)
{
    const struct strategy_range *range = strategy_range(&ctx->prepared.units[0].strategy);
    ret->count = range->count;
    CHECK(range->count <= REHEARSED_WEIGHTS_MAX);
    CHECK(optimizer_settle(ctx->prepared.units[0].optimizer, NULL) == 0);
    CHECK(reach_read(range->queue, ret->weights, range->data, range->count * sizeof(float), NULL) ==
          0);
}

static struct wk_context *context_of(const struct rehearsed *rehearsed)
{
    struct wk_context *ctx;
    struct wk_options options = {.settings = rehearsed->settings,
                                 .n_settings = rehearsed->n_settings};
    struct context_seams seams = {
        .environment = &empty, .quiet = true, .device = rehearsed->device};
    CHECK(context_open(&options, &seams, &ctx) == 0);
    return ctx;
}

int rehearsed_refusal(const struct rehearsed *rehearsed, const char *part)
{
    struct objects objects = {0};
    struct wk_context *ctx = context_of(rehearsed);
    struct wk_batch batch;
    int rc = make(rehearsed, ctx, &objects);
    if (!rc && wk_next(objects.loader, &batch))
        rc = wk_forward(objects.model, &batch, NULL);
    if (!strstr(wk_last_error(ctx), part))
        fprintf(stderr, "%d: %s\n", rc, wk_last_error(ctx));
    CHECK(strstr(wk_last_error(ctx), part));
    CHECK(wk_close(ctx) != 0);
    drop(&objects);
    return rc;
}

int rehearsed_try(const struct rehearsed *rehearsed)
{
    struct objects objects = {0};
    struct wk_context *ctx = NULL;
    struct wk_batch batch;
    struct wk_options options = {.settings = rehearsed->settings,
                                 .n_settings = rehearsed->n_settings};
    struct context_seams seams = {
        .environment = &empty, .quiet = true, .device = rehearsed->device};
    int rc = context_open(&options, &seams, &ctx);
    if (!rc)
        rc = make(rehearsed, ctx, &objects);
    if (!rc && wk_next(objects.loader, &batch)) {
        wk_forward(objects.model, &batch, NULL);
        wk_backward(objects.model);
        wk_step(objects.optimizer);
        rc = wk_status(ctx);
    }
    (void)wk_close(ctx);
    drop(&objects);
    return rc;
}

void rehearsed_run(const struct rehearsed *rehearsed, struct rehearsed_result *ret)
{
    struct objects objects = {0};
    struct wk_context *ctx = context_of(rehearsed);
    memset(ret, 0, sizeof(*ret));
    int rc = make(rehearsed, ctx, &objects);
    if (rc)
        fprintf(stderr, "%s\n", wk_last_error(ctx));
    CHECK(rc == 0);
    loop(rehearsed, ctx, &objects, ret);
    ret->skipped = wk_skipped_steps(ctx);
    if (wk_status(ctx))
        fprintf(stderr, "%s\n", wk_last_error(ctx));
    CHECK(wk_status(ctx) == 0);
    if (rehearsed->saves && wk_model_save(ctx, objects.model, rehearsed->saves, NULL))
        CHECK(fprintf(stderr, "%s\n", wk_last_error(ctx)) < 0);
    take_weights(ctx, ret);
    replay_counted(ctx->compute.queue, &ret->graphs);
    CHECK(wk_close(ctx) == 0);
    drop(&objects);
}
