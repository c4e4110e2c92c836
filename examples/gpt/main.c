/* Trains a small GPT on bytes of text. Sees nothing of libworker but its installed headers; the
 * same program runs alone, under
 *
 *     RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 gpt …
 *
 * and as a Muster job, where ranks may be killed and nodes come and go while it trains.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <worker/worker.h>

#include "examples/gpt/kjv.h"
#include "examples/gpt/options.h"

enum { SETTINGS_MAX = 16, NUMBER_TEXT = 32, GPT2_VOCAB = 50257, BYTES_VOCAB = 256 };

struct training {
    struct wk_context *ctx;
    struct wk_source *source;
    struct wk_loader *loader;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    struct wk_scheduler *scheduler;
};

struct settings {
    struct wk_setting list[SETTINGS_MAX];
    char numbers[SETTINGS_MAX][NUMBER_TEXT];
    int count;
};

static void add_text(struct settings *settings, const char *name, const char *value)
{
    if (*value)
        settings->list[settings->count++] = (struct wk_setting){name, value};
}

static void add_number(struct settings *settings, const char *name, int64_t value)
{
    char *text = settings->numbers[settings->count];
    (void)snprintf(text, NUMBER_TEXT, "%lld", (long long)value);
    add_text(settings, name, text);
}

static void print_notice(void *arg, const char *text)
{
    (void)arg;
    (void)fprintf(stderr, "gpt: %s\n", text);
}

static int open_context(const struct gpt_options *options, struct wk_context **ret)
{
    struct settings settings = {0};
    add_number(&settings, "total_steps", options->steps);
    add_number(&settings, "log_every", options->log_every);
    if (options->seed)
        add_number(&settings, "seed", options->seed);
    if (options->accumulate)
        add_number(&settings, "gradient_accumulation_steps", options->accumulate);
    add_text(&settings, "mixed_precision", options->dtype);
    add_text(&settings, "checkpoint.dir", options->checkpoint_dir);
    add_text(&settings, "checkpoint.every", options->checkpoint_every);
    add_text(&settings, "resume_from", options->resume);
    add_text(&settings, "log_file", options->log_file);
    struct wk_options with = {
        .settings = settings.list,
        .n_settings = settings.count,
        .notice = print_notice,
    };
    return wk_open(&with, ret);
}

static int open_source(struct training *t, const char *path)
{
    size_t size;
    if (*path)
        return wk_source_open(t->ctx, path, WK_SOURCE_AUTO, &t->source);
    char *text = kjv_read(KJV_PATH, &size);
    if (!text) {
        (void)fprintf(stderr, "gpt: no --data, and no text in %s (package bible-kjv-text)\n",
                      KJV_PATH);
        return WK_ENOTFOUND;
    }
    int rc = wk_source_bytes(t->ctx, text, size, &t->source);
    free(text);
    return rc;
}

static int64_t vocabulary(const struct gpt_options *options)
{
    if (options->vocab)
        return options->vocab;
    size_t size = strlen(options->data);
    bool tokens = size > 4 && strcmp(options->data + size - 4, ".bin") == 0;
    return tokens ? GPT2_VOCAB : BYTES_VOCAB;
}

static int make_objects(struct training *t, const struct gpt_options *options)
{
    int rc = open_source(t, options->data);
    if (!rc)
        rc = wk_loader_new(t->ctx,
                           &(struct wk_loader_options){.source = t->source,
                                                       .length = options->context,
                                                       .batch = options->batch},
                           &t->loader);
    if (!rc)
        rc = wk_gpt_new(&(struct wk_gpt_config){.layers = (int)options->layers,
                                                .heads = (int)options->heads,
                                                .width = (int)options->width,
                                                .context = (int)options->context,
                                                .vocab = (int)vocabulary(options)},
                        &t->model);
    if (!rc)
        rc = wk_optimizer_new(t->ctx,
                              &(struct wk_optimizer_options){.rate = options->rate,
                                                             .weight_decay = options->decay,
                                                             .beta2 = 0.95},
                              &t->optimizer);
    int64_t warmup = options->warmup < options->steps ? options->warmup : 0;
    if (!rc)
        rc = wk_scheduler_new(t->optimizer,
                              &(struct wk_schedule_options){.kind = WK_SCHEDULE_COSINE,
                                                            .warmup_steps = warmup,
                                                            .total_steps = options->steps,
                                                            .min_ratio = options->min_ratio},
                              &t->scheduler);
    return rc;
}

static void train(struct training *t, const struct gpt_options *options)
{
    struct wk_batch batch;
    while (wk_next(t->loader, &batch)) {
        wk_forward(t->model, &batch, NULL);
        wk_backward(t->model);
        wk_clip_grad_norm(t->model, (float)options->clip, NULL);
        wk_step(t->optimizer);
        wk_scheduler_step(t->scheduler);
    }
}

/* All ranks make it, for under fsdp each holds a part of the model; the first prints it. */
static void print_sample(struct training *t, const struct gpt_options *options)
{
    int64_t length = (int64_t)strlen(options->prompt);
    int32_t *prompt = calloc((size_t)length + 1, sizeof(*prompt));
    int32_t *tokens = calloc((size_t)options->sample + 1, sizeof(*tokens));
    for (int64_t i = 0; prompt && i < length; i++)
        prompt[i] = (unsigned char)options->prompt[i];
    struct wk_generate_options generate = {
        .prompt = prompt,
        .prompt_length = length,
        .temperature = options->temperature,
        .seed = 1,
    };
    int rc = prompt && tokens ? wk_generate(t->model, &generate, options->sample, tokens) : 1;
    if (rc)
        (void)fprintf(stderr, "gpt: rank %d could make no sample (%d)\n", wk_rank(t->ctx), rc);
    wk_print(t->ctx, stdout, "--- sample after step %lld ---\n%s", (long long)wk_steps(t->ctx),
             options->prompt);
    for (int64_t i = 0; i < options->sample && !rc; i++)
        wk_print(t->ctx, stdout, "%c", tokens[i]);
    wk_print(t->ctx, stdout, "\n---\n");
    free(prompt);
    free(tokens);
}

static int finish(struct training *t, const struct gpt_options *options)
{
    if (!wk_status(t->ctx)) {
        wk_print(t->ctx, stdout, "done: step %lld  loss %.4f  world %d\n",
                 (long long)wk_steps(t->ctx), wk_loss(t->ctx), wk_world(t->ctx));
        if (options->sample && vocabulary(options) == BYTES_VOCAB)
            print_sample(t, options);
        (void)fflush(stdout);
    }
    if (wk_status(t->ctx))
        (void)fprintf(stderr, "gpt: %s\n", wk_last_error(t->ctx));
    return wk_close(t->ctx);
}

/* Something could not be made of the options, which the context does not know. */
static int give_up(struct training *t, int rc)
{
    if (*wk_last_error(NULL))
        (void)fprintf(stderr, "gpt: %s (see --help)\n", wk_last_error(NULL));
    (void)wk_close(t->ctx);
    return rc == WK_ENOMEM ? 1 : WK_EXIT_CONFIG;
}

static int run(const struct gpt_options *options)
{
    struct training t = {0};
    if (open_context(options, &t.ctx) && !t.ctx) {
        (void)fprintf(stderr, "gpt: no memory\n");
        return 1;
    }
    if (options->print_config && wk_is_main(t.ctx))
        (void)wk_config_print(t.ctx, stdout);
    int rc = wk_status(t.ctx) ? wk_status(t.ctx) : make_objects(&t, options);
    if (!rc) {
        wk_prepare_all(t.ctx, WK_OBJECT(t.model), WK_OBJECT(t.optimizer), WK_OBJECT(t.loader),
                       WK_OBJECT(t.scheduler));
        train(&t, options);
    }
    int code = rc && !wk_status(t.ctx) ? give_up(&t, rc) : finish(&t, options);
    wk_scheduler_free(t.scheduler);
    wk_optimizer_free(t.optimizer);
    wk_loader_free(t.loader);
    wk_source_free(t.source);
    wk_model_free(t.model);
    return rc && !code ? 1 : code;
}

int main(int argc, char **argv)
{
    struct gpt_options options;
    if (gpt_options_parse(argc, argv, &options))
        return WK_EXIT_CONFIG; /* the same would come of trying again */
    if (options.help) {
        gpt_options_help(argv[0]);
        return 0;
    }
    return run(&options);
}
