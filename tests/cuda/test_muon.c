/* Muon on a GPU, over the fake runtime, beside the same steps on the CPU with the plain kernels.
 * Matrices are wide, tall and square; there are a vector, a frozen and an element-wise group, and
 * steps that do not apply. */
#include <math.h>
#include <string.h>

#include "libworker/device/cpu.h"
#include "libworker/optim/optimizer.h"
#include "libworker/optim/verdict.h"
#include "libworker/precision/half.h"
#include "tests/cuda/fake/gpu.h"
#include "tests/lib/check.h"
#include "tests/lib/params.h"
#include "tests/lib/rounding.h"

enum { PARAMS = 6, COUNT = 1 + 37 * 9 + 300 * 40 + 16 * 16 + 33 + 8 * 8, STEPS = 4 };

/* What is after the first is off 16 bytes. The large one has sums of several blocks. */
static const struct params_tensor tensors[PARAMS] = {
    {"one", 1, {1}},         {"wide", 2, {9, 37}},   {"tall", 2, {300, 40}},
    {"square", 2, {16, 16}}, {"frozen", 2, {3, 11}}, {"apart", 2, {8, 8}}};

static const struct wk_muon_options options = {
    .rate = 0.01,
    .momentum = 0.95,
    .nesterov = true,
    .weight_decay = 0.1,
    .others = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8},
};

struct training {
    struct device *device; /* NULL: the CPU */
    struct queue *queue;
    struct wk_optimizer *optimizer;
    struct param params[PARAMS];
    float *there[2], values[COUNT], grads[COUNT]; /* parameters and gradients on the device */
    uint16_t *low, copied[COUNT];
};

static void *memory_new(const struct training *t, size_t each)
{
    void *memory = NULL;
    CHECK(device_zeros_new(t->queue, COUNT * each, &memory, NULL) == 0);
    return memory;
}

static void training_begin(struct training *t, const struct wk_muon_options *wanted)
{
    static const struct wk_group frozen = {.pattern = "frozen", .weight_decay = -1};
    static const struct wk_group apart = {
        .pattern = "apart", .rate_scale = 0.5, .weight_decay = 0.2, .elementwise = true};
    CHECK(params_describe(tensors, PARAMS, t->params) == COUNT);
    if (t->device)
        CHECK(queue_new(t->device, &t->queue, NULL) == 0);
    else
        CHECK(cpu_open(&t->queue, NULL) == 0);
    CHECK(wk_muon_new(wanted, &t->optimizer) == 0);
    CHECK(wk_optimizer_group(t->optimizer, &frozen) == 0);
    CHECK(wk_optimizer_group(t->optimizer, &apart) == 0);
    t->optimizer->kernels = kernel_reference();
    optimizer_move(t->optimizer, t->queue);
    CHECK(optimizer_bind(t->optimizer, t->params, PARAMS, 0, COUNT, NULL) == 0);
    for (int i = 0; i < 2; i++)
        t->there[i] = memory_new(t, sizeof(float));
    t->low = memory_new(t, sizeof(uint16_t));
    struct optimizer_copy copy = {t->low, WK_BF16, false, 0};
    CHECK(optimizer_set_copy(t->optimizer, &copy, NULL) == 0);
    for (size_t i = 0; i < COUNT; i++)
        t->values[i] = params_number(1, i);
    CHECK(queue_write(t->queue, t->there[0], t->values, sizeof(t->values), NULL) == 0);
}

static void training_end(struct training *t)
{
    wk_optimizer_free(t->optimizer);
    for (int i = 0; i < 2; i++)
        device_memory_free(queue_device(t->queue), t->there[i], COUNT * sizeof(float));
    device_memory_free(queue_device(t->queue), t->low, COUNT * sizeof(uint16_t));
    if (!t->device) {
        cpu_close(t->queue);
        return;
    }
    queue_free(t->queue);
    device_free(t->device);
}

/* A step that does not apply has gradients that are no numbers. */
static void step_once(struct training *t, int step, bool applies)
{
    struct verdict verdict;
    struct optimizer_gradients g = {.grads = t->there[1]};
    CHECK(verdict_init(&verdict, t->queue, NULL) == 0);
    for (size_t i = 0; i < COUNT; i++)
        t->grads[i] = applies ? params_number((uint64_t)(2 + step), i) : NAN;
    CHECK(queue_write(t->queue, t->there[1], t->grads, sizeof(t->grads), NULL) == 0);
    verdict_open(&verdict, 0.5, VERDICT_FINITE);
    verdict_judge(&verdict, applies ? 1 : NAN);
    g.verdict = verdict.at;
    CHECK(optimizer_enqueue(t->optimizer, t->there[0], &g, NULL) == 0);
    CHECK(queue_read(t->queue, t->values, t->there[0], sizeof(t->values), NULL) == 0);
    CHECK(queue_read(t->queue, t->copied, t->low, sizeof(t->copied), NULL) == 0);
    if (!applies)
        optimizer_take_back(t->optimizer);
    verdict_fini(&verdict);
}

/* Roundings of `steps` updates of elements of size 1. Each iteration makes small singular values,
 * and their errors, 3.4445 times as large. */
static double roundings_of(const struct param *param, int steps)
{
    if (param->dims < 2 || !strcmp(param->name, "apart"))
        return 0;
    double rows = (double)param->shape[0], cols = (double)param->shape[1];
    double grown = options.rate * 0.2 * sqrt(fmax(rows, cols)) * pow(3.4445, 5);
    double sums = 5 * (2 * fmin(rows, cols) + fmax(rows, cols));
    return steps * (8 + grown * grown * sums);
}

static void compare(const struct training *gpu, const struct training *cpu, int steps)
{
    for (int p = 0; p < PARAMS; p++) {
        const struct param *param = &gpu->params[p];
        double most = rounding_bound(roundings_of(param, steps)), largest = 0;
        for (size_t i = param->offset; i < param->offset + param->count; i++) {
            double x = (double)gpu->values[i], y = (double)cpu->values[i];
            largest = fmax(largest, fabs(x - y) / fmax(1, fabs(y)));
        }
        printf("   step %d, %s: %.1e apart, of %.1e\n", steps, param->name, largest, most);
        CHECK(largest <= most);
    }
}

static void train(const struct wk_muon_options *wanted, uint64_t seed)
{
    static struct training gpu, cpu;
    static float before[COUNT];
    const struct fake_options fake = gpu_options(seed);
    memset(&cpu, 0, sizeof(cpu));
    memset(&gpu, 0, sizeof(gpu));
    gpu.device = gpu_new(&fake);
    training_begin(&gpu, wanted);
    training_begin(&cpu, wanted);
    for (int step = 0; step < STEPS; step++) {
        step_once(&gpu, step, true);
        step_once(&cpu, step, true);
        compare(&gpu, &cpu, step + 1);
    }
    memcpy(before, gpu.values, sizeof(before));
    step_once(&gpu, STEPS, false);
    CHECK(!memcmp(before, gpu.values, sizeof(before)));
    step_once(&gpu, STEPS, true); /* nor is the momentum touched */
    step_once(&cpu, STEPS, true);
    compare(&gpu, &cpu, STEPS + 1);
    training_end(&gpu);
    training_end(&cpu);
}

static void matrices_move_as_on_the_cpu(void)
{
    train(&options, 1);
}

static void without_nesterov_too(void)
{
    struct wk_muon_options plain = options;
    plain.nesterov = false;
    train(&plain, 2);
}

/* The bf16 copy is that of the new parameters. */
static void copies_are_of_the_new_parameters(void)
{
    static struct training gpu;
    const struct fake_options fake = gpu_options(3);
    memset(&gpu, 0, sizeof(gpu));
    gpu.device = gpu_new(&fake);
    training_begin(&gpu, &options);
    step_once(&gpu, 0, true);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(gpu.copied[i] == bf16_of_f32(gpu.values[i]));
    training_end(&gpu);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(matrices_move_as_on_the_cpu),
        CHECK_CASE(without_nesterov_too),
        CHECK_CASE(copies_are_of_the_new_parameters),
        {0},
    };
    return check_all(cases, argc, argv);
}
