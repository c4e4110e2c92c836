/* Whole trainings on the rehearsal device: every launch between a batch and an optimizer's state
 * touches what it declares, is ordered by queues and events, and the host reads nothing of it; and
 * losses, norms and weights are the CPU's bits, whatever order the device runs its work in. */
#include <stdio.h>
#include <string.h>

#include "libworker/device/cpu.h"
#include "libworker/device/reach.h"
#include "libworker/device/rehearsal/rehearsal.h"
#include "libworker/device/numbers.h"
#include "libworker/graph/graph_model.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/rehearsed.h"

static struct rehearsed_result on_cpu, on_device;

static bool same(const struct rehearsed_result *a, const struct rehearsed_result *b)
{
    for (int i = 0; i < REHEARSED_STEPS; i++) {
        const struct wk_step_numbers *x = &a->numbers[i], *y = &b->numbers[i];
        if (memcmp(&x->loss, &y->loss, sizeof(x->loss)) || memcmp(&x->norm, &y->norm, 8) ||
            x->finite != y->finite || x->skipped != y->skipped)
            return false;
    }
    return a->skipped == b->skipped && a->count == b->count &&
           !memcmp(&a->held_out, &b->held_out, sizeof(a->held_out)) &&
           !memcmp(a->weights, b->weights, a->count * sizeof(*a->weights));
}

/* On the device, beside the last run on the CPU. */
static void compare(struct rehearsed rehearsed, int seeds)
{
    for (int seed = 0; seed < seeds; seed++) {
        struct rehearsal_options options = {.seed = (uint64_t)seed};
        CHECK(rehearsal_new(&options, &rehearsed.device, NULL) == 0);
        rehearsed_run(&rehearsed, &on_device);
        device_free(rehearsed.device);
        if (!same(&on_cpu, &on_device))
            fprintf(stderr, "model %d, optimizer %d, %s, seed %d: loss %.17g, not %.17g\n",
                    (int)rehearsed.model, (int)rehearsed.optimizer, rehearsed.settings[0].value,
                    seed, on_device.numbers[REHEARSED_STEPS - 1].loss,
                    on_cpu.numbers[REHEARSED_STEPS - 1].loss);
        CHECK(same(&on_cpu, &on_device));
    }
}

static void rehearse(struct rehearsed rehearsed, int seeds)
{
    rehearsed_run(&rehearsed, &on_cpu);
    CHECK(on_cpu.skipped > 0 || on_cpu.numbers[REHEARSED_STEPS - 1].loss > 0);
    compare(rehearsed, seeds);
}

static void set(struct rehearsed *rehearsed, const char *name, const char *value)
{
    rehearsed->settings[rehearsed->n_settings++] = (struct wk_setting){name, value};
}

static void every_model_trains(void)
{
    static const char *const precisions[] = {"no", "bf16", "fp16"};
    for (int model = 0; model < REHEARSED_MODELS; model++)
        for (int p = 0; p < 3; p++) {
            struct rehearsed rehearsed = {
                .model = (enum rehearsed_model)model, .optimizer = REHEARSED_ADAMW, .clips = true};
            set(&rehearsed, "mixed_precision", precisions[p]);
            rehearse(rehearsed, 2);
        }
}

static void every_optimizer_updates(void)
{
    for (int o = 0; o < REHEARSED_OPTIMIZERS; o++) {
        struct rehearsed rehearsed = {.model = o % 2 ? REHEARSED_GPT : REHEARSED_LLAMA,
                                      .optimizer = (enum rehearsed_optimizer)o};
        set(&rehearsed, "mixed_precision", o % 2 ? "no" : "bf16");
        rehearse(rehearsed, 1);
        set(&rehearsed, "offload.state", "host");
        rehearse(rehearsed, 2);
        if (o % 2)
            continue;
        set(&rehearsed, "offload.masters", "host");
        rehearse(rehearsed, 2);
        rehearsed.settings[1].value = "none";
        rehearse(rehearsed, 1);
    }
}

/* Stochastic rounding rounds the copies of a group at rate 0 again in each step. Other rounding
 * leaves them. */
static void masters_that_rest_are_rounded(void)
{
    static const char *const strategies[] = {"ddp", "zero1", "fsdp"};
    for (int s = 0; s < 3; s++) {
        struct rehearsed rehearsed = {
            .model = REHEARSED_GPT, .optimizer = REHEARSED_ADAMW, .resting = "*.weight"};
        set(&rehearsed, "strategy", strategies[s]);
        set(&rehearsed, "mixed_precision", "bf16");
        set(&rehearsed, "offload.masters", "host");
        rehearse(rehearsed, 2);
        set(&rehearsed, "offload.state", "host");
        set(&rehearsed, "stochastic_rounding", "true");
        rehearse(rehearsed, 2);
    }
}

/* What the last pass had of both memories, and the pieces that moved in all passes. */
static size_t region_bytes, host_bytes;
static int offloaded;

static void look_at_plan(struct wk_model *model)
{
    const struct plan *plan = graph_model_of(model)->waiting;
    region_bytes = plan->region_bytes;
    host_bytes = plan->host_bytes;
    offloaded += plan->n_offloaded;
    CHECK(!(plan->again_flop > 0));
}

/* Also in windows of two passes, and within the bytes that are enough then. */
static void values_may_wait_in_the_hosts_memory(void)
{
    for (int model = 0; model < REHEARSED_MODELS; model++)
        for (int way = 0; way < 2; way++) {
            struct rehearsed rehearsed = {.model = (enum rehearsed_model)model,
                                          .optimizer = REHEARSED_ADAMW,
                                          .clips = true,
                                          .batch = 8,
                                          .passed = look_at_plan};
            set(&rehearsed, "mixed_precision", way ? "bf16" : "no");
            set(&rehearsed, "gradient_accumulation_steps", way ? "2" : "1");
            rehearse(rehearsed, 1);
            size_t without = region_bytes;
            CHECK(!offloaded && !host_bytes);
            set(&rehearsed, "offload.activations", "host");
            compare(rehearsed, 2);
            CHECK(way || (offloaded && region_bytes < without && host_bytes));
            char budget[32];
            snprintf(budget, sizeof(budget), "%zu", region_bytes);
            set(&rehearsed, "recompute", budget);
            compare(rehearsed, 2);
            offloaded = 0;
        }
}

enum { SMALL = 100, SMALL_STEPS = 5 };

/* Steps of an optimizer whose state fits in one piece, one after another: its state at the end. */
static void step_alone(struct device *device, float ret[2 * SMALL])
{
    const struct wk_adamw_options options = {1e-2, 0.9, 0.95, 1e-8, 0.1};
    const struct param param = {
        .name = "w", .dims = 1, .shape = {SMALL}, .count = SMALL, .decay = true};
    float ones[SMALL];
    void *params = NULL, *grads = NULL;
    struct queue *queue, *home;
    struct wk_optimizer *o;
    for (int i = 0; i < SMALL; i++)
        ones[i] = 1 + (float)i;
    CHECK(queue_new(device, &queue, NULL) == 0 && wk_adamw_new(&options, &o) == 0);
    CHECK(device_zeros_new(queue, sizeof(ones), &params, NULL) == 0);
    CHECK(device_zeros_new(queue, sizeof(ones), &grads, NULL) == 0);
    CHECK(queue_write(queue, grads, ones, sizeof(ones), NULL) == 0);
    optimizer_move(o, queue);
    optimizer_set_offload(o, &(struct optimizer_offload){.host = true});
    CHECK(optimizer_bind(o, &param, 1, 0, SMALL, NULL) == 0);
    CHECK((o->host.in != NULL) == !device_host_reads(device));
    for (int i = 0; i < SMALL_STEPS; i++)
        CHECK(optimizer_step(o, params, grads, 1, NULL) == 0);
    CHECK(optimizer_state_home(o, &home, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(reach_read(home, ret + i * SMALL, o->state[i], sizeof(ones), NULL) == 0);
    wk_optimizer_free(o);
    device_memory_free(device, params, sizeof(ones));
    device_memory_free(device, grads, sizeof(ones));
    queue_free(queue);
    device_free(device);
}

static void a_step_follows_the_copies_of_the_one_before(void)
{
    static float cpu[2 * SMALL], there[2 * SMALL];
    struct device *device;
    CHECK(device_cpu_new(&device, NULL) == 0);
    step_alone(device, cpu);
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct rehearsal_options options = {.seed = seed};
        CHECK(rehearsal_new(&options, &device, NULL) == 0);
        step_alone(device, there);
        CHECK(!memcmp(cpu, there, sizeof(cpu)));
    }
}

static void windows_are_accumulated_and_clipped(void)
{
    for (int way = 0; way < 4; way++) {
        struct rehearsed rehearsed = {.model = REHEARSED_MLP,
                                      .optimizer = REHEARSED_ADAMW,
                                      .clips = !(way & 2),
                                      .asks = way & 1};
        set(&rehearsed, "mixed_precision", way & 2 ? "bf16" : "no");
        set(&rehearsed, "gradient_accumulation_steps", "2");
        set(&rehearsed, "clip_grad_value", "0.01");
        if (way & 2) {
            set(&rehearsed, "clip_grad_norm", "0.05");
            set(&rehearsed, "stochastic_rounding", "true");
        }
        rehearse(rehearsed, 2);
    }
}

static void an_overflow_skips_the_update(void)
{
    struct rehearsed rehearsed = {.model = REHEARSED_GPT, .optimizer = REHEARSED_MUON};
    set(&rehearsed, "mixed_precision", "fp16");
    set(&rehearsed, "loss_scale.initial", "1e9");
    rehearse(rehearsed, 2);
    CHECK(on_cpu.skipped > 0 && on_cpu.numbers[0].skipped && !on_cpu.numbers[0].finite);
}

/* How often the host waited since the last step. The first step makes memory. */
static int waits;
static bool counts;

int __real_numbers_wait(struct numbers *numbers, const double **ret_values, struct error *err);
int __wrap_numbers_wait(struct numbers *numbers, const double **ret_values, struct error *err);
int __wrap_numbers_wait(struct numbers *numbers, const double **ret_values, struct error *err)
{
    waits++;
    return __real_numbers_wait(numbers, ret_values, err);
}

int __real_queue_finish(struct queue *queue, struct error *err);
int __wrap_queue_finish(struct queue *queue, struct error *err);
int __wrap_queue_finish(struct queue *queue, struct error *err)
{
    waits++;
    return __real_queue_finish(queue, err);
}

int __real_queue_read(struct queue *queue, void *to, const void *from, size_t bytes,
                      struct error *err);
int __wrap_queue_read(struct queue *queue, void *to, const void *from, size_t bytes,
                      struct error *err);
int __wrap_queue_read(struct queue *queue, void *to, const void *from, size_t bytes,
                      struct error *err)
{
    waits++;
    return __real_queue_read(queue, to, from, bytes, err);
}

static void check_waits(void)
{
    CHECK(!counts || waits == 1);
    counts = true;
    waits = 0;
}

/* A step that saves does not wait for the copy either. */
static void a_step_waits_once(bool saves)
{
    struct tmpdir dir = tmpdir_make();
    struct rehearsed rehearsed = {.model = REHEARSED_GPT,
                                  .optimizer = REHEARSED_ADAMW,
                                  .clips = true,
                                  .stepped = check_waits};
    set(&rehearsed, "mixed_precision", "bf16");
    if (saves) {
        set(&rehearsed, "checkpoint.dir", dir.path);
        set(&rehearsed, "checkpoint.every", "1 steps");
    }
    struct rehearsal_options options = {.seed = 1};
    counts = false;
    CHECK(rehearsal_new(&options, &rehearsed.device, NULL) == 0);
    rehearsed_run(&rehearsed, &on_device);
    device_free(rehearsed.device);
    CHECK(counts);
    tmpdir_remove(&dir);
}

static void weights_are_loaded_and_batches_found(void)
{
    char weights[300];
    struct tmpdir dir = tmpdir_make();
    struct rehearsed rehearsed = {.model = REHEARSED_LLAMA, .optimizer = REHEARSED_ADAFACTOR};
    snprintf(weights, sizeof(weights), "%s/weights", dir.path);
    set(&rehearsed, "mixed_precision", "bf16");
    rehearsed.saves = weights;
    rehearsed_run(&rehearsed, &on_cpu);
    rehearsed.loads = weights;
    rehearsed.saves = NULL;
    rehearsed.finds = true;
    rehearse(rehearsed, 2);
    rehearsed.optimizer = REHEARSED_ADAMW;
    set(&rehearsed, "offload.masters", "host");
    rehearse(rehearsed, 2);
    set(&rehearsed, "one_rank_reads", "true");
    set(&rehearsed, "strategy", "fsdp");
    rehearse(rehearsed, 2);
    tmpdir_remove(&dir);
}

/* And all memory of the device is freed. */
static void what_needs_memory_of_the_host_is_refused(void)
{
    struct tmpdir dir = tmpdir_make();
    struct rehearsal_options options = {.seed = 1};
    struct rehearsed rehearsed = {.optimizer = REHEARSED_ADAMW};
    struct rehearsed own = rehearsed;
    set(&rehearsed, "offload.dir", dir.path);
    CHECK(rehearsal_new(&options, &rehearsed.device, NULL) == 0);
    CHECK(rehearsed_refusal(&rehearsed, "offloaded state is in the host's memory, which device "
                                        "rehearsal does not use") == WK_EUNSUPPORTED);
    own.custom = true;
    own.device = rehearsed.device;
    CHECK(rehearsed_refusal(&own, "the program's own passes compute on cpu, and not on device "
                                  "rehearsal: set `device`, or declare them by wk_passes_on") ==
          WK_EUNSUPPORTED);
    device_free(rehearsed.device);
    tmpdir_remove(&dir);
}

/* A device without memory for all of it, wherever that is noticed. */
static void fill_up(struct rehearsed rehearsed, size_t most)
{
    for (size_t bytes = 0; bytes < most; bytes += 4 << 10) {
        struct rehearsal_options options = {.seed = 1, .memory_bytes = bytes + 1};
        CHECK(rehearsal_new(&options, &rehearsed.device, NULL) == 0);
        CHECK(rehearsed_refusal(&rehearsed, "memory") == WK_ENOMEM);
        device_free(rehearsed.device);
    }
}

static void a_device_that_is_full_is_an_error(void)
{
    struct rehearsed rehearsed = {.optimizer = REHEARSED_ADAMW};
    set(&rehearsed, "mixed_precision", "bf16");
    fill_up(rehearsed, 64 << 10);
    set(&rehearsed, "offload.masters", "host");
    fill_up(rehearsed, 32 << 10);
    set(&rehearsed, "strategy", "fsdp");
    fill_up(rehearsed, 32 << 10);
}

/* A device with little pinned memory: which setting asked for it, and what helps. */
static void too_little_pinned_memory_is_told(void)
{
    struct rehearsed rehearsed = {.optimizer = REHEARSED_ADAMW};
    struct rehearsal_options options = {.seed = 1, .memory_bytes = 8 << 10};
    set(&rehearsed, "mixed_precision", "bf16");
    set(&rehearsed, "offload.masters", "host");
    CHECK(rehearsal_new(&options, &rehearsed.device, NULL) == 0);
    CHECK(rehearsed_refusal(&rehearsed, "offload.masters: no ") == WK_ENOMEM);
    device_free(rehearsed.device);
}

int main(void)
{
    every_model_trains();
    every_optimizer_updates();
    masters_that_rest_are_rounded();
    values_may_wait_in_the_hosts_memory();
    a_step_follows_the_copies_of_the_one_before();
    windows_are_accumulated_and_clipped();
    an_overflow_skips_the_update();
    a_step_waits_once(false);
    a_step_waits_once(true);
    weights_are_loaded_and_batches_found();
    what_needs_memory_of_the_host_is_refused();
    a_device_that_is_full_is_an_error();
    too_little_pinned_memory_is_told();
    printf("ok trainings_on_the_rehearsal_device_are_the_cpus\n");
    return 0;
}
