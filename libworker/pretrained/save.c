/* A model to transformers' files. */
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/str.h"
#include "libworker/device/reach.h"
#include "libworker/models/kind.h"
#include "libworker/pretrained/config.h"
#include "libworker/pretrained/family.h"
#include "libworker/pretrained/pretrained.h"
#include "libworker/pretrained/weights.h"

/* NULL for a model that transformers has no file for. */
static const struct family *family_of(const struct wk_model *model)
{
    const struct model_kind *kind = model_kind_of(model);
    if (!kind)
        return NULL;
    switch (kind->family) {
    case FAMILY_GPT:
        return family_of_gpt();
    case FAMILY_LLAMA:
        return family_of_llama(&kind->llama);
    case FAMILY_MLP:
        return NULL;
    }
    return NULL;
}

int pretrained_config(const struct wk_model *model, enum wk_format format, char **ret,
                      struct error *err)
{
    struct buf text = {0};
    const struct family *family = family_of(model);
    *ret = NULL;
    if (!family)
        return 0;
    const struct model_kind *kind = model_kind_of(model);
    struct model_config config = {family, kind->gpt, kind->llama};
    if (!model_config_write(&config, format, &text))
        *ret = strdup(buf_cstr(&text));
    buf_fini(&text);
    return *ret ? 0 : error_set(err, WK_ENOMEM, "no memory for config.json");
}

static int read_param(void *arg, int index, struct weights_range range, float *ret,
                      struct error *err)
{
    const struct wk_model *model = arg;
    const float *data = model->params[index].data + range.first;
    return reach_read(model->queue, ret, data, range.count * sizeof(*ret), err);
}

struct names {
    char text[PRETRAINED_NAME_MAX];
};

static int write_model(const struct wk_model *model, struct weights_write *what, struct error *err)
{
    size_t n = (size_t)model->n_params;
    const struct family *family = family_of(model);
    struct weights_tensor *tensors = calloc(n, sizeof(*tensors));
    struct names *names = calloc(n, sizeof(*names));
    char *config = NULL;
    int rc = tensors && names ? 0 : error_set(err, WK_ENOMEM, "no memory for %zu tensors", n);
    for (size_t i = 0; i < n && !rc; i++) {
        const struct param *param = &model->params[i];
        tensors[i].name = family_name(family, param->name, names[i].text);
        tensors[i].dims = param->dims;
        memcpy(tensors[i].shape, param->shape, sizeof(param->shape));
    }
    if (!rc)
        rc = pretrained_config(model, what->format, &config, err);
    what->config = config;
    what->tensors = tensors;
    if (!rc)
        rc = weights_write(what, err);
    free(config);
    free(tensors);
    free(names);
    return rc;
}

int pretrained_save(const struct wk_model *model, const char *path,
                    const struct wk_export_options *options, struct error *err)
{
    for (int i = 0; i < model->n_params; i++)
        if (!model->params[i].data)
            return error_set(err, WK_ESTATE, "the model has no memory yet: prepare it first");
    struct weights_write what = {
        .path = path,
        .n_tensors = model->n_params,
        .format = options ? options->format : WK_FORMAT_F32,
        .file_bytes = options ? options->file_bytes : 0,
        .read = read_param,
        .arg = (void *)model,
    };
    return write_model(model, &what, err);
}
