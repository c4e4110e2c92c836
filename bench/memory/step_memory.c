/* Peak memory of a step against what was planned for it, in float and in bf16.
 *
 * Measured: the rise of the process's peak of resident memory (VmHWM) from before wk_prepare to the
 * third step of the GPT of TARGETS. The peak is reset before. Planned: what estimate_training says,
 * and the memory of the library of products. A process of its own finds that: the rise of resident
 * memory when it multiplies matrices of a step's shapes, which are there before.
 *
 * Prints one JSON line per figure. Fails only where nothing can be measured.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/alone.h"
#include "libworker/estimate/estimate.h"
#include "libworker/nn/random.h"
#include "libworker/step/context.h"

enum { LAYERS = 6, HEADS = 6, WIDTH = 384, CONTEXT = 256, VOCAB = 128, SAMPLES = 4, STEPS = 3 };
enum { TOKENS = SAMPLES * CONTEXT };

static const struct wk_gpt_config gpt = {LAYERS, HEADS, WIDTH, CONTEXT, VOCAB};

struct figures { /* of one type, shared with the processes that find them */
    int64_t rise, library;
    struct estimate planned;
    bool done;
};

/* Bytes of a line of /proc/self/status, such as "VmHWM:"; -1 if there is none. */
static int64_t status_bytes(const char *name)
{
    char line[256];
    long long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && kib < 0 && fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, strlen(name)) == 0)
            (void)sscanf(line + strlen(name), "%lld", &kib);
    }
    if (file)
        (void)fclose(file);
    return kib < 0 ? -1 : kib * 1024;
}

/* Let VmHWM begin again at what is resident now (proc(5), clear_refs). */
static bool reset_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    bool done = file && fputs("5", file) >= 0;
    return file && fclose(file) == 0 && done;
}

/* Not with zeros: a compiler makes that calloc, which touches nothing. */
static void *filled(size_t bytes)
{
    unsigned char *memory = malloc(bytes);
    if (memory)
        memset(memory, 1, bytes);
    return memory;
}

struct product {
    bool a_turned, b_turned;
    int64_t m, n, k;
};

/* A linear layer [in, out]: forward, the input's gradient, the weight's. */
static void multiply_layer(struct kernel_room *room, void *const memory[3], int64_t in, int64_t out)
{
    const struct kernel_table *kernels = kernel_cpu();
    const struct product products[] = {{false, false, TOKENS, out, in},
                                       {false, true, TOKENS, in, out},
                                       {true, false, in, out, TOKENS}};
    for (int i = 0; i < 3; i++) {
        const struct product *p = &products[i];
        int64_t lda = p->a_turned ? p->m : p->k, ldb = p->b_turned ? p->k : p->n;
        struct kernel_gemm whole = {.transpose_a = p->a_turned,
                                    .transpose_b = p->b_turned,
                                    .m = p->m,
                                    .n = p->n,
                                    .k = p->k,
                                    .alpha = 1,
                                    .a = memory[0],
                                    .b = memory[1],
                                    .c = memory[2],
                                    .lda = lda,
                                    .ldb = ldb,
                                    .ldc = p->n};
        struct kernel_gemm_low low = {p->a_turned, p->b_turned, false,     WK_BF16,   p->m,
                                      p->n,        p->k,        memory[0], memory[1], memory[2],
                                      lda,         ldb,         p->n};
        if (room)
            kernels->gemm_low(room, &low);
        else
            kernels->gemm(&whole);
    }
}

static bool measure_library(bool bf16, struct figures *ret)
{
    size_t bytes = (size_t)TOKENS * 4 * WIDTH * sizeof(float);
    void *memory[3] = {filled(bytes), filled(bytes), filled(bytes)};
    struct kernel_room *room = bf16 ? kernel_cpu()->room_new() : NULL;
    if (!memory[0] || !memory[1] || !memory[2] || (bf16 && !room))
        return false;
    int64_t before = status_bytes("VmRSS:");
    multiply_layer(room, memory, WIDTH, 3 * WIDTH);
    multiply_layer(room, memory, WIDTH, WIDTH);
    multiply_layer(room, memory, WIDTH, 4 * WIDTH);
    multiply_layer(room, memory, 4 * WIDTH, WIDTH);
    multiply_layer(room, memory, WIDTH, VOCAB);
    ret->library = status_bytes("VmRSS:") - before;
    return before > 0;
}

static int open_context(bool bf16, struct wk_context **ret)
{
    const struct environment environment = {alone_environment, NULL};
    const struct context_seams seams = {.environment = &environment, .quiet = true};
    const struct wk_setting settings[] = {{"mixed_precision", bf16 ? "bf16" : "no"}};
    return context_open(&(struct wk_options){.settings = settings, .n_settings = 1}, &seams, ret);
}

static bool train(struct wk_model *model, struct wk_optimizer *optimizer)
{
    double loss = NAN;
    int32_t *tokens = malloc((TOKENS + 1) * sizeof(*tokens));
    for (int i = 0; tokens && i <= TOKENS; i++)
        tokens[i] = (int32_t)(random_bits(7, (uint64_t)i) % VOCAB);
    for (int i = 0; tokens && i < STEPS; i++) {
        struct wk_batch batch = {
            .tokens = tokens, .targets = tokens + 1, .samples = SAMPLES, .length = CONTEXT};
        wk_forward(model, &batch, &loss);
        wk_backward(model);
        wk_clip_grad_norm(model, 1, NULL);
        wk_step(optimizer);
    }
    free(tokens);
    return isfinite(loss);
}

static bool measure_steps(bool bf16, struct figures *ret)
{
    static const struct wk_adamw_options adamw = {3e-4, 0.9, 0.95, 1e-8, 0.1};
    struct wk_context *ctx;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    if (open_context(bf16, &ctx) || wk_gpt_new(&gpt, &model) || wk_adamw_new(&adamw, &optimizer))
        return false;
    struct estimate_options options = {
        .world = 1, .samples = SAMPLES, .compute = bf16 ? WK_BF16 : WK_F32, .optimizer = optimizer};
    if (estimate_training(model, &options, &ret->planned, NULL) || !reset_peak())
        return false;
    int64_t before = status_bytes("VmHWM:");
    if (wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(optimizer)) || !train(model, optimizer))
        return false;
    ret->rise = status_bytes("VmHWM:") - before;
    return before > 0;
}

/* In a process of its own, so that no earlier memory is used again. */
static bool apart(bool (*measure)(bool bf16, struct figures *ret), bool bf16,
                  struct figures *shared)
{
    int status = 0;
    shared->done = false;
    pid_t child = fork();
    if (child == 0) {
        shared->done = measure(bf16, shared);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 && shared->done;
}

static bool report_memory(bool bf16, struct figures *shared)
{
    enum { MIB = 1 << 20 };
    if (!apart(measure_library, bf16, shared) || !apart(measure_steps, bf16, shared))
        return false;
    double planned = (double)(shared->planned.total + shared->library);
    fprintf(stderr,
            "%s: rise %.2f MiB; planned: state %.2f, activations %.2f, batch %.3f, library %.2f\n",
            bf16 ? "bf16" : "f32", (double)shared->rise / MIB,
            (double)(shared->planned.total - shared->planned.activations - shared->planned.batch) /
                MIB,
            (double)shared->planned.activations / MIB, (double)shared->planned.batch / MIB,
            (double)shared->library / MIB);
    printf("{\"bench\":\"memory\",\"metric\":\"peak of a step %s\",\"ours\":%.2f,\"peer\":%.2f,"
           "\"peer_name\":\"planned, with the library of products\",\"ratio\":%.4f,"
           "\"unit\":\"MiB\",\"target\":1.02}\n",
           bf16 ? "bf16" : "f32", (double)shared->rise / MIB, planned / MIB,
           (double)shared->rise / planned);
    return true;
}

int main(void)
{
    struct figures *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool good = shared != MAP_FAILED && report_memory(false, shared) && report_memory(true, shared);
    if (!good)
        fprintf(stderr, "bench_memory_step: nothing could be measured here\n");
    return good ? 0 : 1;
}
