#include "libworker/nn/buffers.h"

#include <stdlib.h>

#include <worker/error.h>

#include "libworker/nn/model.h"

int buffers_init(struct buffers *buffers, int n, size_t count)
{
    *buffers = (struct buffers){.n = n, .count = count};
    if (!n)
        return 0;
    buffers->list = calloc((size_t)n, sizeof(*buffers->list));
    buffers->host = calloc(count, sizeof(*buffers->host));
    buffers->sums = calloc(count + 1, sizeof(*buffers->sums));
    if (buffers->list && buffers->host && buffers->sums)
        return 0;
    buffers_fini(buffers);
    return WK_ENOMEM;
}

void buffers_fini(struct buffers *buffers)
{
    free(buffers->list);
    free(buffers->host);
    free(buffers->sums);
    *buffers = (struct buffers){0};
}

int buffers_read(struct wk_model *model, enum buffer_stage stage, struct error *err)
{
    return model->buffers.n ? model->ops->buffers->read(model, stage, err) : 0;
}

int buffers_write(struct wk_model *model, enum buffer_stage stage, struct error *err)
{
    return model->buffers.n ? model->ops->buffers->write(model, stage, err) : 0;
}

int buffers_reset(struct wk_model *model, bool values, struct error *err)
{
    const struct buffers *buffers = &model->buffers;
    int rc = 0;
    if (!buffers->n)
        return 0;
    model->ops->buffers->reset(model);
    for (int i = 0; i < buffers->n && values && model->values.fill && !rc; i++) {
        struct param at = buffers->list[i];
        at.data = buffers->host + at.offset;
        rc = model->values.fill(model->values.arg, &at, model->n_params + i, err);
    }
    if (rc)
        return rc;
    return buffers_write(model, BUFFERS_CONTENT, err);
}

void buffers_keep(struct wk_model *model)
{
    if (model->buffers.n)
        model->ops->buffers->keep(model);
    model->buffers.samples = 0;
}

void buffers_drop(struct wk_model *model)
{
    if (model->buffers.n)
        model->ops->buffers->drop(model);
    model->buffers.samples = 0;
}
