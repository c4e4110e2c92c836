#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/train/pair_gang.h"
#include "tests/numeric/train/toy.h"

const char *const strategies[4] = {"ddp", "zero1", "zero2", "fsdp"};

struct pair one;

static void configure(struct pair *pair, const struct pair *like)
{
    pair->coupled = like->coupled;
    pair->rests = like->rests;
    pair->repeats = like->repeats;
    pair->own_loader = like->own_loader;
    pair->own_data = like->own_data;
    pair->frozen = like->frozen;
    memcpy(pair->settings, like->settings, sizeof(pair->settings));
    pair->n_settings = like->n_settings;
    pair->total = like->total;
    pair_set(pair, "total_steps", like->total ? "10" : "24");
    pair_set(pair, "bucket_mib", "0.01");
    pair_set(pair, "first_bucket_mib", "0.005");
}

void gang_start(struct gang *gang, int worker, const struct pair *like)
{
    struct pair *pair = &gang->pairs[worker];
    pair->session = fake_session(&gang->cluster, worker);
    configure(pair, like);
    gang->running[worker] = true;
    pthread_create(&gang->threads[worker], NULL, pair_thread, pair);
}

struct gang *gang_new(int ranks)
{
    static const int workers[WORKERS] = {0, 1, 2, 3};
    static struct gang gang;
    memset(&gang, 0, sizeof(gang));
    fake_init(&gang.cluster);
    fake_form(&gang.cluster, workers, ranks);
    return &gang;
}

void gang_finish(struct gang *gang)
{
    for (int i = 0; i < WORKERS; i++)
        if (gang->running[i])
            pthread_join(gang->threads[i], NULL);
    fake_fini(&gang->cluster);
}

void check_ended(const struct pair *pair)
{
    if (pair->status || pair->exit_code)
        fprintf(stderr, "%s\n%s", pair->error, pair->notices);
    CHECK(pair->status == 0 && pair->exit_code == 0 &&
          pair->steps == (pair->total ? pair->total : PAIR_STEPS));
}

const struct pair *run(const struct pair *like, int ranks)
{
    struct gang *gang = gang_new(ranks);
    for (int i = 0; i < ranks; i++)
        gang_start(gang, i, like);
    gang_finish(gang);
    for (int i = 0; i < ranks; i++) {
        check_ended(&gang->pairs[i]);
        CHECK(memcmp(gang->pairs[i].losses, gang->pairs[0].losses, sizeof(one.losses)) == 0);
        CHECK(memcmp(gang->pairs[i].weights, gang->pairs[0].weights, sizeof(one.weights)) == 0);
    }
    return &gang->pairs[0];
}

/* From the first step that was taken to the last one. */
static bool learned(const double losses[PAIR_STEPS + 1])
{
    int first = 1;
    while (first < PAIR_STEPS && !(losses[first] > 0))
        first++;
    return losses[PAIR_STEPS] < losses[first];
}

void run_one(const struct pair *like)
{
    struct pair alone = *like;
    for (int i = 0; i < alone.n_settings; i++)
        if (strcmp(alone.settings[i].name, "strategy") == 0)
            alone.settings[i].value = "ddp";
    one = *run(&alone, 1);
    CHECK(like->frozen || learned(one.losses[0]));
    CHECK(learned(one.losses[1]));
}

static const char *setting_of(const struct pair *like, const char *name)
{
    for (int i = 0; i < like->n_settings; i++)
        if (strcmp(like->settings[i].name, name) == 0)
            return like->settings[i].value;
    return "";
}

/* A rank's share has so few rows that other kernels multiply them: all its sums are in another
 * order. Where that carries values across the middle between two narrow numbers
 * (test_precision.c), it happens eight times as often in fp16 as in bf16, and moves a value by an
 * eighth of as much: many such moves come to an eighth times the square root of eight.
 */
struct bounds bounds_of(const struct pair *like)
{
    static const double norms = 16; /* those of small gradients, beside losses */
    const double bf16 = ROUNDING_BF16 / 16, fp16 = bf16 / sqrt(8);
    struct toy_bounds plain = toy_bounds(PAIR_STEPS); /* of a larger model than these */
    const char *precision = setting_of(like, "mixed_precision");
    double losses = strcmp(precision, "bf16") == 0   ? bf16
                    : strcmp(precision, "fp16") == 0 ? fp16
                                                     : plain.losses;
    return (struct bounds){losses, norms * losses, *precision ? 1 : plain.weights};
}

void check_like_one(const struct pair *pair, const struct bounds *bounds, const char *what)
{
    struct pair_apart apart = pair_apart(&one, pair);
    printf("%s, %s: losses %.1e, norms %.1e, weights %.1e\n", what, setting_of(pair, "strategy"),
           apart.losses, apart.norms, apart.weights);
    CHECK(apart.losses < bounds->losses && apart.norms < bounds->norms);
    CHECK(apart.weights < bounds->weights && apart.rates == 0);
    for (int m = 0; m < 2; m++)
        CHECK(pair->scales[m] == one.scales[m]);
    CHECK(pair->skipped == one.skipped);
}

void matrix(struct pair like, const char *what)
{
    struct bounds bounds = bounds_of(&like);
    pair_set(&like, "strategy", "ddp");
    struct wk_setting *strategy = &like.settings[like.n_settings - 1];
    run_one(&like);
    for (int s = 0; s < 4; s++)
        for (int ranks = 1; ranks <= 3; ranks++) {
            char text[128];
            strategy->value = strategies[s];
            (void)snprintf(text, sizeof(text), "%s on %d", what, ranks);
            check_like_one(run(&like, ranks), &bounds, text);
        }
}
