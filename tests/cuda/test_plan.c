/* Plans for a GPU: what its kernels keep, and what an estimate makes of it. */
#include <string.h>

#include <worker/error.h>
#include <worker/nn.h>

#include "libworker/cuda/cuda.h"
#include "libworker/estimate/estimate.h"
#include "libworker/graph/graph_model.h"
#include "libworker/graph/op.h"
#include "libworker/graph/repeat.h"
#include "tests/cuda/plan_counts.h"
#include "tests/cuda/update_counts.h"
#include "tests/lib/check.h"

enum {
    LAYERS = 2,
    WIDTH = 32,
    LENGTH = 16,
    VOCAB = 1000,
    STRIDE = 1024,
    SAMPLES = 8,
    ROWS = SAMPLES * LENGTH
};

static struct wk_model *make_gpt(void)
{
    struct wk_model *model = NULL;
    struct wk_gpt_config config = {LAYERS, 2, WIDTH, LENGTH, VOCAB};
    CHECK(wk_gpt_new(&config, &model) == 0);
    return model;
}

static struct device *make_device(void)
{
    struct device *device = NULL;
    struct error err = {0};
    CHECK(cuda_plan_device_new(90, &device, &err) == 0);
    return device;
}

static struct plan *plan_of(struct wk_model *model, const struct plan_options *options)
{
    struct graph_model *m = graph_model_of(model);
    struct plan_options wanted = *options;
    struct plan *plan = NULL;
    struct error err = {0};
    wanted.sizes = (struct sizes){SAMPLES, LENGTH, 1};
    int rc = plan_new(m->graph, &wanted, m->blocks, &plan, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.text);
    CHECK(rc == 0);
    return plan;
}

/* What the head keeps beside the losses. */
static struct plan_value kept_of_head(const struct plan *plan)
{
    for (int i = 0; i < plan->n_forward; i++) {
        const struct launch *launch = &plan->launches[i];
        if (launch->node && !strcmp(launch->node->row->name, "head_cross_entropy"))
            return plan->values[launch->out[1]];
    }
    CHECK(!"a head");
    return (struct plan_value){0};
}

static void a_gpu_keeps_slopes_in_the_compute_type(void)
{
    struct wk_model *model = make_gpt();
    struct device *device = make_device();
    const struct plan_options host = {.trace = {.trains = true}, .compute = WK_BF16};
    struct plan_options gpu = host;
    gpu.device = device;
    struct plan *of_host = plan_of(model, &host), *of_gpu = plan_of(model, &gpu);
    struct plan_value probs = kept_of_head(of_host), slopes = kept_of_head(of_gpu);
    CHECK(probs.type == WK_F32 && probs.count == ROWS * VOCAB);
    CHECK(slopes.type == WK_BF16 && slopes.count == ROWS * STRIDE);
    CHECK(slopes.shape[slopes.dims - 1] == STRIDE);
    plan_free(of_host);
    plan_free(of_gpu);
    device_free(device);
    wk_model_free(model);
}

static void an_evaluation_keeps_none(void)
{
    struct wk_model *model = make_gpt();
    struct device *device = make_device();
    struct plan_options gpu = {.trace = {.losses = true}, .compute = WK_BF16, .device = device};
    struct plan *plan = plan_of(model, &gpu);
    CHECK(kept_of_head(plan).count == 0);
    plan_free(plan);
    device_free(device);
    wk_model_free(model);
}

/* A classifier without a joined head. */
static struct wk_model *make_classifier(void)
{
    struct wk_model *model = NULL;
    struct wk_graph *g = wk_graph_new("classifier");
    struct wk_tensor *x = wk_graph_input(g, "x", WK_F32, WK_SHAPE(WK_SAMPLES, WIDTH));
    struct wk_tensor *y = wk_graph_input(g, "y", WK_I32, WK_SHAPE(WK_SAMPLES));
    x = wk_layer_linear(wk_op_relu(wk_layer_linear(x, "in", WIDTH)), "out", VOCAB);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, y, NULL), NULL);
    CHECK(wk_graph_model(g, &model) == 0);
    return model;
}

static const struct launch *launch_of(const struct plan *plan, const char *name)
{
    for (int i = 0; i < plan->n_launches; i++) {
        if (plan->launches[i].node && !strcmp(plan->launches[i].node->row->name, name))
            return &plan->launches[i];
    }
    CHECK(!"an operation");
    return NULL;
}

/* One number a row and the logits, which are in bf16, instead of probabilities in f32. */
static void losses_keep_a_number_a_row(void)
{
    struct wk_model *model = make_classifier();
    struct device *device = make_device();
    struct plan_options host = {.trace = {.trains = true}, .compute = WK_BF16}, gpu = host;
    gpu.device = device;
    struct plan *of_host = plan_of(model, &host), *of_gpu = plan_of(model, &gpu);
    const struct launch *loss = launch_of(of_gpu, "cross_entropy");
    CHECK(of_gpu->values[loss->out[1]].count == SAMPLES);
    CHECK(of_gpu->values[loss->in[0]].type == WK_BF16);
    CHECK(of_host->values[launch_of(of_host, "cross_entropy")->out[1]].count == SAMPLES * VOCAB);
    plan_free(of_gpu);
    gpu.trace = (struct trace_options){.losses = true};
    of_gpu = plan_of(model, &gpu);
    CHECK(of_gpu->values[launch_of(of_gpu, "cross_entropy")->out[1]].count == 0);
    plan_free(of_host);
    plan_free(of_gpu);
    device_free(device);
    wk_model_free(model);
}

static const struct launch *backward_of(const struct plan *plan, const char *name)
{
    for (int i = plan->n_forward; i < plan->n_launches; i++) {
        const struct launch *launch = &plan->launches[i];
        if (launch->kind == LAUNCH_BACKWARD && !strcmp(launch->node->row->name, name))
            return launch;
    }
    CHECK(!"a backward pass");
    return NULL;
}

/* What products and attention round anyway is in bf16. What norms read, and the sum of several
 * uses, is not. */
static bool has_backward(const struct plan *plan, const char *name)
{
    bool has = false;
    for (int i = plan->n_forward; i < plan->n_launches; i++) {
        const struct launch *launch = &plan->launches[i];
        has |= launch->kind == LAUNCH_BACKWARD && !strcmp(launch->node->row->name, name);
    }
    return has;
}

/* The linear layer after a GELU multiplies by its slopes, but in f32 and on the host. */
static int slopes_in(const struct plan *plan)
{
    int n = 0;
    for (int i = 0; i < plan->n_launches; i++) {
        const struct launch *launch = &plan->launches[i];
        bool bent =
            launch->node && launch->node->row == &op_linear && launch->in[LINEAR_SLOPES] >= 0;
        CHECK(!bent || launch->kind == LAUNCH_BACKWARD);
        n += bent;
    }
    return n;
}

static void gradients_are_narrow(enum wk_dtype compute, bool on_gpu, enum wk_dtype wanted)
{
    struct wk_model *model = make_gpt();
    struct device *device = make_device();
    struct plan_options options = {
        .trace = {.trains = true}, .compute = compute, .device = on_gpu ? device : NULL};
    struct plan *plan = plan_of(model, &options);
    const struct launch *attention = backward_of(plan, "attention");
    const struct launch *norm = backward_of(plan, "layer_norm");
    CHECK(slopes_in(plan) == (wanted == WK_F32 ? 0 : LAYERS));
    CHECK(has_backward(plan, "gelu") == (wanted == WK_F32));
    CHECK(plan->values[attention->d_in[0]].type == wanted);
    CHECK(plan->values[attention->d_out].type == wanted);
    CHECK(plan->values[norm->d_out].type == WK_F32);
    CHECK(plan->values[norm->d_in[0]].type == WK_F32);
    plan_free(plan);
    device_free(device);
    wk_model_free(model);
}

/* Rows of 12 elements are none of cuBLASLt's, nor is the exact form. A GELU with two uses has a
 * gradient of its own. A GELU after a linear layer writes narrow gradients in any case. */
static void other_gelus_stay(void)
{
    struct device *device = make_device();
    for (int i = 0; i < 4; i++) {
        struct wk_model *model = NULL;
        struct wk_graph *g = wk_graph_new("gelus");
        struct wk_tensor *x = wk_graph_input(g, "x", WK_F32, WK_SHAPE(WK_SAMPLES, WIDTH));
        struct wk_tensor *y = wk_layer_linear(x, "in", i == 1 ? 12 : WIDTH);
        y = i == 3 ? wk_op_gelu_erf(y) : wk_op_gelu(y);
        struct wk_tensor *z = wk_layer_linear(y, "out", WIDTH);
        z = i == 2 ? wk_op_multiply(z, y) : z;
        wk_graph_loss(g, "loss", wk_op_squared_error(z, x), NULL);
        CHECK(wk_graph_model(g, &model) == 0);
        struct plan_options options = {
            .trace = {.trains = true}, .compute = WK_BF16, .device = device};
        struct plan *plan = plan_of(model, &options);
        const char *name = i == 3 ? "gelu_erf" : "gelu";
        CHECK(slopes_in(plan) == (i == 0) && has_backward(plan, name) == (i != 0));
        CHECK(i == 0 || plan->values[backward_of(plan, name)->d_in[0]].type == WK_BF16);
        plan_free(plan);
        wk_model_free(model);
    }
    device_free(device);
}

/* The gradient of a value with two uses is a sum in f32. */
static void sums_of_gradients_are_wide(void)
{
    struct wk_model *model = NULL;
    struct device *device = make_device();
    struct wk_graph *g = wk_graph_new("two uses");
    struct wk_tensor *x = wk_graph_input(g, "x", WK_F32, WK_SHAPE(WK_SAMPLES, WIDTH));
    struct wk_tensor *y = wk_layer_linear(x, "in", WIDTH);
    y = wk_op_add(wk_op_gelu(y), wk_op_tanh(y));
    wk_graph_loss(g, "loss", wk_op_squared_error(y, x), NULL);
    CHECK(wk_graph_model(g, &model) == 0);
    struct plan_options options = {.trace = {.trains = true}, .compute = WK_BF16, .device = device};
    struct plan *plan = plan_of(model, &options);
    CHECK(plan->values[backward_of(plan, "gelu")->d_in[0]].type == WK_F32);
    CHECK(plan->values[backward_of(plan, "tanh")->d_in[0]].type == WK_F32);
    CHECK(plan->values[backward_of(plan, "linear")->d_out].type == WK_F32);
    plan_free(plan);
    device_free(device);
    wk_model_free(model);
}

static void an_estimate_is_of_the_devices_plan(void)
{
    struct wk_model *model = make_gpt();
    struct wk_optimizer *optimizer = NULL;
    struct device *device = make_device();
    struct estimate estimate;
    struct error err = {0};
    CHECK(wk_sgd_new(&(struct wk_sgd_options){.rate = 1}, &optimizer) == 0);
    struct estimate_options options = {.world = 1,
                                       .samples = SAMPLES,
                                       .compute = WK_BF16,
                                       .prefetch = 1,
                                       .bucket_bytes = 1 << 20,
                                       .optimizer = optimizer,
                                       .device = device};
    CHECK(estimate_training(model, &options, &estimate, &err) == 0);
    struct plan_options gpu = {.trace = {.trains = true}, .compute = WK_BF16, .device = device};
    struct plan *plan = plan_of(model, &gpu);
    CHECK(estimate.activations == (int64_t)plan->region_bytes);
    plan_free(plan);
    wk_optimizer_free(optimizer);
    device_free(device);
    wk_model_free(model);
}

/* Counted of a plan is what its pass does: GPT, and a Llama with groups of keys. */
static void passes_are_counted(enum wk_dtype compute)
{
    struct wk_model *model = NULL;
    struct wk_gpt_config gpt = {1, 2, 64, COUNTS_LENGTH, COUNTS_VOCAB};
    struct wk_llama_config llama = {.layers = 1,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .width = 64,
                                    .inner = 128,
                                    .context = COUNTS_LENGTH,
                                    .vocab = COUNTS_VOCAB,
                                    .rope_theta = 10000,
                                    .norm_epsilon = 1e-5};
    CHECK(wk_gpt_new(&gpt, &model) == 0);
    counts_are_measured(model, compute, ATTENTION_OWN);
    CHECK(wk_llama_new(&llama, &model) == 0);
    counts_are_measured(model, compute, ATTENTION_OWN);
}

/* A setting, the average launch, and decoding each are a reason. */
static void graphs_have_a_reason(void)
{
    struct wk_model *model = make_gpt();
    struct device *device = make_device();
    const struct plan_options trains = {.trace = {.trains = true}, .device = device};
    struct plan *plan = plan_of(model, &trains);
    char text[REPEAT_REASON_BYTES];
    repeat_reason(plan, DEVICE_GRAPHS_ON, text);
    CHECK(!strcmp(text, "graphs of training passes: yes, compile is on"));
    repeat_reason(plan, DEVICE_GRAPHS_OFF, text);
    CHECK(!strcmp(text, "graphs of training passes: no, compile is off"));
    repeat_reason(plan, DEVICE_GRAPHS_AUTO, text);
    CHECK(strstr(text, "training passes: yes, a launch moves ") &&
          strstr(text, ", less than 16 MiB"));
    plan->values[launch_of(plan, "layer_norm")->out[0]].count = (int64_t)1 << 40;
    repeat_reason(plan, DEVICE_GRAPHS_AUTO, text);
    CHECK(strstr(text, "passes: no, a launch moves ") && strstr(text, ", not less than 16 MiB"));
    plan->options.trace = (struct trace_options){.losses = true};
    repeat_reason(plan, DEVICE_GRAPHS_OFF, text);
    CHECK(!strcmp(text, "graphs of other passes: no, compile is off"));
    plan->options.trace = (struct trace_options){.decode = true};
    repeat_reason(plan, DEVICE_GRAPHS_ON, text);
    CHECK(!strcmp(text, "graphs of decoding: no, its positions are arguments"));
    plan_free(plan);
    device_free(device);
    wk_model_free(model);
}

/* In float, and with a copy in either type. */
static void updates_are_counted(void)
{
    for (int kind = 0; kind < UPDATE_KINDS; kind++) {
        update_counts_are_measured(kind, WK_F32);
        update_counts_are_measured(kind, kind % 2 ? WK_F16 : WK_BF16);
    }
}

static void a_device_for_plans_has_no_memory(void)
{
    struct device *device = make_device();
    struct error err = {0};
    struct queue *queue = NULL;
    void *memory = NULL;
    CHECK(device_memory_new(device, 64, &memory, &err) == WK_ENOMEM);
    CHECK(queue_new(device, &queue, &err) == WK_ENOMEM);
    device_free(device);
    CHECK(cuda_plan_device_new(70, &device, &err) == WK_EINVAL);
    CHECK(strstr(err.text, "sm_70"));
}

int main(void)
{
    a_gpu_keeps_slopes_in_the_compute_type();
    an_evaluation_keeps_none();
    losses_keep_a_number_a_row();
    gradients_are_narrow(WK_BF16, true, WK_BF16);
    gradients_are_narrow(WK_F16, true, WK_F16);
    gradients_are_narrow(WK_F32, true, WK_F32);
    gradients_are_narrow(WK_BF16, false, WK_F32);
    sums_of_gradients_are_wide();
    other_gelus_stay();
    an_estimate_is_of_the_devices_plan();
    a_device_for_plans_has_no_memory();
    passes_are_counted(WK_F32);
    passes_are_counted(WK_BF16);
    updates_are_counted();
    graphs_have_a_reason();
    return 0;
}
