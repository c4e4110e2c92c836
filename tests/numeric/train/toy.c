#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <worker/precision.h>

#include "libworker/device/reach.h"
#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/train/own_device.h"
#include "tests/numeric/train/toy.h"

enum { WIDE = 128 }; /* the linear model's */
enum { LAYERS = 2, WIDTH = 32, LENGTH = 16, VOCAB = 128 };

static const double RATE = 3e-3;

/* Roundings behind a logit: two norms, qkv, scores, softmax, its sum, the projection and the MLP's
 * two products in each layer, then a norm and the head. Behind a gradient there are those, the way
 * back with two products for each, and the sum over a batch. */
struct toy_bounds toy_bounds(int steps)
{
    enum { FEWEST = 48, MOST = 288 }; /* tokens of a batch */
    const double forward = LAYERS * (9.0 * WIDTH + 3 * LENGTH) + 2 * WIDTH;
    const double gradient = 3 * forward + VOCAB + MOST;
    struct rounding_weights weights = rounding_adam(gradient, steps * RATE);
    /* A loss is a mean over tokens, whose roundings are their own. */
    return (struct toy_bounds){
        .losses = rounding_bound(forward) / sqrt(FEWEST) + weights.mean,
        .norms = rounding_bound(gradient),
        .weights = weights.largest,
    };
}

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static const struct environment empty = {nothing, NULL};

void toy_set(struct toy *toy, const char *name, const char *value)
{
    toy->settings[toy->n_settings++] = (struct wk_setting){name, value};
}

/* From any thread: a saver's, too. */
static void notice(void *arg, const char *text)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct toy *toy = arg;
    pthread_mutex_lock(&lock);
    size_t used = strlen(toy->notices);
    snprintf(toy->notices + used, sizeof(toy->notices) - used, "%s\n", text);
    pthread_mutex_unlock(&lock);
}

/* Words with structure to learn, the same in every run. */
static void fill_text(char *text, size_t size)
{
    static const char *const words[] = {"in ",  "the ",   "beginning ", "was ",    "word ",
                                        "and ", "light ", "earth ",     "waters ", "day.\n"};
    uint64_t state = 12345;
    for (size_t at = 0; at < size;) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        for (const char *c = words[(state >> 33) % 10]; *c && at < size; c++)
            text[at++] = *c;
    }
}

struct objects {
    struct wk_source *source;
    struct wk_loader *loader;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    struct wk_scheduler *scheduler;
    struct borrowed borrowed;
    struct own_device own;
};

static void make_source(const struct toy *toy, struct wk_context *ctx, struct objects *o)
{
    if (toy->rows) {
        wk_source_rows(ctx, toy->rows, &o->source);
        return;
    }
    size_t size = toy->text_bytes ? (size_t)toy->text_bytes : 20000;
    char *text = malloc(size);
    fill_text(text, size);
    if (toy->other_text)
        text[size / 2] ^= 1;
    wk_source_bytes(ctx, text, size, &o->source);
    free(text);
}

static void make(const struct toy *toy, struct wk_context *ctx, struct objects *o)
{
    make_source(toy, ctx, o);
    struct wk_loader_options loader = {.source = o->source,
                                       .length = toy->rows ? 0 : LENGTH,
                                       .batch = toy->batch ? toy->batch : 6,
                                       .epochs = toy->epochs};
    wk_loader_new(ctx, &loader, &o->loader);
    struct wk_gpt_config gpt = {
        .layers = LAYERS, .heads = 2, .width = WIDTH, .context = LENGTH, .vocab = VOCAB};
    struct wk_llama_config llama = {
        .layers = LAYERS,
        .heads = 4,
        .kv_heads = 2,
        .width = WIDTH,
        .inner = 3 * WIDTH / 2,
        .context = LENGTH,
        .vocab = VOCAB,
        .rope_theta = 1e4,
        .norm_epsilon = 1e-5,
        .qkv_bias = true,
        .qk_norm = true,
    };
    struct wk_buffer buffers[] = {
        {"weight", 2, {WIDE, WIDE}, .decay = true, .narrow = toy->narrow},
        {"bias", 1, {WIDE}, .narrow = toy->narrow, .block = toy->by_block},
    };
    uint64_t seed = (uint64_t)settings_integer(&ctx->settings, SETTING_SEED);
    if (toy->borrowed)
        borrowed_init(&o->borrowed, &gpt, seed, toy->narrow, toy->by_block);
    o->borrowed.how = toy->how;
    o->model = o->borrowed.custom;
    if (toy->custom)
        wk_custom_new(buffers, 2, &o->model);
    else if (toy->graph)
        wk_graph_model(toy->graph(), &o->model);
    else if (toy->llama)
        wk_llama_new(&llama, &o->model);
    else if (!toy->borrowed)
        wk_gpt_new(&gpt, &o->model);
    o->own.by_block = toy->by_block;
    if (toy->on_device)
        own_device_declare(o->model);
    if (toy->dropout > 0)
        wk_model_dropout(o->model, toy->dropout, 1);
    if (toy->within_bytes)
        wk_model_recompute_by(o->model, WK_RECOMPUTE_WITHIN, toy->within_bytes);
    struct wk_adamw_options adamw = {RATE, 0.9, 0.95, 1e-8, 0.1};
    struct wk_muon_options muon = {RATE, 0.95, true, 0.1, adamw};
    struct wk_adafactor_options adafactor = {1e-2, 0.8, 1e-30, 1e-3, 1, true, 0};
    if (toy->muon)
        wk_muon_new(&muon, &o->optimizer);
    else if (toy->adafactor)
        wk_adafactor_new(&adafactor, &o->optimizer);
    else
        wk_adamw_new(&adamw, &o->optimizer);
    struct wk_schedule_options schedule = {WK_SCHEDULE_COSINE, 5, 60, 0.1};
    wk_scheduler_new(o->optimizer, &schedule, &o->scheduler);
}

static void drop(struct objects *o)
{
    wk_scheduler_free(o->scheduler);
    wk_optimizer_free(o->optimizer);
    wk_loader_free(o->loader);
    wk_source_free(o->source);
    wk_model_free(o->model);
    borrowed_fini(&o->borrowed);
}

static enum wk_format format_of(enum wk_dtype type)
{
    return type == WK_BF16 ? WK_FORMAT_BF16 : WK_FORMAT_F16;
}

/* Parameter `index` as the passes see it. */
static void read_parameter(struct wk_model *model, int index, float *out, size_t count)
{
    enum wk_dtype type = wk_parameter_type(model, index);
    if (type == WK_F32)
        memcpy(out, wk_parameter_data(model, index), count * sizeof(*out));
    else
        wk_widen(out, format_of(type), wk_parameter_low(model, index), count);
}

static void give_gradient(struct wk_model *model, int index, const float *grad, size_t count)
{
    uint16_t *low = wk_parameter_low_grad(model, index);
    float *whole = wk_parameter_grad(model, index);
    for (size_t i = 0; i < count && low; i++)
        CHECK(low[i] == 0);
    if (low)
        wk_narrow(low, format_of(wk_parameter_type(model, index)), grad, count);
    for (size_t i = 0; i < count && !low; i++)
        whole[i] += grad[i];
}

/* Squared error of a bigram table: forward and backward by hand. */
static void custom_passes(struct wk_model *model, const struct wk_batch *batch)
{
    float weight[WIDE * WIDE], bias[WIDE], dweight[WIDE * WIDE] = {0}, dbias[WIDE] = {0};
    float scale = (float)(2 * wk_backward_scale(model) / batch->denominator);
    double loss = 0;
    read_parameter(model, 0, weight, WIDE * WIDE);
    read_parameter(model, 1, bias, WIDE);
    for (int64_t i = 0; i < batch->samples * batch->length; i++) {
        int32_t in = batch->tokens[i], out = batch->targets[i];
        for (int j = 0; j < WIDE; j++) {
            float diff = weight[in * WIDE + j] + bias[j] - (j == out ? 1.0f : 0.0f);
            loss += (double)(diff * diff);
            dweight[in * WIDE + j] += scale * diff;
            dbias[j] += scale * diff;
        }
    }
    wk_set_loss(model, loss / batch->denominator);
    give_gradient(model, 1, dbias, WIDE);
    wk_grad_ready(model, 1);
    give_gradient(model, 0, dweight, WIDE * WIDE);
    wk_grad_ready(model, 0);
}

static void loop(struct toy *toy, struct wk_context *ctx, struct objects *o)
{
    struct wk_batch batch;
    bool leave = false;
    double loss;
    while (wk_next(o->loader, &batch)) {
        int64_t before = wk_steps(ctx);
        if (leave && !toy->leave_reducing)
            return;
        if (toy->on_device)
            own_device_passes(&o->own, o->model, &batch);
        else if (toy->custom)
            custom_passes(o->model, &batch);
        else if (toy->borrowed)
            borrowed_passes(&o->borrowed, &batch);
        else
            wk_forward(o->model, &batch, toy->asks ? &loss : NULL);
        wk_backward(o->model);
        if (leave)
            return;
        float norm = 0;
        if (toy->clip >= 0)
            wk_clip_grad_norm(o->model, toy->clip > 0 ? toy->clip : 1.0f, &norm);
        wk_step(o->optimizer);
        wk_scheduler_step(o->scheduler);
        if (wk_steps(ctx) == before)
            continue;
        if (wk_steps(ctx) <= TOY_STEPS_MAX)
            toy->losses[wk_steps(ctx)] = wk_loss(ctx);
        if (wk_steps(ctx) <= TOY_STEPS_MAX)
            toy->norms[wk_steps(ctx)] = norm;
        toy->samples += batch.samples;
        leave = toy->stepped && toy->stepped(toy->arg, ctx);
        if (leave && toy->leave_at_once)
            return;
    }
}

static void take_weights(struct toy *toy, struct objects *o)
{
    float *at = toy->weights;
    wk_gather_parameters(o->model);
    for (int i = 0; at && i < o->model->n_params; i++) {
        const struct param *param = &o->model->params[i];
        CHECK(reach_read(param->host ? NULL : o->model->queue, at, param_master(param),
                         param->count * sizeof(*at), NULL) == 0);
        at += param->count;
    }
}

void toy_run(struct toy *toy)
{
    struct wk_context *ctx;
    struct objects objects = {0};
    struct wk_options options = {.settings = toy->settings,
                                 .n_settings = toy->n_settings,
                                 .notice = notice,
                                 .notice_arg = toy};
    struct context_seams seams = {.environment = toy->environment ? toy->environment : &empty,
                                  .session = toy->session,
                                  .kernels = toy->kernels,
                                  .device = toy->device,
                                  .quiet = true};
    if (!context_open(&options, &seams, &ctx)) {
        make(toy, ctx, &objects);
        wk_prepare_all(ctx, WK_OBJECT(objects.scheduler), WK_OBJECT(objects.model),
                       WK_OBJECT(objects.loader), WK_OBJECT(objects.optimizer));
        loop(toy, ctx, &objects);
        if (toy->weights && !wk_status(ctx))
            take_weights(toy, &objects);
    }
    toy->skipped = wk_skipped_steps(ctx);
    toy->scale = wk_loss_scale(ctx);
    toy->status = wk_status(ctx);
    snprintf(toy->error, sizeof(toy->error), "%s", wk_last_error(ctx));
    own_device_fini(&objects.own);
    toy->exit_code = wk_close(ctx);
    drop(&objects);
}

void *toy_thread(void *toy)
{
    toy_run(toy);
    return NULL;
}
