/* Frozen parameters of a model on its own: what only leads to them is left out of the plan, the
 * gradients of the others are as if none was frozen, and the model's table has them last. */
#include <stdlib.h>
#include <string.h>

#include "common/base/kept.h"
#include "libworker/graph/graph_model.h"
#include "libworker/graph/pass.h"
#include "libworker/nn/random.h"
#include "tests/lib/check.h"

enum { SAMPLES = 4, WIDTH = 6, LAYERS = 4, KINDS = 3, FROZEN_LAYER = 2 };
enum { VALUES = 256 }; /* of an input of a sample, at most */

/* Layers in blocks of their own; the first and the third are frozen if `freezes`. */
static struct wk_model *model_new(bool freezes)
{
    struct wk_model *model = NULL;
    struct wk_graph *g = wk_graph_new("layers");
    struct wk_tensor *x = wk_graph_input(g, "x", WK_F32, WK_SHAPE(WK_SAMPLES, WIDTH));
    struct wk_tensor *label = wk_graph_input(g, "label", WK_I32, WK_SHAPE(WK_SAMPLES));
    for (int i = 0; i < LAYERS; i++) {
        wk_graph_scope(g, "layer%d", i);
        wk_graph_freeze(g, freezes && i % FROZEN_LAYER == 0);
        x = wk_op_tanh(wk_layer_linear(x, "up", WIDTH));
    }
    wk_graph_block(g, "head");
    struct wk_linear_weights head = {
        .weight = {wk_graph_param(g, "head", WK_SHAPE(WIDTH, KINDS), NULL)},
        .bias = wk_graph_param(g, "bias", WK_SHAPE(KINDS), &(struct wk_param){.frozen = freezes})};
    wk_graph_loss(g, "loss", wk_op_cross_entropy(wk_op_linear(x, &head), label, NULL), NULL);
    CHECK(wk_graph_model(g, &model) == 0);
    return model;
}

static void frozen_ones_are_last(void)
{
    static const char *const names[] = {
        "layer1.up.weight", "layer1.up.bias", "layer3.up.weight", "layer3.up.bias", "head",
        "layer0.up.weight", "layer0.up.bias", "layer2.up.weight", "layer2.up.bias", "bias"};
    struct wk_model *model = model_new(true);
    CHECK(model->n_params == 10 && model->n_frozen == 5);
    CHECK(model->frozen_count == 2 * (WIDTH * WIDTH + WIDTH) + KINDS);
    for (int i = 0; i < model->n_params; i++) {
        CHECK(!strcmp(model->params[i].name, names[i]));
        CHECK(i == 0 || model->params[i].block >= model->params[i - 1].block);
    }
    /* Blocks 0 to 2 are trained: layers 1 and 3, the head; 3 to 5 are not: layers 0 and 2, and the
     * head's bias. */
    static const int order[] = {3, 0, 4, 1, 2, 5};
    CHECK(model->n_blocks == 6 && memcmp(model->order, order, sizeof(order)) == 0);
    wk_model_free(model);
}

/* The first layer has no backward pass, and so no value of it is kept; nobody gathers its block
 * then. The third one passes the gradient on. */
static void what_leads_to_nothing_is_left_out(void)
{
    struct wk_model *model = model_new(true);
    struct graph_model *m = graph_model_of(model);
    struct trace_options trace = {.trains = true};
    struct plan *plan;
    int of[LAYERS] = {0}, ready = 0;
    CHECK(pass_plan(m, &trace, &(struct sizes){SAMPLES, 1}, &plan, NULL) == 0);
    for (int i = plan->n_forward; i < plan->n_launches; i++) {
        const struct launch *launch = &plan->launches[i];
        if (launch->kind == LAUNCH_BACKWARD && launch->node->block < LAYERS)
            of[launch->node->block]++;
        if (launch->kind == LAUNCH_READY)
            CHECK(launch->index < model_trained(model));
        ready += launch->kind == LAUNCH_READY;
        CHECK(launch->kind != LAUNCH_ENTER || launch->index != 3);
    }
    CHECK(of[0] == 0 && of[1] == 2 && of[2] == 2 && of[3] == 2);
    CHECK(ready == model_trained(model));
    wk_model_free(model);
}

struct memory {
    float *params, *grads;
};

static void memory_free(struct memory *memory)
{
    free(memory->params);
    free(memory->grads);
}

/* The gradients of one pass; the caller frees the memory. */
static struct memory pass_of(struct wk_model *model)
{
    static float values[SAMPLES * VALUES];
    int32_t labels[SAMPLES];
    struct memory memory = {calloc(model->count, sizeof(float)),
                            calloc(model_trained_count(model), sizeof(float))};
    double loss;
    CHECK(model_bind(model, memory.params, memory.grads) == 0);
    CHECK(wk_model_init(model, 3) == 0);
    for (uint64_t i = 0; i < SAMPLES * VALUES; i++)
        values[i] = (float)random_uniform(1, i);
    for (int i = 0; i < SAMPLES; i++)
        labels[i] = i % KINDS;
    const struct wk_batch_tensor tensors[] = {
        {.name = "x", .type = WK_F32, .data = values},
        {.name = "label", .type = WK_I32, .data = labels},
    };
    struct wk_batch batch = {.tensors = tensors, .n_tensors = 2, .samples = SAMPLES, .length = 1};
    CHECK(model_forward(model, &batch, &loss, NULL) == 0);
    CHECK(model_backward(model, 1, NULL) == 0);
    return memory;
}

static void the_others_have_the_same_gradients(void)
{
    struct wk_model *some = model_new(true), *all = model_new(false);
    struct memory one = pass_of(some), other = pass_of(all);
    for (int i = 0; i < some->n_params; i++) {
        const struct param *a = &some->params[i], *b = model_param(all, a->name);
        size_t bytes = a->count * sizeof(float);
        CHECK(memcmp(a->data, b->data, bytes) == 0);
        CHECK(i < model_trained(some) ? memcmp(a->grad, b->grad, bytes) == 0 : !a->grad);
    }
    wk_model_free(some);
    wk_model_free(all);
    memory_free(&one);
    memory_free(&other);
}

enum { SIDE = 8, CHANNELS = 4, PIXELS = CHANNELS * SIDE * SIDE };
enum keeper { CONV, LINEAR, MULTIPLY, HEAD, KEEPERS };

/* The layer `keeper` reads what nothing else keeps, for its weight's gradient alone: the weight is
 * frozen if `freezes`. A layer before it is trained. */
static struct wk_tensor *keeper_layer(enum keeper keeper, struct wk_tensor *x, bool freezes)
{
    struct wk_graph *g = x->graph;
    const struct wk_param w = {.init = WK_INIT_UNIFORM, .scale = 0.5, .frozen = freezes};
    struct wk_linear_weights square = {{NULL}, NULL, false};
    if (keeper == CONV)
        return wk_op_conv2d(x, wk_graph_param(g, "w", WK_SHAPE(CHANNELS, CHANNELS, 3, 3), &w), NULL,
                            &(struct wk_conv_options){.padding = 1});
    if (keeper == MULTIPLY)
        return wk_op_multiply(x, wk_graph_param(g, "w", WK_SHAPE(CHANNELS, SIDE, SIDE), &w));
    if (keeper != LINEAR)
        return x;
    square.weight[0] = wk_graph_param(g, "w", WK_SHAPE(PIXELS, PIXELS), &w);
    return wk_op_linear(wk_op_reshape(x, WK_SHAPE(WK_SAMPLES, PIXELS)), &square);
}

static struct wk_model *keeper_new(enum keeper keeper, bool freezes)
{
    struct wk_model *model = NULL;
    struct wk_graph *g = wk_graph_new("keeper");
    struct wk_shape image = WK_SHAPE(WK_SAMPLES, CHANNELS, SIDE, SIDE);
    struct wk_tensor *x = wk_graph_input(g, "x", WK_F32, WK_SHAPE(WK_SAMPLES, PIXELS));
    struct wk_tensor *label = wk_graph_input(g, "label", WK_I32, WK_SHAPE(WK_SAMPLES));
    const struct wk_param w = {.init = WK_INIT_UNIFORM, .scale = 0.5, .frozen = freezes};
    x = wk_op_reshape(wk_op_silu(wk_layer_linear(x, "up", PIXELS)), image);
    x = wk_op_reshape(keeper_layer(keeper, x, freezes), WK_SHAPE(WK_SAMPLES, PIXELS));
    if (keeper == HEAD)
        x = wk_op_head_cross_entropy(x, wk_graph_param(g, "w", WK_SHAPE(KINDS, PIXELS), &w), label,
                                     NULL);
    else
        x = wk_op_cross_entropy(wk_op_slice(x, 1, 0, KINDS), label, NULL);
    wk_graph_loss(g, "loss", x, NULL);
    CHECK(wk_graph_model(g, &model) == 0);
    return model;
}

static size_t region_of(struct wk_model *model)
{
    struct trace_options trace = {.trains = true};
    struct plan *plan;
    CHECK(pass_plan(graph_model_of(model), &trace, &(struct sizes){SAMPLES, 1, 1}, &plan, NULL) ==
          0);
    return plan->region_bytes;
}

static void what_only_a_frozen_weight_needs_is_not_kept(void)
{
    for (int keeper = 0; keeper < KEEPERS; keeper++) {
        struct wk_model *frozen = keeper_new((enum keeper)keeper, true);
        struct wk_model *all = keeper_new((enum keeper)keeper, false);
        struct memory one = pass_of(frozen), other = pass_of(all);
        size_t less = region_of(frozen), more = region_of(all);
        printf("keeper %d: %zu bytes, %zu with its weight trained\n", keeper, less, more);
        CHECK(keeper == HEAD ? less < more : less + SAMPLES * PIXELS * sizeof(float) <= more);
        for (int i = 0; i < model_trained(frozen); i++) {
            const struct param *a = &frozen->params[i], *b = model_param(all, a->name);
            CHECK(memcmp(a->grad, b->grad, a->count * sizeof(float)) == 0);
        }
        wk_model_free(frozen);
        wk_model_free(all);
        memory_free(&one);
        memory_free(&other);
    }
}

/* By pattern, as a program does with a model that it has not built: the same model. */
static void patterns_freeze_and_thaw(void)
{
    struct wk_model *model = model_new(false), *built = model_new(true);
    CHECK(wk_model_freeze(model, "layer[02].*", true) == 0);
    CHECK(wk_model_freeze(model, "bias", true) == 0);
    CHECK(model->n_frozen == built->n_frozen && model->count == built->count);
    CHECK(model->n_blocks == built->n_blocks);
    for (int i = 0; i < model->n_params; i++) {
        CHECK(!strcmp(model->params[i].name, built->params[i].name));
        CHECK(model->params[i].offset == built->params[i].offset);
        CHECK(model->params[i].block == built->params[i].block);
    }
    struct memory one = pass_of(model), other = pass_of(built);
    CHECK(memcmp(one.grads, other.grads, model_trained_count(model) * sizeof(float)) == 0);
    CHECK(wk_model_freeze(model, "bias", false) == WK_ESTATE);
    memory_free(&one);
    memory_free(&other);
    wk_model_free(model);
    wk_model_free(built);
    model = model_new(true);
    CHECK(wk_model_freeze(model, "*", false) == 0 && model->n_frozen == 0);
    CHECK(wk_model_freeze(model, "layer9.*", true) == WK_EINVAL);
    CHECK(strstr(error_kept(), "layer9") && strstr(error_kept(), "layer0.up.weight"));
    CHECK(wk_model_freeze(model, "*", true) == WK_EINVAL && model->n_frozen == 0);
    CHECK(strstr(error_kept(), "no parameter that is trained"));
    wk_model_free(model);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(frozen_ones_are_last),
        CHECK_CASE(what_leads_to_nothing_is_left_out),
        CHECK_CASE(the_others_have_the_same_gradients),
        CHECK_CASE(what_only_a_frozen_weight_needs_is_not_kept),
        CHECK_CASE(patterns_freeze_and_thaw),
        {0},
    };
    return check_all(cases, argc, argv);
}
