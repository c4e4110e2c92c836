/* Training throughput of one rank on one core: the 10.8M-parameter GPT of TARGETS in float and in
 * bf16 (mixed_precision of the training loop, which all steps go through), rounds alternating,
 * beside the roof that the same run's sgemm sets (the time of its matrix products alone at that
 * speed). Times are of the thread's processor, so other work on the machine disturbs little.
 *
 * Usage: bench_train_kernel [rounds | FILE [bf16]]. Prints one JSON line per figure; with a FILE it
 * serves run.py: for every line on standard input it takes one step in float, or bf16, and prints
 * its milliseconds and loss. Fails only when a loss is not finite.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/alone.h"
#include "libworker/kernel/cpu/blas.h"
#include "libworker/nn/model.h"
#include "libworker/nn/random.h"
#include "libworker/step/context.h"

enum { LAYERS = 6, HEADS = 6, WIDTH = 384, CONTEXT = 256, VOCAB = 128, SAMPLES = 4 };
enum { TOKENS = SAMPLES * CONTEXT, ROUNDS = 15, ROUNDS_MAX = 1000, GEMM_ROUNDS = 10 };

enum part { FORWARD, BACKWARD, CLIP, UPDATE, PARTS };

struct bench {
    struct wk_context *ctx;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    int32_t tokens[TOKENS + 1];
};

static int bench_open(struct bench *b, bool bf16)
{
    const struct environment environment = {alone_environment, NULL};
    const struct context_seams seams = {.environment = &environment, .quiet = true};
    const struct wk_setting settings[] = {{"mixed_precision", bf16 ? "bf16" : "no"}, {"seed", "1"}};
    struct wk_options options = {.settings = settings, .n_settings = 2};
    return context_open(&options, &seams, &b->ctx);
}

static int bench_init(struct bench *b, bool bf16)
{
    static const struct wk_gpt_config config = {LAYERS, HEADS, WIDTH, CONTEXT, VOCAB};
    static const struct wk_adamw_options adamw = {3e-4, 0.9, 0.95, 1e-8, 0.1};
    if (bench_open(b, bf16) || wk_gpt_new(&config, &b->model) ||
        wk_adamw_new(&adamw, &b->optimizer))
        return -1;
    for (int i = 0; i <= TOKENS; i++)
        b->tokens[i] = (int32_t)(random_bits(7, (uint64_t)i) % VOCAB);
    return wk_prepare_all(b->ctx, WK_OBJECT(b->model), WK_OBJECT(b->optimizer));
}

static void bench_fini(struct bench *b)
{
    (void)wk_close(b->ctx);
    wk_optimizer_free(b->optimizer);
    wk_model_free(b->model);
}

/* Seconds of each part; returns the loss. */
static double train_step(struct bench *b, double ret_s[PARTS])
{
    struct wk_batch batch = {
        .tokens = b->tokens, .targets = b->tokens + 1, .samples = SAMPLES, .length = CONTEXT};
    double loss = NAN, at[PARTS + 1];
    at[FORWARD] = alone_s();
    wk_forward(b->model, &batch, &loss);
    at[BACKWARD] = alone_s();
    wk_backward(b->model);
    at[CLIP] = alone_s();
    wk_clip_grad_norm(b->model, 1, NULL);
    at[UPDATE] = alone_s();
    wk_step(b->optimizer);
    at[PARTS] = alone_s();
    for (int i = 0; i < PARTS; i++)
        ret_s[i] = at[i + 1] - at[i];
    return loss;
}

/* FLOP/s of the model's largest product, on numbers that are not zeros. */
static double gemm_rate(const struct kernel_table *kernels)
{
    enum { M = TOKENS, N = 4 * WIDTH, K = WIDTH };
    float *a = malloc(M * K * sizeof(float)), *c = malloc(M * N * sizeof(float));
    float *w = malloc(K * N * sizeof(float));
    double best_s = INFINITY;
    for (int i = 0; i < M * K; i++)
        a[i] = (float)random_uniform(1, (uint64_t)i);
    for (int i = 0; i < K * N; i++)
        w[i] = (float)random_uniform(2, (uint64_t)i);
    for (int i = 0; i < GEMM_ROUNDS; i++) {
        double start_s = alone_s();
        kernels->gemm(&(struct kernel_gemm){.m = M,
                                            .n = N,
                                            .k = K,
                                            .alpha = 1,
                                            .a = a,
                                            .lda = K,
                                            .b = w,
                                            .ldb = N,
                                            .c = c,
                                            .ldc = N});
        best_s = fmin(best_s, alone_s() - start_s);
    }
    free(a);
    free(c);
    free(w);
    return 2.0 * M * N * K / best_s;
}

/* FLOP of a step's matrix products: six per weight and token, and causal attention's half square.
 */
static double step_flop(void)
{
    double weights = 12.0 * WIDTH * WIDTH * LAYERS + (double)VOCAB * WIDTH;
    double attention = 12.0 * LAYERS * WIDTH * CONTEXT / 2;
    return TOKENS * (6 * weights + attention);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof(*values), by_value);
    return values[n / 2];
}

struct timings {
    double total_s[ROUNDS_MAX], part_s[PARTS][ROUNDS_MAX];
};

static void note(struct timings *t, int round, const double part_s[PARTS])
{
    t->total_s[round] = 0;
    for (int p = 0; p < PARTS; p++) {
        t->part_s[p][round] = part_s[p];
        t->total_s[round] += part_s[p];
    }
}

static void report_parts(struct timings *t, int rounds, const char *type)
{
    static const char *const names[PARTS] = {"forward", "backward", "clip", "update"};
    for (int i = 0; i < PARTS; i++)
        printf("{\"bench\":\"train_kernel\",\"metric\":\"%s_%s\",\"ours\":%.2f,\"unit\":\"ms\"}\n",
               type, names[i], median(t->part_s[i], rounds) * 1e3);
}

static void report(struct timings *f32, struct timings *bf16, int rounds, double flop_rate)
{
    double tokens_per_s = TOKENS / median(f32->total_s, rounds);
    double low_per_s = TOKENS / median(bf16->total_s, rounds);
    double roof = TOKENS * flop_rate / step_flop();
    printf("{\"bench\":\"train_kernel\",\"metric\":\"share_of_gemm_roof\",\"ours\":%.0f,"
           "\"peer\":%.0f,\"peer_name\":\"products alone at %.0f GFLOP/s, %s\",\"ratio\":%.2f,"
           "\"unit\":\"token/s\",\"target\":0.9}\n",
           tokens_per_s, roof, flop_rate * 1e-9, blas_core() ? blas_core() : "own product",
           tokens_per_s / roof);
    printf("{\"bench\":\"train_kernel\",\"metric\":\"bf16_vs_f32\",\"ours\":%.0f,\"peer\":%.0f,"
           "\"peer_name\":\"own f32\",\"ratio\":%.2f,\"unit\":\"token/s\",\"target\":1.7}\n",
           low_per_s, tokens_per_s, low_per_s / tokens_per_s);
    report_parts(f32, rounds, "f32");
    report_parts(bf16, rounds, "bf16");
}

static int run(int rounds)
{
    static struct timings f32, bf16;
    struct bench a = {0}, b = {0};
    double step_s[PARTS], losses[2] = {0, 0};
    if (bench_init(&a, false) || bench_init(&b, true)) {
        fprintf(stderr, "bench_train_kernel: no memory\n");
        return 1;
    }
    for (int i = -1; i < rounds; i++) { /* the first touches all memory once */
        losses[0] = train_step(&a, step_s);
        if (i >= 0)
            note(&f32, i, step_s);
        losses[1] = train_step(&b, step_s);
        if (i >= 0)
            note(&bf16, i, step_s);
    }
    fprintf(stderr, "%zu parameters, %s, loss %.3f, in bf16 %.3f\n", a.model->count,
            a.model->kernels->name, losses[0], losses[1]);
    bool good = isfinite(losses[0]) && isfinite(losses[1]);
    if (good)
        report(&f32, &bf16, rounds, gemm_rate(a.model->kernels));
    bench_fini(&a);
    bench_fini(&b);
    return good ? 0 : 1;
}

/* Tokens and parameters, for the peer to start from the same. */
static int write_start(const struct bench *b, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return -1;
    size_t written = fwrite(b->tokens, sizeof(*b->tokens), TOKENS + 1, file);
    written += fwrite(wk_parameter_data(b->model, 0), sizeof(float), b->model->count, file);
    return fclose(file) || written != TOKENS + 1 + b->model->count ? -1 : 0;
}

static int serve(const char *path, bool bf16)
{
    struct bench b = {0};
    double step_s[PARTS];
    char line[16];
    if (bench_init(&b, bf16) || write_start(&b, path))
        return 1;
    printf("ready\n");
    (void)fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        double total_s = 0, loss = train_step(&b, step_s);
        for (int p = 0; p < PARTS; p++)
            total_s += step_s[p];
        printf("%.6f %.6f\n", total_s * 1e3, loss);
        (void)fflush(stdout);
    }
    bench_fini(&b);
    return 0;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    long rounds = argc > 1 ? strtol(argv[1], &end, 10) : ROUNDS;
    if (argc > 1 && *end)
        return serve(argv[1], argc > 2 && strcmp(argv[2], "bf16") == 0);
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_train_kernel [rounds 1..%d | FILE [bf16]]\n", ROUNDS_MAX);
        return 2;
    }
    return run((int)rounds);
}
