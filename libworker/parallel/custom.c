/* The model of a program that brings its own passes: a table of parameters and nothing else. */
#include <stdlib.h>
#include <string.h>

#include <worker/parallel.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "libworker/device/device.h"
#include "libworker/nn/model.h"
#include "libworker/parallel/custom.h"
#include "libworker/parallel/custom_device.h"

struct custom {
    struct wk_model model;
    const float **initial; /* [n_params] */
    struct custom_place place;
    struct custom_device device;
};

/* The program's gradients are in the arena, unscaled and added to those of earlier passes, so there
 * is nothing to compute; step/ scales the sum. */
static int custom_backward(struct wk_model *model, double scale, struct error *err)
{
    (void)model;
    (void)scale;
    (void)err;
    return 0;
}

static void custom_free(struct wk_model *model)
{
    struct custom *custom = (struct custom *)model;
    (void)custom_device_move(&custom->device, NULL, NULL);
    free(custom->initial);
    free(model->params);
    free(custom);
}

static int custom_move(struct wk_model *model, struct queue *queue, struct error *err)
{
    return custom_device_move(custom_device_of(model), queue, err);
}

/* The program's number is on the model's device, too. */
static void custom_keep_loss(struct wk_model *model, double *to)
{
    queue_copy(model->queue, to, custom_device_of(model)->loss, sizeof(*to));
}

static const struct model_ops custom_ops = {
    .name = "custom",
    .backward = custom_backward,
    .free = custom_free,
    .move = custom_move,
    .keep_loss = custom_keep_loss,
};

bool model_is_custom(const struct wk_model *model)
{
    return model->ops == &custom_ops;
}

struct custom_device *custom_device_of(struct wk_model *model)
{
    return &((struct custom *)model)->device;
}

/* A buffer without values keeps the zeros it is given. */
static int custom_fill(void *arg, const struct param *param, int index, struct error *err)
{
    const struct custom *custom = arg;
    (void)err;
    if (custom->initial[index])
        memcpy(param->data, custom->initial[index], param->count * sizeof(float));
    return 0;
}

bool custom_takes(const struct param *param, enum wk_dtype type)
{
    return (type == WK_BF16 && (param->narrow & WK_TAKES_BF16)) ||
           (type == WK_F16 && (param->narrow & WK_TAKES_F16));
}

bool custom_carries_scale(const struct wk_model *model)
{
    for (int i = 0; i < model->n_params; i++)
        if (custom_takes(&model->params[i], WK_F16))
            return true;
    return false;
}

static int fill_param(struct wk_model *model, int index, const struct wk_buffer *buffer,
                      struct error *err)
{
    enum { ALIGN = 16 }; /* elements: views start on cache lines */
    struct param *param = &model->params[index];
    if (!buffer->name || !*buffer->name || str_copy(param->name, sizeof(param->name), buffer->name))
        return error_set(err, WK_EINVAL, "buffer %d: a name of 1 to %zu bytes is needed", index,
                         sizeof(param->name) - 1);
    int rc = number_within("dims", buffer->dims, 1, PARAM_DIMS_MAX, err);
    if (rc)
        return error_wrap(err, "buffer %s", buffer->name);
    for (int i = 0; i < index; i++)
        if (strcmp(model->params[i].name, param->name) == 0)
            return error_set(err, WK_EINVAL, "two buffers are called %s", buffer->name);
    if (buffer->narrow & ~(unsigned)(WK_TAKES_BF16 | WK_TAKES_F16 | WK_GIVES_FLOAT))
        return error_set(err, WK_EINVAL, "buffer %s: narrow is %#x", buffer->name, buffer->narrow);
    int before = index ? model->params[index - 1].block : 0;
    if (buffer->block != before && (buffer->block != before + 1 || !index))
        return error_set(err, WK_EINVAL, "buffer %s: block %d after block %d; blocks are 0, 1, …",
                         buffer->name, buffer->block, before);
    if (buffer->decay && buffer->no_decay)
        return error_set(err, WK_EINVAL, "buffer %s: both decay and no_decay are set",
                         buffer->name);
    param->narrow = buffer->narrow;
    param->count = 1;
    param->dims = buffer->dims;
    for (int i = 0; i < buffer->dims; i++) {
        if (buffer->shape[i] < 1 || param->count > SIZE_MAX / 64 / (size_t)buffer->shape[i])
            return error_set(err, WK_EINVAL, "buffer %s: shape[%d] is %lld", buffer->name, i,
                             (long long)buffer->shape[i]);
        param->shape[i] = buffer->shape[i];
        param->count *= (size_t)buffer->shape[i];
    }
    param->offset = (model->count + ALIGN - 1) / ALIGN * ALIGN;
    param->decay = !buffer->no_decay && (buffer->decay || buffer->dims > 1);
    param->block = buffer->block;
    param->init = PARAM_ZERO;
    model->count = param->offset + param->count;
    return 0;
}

int wk_custom_new(const struct wk_buffer *buffers, int n_buffers, struct wk_model **ret_model)
{
    struct error err = {0};
    if (!buffers || n_buffers < 1) {
        (void)error_set(&err, WK_EINVAL, "a model has at least one buffer");
        return model_refuse(&err, ret_model);
    }
    struct custom *custom = calloc(1, sizeof(*custom));
    if (!custom)
        return model_refuse_memory(ret_model);
    struct wk_model *model = &custom->model;
    model->ops = &custom_ops;
    model->kernels = kernel_cpu();
    model->params = calloc((size_t)n_buffers, sizeof(*model->params));
    custom->initial = calloc((size_t)n_buffers, sizeof(*custom->initial));
    model->n_params = n_buffers;
    custom->place.block = -1;
    model->values = (struct model_values){custom_fill, NULL, custom};
    int rc = model->params && custom->initial ? 0 : WK_ENOMEM;
    for (int i = 0; i < n_buffers && !rc; i++) {
        rc = fill_param(model, i, &buffers[i], &err);
        custom->initial[i] = buffers[i].initial;
    }
    if (rc) {
        custom_free(model);
        return err.code ? model_refuse(&err, ret_model) : model_refuse_memory(ret_model);
    }
    model->n_blocks = 1 + model->params[n_buffers - 1].block;
    *ret_model = model;
    return 0;
}

bool custom_by_block(const struct wk_model *model)
{
    return model_is_custom(model) && model->n_blocks > 1;
}

struct custom_place custom_place(const struct wk_model *model)
{
    struct custom_place nowhere = {.block = -1};
    return custom_by_block(model) ? ((const struct custom *)model)->place : nowhere;
}

bool custom_follows(const struct wk_model *model, struct custom_place to,
                    struct custom_place *ret_next)
{
    struct custom_place at = custom_place(model), next = {.block = 0, .pass = MODEL_FORWARD};
    int last = model->n_blocks - 1;
    if (at.block >= 0 && at.pass == MODEL_BACKWARD)
        next = (struct custom_place){.block = at.block - 1, .pass = MODEL_BACKWARD};
    else if (at.block == last && to.pass == MODEL_BACKWARD)
        next = (struct custom_place){.block = last, .pass = MODEL_BACKWARD};
    else if (at.block != last)
        next.block = at.block + 1;
    *ret_next = next;
    return to.block == next.block && to.pass == next.pass;
}

void custom_go(struct wk_model *model, struct custom_place to)
{
    if (custom_by_block(model))
        ((struct custom *)model)->place = to;
}

static bool has(const struct wk_model *model, int index)
{
    return model && index >= 0 && index < model->n_params;
}

/* Memory of a device that only launches touch is no address for a program without passes there. */
static bool shows(const struct wk_model *model, int index)
{
    return has(model, index) && (!model->queue || model_is_custom(model) ||
                                 device_host_reads(queue_device(model->queue)));
}

/* Whether passes read the parameter now, and add to its gradient. */
static bool is_read(const struct wk_model *model, int index)
{
    if (!shows(model, index) || !custom_by_block(model))
        return shows(model, index);
    struct custom_place at = custom_place(model);
    int block = model->params[index].block;
    return at.whole || (at.block >= 0 && (block == at.block || block == 0));
}

static bool is_added_to(const struct wk_model *model, int index)
{
    return is_read(model, index) &&
           (!custom_by_block(model) || custom_place(model).pass == MODEL_BACKWARD);
}

float *wk_parameter_data(struct wk_model *model, int index)
{
    if (!is_read(model, index))
        return NULL;
    const struct param *param = &model->params[index];
    return param->wide ? param->wide : param->data;
}

float *wk_parameter_grad(struct wk_model *model, int index)
{
    return is_added_to(model, index) ? model->params[index].grad : NULL;
}

void custom_show_bound(struct wk_model *model)
{
    for (int i = 0; i < model->n_params && model->bound_data; i++)
        model->bound_data[i] = wk_parameter_data(model, i);
    for (int i = 0; i < model->n_params && model->bound_grads; i++)
        model->bound_grads[i] = wk_parameter_grad(model, i);
}

enum wk_dtype wk_parameter_type(const struct wk_model *model, int index)
{
    if (!has(model, index) || !model->low)
        return WK_F32;
    const struct param *param = &model->params[index];
    bool narrow =
        model_is_custom(model) ? custom_takes(param, model->low->type) : model_reads_low(param);
    return narrow ? model->low->type : WK_F32;
}

const uint16_t *wk_parameter_low(struct wk_model *model, int index)
{
    bool reads = wk_parameter_type(model, index) != WK_F32 && is_read(model, index);
    return reads ? model->params[index].low : NULL;
}

uint16_t *wk_parameter_low_grad(struct wk_model *model, int index)
{
    return is_added_to(model, index) ? model->params[index].low_grad : NULL;
}
