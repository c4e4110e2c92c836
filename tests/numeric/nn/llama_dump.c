/* Writes a small Llama, a batch, its loss and its gradients for check_llama.py to compute again.
 * Usage: llama_dump FOLDER. Files: tokens and targets (int32), NAME and NAME.grad (float32) for
 * each parameter, index (name and shape a line, loss last).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "libworker/nn/model.h"
#include "libworker/nn/random.h"

enum { SAMPLES = 2, LENGTH = 75, VOCAB = 40, COUNT = SAMPLES * LENGTH };

static int write_file(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file)
        return -1;
    size_t written = fwrite(data, 1, bytes, file);
    return fclose(file) || written != bytes ? -1 : 0;
}

static int write_params(const char *folder, const struct wk_model *model, double loss)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/index", folder);
    FILE *index = fopen(path, "w");
    int rc = index ? 0 : -1;
    for (int i = 0; i < model->n_params && !rc; i++) {
        const struct param *p = &model->params[i];
        fprintf(index, "%s %" PRId64 " %" PRId64 "\n", p->name, p->shape[0], p->shape[1]);
        snprintf(path, sizeof(path), "%s.grad", p->name);
        rc = write_file(folder, p->name, p->data, p->count * sizeof(float)) ||
             write_file(folder, path, p->grad, p->count * sizeof(float));
    }
    if (index)
        fprintf(index, "loss %.17g\n", loss);
    return index && fclose(index) ? -1 : rc;
}

int main(int argc, char **argv)
{
    static const struct wk_llama_config config = {.layers = 3,
                                                  .heads = 6,
                                                  .kv_heads = 2,
                                                  .width = 48,
                                                  .inner = 56,
                                                  .context = LENGTH,
                                                  .vocab = VOCAB,
                                                  .rope_theta = 10000,
                                                  .norm_epsilon = 1e-5};
    struct wk_model *model = NULL;
    int32_t tokens[COUNT], targets[COUNT];
    double loss = 0;
    if (argc != 2 || wk_llama_new(&config, &model))
        return 2;
    float *params = calloc(model->count, sizeof(float));
    float *grads = calloc(model->count, sizeof(float));
    for (uint64_t i = 0; i < COUNT; i++) {
        tokens[i] = (int32_t)(random_bits(1, i) % VOCAB);
        targets[i] = (int32_t)(random_bits(2, i) % VOCAB);
    }
    struct wk_batch batch = {
        .tokens = tokens, .targets = targets, .samples = SAMPLES, .length = LENGTH};
    int rc = params && grads ? model_bind(model, params, grads) : -1;
    rc = rc ? rc : wk_model_init(model, 5);
    for (size_t i = 0; i < model->count && !rc; i++)
        params[i] += (float)(0.3 * (random_uniform(9, i) - 0.5)); /* so that no path is near zero */
    rc = rc ? rc : model_forward(model, &batch, &loss, NULL);
    rc = rc ? rc : model_backward(model, 1, NULL);
    rc = rc ? rc : write_file(argv[1], "tokens", tokens, sizeof(tokens));
    rc = rc ? rc : write_file(argv[1], "targets", targets, sizeof(targets));
    rc = rc ? rc : write_params(argv[1], model, loss);
    wk_model_free(model);
    free(params);
    free(grads);
    return rc ? 1 : 0;
}
