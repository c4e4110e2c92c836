/* Some ranks are told to stop while the others go on without them: nothing that only the leavers
 * held is lost, whoever hears of it first, and no checkpoint is needed for it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { STEPS = 40, WORKERS = 5, STOP_AT = 13 };

static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};

struct scene {
    struct fake_cluster cluster;
    struct toy toys[WORKERS];
    pthread_t threads[WORKERS];
    bool running[WORKERS];
    const char *strategy, *replicas;
    int leavers[WORKERS], n_leavers;
    int next[WORKERS], n_next; /* members of the next generation */
    int form_at;               /* step after which it is announced; the stop comes after STOP_AT */
};

static void start(struct scene *scene, int worker)
{
    struct toy *toy = &scene->toys[worker];
    toy->session = fake_session(&scene->cluster, worker);
    toy_set(toy, "total_steps", "40");
    toy_set(toy, "strategy", scene->strategy);
    toy_set(toy, "bucket_mib", "0.02");
    if (scene->replicas)
        toy_set(toy, "mesh.dp_replicate", scene->replicas);
    scene->running[worker] = true;
    pthread_create(&scene->threads[worker], NULL, toy_thread, toy);
}

static bool part_later(void *arg, struct wk_context *ctx)
{
    struct scene *scene = arg;
    if (wk_steps(ctx) == STOP_AT)
        for (int i = 0; i < scene->n_leavers; i++)
            fake_stop_one(&scene->cluster, scene->leavers[i]);
    if (wk_steps(ctx) == scene->form_at && scene->cluster.generation == 1) {
        fake_form(&scene->cluster, scene->next, scene->n_next);
        for (int i = 0; i < scene->n_next; i++)
            if (!scene->running[scene->next[i]])
                start(scene, scene->next[i]);
    }
    return false;
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

static bool leaves(const struct scene *scene, int worker)
{
    for (int i = 0; i < scene->n_leavers; i++)
        if (scene->leavers[i] == worker)
            return true;
    return false;
}

static int last_step(const struct toy *toy)
{
    int last = 0;
    for (int step = 1; step <= STEPS; step++)
        last = toy->losses[step] > 0 ? step : last;
    return last;
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

static bool is_right(const struct scene *scene, int worker, int left_at)
{
    const struct toy *toy = &scene->toys[worker];
    if (leaves(scene, worker))
        return toy->status == WK_ESTOPPED && strstr(toy->error, "the others go on") &&
               last_step(toy) == left_at && off_by(toy, 1, left_at) < apart();
    bool fresh = strstr(toy->notices, "generation 1:") == NULL && toy->losses[1] == 0;
    return !toy->status && !strstr(toy->notices, "going back") &&
           !strstr(toy->notices, "it was at") &&
           off_by(toy, fresh ? left_at + 1 : 1, STEPS) < apart() &&
           (!fresh || toy->losses[left_at] == 0);
}

/* `world` workers begin. */
static void play(struct scene *scene, int world)
{
    static const int all[] = {0, 1, 2, 3, 4};
    fake_init(&scene->cluster);
    fake_form(&scene->cluster, all, world);
    scene->toys[0].stepped = part_later;
    scene->toys[0].arg = scene;
    for (int i = 0; i < world; i++)
        start(scene, i);
    for (int i = 0; i < WORKERS; i++)
        if (scene->running[i])
            pthread_join(scene->threads[i], NULL);
    int left_at = last_step(&scene->toys[scene->leavers[0]]);
    CHECK(left_at >= STOP_AT && left_at < STEPS);
    for (int i = 0; i < WORKERS; i++) {
        if (!scene->running[i] || is_right(scene, i, left_at))
            continue;
        fprintf(stderr, "%s, worker %d, left at %d: %d %s\n%s", scene->strategy, i, left_at,
                scene->toys[i].status, scene->toys[i].error, scene->toys[i].notices);
        CHECK(false);
    }
    CHECK(scene->cluster.generation == 2 && scene->cluster.lost_reports == 0);
    fake_fini(&scene->cluster);
}

static void whoever_leaves_nothing_is_lost(void)
{
    static struct scene scene;
    for (int s = 0; s < 4; s++)
        for (int leaver = 0; leaver < 3; leaver++) {
            scene = (struct scene){.strategy = strategies[s],
                                   .leavers = {leaver},
                                   .n_leavers = 1,
                                   .next = {(leaver + 1) % 3, (leaver + 2) % 3},
                                   .n_next = 2,
                                   .form_at = STOP_AT};
            play(&scene, 3);
        }
}

static void whichever_word_comes_first_they_part_after_the_same_step(void)
{
    static struct scene scene;
    for (int s = 0; s < 4; s++)
        for (int at = STOP_AT - 3; at <= STOP_AT + 3; at += 6) {
            scene = (struct scene){.strategy = strategies[s],
                                   .leavers = {1},
                                   .n_leavers = 1,
                                   .next = {2, 0},
                                   .n_next = 2,
                                   .form_at = at};
            play(&scene, 3);
        }
}

static void one_keeps_the_parts_of_many(void)
{
    static struct scene scene;
    for (int s = 0; s < 4; s++) {
        scene = (struct scene){.strategy = strategies[s],
                               .leavers = {1, 2, 3},
                               .n_leavers = 3,
                               .next = {0},
                               .n_next = 1,
                               .form_at = STOP_AT};
        play(&scene, 4);
    }
}

static void newcomers_take_the_place_of_leavers(void)
{
    static struct scene scene;
    for (int s = 0; s < 4; s++) {
        scene = (struct scene){.strategy = strategies[s],
                               .leavers = {1},
                               .n_leavers = 1,
                               .next = {0, 3, 4, 2},
                               .n_next = 4,
                               .form_at = STOP_AT};
        play(&scene, 3);
    }
}

/* What one replica loses the other has; of the part that both lose one copy is kept. */
static void replicas_hand_over_what_no_other_has(void)
{
    static struct scene scene;
    for (int s = 1; s < 4; s++)
        for (int second = 1; second < 4; second += 2) {
            scene = (struct scene){.strategy = strategies[s],
                                   .replicas = "2",
                                   .leavers = {3, second == 3 ? 2 : 1},
                                   .n_leavers = 2,
                                   .next = {0, second == 3 ? 1 : 2},
                                   .n_next = 2,
                                   .form_at = STOP_AT};
            play(&scene, 4);
        }
}

static bool stop_one_at_13(void *arg, struct wk_context *ctx)
{
    struct fake_cluster *cluster = arg;
    if (wk_steps(ctx) == STOP_AT)
        fake_stop_one(cluster, 1);
    if (wk_steps(ctx) > STOP_AT)
        usleep(20000);
    return false;
}

/* Nobody says that the others are to go on: half of the grace later all stop, and have saved. */
static void a_stop_that_only_one_hears_of_becomes_everybodys(void)
{
    static struct fake_cluster cluster;
    static struct toy toys[2];
    for (int s = 1; s < 4; s++) {
        struct tmpdir dir = tmpdir_make();
        pthread_t threads[2];
        fake_init(&cluster);
        cluster.grace_ms = 4000;
        fake_form(&cluster, (const int[]){0, 1}, 2);
        memset(toys, 0, sizeof(toys));
        for (int i = 0; i < 2; i++) {
            toys[i].session = fake_session(&cluster, i);
            toys[i].stepped = i ? NULL : stop_one_at_13;
            toys[i].arg = &cluster;
            toy_set(&toys[i], "total_steps", "200");
            toy_set(&toys[i], "strategy", strategies[s]);
            toy_set(&toys[i], "checkpoint.dir", dir.path);
            pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
        }
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < 2; i++)
            CHECK(toys[i].status == WK_ESTOPPED && !strstr(toys[i].error, "go on"));
        CHECK(last_step(&toys[0]) > STOP_AT + 2 && cluster.commits == 1);
        fake_fini(&cluster);
        tmpdir_remove(&dir);
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(whoever_leaves_nothing_is_lost),
        CHECK_CASE(whichever_word_comes_first_they_part_after_the_same_step),
        CHECK_CASE(one_keeps_the_parts_of_many),
        CHECK_CASE(newcomers_take_the_place_of_leavers),
        CHECK_CASE(replicas_hand_over_what_no_other_has),
        CHECK_CASE(a_stop_that_only_one_hears_of_becomes_everybodys),
        {0},
    };
    return check_all(cases, argc, argv);
}
