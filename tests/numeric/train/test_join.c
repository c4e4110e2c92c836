/* Programs that bring their own data, of which ranks have different amounts: nobody hangs, and each
 * step is the mean over what was given.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { RANKS = 3, PARAMS = 2, COUNT = 40 * 30 + 50, BATCHES_MAX = 16 };
enum { UPDATE = 6 };                 /* roundings: a sum over the ranks, the mean, the step */
enum { LOOKS = 3, LOOK_LENGTH = 2 }; /* batches of an evaluation, of a sample for each rank */

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
    /* Each step evaluates; in the one after `disturbed_at` rank 1 does this before the last batch
     * of its evaluation, which the others have begun: */
    void (*disturb)(struct fake_cluster *);
    int disturbed_at;
    atomic_int on_last;
    /* Results: */
    float weights[RANKS][COUNT];
    double losses[RANKS][BATCHES_MAX + 1];
    int64_t steps[RANKS];
    int given[RANKS], status[RANKS];
};

struct rank {
    struct scene *scene;
    struct session *session;
    struct fake_cluster *cluster;
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

/* Between wk_join and the passes: an evaluation inside the step. */
static void evaluate(struct rank *r, struct wk_context *ctx, struct wk_loader *held_out)
{
    struct scene *scene = r->scene;
    bool disturbed = scene->disturb && wk_steps(ctx) == scene->disturbed_at;
    struct wk_batch batch;
    for (int seen = 0;; seen++) {
        bool last = disturbed && seen == LOOKS - 1 && ctx->group.generation == 1;
        while (last && r->id == 1 && atomic_load(&scene->on_last) < RANKS - 1)
            usleep(1000);
        if (last && r->id == 1)
            scene->disturb(r->cluster);
        if (!wk_next(held_out, &batch))
            return;
        if (last && r->id != 1)
            atomic_fetch_add(&scene->on_last, 1);
        (void)wk_batch_mean(ctx, &batch, 1);
    }
}

static void loop(struct rank *r, struct wk_context *ctx, struct wk_model *model,
                 struct wk_optimizer *optimizer, struct wk_loader *held_out)
{
    struct scene *scene = r->scene;
    int next = 0, taken = 0;
    while (wk_join(ctx, next < scene->batches[r->id] ? scene->weight[r->id] : 0)) {
        int64_t before = wk_steps(ctx);
        if (scene->leaves_at && r->id == scene->leaves && before == scene->leaves_at)
            return;
        if (scene->disturb)
            evaluate(r, ctx, held_out);
        if (next < scene->batches[r->id])
            passes(r, model, next++);
        wk_backward(model);
        wk_step(optimizer);
        if (wk_steps(ctx) > before) {
            taken = next;
            scene->losses[r->id][wk_steps(ctx)] = wk_loss(ctx);
        } else if (scene->leaves_at || scene->disturb) {
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
    struct wk_source *source;
    struct wk_loader *held_out;
    CHECK(context_open(&options, &seams, &ctx) == 0);
    CHECK(wk_source_bytes(ctx, "held out", 1 + RANKS * LOOK_LENGTH, &source) == 0);
    struct wk_loader_options look = {.source = source,
                                     .length = LOOK_LENGTH,
                                     .batch = RANKS,
                                     .batches = LOOKS,
                                     .evaluation = true};
    CHECK(wk_custom_new(buffers, PARAMS, &model) == 0 && wk_sgd_new(&sgd, &optimizer) == 0);
    CHECK(wk_loader_new(ctx, &look, &held_out) == 0);
    if (wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(optimizer), WK_OBJECT(held_out)))
        fprintf(stderr, "%s\n", wk_last_error(ctx));
    CHECK(wk_status(ctx) == 0);
    loop(r, ctx, model, optimizer, held_out);
    scene->status[r->id] = wk_status(ctx);
    scene->steps[r->id] = wk_steps(ctx);
    if (!wk_status(ctx) && !(scene->leaves_at && r->id == scene->leaves)) {
        wk_gather_parameters(model);
        memcpy(scene->weights[r->id], wk_parameter_data(model, 0), counts[0] * sizeof(float));
        memcpy(scene->weights[r->id] + counts[0], wk_parameter_data(model, 1),
               counts[1] * sizeof(float));
    }
    wk_close(ctx);
    wk_loader_free(held_out);
    wk_source_free(source);
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
        ranks[i] = (struct rank){scene, fake_session(&cluster, i), &cluster, i};
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

static void stop_rank_1(struct fake_cluster *cluster)
{
    fake_stop_one(cluster, 1);
    fake_form(cluster, (const int[]){0, 2}, 2);
}

static void renew(struct fake_cluster *cluster)
{
    fake_form(cluster, (const int[]){0, 1, 2}, RANKS);
}

/* The others are in the sums of a batch that rank 1 never sees. Rank 1 leaves the step with the
 * evaluation, and the others begin the step again without it. */
static void a_stop_heard_in_an_evaluation_inside_a_step(void)
{
    static double weights[COUNT], losses[BATCHES_MAX + 1];
    struct scene whole = {.batches = {8, 3, 6}, .weight = {1, 1, 1}};
    struct scene scene = {.strategy = "ddp",
                          .batches = {8, 8, 6},
                          .weight = {1, 1, 1},
                          .disturb = stop_rank_1,
                          .disturbed_at = 3};
    int64_t steps = reference(&whole, 1, weights, losses);
    run(&scene);
    CHECK(scene.status[1] == WK_ESTOPPED && scene.steps[1] == 3);
    for (int r = 0; r < RANKS; r += 2) {
        CHECK(scene.status[r] == 0 && scene.steps[r] == steps);
        CHECK(scene.given[r] == scene.batches[r]);
        for (size_t i = 0; i < COUNT; i++)
            CHECK(fabs((double)scene.weights[r][i] - weights[i]) <
                  rounding_bound(BATCHES_MAX * UPDATE));
    }
}

/* Likewise; rank 1 stays. */
static void a_generation_heard_of_in_an_evaluation_inside_a_step(void)
{
    struct scene scene = {.strategy = "ddp",
                          .batches = {8, 8, 6},
                          .weight = {1, 1, 1},
                          .disturb = renew,
                          .disturbed_at = 3};
    compare(&scene, 1);
}

/* One sequence of samples for all ranks, cut by wk_split before wk_join is called. */
enum { GANG_STEPS = 40, GANG_BATCH = 12, GROWS_AT = 8, LOSES_AT = 20, SHRINKS_AT = 30 };

struct gang {
    const char *strategy;
    bool changes, loses;
    struct fake_cluster cluster;
    struct gang_member {
        struct gang *gang;
        int id;
        pthread_t thread;
        int64_t voids; /* passes that came to nothing */
        float weights[2], *data, *grads;
        double losses[GANG_STEPS + 1];
    } members[RANKS];
};

static void *gang_rank(void *arg);

static void start(struct gang *gang, int id)
{
    struct gang_member *m = &gang->members[id];
    *m = (struct gang_member){.gang = gang, .id = id};
    pthread_create(&m->thread, NULL, gang_rank, m);
}

/* Worker 2 comes; it is lost in the middle of a step, or stays; worker 1 is told to stop. */
static void change(struct gang *gang, int64_t steps)
{
    if (steps == GROWS_AT) {
        fake_form(&gang->cluster, (const int[]){0, 1, 2}, 3);
        start(gang, 2);
    } else if (steps == SHRINKS_AT) {
        fake_stop_one(&gang->cluster, 1);
        fake_form(&gang->cluster, (const int[]){0, 2}, gang->loses ? 1 : 2);
    }
}

static void only_two_go_on(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){0, 1}, 2);
}

/* The sum over its share; of the second parameter the same number from every sample. */
static void gang_pass(struct wk_context *ctx, struct wk_model *model, int64_t at, int64_t count)
{
    CHECK(*model->bound_grads == wk_parameter_grad(model, 0));
    CHECK(*model->bound_data == wk_parameter_data(model, 0));
    double sum = 0, draw = wk_random(ctx);
    for (int64_t i = 0; i < count; i++)
        sum += (double)((wk_steps(ctx) * GANG_BATCH + at + i) * 7 % 13);
    wk_parameter_grad(model, 0)[0] += (float)sum;
    wk_parameter_grad(model, 0)[1] += (float)(draw * (double)count);
    wk_grad_ready(model, 0);
    wk_set_loss(model, sum);
}

static void gang_loop(struct gang_member *m, struct wk_context *ctx, struct wk_model *model,
                      struct wk_optimizer *optimizer)
{
    CHECK(wk_bind_parameters(model, &m->data, &m->grads) == 0);
    for (;;) {
        int64_t at, count, before;
        wk_split(ctx, GANG_BATCH, false, &at, &count);
        if (!wk_join(ctx, (double)count))
            return;
        before = wk_steps(ctx);
        if (m->gang->loses && m->id == 2 && before == LOSES_AT)
            return;
        gang_pass(ctx, model, at, count);
        wk_backward(model);
        wk_step(optimizer);
        CHECK(m->data == wk_parameter_data(model, 0));
        CHECK(m->grads == wk_parameter_grad(model, 0));
        m->voids += wk_steps(ctx) == before;
        if (wk_steps(ctx) == before)
            continue;
        m->losses[wk_steps(ctx)] = wk_loss(ctx);
        if (m->id == 0 && m->gang->changes)
            change(m->gang, wk_steps(ctx));
    }
}

static void *gang_rank(void *arg)
{
    struct gang_member *m = arg;
    struct environment environment = {nothing, NULL};
    struct context_seams seams = {.environment = &environment,
                                  .session = fake_session(&m->gang->cluster, m->id),
                                  .quiet = true};
    struct wk_setting settings[] = {{"strategy", m->gang->strategy}, {"total_steps", "40"}};
    struct wk_options options = {.settings = settings, .n_settings = 2};
    struct wk_buffer buffer = {.name = "w", .dims = 1, .shape = {2}};
    struct wk_sgd_options sgd = {.rate = 1};
    struct wk_context *ctx;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    CHECK(context_open(&options, &seams, &ctx) == 0);
    CHECK(wk_custom_new(&buffer, 1, &model) == 0 && wk_sgd_new(&sgd, &optimizer) == 0);
    CHECK(wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(optimizer)) == 0);
    gang_loop(m, ctx, model, optimizer);
    if (m->id == 0) {
        CHECK(wk_status(ctx) == 0 && wk_steps(ctx) == GANG_STEPS);
        CHECK(wk_gather_parameters(model) == 0);
        memcpy(m->weights, wk_parameter_data(model, 0), sizeof(m->weights));
    }
    wk_close(ctx);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
    return NULL;
}

static void gang_run(struct gang *gang, int n)
{
    fake_init(&gang->cluster);
    gang->cluster.on_lost = gang->loses ? only_two_go_on : NULL;
    fake_form(&gang->cluster, (const int[]){0, 1}, n);
    for (int i = 0; i < n; i++)
        start(gang, i);
    pthread_join(gang->members[0].thread, NULL);
    for (int i = 1; i < n + gang->changes; i++)
        pthread_join(gang->members[i].thread, NULL);
    fake_fini(&gang->cluster);
}

static void shares_taken_before_the_world_changed_are_never_used(void)
{
    static struct gang alone = {.strategy = "ddp"};
    static struct gang gangs[] = {
        {.strategy = "ddp", .changes = true, .loses = true},
        {.strategy = "ddp", .changes = true},
        {.strategy = "zero1", .changes = true},
        {.strategy = "fsdp", .changes = true},
    };
    gang_run(&alone, 1);
    for (size_t g = 0; g < sizeof(gangs) / sizeof(gangs[0]); g++) {
        const struct gang_member *m = &gangs[g].members[0], *one = &alone.members[0];
        gang_run(&gangs[g], 2);
        printf("%s: %g and %g instead of %g and %g, %lld passes void\n", gangs[g].strategy,
               (double)m->weights[0], (double)m->weights[1], (double)one->weights[0],
               (double)one->weights[1], (long long)m->voids);
        for (int step = 1; step <= GANG_STEPS; step++)
            CHECK(fabs(m->losses[step] - one->losses[step]) < 1e-5);
        for (int i = 0; i < 2; i++)
            CHECK(fabs((double)(m->weights[i] - one->weights[i])) < 1e-3);
        CHECK(m->voids >= 2 && m->voids <= 4);
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(each_step_is_the_mean_over_those_who_take_part),
        CHECK_CASE(weights_are_those_of_samples),
        CHECK_CASE(a_window_that_data_ends_in_is_a_mean_over_what_came),
        CHECK_CASE(a_lost_rank_ends_nothing),
        CHECK_CASE(a_stop_heard_in_an_evaluation_inside_a_step),
        CHECK_CASE(a_generation_heard_of_in_an_evaluation_inside_a_step),
        CHECK_CASE(shares_taken_before_the_world_changed_are_never_used),
        {0},
    };
    return check_all(cases, argc, argv);
}
