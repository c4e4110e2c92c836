#include <stdlib.h>
#include <string.h>

#include <worker/parallel.h>
#include <worker/precision.h>
#include <worker/worker.h>

#include "libworker/nn/model.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/borrowed.h"

enum { PARAMS_MAX = 64 };

void borrowed_init(struct borrowed *b, const struct wk_gpt_config *config, uint64_t seed,
                   unsigned narrow, bool by_block)
{
    struct wk_buffer buffers[PARAMS_MAX];
    *b = (struct borrowed){.how = BORROWED_PLAIN, .by_block = by_block};
    CHECK(wk_gpt_new(config, &b->code) == 0);
    b->params = calloc(b->code->count, sizeof(*b->params));
    b->grads = calloc(b->code->count, sizeof(*b->grads));
    CHECK(b->params && b->grads && b->code->n_params <= PARAMS_MAX);
    CHECK(model_bind(b->code, b->params, b->grads) == 0 && wk_model_init(b->code, seed) == 0);
    for (int i = 0; i < b->code->n_params; i++) {
        const struct param *param = &b->code->params[i];
        buffers[i] = (struct wk_buffer){.name = param->name,
                                        .dims = param->dims,
                                        .initial = param->data,
                                        .decay = param->decay,
                                        .narrow = param->dims > 1 ? narrow : 0,
                                        .block = by_block ? param->block : 0};
        memcpy(buffers[i].shape, param->shape, sizeof(buffers[i].shape));
    }
    CHECK(wk_custom_new(buffers, b->code->n_params, &b->custom) == 0);
}

void borrowed_fini(struct borrowed *b)
{
    wk_model_free(b->code);
    free(b->params);
    free(b->grads);
    *b = (struct borrowed){0};
}

static enum wk_format format_of(enum wk_dtype type)
{
    return type == WK_BF16 ? WK_FORMAT_BF16 : WK_FORMAT_F16;
}

/* Where this pass reads parameter `index` and adds to its gradient. By block, addresses are NULL
 * outside of their block. */
static void lead_param(struct borrowed *b, int index)
{
    struct param *param = &b->code->params[index];
    enum wk_dtype type = wk_parameter_type(b->custom, index);
    bool given_float =
        !wk_parameter_low_grad(b->custom, index) && (type == WK_F32 || b->how != BORROWED_ROUNDS);
    param->data = wk_parameter_data(b->custom, index);
    param->low = wk_parameter_low(b->custom, index);
    param->grad = given_float ? wk_parameter_grad(b->custom, index) : b->grads + param->offset;
    if (param->low && b->how == BORROWED_WIDENS) {
        param->data = b->params + param->offset;
        wk_widen(param->data, format_of(type), param->low, param->count);
    }
}

static void lead_all(struct borrowed *b)
{
    for (int i = 0; i < b->code->n_params; i++)
        lead_param(b, i);
}

/* The type that the passes compute in, before they are led. */
static void set_compute(struct borrowed *b)
{
    enum wk_dtype all = WK_F32;
    for (int i = 0; i < b->code->n_params; i++) {
        enum wk_dtype type = wk_parameter_type(b->custom, i);
        if (type != WK_F32 && b->how != BORROWED_WIDENS)
            all = type;
    }
    CHECK(model_set_compute(b->code, all, NULL, NULL) == 0);
}

/* A tied head enters block 0 inside the last block. */
static int before_block(void *arg, int block, enum model_pass pass, struct error *err)
{
    struct borrowed *b = arg;
    (void)err;
    if (b->depth++)
        return 0;
    CHECK(wk_enter_block(b->custom, pass == MODEL_FORWARD ? WK_FORWARD : WK_BACKWARD, block) == 0);
    lead_all(b);
    return 0;
}

static int after_block(void *arg, int block, enum model_pass pass, struct error *err)
{
    struct borrowed *b = arg;
    (void)block;
    (void)pass;
    (void)err;
    b->depth--;
    return 0;
}

static void round_as(enum wk_dtype type, float *x, size_t count)
{
    uint16_t *bits = malloc(count * sizeof(*bits));
    wk_narrow(bits, format_of(type), x, count);
    wk_widen(x, format_of(type), bits, count);
    free(bits);
}

/* The gradient of parameter `index` is whole, where the program made it. */
static void give(struct borrowed *b, int index)
{
    const struct param *param = &b->code->params[index];
    enum wk_dtype type = wk_parameter_type(b->custom, index);
    uint16_t *low = wk_parameter_low_grad(b->custom, index);
    float *whole = wk_parameter_grad(b->custom, index);
    if (param->grad == whole)
        return;
    if (low) {
        for (size_t i = 0; i < param->count; i++)
            CHECK(low[i] == 0);
        wk_narrow(low, format_of(type), param->grad, param->count);
    } else {
        round_as(type, param->grad, param->count);
        for (size_t i = 0; i < param->count; i++)
            whole[i] += param->grad[i];
    }
    memset(param->grad, 0, param->count * sizeof(float));
}

static void announced(void *arg, int index)
{
    struct borrowed *b = arg;
    give(b, index);
    wk_grad_ready(b->custom, index);
}

void borrowed_passes(struct borrowed *b, const struct wk_batch *batch)
{
    struct error err = {0};
    double loss;
    if (!b->by_block && !wk_parameter_grad(b->custom, 0))
        return; /* between generations */
    set_compute(b);
    if (b->by_block)
        b->code->hooks = (struct model_hooks){before_block, after_block, b};
    else
        lead_all(b);
    b->code->grad_ready = announced;
    b->code->grad_ready_arg = b;
    CHECK(model_forward(b->code, batch, &loss, &err) == 0);
    wk_set_loss(b->custom, loss);
    CHECK(model_backward(b->code, wk_backward_scale(b->custom), &err) == 0);
}
