/* Optimizers, the verdict and limits on a GPU's kernels, beside the same calls on the CPU with the
 * plain kernels. What an optimizer does element by element has the CPU's bits. */
#include <math.h>

#include "libworker/device/cpu.h"
#include "libworker/optim/clip.h"
#include "libworker/optim/optimizer.h"
#include "libworker/optim/verdict.h"
#include "libworker/precision/half.h"
#include "tests/numeric/cuda/plain_gpu.h"
#include "tests/lib/check.h"
#include "tests/lib/params.h"
#include "tests/lib/rounding.h"

enum { PARAMS = 5, COUNT = 1 + 37 * 9 + 9 + 5003 + 64, STEPS = 3 };
enum { FIRST = 1, OWN = COUNT - FIRST }; /* the range: the first parameter is another rank's */

/* The vectors put what is after them off 16 bytes. */
static const struct params_tensor tensors[PARAMS] = {{"one", 1, {1}},
                                                     {"matrix", 2, {37, 9}},
                                                     {"vector", 1, {9}},
                                                     {"frozen", 1, {5003}},
                                                     {"last", 2, {16, 4}}};

/* One training of a few steps in one place. */
struct training {
    struct queue *queue;
    struct wk_optimizer *optimizer;
    struct param params[PARAMS];
    float values[COUNT], grads[COUNT];
    uint16_t low_grads[COUNT], low[COUNT];
};

struct plan {
    int (*make)(struct wk_optimizer **ret);
    enum wk_dtype grads, copy; /* WK_F32: no narrow gradients, no copy */
    bool stochastic, verdict, exact;
    bool apart; /* the device has no kernel for several segments */
};

static void training_begin(struct training *t, const struct plan *plan, struct queue *queue)
{
    static const struct wk_group frozen = {
        .pattern = "frozen", .rate_scale = 0, .weight_decay = -1};
    static const struct wk_group slow = {.pattern = "last", .rate_scale = 0.5, .weight_decay = 0.2};
    struct optimizer_copy copy = {t->low, plan->copy, plan->stochastic, 11};
    t->queue = queue;
    CHECK(params_describe(tensors, PARAMS, t->params) == COUNT);
    CHECK(plan->make(&t->optimizer) == 0);
    CHECK(wk_optimizer_group(t->optimizer, &frozen) == 0);
    CHECK(wk_optimizer_group(t->optimizer, &slow) == 0);
    t->optimizer->kernels = kernel_reference();
    optimizer_move(t->optimizer, queue);
    CHECK(optimizer_bind(t->optimizer, t->params, PARAMS, FIRST, OWN, NULL) == 0);
    if (plan->copy != WK_F32)
        CHECK(optimizer_set_copy(t->optimizer, &copy, NULL) == 0);
    for (size_t i = 0; i < COUNT; i++)
        t->values[i] = params_number(1, i);
}

static void step_once(struct training *t, const struct plan *plan, int step, bool applies)
{
    struct verdict verdict;
    struct optimizer_gradients g = {.grads = t->grads, .scale = 0.75f};
    CHECK(verdict_init(&verdict, t->queue, NULL) == 0);
    for (size_t i = 0; i < COUNT; i++) {
        t->grads[i] = params_number((uint64_t)(2 + step), i) * (i % 7 ? 0.1f : 1e-4f);
        t->low_grads[i] =
            plan->grads == WK_BF16 ? bf16_of_f32(t->grads[i]) : f16_of_f32(t->grads[i]);
    }
    if (plan->grads != WK_F32)
        g = (struct optimizer_gradients){.low = t->low_grads, .type = plan->grads, .scale = 0.75f};
    if (plan->verdict) {
        verdict_open(&verdict, 0.75, VERDICT_FINITE);
        verdict_judge(&verdict, applies ? 1 : NAN);
        g.verdict = verdict.at;
    }
    CHECK(optimizer_enqueue(t->optimizer, t->values, &g, NULL) == 0);
    CHECK(queue_finish(t->queue, NULL) == 0);
    verdict_fini(&verdict);
}

static bool same_floats(const float *x, const float *y, size_t count)
{
    bool same = true;
    for (size_t i = 0; i < count; i++)
        same &= bits_of_f32(x[i]) == bits_of_f32(y[i]) || (isnan(x[i]) && isnan(y[i]));
    return same;
}

static bool near_floats(const float *x, const float *y, size_t count)
{
    bool near = true;
    for (size_t i = 0; i < count; i++)
        near &=
            fabs((double)x[i] - (double)y[i]) <= rounding_bound(64) * fmax(1, fabs((double)y[i]));
    return near;
}

static void compare(const struct training *gpu, const struct training *cpu, bool exact)
{
    const struct wk_optimizer *x = gpu->optimizer, *y = cpu->optimizer;
    bool (*equal)(const float *, const float *, size_t) = exact ? same_floats : near_floats;
    CHECK(equal(gpu->values, cpu->values, COUNT));
    for (int i = 0; i < x->ops->n_states && !x->ops->whole_tensors; i++)
        CHECK(equal(x->state[i], y->state[i], OWN));
    CHECK(!x->ops->whole_tensors || near_floats(x->own, y->own, x->own_count));
    if (exact)
        CHECK(!memcmp(gpu->low, cpu->low, sizeof(gpu->low)));
}

/* The last step does not apply where a verdict decides. */
static void train(const struct plan *plan)
{
    static struct training gpu, cpu;
    memset(&gpu, 0, sizeof(gpu));
    memset(&cpu, 0, sizeof(cpu));
    struct queue *host = NULL;
    struct queue *device = plan->apart ? plain_gpu_without(" of segments") : plain_gpu_open();
    CHECK(cpu_open(&host, NULL) == 0);
    training_begin(&gpu, plan, device);
    training_begin(&cpu, plan, host);
    for (int step = 0; step < STEPS; step++) {
        bool applies = step < STEPS - 1;
        step_once(&gpu, plan, step, applies);
        step_once(&cpu, plan, step, applies);
        compare(&gpu, &cpu, plan->exact);
    }
    if (plan->copy != WK_F32) {
        optimizer_write_copy(gpu.optimizer, gpu.values);
        optimizer_write_copy(cpu.optimizer, cpu.values);
        compare(&gpu, &cpu, plan->exact);
    }
    wk_optimizer_free(gpu.optimizer);
    wk_optimizer_free(cpu.optimizer);
    plain_gpu_close(device);
    cpu_close(host);
}

static int make_adamw(struct wk_optimizer **ret)
{
    struct wk_adamw_options o = {
        .rate = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};
    return wk_adamw_new(&o, ret);
}

static int make_adam(struct wk_optimizer **ret)
{
    struct wk_adamw_options o = {
        .rate = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-6, .weight_decay = 0.1};
    return wk_adam_new(&o, ret);
}

static int make_sgd(struct wk_optimizer **ret)
{
    struct wk_sgd_options o = {.rate = 0.1, .weight_decay = 0.01};
    return wk_sgd_new(&o, ret);
}

static int make_momentum(struct wk_optimizer **ret)
{
    struct wk_sgd_options o = {.rate = 0.1, .momentum = 0.9, .weight_decay = 0.01};
    return wk_sgd_new(&o, ret);
}

static int make_nesterov(struct wk_optimizer **ret)
{
    struct wk_sgd_options o = {.rate = 0.1, .momentum = 0.9, .nesterov = true};
    return wk_sgd_new(&o, ret);
}

static int make_lion(struct wk_optimizer **ret)
{
    struct wk_lion_options o = {.rate = 1e-3, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1};
    return wk_lion_new(&o, ret);
}

static int make_adafactor(struct wk_optimizer **ret)
{
    struct wk_adafactor_options o = {.rate = 1e-2,
                                     .decay_power = 0.8,
                                     .epsilon1 = 1e-30,
                                     .epsilon2 = 1e-3,
                                     .clip = 1,
                                     .weight_decay = 0.1,
                                     .relative = true};
    return wk_adafactor_new(&o, ret);
}

static void elementwise_optimizers_have_the_bits_of_the_plain_kernels(void)
{
    static int (*const makes[])(struct wk_optimizer **) = {make_adamw,    make_adam,     make_sgd,
                                                           make_momentum, make_nesterov, make_lion};
    for (size_t i = 0; i < sizeof(makes) / sizeof(makes[0]); i++) {
        train(&(struct plan){.make = makes[i], .grads = WK_F32, .copy = WK_F32, .exact = true});
        train(&(struct plan){
            .make = makes[i], .grads = WK_BF16, .copy = WK_BF16, .apart = true, .exact = true});
        train(&(struct plan){
            .make = makes[i], .grads = WK_F32, .copy = WK_F16, .verdict = true, .exact = true});
    }
}

static void narrow_gradients_and_copies_have_the_bits_of_the_plain_kernels(void)
{
    static const enum wk_dtype types[2] = {WK_BF16, WK_F16};
    for (int i = 0; i < 4; i++) {
        train(&(struct plan){.make = make_adamw,
                             .grads = types[i / 2],
                             .copy = types[i % 2],
                             .verdict = i % 2,
                             .exact = true});
    }
}

static void copies_are_rounded_by_the_same_chance(void)
{
    train(&(struct plan){
        .make = make_adamw, .grads = WK_F32, .copy = WK_BF16, .stochastic = true, .exact = true});
    train(&(struct plan){.make = make_lion,
                         .grads = WK_BF16,
                         .copy = WK_BF16,
                         .stochastic = true,
                         .verdict = true,
                         .exact = true});
}

static void adafactor_is_near_the_plain_kernels(void)
{
    train(&(struct plan){.make = make_adafactor, .grads = WK_F32, .copy = WK_F32});
    train(
        &(struct plan){.make = make_adafactor, .grads = WK_F32, .copy = WK_BF16, .verdict = true});
}

static int make_muon(struct wk_optimizer **ret)
{
    struct wk_muon_options o = {
        .rate = 1e-3, .momentum = 0.95, .others = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8}};
    return wk_muon_new(&o, ret);
}

static void muon_is_refused_when_it_is_bound(void)
{
    struct param params[PARAMS];
    struct error err = {0};
    struct wk_optimizer *muon = NULL;
    struct queue *device = plain_gpu_open();
    CHECK(params_describe(tensors, PARAMS, params) == COUNT);
    CHECK(make_muon(&muon) == 0);
    optimizer_move(muon, device);
    CHECK(optimizer_bind(muon, params, PARAMS, 0, COUNT, &err) == WK_EUNSUPPORTED);
    CHECK(strstr(err.text, "\"muon\""));
    wk_optimizer_free(muon);
    plain_gpu_close(device);
}

/* ---- the verdict, squares and limits ---- */

struct judged {
    double scale, squares, norm, finite, loss, applies;
    float grads[COUNT];
    uint16_t low[COUNT];
};

struct window {
    float poison; /* the last gradient; 0: it is as the others */
    double max_norm, most, loss;
    enum wk_dtype type;
};

static void judge_window(struct queue *queue, const struct window *w, struct judged *ret)
{
    static float scratch[CLIP_PIECE];
    struct verdict verdict;
    const struct verdict_values *values;
    CHECK(verdict_init(&verdict, queue, NULL) == 0);
    for (size_t i = 0; i < COUNT; i++) {
        ret->grads[i] = i + 1 == COUNT && w->poison != 0 ? w->poison : params_number(5, i);
        ret->low[i] = w->type == WK_BF16 ? bf16_of_f32(ret->grads[i]) : f16_of_f32(ret->grads[i]);
    }
    struct clip_grads grads = {.kernels = kernel_reference(),
                               .grads = ret->grads,
                               .low = w->type == WK_F32 ? NULL : ret->low,
                               .type = w->type,
                               .scratch = scratch,
                               .count = COUNT};
    double pass = 0.3;
    CHECK(queue_write(queue, &verdict.at->pass, &pass, sizeof(pass), NULL) == 0);
    verdict_add_loss(&verdict, 0.5);
    verdict_add_loss(&verdict, 0.25);
    verdict_open(&verdict, 0.5, VERDICT_UNKNOWN);
    clip_measure(queue, &grads, &verdict.at->squares);
    verdict_measure(&verdict, true);
    verdict_clip(&verdict, w->max_norm);
    clip_limit(queue, &grads, verdict.at, w->most);
    verdict_judge(&verdict, w->loss);
    CHECK(verdict_fetch(&verdict, &values, NULL) == 0);
    ret->scale = values->scale;
    ret->squares = values->squares;
    ret->norm = values->norm;
    ret->finite = values->finite;
    ret->loss = values->loss;
    ret->applies = values->applies;
    verdict_fini(&verdict);
}

static bool near(double x, double y)
{
    return fabs(x - y) <= rounding_apart(ROUNDING_F64, COUNT) * fabs(y) || (isnan(x) && isnan(y)) ||
           x == y;
}

static void windows_are_judged_as_on_the_cpu(void)
{
    static const struct window windows[] = {
        {0, 1, 0.25, 2, WK_F32},        {0, 1e9, 10, 2, WK_BF16},       {0, 2, 0.01, 2, WK_F16},
        {0, 1, 0.25, INFINITY, WK_F32}, {INFINITY, 1, 0.25, 2, WK_F32}, {NAN, 1, 0.25, 2, WK_BF16}};
    static struct judged gpu, cpu;
    struct queue *host = NULL, *device = plain_gpu_open();
    CHECK(cpu_open(&host, NULL) == 0);
    for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
        judge_window(device, &windows[i], &gpu);
        judge_window(host, &windows[i], &cpu);
        CHECK(near(gpu.scale, cpu.scale) && near(gpu.squares, cpu.squares));
        CHECK(near(gpu.norm, cpu.norm) && gpu.loss == cpu.loss && gpu.loss > 0.2);
        CHECK(gpu.finite == cpu.finite && gpu.applies == cpu.applies);
        CHECK(near_floats(gpu.grads, cpu.grads, COUNT - 1));
        CHECK(same_floats(&gpu.grads[COUNT - 1], &cpu.grads[COUNT - 1], 1));
        CHECK(!memcmp(gpu.low, cpu.low, (COUNT - 1) * sizeof(*gpu.low)));
    }
    plain_gpu_close(device);
    cpu_close(host);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(elementwise_optimizers_have_the_bits_of_the_plain_kernels),
        CHECK_CASE(narrow_gradients_and_copies_have_the_bits_of_the_plain_kernels),
        CHECK_CASE(copies_are_rounded_by_the_same_chance),
        CHECK_CASE(adafactor_is_near_the_plain_kernels),
        CHECK_CASE(muon_is_refused_when_it_is_bound),
        CHECK_CASE(windows_are_judged_as_on_the_cpu),
        {0},
    };
    return check_all(cases, argc, argv);
}
