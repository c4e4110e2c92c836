/* A device with kernels of its own: they run instead of the launches', are found by name and say
 * how much scratch memory operations need. What needs one that is missing is refused before
 * anything runs. The device is the CPU with another table. */
#include <string.h>

#include <worker/custom_op.h>

#include "libworker/device/cpu.h"
#include "libworker/device/device_ops.h"
#include "libworker/graph/launches.h"
#include "libworker/graph/op.h"
#include "libworker/optim/launches.h"
#include "libworker/parallel/launches.h"
#include "tests/docs/prelu.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/rehearsed.h"

enum { SCRATCH_BYTES = 1 << 20, TOKENS = 16, VOCAB = 37, NAMES_MAX = 256 };

static struct device_ops own_ops;
static const char *missing; /* of its kernels, besides add_norm; NULL: none */
static int operations, others;
static size_t largest; /* of its memory, bytes */
static void *(*cpu_memory_new)(struct device *, enum memory_kind, size_t);

/* Every operation's: the host's. It may use all the scratch memory that it asked for. */
static void run_operation(struct queue *queue, const void *args)
{
    const struct op_args *op = args;
    operations++;
    if (op->call.scratch)
        memset(op->call.scratch, 0xab, SCRATCH_BYTES);
    launch_op(queue, args);
}

static size_t scratch_of_operation(const struct device *device, const void *args)
{
    const struct op_args *op = args;
    (void)device;
    CHECK(op->call.node->row->forward);
    return SCRATCH_BYTES;
}

static void run_other(struct queue *queue, const void *args)
{
    (void)queue;
    (void)args;
    others++;
}

static void run_sum_loss(struct queue *queue, const void *args)
{
    others++;
    launch_sum_loss(queue, args);
}

static void run_seed(struct queue *queue, const void *args)
{
    struct row_args seed = *(const struct row_args *)args;
    others++;
    CHECK(seed.seed_at); /* the device has kernels of its own */
    seed.seed = *seed.seed_at;
    launch_seed(queue, &seed);
}

static void run_note(struct queue *queue, const void *args)
{
    const struct note_args *note = args;
    (void)queue;
    others++;
    memcpy(note->to, note->words, (size_t)note->n * sizeof(*note->words));
}

static void run_add(struct queue *queue, const void *args)
{
    others++;
    launch_add(queue, args);
}

static bool is_operation(const char *name)
{
    const struct op_row *row;
    for (int i = 0; (row = op_row_at(i)); i++) {
        if (!strcmp(row->name, name))
            return true;
    }
    return false;
}

static const struct device_kernel *own_kernel(const struct device *device, const char *name)
{
    static const struct device_kernel operation = {.run = run_operation,
                                                   .scratch_bytes = scratch_of_operation},
                                      other = {.run = run_other}, sum_loss = {.run = run_sum_loss},
                                      seed = {.run = run_seed}, note = {.run = run_note},
                                      add = {.run = run_add};
    CHECK(device->ops == &own_ops);
    if ((missing && !strcmp(missing, name)) || !strcmp(name, "add_norm"))
        return NULL; /* the plan does without add_norm */
    return is_operation(name)              ? &operation
           : !strcmp(name, GRAPH_SUM_LOSS) ? &sum_loss
           : !strcmp(name, GRAPH_SEED)     ? &seed
           : !strcmp(name, GRAPH_NOTE)     ? &note
           : !strcmp(name, GRAPH_ADD)      ? &add
                                           : &other;
}

static void *own_memory_new(struct device *device, enum memory_kind kind, size_t bytes)
{
    largest = bytes > largest ? bytes : largest;
    return cpu_memory_new(device, kind, bytes);
}

static struct device *own_device(void)
{
    struct device *device = NULL;
    CHECK(device_cpu_new(&device, NULL) == 0);
    own_ops = *device->ops;
    own_ops.name = own_ops.kernels = "own";
    own_ops.kernel = own_kernel;
    cpu_memory_new = own_ops.memory_new;
    own_ops.memory_new = own_memory_new;
    device->ops = &own_ops;
    operations = others = 0;
    largest = 0;
    return device;
}

static void never(struct queue *queue, const void *args)
{
    (void)queue;
    (void)args;
    CHECK(!"the launch's own function");
}

static void a_launch_runs_the_devices_kernel(void)
{
    struct error err = {0};
    struct queue *queue;
    struct device *device = own_device();
    CHECK(queue_new(device, &queue, NULL) == 0);
    missing = "lost";
    CHECK(device_has_kernels(device) && !device_kernel_find(device, "lost"));
    CHECK(device_kernel_need(device, "launch", "found", &err) == 0);
    CHECK(device_kernel_need(device, "launch", "lost", &err) == WK_EUNSUPPORTED);
    CHECK(strstr(err.text, "device own has no kernel for the launch \"lost\""));
    queue_launch(queue, &(struct device_launch){.name = "found", .run = never});
    CHECK(others == 1 && queue_finish(queue, &err) == 0);
    queue_launch(queue, &(struct device_launch){.name = "lost", .run = never});
    CHECK(queue_finish(queue, &err) == WK_EUNSUPPORTED);
    CHECK(strstr(err.text, "device own: it has no kernel for \"lost\""));
    queue_launch(queue, &(struct device_launch){.name = "found", .run = never});
    CHECK(others == 1);
    queue_free(queue);
    device_free(device);
    missing = NULL;
}

static void the_hosts_devices_have_none(void)
{
    struct device *device;
    CHECK(device_cpu_new(&device, NULL) == 0);
    CHECK(!device_has_kernels(device) && !device_kernel_find(device, "gelu"));
    CHECK(device_kernel_need(device, "operation", "gelu", NULL) == 0);
    device_free(device);
}

struct outcome {
    double loss;
    float grads[1 << 14];
    size_t count;
};

/* One pass of an MLP, forward and backward. */
static void run_pass(struct device *device, struct outcome *ret)
{
    static float params[1 << 14];
    struct wk_mlp_config mlp = {2, 3, 8, 16, TOKENS, VOCAB};
    struct wk_model *model = NULL;
    struct queue *queue = NULL;
    int32_t tokens[TOKENS], targets[TOKENS];
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = i * 7 % VOCAB;
        targets[i] = i * 5 % VOCAB;
    }
    struct wk_batch batch = {.tokens = tokens, .targets = targets, .samples = 1, .length = TOKENS};
    memset(ret, 0, sizeof(*ret));
    CHECK(wk_mlp_new(&mlp, &model) == 0 && model->count <= sizeof(params) / sizeof(*params));
    ret->count = model->count;
    CHECK(!device || queue_new(device, &queue, NULL) == 0);
    CHECK(model_move(model, queue, NULL) == 0);
    CHECK(model_bind(model, params, ret->grads) == 0 && wk_model_init(model, 3) == 0);
    CHECK(model_forward(model, &batch, &ret->loss, NULL) == 0);
    CHECK(model_backward(model, 2, NULL) == 0);
    wk_model_free(model);
    queue_free(queue);
}

static void plans_have_the_scratch_that_kernels_ask_for(void)
{
    static struct outcome on_cpu, on_own;
    struct device *device = own_device();
    run_pass(NULL, &on_cpu);
    CHECK(operations == 0);
    run_pass(device, &on_own);
    CHECK(operations > 10 && others > 1);
    CHECK(largest >= SCRATCH_BYTES);
    CHECK(memcmp(&on_cpu.loss, &on_own.loss, sizeof(on_cpu.loss)) == 0);
    CHECK(memcmp(on_cpu.grads, on_own.grads, on_cpu.count * sizeof(float)) == 0);
    device_free(device);
}

static void refused(struct rehearsed rehearsed, const char *kind, const char *name)
{
    char part[200];
    snprintf(part, sizeof(part), "device own has no kernel for the %s \"%s\"; the CPU has it", kind,
             name);
    missing = name;
    rehearsed.device = own_device();
    CHECK(rehearsed_refusal(&rehearsed, part) == WK_EUNSUPPORTED);
    CHECK(operations == 0 && others == 0);
    device_free(rehearsed.device);
    missing = NULL;
}

static struct rehearsed with(const char *name, const char *value)
{
    return (struct rehearsed){.model = REHEARSED_LLAMA,
                              .optimizer = REHEARSED_LION,
                              .settings = {{name, value}},
                              .n_settings = name ? 1 : 0};
}

static struct wk_tensor *own_operation(struct wk_tensor *x, struct wk_tensor *slope)
{
    struct wk_custom_op op = {.name = "prelu of own",
                              .functions = {{"own", prelu_forward, prelu_backward}},
                              .result = {.like = x}};
    (void)prelu;
    return wk_op_custom((struct wk_tensor *[]){x, slope}, 2, &op);
}

static void what_is_missing_is_refused_before_anything_runs(void)
{
    static const char *const optim[] = OPTIM_LAUNCHES;
    struct rehearsed plain = with(NULL, NULL), own = plain;
    own.model = REHEARSED_OWN;
    refused(plain, "operation", "swiglu");
    refused(plain, "operation", "rms_norm");
    own.own = own_operation;
    refused(own, "launch", GRAPH_WIDEN);
    refused(own, "launch", GRAPH_NARROW);
    refused(plain, "launch", GRAPH_SUM_LOSS);
    refused(plain, "launch", GRAPH_SEED);
    refused(plain, "launch", GRAPH_TOTAL);
    refused(plain, "optimizer", "lion");
    for (size_t i = 0; i < sizeof(optim) / sizeof(*optim); i++)
        refused(plain, "launch", optim[i]);
    refused(plain, "launch", PARALLEL_SCALE);
    refused(with("mixed_precision", "bf16"), "launch", PARALLEL_NARROW_MODEL);
    refused(with("ddp.hook", "bf16"), "launch", PARALLEL_NARROW);
    refused(with("ddp.hook", "fp16"), "launch", PARALLEL_WIDEN);
    refused(with("strategy", "zero1"), "launch", PARALLEL_COMPACT);
    refused(with("strategy", "fsdp"), "launch", PARALLEL_ADD);
}

/* A name that meant two things would run the wrong kernel. */
static void names_are_unique(void)
{
    static const char *const graph[] = {GRAPH_CUSTOM, GRAPH_SUM_LOSS, GRAPH_SEED,  GRAPH_ADD_SEED,
                                        GRAPH_ADD,    GRAPH_TOTAL,    GRAPH_WIDEN, GRAPH_NARROW};
    static const char *const optim[] = OPTIM_LAUNCHES, *const parallel[] = PARALLEL_LAUNCHES;
    static const char *const optimizers[] = {"sgd", "adam", "adamw", "lion", "adafactor", "muon"};
    const char *names[NAMES_MAX];
    const struct op_row *row;
    int n = 0;
    names[n++] = "add_norm"; /* that of a plan */
    for (int i = 0; (row = op_row_at(i)); i++)
        names[n++] = row->name;
    for (size_t i = 0; i < sizeof(graph) / sizeof(*graph); i++)
        names[n++] = graph[i];
    for (size_t i = 0; i < sizeof(optim) / sizeof(*optim); i++)
        names[n++] = optim[i];
    for (size_t i = 0; i < sizeof(parallel) / sizeof(*parallel); i++)
        names[n++] = parallel[i];
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(*optimizers); i++)
        names[n++] = optimizers[i];
    CHECK(n <= NAMES_MAX);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            if (!strcmp(names[i], names[k]))
                fprintf(stderr, "two launches are called \"%s\"\n", names[i]);
            CHECK(strcmp(names[i], names[k]) != 0);
        }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(a_launch_runs_the_devices_kernel),
        CHECK_CASE(the_hosts_devices_have_none),
        CHECK_CASE(plans_have_the_scratch_that_kernels_ask_for),
        CHECK_CASE(what_is_missing_is_refused_before_anything_runs),
        CHECK_CASE(names_are_unique),
        {NULL, NULL},
    };
    return check_all(cases, argc, argv);
}
