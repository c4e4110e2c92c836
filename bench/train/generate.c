/* Generating texts on one core: the 10.8M-parameter GPT of TARGETS continues 16 tokens to its
 * context of 256, in float and in bf16, with its cache of keys and values, without (a pass over the
 * whole text for each token, as before there was one), and eight texts at once. Times are of the
 * thread's processor, so other work on the machine disturbs little; the best of the rounds.
 *
 * Usage: bench_generate [rounds]. Prints one JSON line per figure: tokens a second. Fails when the
 * texts with and without the cache differ in float.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/alone.h"
#include "libworker/nn/model.h"
#include "libworker/nn/outputs.h"
#include "libworker/nn/random.h"
#include "libworker/step/context.h"

enum { LAYERS = 6, HEADS = 6, WIDTH = 384, CONTEXT = 256, VOCAB = 128 };
enum { PROMPT = 16, FOLLOWS = CONTEXT - PROMPT, TEXTS = 8, ROUNDS = 3, ROUNDS_MAX = 100 };

struct bench {
    struct wk_context *ctx;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    int32_t texts[TEXTS][CONTEXT], whole[CONTEXT];
};

static int bench_init(struct bench *b, bool bf16)
{
    static const struct wk_gpt_config config = {LAYERS, HEADS, WIDTH, CONTEXT, VOCAB};
    static const struct wk_adamw_options adamw = {3e-4, 0.9, 0.95, 1e-8, 0.1};
    const struct environment environment = {alone_environment, NULL};
    const struct context_seams seams = {.environment = &environment, .quiet = true};
    const struct wk_setting settings[] = {{"mixed_precision", bf16 ? "bf16" : "no"}, {"seed", "1"}};
    struct wk_options options = {.settings = settings, .n_settings = 2};
    if (context_open(&options, &seams, &b->ctx) || wk_gpt_new(&config, &b->model) ||
        wk_adamw_new(&adamw, &b->optimizer))
        return -1;
    for (int i = 0; i < TEXTS * PROMPT; i++)
        b->texts[i / PROMPT][i % PROMPT] = (int32_t)(random_bits(7, (uint64_t)i) % VOCAB);
    memcpy(b->whole, b->texts[0], PROMPT * sizeof(b->whole[0]));
    return wk_prepare_all(b->ctx, WK_OBJECT(b->model), WK_OBJECT(b->optimizer));
}

static void bench_fini(struct bench *b)
{
    (void)wk_close(b->ctx);
    wk_optimizer_free(b->optimizer);
    wk_model_free(b->model);
}

/* Tokens a second of `n` texts at once. */
static double with_cache(struct bench *b, int n)
{
    struct wk_text texts[TEXTS];
    double start_s = alone_s();
    for (int i = 0; i < n; i++)
        texts[i] = (struct wk_text){
            .prompt = b->texts[i], .prompt_length = PROMPT, .tokens = b->texts[i] + PROMPT};
    if (wk_generate_batch(b->model, &(struct wk_generate_options){0}, texts, n, FOLLOWS))
        return NAN;
    return n * FOLLOWS / (alone_s() - start_s);
}

static double without_cache(struct bench *b)
{
    float logits[VOCAB];
    double start_s = alone_s();
    for (int at = PROMPT; at < CONTEXT; at++) {
        struct wk_batch batch = {.tokens = b->whole, .samples = 1, .length = at};
        if (model_logits(b->model, &batch, logits, NULL))
            return NAN;
        b->whole[at] = likeliest_token(logits, VOCAB);
    }
    return FOLLOWS / (alone_s() - start_s);
}

static int measure(bool bf16, int rounds)
{
    struct bench b = {0};
    double best[3] = {0};
    if (bench_init(&b, bf16))
        return 1;
    for (int i = 0; i < rounds; i++) {
        best[0] = fmax(best[0], with_cache(&b, 1));
        best[1] = fmax(best[1], without_cache(&b));
        bool same = !memcmp(b.texts[0], b.whole, sizeof(b.whole));
        if (!bf16 && !same)
            return 1;
        best[2] = fmax(best[2], with_cache(&b, TEXTS));
    }
    static const char *const names[] = {"cache", "no_cache", "cache_of_8"};
    for (int i = 0; i < 3; i++)
        printf("{\"bench\":\"generate\",\"metric\":\"%s_%s\",\"ours\":%.1f,"
               "\"unit\":\"tokens/s\"}\n",
               names[i], bf16 ? "bf16" : "f32", best[i]);
    fprintf(stderr, "%zu parameters, %s\n", b.model->count, b.model->kernels->name);
    bench_fini(&b);
    return 0;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    long rounds = argc > 1 ? strtol(argv[1], &end, 10) : ROUNDS;
    if (rounds < 1 || rounds > ROUNDS_MAX || (end && *end)) {
        fprintf(stderr, "usage: bench_generate [rounds 1..%d]\n", ROUNDS_MAX);
        return 2;
    }
    return measure(false, (int)rounds) || measure(true, (int)rounds);
}
