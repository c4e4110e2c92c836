/* Buffers and batch norm of a model on its own: running statistics by torch's formula in double,
 * when they change, what recomputation and evaluation do; and on the rehearsal device the CPU's
 * bits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/device/rehearsal/rehearsal.h"
#include "libworker/graph/graph_model.h"
#include "libworker/graph/op.h"
#include "libworker/graph/pass.h"
#include "libworker/nn/random.h"
#include "tests/lib/check.h"

enum { SAMPLES = 3, CHANNELS = 2, PLACES = 4, EACH = SAMPLES * PLACES, KINDS = 3 };
enum { COUNT = SAMPLES * CHANNELS * PLACES, STATISTICS = 2 * CHANNELS };

static float values[COUNT];
static int32_t labels[SAMPLES];

/* Two blocks, so that the first is computed again where that is wanted. */
static struct wk_model *model_new(void)
{
    struct wk_model *model = NULL;
    struct wk_graph *g = wk_graph_new("normal");
    struct wk_tensor *x = wk_graph_input(g, "x", WK_F32, WK_SHAPE(WK_SAMPLES, CHANNELS, PLACES));
    struct wk_tensor *label = wk_graph_input(g, "label", WK_I32, WK_SHAPE(WK_SAMPLES));
    wk_graph_block(g, "norm");
    x = wk_op_tanh(wk_layer_batch_norm(x, "norm", NULL));
    wk_graph_block(g, "head");
    x = wk_layer_linear(wk_op_reshape(x, WK_SHAPE(WK_SAMPLES, WK_REST)), "head", KINDS);
    wk_graph_output(g, "logits", x);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, label, NULL), NULL);
    CHECK(wk_graph_model(g, &model) == 0);
    return model;
}

static struct wk_batch batch_of(struct wk_batch_tensor tensors[2], uint64_t seed)
{
    for (uint64_t i = 0; i < COUNT; i++) {
        double pair[2];
        random_normal_pair(seed, i, pair);
        values[i] = (float)(pair[0] * (1 + (double)(i / PLACES % CHANNELS)) + 0.5);
    }
    for (int i = 0; i < SAMPLES; i++)
        labels[i] = i % KINDS;
    tensors[0] = (struct wk_batch_tensor){.name = "x", .type = WK_F32, .data = values};
    tensors[1] = (struct wk_batch_tensor){.name = "label", .type = WK_I32, .data = labels};
    return (struct wk_batch){.tensors = tensors, .n_tensors = 2, .samples = SAMPLES, .length = 1};
}

/* One more pass as torch's BatchNorm1d counts it: means, then variances. */
static void follow(double running[STATISTICS])
{
    for (int c = 0; c < CHANNELS; c++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < EACH; i++)
            sum += (double)values[(i / PLACES * CHANNELS + c) * PLACES + i % PLACES];
        for (int i = 0; i < EACH; i++)
            squares += pow(
                (double)values[(i / PLACES * CHANNELS + c) * PLACES + i % PLACES] - sum / EACH, 2);
        running[c] = 0.9 * running[c] + 0.1 * sum / EACH;
        running[CHANNELS + c] = 0.9 * running[CHANNELS + c] + 0.1 * squares / (EACH - 1);
    }
}

static void expect(struct wk_model *model, enum buffer_stage stage, const double *running)
{
    CHECK(buffers_read(model, stage, NULL) == 0);
    for (int i = 0; i < STATISTICS; i++)
        CHECK(fabs((double)model->buffers.host[i] - running[i]) < 1e-6);
}

static void pass(struct wk_model *model, uint64_t seed)
{
    struct wk_batch_tensor tensors[2];
    struct wk_batch batch = batch_of(tensors, seed);
    double loss;
    CHECK(model_forward(model, &batch, &loss, NULL) == 0);
    CHECK(model_backward(model, 1, NULL) == 0);
}

struct memory {
    float *params, *grads;
};

static struct wk_model *bound_new(struct memory *memory)
{
    struct wk_model *model = model_new();
    memory->params = calloc(model->count, sizeof(float));
    memory->grads = calloc(model->count, sizeof(float));
    CHECK(model_bind(model, memory->params, memory->grads) == 0);
    CHECK(wk_model_init(model, 5) == 0);
    return model;
}

static void bound_free(struct wk_model *model, struct memory *memory)
{
    wk_model_free(model);
    free(memory->params);
    free(memory->grads);
}

static void passes_of_a_window_follow_one_another(void)
{
    for (int again = 0; again < 2; again++) {
        struct memory memory;
        struct wk_model *model = bound_new(&memory);
        double first[STATISTICS] = {0, 0, 1, 1}, running[STATISTICS] = {0, 0, 1, 1};
        wk_model_recompute(model, again);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            pass(model, seed);
            follow(running);
            expect(model, BUFFERS_WINDOW, running);
            expect(model, BUFFERS_CONTENT, first);
        }
        buffers_keep(model);
        expect(model, BUFFERS_CONTENT, running);
        pass(model, 4);
        buffers_drop(model);
        expect(model, BUFFERS_WINDOW, running);
        expect(model, BUFFERS_CONTENT, running);
        bound_free(model, &memory);
    }
}

/* Without a backward pass, and by evaluation, nothing changes. */
static void only_whole_passes_count(void)
{
    struct memory memory;
    struct wk_batch_tensor tensors[2];
    struct wk_model *model = bound_new(&memory);
    double first[STATISTICS] = {0, 0, 1, 1}, loss;
    struct wk_batch batch = batch_of(tensors, 1);
    CHECK(model_forward(model, &batch, &loss, NULL) == 0);
    CHECK(model_evaluate(model, &batch, &loss, &(struct wk_outputs){0}, NULL) == 0);
    CHECK(model_backward(model, 1, NULL) == WK_ESTATE);
    expect(model, BUFFERS_WINDOW, first);
    bound_free(model, &memory);
}

/* With the statistics of its first values, 0 and 1, evaluation leaves x as it is but for epsilon:
 * a sample's logits do not depend on the others. */
static void evaluation_reads_what_is_carried(void)
{
    struct memory memory;
    struct wk_batch_tensor tensors[2];
    struct wk_model *model = bound_new(&memory);
    float all[SAMPLES * KINDS], alone[KINDS];
    double loss, trained;
    struct wk_batch batch = batch_of(tensors, 1);
    CHECK(model_evaluate(model, &batch, &loss, &(struct wk_outputs){.logits = all}, NULL) == 0);
    CHECK(model_forward(model, &batch, &trained, NULL) == 0);
    CHECK(fabs(trained - loss) > 1e-3);
    batch.samples = 1;
    CHECK(model_evaluate(model, &batch, &loss, &(struct wk_outputs){.logits = alone}, NULL) == 0);
    for (int i = 0; i < KINDS; i++)
        CHECK(fabs((double)(all[i] - alone[i])) < 1e-6);
    bound_free(model, &memory);
}

/* Two windows on this device (NULL: the CPU), of which the second is dropped; then an evaluation.
 * The statistics and the gradients after it. */
static void run_on(struct device *device, float *ret, size_t count)
{
    struct memory host;
    struct wk_model *model = bound_new(&host);
    struct queue *queue = NULL;
    size_t bytes = model->count * sizeof(float);
    void *params = host.params, *grads = host.grads;
    struct wk_batch_tensor tensors[2];
    double loss;
    CHECK(count == model->count + STATISTICS);
    if (device) {
        CHECK(queue_new(device, &queue, NULL) == 0);
        CHECK(device_memory_new(device, bytes, &params, NULL) == 0);
        CHECK(device_memory_new(device, bytes, &grads, NULL) == 0);
        CHECK(queue_write(queue, params, host.params, bytes, NULL) == 0);
        CHECK(queue_write(queue, grads, host.grads, bytes, NULL) == 0);
        CHECK(model_move(model, queue, NULL) == 0);
        CHECK(model_bind(model, params, grads) == 0);
    }
    wk_model_recompute(model, true);
    pass(model, 1);
    pass(model, 2);
    buffers_keep(model);
    pass(model, 3);
    buffers_drop(model);
    struct wk_batch batch = batch_of(tensors, 4);
    CHECK(model_evaluate(model, &batch, &loss, &(struct wk_outputs){0}, NULL) == 0);
    CHECK(buffers_read(model, BUFFERS_CONTENT, NULL) == 0);
    memcpy(ret, model->buffers.host, STATISTICS * sizeof(*ret));
    if (device)
        CHECK(queue_read(queue, host.grads, grads, bytes, NULL) == 0);
    memcpy(ret + STATISTICS, host.grads, bytes);
    if (device) {
        wk_model_free(model);
        device_memory_free(device, params, bytes);
        device_memory_free(device, grads, bytes);
        queue_free(queue);
        free(host.params);
        free(host.grads);
        return;
    }
    bound_free(model, &host);
}

static void a_device_has_the_same_bits(void)
{
    enum { PARAMS = 2 * CHANNELS + CHANNELS * PLACES * KINDS + KINDS };
    float one[STATISTICS + PARAMS], other[STATISTICS + PARAMS];
    run_on(NULL, one, STATISTICS + PARAMS);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct device *device = NULL;
        CHECK(rehearsal_new(&(struct rehearsal_options){.seed = seed}, &device, NULL) == 0);
        run_on(device, other, STATISTICS + PARAMS);
        CHECK(memcmp(one, other, sizeof(one)) == 0);
        device_free(device);
    }
}

/* Ranks meet twice in each direction, and not once more where a block is computed again. An
 * evaluation needs neither them nor sums. */
static void meetings_are_not_repeated(void)
{
    struct wk_model *model = NULL;
    struct plan *plan;
    struct wk_graph *g = wk_graph_new("meets");
    struct wk_tensor *x = wk_graph_input(g, "x", WK_F32, WK_SHAPE(WK_SAMPLES, CHANNELS));
    wk_graph_block(g, "norm");
    x = wk_layer_linear(x, "in", CHANNELS);
    x = wk_layer_batch_norm(x, "norm", &(struct wk_batch_norm){.synchronised = true});
    wk_graph_block(g, "head");
    x = wk_layer_linear(wk_op_tanh(x), "out", 1);
    wk_graph_loss(g, "loss", wk_op_multiply(x, x), &(struct wk_loss){.per = WK_PER_SAMPLE});
    CHECK(wk_graph_model(g, &model) == 0);
    wk_model_recompute(model, true);
    CHECK(pass_plan(graph_model_of(model), &(struct trace_options){.trains = true},
                    &(struct sizes){SAMPLES, 1, 1}, &plan, NULL) == 0);
    int meets[2] = {0}, again = 0;
    for (int i = 0; i < plan->n_launches; i++) {
        meets[i >= plan->n_forward] += plan->launches[i].kind == LAUNCH_MEET;
        again += plan->launches[i].again;
    }
    CHECK(meets[0] == 2 && meets[1] == 2 && again > 0);
    CHECK(pass_plan(graph_model_of(model), &(struct trace_options){.losses = true},
                    &(struct sizes){SAMPLES, 1, 1}, &plan, NULL) == 0);
    for (int i = 0; i < plan->n_launches; i++) {
        const struct launch *launch = &plan->launches[i];
        CHECK(launch->kind != LAUNCH_MEET && launch->kind != LAUNCH_UPDATE);
        CHECK(!launch->node || !strstr(launch->node->row->name, "batch_norm_"));
    }
    wk_model_free(model);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(passes_of_a_window_follow_one_another),
        CHECK_CASE(only_whole_passes_count),
        CHECK_CASE(evaluation_reads_what_is_carried),
        CHECK_CASE(a_device_has_the_same_bits),
        CHECK_CASE(meetings_are_not_repeated),
        {0},
    };
    return check_all(cases, argc, argv);
}
