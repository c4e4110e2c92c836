/* Operations that keep f32 in bf16 and fp16: the plan has their values in f32. What they compute
 * from equal inputs has the bits of f32. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <worker/graph.h>

#include "libworker/graph/op.h"
#include "libworker/graph/plan.h"
#include "libworker/nn/model.h"

enum { SAMPLES = 3, LENGTH = 6, WIDTH = 8, HEADS = 2, KINDS = 5, PIXELS = 4 };
static const enum wk_dtype narrow[] = {WK_BF16, WK_F16};

/* All products there are. `keeps` has a bit for each part: the convolution, the attention with its
 * layers, the product of two values, the head. */
static struct wk_graph *graph_of(unsigned keeps)
{
    struct wk_graph *g = wk_graph_new("keeps");
    struct wk_shape images = WK_SHAPE(WK_SAMPLES, 2, PIXELS, PIXELS);
    struct wk_tensor *x = wk_graph_input(g, "x", WK_F32, images);
    struct wk_tensor *y = wk_graph_input(g, "y", WK_I32, WK_SHAPE(WK_SAMPLES));
    wk_graph_keep_f32(g, keeps & 1);
    x = wk_layer_conv2d(x, "conv", WIDTH, 3, &(struct wk_conv_options){.padding = 1});
    x = wk_op_reshape(x, WK_SHAPE(WK_SAMPLES, WIDTH, PIXELS * PIXELS));
    x = wk_op_transpose(x, WK_SHAPE(0, 2, 1));
    wk_graph_keep_f32(g, keeps & 2);
    x = wk_layer_attention(x, "attention", &(struct wk_attention_options){.heads = HEADS});
    x = wk_op_tanh(wk_op_add(wk_layer_linear(x, "up", WIDTH), x));
    wk_graph_keep_f32(g, keeps & 4);
    x = wk_op_matmul(x, x, true, false);
    x = wk_op_reshape(x, WK_SHAPE(WK_SAMPLES, WIDTH * WIDTH));
    wk_graph_keep_f32(g, keeps & 8);
    x = wk_layer_linear(x, "head", KINDS);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, y, NULL), NULL);
    cr_assert_str_eq(wk_graph_error(g), "");
    return g;
}

struct run {
    double loss;
    float *grads;
    size_t count;
};

/* Parameters and inputs that bf16 and f16 have exactly. */
static struct run run(unsigned keeps, enum wk_dtype compute)
{
    struct wk_model *model;
    float x[SAMPLES * 2 * PIXELS * PIXELS];
    int32_t y[SAMPLES] = {4, 0, 2};
    struct wk_batch_tensor tensors[] = {{"x", x, WK_F32, 2 * PIXELS * PIXELS}, {"y", y, WK_I32, 1}};
    struct wk_batch batch = {.samples = SAMPLES,
                             .length = 1,
                             .tensors = tensors,
                             .n_tensors = 2,
                             .denominator = SAMPLES};
    cr_assert_eq(wk_graph_model(graph_of(keeps), &model), 0);
    struct run run = {.grads = calloc(model->count, sizeof(float)), .count = model->count};
    float *params = malloc(model->count * sizeof(*params));
    uint16_t *low = malloc(model->count * sizeof(*low));
    cr_assert_eq(model_bind(model, params, run.grads), 0);
    for (size_t i = 0; i < model->count; i++)
        params[i] = (float)((int)(i * 37 % 19) - 9) / 32;
    for (size_t i = 0; i < sizeof(x) / sizeof(x[0]); i++)
        x[i] = (float)((int)(i * 23 % 17) - 8) / 8;
    if (compute != WK_F32)
        model_write_low(model, compute, low);
    cr_assert_eq(model_set_compute(model, compute, compute == WK_F32 ? NULL : low, NULL), 0);
    cr_assert_eq(model_forward(model, &batch, &run.loss, NULL), 0);
    cr_assert_eq(model_backward(model, 1, NULL), 0);
    wk_model_free(model);
    free(params);
    free(low);
    return run;
}

static bool same_bits(const struct run *a, const struct run *b)
{
    return !memcmp(&a->loss, &b->loss, sizeof(a->loss)) &&
           !memcmp(a->grads, b->grads, a->count * sizeof(*a->grads));
}

Test(keep_f32, all_operations_have_the_bits_of_f32)
{
    for (int i = 0; i < 2; i++) {
        struct run plain = run(0, WK_F32), kept = run(15, narrow[i]), rounded = run(0, narrow[i]);
        cr_expect(same_bits(&plain, &kept), "%s: loss %.9g, not %.9g", wk_dtype_name(narrow[i]),
                  kept.loss, plain.loss);
        cr_expect(!same_bits(&plain, &rounded));
        free(plain.grads);
        free(kept.grads);
        free(rounded.grads);
    }
}

Test(keep_f32, each_part_counts_for_itself)
{
    struct run none = run(0, WK_BF16);
    for (unsigned part = 1; part < 16; part <<= 1) {
        struct run some = run(part, WK_BF16), float_has = run(part, WK_F32), plain = run(0, WK_F32);
        cr_expect(!same_bits(&none, &some), "part %u", part);
        cr_expect(same_bits(&float_has, &plain), "part %u", part);
        free(some.grads);
        free(float_has.grads);
        free(plain.grads);
    }
    free(none.grads);
}

/* Values of the plan that are results of products, in a type. */
static int results_in(const struct plan *plan, enum wk_dtype type)
{
    int n = 0;
    for (int i = 0; i < plan->n_launches; i++) {
        const struct launch *launch = &plan->launches[i];
        bool product = launch->kind == LAUNCH_FORWARD && launch->node->row->factors;
        if (product && plan->values[launch->out[0]].type == type)
            n++;
    }
    return n;
}

Test(keep_f32, the_plan_changes)
{
    struct wk_graph *graphs[2];
    struct plan *plans[2];
    int blocks[2] = {0, -1}; /* trained and frozen parameters */
    for (int keeps = 0; keeps < 2; keeps++) {
        graphs[keeps] = graph_of(keeps ? 15 : 0);
        struct plan_options options = {
            .trace.trains = true, .sizes = {SAMPLES, 1}, .compute = WK_BF16};
        graph_check_whole(graphs[keeps]);
        cr_assert_eq(plan_new(graphs[keeps], &options, blocks, &plans[keeps], NULL), 0);
    }
    cr_expect_eq(results_in(plans[1], WK_BF16), 0);
    cr_expect_gt(results_in(plans[0], WK_BF16), 3);
    cr_expect_gt(plans[1]->region_bytes, plans[0]->region_bytes);
    for (int i = 0; i < 2; i++) {
        plan_free(plans[i]);
        wk_graph_free(graphs[i]);
    }
}
