/* Buffers are carried from step to step: a counter counts the passes of the steps that were taken,
 * whatever ends a step otherwise, under every strategy; all ranks have the same; checkpoints,
 * exports and newcomers get them. And batch norm: synchronised it is one process', local that of
 * one process that normalises the same sub-batches.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/graphs.h"
#include "tests/numeric/train/toy.h"
#include "tests/numeric/train/variant.h"

enum { STEPS = 9, RANKS_MAX = 3, WORKERS = 3, STRATEGIES = 4, COUNT_AT = 0 };
enum { SIDE = 8, CHANNELS = 4, KINDS = 4, BUFFERS = 2 + 2 * CHANNELS };
static const char *const strategies[STRATEGIES] = {"ddp", "zero1", "zero2", "fsdp"};

/* Images by a convolution with batch norm. The buffer "passes" counts passes by "one". */
static struct wk_graph *counting(bool synchronised)
{
    struct wk_graph *g = wk_graph_new("counting");
    struct wk_tensor *pixels =
        wk_graph_input(g, "pixels", WK_F32, WK_SHAPE(WK_SAMPLES, 1, SIDE, SIDE));
    struct wk_tensor *label = wk_graph_input(g, "label", WK_I32, WK_SHAPE(WK_SAMPLES));
    wk_graph_block(g, "stem");
    struct wk_tensor *passes = wk_graph_buffer(g, "passes", WK_SHAPE(1), 0);
    struct wk_tensor *one = wk_graph_buffer(g, "one", WK_SHAPE(1), 1);
    wk_graph_update(g, passes, wk_op_add(passes, one));
    struct wk_tensor *kernel = wk_graph_param(g, "conv", WK_SHAPE(CHANNELS, 1, 3, 3), NULL);
    struct wk_tensor *x = wk_op_conv2d(pixels, kernel, NULL, NULL);
    x = wk_layer_batch_norm(x, "norm", &(struct wk_batch_norm){.synchronised = synchronised});
    wk_graph_block(g, "head");
    x = wk_op_pool2d(wk_op_relu(x),
                     &(struct wk_pool_options){.kind = WK_REDUCE_MAX, .kernel = SIDE / 4});
    x = wk_layer_linear(wk_op_reshape(x, WK_SHAPE(WK_SAMPLES, WK_REST)), "head", KINDS);
    wk_graph_output(g, "logits", x);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, label, NULL), NULL);
    return g;
}

static struct wk_graph *synchronised(void)
{
    return counting(true);
}

static struct wk_graph *local(void)
{
    return counting(false);
}

/* What a rank has seen. */
struct watch {
    int passes;       /* of a step */
    int64_t leave_at; /* 0: never */
    int64_t steps;
    const char *save_to;
    struct scene *scene; /* invites worker 2 after half of the steps; NULL: does not */
    float content[BUFFERS];
};

struct scene {
    struct fake_cluster cluster;
    struct toy toys[WORKERS];
    struct watch watches[WORKERS];
    pthread_t threads[WORKERS];
    bool running[WORKERS];
};

static void start(struct scene *scene, int worker)
{
    scene->toys[worker].session = fake_session(&scene->cluster, worker);
    scene->running[worker] = true;
    pthread_create(&scene->threads[worker], NULL, toy_thread, &scene->toys[worker]);
}

static bool watch(void *arg, struct wk_context *ctx)
{
    struct watch *w = arg;
    struct wk_model *model = units_main(ctx)->model;
    CHECK(model->buffers.n == 4 && model->buffers.count == BUFFERS);
    CHECK(buffers_read(model, BUFFERS_CONTENT, NULL) == 0);
    memcpy(w->content, model->buffers.host, sizeof(w->content));
    w->steps = wk_steps(ctx);
    (void)wk_save_wait(ctx); /* so that there is one to go back to */
    if (w->content[COUNT_AT] != (float)(w->passes * w->steps))
        fprintf(stderr, "rank %d, step %ld: %g passes\n", ctx->group.rank, (long)w->steps,
                (double)w->content[COUNT_AT]);
    CHECK(w->content[COUNT_AT] == (float)(w->passes * w->steps));
    if (w->save_to && w->steps == STEPS)
        CHECK(wk_model_save(ctx, model, w->save_to, NULL) == 0);
    if (w->scene && w->steps == STEPS / 2 && !w->scene->running[2]) {
        fake_form(&w->scene->cluster, (const int[]){0, 2}, 2);
        start(w->scene, 2);
    }
    return w->leave_at && w->steps == w->leave_at;
}

static struct scene *scene_new(int ranks)
{
    static struct scene scene;
    memset(&scene, 0, sizeof(scene));
    fake_init(&scene.cluster);
    fake_form(&scene.cluster, (const int[]){0, 1, 2}, ranks);
    for (int i = 0; i < WORKERS; i++) {
        scene.watches[i].passes = 1;
        scene.toys[i].stepped = watch;
        scene.toys[i].arg = &scene.watches[i];
        scene.toys[i].batch = 7;
        scene.toys[i].graph = local;
        scene.toys[i].rows = graph_kinds[0].rows;
        toy_set(&scene.toys[i], "total_steps", "9");
    }
    return &scene;
}

static void set_all(struct scene *scene, const char *name, const char *value)
{
    for (int i = 0; i < WORKERS; i++)
        toy_set(&scene->toys[i], name, value);
}

static void play(struct scene *scene, int ranks)
{
    for (int i = 0; i < ranks; i++)
        start(scene, i);
    for (int i = 0; i < WORKERS; i++)
        if (scene->running[i])
            pthread_join(scene->threads[i], NULL);
    fake_fini(&scene->cluster);
}

/* All of them ended well, with the same buffers. */
static void check_ended(const struct scene *scene, int ranks)
{
    for (int i = 0; i < ranks; i++) {
        const struct toy *toy = &scene->toys[i];
        if (toy->status || toy->exit_code)
            fprintf(stderr, "rank %d: %s\n%s", i, toy->error, toy->notices);
        CHECK(toy->status == 0 && toy->exit_code == 0);
        CHECK(scene->watches[i].steps == STEPS);
        CHECK(memcmp(scene->watches[i].content, scene->watches[0].content,
                     sizeof(scene->watches[0].content)) == 0);
    }
}

static void ranks_have_the_same_content_at_every_step(void)
{
    for (int s = 0; s < STRATEGIES; s++)
        for (int ranks = 1; ranks <= RANKS_MAX; ranks++)
            for (int accumulation = 1; accumulation <= 2; accumulation++) {
                struct scene *scene = scene_new(ranks);
                set_all(scene, "strategy", strategies[s]);
                set_all(scene, "gradient_accumulation_steps", accumulation == 2 ? "2" : "1");
                set_all(scene, "recompute", ranks == 2 ? "true" : "false");
                for (int i = 0; i < ranks; i++)
                    scene->watches[i].passes = accumulation;
                play(scene, ranks);
                check_ended(scene, ranks);
            }
}

/* Steps that overflow come before the first that is counted. */
static void skipped_steps_do_not_count(void)
{
    for (int s = 0; s < STRATEGIES; s += 3)
        for (int ranks = 1; ranks <= 2; ranks++) {
            struct scene *scene = scene_new(ranks);
            set_all(scene, "strategy", strategies[s]);
            set_all(scene, "mixed_precision", "fp16");
            set_all(scene, "loss_scale.initial", "1099511627776");
            play(scene, ranks);
            CHECK(scene->toys[0].skipped > 1);
            check_ended(scene, ranks);
        }
}

static void survivor_goes_on(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){0}, 1);
}

/* The second of two ranks leaves in the middle of a step, which is made again; later another comes.
 */
static void a_lost_rank_and_a_new_one(void)
{
    for (int reducing = 0; reducing < 2; reducing++)
        for (int s = 0; s < STRATEGIES; s++) {
            struct tmpdir dir = tmpdir_make();
            struct scene *scene = scene_new(2);
            scene->cluster.on_lost = survivor_goes_on;
            set_all(scene, "strategy", strategies[s]);
            set_all(scene, "checkpoint.dir", dir.path);
            set_all(scene, "checkpoint.every", "1 steps");
            scene->toys[1].leave_reducing = reducing;
            scene->watches[1].leave_at = 3;
            scene->watches[0].scene = scene;
            play(scene, 2);
            for (int i = 0; i < WORKERS; i += 2) {
                if (scene->toys[i].status)
                    fprintf(stderr, "%s, worker %d: %s\n%s", strategies[s], i, scene->toys[i].error,
                            scene->toys[i].notices);
                CHECK(scene->toys[i].status == 0 && scene->watches[i].steps == STEPS);
            }
            CHECK(memcmp(scene->watches[0].content, scene->watches[2].content,
                         sizeof(scene->watches[0].content)) == 0);
            tmpdir_remove(&dir);
        }
}

/* Half of the run under one strategy, the other half under the next, on another world; and the
 * export at the end begins another run. */
static void checkpoints_and_exports_have_them(void)
{
    for (int s = 0; s < STRATEGIES; s++) {
        struct tmpdir dir = tmpdir_make();
        char saves[512], weights[512];
        float seen[BUFFERS];
        snprintf(saves, sizeof(saves), "%s/saves", dir.path);
        snprintf(weights, sizeof(weights), "%s/weights", dir.path);
        for (int half = 0; half < 2; half++) {
            int ranks = half ? 3 : 2;
            struct scene *scene = scene_new(ranks);
            set_all(scene, "strategy", strategies[(s + half) % STRATEGIES]);
            set_all(scene, "checkpoint.dir", saves);
            set_all(scene, "checkpoint.every", "4 steps");
            if (half)
                set_all(scene, "resume_from", "latest");
            for (int i = 0; i < ranks; i++) {
                scene->watches[i].leave_at = half ? 0 : 5;
                scene->watches[i].save_to = half ? weights : NULL;
                scene->toys[i].leave_at_once = true;
            }
            play(scene, ranks);
            memcpy(seen, scene->watches[0].content, sizeof(seen));
            if (half)
                check_ended(scene, ranks);
        }
        struct wk_model *model = NULL;
        CHECK(wk_graph_model(local(), &model) == 0);
        CHECK(wk_model_load(NULL, model, weights) == 0);
        CHECK(buffers_reset(model, true, NULL) == 0);
        CHECK(memcmp(model->buffers.host, seen, sizeof(seen)) == 0);
        wk_model_free(model);
        tmpdir_remove(&dir);
    }
}

/* Ranks that normalise together have the statistics of one process, but for the order of sums. */
static void synchronised_statistics_are_those_of_one_process(void)
{
    float one[BUFFERS];
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        struct scene *scene = scene_new(ranks);
        for (int i = 0; i < ranks; i++)
            scene->toys[i].graph = synchronised;
        play(scene, ranks);
        check_ended(scene, ranks);
        if (ranks == 1)
            memcpy(one, scene->watches[0].content, sizeof(one));
        for (int i = 0; i < BUFFERS; i++)
            CHECK(fabs((double)(scene->watches[0].content[i] - one[i])) < 1e-5);
    }
}

/* One process that accumulates passes of 4 samples normalises what two ranks with batches of 8 do.
 */
static void local_statistics_are_of_each_ranks_samples(void)
{
    static struct outcome one, two, other;
    struct variant v = {.strategy = "ddp",
                        .ranks = 1,
                        .precision = "no",
                        .accumulation = "2",
                        .batch = 4,
                        .graph = local,
                        .rows = graph_kinds[0].rows};
    const double forward = 9 + 64 * 4 + 36, gradient = 3 * forward + 8 * 36;
    struct rounding_weights weights = rounding_adam(gradient, VARIANT_STEPS * 3e-3);
    variant_run(&v, &one);
    v.ranks = 2;
    v.batch = 8;
    v.accumulation = "1";
    variant_run(&v, &two);
    v.graph = synchronised;
    variant_run(&v, &other);
    struct apart apart = outcome_apart(&one, &two), far = outcome_apart(&one, &other);
    printf("local: losses %.1e, weights %.1e; synchronised: losses %.1e\n", apart.losses,
           apart.weights, far.losses);
    CHECK(apart.losses < rounding_bound(forward) + weights.mean && apart.weights < weights.largest);
    CHECK(far.losses > 1e-3);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(ranks_have_the_same_content_at_every_step),
        CHECK_CASE(skipped_steps_do_not_count),
        CHECK_CASE(a_lost_rank_and_a_new_one),
        CHECK_CASE(checkpoints_and_exports_have_them),
        CHECK_CASE(synchronised_statistics_are_those_of_one_process),
        CHECK_CASE(local_statistics_are_of_each_ranks_samples),
        {0},
    };
    return check_all(cases, argc, argv);
}
