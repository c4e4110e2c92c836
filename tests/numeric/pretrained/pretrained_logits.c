/* For check_pretrained.py and check_transformers.py: opens the model at IN, writes the logits of
 * every prefix of the tokens on standard input to standard output as floats, and saves the model
 * to OUT.
 * Usage: pretrained_logits IN OUT FORMAT FILE_BYTES < TOKENS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/pretrained/pretrained.h"

enum { LENGTH_MAX = 64 };

static int fill(struct wk_model *model, struct error *err)
{
    float *params = calloc(model->count, sizeof(*params));
    int rc = params ? model_bind(model, params, NULL) : WK_ENOMEM;
    for (int i = 0; i < model->n_params && !rc; i++)
        rc = model_fill(model, i, model->params[i].data, err);
    return rc;
}

static int print_logits(struct wk_model *model, struct error *err)
{
    int32_t tokens[LENGTH_MAX];
    int length = 0, rc = 0;
    while (length < LENGTH_MAX && scanf("%d", &tokens[length]) == 1)
        length++;
    float *logits = calloc((size_t)model->vocab, sizeof(*logits));
    for (int n = 1; n <= length && logits && !rc; n++) {
        struct wk_batch batch = {.tokens = tokens, .samples = 1, .length = n};
        rc = model_logits(model, &batch, logits, err);
        fwrite(logits, sizeof(*logits), (size_t)model->vocab, stdout);
    }
    free(logits);
    return rc;
}

int main(int argc, char **argv)
{
    struct wk_model *model = NULL;
    struct error err = {0};
    if (argc != 5)
        return 2;
    struct wk_export_options options = {.file_bytes = strtoull(argv[4], NULL, 10)};
    while (strcmp(wk_format_name(options.format), argv[3]) != 0)
        options.format++;
    int rc = pretrained_model(argv[1], &model, &err);
    if (!rc)
        rc = pretrained_load(model, argv[1], &err);
    if (!rc)
        rc = fill(model, &err);
    if (!rc)
        rc = print_logits(model, &err);
    if (!rc)
        rc = pretrained_save(model, argv[2], &options, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.text);
    if (model)
        free(model->param_arena);
    wk_model_free(model);
    return rc ? 1 : 0;
}
