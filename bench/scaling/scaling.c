/* One rank of a training of the 10.8M-parameter GPT of TARGETS, as a program of its own: place and
 * settings come from the environment, each rank has 4 samples of 256 tokens per step. For each line
 * on standard input it takes STEPS steps and prints the milliseconds of one, then those of its
 * phases in the profile's order, then how many collectives worked in place, then the loss.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <worker/worker.h>

#include "libworker/nn/random.h"
#include "libworker/step/context.h"

enum { LAYERS = 6, HEADS = 6, WIDTH = 384, CONTEXT = 256, VOCAB = 128, SAMPLES = 4 };
enum { TEXT_BYTES = 1 << 20, STEPS = 2 };

struct bench {
    struct wk_context *ctx;
    struct wk_source *source;
    struct wk_loader *loader;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int bench_init(struct bench *b)
{
    static const struct wk_setting settings[] = {{"log_every", "0"}, {"clip_grad_norm", "1"}};
    static const struct wk_gpt_config config = {LAYERS, HEADS, WIDTH, CONTEXT, VOCAB};
    static const struct wk_adamw_options adamw = {3e-4, 0.9, 0.95, 1e-8, 0.1};
    static char text[TEXT_BYTES];
    struct wk_options options = {.settings = settings, .n_settings = 2};
    int rc = wk_open(&options, &b->ctx);
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(random_bits(7, i) % VOCAB);
    if (rc || wk_source_bytes(b->ctx, text, sizeof(text), &b->source))
        return -1;
    struct wk_loader_options loader = {
        .source = b->source, .length = CONTEXT, .batch = (int64_t)SAMPLES * wk_world(b->ctx)};
    if (wk_loader_new(b->ctx, &loader, &b->loader) || wk_gpt_new(&config, &b->model) ||
        wk_adamw_new(&adamw, &b->optimizer))
        return -1;
    return wk_prepare_all(b->ctx, WK_OBJECT(b->loader), WK_OBJECT(b->model),
                          WK_OBJECT(b->optimizer));
}

static int bench_fini(struct bench *b)
{
    int status = wk_status(b->ctx) ? 1 : 0;
    if (status)
        fprintf(stderr, "bench_scaling: %s\n", wk_last_error(b->ctx));
    (void)wk_close(b->ctx);
    wk_loader_free(b->loader);
    wk_source_free(b->source);
    wk_optimizer_free(b->optimizer);
    wk_model_free(b->model);
    return status;
}

static void train_step(struct bench *b)
{
    struct wk_batch batch;
    if (!wk_next(b->loader, &batch))
        return;
    wk_forward(b->model, &batch, NULL);
    wk_backward(b->model);
    wk_step(b->optimizer);
}

static void turn(struct bench *b)
{
    double start_s = now_s();
    struct profile_means means;
    struct wk_comm_statistics statistics;
    for (int i = 0; i < STEPS; i++)
        train_step(b);
    printf("%.4f", (now_s() - start_s) * 1e3 / STEPS);
    profile_take(&b->ctx->reports.profile, &means);
    for (int i = 0; i < PROFILE_COUNT; i++)
        printf(" %.4f", means.phase[i] * 1e3);
    wk_comm_statistics(wk_communicator(b->ctx), &statistics);
    printf(" %llu %.6f\n", (unsigned long long)statistics.in_place, wk_loss(b->ctx));
    (void)fflush(stdout);
}

int main(void)
{
    struct bench b = {0};
    char line[16];
    if (bench_init(&b))
        return bench_fini(&b);
    printf("ready\n");
    (void)fflush(stdout);
    while (!wk_status(b.ctx) && fgets(line, sizeof(line), stdin))
        turn(&b);
    return bench_fini(&b);
}
