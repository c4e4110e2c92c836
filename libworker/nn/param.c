#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "libworker/nn/param.h"
#include "libworker/nn/random.h"

int param_table_init(struct wk_model *model, int capacity)
{
    model->params = calloc((size_t)capacity, sizeof(*model->params));
    return model->params ? 0 : WK_ENOMEM;
}

void param_table_fini(struct wk_model *model)
{
    free(model->params);
    model->params = NULL;
    model->n_params = 0;
}

void param_table_add(struct wk_model *model, const struct param_spec *spec, const char *fmt, ...)
{
    struct param *param = &model->params[model->n_params++];
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(param->name, sizeof(param->name), fmt, args);
    va_end(args);
    assert(length > 0 && length < PARAM_NAME_MAX);
    (void)length;

    param->dims = spec->cols ? 2 : 1;
    param->shape[0] = spec->rows;
    param->shape[1] = spec->cols;
    param->count = (size_t)spec->rows * (size_t)(spec->cols ? spec->cols : 1);
    param->offset = model->count;
    param->decay = param->dims >= 2;
    param->block = spec->block;
    param->init = spec->init;
    param->init_std = spec->init_std;
    param->lookup = spec->lookup;
    model->count += param->count;
}

static void fill_normal(const struct param *param, uint64_t seed)
{
    uint64_t key = random_key(seed, param->name);
    for (size_t i = 0; i < param->count; i += 2) {
        double values[2];
        random_normal_pair(key, i / 2, values);
        param->data[i] = (float)(values[0] * (double)param->init_std);
        if (i + 1 < param->count)
            param->data[i + 1] = (float)(values[1] * (double)param->init_std);
    }
}

static void fill_uniform(const struct param *param, uint64_t seed)
{
    uint64_t key = random_key(seed, param->name);
    for (size_t i = 0; i < param->count; i++)
        param->data[i] = (float)(2 * random_uniform(key, i) - 1) * param->init_std;
}

void param_fill(const struct param *param, uint64_t seed)
{
    switch (param->init) {
    case PARAM_ZERO:
    case PARAM_ONE:
        for (size_t i = 0; i < param->count; i++)
            param->data[i] = param->init == PARAM_ONE ? 1.0f : 0.0f;
        return;
    case PARAM_NORMAL:
        fill_normal(param, seed);
        return;
    case PARAM_UNIFORM:
        fill_uniform(param, seed);
        return;
    }
}
