#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <worker/worker.h>

#include "libworker/device/device.h"
#include "libworker/nn/count.h"
#include "libworker/nn/model.h"
#include "libworker/nn/param.h"

void wk_model_free(struct wk_model *model)
{
    if (!model || model->owned_by)
        return;
    model->kernels->room_free(model->low_storage.room);
    free(model->kind);
    model_set_values(model, &(struct model_values){0});
    model->ops->free(model);
}

size_t wk_model_count(const struct wk_model *model)
{
    return model->count;
}

int wk_model_parameters(const struct wk_model *model)
{
    return model->n_params;
}

int model_refuse(const struct error *err, struct wk_model **ret_model)
{
    *ret_model = NULL;
    return error_keep_of(WK_OBJECT_MODEL, err);
}

int model_refuse_memory(struct wk_model **ret_model)
{
    struct error err = {0};
    (void)error_set(&err, WK_ENOMEM, "no memory for a model");
    return model_refuse(&err, ret_model);
}

/* A call that would change what is trained. */
static int refuse(const struct wk_model *model, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(const struct wk_model *model, int code, const char *fmt, ...)
{
    char text[256];
    struct error err = {0};
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    (void)error_set(&err, code, "%s", text);
    return model ? error_tell(&model->ear, &err, true) : error_keep(&err);
}

static int refuse_null(const char *call)
{
    const char *why = error_kept_of(WK_OBJECT_MODEL);
    return refuse(NULL, WK_EINVAL, "%s of NULL instead of a model%s%.150s", call, *why ? ": " : "",
                  why);
}

int wk_model_label_smoothing(struct wk_model *model, double share)
{
    if (!model)
        return refuse_null("wk_model_label_smoothing");
    if (!(share >= 0 && share < 1))
        return refuse(model, WK_EINVAL, "a label smoothing of %g is outside [0, 1)", share);
    model->label_smoothing = (float)share;
    return 0;
}

int wk_model_dropout(struct wk_model *model, double share, uint64_t seed)
{
    if (!model)
        return refuse_null("wk_model_dropout");
    if (!(share >= 0 && share < 1))
        return refuse(model, WK_EINVAL, "a dropout of %g is outside [0, 1)", share);
    if (!model->drops)
        return refuse(model, WK_EUNSUPPORTED, "a model of kind %s has no dropout",
                      model->ops->name);
    model->dropout = (float)share;
    model->dropout_seed = seed;
    model->forward_done = false;
    return 0;
}

int wk_model_recompute_by(struct wk_model *model, enum wk_recompute policy, int64_t bytes)
{
    if (!model)
        return refuse_null("wk_model_recompute_by");
    if ((int)policy < WK_RECOMPUTE_NONE || policy > WK_RECOMPUTE_WITHIN)
        return refuse(model, WK_EINVAL, "there is no policy %d of recomputation", (int)policy);
    if (policy == WK_RECOMPUTE_WITHIN && bytes < 1)
        return refuse(model, WK_EINVAL, "a pass within %lld bytes: it takes at least 1",
                      (long long)bytes);
    model->recompute = policy;
    model->recompute_bytes = policy == WK_RECOMPUTE_WITHIN ? bytes : 0;
    model->forward_done = false;
    return 0;
}

int wk_model_freeze(struct wk_model *model, const char *pattern, bool on)
{
    struct error err = {0};
    if (!model)
        return refuse_null("wk_model_freeze");
    if (!pattern)
        return refuse(model, WK_EINVAL, "wk_model_freeze without a pattern");
    if (model->param_arena || model->unit)
        return refuse(model, WK_ESTATE, "wk_model_freeze after wk_prepare: call it before");
    if (!model->ops->freeze)
        return refuse(model, WK_EUNSUPPORTED,
                      "wk_model_freeze of a model of kind %s: leave frozen parameters out of its "
                      "buffers",
                      model->ops->name);
    int rc = model->ops->freeze(model, pattern, on, &err);
    if (rc)
        (void)refuse(model, rc, "%.250s", err.text);
    return rc;
}

void wk_model_recompute(struct wk_model *model, bool on)
{
    (void)wk_model_recompute_by(model, on ? WK_RECOMPUTE_BLOCKS : WK_RECOMPUTE_NONE, 0);
}

void model_set_values(struct wk_model *model, const struct model_values *values)
{
    if (model->values.free)
        model->values.free(model->values.arg);
    model->values = *values;
}

int model_move(struct wk_model *model, struct queue *queue, struct error *err)
{
    if (queue && !model->ops->move && !device_host_reads(queue_device(queue)))
        return error_set(err, WK_EUNSUPPORTED,
                         "a model of kind %s computes in the host's memory, and not on device %s",
                         model->ops->name, device_name(queue_device(queue)));
    if (queue == model->queue)
        return 0;
    model->queue = queue;
    model->forward_done = false;
    int rc = model->ops->move ? model->ops->move(model, queue, err) : 0;
    if (rc)
        model->queue = NULL;
    return rc;
}

/* values: NULL for those of the seed. */
static int fill_host(const struct wk_model *model, int index, const struct model_values *values,
                     float *ret, struct error *err)
{
    struct param param = model->params[index];
    param.data = ret;
    if (values && values->fill)
        return values->fill(values->arg, &param, index, err);
    param_fill(&param, model->seed);
    return 0;
}

static int fill_place(const struct wk_model *model, int index, const struct model_values *values,
                      float *ret, struct error *err)
{
    const struct param *param = &model->params[index];
    size_t bytes = param->count * sizeof(*ret);
    if (!model->queue || ret == param->host || device_host_reads(queue_device(model->queue)))
        return fill_host(model, index, values, ret, err);
    float *host = calloc(1, bytes);
    if (!host)
        return error_set(err, WK_ENOMEM, "no memory for the values of %s", param->name);
    int rc = fill_host(model, index, values, host, err);
    if (!rc)
        rc = queue_write(model->queue, ret, host, bytes, err);
    free(host);
    return rc;
}

int model_fill(struct wk_model *model, int index, float *ret, struct error *err)
{
    return fill_place(model, index, &model->values, ret, err);
}

static int fill_all(struct wk_model *model)
{
    int rc = 0;
    for (int i = 0; i < model->n_params && !rc; i++)
        rc = fill_place(model, i, NULL, param_master(&model->params[i]), NULL);
    model->seed_waits = false;
    return rc;
}

int model_seed(struct wk_model *model, uint64_t seed)
{
    model->seed = seed;
    model->seed_waits = true;
    return model->param_arena ? fill_all(model) : 0;
}

/* A prepared model has an ear. */
int wk_model_init(struct wk_model *model, uint64_t seed)
{
    if (!model)
        return refuse_null("wk_model_init");
    if (model->ear.hear)
        return refuse(model, WK_ESTATE, "wk_model_init after wk_prepare: call it before");
    return model_seed(model, seed);
}

int model_bind(struct wk_model *model, float *params, float *grads)
{
    if (!params)
        return WK_EINVAL;
    model->param_arena = params;
    model->grad_arena = grads;
    for (int i = 0; i < model->n_params; i++) {
        struct param *param = &model->params[i];
        param->data = params + param->offset;
        param->grad = grads && i < model_trained(model) ? grads + param->offset : NULL;
    }
    model->forward_done = false;
    return model->seed_waits && !model->values.fill ? fill_all(model) : 0;
}

struct model_block model_block(const struct wk_model *model, int block)
{
    struct model_block found = {0};
    for (int i = 0; i < model->n_params; i++) {
        const struct param *param = &model->params[i];
        if (param->block != block)
            continue;
        if (!found.n_params) {
            found.first = i;
            found.offset = param->offset;
        }
        found.n_params++;
        found.count = param->offset + param->count - found.offset;
    }
    return found;
}

int model_set_compute(struct wk_model *model, enum wk_dtype type, const uint16_t *low,
                      struct error *err)
{
    if (type != WK_F32 && type != WK_BF16 && type != WK_F16)
        return error_set(err, WK_EINVAL, "models compute in f32, bf16 or f16");
    struct low *storage = &model->low_storage;
    if (type != WK_F32 && !storage->room)
        storage->room = model->kernels->room_new();
    if (type != WK_F32 && !storage->room)
        return error_set(err, WK_ENOMEM, "no memory for low-precision products");
    storage->type = type;
    model->low = type == WK_F32 ? NULL : storage;
    for (int i = 0; i < model->n_params; i++)
        model->params[i].low = low && model->low ? low + model->params[i].offset : NULL;
    model->forward_done = false;
    return 0;
}

bool model_reads_low(const struct param *param)
{
    return param->dims > 1 || param->narrow;
}

void model_write_low(const struct wk_model *model, enum wk_dtype type, uint16_t *low)
{
    model->kernels->narrow(low, type, model->param_arena, model->count);
}

int model_enter(struct wk_model *model, int block, enum model_pass pass, struct error *err)
{
    const struct model_hooks *hooks = &model->hooks;
    return hooks->before_block ? hooks->before_block(hooks->arg, block, pass, err) : 0;
}

int model_leave(struct wk_model *model, int block, enum model_pass pass, struct error *err)
{
    const struct model_hooks *hooks = &model->hooks;
    return hooks->after_block ? hooks->after_block(hooks->arg, block, pass, err) : 0;
}

struct param *model_param(struct wk_model *model, const char *name)
{
    for (int i = 0; i < model->n_params; i++) {
        if (!strcmp(model->params[i].name, name))
            return &model->params[i];
    }
    return NULL;
}

void model_announce(struct wk_model *model, int index)
{
    if (model->grad_ready)
        model->grad_ready(model->grad_ready_arg, index);
}

int model_reserve(struct wk_model *model, int64_t samples, int64_t length, struct error *err)
{
    model->forward_done = false;
    if (!model->ops->reserve)
        return 0;
    if (samples < 0 || (samples > 0 && (length < 1 || length > model->context)))
        return error_set(err, WK_EINVAL, "no pass has %lld samples of %lld tokens",
                         (long long)samples, (long long)length);
    if (samples > INT32_MAX / model->context)
        return error_set(err, WK_ENOMEM, "%lld samples are more than a pass may have",
                         (long long)samples);
    return model->ops->reserve(model, samples, length, err);
}

void model_zero_grad(struct wk_model *model)
{
    size_t bytes = model_trained_count(model) * sizeof(*model->grad_arena);
    if (model->grad_arena && model->queue)
        queue_fill(model->queue, model->grad_arena, 0, bytes);
    else if (model->grad_arena)
        memset(model->grad_arena, 0, bytes);
}

static int check_tokens(const struct wk_model *model, const int32_t *tokens, int64_t count,
                        struct error *err)
{
    for (int64_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= model->vocab)
            return error_set(err, WK_EINVAL,
                             "token %d at position %lld is outside the vocabulary of %lld",
                             (int)tokens[i], (long long)i, (long long)model->vocab);
    }
    return 0;
}

static int check_targets(const struct wk_model *model, const int32_t *targets, int64_t count,
                         struct error *err)
{
    int rc = 0;
    for (int64_t i = 0; i < count && !rc; i++)
        if (targets[i] != WK_IGNORED)
            rc = check_tokens(model, &targets[i], 1, err);
    return rc;
}

static int check_texts(const struct wk_model *model, const struct wk_batch *batch, bool losses,
                       struct error *err)
{
    if (batch->length < 1 || batch->length > model->context)
        return error_set(err, WK_EINVAL,
                         "samples of %lld tokens do not fit the model's context of %lld",
                         (long long)batch->length, (long long)model->context);
    int64_t count = batch->samples * batch->length;
    if (losses && !batch->targets)
        return error_set(err, WK_EINVAL, "a batch without targets has no loss");
    if (!batch->tokens)
        return error_set(err, WK_EINVAL, "a batch without tokens");
    int rc = check_tokens(model, batch->tokens, count, err);
    if (rc || !batch->targets)
        return rc;
    return check_targets(model, batch->targets, count, err);
}

static int check_batch(const struct wk_model *model, const struct wk_batch *batch, bool losses,
                       struct error *err)
{
    if (!model->param_arena)
        return error_set(err, WK_ESTATE, "the model has no memory yet: prepare it first");
    if (model->context < 1)
        return error_set(err, WK_EUNSUPPORTED,
                         "a custom model's passes are the program's own, which calls them itself");
    if (batch->samples < 0 || batch->samples > INT32_MAX / model->context)
        return error_set(err, WK_EINVAL, "a batch of %lld samples", (long long)batch->samples);
    if (batch->samples == 0)
        return 0;
    return (model->ops->check ? model->ops->check : check_texts)(model, batch, losses, err);
}

int model_check(const struct wk_model *model, const struct wk_batch *batch, bool losses,
                struct error *err)
{
    int rc = check_batch(model, batch, losses, err);
    if (rc)
        return rc;
    if (!(batch->denominator >= 0))
        return error_set(err, WK_EINVAL, "the denominator %g is not positive", batch->denominator);
    return 0;
}

int model_forward(struct wk_model *model, const struct wk_batch *batch, double *ret_loss,
                  struct error *err)
{
    model->forward_done = false;
    int rc = model_check(model, batch, true, err);
    if (rc)
        return rc;
    double loss = 0;
    model->batch = *batch;
    rc = model->ops->forward(model, &model->batch, ret_loss ? &loss : NULL, err);
    if (rc)
        return rc;
    model->forward_done = true;
    if (ret_loss)
        *ret_loss = loss;
    return 0;
}

void model_keep_loss(struct wk_model *model, double *to)
{
    if (model->batch.samples > 0 || !model->ops->forward)
        model->ops->keep_loss(model, to);
    else
        queue_fill(model->queue, to, 0, sizeof(*to));
}

int model_backward(struct wk_model *model, double scale, struct error *err)
{
    if (!model->forward_done)
        return error_set(err, WK_ESTATE, "a backward pass without a forward pass before it");
    if (!model->grad_arena)
        return error_set(err, WK_ESTATE, "the model has no memory for gradients");
    model->forward_done = false;
    return model->ops->backward(model, scale, err);
}

int model_evaluate(struct wk_model *model, const struct wk_batch *batch, double *ret_loss,
                   const struct wk_outputs *outputs, struct error *err)
{
    model->forward_done = false;
    int rc = model_check(model, batch, outputs->losses != NULL, err);
    if (rc)
        return rc;
    *ret_loss = 0;
    return model->ops->evaluate(model, batch, ret_loss, outputs, err);
}

int model_logits(struct wk_model *model, const struct wk_batch *batch, float *ret_logits,
                 struct error *err)
{
    model->forward_done = false;
    int rc = check_batch(model, batch, false, err);
    return rc || batch->samples == 0 ? rc : model->ops->logits(model, batch, ret_logits, err);
}
