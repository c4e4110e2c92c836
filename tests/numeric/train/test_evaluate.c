/* wk_evaluate: what it writes is about the model as it is used, right under every strategy and
 * precision, whatever share of the batch a rank has.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { RANKS = 3, STEPS = 4, SAMPLES_MAX = 5, LENGTH = 16, VOCAB = 128, IGNORED_AT = 3 };

/* Of all ranks together. */
struct seen {
    double loss;
    float losses[SAMPLES_MAX * LENGTH];
    int32_t likeliest[SAMPLES_MAX * LENGTH];
};

struct scene {
    int samples;
    struct seen seen[RANKS]; /* each rank's, put together by wk_gather_for_metrics */
};

struct turn {
    struct scene *scene;
    int rank;
};

static int32_t token_at(int at)
{
    return 'a' + at * 7 % 23;
}

/* This rank's share of `samples`, one target of each sample ignored. */
static struct wk_batch share_of(struct wk_context *ctx, int samples, int32_t *tokens,
                                int32_t *targets)
{
    int64_t first, count;
    wk_split(ctx, samples, false, &first, &count);
    for (int i = 0; i < count * LENGTH; i++) {
        int at = (int)first * LENGTH + i;
        tokens[i] = token_at(at);
        targets[i] = at % LENGTH == IGNORED_AT ? WK_IGNORED : token_at(at + 1);
    }
    return (struct wk_batch){.tokens = tokens,
                             .targets = targets,
                             .samples = count,
                             .length = LENGTH,
                             .global_samples = samples,
                             .denominator = samples * (LENGTH - 1)};
}

/* Each figure follows from the logits, computed here in double. */
static void check_rows(const struct wk_batch *batch, const struct wk_outputs *outputs, double loss)
{
    double sum = 0;
    for (int64_t r = 0; r < batch->samples * LENGTH; r++) {
        const float *row = outputs->logits + r * VOCAB;
        double total = 0, own = 0;
        for (int i = 0; i < VOCAB; i++) {
            CHECK(row[i] <= row[outputs->likeliest[r]]);
            total += exp((double)row[i]);
        }
        if (batch->targets[r] != WK_IGNORED)
            own = log(total) - (double)row[batch->targets[r]];
        CHECK(fabs(own - (double)outputs->losses[r]) <= rounding_bound(VOCAB) * fmax(1, own));
        sum += own;
    }
    CHECK(fabs(sum / batch->denominator - loss) <= rounding_bound(VOCAB) * TOY_GUESS);
}

/* Dropout and smoothing are training's; wk_forward without them is the same pass. */
static void check_use(struct wk_model *model, const struct wk_batch *batch, double loss)
{
    double trained, again;
    wk_model_dropout(model, 0.5, 1);
    wk_model_label_smoothing(model, 0.3);
    CHECK(wk_evaluate(model, batch, &again, NULL) == 0);
    CHECK(memcmp(&again, &loss, sizeof(loss)) == 0);
    CHECK(wk_forward(model, batch, &trained) == 0);
    CHECK(batch->samples == 0 || fabs(trained - loss) > 1e-3);
    wk_model_dropout(model, 0, 1);
    wk_model_label_smoothing(model, 0);
    CHECK(wk_forward(model, batch, &trained) == 0);
    CHECK(fabs(trained - loss) <= rounding_bound(VOCAB) * TOY_GUESS);
}

static bool evaluate(void *arg, struct wk_context *ctx)
{
    static const struct wk_outputs none;
    struct turn *turn = arg;
    struct seen *seen = &turn->scene->seen[turn->rank];
    int32_t tokens[SAMPLES_MAX * LENGTH], targets[SAMPLES_MAX * LENGTH];
    static _Thread_local float logits[SAMPLES_MAX * LENGTH * VOCAB], losses[SAMPLES_MAX * LENGTH];
    static _Thread_local float chosen[SAMPLES_MAX * LENGTH], all[SAMPLES_MAX * LENGTH];
    static _Thread_local int32_t likeliest[SAMPLES_MAX * LENGTH];
    if (wk_steps(ctx) != STEPS / 2)
        return false;
    struct wk_model *model = ctx->prepared.units[0].model;
    struct wk_batch batch = share_of(ctx, turn->scene->samples, tokens, targets);
    struct wk_outputs outputs = {losses, likeliest, logits};
    CHECK(wk_evaluate(model, &batch, &seen->loss, &outputs) == 0);
    check_rows(&batch, &outputs, seen->loss);
    check_use(model, &batch, seen->loss);
    CHECK(wk_reduce_value(ctx, &seen->loss, WK_SUM) == 0);
    for (int i = 0; i < batch.samples * LENGTH; i++)
        chosen[i] = (float)likeliest[i];
    CHECK(wk_gather_for_metrics(ctx, &batch, losses, LENGTH, seen->losses) == 0);
    CHECK(wk_gather_for_metrics(ctx, &batch, chosen, LENGTH, all) == 0);
    for (int i = 0; i < turn->scene->samples * LENGTH; i++)
        seen->likeliest[i] = (int32_t)all[i];
    batch.targets = NULL;
    CHECK(wk_evaluate(model, &batch, NULL, &none) == 0);
    return false;
}

static void run(const char *strategy, const char *precision, int ranks, struct scene *scene)
{
    static struct toy toys[RANKS];
    static const int workers[RANKS] = {0, 1, 2};
    struct turn turns[RANKS];
    pthread_t threads[RANKS];
    struct fake_cluster cluster;
    memset(toys, 0, sizeof(toys));
    fake_init(&cluster);
    fake_form(&cluster, workers, ranks);
    for (int i = 0; i < ranks; i++) {
        turns[i] = (struct turn){scene, i};
        toys[i].session = fake_session(&cluster, i);
        toys[i].stepped = evaluate;
        toys[i].arg = &turns[i];
        toy_set(&toys[i], "total_steps", "4");
        toy_set(&toys[i], "strategy", strategy);
        toy_set(&toys[i], "mixed_precision", precision);
        toy_set(&toys[i], "bucket_mib", "0.02");
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < ranks; i++) {
        pthread_join(threads[i], NULL);
        if (toys[i].status)
            fprintf(stderr, "%s: %s\n", strategy, toys[i].error);
        CHECK(toys[i].status == 0 && toys[i].exit_code == 0);
        CHECK(toys[i].losses[STEPS] > 0); /* training went on */
    }
    fake_fini(&cluster);
}

static void compare(const struct seen *seen, const struct seen *alone, int samples, double within)
{
    CHECK(fabs(seen->loss - alone->loss) < within);
    for (int i = 0; i < samples * LENGTH; i++) {
        CHECK(fabs((double)(seen->losses[i] - alone->losses[i])) < within);
        CHECK((seen->losses[i] == 0) == (i % LENGTH == IGNORED_AT));
        CHECK(within > ROUNDING_F16 || seen->likeliest[i] == alone->likeliest[i]);
    }
}

/* Three ranks share five samples, and two, of which one gets none. */
static void figures_are_the_same_under_every_strategy_and_precision(void)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
    static const char *const precisions[] = {"no", "bf16", "fp16"};
    /* of one token: a few units of the type in which its logits were made, which are near 1 */
    const double within[] = {16 * TOY_GUESS * toy_bounds(STEPS).losses, 4 * ROUNDING_BF16,
                             4 * ROUNDING_F16};
    static struct scene alone, shared;
    for (int p = 0; p < 3; p++) {
        for (int s = 0; s < 4; s++) {
            alone.samples = shared.samples = s % 2 ? 2 : SAMPLES_MAX;
            run("ddp", precisions[p], 1, &alone);
            run(strategies[s], precisions[p], RANKS, &shared);
            for (int rank = 0; rank < RANKS; rank++)
                compare(&shared.seen[rank], &alone.seen[0], shared.samples, within[p]);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(figures_are_the_same_under_every_strategy_and_precision),
        {0},
    };
    return check_all(cases, argc, argv);
}
