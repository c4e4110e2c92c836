/* Whole trainings on the device of the module, over a runtime without a GPU, with the functions of
 * the CPU as its kernels: memory, streams, events and copies. Bits are the CPU's, whatever order
 * the streams run in; the host touches no device memory, and all is freed. */
#include <stdio.h>
#include <string.h>

#include "libworker/device/remark.h"
#include "tests/cuda/fake/gpu.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/rehearsed.h"

enum { SEEDS = 4 };

static struct rehearsed_result on_cpu, on_gpu;

static bool same(const struct rehearsed_result *a, const struct rehearsed_result *b)
{
    for (int i = 0; i < REHEARSED_STEPS; i++) {
        if (memcmp(&a->numbers[i].loss, &b->numbers[i].loss, sizeof(double)) ||
            memcmp(&a->numbers[i].norm, &b->numbers[i].norm, sizeof(double)))
            return false;
    }
    return a->skipped == b->skipped && a->count == b->count &&
           !memcmp(&a->held_out, &b->held_out, sizeof(a->held_out)) &&
           !memcmp(a->weights, b->weights, a->count * sizeof(*a->weights));
}

static void train_seeds(struct rehearsed rehearsed, uint64_t seeds)
{
    rehearsed_run(&rehearsed, &on_cpu);
    for (uint64_t seed = 0; seed < seeds; seed++) {
        const struct fake_options options = gpu_options(seed);
        rehearsed.device = gpu_hosted(&options);
        rehearsed_run(&rehearsed, &on_gpu);
        device_free(rehearsed.device);
        CHECK(same(&on_cpu, &on_gpu));
    }
}

static void train(struct rehearsed rehearsed)
{
    train_seeds(rehearsed, SEEDS);
}

static struct rehearsed with(const char *name, const char *value)
{
    return (struct rehearsed){
        .optimizer = REHEARSED_ADAMW, .clips = true, .settings = {{name, value}}, .n_settings = 1};
}

static void every_model_trains_in_every_precision(void)
{
    static const char *const precisions[] = {"no", "bf16", "fp16"};
    for (int model = 0; model < REHEARSED_MODELS; model++)
        for (int p = 0; p < 3; p++) {
            struct rehearsed rehearsed = with("mixed_precision", precisions[p]);
            rehearsed.model = (enum rehearsed_model)model;
            train(rehearsed);
        }
}

/* Batches of which some values are of a page and more. */
static void values_may_wait_in_the_hosts_memory(void)
{
    for (int model = 0; model < REHEARSED_MODELS; model++) {
        struct rehearsed rehearsed = with("offload.activations", "host");
        rehearsed.model = (enum rehearsed_model)model;
        rehearsed.batch = 16;
        train(rehearsed);
    }
}

static void every_optimizer_updates(void)
{
    for (int o = 0; o < REHEARSED_OPTIMIZERS; o++) {
        struct rehearsed rehearsed = with("strategy", "ddp");
        rehearsed.optimizer = (enum rehearsed_optimizer)o;
        train(rehearsed);
    }
}

static void a_model_may_be_cut(void)
{
    train(with("strategy", "zero1"));
    train(with("strategy", "zero2"));
    train(with("strategy", "fsdp"));
    train(with("ddp.hook", "bf16"));
}

/* Its blocks take turns in memory that is mapped at several addresses. */
static void blocks_of_a_cut_model_take_turns(void)
{
    static const char *const prefetches[] = {"0", "1", "4"};
    for (int p = 0; p < 3; p++)
        for (int type = 0; type < 3; type++) {
            struct rehearsed rehearsed = with("strategy", "fsdp");
            rehearsed.model = p == 1 ? REHEARSED_LLAMA : REHEARSED_GPT;
            rehearsed.layers = 3;
            rehearsed.between = true;
            rehearsed.settings[rehearsed.n_settings++] =
                (struct wk_setting){"fsdp.prefetch", prefetches[p]};
            if (type)
                rehearsed.settings[rehearsed.n_settings++] =
                    (struct wk_setting){"mixed_precision", "bf16"};
            if (type > 1)
                rehearsed.settings[rehearsed.n_settings++] =
                    (struct wk_setting){"low_gradients", "true"};
            train_seeds(rehearsed, 2);
        }
}

/* The same training where the driver maps nothing, with one sentence about it. */
static void a_driver_that_cannot_map_is_enough(void)
{
    struct rehearsed rehearsed = with("strategy", "fsdp");
    struct fake_options options = gpu_options(1);
    int sentences = 0;
    rehearsed.layers = 4;
    rehearsed.between = true;
    rehearsed_run(&rehearsed, &on_cpu);
    options.unmapped = true;
    rehearsed.device = gpu_hosted(&options);
    rehearsed_run(&rehearsed, &on_gpu);
    for (int i = 0; device_remark_at(rehearsed.device, i); i++)
        sentences += strstr(device_remark_at(rehearsed.device, i), "cannot map memory") != NULL;
    device_free(rehearsed.device);
    CHECK(same(&on_cpu, &on_gpu) && sentences == 1);
}

static void waits_in_the_middle_of_a_step_change_nothing(void)
{
    struct rehearsed rehearsed = with("gradient_accumulation_steps", "2");
    rehearsed.asks = true;
    train(rehearsed);
}

/* Wherever it is noticed: nothing leaks, and the sentence is about memory. */
static void a_gpu_that_is_full_is_an_error(void)
{
    struct rehearsed rehearsed = with("offload.activations", "host");
    long allocations = 0;
    rehearsed.batch = 16;
    for (size_t bytes = 1 << 16; bytes < 3 << 19; bytes += 1 << 16) {
        struct fake_options options = gpu_options(bytes);
        options.memory_bytes = (1 << 20) + bytes / 16;
        rehearsed.device = gpu_hosted(&options);
        CHECK(rehearsed_refusal(&rehearsed, "memory") == WK_ENOMEM);
        allocations += fake_counted().allocations;
        device_free(rehearsed.device);
    }
    CHECK(allocations > 0);
}

/* Each allocation, stream and event up to the first pass once. */
static void each_piece_may_be_the_one_too_many(void)
{
    struct rehearsed rehearsed = with("strategy", "fsdp");
    struct fake_options options = gpu_options(1);
    rehearsed.layers = 2;
    rehearsed.device = gpu_hosted(&options);
    rehearsed_run(&rehearsed, &on_gpu);
    long all = fake_counted().allocations, refused = 0;
    device_free(rehearsed.device);
    for (long at = 1; at <= all; at++) {
        options.scarce_at = at;
        rehearsed.device = gpu_hosted(&options);
        refused += rehearsed_try(&rehearsed) == WK_ENOMEM;
        device_free(rehearsed.device);
    }
    CHECK(refused > 5);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(every_model_trains_in_every_precision),
        CHECK_CASE(values_may_wait_in_the_hosts_memory),
        CHECK_CASE(every_optimizer_updates),
        CHECK_CASE(a_model_may_be_cut),
        CHECK_CASE(blocks_of_a_cut_model_take_turns),
        CHECK_CASE(a_driver_that_cannot_map_is_enough),
        CHECK_CASE(each_piece_may_be_the_one_too_many),
        CHECK_CASE(waits_in_the_middle_of_a_step_change_nothing),
        CHECK_CASE(a_gpu_that_is_full_is_an_error),
        {NULL, NULL},
    };
    return check_all(cases, argc, argv);
}
