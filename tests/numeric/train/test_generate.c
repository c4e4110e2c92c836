/* Texts in the middle of a training: under every strategy logits with a cache are those of a pass
 * over the whole text, all ranks get the same texts, of the likeliest tokens, and training goes on.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libworker/nn/decode.h"
#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { RANKS = 2, STEPS = 4, LENGTH = 16, VOCAB = 128, TEXTS = 2, PROMPT = 4 };
enum { FOLLOWS = LENGTH - PROMPT };
enum { SUMMED = 2000 }; /* roundings behind a logit: far more than the toy's layers have */

struct turn {
    double apart; /* share of the largest logit */
    int32_t texts[TEXTS][LENGTH], drawn[LENGTH];
    bool generated;
};

/* Every token behind the prompt is the likeliest, or so near that rounding decides. */
static void expect_likeliest(struct wk_model *model, const int32_t *text, double apart)
{
    static _Thread_local float logits[LENGTH * VOCAB];
    struct wk_batch batch = {.tokens = text, .samples = 1, .length = LENGTH};
    CHECK(wk_evaluate(model, &batch, NULL, &(struct wk_outputs){.logits = logits}) == 0);
    for (int at = PROMPT; at < LENGTH; at++) {
        const float *row = logits + (at - 1) * VOCAB;
        double best = -INFINITY, most = 0;
        for (int i = 0; i < VOCAB; i++) {
            best = fmax(best, (double)row[i]);
            most = fmax(most, fabs((double)row[i]));
        }
        CHECK((double)row[text[at]] >= best - 2 * apart * most);
    }
}

/* The logits after two texts, by the cache and by a whole pass. */
static void expect_logits(struct wk_model *model, const struct turn *turn)
{
    float cached[TEXTS * VOCAB], whole[TEXTS * VOCAB];
    int32_t first[TEXTS * (LENGTH - 1)], last[TEXTS];
    double most = 0;
    for (int i = 0; i < TEXTS; i++) {
        memcpy(first + (ptrdiff_t)i * (LENGTH - 1), turn->texts[i], (LENGTH - 1) * sizeof(*first));
        last[i] = turn->texts[i][LENGTH - 1];
    }
    struct wk_batch fills = {.tokens = first, .samples = TEXTS, .length = LENGTH - 1};
    struct wk_batch next = {.tokens = last, .samples = TEXTS, .length = 1};
    struct wk_batch all = {.tokens = turn->texts[0], .samples = TEXTS, .length = LENGTH};
    CHECK(decode_begin(model, TEXTS, LENGTH, NULL) == 0);
    CHECK(decode_pass(model, &fills, 0, NULL, NULL) == 0);
    CHECK(decode_pass(model, &next, LENGTH - 1, cached, NULL) == 0);
    decode_end(model);
    CHECK(model_logits(model, &all, whole, NULL) == 0);
    for (int i = 0; i < TEXTS * VOCAB; i++)
        most = fmax(most, fabs((double)whole[i]));
    for (int i = 0; i < TEXTS * VOCAB; i++)
        CHECK(fabs((double)cached[i] - (double)whole[i]) <= turn->apart * most);
}

static bool generate(void *arg, struct wk_context *ctx)
{
    struct turn *turn = arg;
    struct wk_text texts[TEXTS];
    if (wk_steps(ctx) != STEPS / 2)
        return false;
    struct wk_model *model = ctx->prepared.units[0].model;
    for (int i = 0; i < TEXTS; i++) {
        for (int k = 0; k < PROMPT; k++)
            turn->texts[i][k] = 'a' + (7 * i + 3 * k) % 23;
        texts[i] = (struct wk_text){.prompt = turn->texts[i],
                                    .prompt_length = PROMPT - i,
                                    .tokens = turn->texts[i] + PROMPT - i};
    }
    CHECK(wk_generate_batch(model, &(struct wk_generate_options){0}, texts, TEXTS, FOLLOWS) == 0);
    CHECK(texts[0].length == FOLLOWS && texts[1].length == FOLLOWS);
    expect_likeliest(model, turn->texts[0], turn->apart);
    expect_logits(model, turn);
    struct wk_generate_options drawn = {turn->texts[0], PROMPT,    .temperature = 2,
                                        .top_k = 20,    .seed = 4, .top_p = 0.9};
    CHECK(wk_generate(model, &drawn, LENGTH, turn->drawn) == 0);
    turn->generated = true;
    return false;
}

static void run(const char *strategy, const char *precision)
{
    static struct toy toys[RANKS];
    static const int workers[RANKS] = {0, 1};
    struct turn turns[RANKS] = {0};
    pthread_t threads[RANKS];
    struct fake_cluster cluster;
    memset(toys, 0, sizeof(toys));
    fake_init(&cluster);
    fake_form(&cluster, workers, RANKS);
    for (int i = 0; i < RANKS; i++) {
        bool narrow = strcmp(precision, "no") != 0;
        turns[i].apart = rounding_bound(SUMMED) + (narrow ? rounding_apart(ROUNDING_BF16, 20) : 0);
        toys[i].session = fake_session(&cluster, i);
        toys[i].stepped = generate;
        toys[i].arg = &turns[i];
        toy_set(&toys[i], "total_steps", "4");
        toy_set(&toys[i], "strategy", strategy);
        toy_set(&toys[i], "mixed_precision", precision);
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(threads[i], NULL);
        if (toys[i].status)
            fprintf(stderr, "%s: %s\n", strategy, toys[i].error);
        CHECK(toys[i].status == 0 && toys[i].exit_code == 0);
        CHECK(toys[i].losses[STEPS] > 0); /* training went on */
        CHECK(turns[i].generated);
        CHECK(memcmp(turns[i].texts, turns[0].texts, sizeof(turns[0].texts)) == 0);
        CHECK(memcmp(turns[i].drawn, turns[0].drawn, sizeof(turns[0].drawn)) == 0);
    }
    fake_fini(&cluster);
}

int main(void)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
    for (int s = 0; s < 4; s++) {
        run(strategies[s], "no");
        run(strategies[s], "bf16");
    }
    printf("ok ranks_generate_the_same_texts\n");
    return 0;
}
