/* Training throughput of one rank on one core: the 10.8M-parameter GPT of TARGETS, beside the roof
 * that the same run's sgemm sets (the time of its matrix products alone at that speed).
 *
 * Usage: bench_train_kernel [rounds]. Prints one JSON line per figure; fails only when the loss is
 * not finite.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "libworker/kernel/cpu/blas.h"
#include "libworker/nn/model.h"
#include "libworker/nn/random.h"
#include "libworker/optim/clip.h"
#include "libworker/optim/optimizer.h"

enum { LAYERS = 6, HEADS = 6, WIDTH = 384, CONTEXT = 256, VOCAB = 128, SAMPLES = 4 };
enum { TOKENS = SAMPLES * CONTEXT, ROUNDS = 15, ROUNDS_MAX = 1000, GEMM_ROUNDS = 10 };

/* Torch 1.13 with OpenBLAS on one core of the machine that TARGETS was measured on. */
static const double PEER_TOKENS_PER_S = 1190;

enum part { FORWARD, BACKWARD, CLIP, UPDATE, PARTS };

struct bench {
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    float *params, *grads;
    int32_t tokens[TOKENS + 1];
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int bench_init(struct bench *b)
{
    static const struct wk_gpt_config config = {LAYERS, HEADS, WIDTH, CONTEXT, VOCAB};
    static const struct wk_adamw_options adamw = {3e-4, 0.9, 0.95, 1e-8, 0.1};
    if (wk_gpt_new(&config, &b->model) || wk_adamw_new(&adamw, &b->optimizer))
        return -1;
    b->params = calloc(b->model->count, sizeof(float));
    b->grads = calloc(b->model->count, sizeof(float));
    if (!b->params || !b->grads || model_bind(b->model, b->params, b->grads))
        return -1;
    for (int i = 0; i <= TOKENS; i++)
        b->tokens[i] = (int32_t)(random_bits(7, (uint64_t)i) % VOCAB);
    wk_model_init(b->model, 1);
    return optimizer_bind(b->optimizer, b->model->params, b->model->n_params, 0, b->model->count,
                          NULL);
}

static void bench_fini(struct bench *b)
{
    wk_optimizer_free(b->optimizer);
    wk_model_free(b->model);
    free(b->params);
    free(b->grads);
}

/* Seconds of each part; returns the loss. */
static double train_step(struct bench *b, double ret_s[PARTS])
{
    struct wk_batch batch = {
        .tokens = b->tokens, .targets = b->tokens + 1, .samples = SAMPLES, .length = CONTEXT};
    double loss = NAN, at[PARTS + 1];
    at[FORWARD] = now_s();
    model_zero_grad(b->model);
    model_forward(b->model, &batch, &loss, NULL);
    at[BACKWARD] = now_s();
    model_backward(b->model, 1, NULL);
    at[CLIP] = now_s();
    double norm = sqrt(clip_sum_squares(b->model->kernels, b->grads, b->model->count));
    at[UPDATE] = now_s();
    optimizer_step(b->optimizer, b->params, b->grads, (float)clip_factor(norm, 1), NULL);
    at[PARTS] = now_s();
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
        double start_s = now_s();
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
        best_s = fmin(best_s, now_s() - start_s);
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

static void report(double step_s, double flop_rate, const double part_s[PARTS])
{
    static const char *const names[PARTS] = {"forward", "backward", "clip", "update"};
    double tokens_per_s = TOKENS / step_s, roof = TOKENS * flop_rate / step_flop();
    printf("{\"bench\":\"train_kernel\",\"metric\":\"tokens_per_s\",\"ours\":%.0f,\"peer\":%.0f,"
           "\"peer_name\":\"torch 1.13, machine of TARGETS\",\"ratio\":%.2f,\"unit\":\"token/s\","
           "\"target\":1.2}\n",
           tokens_per_s, PEER_TOKENS_PER_S, tokens_per_s / PEER_TOKENS_PER_S);
    printf("{\"bench\":\"train_kernel\",\"metric\":\"share_of_gemm_roof\",\"ours\":%.0f,"
           "\"peer\":%.0f,\"peer_name\":\"products alone at %.0f GFLOP/s, %s\",\"ratio\":%.2f,"
           "\"unit\":\"token/s\",\"target\":0.9}\n",
           tokens_per_s, roof, flop_rate * 1e-9, blas_core() ? blas_core() : "own product",
           tokens_per_s / roof);
    for (int i = 0; i < PARTS; i++)
        printf("{\"bench\":\"train_kernel\",\"metric\":\"%s\",\"ours\":%.2f,\"unit\":\"ms\"}\n",
               names[i], part_s[i] * 1e3);
}

static int run(int rounds)
{
    struct bench b = {0};
    double total_s[ROUNDS_MAX], part_s[PARTS][ROUNDS_MAX], medians_s[PARTS], step_s[PARTS];
    if (bench_init(&b)) {
        fprintf(stderr, "bench_train_kernel: no memory\n");
        return 1;
    }
    double loss = train_step(&b, step_s); /* touches all memory once */
    for (int i = 0; i < rounds && isfinite(loss); i++) {
        loss = train_step(&b, step_s);
        total_s[i] = 0;
        for (int p = 0; p < PARTS; p++) {
            part_s[p][i] = step_s[p];
            total_s[i] += step_s[p];
        }
    }
    for (int p = 0; p < PARTS; p++)
        medians_s[p] = median(part_s[p], rounds);
    if (isfinite(loss))
        report(median(total_s, rounds), gemm_rate(b.model->kernels), medians_s);
    fprintf(stderr, "%zu parameters, %s, loss %.3f\n", b.model->count, b.model->kernels->name,
            loss);
    bench_fini(&b);
    return isfinite(loss) ? 0 : 1;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : ROUNDS;
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_train_kernel [rounds 1..%d]\n", ROUNDS_MAX);
        return 2;
    }
    return run((int)rounds);
}
