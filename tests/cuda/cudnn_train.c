/* Whole trainings with attention by the fake cuDNN: plans are made when passes are laid out, and
 * run in steps, evaluations and passes that are computed again. Losses and norms are the CPU's
 * within the rounding of the type, and the same bits with every order of the streams. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/cuda/cudnn.h"
#include "libworker/device/remark.h"
#include "tests/cuda/fake/gpu.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/rehearsed.h"

static const double LOW = 2e-2; /* as fake/train.c */

enum { MOST = 32, LEAST_BYTES = 3500000, MOST_BYTES = 4000000, STEP_BYTES = 100003 };

static struct rehearsed_result on_cpu, on_gpu[2];

static double distance(double x, double wanted)
{
    return fabs(x - wanted) / fmax(fabs(wanted), 1e-6);
}

static bool same(const struct rehearsed_result *a, const struct rehearsed_result *b)
{
    return a->count == b->count && !memcmp(a->weights, b->weights, a->count * sizeof(*a->weights));
}

/* From remark `first` on: of both kinds of passes, with small launches, and of the update. */
static void graphs_are_told(const struct device *device, int first)
{
    static const char *const told[] = {"graphs of training passes: yes, a launch moves ",
                                       "graphs of the update: no, ",
                                       "graphs of other passes: yes, a launch moves "};
    for (int i = 0; i < 3; i++) {
        const char *said = device_remark_at(device, first + i);
        if (!said || strncmp(said, told[i], strlen(told[i])) != 0)
            fprintf(stderr, "remark %d is: %s\n", first + i, said ? said : "none");
        CHECK(said && !strncmp(said, told[i], strlen(told[i])));
    }
    CHECK(!device_remark_at(device, first + 3));
}

static struct cudnn_counts run_there(struct rehearsed rehearsed, uint64_t seed,
                                     struct rehearsed_result *ret)
{
    const struct fake_options options = gpu_options(seed);
    rehearsed.device = gpu_new(&options);
    cuda_device_of(rehearsed.device)->attention = ATTENTION_AUTO;
    rehearsed_run(&rehearsed, ret);
    struct cudnn_counts counts = cudnn_counted(cuda_device_of(rehearsed.device));
    const char *said[] = {device_remark_at(rehearsed.device, 0),
                          device_remark_at(rehearsed.device, 1)};
    CHECK(said[1] && strstr(said[0], "forward: cuDNN 9.19.0"));
    CHECK(strstr(said[1], "backward: cuDNN 9.19.0"));
    graphs_are_told(rehearsed.device, 2); /* and nothing else, of all steps and passes */
    device_free(rehearsed.device);
    return counts;
}

static void train(const char *precision, const char *recompute)
{
    struct rehearsed rehearsed = {
        .model = REHEARSED_GPT,
        .optimizer = REHEARSED_ADAMW,
        .clips = true,
        .settings = {{"mixed_precision", precision}, {"recompute", recompute}},
        .n_settings = 2};
    double most = 0;
    rehearsed_run(&rehearsed, &on_cpu);
    for (uint64_t seed = 0; seed < 2; seed++) {
        struct cudnn_counts counts = run_there(rehearsed, seed, &on_gpu[seed]);
        printf("   %s: %d plans, %d refused\n", precision, counts.plans, counts.refused);
        CHECK(counts.plans >= 2 && counts.refused == 0);
    }
    CHECK(same(&on_gpu[0], &on_gpu[1]));
    for (int i = 0; i < REHEARSED_STEPS; i++) {
        most = fmax(most, distance(on_gpu[0].numbers[i].loss, on_cpu.numbers[i].loss));
        most = fmax(most, distance(on_gpu[0].numbers[i].norm, on_cpu.numbers[i].norm));
    }
    printf("   losses and norms %.1e apart\n",
           fmax(most, distance(on_gpu[0].held_out, on_cpu.held_out)));
    CHECK(most <= LOW && distance(on_gpu[0].held_out, on_cpu.held_out) <= LOW);
}

static void a_model_trains(void)
{
    train("bf16", "none");
    train("fp16", "none");
}

static void blocks_are_computed_again(void)
{
    train("bf16", "blocks");
}

/* A GPU with `bytes` of memory. */
static struct device *small_gpu(size_t bytes, enum attention_choice attention)
{
    struct fake_options options = gpu_options(1);
    options.memory_bytes = bytes;
    struct device *device = gpu_new(&options);
    cuda_device_of(device)->attention = attention;
    return device;
}

/* The batch that is found trains, and twice as many samples do not. */
static int64_t found_within(size_t bytes, enum attention_choice attention, const char *values)
{
    int64_t found = 0;
    struct rehearsed rehearsed = {
        .model = REHEARSED_GPT,
        .optimizer = REHEARSED_ADAMW,
        .settings = {{"mixed_precision", "bf16"}, {"offload.activations", values}},
        .n_settings = 2,
        .finds = true,
        .batch = MOST,
        .ret_found = &found};
    rehearsed.device = small_gpu(bytes, attention);
    rehearsed_run(&rehearsed, &on_gpu[0]);
    device_free(rehearsed.device);
    printf("   %zu bytes: %lld samples\n", bytes, (long long)found);
    if (found == MOST)
        return found;
    rehearsed.device = small_gpu(bytes, attention);
    rehearsed.batch = 2 * found;
    CHECK(rehearsed_refusal(&rehearsed, " samples: ") == WK_ENOMEM);
    device_free(rehearsed.device);
    return found;
}

/* Limits within a few KiB of each other, so that some leave room for a pass and nothing else. */
static void a_batch_is_found_with_its_workspaces(void)
{
    int64_t before = 1;
    bool differs = false;
    for (size_t bytes = LEAST_BYTES; bytes <= MOST_BYTES; bytes += STEP_BYTES) {
        int64_t own = found_within(bytes, ATTENTION_OWN, "none"),
                cudnn = found_within(bytes, ATTENTION_AUTO, "none");
        CHECK(cudnn <= own && own >= before);
        differs |= cudnn < own;
        before = own;
    }
    CHECK(found_within(MOST_BYTES, ATTENTION_OWN, "host") > 0);
    CHECK(differs); /* cuDNN's workspace is 2 bytes a score of whole tiles */
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(a_model_trains),
        CHECK_CASE(blocks_are_computed_again),
        CHECK_CASE(a_batch_is_found_with_its_workspaces),
        {NULL, NULL},
    };
    CHECK(!setenv("MUSTER_CUDNN", FAKE_CUDNN, 1));
    return check_all(cases, argc, argv);
}
