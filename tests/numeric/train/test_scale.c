/* The loss scale is part of the training state: what a checkpoint holds, what a newcomer is told,
 * and the same on every rank. The scale starts far too high and grows every four clean steps, so
 * steps are skipped all along.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { STEPS = 24, WORKERS = 3 };

static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};

/* The wait, counted from the start, that fails on worker 1 although the others' succeeded. */
static atomic_int misses; /* 0: none */
static _Thread_local bool is_missing;
static _Thread_local int waits;

int __real_wk_wait(struct wk_work *work);
int __wrap_wk_wait(struct wk_work *work);
int __wrap_wk_wait(struct wk_work *work)
{
    bool counts = is_missing && work && ++waits == atomic_load(&misses);
    int rc = __real_wk_wait(work);
    if (!counts)
        return rc;
    usleep(30000); /* the others go on as far as they get */
    return WK_EPEER;
}

struct scene {
    struct fake_cluster cluster;
    struct toy toys[WORKERS];
    struct watch {
        struct scene *scene;
        double scale[STEPS + 1]; /* after each step */
        int64_t skipped[STEPS + 1];
    } watches[WORKERS];
    pthread_t threads[WORKERS];
    bool running[WORKERS];
    const char *strategy, *steps;
    const char *dir; /* of checkpoints, or NULL */
    bool changes;    /* members come while it runs */
    bool low_gradients;
    void (*reforms)(struct fake_cluster *); /* after a loss */
    const char *replicas;                   /* NULL: one */
};

static void start(struct scene *scene, int worker);

/* Others in other places, then one more; nobody is lost. */
static void change(struct scene *scene, int64_t step)
{
    if (step == 8)
        fake_form(&scene->cluster, (const int[]){1, 0}, 2);
    if (step == 14 && !scene->running[2]) {
        fake_form(&scene->cluster, (const int[]){2, 0, 1}, 3);
        start(scene, 2);
    }
}

static bool watch(void *arg, struct wk_context *ctx)
{
    struct watch *seen = arg;
    int64_t step = wk_steps(ctx);
    seen->scale[step] = wk_loss_scale(ctx);
    seen->skipped[step] = wk_skipped_steps(ctx);
    CHECK(!wk_step_skipped(ctx));
    if (seen->scene->changes && seen == &seen->scene->watches[0])
        change(seen->scene, step);
    return false;
}

static void *run_worker(void *arg)
{
    struct watch *seen = arg;
    struct scene *scene = seen->scene;
    is_missing = seen == &scene->watches[1];
    waits = 0;
    toy_run(&scene->toys[seen - scene->watches]);
    return NULL;
}

static void start(struct scene *scene, int worker)
{
    struct toy *toy = &scene->toys[worker];
    scene->watches[worker].scene = scene;
    toy->session = fake_session(&scene->cluster, worker);
    toy->stepped = watch;
    toy->arg = &scene->watches[worker];
    toy->clip = -1; /* a norm would tell of overflows too */
    toy_set(toy, "strategy", scene->strategy);
    toy_set(toy, "total_steps", scene->steps);
    toy_set(toy, "mixed_precision", "fp16");
    toy_set(toy, "loss_scale.initial", "1099511627776");
    toy_set(toy, "loss_scale.interval", "4");
    toy_set(toy, "bucket_mib", "0.02");
    toy_set(toy, "low_gradients", scene->low_gradients ? "true" : "false");
    if (scene->replicas)
        toy_set(toy, "mesh.dp_replicate", scene->replicas);
    if (scene->dir) {
        toy_set(toy, "checkpoint.dir", scene->dir);
        toy_set(toy, "resume_from", "latest");
    }
    scene->running[worker] = true;
    pthread_create(&scene->threads[worker], NULL, run_worker, &scene->watches[worker]);
}

/* To `steps`, beginning with `ranks`. */
static void run(struct scene *scene, int ranks, const char *steps)
{
    static const int workers[WORKERS] = {0, 1, 2};
    scene->steps = steps;
    fake_init(&scene->cluster);
    scene->cluster.on_lost = scene->reforms;
    fake_form(&scene->cluster, workers, ranks);
    for (int i = 0; i < ranks; i++)
        start(scene, i);
    for (int i = 0; i < WORKERS; i++) {
        if (!scene->running[i])
            continue;
        pthread_join(scene->threads[i], NULL);
        if (scene->toys[i].status)
            fprintf(stderr, "%s, worker %d: %s\n", scene->strategy, i, scene->toys[i].error);
        CHECK(scene->toys[i].status == 0 && scene->toys[i].exit_code == 0);
    }
    fake_fini(&scene->cluster);
}

/* From step `first` on both saw the same scales. */
static void check_alike(const struct watch *a, const struct watch *b, int first)
{
    for (int step = first; step <= STEPS; step++)
        CHECK(a->scale[step] == b->scale[step] && a->skipped[step] == b->skipped[step]);
}

static const struct scene *undisturbed(int s)
{
    static struct scene scenes[4];
    struct scene *scene = &scenes[s];
    if (scene->strategy)
        return scene;
    scene->strategy = strategies[s];
    run(scene, 2, "24");
    const struct watch *seen = &scene->watches[0];
    check_alike(seen, &scene->watches[1], 1);
    CHECK(seen->skipped[1] > 10 && seen->skipped[STEPS] > seen->skipped[1]);
    CHECK(scene->toys[0].losses[STEPS] < scene->toys[0].losses[1]);
    return scene;
}

static void a_skipped_step_is_one_on_all_ranks(void)
{
    for (int s = 0; s < 4; s++)
        check_alike(&undisturbed(s)->watches[0], &undisturbed(0)->watches[0], 1);
}

static void a_checkpoint_continues_the_scale(void)
{
    static struct scene scene;
    for (int s = 0; s < 4; s++)
        for (int ranks = 1; ranks <= 2; ranks++) {
            struct tmpdir dir = tmpdir_make();
            memset(&scene, 0, sizeof(scene));
            scene = (struct scene){.strategy = strategies[s], .dir = dir.path};
            run(&scene, 2, "11");
            memset(&scene, 0, sizeof(scene));
            scene = (struct scene){.strategy = strategies[s], .dir = dir.path};
            run(&scene, ranks, "24");
            CHECK(scene.watches[0].scale[11] == 0 && scene.watches[0].scale[12] > 0);
            check_alike(&scene.watches[0], &undisturbed(s)->watches[0], 12);
            size_t bytes = (STEPS - 11) * sizeof(double);
            CHECK(ranks != 2 ||
                  !memcmp(&scene.toys[0].losses[12], &undisturbed(s)->toys[0].losses[12], bytes));
            tmpdir_remove(&dir);
        }
}

/* A member that is told nothing begins at 2^40 and skips a dozen steps. */
static void newcomers_are_told_the_scale(void)
{
    static struct scene scene;
    for (int s = 0; s < 4; s++) {
        memset(&scene, 0, sizeof(scene));
        scene = (struct scene){.strategy = strategies[s], .changes = true};
        run(&scene, 2, "24");
        check_alike(&scene.watches[0], &undisturbed(s)->watches[0], 1);
        check_alike(&scene.watches[2], &scene.watches[0], 18);
    }
}

static void both_go_on(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){0, 1}, 2);
}

/* One rank does not learn of a skipped step that the other has put behind it: nothing but the count
 * of skipped steps and the place in the data tells their states apart.
 */
static void a_rank_that_missed_a_skipped_step_catches_up(void)
{
    static struct scene scene;
    for (int s = 0; s < 4; s++)
        for (int miss = 3; miss <= 9; miss += 3) {
            memset(&scene, 0, sizeof(scene));
            scene = (struct scene){.strategy = strategies[s]};
            scene.reforms = both_go_on;
            atomic_store(&misses, miss);
            run(&scene, 2, "24");
            atomic_store(&misses, 0);
            CHECK(scene.cluster.generation == 2);
            for (int i = 0; i < 2; i++)
                check_alike(&scene.watches[i], &undisturbed(s)->watches[0], 1);
            CHECK(
                !memcmp(scene.toys[0].losses, scene.toys[1].losses, sizeof(scene.toys[0].losses)));
        }
}

/* Sums of numbers that fit may not fit themselves; on three ranks and over two replicas. */
static void narrow_sums_that_overflow_are_skipped_too(void)
{
    static struct scene scene;
    for (int s = 1; s < 4; s++)
        for (int ranks = 2; ranks <= WORKERS; ranks++) {
            memset(&scene, 0, sizeof(scene));
            scene = (struct scene){.strategy = strategies[s], .low_gradients = true};
            scene.replicas = ranks == 2 ? "2" : NULL;
            run(&scene, ranks, "24");
            check_alike(&scene.watches[0], &scene.watches[ranks - 1], 1);
            CHECK(scene.watches[0].skipped[STEPS] > scene.watches[0].skipped[1]);
            CHECK(scene.toys[0].losses[STEPS] < scene.toys[0].losses[1]);
        }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(a_skipped_step_is_one_on_all_ranks),
        CHECK_CASE(a_checkpoint_continues_the_scale),
        CHECK_CASE(newcomers_are_told_the_scale),
        CHECK_CASE(a_rank_that_missed_a_skipped_step_catches_up),
        CHECK_CASE(narrow_sums_that_overflow_are_skipped_too),
        {0},
    };
    return check_all(cases, argc, argv);
}
