/* Programs whose passes give means over their own share, go by bound pointers and own nothing: what
 * llm.c's and torch's losses are. They train as one rank does that divides by the whole batch,
 * under every strategy, whatever the shares: uneven, of no samples, different from batch to batch
 * of a window.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/ranked.h"

enum { RANKS = 3, LENGTH = 4, SAMPLES = 22, BATCH = 5, EPOCHS = 4, BYTES = 256, VALUES = 2 };
enum { SETTINGS = 5, STEPS_MAX = EPOCHS * 5, HELD_OUT = 2, OWN_SAMPLES = 7, SECOND_BATCH = 4 };

struct scene {
    const char *strategy, *precision, *accumulation;
    bool by_tokens;
    int world;
    bool means;  /* else each rank divides by the batch's denominator */
    bool joins;  /* data of the program's own: OWN_SAMPLES, dealt by wk_split */
    bool beside; /* a loader that is asked before each of its passes */
    bool two;    /* models, each with a loader and an optimizer of its own */
    char path[256];
    /* Of rank 0: */
    float weights[BYTES * VALUES];
    double losses[STEPS_MAX + 1], held_out[STEPS_MAX + 1];
    float second_weights[BYTES * VALUES];
    double second_losses[STEPS_MAX + 1];
    int64_t steps;
};

struct rank {
    struct scene *scene;
    struct ranked place;
    int id;
    float *data[2], *grad[2];
};

/* A value per byte, learned by the square of what is between it and its successor's. */
static double pass(const struct rank *rank, const struct wk_batch *batch, double divisor,
                   bool learn)
{
    double loss = 0;
    for (int64_t i = 0; i < batch->samples * batch->length; i++) {
        float *value = rank->data[0] + batch->tokens[i] * VALUES;
        float *bias = rank->data[1];
        for (int v = 0; v < VALUES; v++) {
            float want = (float)batch->targets[i] / 256 + (float)v;
            float off = value[v] + bias[v] - want;
            loss += (double)off * (double)off;
            if (!learn)
                continue;
            rank->grad[0][batch->tokens[i] * VALUES + v] += (float)((double)(2 * off) / divisor);
            rank->grad[1][v] += (float)((double)(2 * off) / divisor);
        }
    }
    return loss / divisor; /* NaN of a share of none, where it is a mean */
}

static struct wk_context *open_as(struct rank *rank)
{
    struct scene *scene = rank->scene;
    const struct wk_setting settings[SETTINGS] = {
        {"strategy", scene->strategy},
        {"mixed_precision", scene->precision},
        {"gradient_accumulation_steps", scene->accumulation},
        {"accumulate_by_tokens", scene->by_tokens ? "true" : "false"},
        {"log_every", "1000"},
    };
    const struct wk_options options = {.settings = settings, .n_settings = SETTINGS};
    const struct context_seams seams = {.environment = &rank->place.environment, .quiet = true};
    struct wk_context *ctx;
    CHECK(context_open(&options, &seams, &ctx) == 0);
    return ctx;
}

static struct wk_model *model_in(struct wk_context *ctx, struct rank *rank)
{
    static const size_t sizes[] = {BYTES * VALUES, VALUES};
    static const struct wk_buffer buffers[] = {
        {.name = "table", .dims = 2, .shape = {BYTES, VALUES}},
        {.name = "bias", .dims = 1, .shape = {VALUES}},
    };
    bool arrays = strcmp(rank->scene->precision, "no") == 0; /* else matrices are to be rounded */
    const struct wk_custom_options options = {
        .count = 2,
        .sizes = arrays ? sizes : NULL,
        .buffers = arrays ? NULL : buffers,
        .data = rank->data,
        .grads = rank->grad,
        .mean_of_share = rank->scene->means,
    };
    return wk_custom_in(ctx, &options);
}

static double held_out_loss(const struct rank *rank, struct wk_context *ctx,
                            struct wk_loader *loader)
{
    double sum = 0;
    int batches = 0;
    for (struct wk_batch batch; wk_next(loader, &batch); batches++) {
        double own = pass(rank, &batch, (double)(batch.samples * batch.length), false);
        sum += wk_batch_mean(ctx, &batch, own);
    }
    CHECK(batches == HELD_OUT);
    return sum / batches;
}

static void train(struct rank *rank, struct wk_context *ctx)
{
    struct scene *scene = rank->scene;
    struct wk_loader_options deal = {.length = LENGTH, .batch = BATCH, .sequential = true};
    struct wk_loader_options look = deal;
    deal.epochs = EPOCHS;
    look.batches = HELD_OUT;
    look.evaluation = true;
    struct wk_loader *loader = wk_loader_in(ctx, scene->path, &deal);
    struct wk_loader *held_out = wk_loader_in(ctx, scene->path, &look);
    struct wk_model *model = model_in(ctx, rank);
    struct wk_optimizer *sgd = wk_sgd_in(ctx, &(struct wk_sgd_options){.rate = 0.3});
    CHECK(loader && held_out && model && sgd);
    CHECK(wk_prepare(ctx, NULL, 0) == 0);
    for (struct wk_batch batch; wk_next(loader, &batch);) {
        for (int p = 0; p < 2; p++)
            CHECK(rank->data[p] == wk_parameter_data(model, p) && rank->data[p] &&
                  rank->grad[p] == wk_parameter_grad(model, p) && rank->grad[p]);
        double seen = held_out_loss(rank, ctx, held_out);
        double own = (double)(batch.samples * batch.length);
        CHECK(wk_update(sgd, pass(rank, &batch, scene->means ? own : batch.denominator, true)) ==
              0);
        if (!wk_step_taken(sgd) || wk_rank(ctx) != 0)
            continue;
        scene->steps = wk_steps(ctx);
        scene->losses[scene->steps] = wk_loss(ctx);
        scene->held_out[scene->steps] = seen;
    }
    CHECK(wk_gather_parameters(model) == 0);
    if (wk_rank(ctx) == 0)
        memcpy(scene->weights, rank->data[0], sizeof(scene->weights));
}

/* wk_join's weight is then how many samples there are. */
static void train_joined(struct rank *rank, struct wk_context *ctx)
{
    static const int32_t tokens[OWN_SAMPLES] = {3, 1, 4, 1, 5, 9, 2};
    static const int32_t targets[OWN_SAMPLES] = {60, 50, 40, 30, 20, 10, 0};
    struct scene *scene = rank->scene;
    int64_t first, count;
    struct wk_model *model = model_in(ctx, rank);
    struct wk_optimizer *sgd = wk_sgd_in(ctx, &(struct wk_sgd_options){.rate = 0.3});
    struct wk_loader_options deal = {.length = LENGTH, .batch = BATCH, .epochs = EPOCHS + 1};
    struct wk_loader *loader = scene->beside ? wk_loader_in(ctx, scene->path, &deal) : NULL;
    CHECK(wk_prepare(ctx, NULL, 0) == 0);
    wk_split(ctx, OWN_SAMPLES, false, &first, &count);
    struct wk_batch batch = {tokens + first, targets + first, count, 1, .denominator = 0};
    for (int step = 1; step <= STEPS_MAX; step++) {
        struct wk_batch other;
        CHECK(wk_join(ctx, (double)count));
        CHECK(!loader || wk_next(loader, &other));
        double loss = pass(rank, &batch, scene->means ? (double)count : 1, true);
        CHECK(wk_update(sgd, loss) == 0);
        if (!wk_step_taken(sgd) || wk_rank(ctx) != 0)
            continue;
        scene->steps = wk_steps(ctx);
        scene->losses[scene->steps] = wk_loss(ctx);
    }
    CHECK(!wk_join(ctx, 0) && wk_gather_parameters(model) == 0);
    if (wk_rank(ctx) == 0)
        memcpy(scene->weights, rank->data[0], sizeof(scene->weights));
}

/* The divisor of a pass over `batch`: its loss is a mean over the share, or a part of the batch's.
 */
static double divisor(const struct scene *scene, const struct wk_batch *batch)
{
    return scene->means ? (double)(batch->samples * batch->length) : batch->denominator;
}

/* The second model's batch is asked for while the sums of the first one's gradients are on their
 * way, and has other shares. */
static void train_two(struct rank *rank, struct wk_context *ctx)
{
    struct scene *scene = rank->scene;
    struct rank other = {.scene = scene};
    struct wk_loader_options deal = {.length = LENGTH, .batch = BATCH, .sequential = true};
    struct wk_loader_options more = deal;
    deal.epochs = EPOCHS;
    more.batch = SECOND_BATCH;
    struct wk_loader *loaders[] = {wk_loader_in(ctx, scene->path, &deal),
                                   wk_loader_in(ctx, scene->path, &more)};
    struct wk_model *models[] = {model_in(ctx, rank), model_in(ctx, &other)};
    struct wk_optimizer *sgd[] = {wk_sgd_in(ctx, &(struct wk_sgd_options){.rate = 0.3}),
                                  wk_sgd_in(ctx, &(struct wk_sgd_options){.rate = 0.2})};
    for (int m = 0; m < 2; m++)
        CHECK(wk_optimizer_over(sgd[m], models[m]) == 0);
    CHECK(wk_prepare(ctx, NULL, 0) == 0);
    for (struct wk_batch batch; wk_next(loaders[0], &batch);) {
        CHECK(wk_set_loss(models[0], pass(rank, &batch, divisor(scene, &batch), true)) == 0);
        CHECK(wk_backward(models[0]) == 0 && wk_next(loaders[1], &batch));
        CHECK(wk_set_loss(models[1], pass(&other, &batch, divisor(scene, &batch), true)) == 0);
        CHECK(wk_backward(models[1]) == 0 && wk_step(sgd[0]) == 0 && wk_step(sgd[1]) == 0);
        if (!wk_step_taken(sgd[1]) || wk_rank(ctx) != 0)
            continue;
        scene->steps = wk_steps(ctx);
        scene->losses[scene->steps] = wk_model_loss(models[0]);
        scene->second_losses[scene->steps] = wk_model_loss(models[1]);
    }
    CHECK(wk_gather_parameters(models[0]) == 0 && wk_gather_parameters(models[1]) == 0);
    if (wk_rank(ctx) == 0) {
        memcpy(scene->weights, rank->data[0], sizeof(scene->weights));
        memcpy(scene->second_weights, other.data[0], sizeof(scene->second_weights));
    }
}

static void *rank_main(void *arg)
{
    struct rank *rank = arg;
    struct wk_context *ctx = open_as(rank);
    if (rank->scene->two)
        train_two(rank, ctx);
    else if (rank->scene->joins)
        train_joined(rank, ctx);
    else
        train(rank, ctx);
    if (wk_finish(ctx) != 0)
        CHECK(false);
    return NULL;
}

static void run(struct scene *scene)
{
    struct rank ranks[RANKS] = {0};
    pthread_t threads[RANKS];
    struct tmpdir folder = tmpdir_make();
    int port = ranked_port();
    snprintf(scene->path, sizeof(scene->path), "%s", tmpdir_path(&folder, "text"));
    FILE *file = fopen(scene->path, "w");
    CHECK(file != NULL);
    for (int i = 0; i <= SAMPLES * LENGTH; i++)
        fputc("abcdefghijklm"[i * i % 13], file);
    CHECK(fclose(file) == 0);
    for (int i = 0; i < scene->world; i++) {
        ranks[i].scene = scene;
        ranks[i].id = i;
        ranked_init(&ranks[i].place, i, scene->world, port);
        CHECK(pthread_create(&threads[i], NULL, rank_main, &ranks[i]) == 0);
    }
    for (int i = 0; i < scene->world; i++)
        pthread_join(threads[i], NULL);
    tmpdir_remove(&folder);
}

/* Sums of at most 20 floats near 1, in another order, over 20 steps; in narrow types a value may
 * come to lie on the other side of where it is rounded. */
static void compare(const struct scene *a, const struct scene *b)
{
    double bound = strcmp(a->precision, "no") == 0 ? 2e-6 : 2e-2;
    CHECK(a->steps == b->steps && a->steps > 0);
    for (int i = 1; i <= a->steps; i++)
        CHECK(fabs(a->losses[i] - b->losses[i]) <= bound * fmax(1, fabs(b->losses[i])) &&
              fabs(a->held_out[i] - b->held_out[i]) <= bound * fmax(1, fabs(b->held_out[i])) &&
              fabs(a->second_losses[i] - b->second_losses[i]) <=
                  bound * fmax(1, fabs(b->second_losses[i])));
    for (int i = 0; i < BYTES * VALUES; i++)
        CHECK(fabs((double)(a->weights[i] - b->weights[i])) <= bound &&
              fabs((double)(a->second_weights[i] - b->second_weights[i])) <= bound);
}

static void everywhere(struct scene scene)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
    struct scene alone = scene, spread;
    alone.strategy = "ddp";
    alone.world = 1;
    run(&alone);
    for (int s = 0; s < 4; s++) {
        for (int world = 1; world <= RANKS; world++) {
            spread = scene;
            spread.strategy = strategies[s];
            spread.world = world;
            spread.means = true;
            run(&spread);
            compare(&spread, &alone);
        }
    }
}

static void means_over_shares_train_as_the_mean_over_the_batch(void)
{
    everywhere((struct scene){.precision = "no", .accumulation = "1"});
}

/* Five batches of 5, 5, 5, 5 and 2: the last window's shares differ, and rank 2 has none of it. */
static void shares_that_differ_within_a_window_count_as_they_are(void)
{
    everywhere((struct scene){.precision = "no", .accumulation = "5"});
    everywhere((struct scene){.precision = "no", .accumulation = "5", .by_tokens = true});
}

static void in_narrow_types_too(void)
{
    everywhere((struct scene){.precision = "bf16", .accumulation = "5"});
    everywhere((struct scene){.precision = "fp16", .accumulation = "2"});
}

static void data_of_the_programs_own_is_weighed_by_its_samples(void)
{
    everywhere((struct scene){.precision = "no", .accumulation = "1", .joins = true});
    everywhere((struct scene){.precision = "no", .accumulation = "4", .joins = true});
}

static void a_loader_beside_the_programs_data_does_not_weigh_them(void)
{
    everywhere(
        (struct scene){.precision = "no", .accumulation = "1", .joins = true, .beside = true});
}

static void another_models_batch_leaves_sums_on_their_way_as_they_are(void)
{
    everywhere((struct scene){.precision = "no", .accumulation = "1", .two = true});
    everywhere((struct scene){.precision = "no", .accumulation = "2", .two = true});
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(means_over_shares_train_as_the_mean_over_the_batch),
        CHECK_CASE(shares_that_differ_within_a_window_count_as_they_are),
        CHECK_CASE(in_narrow_types_too),
        CHECK_CASE(data_of_the_programs_own_is_weighed_by_its_samples),
        CHECK_CASE(a_loader_beside_the_programs_data_does_not_weigh_them),
        CHECK_CASE(another_models_batch_leaves_sums_on_their_way_as_they_are),
        {0},
    };
    return check_all(cases, argc, argv);
}
