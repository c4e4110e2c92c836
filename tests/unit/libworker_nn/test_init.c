#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/nn/param.h"
#include "libworker/nn/random.h"

static const struct wk_gpt_config config = {2, 4, 64, 32, 100};

static struct wk_model *gpt(const struct wk_gpt_config *shape, float **ret_params)
{
    struct wk_model *model;
    cr_assert_eq(wk_gpt_new(shape, &model), 0);
    *ret_params = calloc(model->count, sizeof(float));
    return model;
}

static void moments(const struct param *param, double *ret_mean, double *ret_deviation)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < param->count; i++) {
        sum += (double)param->data[i];
        squares += (double)param->data[i] * (double)param->data[i];
    }
    *ret_mean = sum / (double)param->count;
    *ret_deviation = sqrt(squares / (double)param->count);
}

Test(init, has_gpt2s_moments)
{
    float *params;
    struct wk_model *model = gpt(&config, &params);
    cr_assert_eq(model_bind(model, params, NULL), 0);
    wk_model_init(model, 1);
    for (int i = 0; i < model->n_params; i++) {
        const struct param *param = &model->params[i];
        double mean, deviation;
        moments(param, &mean, &deviation);
        bool residual = strstr(param->name, "c_proj.weight") != NULL;
        double expected = residual ? 0.02 / sqrt(2 * 2) : 0.02;
        if (param->dims == 2) {
            cr_expect_float_eq(mean, 0, 5 * expected / sqrt((double)param->count), "%s",
                               param->name);
            cr_expect_float_eq(deviation, expected, 0.1 * expected, "%s: %g", param->name,
                               deviation);
        } else {
            double constant = strstr(param->name, "ln_") && strstr(param->name, "weight") ? 1 : 0;
            cr_expect_eq(mean, constant, "%s", param->name);
            cr_expect_eq(deviation, constant, "%s", param->name);
        }
    }
    wk_model_free(model);
    free(params);
}

/* One parameter filled alone, or in a deeper model, has the values it has among all others. */
Test(init, does_not_depend_on_order_or_neighbours)
{
    struct wk_gpt_config deeper = config;
    deeper.layers = 3; /* c_proj's deviation differs, the others' does not */
    deeper.vocab = 40;
    float *params, *alone, *others;
    struct wk_model *model = gpt(&config, &params), *deep = gpt(&deeper, &others);
    cr_assert_eq(model_bind(model, params, NULL), 0);
    cr_assert_eq(model_bind(deep, others, NULL), 0);
    wk_model_init(model, 9);
    wk_model_init(deep, 9);
    const struct param *qkv = model_param(model, "h.1.attn.c_attn.weight");
    struct param copy = *qkv;
    alone = calloc(copy.count, sizeof(float));
    copy.data = alone;
    param_fill(&copy, 9);
    cr_expect_eq(memcmp(alone, qkv->data, copy.count * sizeof(float)), 0);
    copy = *model_param(deep, "h.1.attn.c_attn.weight");
    cr_expect_eq(memcmp(alone, copy.data, copy.count * sizeof(float)), 0);
    wk_model_free(model);
    wk_model_free(deep);
    free(params);
    free(alone);
    free(others);
}

Test(init, differs_by_seed_and_by_name)
{
    cr_expect_neq(random_key(1, "wte.weight"), random_key(2, "wte.weight"));
    cr_expect_neq(random_key(1, "wte.weight"), random_key(1, "wpe.weight"));
    float *params;
    struct wk_model *model = gpt(&config, &params);
    cr_assert_eq(model_bind(model, params, NULL), 0);
    wk_model_init(model, 1);
    const struct param *a = model_param(model, "h.0.mlp.c_fc.weight");
    const struct param *b = model_param(model, "h.1.mlp.c_fc.weight");
    cr_expect_neq(memcmp(a->data, b->data, a->count * sizeof(float)), 0);
    wk_model_free(model);
    free(params);
}

Test(init, waits_for_memory)
{
    float *early, *late;
    struct wk_model *before = gpt(&config, &early), *after = gpt(&config, &late);
    wk_model_init(before, 5);
    cr_assert_eq(model_bind(before, early, NULL), 0);
    cr_assert_eq(model_bind(after, late, NULL), 0);
    wk_model_init(after, 5);
    cr_expect_neq(early[0], 0);
    cr_expect_eq(memcmp(early, late, before->count * sizeof(float)), 0);
    /* moving to other memory later does not start over */
    late[0] = 7;
    cr_assert_eq(model_bind(before, late, NULL), 0);
    cr_expect_eq(late[0], 7);
    wk_model_free(before);
    wk_model_free(after);
    free(early);
    free(late);
}

Test(random, is_uniform_and_normal)
{
    enum { DRAWS = 100000 };
    double sum = 0, normal[2], squares = 0, cross = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double u = random_uniform(42, i);
        cr_assert(u >= 0 && u < 1);
        sum += u;
        random_normal_pair(42, i, normal);
        squares += normal[0] * normal[0] + normal[1] * normal[1];
        cross += normal[0] * normal[1];
    }
    cr_expect_float_eq(sum / DRAWS, 0.5, 0.005);
    cr_expect_float_eq(squares / (2 * DRAWS), 1, 0.02);
    cr_expect_float_eq(cross / DRAWS, 0, 0.02);
}
