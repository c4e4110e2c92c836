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

/* Parameters, then buffers. */
static const struct param *stored_at(const struct wk_model *model, int index)
{
    bool buffer = index >= model->n_params;
    return buffer ? &model->buffers.list[index - model->n_params] : &model->params[index];
}

/* Where a tensor's elements are: buffers on the host, once they are read. */
static const float *values_at(const struct wk_model *model, int index)
{
    const struct param *stored = stored_at(model, index);
    return index < model->n_params ? param_master(stored) : model->buffers.host + stored->offset;
}

static int read_param(void *arg, int index, struct weights_range range, float *ret,
                      struct error *err)
{
    const struct wk_model *model = arg;
    const float *data = values_at(model, index) + range.first;
    const struct param *stored = stored_at(model, index);
    struct queue *queue = index < model->n_params && !stored->host ? model->queue : NULL;
    return reach_read(queue, ret, data, range.count * sizeof(*ret), err);
}

struct names {
    char text[PRETRAINED_NAME_MAX];
};

static int write_model(const struct wk_model *model, struct weights_write *what, struct error *err)
{
    size_t n = (size_t)what->n_tensors;
    const struct family *family = family_of(model);
    struct weights_tensor *tensors = calloc(n, sizeof(*tensors));
    struct names *names = calloc(n, sizeof(*names));
    char *config = NULL;
    int rc = tensors && names ? 0 : error_set(err, WK_ENOMEM, "no memory for %zu tensors", n);
    for (size_t i = 0; i < n && !rc; i++) {
        const struct param *param = stored_at(model, (int)i);
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

int pretrained_save(struct wk_model *model, const char *path,
                    const struct wk_export_options *options, struct error *err)
{
    for (int i = 0; i < model->n_params; i++)
        if (!model->params[i].data)
            return error_set(err, WK_ESTATE, "the model has no memory yet: prepare it first");
    int rc = buffers_read(model, BUFFERS_CONTENT, err);
    if (rc)
        return rc;
    struct weights_write what = {
        .path = path,
        .n_tensors = model->n_params + model->buffers.n,
        .format = options ? options->format : WK_FORMAT_F32,
        .file_bytes = options ? options->file_bytes : 0,
        .read = read_param,
        .arg = model,
    };
    return write_model(model, &what, err);
}
