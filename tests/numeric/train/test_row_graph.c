/* Rows and graphs: a graph finds the fields by its inputs' names, and what does not fit is said. */
#include <stdio.h>
#include <string.h>

#include <worker/graph.h>

#include "libworker/step/context.h"
#include "tests/lib/check.h"

enum { SAMPLES = 60, BATCH = 12, PIXELS = 6, KINDS = 3, STEPS = 60 };

/* A sample of kind k is bright at the pixels 2k and 2k + 1. */
static int draw(void *arg, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields)
{
    uint64_t key = wk_noise_key(seed, epoch, sample);
    int32_t kind = (int32_t)(sample % KINDS);
    (void)arg;
    for (int i = 0; i < PIXELS; i++)
        ((float *)fields[0])[i] = (float)(wk_noise(key, (uint64_t)i) - 0.5 + (i / 2 == kind));
    *(int32_t *)fields[1] = kind;
    return 0;
}

static const struct wk_field fields[] = {{"pixels", WK_F32, 2, {2, PIXELS / 2}, false, 0},
                                         {"label", WK_I32, 0, {0}, false, 0}};
static const struct wk_row_options rows = {SAMPLES, fields, 2, draw, NULL, NULL, NULL};

struct scene {
    struct wk_context *ctx;
    struct wk_source *source;
    struct wk_loader *loader;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
};

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static void open_scene(struct scene *s, const char *input, int64_t pixels)
{
    static const struct environment empty = {nothing, NULL};
    struct context_seams seams = {.environment = &empty, .quiet = true};
    struct wk_options options = {.n_settings = 0};
    struct wk_adamw_options adamw = {0.05, 0.9, 0.99, 1e-8, 0};
    struct wk_graph *g = wk_graph_new("kinds");
    struct wk_tensor *x = wk_graph_input(g, input, WK_F32, WK_SHAPE(WK_SAMPLES, pixels));
    struct wk_tensor *y = wk_graph_input(g, "label", WK_I32, WK_SHAPE(WK_SAMPLES));
    x = wk_layer_linear(x, "head", KINDS);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, y, NULL), NULL);
    CHECK(context_open(&options, &seams, &s->ctx) == 0);
    CHECK(wk_source_rows(s->ctx, &rows, &s->source) == 0);
    CHECK(wk_loader_new(s->ctx, &(struct wk_loader_options){.source = s->source, .batch = BATCH},
                        &s->loader) == 0);
    CHECK(wk_graph_model(g, &s->model) == 0);
    CHECK(wk_adamw_new(&adamw, &s->optimizer) == 0);
    CHECK(wk_prepare_all(s->ctx, WK_OBJECT(s->model), WK_OBJECT(s->optimizer),
                         WK_OBJECT(s->loader)) == 0);
}

static void close_scene(struct scene *s)
{
    (void)wk_close(s->ctx);
    wk_loader_free(s->loader);
    wk_source_free(s->source);
    wk_optimizer_free(s->optimizer);
    wk_model_free(s->model);
}

static void a_graph_finds_its_inputs_by_name(void)
{
    struct scene s;
    struct wk_batch batch;
    double first = 0, last = 0;
    int64_t found = 0;
    open_scene(&s, "pixels", PIXELS);
    CHECK(wk_find_batch(s.loader, NULL, &found) == 0 && found == BATCH);
    for (int step = 0; step < STEPS && wk_next(s.loader, &batch); step++) {
        CHECK(batch.denominator >= BATCH && batch.denominator <= BATCH);
        CHECK(wk_forward(s.model, &batch, &last) == 0);
        first = step ? first : last;
        CHECK(wk_backward(s.model) == 0 && wk_step(s.optimizer) == 0);
    }
    printf("losses from %.3f to %.3f\n", first, last);
    CHECK(first > 0.6 && first < 2 && last < 0.4); /* log 3, 1.1, is guessing */
    close_scene(&s);
}

static void rows_of_another_size_are_told(void)
{
    struct scene s;
    struct wk_batch batch;
    open_scene(&s, "pixels", PIXELS + 1);
    CHECK(wk_next(s.loader, &batch));
    CHECK(wk_forward(s.model, &batch, NULL) == WK_EINVAL);
    printf("%s\n", wk_last_error(s.ctx));
    CHECK(strstr(wk_last_error(s.ctx),
                 "input pixels has 6 elements a sample in the batch and 7 in the graph"));
    close_scene(&s);
}

static void an_input_that_the_batch_lacks_is_told(void)
{
    struct scene s;
    struct wk_batch batch;
    open_scene(&s, "pixel", PIXELS);
    CHECK(wk_next(s.loader, &batch));
    CHECK(wk_forward(s.model, &batch, NULL) == WK_EINVAL);
    printf("%s\n", wk_last_error(s.ctx));
    CHECK(strstr(wk_last_error(s.ctx), "the batch has no input pixel; it has pixels, label"));
    close_scene(&s);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(a_graph_finds_its_inputs_by_name),
        CHECK_CASE(rows_of_another_size_are_told),
        CHECK_CASE(an_input_that_the_batch_lacks_is_told),
        {0},
    };
    return check_all(cases, argc, argv);
}
