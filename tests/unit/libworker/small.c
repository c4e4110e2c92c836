#include <stdio.h>
#include <string.h>

#include "tests/unit/libworker/small.h"

enum { SETTINGS_MAX = 8, NAME_MAX_BYTES = 64 };

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

void small_open(struct small *s, const char *const *settings)
{
    struct environment environment = {nothing, NULL};
    struct context_seams seams = {.environment = &environment, .quiet = true};
    struct wk_setting list[SETTINGS_MAX];
    char names[SETTINGS_MAX][NAME_MAX_BYTES];
    struct wk_options options = {.settings = list};
    for (; settings && settings[options.n_settings]; options.n_settings++) {
        const char *text = settings[options.n_settings], *value = strchr(text, '=') + 1;
        char *name = names[options.n_settings];
        snprintf(name, NAME_MAX_BYTES, "%.*s", (int)(value - 1 - text), text);
        list[options.n_settings] = (struct wk_setting){name, value};
    }
    memset(s, 0, sizeof(*s));
    context_open(&options, &seams, &s->ctx);
    char text[400];
    memset(text, 'a', sizeof(text));
    wk_source_bytes(s->ctx, text, sizeof(text), &s->source);
    struct wk_loader_options loader = {.source = s->source, .length = 8, .batch = 2};
    wk_loader_new(s->ctx, &loader, &s->loader);
    struct wk_gpt_config gpt = {1, 1, 8, 8, 128};
    wk_gpt_new(&gpt, &s->model);
    struct wk_sgd_options sgd = {.rate = 0.1};
    wk_sgd_new(&sgd, &s->optimizer);
    struct wk_schedule_options schedule = {
        .kind = WK_SCHEDULE_LINEAR, .total_steps = 100, .min_ratio = 0};
    wk_scheduler_new(s->optimizer, &schedule, &s->scheduler);
}

int small_prepare(struct small *s)
{
    return wk_prepare_all(s->ctx, WK_OBJECT(s->scheduler), WK_OBJECT(s->loader),
                          WK_OBJECT(s->optimizer), WK_OBJECT(s->model));
}

void small_close(struct small *s)
{
    wk_close(s->ctx);
    wk_scheduler_free(s->scheduler);
    wk_optimizer_free(s->optimizer);
    wk_loader_free(s->loader);
    wk_source_free(s->source);
    wk_model_free(s->model);
}

const struct strategy_range *small_range(const struct small *s)
{
    return strategy_range(&unit_of_model(s->model)->strategy);
}
