#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/numeric/train/pair.h"

enum { TEXT_BYTES = 6000, LENGTH = 16, BATCH = 6, VOCAB = 128, WIDE = 48 };

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

void pair_set(struct pair *pair, const char *name, const char *value)
{
    pair->settings[pair->n_settings++] = (struct wk_setting){name, value};
}

static void notice(void *arg, const char *text)
{
    struct pair *pair = arg;
    size_t used = strlen(pair->notices);
    snprintf(pair->notices + used, sizeof(pair->notices) - used, "%s\n", text);
}

struct objects {
    struct wk_source *source;
    struct wk_loader *loaders[2];
    struct wk_model *models[2];
    struct wk_optimizer *optimizers[2];
    struct wk_scheduler *schedulers[2];
};

static void make_models(const struct pair *pair, struct objects *o)
{
    struct wk_buffer first[] = {{.name = "table", .dims = 2, .shape = {VOCAB, WIDE}, .decay = true},
                                {.name = "bias", .dims = 1, .shape = {WIDE}}};
    struct wk_buffer second[] = {{.name = "table", .dims = 2, .shape = {VOCAB, WIDE + 5}}};
    struct wk_gpt_config gpt = {
        .layers = 1, .heads = 2, .width = 16, .context = LENGTH, .vocab = VOCAB};
    struct wk_mlp_config mlp = {
        .layers = 1, .window = 3, .embedding = 8, .width = 24, .context = LENGTH, .vocab = VOCAB};
    if (pair->coupled) {
        wk_custom_new(first, 2, &o->models[0]);
        wk_custom_new(second, 1, &o->models[1]);
    } else {
        wk_gpt_new(&gpt, &o->models[0]);
        wk_mlp_new(&mlp, &o->models[1]);
    }
}

static void make(const struct pair *pair, struct wk_context *ctx, struct objects *o)
{
    static const char text[] = "in the beginning was the word, and light was on the waters; ";
    char *all = malloc(TEXT_BYTES);
    for (int i = 0; i < TEXT_BYTES; i++)
        all[i] = text[(i * 7 + i / 11) % (int)(sizeof(text) - 1)];
    wk_source_bytes(ctx, all, TEXT_BYTES, &o->source);
    free(all);
    for (int i = 0; i < 2; i++) {
        struct wk_loader_options loader = {.source = o->source,
                                           .length = LENGTH,
                                           .batch = BATCH + i,
                                           .seed = (uint64_t)(i + 1) * 5};
        wk_loader_new(ctx, &loader, &o->loaders[i]);
    }
    make_models(pair, o);
    struct wk_adamw_options adamw = {3e-3, 0.9, 0.95, 1e-8, 0.1};
    struct wk_sgd_options sgd = {.rate = 0.2, .momentum = 0.5};
    wk_adamw_new(&adamw, &o->optimizers[0]);
    wk_sgd_new(&sgd, &o->optimizers[1]);
    for (int i = 0; i < 2; i++) {
        struct wk_schedule_options schedule = {WK_SCHEDULE_COSINE, 3 + 2 * i, 60, 0.1};
        wk_optimizer_over(o->optimizers[i], o->models[i]);
        wk_scheduler_new(o->optimizers[i], &schedule, &o->schedulers[i]);
    }
}

static void drop(struct objects *o)
{
    for (int i = 0; i < 2; i++) {
        wk_scheduler_free(o->schedulers[i]);
        wk_optimizer_free(o->optimizers[i]);
        wk_loader_free(o->loaders[i]);
        wk_model_free(o->models[i]);
    }
    wk_source_free(o->source);
}

static int prepare(const struct pair *pair, struct wk_context *ctx, struct objects *o)
{
    struct wk_object objects[8];
    int n = 0;
    for (int i = 1; i >= 0; i--) {
        if (!pair->frozen || i == 1) {
            objects[n++] = WK_OBJECT(o->schedulers[i]);
            objects[n++] = WK_OBJECT(o->optimizers[i]);
        }
        if (!pair->own_data && (i == 0 || pair->own_loader))
            objects[n++] = WK_OBJECT(o->loaders[i]);
    }
    objects[n++] = WK_OBJECT(o->models[0]);
    objects[n++] = WK_OBJECT(o->models[1]);
    return wk_prepare(ctx, objects, n);
}

/* Squared error of a table against what follows a token. */
static void pass_first(struct wk_model *model, const struct wk_batch *batch)
{
    const float *table = wk_parameter_data(model, 0), *bias = wk_parameter_data(model, 1);
    float *dtable = wk_parameter_grad(model, 0), *dbias = wk_parameter_grad(model, 1);
    double loss = 0;
    for (int64_t i = 0; i < batch->samples * batch->length; i++) {
        int32_t in = batch->tokens[i], out = batch->targets[i];
        for (int j = 0; j < WIDE; j++) {
            float diff = table[in * WIDE + j] + bias[j] - (j == out % WIDE ? 1.0f : 0.0f);
            loss += (double)(diff * diff);
            dtable[in * WIDE + j] += 2 * diff / (float)batch->denominator;
            dbias[j] += 2 * diff / (float)batch->denominator;
        }
    }
    wk_set_loss(model, loss / batch->denominator);
    wk_grad_ready(model, 1);
    wk_grad_ready(model, 0);
}

/* Squared error of another table against what the first says now. */
static void pass_second(struct wk_model *model, struct wk_model *of, const struct wk_batch *batch)
{
    const float *table = wk_parameter_data(model, 0), *taught = wk_parameter_data(of, 0);
    float *dtable = wk_parameter_grad(model, 0);
    double loss = 0;
    for (int64_t i = 0; i < batch->samples * batch->length; i++) {
        int32_t in = batch->tokens[i];
        for (int j = 0; j < WIDE; j++) {
            float diff = table[in * (WIDE + 5) + j] - 10 * taught[in * WIDE + j] - 0.5f;
            loss += (double)(diff * diff);
            dtable[in * (WIDE + 5) + j] += 2 * diff / (float)batch->denominator;
        }
    }
    wk_set_loss(model, loss / batch->denominator);
    wk_grad_ready(model, 0);
}

static void passes(const struct pair *pair, struct objects *o, int which,
                   const struct wk_batch *batch)
{
    if (!pair->coupled)
        wk_forward(o->models[which], batch, NULL);
    else if (which == 0)
        pass_first(o->models[0], batch);
    else
        pass_second(o->models[1], o->models[0], batch);
    wk_backward(o->models[which]);
}

static bool ends_at(const struct pair *pair, struct wk_context *ctx, enum pair_place place)
{
    return pair->at && pair->at(pair->arg, ctx, place);
}

static float take_step(struct objects *o, int which)
{
    float norm = 0;
    wk_clip_grad_norm(o->models[which], 1.0f, &norm);
    wk_step(o->optimizers[which]);
    wk_scheduler_step(o->schedulers[which]);
    return norm;
}

/* The numbers of step `step`, as far as it was taken. */
static void note(struct pair *pair, struct objects *o, int which, int64_t step, float norm)
{
    if (step > PAIR_STEPS)
        return;
    pair->losses[which][step] = wk_model_loss(o->models[which]);
    pair->norms[which][step] = norm;
    pair->rates[which][step] = wk_optimizer_rate(o->optimizers[which]);
}

/* The program's own batch of step `step`: every rank takes its share of the same text. */
static void own_batch(struct wk_context *ctx, struct wk_batch *ret)
{
    static _Thread_local int32_t tokens[2][BATCH * LENGTH];
    int64_t first, count;
    wk_split(ctx, BATCH, false, &first, &count);
    for (int64_t i = 0; i < count * LENGTH; i++) {
        int64_t at = (wk_steps(ctx) * BATCH + first) * LENGTH + i;
        tokens[0][i] = (int32_t)(at * at % 97);
        tokens[1][i] = (int32_t)((at + 1) * (at + 1) % 97);
    }
    *ret = (struct wk_batch){.tokens = tokens[0],
                             .targets = tokens[1],
                             .samples = count,
                             .length = LENGTH,
                             .global_samples = BATCH,
                             .denominator = (double)(count * LENGTH)};
}

static bool next(const struct pair *pair, struct wk_context *ctx, struct objects *o,
                 struct wk_batch *ret)
{
    if (!pair->own_data)
        return wk_next(o->loaders[0], ret);
    if (!wk_join(ctx, 1)) /* a mean over this rank's samples: all have as many */
        return false;
    own_batch(ctx, ret);
    return true;
}

/* true: the program goes on with the next step. */
static bool one_step(struct pair *pair, struct wk_context *ctx, struct objects *o,
                     struct wk_batch *batch)
{
    int64_t before = wk_steps(ctx);
    float norms[2] = {0, 0};
    for (int i = 0; i < (pair->repeats ? pair->repeats : 1) && !pair->frozen; i++) {
        if (ends_at(pair, ctx, PAIR_FORWARD))
            return false;
        passes(pair, o, 0, batch);
        wk_clip_grad_norm(o->models[0], 0, &norms[0]);
        if (ends_at(pair, ctx, PAIR_SUMMED))
            return false;
        norms[0] = take_step(o, 0);
    }
    if (ends_at(pair, ctx, PAIR_BETWEEN))
        return false;
    if (pair->frozen)
        wk_forward(o->models[0], batch, NULL);
    if (pair->own_loader && !wk_next(o->loaders[1], batch))
        return false;
    bool second = !pair->rests || before % pair->rests == pair->rests - 1;
    if (second) {
        passes(pair, o, 1, batch);
        norms[1] = take_step(o, 1);
    }
    if (ctx->step.phase != STEP_BROKEN && norms[0] > 0 && !pair->frozen)
        note(pair, o, 0, before + 1, norms[0]);
    if (ctx->step.phase != STEP_BROKEN && norms[1] > 0)
        note(pair, o, 1, before + 1, norms[1]);
    return !ends_at(pair, ctx, PAIR_DONE);
}

static void take_weights(struct pair *pair, struct objects *o)
{
    float *at = pair->weights;
    for (int m = 0; m < 2; m++) {
        struct wk_model *model = o->models[m];
        wk_gather_parameters(model);
        for (int i = 0; i < model->n_params; i++) {
            memcpy(at, wk_parameter_data(model, i), model->params[i].count * sizeof(*at));
            at += model->params[i].count;
        }
    }
}

void pair_run(struct pair *pair)
{
    struct environment empty = {nothing, NULL};
    struct wk_context *ctx;
    struct objects objects = {0};
    struct wk_batch batch;
    struct wk_options options = {.settings = pair->settings,
                                 .n_settings = pair->n_settings,
                                 .notice = notice,
                                 .notice_arg = pair};
    struct context_seams seams = {.environment = &empty, .session = pair->session, .quiet = true};
    if (!context_open(&options, &seams, &ctx)) {
        make(pair, ctx, &objects);
        (void)prepare(pair, ctx, &objects);
        while (next(pair, ctx, &objects, &batch) && one_step(pair, ctx, &objects, &batch))
            continue;
        if (!wk_status(ctx) && ctx->step.phase != STEP_BROKEN)
            take_weights(pair, &objects);
    }
    for (int i = 0; i < ctx->prepared.n_units; i++)
        pair->scales[i] = mixed_scale(&ctx->prepared.units[i]);
    pair->steps = wk_steps(ctx);
    pair->skipped = wk_skipped_steps(ctx);
    pair->status = wk_status(ctx);
    snprintf(pair->error, sizeof(pair->error), "%s", wk_last_error(ctx));
    pair->exit_code = wk_close(ctx);
    drop(&objects);
}

void *pair_thread(void *pair)
{
    pair_run(pair);
    return NULL;
}

struct pair_apart pair_apart(const struct pair *a, const struct pair *b)
{
    struct pair_apart apart = {0, 0, 0, 0};
    for (int m = 0; m < 2; m++)
        for (int i = 1; i <= PAIR_STEPS; i++) {
            double loss = fabs(a->losses[m][i]), norm = fabs((double)a->norms[m][i]);
            if (a->losses[m][i] == 0 || b->losses[m][i] == 0)
                continue;
            apart.losses = fmax(apart.losses, fabs(a->losses[m][i] - b->losses[m][i]) / loss);
            apart.norms = fmax(apart.norms, fabs((double)(a->norms[m][i] - b->norms[m][i])) / norm);
            apart.rates = fmax(apart.rates, fabs(a->rates[m][i] - b->rates[m][i]));
        }
    for (int i = 0; i < PAIR_WEIGHTS_MAX; i++)
        apart.weights = fmax(apart.weights, fabs((double)(a->weights[i] - b->weights[i])));
    return apart;
}
