/* Losses are divided by what counts in the whole batch: masks that are uneven over ranks and over
 * the batches of a window give what one process with all of the samples gives.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/masked.h"
#include "tests/numeric/train/toy.h"
#include "tests/numeric/train/variant.h"

enum { STRATEGIES = 4, RANKS_MAX = 3, BATCH = 7, WINDOW = 2, STEPS = 12 };
static const char *const strategies[STRATEGIES] = {"ddp", "zero1", "zero2", "fsdp"};

/* Messages that count: sums of a few doubles. */
static atomic_int counting;
int __real_wk_all_reduce(struct wk_comm *, void *, size_t, enum wk_dtype, enum wk_op,
                         struct wk_work **);
int __wrap_wk_all_reduce(struct wk_comm *, void *, size_t, enum wk_dtype, enum wk_op,
                         struct wk_work **);
int __wrap_wk_all_reduce(struct wk_comm *comm, void *data, size_t count, enum wk_dtype type,
                         enum wk_op op, struct wk_work **request)
{
    if (type == WK_F64)
        atomic_fetch_add(&counting, 1);
    return __real_wk_all_reduce(comm, data, count, type, op, request);
}

/* As test_graphs.c counts them: two products of the MLP, qkv, scores and the head are the longest
 * way; a gradient sums over the positions of a window. */
static struct apart bounds(void)
{
    const double forward = 2 * 32 + 3 * 16 + 3 * 16 + MASKED_LENGTH;
    const double gradient = 3 * forward + WINDOW * BATCH * MASKED_LENGTH;
    struct rounding_weights weights = rounding_adam(gradient, VARIANT_STEPS * 3e-3);
    return (struct apart){.losses = rounding_bound(forward) / sqrt(BATCH) + weights.mean,
                          .norms = rounding_bound(gradient),
                          .weights = weights.largest,
                          .mean_weight = weights.mean};
}

static void compare(const struct variant *v, const char *name, const struct outcome *one)
{
    static struct outcome other;
    struct apart most = bounds(), apart;
    variant_run(v, &other);
    apart = outcome_apart(one, &other);
    printf("%s, %s on %d, accumulation %s: losses %.1e, norms %.1e, weights %.1e, %.1e on "
           "average\n",
           name, v->strategy, v->ranks, v->accumulation, apart.losses, apart.norms, apart.weights,
           apart.mean_weight);
    CHECK(apart.losses < most.losses && apart.norms < most.norms);
    CHECK(apart.weights < most.weights && apart.mean_weight < most.mean_weight);
}

static void uneven_masks_are_one_batch(void)
{
    static struct outcome one;
    for (int kind = 0; kind < MASKED_KINDS; kind++) {
        struct variant v = {.strategy = "ddp",
                            .ranks = 1,
                            .accumulation = "1",
                            .batch = WINDOW * BATCH,
                            .graph = masked_kinds[kind].build,
                            .rows = masked_kinds[kind].rows};
        variant_run(&v, &one);
        for (int i = 0; i < STRATEGIES * RANKS_MAX; i++) {
            v.strategy = strategies[i / RANKS_MAX];
            v.ranks = 1 + i % RANKS_MAX;
            v.accumulation = "1";
            v.batch = WINDOW * BATCH;
            compare(&v, masked_kinds[kind].name, &one);
            v.accumulation = "2";
            v.batch = BATCH;
            compare(&v, masked_kinds[kind].name, &one);
        }
    }
}

static void only_what_values_say_costs_a_message(void)
{
    static struct outcome outcome;
    struct variant v = {.strategy = "ddp",
                        .ranks = 2,
                        .accumulation = "2",
                        .batch = BATCH,
                        .graph = masked_kinds[0].build,
                        .rows = masked_kinds[0].rows};
    counting = 0;
    variant_run(&v, &outcome);
    int counted = counting;
    v.graph = masked_per_element;
    counting = 0;
    variant_run(&v, &outcome);
    printf("messages of two ranks in %d steps: %d, and %d\n", STEPS, counted, counting);
    CHECK(counting == 0 && counted == 2 * STEPS);
    v.graph = NULL;
    v.rows = NULL;
    variant_run(&v, &outcome);
    CHECK(counting == 0);
}

static bool leave_after_5(void *arg, struct wk_context *ctx)
{
    (void)arg;
    return wk_steps(ctx) == 5;
}

static void the_others_go_on(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){0, 1}, 2);
}

/* The last rank vanishes in the middle of a window, which the others count again. */
static void run_with_a_loss(int ranks, double *ret_losses)
{
    static struct toy toys[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    struct fake_cluster cluster;
    memset(toys, 0, sizeof(toys));
    fake_init(&cluster);
    cluster.on_lost = the_others_go_on;
    fake_form(&cluster, (const int[]){0, 1, 2}, ranks);
    for (int i = 0; i < ranks; i++) {
        toys[i].session = fake_session(&cluster, i);
        toys[i].graph = masked_kinds[3].build;
        toys[i].rows = masked_kinds[3].rows;
        toys[i].batch = BATCH;
        toys[i].stepped = i == 2 ? leave_after_5 : NULL;
        toys[i].leave_reducing = true;
        toy_set(&toys[i], "total_steps", "12");
        toy_set(&toys[i], "gradient_accumulation_steps", "2");
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < ranks; i++)
        pthread_join(threads[i], NULL);
    CHECK(toys[0].status == 0);
    fake_fini(&cluster);
    memcpy(ret_losses, toys[0].losses, (STEPS + 1) * sizeof(*ret_losses));
}

static void a_window_that_breaks_is_counted_again(void)
{
    double alone[STEPS + 1], others[STEPS + 1], most = 0;
    run_with_a_loss(1, alone);
    run_with_a_loss(3, others);
    for (int i = 1; i <= STEPS; i++)
        most = fmax(most, fabs(alone[i] - others[i]) / alone[i]);
    printf("losses differ by %.1e\n", most);
    CHECK(most < bounds().losses);
}

/* A program's own batches, of which ranks have different numbers of samples. */
enum { OWN = 11 }; /* samples of a pass */
static const int own_shares[WINDOW][RANKS_MAX] = {{5, 0, 6}, {1, 7, 3}};

struct own {
    struct session *session;
    int rank, world;
    double losses[STEPS + 1], evaluated, last;
    char error[512];
};

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static void own_window(const struct own *own, int64_t step, struct masked_batch *ret)
{
    for (int pass = 0; pass < WINDOW; pass++) {
        int64_t first = (step * WINDOW + pass) * OWN;
        for (int r = 0; r < own->rank; r++)
            first += own_shares[pass][r];
        masked_fill(&ret[pass], first, own->world > 1 ? own_shares[pass][own->rank] : OWN);
    }
}

static void own_loop(struct own *own, struct wk_context *ctx, struct wk_model *model,
                     struct wk_optimizer *optimizer)
{
    struct masked_batch window[WINDOW];
    for (int64_t step = 0; step < STEPS; step++) {
        own_window(own, step, window);
        for (int pass = 0; pass < WINDOW; pass++) {
            CHECK(wk_join(ctx, (double)window[pass].batch.samples));
            if (!pass)
                wk_count_batches(model, (struct wk_batch[]){window[0].batch, window[1].batch}, 2);
            wk_forward(model, &window[pass].batch, NULL);
            wk_backward(model);
            wk_step(optimizer);
        }
        own->losses[step + 1] = wk_loss(ctx);
    }
}

/* One batch more, and then no rank has data: the window is the mean over what came. */
static void own_end(struct own *own, struct wk_context *ctx, struct wk_model *model,
                    struct wk_optimizer *optimizer)
{
    struct masked_batch window[WINDOW];
    const struct wk_batch none = {.length = MASKED_LENGTH};
    int64_t steps = wk_steps(ctx);
    own_window(own, STEPS, window);
    CHECK(wk_join(ctx, (double)window[0].batch.samples));
    wk_count_batches(model, &window[0].batch, 1);
    wk_forward(model, &window[0].batch, &own->last);
    wk_backward(model);
    wk_step(optimizer);
    CHECK(wk_steps(ctx) == steps && wk_join(ctx, 0));
    wk_forward(model, &none, NULL);
    wk_backward(model);
    wk_step(optimizer);
    CHECK(wk_steps(ctx) == steps + 1 && !wk_join(ctx, 0));
    CHECK(wk_reduce_value(ctx, &own->last, WK_SUM) == 0);
    CHECK(fabs(wk_loss(ctx) - own->last) < bounds().losses * own->last);
}

/* The mean over the ranks of what is held out. */
static void own_look(struct own *own, struct wk_context *ctx, struct wk_model *model,
                     struct wk_loader *held_out)
{
    double loss;
    for (struct wk_batch batch; wk_next(held_out, &batch);) {
        CHECK(wk_evaluate(model, &batch, &loss, NULL) == 0);
        own->evaluated += loss;
    }
    CHECK(wk_reduce_value(ctx, &own->evaluated, WK_SUM) == 0);
}

static void *own_rank(void *arg)
{
    static const struct environment empty = {nothing, NULL};
    struct own *own = arg;
    struct context_seams seams = {.environment = &empty, .session = own->session, .quiet = true};
    struct wk_setting settings[] = {{"gradient_accumulation_steps", "2"}};
    struct wk_options options = {.settings = settings, .n_settings = 1};
    struct wk_sgd_options sgd = {.rate = 0.1};
    struct wk_source *source;
    struct wk_loader *held_out;
    struct wk_context *ctx;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    CHECK(context_open(&options, &seams, &ctx) == 0);
    CHECK(wk_source_rows(ctx, masked_kinds[3].rows, &source) == 0);
    CHECK(wk_loader_new(ctx,
                        &(struct wk_loader_options){
                            .source = source, .batch = 10, .epochs = 1, .evaluation = true},
                        &held_out) == 0);
    CHECK(wk_graph_model(masked_kinds[3].build(), &model) == 0);
    CHECK(wk_sgd_new(&sgd, &optimizer) == 0);
    CHECK(wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(optimizer), WK_OBJECT(held_out)) == 0);
    own_look(own, ctx, model, held_out);
    own_loop(own, ctx, model, optimizer);
    own_end(own, ctx, model, optimizer);
    snprintf(own->error, sizeof(own->error), "%s", wk_last_error(ctx));
    wk_close(ctx);
    wk_loader_free(held_out);
    wk_source_free(source);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
    return NULL;
}

static void run_own(int world, struct own *owns)
{
    pthread_t threads[RANKS_MAX];
    struct fake_cluster cluster;
    fake_init(&cluster);
    fake_form(&cluster, (const int[]){0, 1, 2}, world);
    for (int i = 0; i < world; i++) {
        owns[i] = (struct own){.session = fake_session(&cluster, i), .rank = i, .world = world};
        pthread_create(&threads[i], NULL, own_rank, &owns[i]);
    }
    for (int i = 0; i < world; i++) {
        pthread_join(threads[i], NULL);
        CHECK(!*owns[i].error);
    }
    fake_fini(&cluster);
}

static void batches_of_ones_own_are_counted_when_asked(void)
{
    static struct own one[RANKS_MAX], others[RANKS_MAX];
    double most = 0;
    run_own(1, one);
    run_own(3, others);
    for (int i = 1; i <= STEPS; i++)
        most = fmax(most, fabs(one->losses[i] - others->losses[i]) / one->losses[i]);
    printf("losses differ by %.1e, from %.3f to %.3f\n", most, one->losses[1], one->losses[STEPS]);
    CHECK(one->losses[STEPS] < 0.9 * one->losses[1]);
    CHECK(most < bounds().losses);
    printf("evaluated: %.6f on 1, %.6f on 3\n", one->evaluated, others->evaluated);
    CHECK(fabs(one->evaluated - others->evaluated) < bounds().losses * one->evaluated);
}

static void counting_is_refused_with_a_sentence(void)
{
    static const struct environment empty = {nothing, NULL};
    struct context_seams seams = {.environment = &empty, .quiet = true};
    struct wk_options options = {.n_settings = 0};
    struct masked_batch own;
    struct wk_context *ctx;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    CHECK(context_open(&options, &seams, &ctx) == 0);
    CHECK(wk_graph_model(masked_kinds[3].build(), &model) == 0);
    CHECK(wk_sgd_new(&(struct wk_sgd_options){.rate = 0.1}, &optimizer) == 0);
    CHECK(wk_count_batches(NULL, NULL, 1) == WK_EINVAL);
    CHECK(wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(optimizer)) == 0);
    CHECK(wk_join(ctx, 1));
    masked_fill(&own, 0, 3);
    own.batch.n_tensors = 1;
    CHECK(wk_count_batches(model, &own.batch, 1) == WK_EINVAL);
    printf("%s\n", wk_last_error(ctx));
    CHECK(strstr(wk_last_error(ctx), "the batch has no input values; it has weights"));
    wk_close(ctx);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(uneven_masks_are_one_batch),
        CHECK_CASE(only_what_values_say_costs_a_message),
        CHECK_CASE(a_window_that_breaks_is_counted_again),
        CHECK_CASE(batches_of_ones_own_are_counted_when_asked),
        CHECK_CASE(counting_is_refused_with_a_sentence),
        {0},
    };
    return check_all(cases, argc, argv);
}
