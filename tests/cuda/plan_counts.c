#include "tests/cuda/plan_counts.h"

#include <string.h>

#include <worker/nn.h>

#include "libworker/cuda/cuda.h"
#include "libworker/device/kernels.h"
#include "libworker/device/numbers.h"
#include "libworker/estimate/traffic.h"
#include "libworker/graph/graph_model.h"
#include "libworker/graph/op.h"
#include "libworker/graph/op/linear.h"
#include "libworker/graph/repeat.h"
#include "libworker/graph/run.h"
#include "tests/cuda/fake/fake.h"
#include "tests/cuda/fake/gpu.h"
#include "tests/lib/check.h"

enum { ROWS = COUNTS_SAMPLES * COUNTS_LENGTH, PIECES = 3 };

_Static_assert((int)ROWS == (int)COUNTS_VOCAB, "each token once");

struct pass {
    struct queue *queue;
    struct wk_model *model;
    struct run run;
};

static void *zeros(const struct pass *pass, size_t bytes)
{
    void *memory = NULL;
    CHECK(device_zeros_new(pass->queue, bytes + 1, &memory, NULL) == 0);
    return memory;
}

static void free_zeros(const struct pass *pass, const void *memory, size_t bytes)
{
    device_memory_free(queue_device(pass->queue), (void *)(uintptr_t)memory, bytes + 1);
}

static void give_parameters(struct pass *pass, bool on)
{
    for (int i = 0; i < pass->model->n_params; i++) {
        struct param *param = &pass->model->params[i];
        size_t bytes = param->count * sizeof(float);
        if (on) {
            param->data = zeros(pass, bytes);
            param->grad = zeros(pass, bytes);
            param->low = zeros(pass, bytes);
        } else {
            free_zeros(pass, param->data, bytes);
            free_zeros(pass, param->grad, bytes);
            free_zeros(pass, param->low, bytes);
            param->data = param->grad = NULL;
            param->low = NULL;
        }
    }
}

/* Each token once, so that a pass reads and adds to as many rows as it has tokens. */
static void give_inputs(struct pass *pass, bool on)
{
    static int32_t tokens[ROWS];
    const struct wk_graph *graph = graph_model_of(pass->model)->graph;
    for (int i = 0; i < graph->n_inputs; i++) {
        if (!on) {
            free_zeros(pass, pass->run.inputs[i], sizeof(tokens));
            continue;
        }
        void *input = zeros(pass, sizeof(tokens));
        for (int k = 0; k < ROWS; k++)
            tokens[k] = (int32_t)(k * 5 % ROWS);
        CHECK(queue_write(pass->queue, input, tokens, sizeof(tokens), NULL) == 0);
        pass->run.inputs[i] = input;
    }
}

static void add_touched(void *arg, const struct fake_touched *touched)
{
    struct device_traffic *sum = arg;
    sum->launches++;
    sum->read += (double)touched->read;
    sum->written += (double)touched->written;
}

/* Kernels and bytes of one launch of the plan. */
static struct traffic_row count_one(const struct plan *plan, int i)
{
    struct plan one = *plan;
    struct traffic traffic;
    one.launches = &plan->launches[i];
    one.n_launches = 1;
    one.n_forward = i < plan->n_forward;
    traffic_count(&one, &traffic);
    return traffic.together;
}

static int tensors_of(const struct launch *launch)
{
    int n = launch->d_out >= 0;
    for (int i = 0; i < NODE_INPUTS_MAX; i++)
        n += (launch->in[i] >= 0) + (launch->d_in[i] >= 0);
    for (int i = 0; i < NODE_OUTPUTS_MAX; i++)
        n += launch->out[i] >= 0;
    return n;
}

/* A range of bytes is in at most two pages more than it fills. A kernel touches the launch's
 * tensors and at most PIECES ranges beside them: parts of scratch memory, and a number. Two ranges
 * may share a page, and each then has a byte that is not its own. */
static double bound_of(const struct launch *launch, int kernels)
{
    return 2.0 * FAKE_PAGE * kernels * (tensors_of(launch) + PIECES);
}

static double bytes_of(const struct plan *plan, int value)
{
    const struct plan_value *v = &plan->values[value];
    return (double)v->count * (double)wk_dtype_bytes(v->type);
}

/* Weights of one product, with results side by side in each row. */
static int weights_of(const struct launch *launch)
{
    int n = 0;
    for (int i = LINEAR_WEIGHTS; i < LINEAR_WEIGHTS + LINEAR_PARTS_MAX; i++)
        n += launch->in[i] >= 0;
    return n;
}

static bool is_attention(const struct launch *launch)
{
    return launch->node && !strcmp(launch->node->row->name, "attention");
}

/* Where several kernels touch parts of the same rows, a page has parts of each: the bytes of all
 * parts beyond the first. Forward products write the result's parts; backward ones read those of
 * its gradient, for x and for the weights. Attention's two last kernels write parts of d(qkv). */
static double shared_read(const struct plan *plan, const struct launch *launch)
{
    if (launch->kind != LAUNCH_BACKWARD || launch->node->row != &op_linear)
        return 0;
    return 2 * (weights_of(launch) - 1) * bytes_of(plan, launch->d_out);
}

static double shared_written(const struct plan *plan, const struct launch *launch)
{
    if (launch->kind == LAUNCH_FORWARD && launch->node->row == &op_linear)
        return (weights_of(launch) - 1) * bytes_of(plan, launch->out[0]);
    if (launch->kind == LAUNCH_BACKWARD && is_attention(launch))
        return bytes_of(plan, launch->d_in[0]);
    return 0;
}

static bool is_within(double measured, double counted, double bound, double shared)
{
    return measured >= counted - bound && measured <= counted + bound + shared;
}

static void compare(const struct plan *plan, int i, const struct device_traffic *measured)
{
    const struct launch *launch = &plan->launches[i];
    const struct traffic_row counted = count_one(plan, i);
    double bound = bound_of(launch, counted.launches);
    bool same = is_within(measured->read, counted.read, bound, shared_read(plan, launch)) &&
                is_within(measured->written, counted.written, bound, shared_written(plan, launch));
    if (!same)
        fprintf(stderr,
                "%s%s: counted %d kernels, %.0f + %.0f bytes; %d, %.0f + %.0f; bound %.0f\n",
                launch->node ? launch->node->row->name : "a launch",
                launch->backward ? " backward" : "", counted.launches, counted.read,
                counted.written, measured->launches, measured->read, measured->written, bound);
    CHECK(same);
}

static struct plan *plan_of(struct wk_model *model, enum wk_dtype compute, struct device *device)
{
    struct graph_model *m = graph_model_of(model);
    struct plan_options wanted = {.trace = {.trains = true},
                                  .sizes = {COUNTS_SAMPLES, COUNTS_LENGTH, 1},
                                  .compute = compute,
                                  .device = device};
    struct plan *plan = NULL;
    CHECK(plan_new(m->graph, &wanted, m->blocks, &plan, NULL) == 0);
    return plan;
}

static void run_each(const struct pass *pass, const struct plan *plan, bool by_own)
{
    for (int i = 0; i < plan->n_launches; i++) {
        struct device_traffic measured = {0};
        if (fake_can_watch())
            fake_watch(add_touched, &measured);
        long before = fake_counted().works;
        CHECK(run_launches(&pass->run, plan, i, i + 1, NULL) == 0);
        CHECK(queue_finish(pass->queue, NULL) == 0);
        CHECK(fake_counted().works - before == count_one(plan, i).launches);
        if (fake_can_watch() && (by_own || !is_attention(&plan->launches[i])))
            compare(plan, i, &measured);
    }
    if (fake_can_watch())
        fake_watch(NULL, NULL);
}

/* Graphs of the pass have as many launches as repeat_needs, and the records need that memory:
 * arrays of theirs have room for at most twice as much, of arguments three times. */
static void run_graphs(const struct pass *pass, const struct plan *plan)
{
    enum { ROUNDS = 2 };
    const struct repeat_needs needs = repeat_needs(plan);
    struct replay_counts counts;
    CHECK(plan->repeats && needs.launches > 0 && needs.launches <= REPLAY_WORKS_MAX);
    for (int i = 0; i < ROUNDS; i++)
        CHECK(run_launches(&pass->run, plan, 0, plan->n_launches, NULL) == 0);
    CHECK(queue_finish(pass->queue, NULL) == 0);
    replay_counted(pass->queue, &counts);
    CHECK(!counts.refused && counts.replayed == ROUNDS - 1);
    CHECK(counts.works == (ROUNDS - 1) * needs.launches);
    CHECK(counts.bytes >= needs.host_bytes && counts.bytes <= 3 * needs.host_bytes);
    replay_drop(pass->queue, plan);
}

void counts_are_measured(struct wk_model *model, enum wk_dtype compute,
                         enum attention_choice attention)
{
    const struct fake_options options = gpu_options(1);
    struct pass pass = {.model = model};
    struct device *device = gpu_new(&options);
    cuda_device_of(device)->attention = attention;
    device_choose_graphs(device, DEVICE_GRAPHS_ON);
    CHECK(queue_new(device, &pass.queue, NULL) == 0);
    struct plan *plan = plan_of(model, compute, device);
    pass.run = (struct run){.model = model,
                            .queue = pass.queue,
                            .region = zeros(&pass, plan->region_bytes),
                            .pass = {.device = "cuda", .trains = true, .samples = COUNTS_SAMPLES}};
    CHECK(numbers_new(device, GRAPH_NAMED_MAX, &pass.run.numbers, NULL) == 0);
    give_parameters(&pass, true);
    give_inputs(&pass, true);
    CHECK(queue_finish(pass.queue, NULL) == 0);
    run_each(&pass, plan, attention == ATTENTION_OWN);
    if (attention == ATTENTION_OWN && compute == WK_F32 && fake_can_watch())
        run_graphs(&pass, plan);
    give_inputs(&pass, false);
    give_parameters(&pass, false);
    free_zeros(&pass, pass.run.region, plan->region_bytes);
    numbers_free(pass.run.numbers);
    plan_free(plan);
    queue_free(pass.queue);
    device_free(device);
    wk_model_free(model);
}
