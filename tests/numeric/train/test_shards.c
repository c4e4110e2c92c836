/* What happens to a state that is cut over the ranks when ranks die, join and stop, and when it is
 * loaded by another world or strategy.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libworker/checkpoint/list.h"
#include "libworker/checkpoint/load.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { STEPS = 40, WORKERS = 4 };

static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};

struct scene {
    struct fake_cluster cluster;
    struct toy toys[WORKERS];
    pthread_t threads[WORKERS];
    bool running[WORKERS];
    struct tmpdir dir;
    const char *strategy, *steps;
};

static void open_scene(struct scene *scene, const char *strategy)
{
    memset(scene, 0, sizeof(*scene));
    scene->dir = tmpdir_make();
    scene->strategy = strategy;
    scene->steps = "40";
    fake_init(&scene->cluster);
}

static void start(struct scene *scene, int worker)
{
    struct toy *toy = &scene->toys[worker];
    toy->session = fake_session(&scene->cluster, worker);
    toy_set(toy, "total_steps", scene->steps);
    toy_set(toy, "strategy", scene->strategy);
    toy_set(toy, "bucket_mib", "0.02");
    toy_set(toy, "checkpoint.dir", scene->dir.path);
    toy_set(toy, "checkpoint.every", "5 steps");
    scene->running[worker] = true;
    pthread_create(&scene->threads[worker], NULL, toy_thread, toy);
}

static void join_all(struct scene *scene)
{
    for (int i = 0; i < WORKERS; i++)
        if (scene->running[i])
            pthread_join(scene->threads[i], NULL);
}

static void close_scene(struct scene *scene)
{
    fake_fini(&scene->cluster);
    tmpdir_remove(&scene->dir);
}

static const double *undisturbed(void)
{
    static struct toy toy;
    if (toy.losses[1] > 0)
        return toy.losses;
    toy_set(&toy, "total_steps", "40");
    toy_run(&toy);
    CHECK(toy.status == 0);
    return toy.losses;
}

static double apart(void)
{
    return TOY_GUESS * toy_bounds(STEPS).losses;
}

static double off_by(const struct toy *toy, int first, int last)
{
    double most = 0;
    for (int step = first; step <= last; step++)
        most = fmax(most, fabs(toy->losses[step] - undisturbed()[step]));
    return most;
}

/* So that none is left out because the one before it is still being written. */
static bool wait_for_saves(void *arg, struct wk_context *ctx)
{
    (void)arg;
    wk_save_wait(ctx);
    return false;
}

static bool leave_after_22(void *arg, struct wk_context *ctx)
{
    (void)arg;
    if (wk_steps(ctx) == 20)
        wk_save_wait(ctx);
    return wk_steps(ctx) == 22;
}

static void first_and_third_go_on(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){2, 0}, 2);
}

static void a_lost_shard_sends_all_back_to_the_last_checkpoint_in_place(void)
{
    static struct scene scene;
    for (int s = 1; s < 4; s++) {
        open_scene(&scene, strategies[s]);
        scene.cluster.on_lost = first_and_third_go_on;
        fake_form(&scene.cluster, (const int[]){0, 1, 2}, 3);
        scene.toys[1].stepped = leave_after_22;
        scene.toys[1].leave_reducing = s == 2;
        scene.toys[0].stepped = wait_for_saves;
        for (int i = 0; i < 3; i++)
            start(&scene, i);
        join_all(&scene);
        for (int i = 0; i < 3; i += 2) {
            if (scene.toys[i].status)
                fprintf(stderr, "%s\n%s", scene.toys[i].error, scene.toys[i].notices);
            CHECK(scene.toys[i].status == 0 && scene.toys[i].exit_code == 0);
            CHECK(s == 2 || strstr(scene.toys[i].notices, "its loop ended before the others"));
            CHECK(strstr(scene.toys[i].notices, "going back to the last checkpoint"));
            CHECK(strstr(scene.toys[i].notices, "resumed from step"));
            printf("%s: losses differ by %.1e\n", strategies[s], off_by(&scene.toys[i], 1, STEPS));
            CHECK(off_by(&scene.toys[i], 1, STEPS) < apart());
        }
        CHECK(access(tmpdir_path(&scene.dir, "step-00000040/rank-00001-of-00002.safetensors"),
                     F_OK) == 0);
        close_scene(&scene);
    }
}

static void without_a_checkpoint_a_lost_shard_is_an_error_that_says_so(void)
{
    static struct scene scene;
    open_scene(&scene, "fsdp");
    scene.cluster.on_lost = first_and_third_go_on;
    scene.cluster.refuse_prepares = 1000;
    fake_form(&scene.cluster, (const int[]){0, 1, 2}, 3);
    scene.toys[1].stepped = leave_after_22;
    for (int i = 0; i < 3; i++)
        start(&scene, i);
    join_all(&scene);
    for (int i = 0; i < 3; i += 2) {
        CHECK(scene.toys[i].status == WK_ENOTFOUND && scene.toys[i].exit_code == 1);
        CHECK(strstr(scene.toys[i].error, "no checkpoint to go back to"));
        CHECK(strstr(scene.toys[i].error, "mesh.dp_replicate keeps replicas"));
    }
    close_scene(&scene);
}

/* The coordinator re-forms without anybody being lost: others in other places, then one more. */
static bool move_on_at_10_and_25(void *arg, struct wk_context *ctx)
{
    struct scene *scene = arg;
    if (wk_steps(ctx) == 10)
        fake_form(&scene->cluster, (const int[]){1, 0}, 2);
    if (wk_steps(ctx) == 25 && !scene->running[2]) {
        fake_form(&scene->cluster, (const int[]){2, 0, 1}, 3);
        start(scene, 2);
    }
    return false;
}

static void shards_are_carried_over_when_nobody_is_lost(void)
{
    static struct scene scene;
    for (int s = 1; s < 4; s++) {
        open_scene(&scene, strategies[s]);
        fake_form(&scene.cluster, (const int[]){0, 1}, 2);
        scene.toys[0].stepped = move_on_at_10_and_25;
        scene.toys[0].arg = &scene;
        start(&scene, 0);
        start(&scene, 1);
        join_all(&scene);
        for (int i = 0; i < 3; i++) {
            if (scene.toys[i].status)
                fprintf(stderr, "%s\n%s", scene.toys[i].error, scene.toys[i].notices);
            CHECK(scene.toys[i].status == 0);
            CHECK(!strstr(scene.toys[i].notices, "going back"));
            CHECK(off_by(&scene.toys[i], i == 2 ? 30 : 1, STEPS) < apart());
        }
        CHECK(scene.cluster.generation == 3);
        close_scene(&scene);
    }
}

static bool leave_after_9(void *arg, struct wk_context *ctx)
{
    (void)arg;
    return wk_steps(ctx) == 9;
}

/* A survivor may still have been inside the step that the leaver had done: then it takes that step
 * from the others and has no loss of its own for it. */
static bool goes_on_undisturbed(const struct toy *toy, int step)
{
    return !toy->status && !strstr(toy->notices, "going back") &&
           off_by(toy, 1, step - 1) < apart() &&
           (toy->losses[step] == 0 || off_by(toy, step, step) < apart()) &&
           off_by(toy, step + 1, STEPS) < apart();
}

static void all_but_the_second_go_on(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){3, 0, 2}, 3);
}

/* Two replicas: what a lost rank held is held by another too, so nothing goes back. Then three
 * ranks, which two replicas do not go into: one. */
static void a_lost_rank_of_a_replica_costs_nothing(void)
{
    static struct scene scene;
    for (int s = 1; s < 4; s++) {
        open_scene(&scene, strategies[s]);
        scene.cluster.on_lost = all_but_the_second_go_on;
        fake_form(&scene.cluster, (const int[]){0, 1, 2, 3}, 4);
        scene.toys[1].stepped = leave_after_9;
        for (int i = 0; i < 4; i++) {
            toy_set(&scene.toys[i], "mesh.dp_replicate", "2");
            start(&scene, i);
        }
        join_all(&scene);
        for (int i = 0; i < 4; i++) {
            if (i == 1)
                continue;
            bool right = goes_on_undisturbed(&scene.toys[i], 9);
            if (!right)
                fprintf(stderr, "%s\n%s", scene.toys[i].error, scene.toys[i].notices);
            CHECK(right);
        }
        CHECK(scene.cluster.generation == 2);
        close_scene(&scene);
    }
}

static bool stop_after_13(void *arg, struct wk_context *ctx)
{
    struct scene *scene = arg;
    if (wk_steps(ctx) == 13)
        fake_stop(&scene->cluster);
    return false;
}

static void a_stop_request_ends_all_ranks_after_the_same_step(void)
{
    static struct scene scene;
    for (int s = 1; s < 4; s++) {
        open_scene(&scene, strategies[s]);
        fake_form(&scene.cluster, (const int[]){0, 1, 2}, 3);
        scene.toys[2].stepped = stop_after_13;
        scene.toys[2].arg = &scene;
        for (int i = 0; i < 3; i++)
            start(&scene, i);
        join_all(&scene);
        int last = 0;
        for (int step = 1; step <= STEPS; step++)
            last = scene.toys[0].losses[step] > 0 ? step : last;
        for (int i = 0; i < 3; i++) {
            CHECK(scene.toys[i].status == WK_ESTOPPED);
            CHECK(scene.toys[i].exit_code == WK_EXIT_STOPPED);
            CHECK(scene.toys[i].losses[last] > 0 && scene.toys[i].losses[last + 1] == 0);
        }
        CHECK(last >= 13 && last <= 15); /* some were in the step after it when they heard */
        char path[CHECKPOINT_PATH_MAX];
        CHECK(checkpoint_path(scene.dir.path, last, path) == 0);
        CHECK(checkpoint_verify(path, NULL) == 0);
        close_scene(&scene);
    }
}

/* `ranks` of `strategy` from the newest checkpoint in `dir` (or the start) to step `steps`. */
static void run_part(const struct scene *at, const char *strategy, int ranks, const char *steps,
                     struct toy toys[WORKERS])
{
    static const int workers[] = {0, 1, 2, 3};
    pthread_t threads[WORKERS];
    struct fake_cluster cluster;
    fake_init(&cluster);
    fake_form(&cluster, workers, ranks);
    memset(toys, 0, WORKERS * sizeof(*toys));
    for (int i = 0; i < ranks; i++) {
        toys[i].session = fake_session(&cluster, i);
        toy_set(&toys[i], "total_steps", steps);
        toy_set(&toys[i], "strategy", strategy);
        toy_set(&toys[i], "bucket_mib", ranks % 2 ? "0.02" : "0.05");
        if (ranks == WORKERS && strcmp(strategy, "ddp") != 0)
            toy_set(&toys[i], "mesh.dp_replicate", "2");
        toy_set(&toys[i], "checkpoint.dir", at->dir.path);
        toy_set(&toys[i], "resume_from", "latest");
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < ranks; i++) {
        pthread_join(threads[i], NULL);
        if (toys[i].status)
            fprintf(stderr, "%s on %d: %s\n", strategy, ranks, toys[i].error);
        CHECK(toys[i].status == 0 && toys[i].exit_code == 0);
    }
    fake_fini(&cluster);
}

static void any_world_and_strategy_loads_any_other(void)
{
    static struct scene scene;
    static struct toy toys[WORKERS];
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++) {
            int before = 1 + (from + to) % 4, after = 1 + (from + 3 * to + 1) % 4;
            open_scene(&scene, NULL);
            run_part(&scene, strategies[from], before, "6", toys);
            run_part(&scene, strategies[to], after, "12", toys);
            CHECK(toys[0].losses[6] == 0 && toys[0].losses[7] > 0);
            CHECK(off_by(&toys[0], 7, 12) < apart());
            close_scene(&scene);
        }
}

static void the_same_world_resumes_with_the_same_bits(void)
{
    static struct scene scene;
    static struct toy whole[WORKERS], halves[WORKERS];
    for (int s = 1; s < 4; s++) {
        open_scene(&scene, NULL);
        run_part(&scene, strategies[s], 3, "12", whole);
        close_scene(&scene);
        open_scene(&scene, NULL);
        run_part(&scene, strategies[s], 3, "6", halves);
        run_part(&scene, strategies[s], 3, "12", halves);
        CHECK(memcmp(whole[0].losses + 7, halves[0].losses + 7, 6 * sizeof(double)) == 0);
        close_scene(&scene);
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(a_lost_shard_sends_all_back_to_the_last_checkpoint_in_place),
        CHECK_CASE(without_a_checkpoint_a_lost_shard_is_an_error_that_says_so),
        CHECK_CASE(shards_are_carried_over_when_nobody_is_lost),
        CHECK_CASE(a_lost_rank_of_a_replica_costs_nothing),
        CHECK_CASE(a_stop_request_ends_all_ranks_after_the_same_step),
        CHECK_CASE(any_world_and_strategy_loads_any_other),
        CHECK_CASE(the_same_world_resumes_with_the_same_bits),
        {0},
    };
    return check_all(cases, argc, argv);
}
