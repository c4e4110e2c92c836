/* Programs that bring their own data, of which ranks have different amounts: nobody hangs, and each
 * step is the mean over what was given.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { RANKS = 3, PARAMS = 2, COUNT = 40 * 30 + 50, BATCHES_MAX = 16 };
enum { UPDATE = 6 }; /* roundings: a sum over the ranks, the mean, the step */

static const struct wk_buffer buffers[PARAMS] = {
    {.name = "matrix", .dims = 2, .shape = {40, 30}},
    {.name = "vector", .dims = 1, .shape = {50}},
};
static const size_t counts[PARAMS] = {40 * 30, 50};

struct scene {
    const char *strategy, *accumulation;
    int batches[RANKS];   /* how many each rank has */
    double weight[RANKS]; /* of each of its batches */
    bool no_announcements;
    int leaves, leaves_at; /* a rank that vanishes after so many steps; leaves_at 0: none */
    /* Results: */
    float weights[RANKS][COUNT];
    double losses[RANKS][BATCHES_MAX + 1];
    int64_t steps[RANKS];
    int given[RANKS], status[RANKS];
};

struct rank {
    struct scene *scene;
    struct session *session;
    int id;
};

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

/* Of the sum over a batch's samples, as the weights say. */
static double gradient(int rank, int batch, size_t i)
{
    return sin(0.7 * (double)i + 1.3 * rank + 0.4 * batch) + 0.1 * rank;
}

static double loss(int rank, int batch)
{
    return 1.0 + rank + 0.25 * batch;
}

static void passes(const struct rank *r, struct wk_model *model, int batch)
{
    size_t first = 0;
    wk_set_loss(model, loss(r->id, batch));
    for (int p = 0; p < PARAMS; first += counts[p++])
        for (size_t i = 0; i < counts[p]; i++)
            wk_parameter_grad(model, p)[i] += (float)gradient(r->id, batch, first + i);
    for (int p = 0; p < PARAMS && !r->scene->no_announcements; p++)
        wk_grad_ready(model, p);
}

static void loop(struct rank *r, struct wk_context *ctx, struct wk_model *model,
                 struct wk_optimizer *optimizer)
{
    struct scene *scene = r->scene;
    int next = 0, taken = 0;
    while (wk_join(ctx, next < scene->batches[r->id] ? scene->weight[r->id] : 0)) {
        int64_t before = wk_steps(ctx);
        if (scene->leaves_at && r->id == scene->leaves && before == scene->leaves_at)
            return;
        if (next < scene->batches[r->id])
            passes(r, model, next++);
        wk_backward(model);
        wk_step(optimizer);
        if (wk_steps(ctx) > before) {
            taken = next;
            scene->losses[r->id][wk_steps(ctx)] = wk_loss(ctx);
        } else if (scene->leaves_at) {
            next = taken; /* that step was lost: give its data again */
        }
    }
    scene->given[r->id] = next;
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct scene *scene = r->scene;
    struct environment environment = {nothing, NULL};
    struct context_seams seams = {
        .environment = &environment, .session = r->session, .quiet = true};
    struct wk_setting settings[] = {
        {"strategy", scene->strategy},
        {"gradient_accumulation_steps", scene->accumulation ? scene->accumulation : "1"},
        {"bucket_mib", "0.002"},
        {"first_bucket_mib", "0.001"},
    };
    struct wk_options options = {.settings = settings, .n_settings = 4};
    struct wk_sgd_options sgd = {.rate = 0.5};
    struct wk_context *ctx;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    CHECK(context_open(&options, &seams, &ctx) == 0);
    CHECK(wk_custom_new(buffers, PARAMS, &model) == 0 && wk_sgd_new(&sgd, &optimizer) == 0);
    if (wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(optimizer)))
        fprintf(stderr, "%s\n", wk_last_error(ctx));
    CHECK(wk_status(ctx) == 0);
    loop(r, ctx, model, optimizer);
    scene->status[r->id] = wk_status(ctx);
    scene->steps[r->id] = wk_steps(ctx);
    if (!wk_status(ctx) && !(scene->leaves_at && r->id == scene->leaves)) {
        wk_gather_parameters(model);
        memcpy(scene->weights[r->id], wk_parameter_data(model, 0), counts[0] * sizeof(float));
        memcpy(scene->weights[r->id] + counts[0], wk_parameter_data(model, 1),
               counts[1] * sizeof(float));
    }
    wk_close(ctx);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
    return NULL;
}

static void others_go_on(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){0, 2}, 2);
}

static void run(struct scene *scene)
{
    struct fake_cluster cluster;
    struct rank ranks[RANKS];
    pthread_t threads[RANKS];
    fake_init(&cluster);
    cluster.on_lost = others_go_on;
    fake_form(&cluster, (const int[]){0, 1, 2}, RANKS);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){scene, fake_session(&cluster, i), i};
        pthread_create(&threads[i], NULL, run_rank, &ranks[i]);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    fake_fini(&cluster);
}

/* The same in one process: windows of `accumulation` batches of each rank. */
static int64_t reference(const struct scene *scene, int accumulation, double *weights,
                         double *losses)
{
    int most = 0;
    int64_t step = 0;
    for (int r = 0; r < RANKS; r++)
        most = scene->batches[r] > most ? scene->batches[r] : most;
    memset(weights, 0, COUNT * sizeof(*weights));
    for (int batch = 0; batch < most; step++) {
        static double sums[COUNT];
        double total = 0, loss_sum = 0;
        memset(sums, 0, sizeof(sums));
        for (int pass = 0; pass < accumulation && batch < most; pass++, batch++)
            for (int r = 0; r < RANKS; r++) {
                if (batch >= scene->batches[r])
                    continue;
                total += scene->weight[r];
                loss_sum += loss(r, batch);
                for (size_t i = 0; i < COUNT; i++)
                    sums[i] += gradient(r, batch, i);
            }
        for (size_t i = 0; i < COUNT; i++)
            weights[i] -= 0.5 * sums[i] / total;
        losses[step + 1] = loss_sum / total;
    }
    return step;
}

static void compare(struct scene *scene, int accumulation)
{
    static double weights[COUNT], losses[BATCHES_MAX + 1];
    int64_t steps = reference(scene, accumulation, weights, losses);
    run(scene);
    for (int r = 0; r < RANKS; r++) {
        double most = 0;
        CHECK(scene->status[r] == 0 && scene->steps[r] == steps);
        CHECK(scene->given[r] == scene->batches[r]);
        for (size_t i = 0; i < COUNT; i++)
            most = fmax(most, fabs((double)scene->weights[r][i] - weights[i]));
        for (int64_t i = 1; i <= steps; i++)
            most = fmax(most, fabs(scene->losses[r][i] - losses[i]));
        CHECK(most < rounding_bound(BATCHES_MAX * UPDATE));
    }
}

static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};

static void each_step_is_the_mean_over_those_who_take_part(void)
{
    for (int i = 0; i < 4; i++) {
        struct scene scene = {.strategy = strategies[i], .batches = {5, 2, 9}, .weight = {1, 1, 1}};
        compare(&scene, 1);
        struct scene from_nothing = {
            .strategy = strategies[i], .batches = {0, 4, 1}, .weight = {1, 1, 1}};
        compare(&from_nothing, 1);
    }
}

static void weights_are_those_of_samples(void)
{
    struct scene scene = {.strategy = "ddp", .batches = {5, 2, 9}, .weight = {8, 3, 0.5}};
    compare(&scene, 1);
    scene.no_announcements = true;
    compare(&scene, 1);
}

static void a_window_that_data_ends_in_is_a_mean_over_what_came(void)
{
    for (int i = 0; i < 4; i++) {
        struct scene scene = {.strategy = strategies[i],
                              .accumulation = "4",
                              .batches = {6, 2, 9},
                              .weight = {1, 2, 3}};
        compare(&scene, 4);
    }
}

/* Rank 1 vanishes after step 3; the step that was under way is given again by the others. */
static void a_lost_rank_ends_nothing(void)
{
    static double weights[COUNT], losses[BATCHES_MAX + 1];
    struct scene whole = {.batches = {8, 3, 6}, .weight = {1, 1, 1}};
    struct scene scene = {
        .strategy = "ddp", .batches = {8, 8, 6}, .weight = {1, 1, 1}, .leaves = 1, .leaves_at = 3};
    int64_t steps = reference(&whole, 1, weights, losses);
    run(&scene);
    for (int r = 0; r < RANKS; r += 2) {
        CHECK(scene.status[r] == 0 && scene.steps[r] == steps);
        CHECK(scene.given[r] == scene.batches[r]);
        for (size_t i = 0; i < COUNT; i++)
            CHECK(fabs((double)scene.weights[r][i] - weights[i]) <
                  rounding_bound(BATCHES_MAX * UPDATE));
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(each_step_is_the_mean_over_those_who_take_part),
        CHECK_CASE(weights_are_those_of_samples),
        CHECK_CASE(a_window_that_data_ends_in_is_a_mean_over_what_came),
        CHECK_CASE(a_lost_rank_ends_nothing),
        {0},
    };
    return check_all(cases, argc, argv);
}
