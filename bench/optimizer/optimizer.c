/* One optimizer step over flat arrays: the norm of the gradient, its clip factor, then unscaling,
 * AdamW and the bf16 copy in one pass, beside the triad of the same run
 * (a = a + s b: in place as the update is, so that no line is read only to be overwritten).
 * Parameters are many tensors, as in a model, to be fair to a peer that goes tensor by tensor.
 *
 * Usage: bench_optimizer [rounds]; with rounds 0 it serves run.py: for every line on standard input
 * it takes one step and prints its milliseconds and one parameter. Times are of the thread's
 * processor.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/alone.h"
#include "libworker/nn/model.h"
#include "libworker/nn/random.h"
#include "libworker/optim/clip.h"
#include "libworker/optim/optimizer.h"
#include "libworker/tensor/memory.h"

enum { TENSORS = 24, SIDE = 1024, ROUNDS = 15, ROUNDS_MAX = 1000 };
enum { TENSOR = SIDE * SIDE, COUNT = TENSORS * TENSOR };

static const double ADAMW_BYTES = 28; /* reads p, g, m, v and writes p, m, v */
static const double TRIAD_BYTES = 12; /* reads two, writes one of them */
static const double LOSS_SCALE = 1024;

struct bench {
    struct wk_optimizer *optimizer;
    struct param params[TENSORS];
    float *x, *grads, *third;
    uint16_t *low;
};

static int bench_init(struct bench *b)
{
    static const struct wk_adamw_options adamw = {3e-4, 0.9, 0.95, 1e-8, 0.1};
    b->x = memory_new(COUNT * sizeof(float));
    b->grads = memory_new(COUNT * sizeof(float));
    b->third = memory_new(COUNT * sizeof(float));
    b->low = memory_new(COUNT * sizeof(*b->low));
    if (!b->x || !b->grads || !b->third || !b->low || wk_adamw_new(&adamw, &b->optimizer))
        return -1;
    for (size_t i = 0; i < TENSORS; i++)
        b->params[i] = (struct param){
            .dims = 2, .shape = {SIDE, SIDE}, .count = TENSOR, .offset = i * TENSOR, .decay = true};
    for (uint64_t i = 0; i < COUNT; i++) {
        b->x[i] = (float)random_uniform(1, i) - 0.5f;
        b->grads[i] = (float)(LOSS_SCALE * (random_uniform(2, i) - 0.5));
        b->third[i] = b->x[i];
    }
    struct optimizer_copy copy = {.low = b->low, .type = WK_BF16};
    return optimizer_bind(b->optimizer, b->params, TENSORS, 0, COUNT, NULL) ||
           optimizer_set_copy(b->optimizer, &copy, NULL);
}

static void bench_fini(struct bench *b)
{
    wk_optimizer_free(b->optimizer);
    memory_free(b->x, COUNT * sizeof(float));
    memory_free(b->grads, COUNT * sizeof(float));
    memory_free(b->third, COUNT * sizeof(float));
    memory_free(b->low, COUNT * sizeof(*b->low));
}

static void step(struct bench *b)
{
    const struct kernel_table *k = b->optimizer->kernels;
    double norm = sqrt(clip_sum_squares(k, b->grads, COUNT)) / LOSS_SCALE;
    float scale = (float)(clip_factor(norm, 1) / LOSS_SCALE);
    (void)optimizer_step(b->optimizer, b->x, b->grads, scale, NULL);
}

static void adamw_alone(struct bench *b)
{
    struct optimizer_copy copy = b->optimizer->copy;
    b->optimizer->copy.low = NULL;
    (void)optimizer_step(b->optimizer, b->x, b->grads, 1e-6f, NULL);
    b->optimizer->copy = copy;
}

/* Not inlined, so that nothing is known of the arrays. */
__attribute__((noinline)) static void triad(float *restrict a, const float *restrict x,
                                            size_t count)
{
    for (size_t i = 0; i < count; i++)
        a[i] += 1e-6f * x[i];
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

static void run(struct bench *b, int rounds)
{
    static double step_s[ROUNDS_MAX], adamw_s[ROUNDS_MAX], triad_s[ROUNDS_MAX];
    for (int i = -1; i < rounds; i++) { /* the first touches all memory once */
        int at = i < 0 ? 0 : i;
        double times[4];
        times[0] = alone_s();
        triad(b->third, b->grads, COUNT);
        times[1] = alone_s();
        adamw_alone(b);
        times[2] = alone_s();
        step(b);
        times[3] = alone_s();
        triad_s[at] = times[1] - times[0];
        adamw_s[at] = times[2] - times[1];
        step_s[at] = times[3] - times[2];
    }
    double adamw = ADAMW_BYTES * COUNT / median(adamw_s, rounds);
    double roof = TRIAD_BYTES * COUNT / median(triad_s, rounds);
    printf("{\"bench\":\"optimizer\",\"metric\":\"adamw bytes\",\"ours\":%.2f,\"peer\":%.2f,"
           "\"peer_name\":\"triad in place\",\"ratio\":%.3f,\"unit\":\"GB/s\",\"target\":0.9}\n",
           adamw * 1e-9, roof * 1e-9, adamw / roof);
    printf("{\"bench\":\"optimizer\",\"metric\":\"unscale, clip, AdamW, bf16 copy\",\"ours\":%.1f,"
           "\"unit\":\"Mparam/s\"}\n",
           COUNT / median(step_s, rounds) * 1e-6);
}

static void serve(struct bench *b)
{
    char line[16];
    while (fgets(line, sizeof(line), stdin)) {
        double start_s = alone_s();
        step(b);
        printf("%.6f %.6f\n", (alone_s() - start_s) * 1e3, (double)b->x[7]);
        (void)fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static struct bench b;
    long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : ROUNDS;
    if (rounds < 0 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_optimizer [rounds 0..%d]\n", ROUNDS_MAX);
        return 2;
    }
    int rc = bench_init(&b);
    if (rc)
        fprintf(stderr, "bench_optimizer: no memory\n");
    else if (rounds)
        run(&b, (int)rounds);
    else
        serve(&b);
    bench_fini(&b);
    return rc ? 1 : 0;
}
