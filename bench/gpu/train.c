/* Steps of one rank's training on the device that the settings name, for ./dev gpu: a line for each
 * step, so that a run that is cut off still tells.
 *
 *     bench_gpu_train MODEL SAMPLES LENGTH STEPS [FOLDER]
 *
 *     {"step": 1, "ms": 141.2, "loss": 10.98, "norm": 3.1}
 *
 * MODEL is a name of `models`; SAMPLES are of all ranks together. Settings come from the
 * environment (MUSTER_DEVICE, MUSTER_MIXED_PRECISION, RANK, …). Each step has the same batch, whose
 * tokens torch_peer.py makes, too. With a FOLDER rank 0 leaves the first weights there. A step is
 * timed from its batch to its numbers, which wait for the device. Exit status: wk_close's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <worker/worker.h>

#include "bench/gpu/rounds.h"

enum { STEPS_MAX = 100000, TOKENS_MAX = 1 << 22 };

static const struct model {
    const char *name;
    bool is_llama;
    struct wk_gpt_config gpt;
    struct wk_llama_config llama;
} models[] = {
    /* GPT-2 124M; the vocabulary is padded to a multiple of 128. */
    {"gpt2", false, {12, 12, 768, 1024, 50304}, {.layers = 0}},
    {"gpt-tiny", false, {2, 2, 32, 64, 128}, {.layers = 0}},
    /* TinyLlama's shape: 1.1 billion parameters. */
    {"llama-1b", true, {.layers = 0}, {22, 32, 4, 2048, 5632, 2048, 32000, 10000, 1e-5, false}},
    {"llama-tiny", true, {.layers = 0}, {2, 4, 2, 32, 48, 64, 128, 10000, 1e-5, false}},
};

struct run {
    const struct model *model;
    int64_t samples, length, steps;
    const char *folder; /* NULL: none */
};

struct objects {
    struct wk_context *ctx;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    int32_t *tokens; /* [samples * length + 1] */
};

static int usage(void)
{
    fprintf(stderr, "usage: bench_gpu_train MODEL SAMPLES LENGTH STEPS [FOLDER]; MODEL is");
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        fprintf(stderr, " %s", models[i].name);
    fputc('\n', stderr);
    return WK_EXIT_CONFIG;
}

static bool read_number(const char *text, int64_t max, int64_t *ret)
{
    char *end;
    *ret = strtoll(text, &end, 10);
    return *text && !*end && *ret >= 1 && *ret <= max;
}

static bool read_arguments(int argc, char **argv, struct run *ret)
{
    if (argc < 5 || argc > 6)
        return false;
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        if (strcmp(models[i].name, argv[1]) == 0)
            ret->model = &models[i];
    }
    ret->folder = argc > 5 ? argv[5] : NULL;
    return ret->model && read_number(argv[2], TOKENS_MAX, &ret->samples) &&
           read_number(argv[3], TOKENS_MAX / ret->samples, &ret->length) &&
           read_number(argv[4], STEPS_MAX, &ret->steps);
}

/* The same numbers in torch_peer.py. */
static int32_t token_at(uint32_t i, int vocab)
{
    uint32_t x = i * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (int32_t)(x % (uint32_t)vocab);
}

static int make(const struct run *run, struct objects *o)
{
    const struct model *m = run->model;
    const struct wk_adamw_options adamw = {3e-4, 0.9, 0.95, 1e-8, 0.1};
    int64_t count = run->samples * run->length + 1;
    int vocab = m->is_llama ? m->llama.vocab : m->gpt.vocab;
    o->tokens = malloc((size_t)count * sizeof(*o->tokens));
    for (int64_t i = 0; i < count && o->tokens; i++)
        o->tokens[i] = token_at((uint32_t)i, vocab);
    int rc = m->is_llama ? wk_llama_new(&m->llama, &o->model) : wk_gpt_new(&m->gpt, &o->model);
    if (rc || wk_adamw_new(&adamw, &o->optimizer) || !o->tokens)
        return -1;
    return wk_prepare_all(o->ctx, WK_OBJECT(o->model), WK_OBJECT(o->optimizer));
}

/* This rank's share of the batch. */
static struct wk_batch batch_of(const struct run *run, const struct objects *o)
{
    int64_t world = wk_world(o->ctx), rank = wk_rank(o->ctx);
    int64_t first = run->samples * rank / world, end = run->samples * (rank + 1) / world;
    return (struct wk_batch){
        .tokens = o->tokens + first * run->length,
        .targets = o->tokens + first * run->length + 1,
        .samples = end - first,
        .length = run->length,
        .global_samples = run->samples,
        .denominator = (double)(run->samples * run->length),
        .first = first,
    };
}

static void step(const struct run *run, struct objects *o, int64_t number)
{
    struct wk_step_numbers numbers = {0};
    struct wk_batch batch = batch_of(run, o);
    double began = rounds_now_ms();
    (void)wk_forward(o->model, &batch, NULL);
    (void)wk_backward(o->model);
    (void)wk_clip_grad_norm(o->model, 1, NULL);
    (void)wk_step(o->optimizer);
    if (wk_step_numbers(o->optimizer, &numbers) || !wk_is_main(o->ctx))
        return;
    printf("{\"step\": %lld, \"ms\": %.3f, \"loss\": %.7g, \"norm\": %.6g}\n", (long long)number,
           rounds_now_ms() - began, numbers.loss, numbers.norm);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    struct run run = {0};
    struct objects o = {0};
    if (!read_arguments(argc, argv, &run))
        return usage();
    int rc = wk_open(NULL, &o.ctx);
    if (!rc)
        rc = make(&run, &o);
    if (!rc && wk_is_main(o.ctx)) {
        (void)wk_config_print(o.ctx, stderr);
        printf("{\"parameters\": %zu}\n", wk_model_count(o.model));
    }
    if (!rc && run.folder)
        rc = wk_model_save(o.ctx, o.model, run.folder, NULL);
    for (int64_t i = 1; i <= run.steps && !rc && !wk_status(o.ctx); i++)
        step(&run, &o, i);
    if (rc || wk_status(o.ctx))
        fprintf(stderr, "bench_gpu_train: %s\n", wk_last_error(o.ctx));
    int status = wk_close(o.ctx);
    wk_optimizer_free(o.optimizer);
    wk_model_free(o.model);
    free(o.tokens);
    return !status && rc ? 1 : status;
}
