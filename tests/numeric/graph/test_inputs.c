/* Inputs of every type: a graph computes with them as with the same numbers in f32 and i32. What
 * does not fit is refused by name. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <worker/graph.h>
#include <worker/nn.h>

#include "libworker/nn/model.h"
#include "libworker/precision/half.h"

enum { SAMPLES = 4, WIDTH = 6, KINDS = 3, PARAMS = WIDTH * KINDS + KINDS };
static const enum wk_dtype value_types[] = {WK_F32, WK_F64, WK_F16, WK_BF16, WK_U8, WK_BOOL};
static const enum wk_dtype index_types[] = {WK_I32, WK_I64, WK_U8, WK_BOOL};
enum { VALUE_TYPES = 6, INDEX_TYPES = 4 };

static void put(void *to, enum wk_dtype type, int i, double value)
{
    switch (type) {
    case WK_F32:
        ((float *)to)[i] = (float)value;
        return;
    case WK_F64:
        ((double *)to)[i] = value;
        return;
    case WK_F16:
        ((uint16_t *)to)[i] = f16_of_f32((float)value);
        return;
    case WK_BF16:
        ((uint16_t *)to)[i] = bf16_of_f32((float)value);
        return;
    case WK_I32:
        ((int32_t *)to)[i] = (int32_t)value;
        return;
    case WK_I64:
        ((int64_t *)to)[i] = (int64_t)value;
        return;
    case WK_U8:
    case WK_BOOL:
        ((uint8_t *)to)[i] = (uint8_t)value;
        return;
    }
}

/* Numbers that every type has: of bool 0 and 1. */
static double pixel(int i, bool bits)
{
    return bits ? i * 7 % 3 % 2 : i * 37 % 100;
}

/* Room for elements of any type. */
static void *array_new(size_t count)
{
    void *array = calloc(count, sizeof(double));
    cr_assert_not_null(array);
    return array;
}

struct run {
    double loss;
    float grads[PARAMS];
};

static struct wk_model *model_of(enum wk_dtype value, enum wk_dtype index, float *params,
                                 float *grads)
{
    struct wk_graph *g = wk_graph_new("types");
    struct wk_tensor *x = wk_graph_input(g, "x", value, WK_SHAPE(WK_SAMPLES, 2, WIDTH / 2));
    struct wk_tensor *y = wk_graph_input(g, "label", index, WK_SHAPE(WK_SAMPLES));
    struct wk_model *model;
    x = wk_op_scale(wk_op_reshape(x, WK_SHAPE(WK_SAMPLES, WIDTH)), 0.01);
    x = wk_layer_linear(x, "head", KINDS);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, y, NULL), NULL);
    cr_assert_eq(wk_graph_model(g, &model), 0);
    cr_assert_eq(model_bind(model, params, grads), 0);
    cr_assert_eq(model->count, PARAMS);
    for (int i = 0; i < PARAMS; i++)
        params[i] = (float)(i * 11 % 7 - 3) / 8;
    memset(grads, 0, PARAMS * sizeof(*grads));
    return model;
}

static struct run run(enum wk_dtype value, enum wk_dtype index, bool bits)
{
    void *x = array_new(SAMPLES * WIDTH), *y = array_new(SAMPLES);
    float params[PARAMS];
    struct run run;
    struct wk_batch_tensor tensors[] = {{"x", x, value, WIDTH}, {"label", y, index, 1}};
    struct wk_batch batch = {
        .samples = SAMPLES, .length = 1, .tensors = tensors, .n_tensors = 2, .denominator = 3};
    struct wk_model *model = model_of(value, index, params, run.grads);
    for (int i = 0; i < SAMPLES * WIDTH; i++)
        put(x, value, i, pixel(i, bits));
    for (int i = 0; i < SAMPLES; i++)
        put(y, index, i, i % 2);
    cr_assert_eq(model_forward(model, &batch, &run.loss, NULL), 0);
    cr_assert_eq(model_backward(model, 1, NULL), 0);
    wk_model_free(model);
    free(x);
    free(y);
    return run;
}

Test(graph_inputs, every_type_is_the_same_numbers)
{
    for (int v = 0; v < VALUE_TYPES; v++)
        for (int i = 0; i < INDEX_TYPES; i++) {
            bool bits = value_types[v] == WK_BOOL;
            struct run plain = run(WK_F32, WK_I32, bits),
                       other = run(value_types[v], index_types[i], bits);
            cr_expect_gt(plain.loss, 0.1);
            cr_expect(!memcmp(&plain.loss, &other.loss, sizeof(double)) &&
                          !memcmp(plain.grads, other.grads, sizeof(plain.grads)),
                      "%s and %s: loss %.9g, not %.9g", wk_dtype_name(value_types[v]),
                      wk_dtype_name(index_types[i]), other.loss, plain.loss);
        }
}

static void expect_refused(struct wk_graph *g, const char *what, const char *fits)
{
    cr_expect(strstr(wk_graph_error(g), what) && strstr(wk_graph_error(g), fits),
              "\"%s\" has not %s and %s", wk_graph_error(g), what, fits);
    wk_graph_free(g);
}

Test(graph_inputs, a_type_that_does_not_fit_is_refused_by_name)
{
    struct wk_graph *g = wk_graph_new("values");
    cr_expect_null(wk_op_gelu(wk_graph_input(g, "label", WK_I64, WK_SHAPE(WK_SAMPLES))));
    expect_refused(g, "gelu: input 0 is label [samples] i64", "wk_op_convert");
    g = wk_graph_new("indices");
    cr_expect_null(wk_layer_embedding(wk_graph_input(g, "share", WK_F64, WK_SHAPE(WK_SAMPLES)),
                                      "table", 5, 4));
    expect_refused(g, "embedding: the index is share [samples] f64", "i32");
    g = wk_graph_new("wholes");
    cr_expect_null(wk_op_convert(wk_graph_input(g, "share", WK_F32, WK_SHAPE(WK_SAMPLES)), WK_I32));
    expect_refused(g, "convert: f32 to i32", "whole numbers");
    g = wk_graph_new("unknown");
    cr_expect_null(wk_graph_input(g, "x", (enum wk_dtype)99, WK_SHAPE(WK_SAMPLES)));
    expect_refused(g, "input x: 99", "no type");
}

Test(graph_inputs, a_batch_of_another_type_is_refused_by_name)
{
    float params[PARAMS], grads[PARAMS];
    void *x = array_new(SAMPLES * WIDTH), *y = array_new(SAMPLES);
    double loss;
    struct error err = {0};
    struct wk_batch_tensor tensors[] = {{"x", x, WK_F64, WIDTH}, {"label", y, WK_I64, 1}};
    struct wk_batch batch = {.samples = SAMPLES, .length = 1, .tensors = tensors, .n_tensors = 2};
    struct wk_model *model = model_of(WK_U8, WK_I64, params, grads);
    cr_expect_eq(model_forward(model, &batch, &loss, &err), WK_EINVAL);
    cr_expect_str_eq(err.text, "input x is f64 in the batch and u8 in the graph");
    tensors[0].type = WK_U8;
    ((int64_t *)y)[2] = (int64_t)1 << 40;
    cr_expect_eq(model_forward(model, &batch, &loss, &err), WK_EINVAL);
    cr_expect_str_eq(err.text, "input label: 1099511627776 at element 2 is outside 0 to 2 "
                               "(cross_entropy)");
    wk_model_free(model);
    free(x);
    free(y);
}
