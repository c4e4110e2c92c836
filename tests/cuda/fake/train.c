/* Whole trainings with the module's own kernels, emulated, over a runtime without a GPU: every
 * model, precision, optimizer and strategy of one process. Losses, norms and weights are the CPU's
 * within the rounding of the type. With every seed of the streams' order they are the same bits.
 *
 *     cuda_train [CASE]
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libworker/graph/graph_model.h"
#include "tests/cuda/fake/gpu.h"
#include "tests/cuda/fake/own_prelu.h"
#include "tests/docs/prelu.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/rehearsed.h"

enum { SEEDS = 3 };

static struct rehearsed_result on_cpu, on_gpu, first;

static bool same(const struct rehearsed_result *a, const struct rehearsed_result *b)
{
    for (int i = 0; i < REHEARSED_STEPS; i++) {
        if (memcmp(&a->numbers[i].loss, &b->numbers[i].loss, sizeof(double)) ||
            memcmp(&a->numbers[i].norm, &b->numbers[i].norm, sizeof(double)))
            return false;
    }
    return a->skipped == b->skipped && !memcmp(&a->held_out, &b->held_out, sizeof(double)) &&
           !memcmp(a->weights, b->weights, a->count * sizeof(*a->weights));
}

static double relative(double x, double wanted)
{
    return fabs(x - wanted) / fmax(fabs(wanted), 1e-6);
}

/* The largest distance of a loss or norm. */
static double distance(const struct rehearsed_result *a, const struct rehearsed_result *wanted)
{
    double largest = relative(a->held_out, wanted->held_out);
    for (int i = 0; i < REHEARSED_STEPS; i++) {
        largest = fmax(largest, relative(a->numbers[i].loss, wanted->numbers[i].loss));
        largest = fmax(largest, relative(a->numbers[i].norm, wanted->numbers[i].norm));
    }
    return largest;
}

/* Of the weights, over the size of all of them. */
static double weight_distance(const struct rehearsed_result *a,
                              const struct rehearsed_result *wanted)
{
    double apart = 0, all = 0;
    for (size_t i = 0; i < wanted->count; i++) {
        double d = (double)a->weights[i] - (double)wanted->weights[i];
        apart += d * d;
        all += (double)wanted->weights[i] * (double)wanted->weights[i];
    }
    return sqrt(apart / all);
}

static const char *value_of(const struct rehearsed *rehearsed)
{
    return rehearsed->n_settings ? rehearsed->settings[0].value : "";
}

/* Pieces that a pass had in the host's memory, and the GPU's memory for its values. */
static int offloaded;
static size_t region_bytes;

static void look_at_plan(struct wk_model *model)
{
    const struct graph_model *m = graph_model_of(model);
    offloaded = m->waiting->n_offloaded;
    region_bytes = m->site.region_bytes;
}

/* The first run is without graphs, the others with them. A copy ends a sequence, and what is
 * between copies may be too short for a graph. */
static void train(struct rehearsed rehearsed, double most)
{
    struct wk_setting *compile = &rehearsed.settings[rehearsed.n_settings++];
    *compile = (struct wk_setting){"compile", "off"};
    rehearsed.device = NULL;
    rehearsed_run(&rehearsed, &on_cpu);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const struct fake_options options = gpu_options(seed);
        rehearsed.device = gpu_new(&options);
        rehearsed_run(&rehearsed, &on_gpu);
        device_free(rehearsed.device);
        if (!seed)
            first = on_gpu;
        CHECK(same(&first, &on_gpu));
        CHECK(!on_gpu.graphs.refused && !on_gpu.graphs.gives_up);
        CHECK(seed ? on_gpu.graphs.replayed > 0 || offloaded : on_gpu.graphs.recorded == 0);
        compile->value = "on";
    }
    double numbers = distance(&on_gpu, &on_cpu), weights = weight_distance(&on_gpu, &on_cpu);
    const struct replay_counts *graphs = &on_gpu.graphs;
    printf("   model %d, optimizer %d, %s: numbers %.1e, weights %.1e apart; %ld graphs of %ld "
           "launches\n",
           (int)rehearsed.model, (int)rehearsed.optimizer, value_of(&rehearsed), numbers, weights,
           graphs->replayed, graphs->works);
    CHECK(on_gpu.count == on_cpu.count && on_gpu.skipped == on_cpu.skipped);
    CHECK(numbers <= most && weights <= most);
}

static struct rehearsed with(enum rehearsed_model model, const char *name, const char *value)
{
    return (struct rehearsed){.model = model,
                              .optimizer = REHEARSED_ADAMW,
                              .clips = true,
                              .settings = {{name, value}},
                              .n_settings = 1};
}

/* Sums of up to some hundred numbers in another order, and steps of Adam, which make gradients near
 * zero as large as others. */
static const double F32 = 2e-5, LOW = 2e-2;

static void every_model_trains_in_f32(void)
{
    for (int model = REHEARSED_GPT; model <= REHEARSED_MLP; model++)
        train(with((enum rehearsed_model)model, "mixed_precision", "no"), F32);
}

static void every_model_trains_in_bf16_and_fp16(void)
{
    for (int model = REHEARSED_GPT; model <= REHEARSED_MLP; model++) {
        train(with((enum rehearsed_model)model, "mixed_precision", "bf16"), LOW);
        train(with((enum rehearsed_model)model, "mixed_precision", "fp16"), LOW);
    }
}

/* All but the first one, of optimizers that have a launch for each tensor. */
static long updates_replayed(enum rehearsed_optimizer kind)
{
    return kind == REHEARSED_ADAFACTOR || kind == REHEARSED_MUON ? REHEARSED_STEPS - 1 : 0;
}

static void every_optimizer_updates(void)
{
    struct rehearsed rehearsed = with(REHEARSED_MLP, "strategy", "ddp");
    long passes = 0;
    rehearsed.schedules = true;
    for (int o = 0; o <= REHEARSED_MUON; o++) {
        rehearsed.optimizer = (enum rehearsed_optimizer)o;
        train(rehearsed, F32);
        passes = o ? passes : on_gpu.graphs.replayed;
        CHECK(on_gpu.graphs.replayed == passes + updates_replayed(rehearsed.optimizer));
    }
}

/* Rates, corrections and noise are new in each update, and in graphs. Steps that overflow are the
 * same graphs. */
static void what_an_update_has_of_its_own_is_in_its_graph(void)
{
    for (int o = REHEARSED_ADAFACTOR; o <= REHEARSED_MUON; o++) {
        struct rehearsed rehearsed = with(REHEARSED_GPT, "mixed_precision", "bf16");
        rehearsed.optimizer = (enum rehearsed_optimizer)o;
        rehearsed.schedules = true;
        struct wk_setting *last = &rehearsed.settings[rehearsed.n_settings++];
        *last = (struct wk_setting){"stochastic_rounding", "true"};
        train(rehearsed, LOW);
        rehearsed.settings[0].value = "fp16";
        *last = (struct wk_setting){"loss_scale.initial", "1e8"};
        rehearsed.settings[rehearsed.n_settings++] =
            (struct wk_setting){"loss_scale.backoff", "0.01"};
        train(rehearsed, LOW);
        CHECK(on_gpu.skipped > 0 && on_gpu.skipped < REHEARSED_STEPS);
    }
}

/* In bf16 and fp16 the module converts what the functions read and write. */
static struct wk_tensor *prelu_for_both(struct wk_tensor *x, struct wk_tensor *slope)
{
    struct wk_custom_op op = {.name = "prelu for both",
                              .functions = {{"cpu", prelu_forward, prelu_backward},
                                            {"cuda", own_prelu_forward, own_prelu_backward}},
                              .result = {.like = x},
                              .keeps = WK_OP_IN(0) | WK_OP_IN(1)};
    return wk_op_custom((struct wk_tensor *[]){x, slope}, 2, &op);
}

static void operations_of_the_program_run(void)
{
    static const char *const precisions[] = {"no", "bf16", "fp16"};
    for (int i = 0; i < 3; i++) {
        struct rehearsed rehearsed = with(REHEARSED_OWN, "mixed_precision", precisions[i]);
        rehearsed.own = prelu_for_both;
        train(rehearsed, i ? LOW : F32);
        rehearsed.settings[rehearsed.n_settings++] = (struct wk_setting){"recompute", "blocks"};
        rehearsed.settings[rehearsed.n_settings++] = (struct wk_setting){"strategy", "fsdp"};
        train(rehearsed, i ? LOW : F32);
    }
}

static int refuse(struct wk_op_call *call)
{
    return wk_op_fail(call, "not today");
}

static struct wk_tensor *prelu_that_fails(struct wk_tensor *x, struct wk_tensor *slope)
{
    struct wk_custom_op op = {.name = "refusing",
                              .functions = {{"cuda", refuse, own_prelu_backward}},
                              .result = {.like = x}};
    return wk_op_custom((struct wk_tensor *[]){x, slope}, 2, &op);
}

static void a_function_that_fails_ends_the_training(void)
{
    struct rehearsed rehearsed = with(REHEARSED_OWN, "strategy", "ddp");
    const struct fake_options options = gpu_options(1);
    rehearsed.own = prelu_that_fails;
    rehearsed.device = gpu_new(&options);
    CHECK(rehearsed_refusal(&rehearsed, "forward failed: not today") == WK_EINVAL);
    device_free(rehearsed.device);
}

/* Those are refused before anything runs, and all memory is freed. */
static void what_the_module_lacks_is_refused(void)
{
    struct rehearsed rehearsed = with(REHEARSED_OWN, "strategy", "ddp");
    const struct fake_options options = gpu_options(1);
    rehearsed.own = prelu;
    rehearsed.device = gpu_new(&options);
    CHECK(rehearsed_refusal(&rehearsed, "prelu has no functions for the device cuda") ==
          WK_EUNSUPPORTED);
    device_free(rehearsed.device);
}

static void a_model_may_be_cut(void)
{
    train(with(REHEARSED_MLP, "strategy", "zero1"), F32);
    train(with(REHEARSED_MLP, "strategy", "zero2"), F32);
    train(with(REHEARSED_GPT, "strategy", "fsdp"), F32);
    train(with(REHEARSED_MLP, "ddp.hook", "bf16"), LOW);
    train(with(REHEARSED_MLP, "recompute", "blocks"), F32);
}

/* The bits are those of state on the GPU. */
static void state_may_be_in_the_hosts_memory(void)
{
    static struct rehearsed_result on_device;
    static const char *const precisions[] = {"no", "bf16"};
    for (int o = 0; o <= REHEARSED_MUON; o++) {
        struct rehearsed rehearsed = with(REHEARSED_MLP, "mixed_precision", precisions[o % 2]);
        rehearsed.optimizer = (enum rehearsed_optimizer)o;
        train(rehearsed, o % 2 ? LOW : F32);
        on_device = on_gpu;
        rehearsed.settings[rehearsed.n_settings++] = (struct wk_setting){"offload.state", "host"};
        train(rehearsed, o % 2 ? LOW : F32);
        CHECK(same(&on_device, &on_gpu));
    }
}

/* So they are of masters there, also of a model that is cut, and with rounding by chance. */
static void masters_may_be_in_the_hosts_memory(void)
{
    static struct rehearsed_result on_device;
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
    for (int s = 0; s < 4; s++) {
        enum rehearsed_model model = s < 3 ? REHEARSED_MLP : REHEARSED_GPT;
        struct rehearsed rehearsed = with(model, "strategy", strategies[s]);
        struct wk_setting *settings = rehearsed.settings;
        settings[rehearsed.n_settings++] = (struct wk_setting){"mixed_precision", "bf16"};
        settings[rehearsed.n_settings++] = (struct wk_setting){"stochastic_rounding", "true"};
        train(rehearsed, LOW);
        on_device = on_gpu;
        settings[rehearsed.n_settings++] = (struct wk_setting){"offload.masters", "host"};
        train(rehearsed, LOW);
        CHECK(same(&on_device, &on_gpu));
        settings[rehearsed.n_settings++] = (struct wk_setting){"offload.state", "host"};
        train(rehearsed, LOW);
        CHECK(same(&on_device, &on_gpu));
    }
}

/* The bits are those of values on the GPU. */
static void values_may_wait_in_the_hosts_memory(void)
{
    static struct rehearsed_result on_device;
    struct rehearsed rehearsed = with(REHEARSED_GPT, "mixed_precision", "no");
    rehearsed.batch = 8;
    rehearsed.dropout = 0.25;
    rehearsed.passed = look_at_plan;
    train(rehearsed, F32);
    size_t without = region_bytes;
    on_device = on_gpu;
    rehearsed.settings[rehearsed.n_settings++] = (struct wk_setting){"offload.activations", "host"};
    train(rehearsed, F32);
    CHECK(same(&on_device, &on_gpu));
    CHECK(offloaded > 0 && region_bytes < without);
    offloaded = 0;
}

static void windows_are_accumulated(void)
{
    struct rehearsed rehearsed = with(REHEARSED_MLP, "gradient_accumulation_steps", "2");
    train(rehearsed, F32);
    rehearsed.asks = true;
    train(rehearsed, F32);
}

/* Seeds of dropout, the loss scale and its gradients' seeds are new in each pass, and in graphs. */
static void what_a_pass_has_of_its_own_is_in_its_graph(void)
{
    struct rehearsed rehearsed = with(REHEARSED_GPT, "mixed_precision", "no");
    rehearsed.dropout = 0.25;
    train(rehearsed, F32);
    static const char *const scales[] = {"1e8", "1e9", "1e10", "1e11"};
    rehearsed = with(REHEARSED_GPT, "mixed_precision", "fp16");
    rehearsed.settings[rehearsed.n_settings++] = (struct wk_setting){"loss_scale.backoff", "0.01"};
    struct wk_setting *scale = &rehearsed.settings[rehearsed.n_settings++];
    int64_t skipped = 0;
    for (int i = 0; i < 4; i++) {
        *scale = (struct wk_setting){"loss_scale.initial", scales[i]};
        train(rehearsed, LOW);
        skipped += on_gpu.skipped;
    }
    CHECK(skipped > 0 && skipped < 4L * REHEARSED_STEPS);
}

/* After it the process has the reason, and ends without a leak of the host's. */
static void work_that_fails_fails_the_step(void)
{
    struct rehearsed rehearsed = with(REHEARSED_MLP, "strategy", "ddp");
    struct fake_options options = gpu_options(1);
    if (gpu_is_real()) {
        check_skip("a real GPU's work does not fail");
        return;
    }
    options.fail_at = 8;
    rehearsed.device = gpu_new(&options);
    CHECK(rehearsed_refusal(&rehearsed, "cudaErrorIllegalAddress") == WK_EIO);
    device_free(rehearsed.device);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(every_model_trains_in_f32),
        CHECK_CASE(every_model_trains_in_bf16_and_fp16),
        CHECK_CASE(every_optimizer_updates),
        CHECK_CASE(what_an_update_has_of_its_own_is_in_its_graph),
        CHECK_CASE(operations_of_the_program_run),
        CHECK_CASE(a_function_that_fails_ends_the_training),
        CHECK_CASE(what_the_module_lacks_is_refused),
        CHECK_CASE(a_model_may_be_cut),
        CHECK_CASE(state_may_be_in_the_hosts_memory),
        CHECK_CASE(masters_may_be_in_the_hosts_memory),
        CHECK_CASE(values_may_wait_in_the_hosts_memory),
        CHECK_CASE(windows_are_accumulated),
        CHECK_CASE(what_a_pass_has_of_its_own_is_in_its_graph),
        CHECK_CASE(work_that_fails_fails_the_step),
        {NULL, NULL},
    };
    return check_all(cases, argc, argv);
}
