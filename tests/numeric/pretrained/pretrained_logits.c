/* For ours.py: opens the model at IN and writes to standard output, for the tokens on standard
 * input, the logits of each prefix and the loss of a pass over all as floats, then the likeliest
 * tokens that follow the first GIVEN, CHOSEN of them. Saves the model to OUT, and the gradients of
 * that loss to OUT.gradients, as a model of the same shape.
 * Usage: pretrained_logits IN OUT FORMAT FILE_BYTES < TOKENS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/pretrained/pretrained.h"

enum { LENGTH_MAX = 64, GIVEN = 8, CHOSEN = 8 };

struct text {
    int32_t tokens[LENGTH_MAX];
    int length;
};

static int fill(struct wk_model *model, struct error *err)
{
    float *params = calloc(model->count, sizeof(*params));
    float *grads = calloc(model->count, sizeof(*grads));
    int rc = params && grads ? model_bind(model, params, grads) : WK_ENOMEM;
    for (int i = 0; i < model->n_params && !rc; i++)
        rc = model_fill(model, i, model->params[i].data, err);
    return rc;
}

static int print_logits(struct wk_model *model, const struct text *text, struct error *err)
{
    int rc = 0;
    float *logits = calloc((size_t)model->vocab, sizeof(*logits));
    for (int n = 1; n <= text->length && logits && !rc; n++) {
        struct wk_batch batch = {.tokens = text->tokens, .samples = 1, .length = n};
        rc = model_logits(model, &batch, logits, err);
        fwrite(logits, sizeof(*logits), (size_t)model->vocab, stdout);
    }
    free(logits);
    return rc;
}

static int print_loss(struct wk_model *model, const struct text *text, struct error *err)
{
    struct wk_batch batch = {.tokens = text->tokens,
                             .targets = text->tokens + 1,
                             .samples = 1,
                             .length = text->length - 1};
    double loss;
    int rc = model_forward(model, &batch, &loss, err);
    if (!rc)
        rc = model_backward(model, 1, err);
    if (rc)
        return rc;
    float narrow = (float)loss;
    fwrite(&narrow, sizeof(narrow), 1, stdout);
    return 0;
}

static int print_chosen(struct wk_model *model, const struct text *text, struct error *err)
{
    int32_t chosen[CHOSEN];
    struct wk_generate_options options = {.prompt = text->tokens, .prompt_length = GIVEN};
    int rc = wk_generate(model, &options, CHOSEN, chosen);
    if (rc)
        return error_set(err, rc, "%s", error_kept());
    fwrite(chosen, sizeof(*chosen), CHOSEN, stdout);
    return 0;
}

static int save_gradients(struct wk_model *model, const char *out, struct error *err)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s.gradients", out);
    for (int i = 0; i < model->n_params; i++)
        model->params[i].data = model->params[i].grad;
    return pretrained_save(model, path, NULL, err);
}

static int run(struct wk_model *model, char **argv, struct error *err)
{
    struct text text = {0};
    struct wk_export_options options = {.file_bytes = strtoull(argv[4], NULL, 10)};
    while (strcmp(wk_format_name(options.format), argv[3]) != 0)
        options.format++;
    while (text.length < LENGTH_MAX && scanf("%d", &text.tokens[text.length]) == 1)
        text.length++;
    int rc = pretrained_load(model, argv[1], err);
    if (!rc)
        rc = fill(model, err);
    if (!rc)
        rc = print_logits(model, &text, err);
    if (!rc)
        rc = print_loss(model, &text, err);
    if (!rc)
        rc = print_chosen(model, &text, err);
    if (!rc)
        rc = pretrained_save(model, argv[2], &options, err);
    if (!rc)
        rc = save_gradients(model, argv[2], err);
    return rc;
}

int main(int argc, char **argv)
{
    struct wk_model *model = NULL;
    struct error err = {0};
    if (argc != 5)
        return 2;
    int rc = pretrained_model(argv[1], &model, &err);
    if (!rc)
        rc = run(model, argv, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.text);
    if (model) {
        free(model->param_arena);
        free(model->grad_arena);
    }
    wk_model_free(model);
    return rc ? 1 : 0;
}
