/* Fine-tuning: frozen parameters are bit by bit what they began as under every strategy and
 * precision, and have neither gradient nor optimizer state. The others train as in one process
 * (test_graphs.c).
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/parallel/sharded_params.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/graphs.h"
#include "tests/numeric/train/toy.h"

enum { STRATEGIES = 4, RANKS_MAX = 3, WORKERS = 3, STEPS = 6 };
static const char *const strategies[STRATEGIES] = {"ddp", "zero1", "zero2", "fsdp"};

static struct graph_kind tuned(void)
{
    return graph_kinds[GRAPH_TUNED];
}

struct scene;

struct watch {
    int64_t leave_at; /* 0: never */
    int64_t steps;
    struct scene *invites; /* worker 2 after some steps; NULL: nobody */
};

static bool has_state(const struct unit *unit, int index)
{
    size_t first;
    const struct param *own = strategy_own(&unit->strategy, index, &first);
    bool has = false;
    for (int s = 0; own && s < unit->optimizer->ops->n_states; s++)
        has |= optimizer_state_view(unit->optimizer, s, own).count > 0;
    return has;
}

static void invite(struct scene *scene);

static bool watch(void *arg, struct wk_context *ctx)
{
    struct watch *w = arg;
    struct unit *unit = units_main(ctx);
    struct wk_model *model = unit->model;
    bool moved = false;
    CHECK(model->n_frozen == 6 && model_trained(model) == model->n_params - 6);
    const struct strategy_range *range = strategy_range(&unit->strategy);
    const struct shard_plan *plan = strategy_plan(&unit->strategy);
    CHECK(range->n_params <= model_trained(model) && range->count < range->held);
    CHECK(!plan || plan->n_trained < plan->n_units);
    CHECK(wk_gather_parameters(model) == 0);
    for (int i = 0; i < model->n_params; i++) {
        const struct param *param = &model->params[i];
        bool frozen = i >= model_trained(model);
        float *first = malloc(param->count * sizeof(*first));
        CHECK(model_fill(model, i, first, NULL) == 0);
        bool same = memcmp(first, param->data, param->count * sizeof(*first)) == 0;
        CHECK(!frozen || (same && !param->grad && !has_state(unit, i)));
        moved |= !same;
        free(first);
    }
    CHECK(moved);
    w->steps = wk_steps(ctx);
    (void)wk_save_wait(ctx);
    if (w->invites && w->steps == 3)
        invite(w->invites);
    return w->leave_at && w->steps == w->leave_at;
}

struct scene {
    struct fake_cluster cluster;
    struct toy toys[WORKERS];
    struct watch watches[WORKERS];
    pthread_t threads[WORKERS];
    bool runs[WORKERS];
};

static void start(struct scene *scene, int worker)
{
    scene->toys[worker].session = fake_session(&scene->cluster, worker);
    scene->runs[worker] = true;
    pthread_create(&scene->threads[worker], NULL, toy_thread, &scene->toys[worker]);
}

static void invite(struct scene *scene)
{
    if (scene->runs[2])
        return;
    fake_form(&scene->cluster, (const int[]){0, 1, 2}, 3);
    start(scene, 2);
}

static struct scene *scene_new(int ranks)
{
    static struct scene scene;
    memset(&scene, 0, sizeof(scene));
    fake_init(&scene.cluster);
    fake_form(&scene.cluster, (const int[]){0, 1, 2}, ranks);
    for (int i = 0; i < WORKERS; i++) {
        scene.toys[i].stepped = watch;
        scene.toys[i].arg = &scene.watches[i];
        scene.toys[i].batch = 7;
        scene.toys[i].graph = tuned().build;
        scene.toys[i].rows = tuned().rows;
        toy_set(&scene.toys[i], "total_steps", "6");
        toy_set(&scene.toys[i], "bucket_mib", "0.001");
        toy_set(&scene.toys[i], "first_bucket_mib", "0.001");
    }
    return &scene;
}

static void set_all(struct scene *scene, const char *name, const char *value)
{
    for (int i = 0; i < WORKERS; i++)
        toy_set(&scene->toys[i], name, value);
}

/* The first `ranks` run; those of `ends` end well. */
static void play(struct scene *scene, int ranks, int ends)
{
    for (int i = 0; i < ranks; i++)
        start(scene, i);
    for (int i = 0; i < WORKERS; i++)
        if (scene->runs[i])
            pthread_join(scene->threads[i], NULL);
    for (int i = 0; i < ends; i++) {
        const struct toy *toy = &scene->toys[i];
        if (toy->status || toy->exit_code)
            fprintf(stderr, "rank %d: %s\n%s", i, toy->error, toy->notices);
        CHECK(toy->status == 0 && toy->exit_code == 0);
        CHECK(scene->watches[i].steps == STEPS);
    }
    fake_fini(&scene->cluster);
}

static void frozen_parameters_stay_bit_by_bit(void)
{
    static const char *const precisions[] = {"no", "bf16", "fp16"};
    for (int p = 0; p < 3; p++)
        for (int s = 0; s < STRATEGIES; s++)
            for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
                struct scene *scene = scene_new(ranks);
                set_all(scene, "strategy", strategies[s]);
                set_all(scene, "mixed_precision", precisions[p]);
                if (ranks == 2 && p && s)
                    set_all(scene, "low_gradients", "true");
                play(scene, ranks, ranks);
            }
}

static void survivors_go_on(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){0, 1}, 2);
}

/* A rank leaves: what is cut is cut again, from a checkpoint where a part went with it. */
static void they_are_cut_again_with_the_others(void)
{
    for (int s = 0; s < STRATEGIES; s++) {
        struct tmpdir dir = tmpdir_make();
        struct scene *scene = scene_new(3);
        scene->cluster.on_lost = survivors_go_on;
        scene->watches[2].leave_at = 3;
        set_all(scene, "strategy", strategies[s]);
        set_all(scene, "checkpoint.dir", dir.path);
        set_all(scene, "checkpoint.every", "1 steps");
        play(scene, 3, 2);
        tmpdir_remove(&dir);
    }
}

/* A rank comes: parts of other sizes are carried over, states and frozen parameters each by their
 * own cut. The losses are those of the undisturbed run. */
static void they_are_carried_to_a_newcomer(void)
{
    for (int s = 0; s < STRATEGIES; s++) {
        double losses[STEPS + 1];
        for (int comes = 0; comes < 2; comes++) {
            struct scene *scene = scene_new(2);
            set_all(scene, "strategy", strategies[s]);
            scene->watches[0].invites = comes ? scene : NULL;
            play(scene, 2, comes ? 3 : 2);
            if (!comes)
                memcpy(losses, scene->toys[0].losses, sizeof(losses));
            for (int i = 1; i <= STEPS; i++)
                CHECK(fabs(scene->toys[0].losses[i] - losses[i]) < 1e-5);
        }
    }
}

/* Calls of a pass for the unit of the stem, which nothing trained comes before. */
enum { STEM = 2 };
static atomic_int stem_gathers;

void __real_sharded_start_gather(struct sharded *s, int unit);
void __wrap_sharded_start_gather(struct sharded *s, int unit);
void __wrap_sharded_start_gather(struct sharded *s, int unit)
{
    stem_gathers += unit == STEM;
    __real_sharded_start_gather(s, unit);
}

static void the_way_back_does_not_gather_what_it_does_not_reach(void)
{
    struct scene *scene = scene_new(2);
    set_all(scene, "strategy", "fsdp");
    set_all(scene, "fsdp.prefetch", "3");
    stem_gathers = 0;
    play(scene, 2, 2);
    CHECK(stem_gathers == 2 * STEPS);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(frozen_parameters_stay_bit_by_bit),
        CHECK_CASE(they_are_cut_again_with_the_others),
        CHECK_CASE(they_are_carried_to_a_newcomer),
        CHECK_CASE(the_way_back_does_not_gather_what_it_does_not_reach),
        {0},
    };
    return check_all(cases, argc, argv);
}
