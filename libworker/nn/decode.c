#include "libworker/nn/decode.h"

int decode_begin(struct wk_model *model, int64_t samples, int64_t capacity, struct error *err)
{
    if (!model->param_arena)
        return error_set(err, WK_ESTATE, "the model has no memory yet: prepare it first");
    if (!model->ops->decode)
        return error_set(err, WK_EUNSUPPORTED, "the model keeps nothing of a text");
    if (samples < 1 || samples > INT32_MAX / model->context)
        return error_set(err, WK_EINVAL, "%lld texts at once", (long long)samples);
    model->forward_done = false;
    return model->ops->decode->begin(model, samples, capacity, err);
}

int decode_pass(struct wk_model *model, const struct wk_batch *batch, int64_t past,
                float *ret_logits, struct error *err)
{
    int rc = model->ops->check ? model->ops->check(model, batch, false, err) : 0;
    if (rc)
        return rc;
    model->forward_done = false;
    return model->ops->decode->pass(model, batch, past, ret_logits, err);
}

void decode_end(struct wk_model *model)
{
    if (model->ops->decode)
        model->ops->decode->end(model);
}
