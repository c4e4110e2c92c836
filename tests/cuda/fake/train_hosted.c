/* Whole trainings on the device of the module, over a runtime without a GPU, with the functions of
 * the CPU as its kernels: memory, streams, events and copies. Bits are the CPU's, whatever order
 * the streams run in; the host touches no device memory, and all is freed. */
#include <stdio.h>
#include <string.h>

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

static void train(struct rehearsed rehearsed)
{
    rehearsed_run(&rehearsed, &on_cpu);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const struct fake_options options = gpu_options(seed);
        rehearsed.device = gpu_hosted(&options);
        rehearsed_run(&rehearsed, &on_gpu);
        device_free(rehearsed.device);
        CHECK(same(&on_cpu, &on_gpu));
    }
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

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(every_model_trains_in_every_precision),
        CHECK_CASE(values_may_wait_in_the_hosts_memory),
        CHECK_CASE(every_optimizer_updates),
        CHECK_CASE(a_model_may_be_cut),
        CHECK_CASE(waits_in_the_middle_of_a_step_change_nothing),
        CHECK_CASE(a_gpu_that_is_full_is_an_error),
        {NULL, NULL},
    };
    return check_all(cases, argc, argv);
}
