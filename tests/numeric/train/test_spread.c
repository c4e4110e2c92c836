/* A second loss while the first one's damage is being mended: the rank that sends its state to the
 * others dies between the parameters and the optimizer's state. Nothing may be lost that was whole,
 * and nothing may be made of two states.
 *
 * Ranks are threads; wk_broadcast and wk_wait are wrapped by the linker. A rank that dies stays
 * where it is until the process ends.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { STEPS = 60, WORKERS = 4, WORD_AND_PARAMETERS = 2, NOBODY = -1 };

static __thread int me = NOBODY;
static __thread int sent;
static __thread struct session *mine;
static atomic_int dying;  /* worker that dies once it has sent word and parameters */
static atomic_int behind; /* worker that misses the sums of its next step, which the others get */

int __real_wk_broadcast(struct wk_comm *comm, void *data, size_t count, enum wk_dtype dtype,
                        int source, struct wk_work **ret);
int __wrap_wk_broadcast(struct wk_comm *comm, void *data, size_t count, enum wk_dtype dtype,
                        int source, struct wk_work **ret);
int __real_wk_wait(struct wk_work *work);
int __wrap_wk_wait(struct wk_work *work);

int __wrap_wk_broadcast(struct wk_comm *comm, void *data, size_t count, enum wk_dtype dtype,
                        int source, struct wk_work **ret)
{
    if (me != NOBODY && me == atomic_load(&dying) && sent++ == WORD_AND_PARAMETERS) {
        uint64_t generation = mine->ops->target(mine);
        usleep(50000); /* for what was sent to arrive */
        wk_comm_abort(comm);
        mine->ops->lost(mine, generation, NULL, 0); /* as an agent sees its worker end */
        for (;;)
            pause();
    }
    return __real_wk_broadcast(comm, data, count, dtype, source, ret);
}

int __wrap_wk_wait(struct wk_work *work)
{
    int rc = __real_wk_wait(work), expected = me;
    if (me == NOBODY || !atomic_compare_exchange_strong(&behind, &expected, NOBODY))
        return rc;
    usleep(100000);
    return WK_EPEER;
}

struct worker {
    struct toy toy;
    int id;
    pthread_t thread;
};

struct scene {
    struct fake_cluster cluster;
    struct worker workers[WORKERS];
    int losses;           /* reported so far */
    _Atomic int64_t last; /* step of the survivor */
    bool went_back;
};

static void *run(void *arg)
{
    struct worker *worker = arg;
    me = worker->id;
    mine = worker->toy.session;
    toy_run(&worker->toy);
    return NULL;
}

static struct scene *scene_new(void)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    CHECK(scene);
    atomic_store(&dying, NOBODY);
    atomic_store(&behind, NOBODY);
    fake_init(&scene->cluster);
    for (int i = 0; i < WORKERS; i++) {
        scene->workers[i].id = i;
        scene->workers[i].toy.arg = scene;
        toy_set(&scene->workers[i].toy, "total_steps", "60");
    }
    return scene;
}

static void start(struct scene *scene, int worker)
{
    scene->workers[worker].toy.session = fake_session(&scene->cluster, worker);
    CHECK(pthread_create(&scene->workers[worker].thread, NULL, run, &scene->workers[worker]) == 0);
}

static const struct toy *finish(struct scene *scene, int worker)
{
    pthread_join(scene->workers[worker].thread, NULL);
    return &scene->workers[worker].toy;
}

static const double *undisturbed(void)
{
    static struct scene *scene;
    if (scene)
        return scene->workers[0].toy.losses;
    scene = scene_new();
    fake_form(&scene->cluster, (const int[]){0}, 1);
    start(scene, 0);
    CHECK(finish(scene, 0)->status == 0);
    return scene->workers[0].toy.losses;
}

/* The survivor took every step once, each with the right loss. */
static void check_curve(const struct scene *scene, const struct toy *survivor, const char *what)
{
    const double *expected = undisturbed();
    double most = 0;
    for (int step = 1; step <= STEPS; step++)
        if (survivor->losses[step] > 0)
            most = fmax(most, fabs(survivor->losses[step] - expected[step]));
    printf("%s: losses differ by %.2e at most\n", what, most);
    CHECK(survivor->status == 0 && survivor->losses[STEPS] > 0);
    CHECK(!scene->went_back);
    CHECK(most < TOY_GUESS * toy_bounds(STEPS).losses);
}

static void watch_for_going_back(struct scene *scene, struct wk_context *ctx)
{
    scene->went_back |= wk_steps(ctx) <= scene->last;
    scene->last = wk_steps(ctx);
}

/* The survivor is let through its step too: what leaves first ends the others' collectives. */
static bool grow_at_35(void *arg, struct wk_context *ctx)
{
    struct scene *scene = arg;
    if (wk_steps(ctx) == 35 && !scene->workers[2].toy.session) {
        while (atomic_load(&scene->last) < 35)
            usleep(1000);
        atomic_store(&dying, 0);
        fake_form(&scene->cluster, (const int[]){0, 1, 2}, 3);
        start(scene, 2);
        start(scene, 3);
    }
    return false;
}

static bool only_watch(void *arg, struct wk_context *ctx)
{
    watch_for_going_back(arg, ctx);
    return false;
}

static void newcomer_takes_rank_0(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){3, 1, 2}, 3);
}

static void a_survivor_of_the_same_step_keeps_it(void)
{
    (void)undisturbed();
    struct scene *scene = scene_new();
    scene->cluster.on_lost = newcomer_takes_rank_0;
    scene->workers[0].toy.stepped = grow_at_35;
    scene->workers[1].toy.stepped = only_watch;
    fake_form(&scene->cluster, (const int[]){0, 1}, 2);
    start(scene, 0);
    start(scene, 1);
    const struct toy *survivor = finish(scene, 1);
    check_curve(scene, survivor, "the source is replaced while a gang grows");
    for (int step = 1; step <= STEPS; step++)
        CHECK(survivor->losses[step] > 0);
    CHECK(finish(scene, 2)->status == 0 && finish(scene, 3)->status == 0);
    CHECK(scene->workers[2].toy.losses[35] == 0 && scene->workers[3].toy.losses[STEPS] > 0);
}

static bool fall_behind_at_20(void *arg, struct wk_context *ctx)
{
    watch_for_going_back(arg, ctx);
    if (wk_steps(ctx) == 20)
        atomic_store(&behind, 1);
    return false;
}

static void first_together_then_alone(struct fake_cluster *cluster)
{
    static const int both[] = {0, 1}, rest[] = {1};
    struct scene *scene = (struct scene *)cluster; /* its first member */
    bool first = scene->losses++ == 0;
    if (first)
        atomic_store(&dying, 0);
    fake_form_locked(cluster, first ? both : rest, first ? 2 : 1);
}

static void a_survivor_one_step_behind_mixes_nothing(void)
{
    (void)undisturbed();
    struct scene *scene = scene_new();
    scene->cluster.on_lost = first_together_then_alone;
    scene->workers[1].toy.stepped = fall_behind_at_20;
    fake_form(&scene->cluster, (const int[]){0, 1}, 2);
    start(scene, 0);
    start(scene, 1);
    const struct toy *survivor = finish(scene, 1);
    check_curve(scene, survivor, "the source dies before one that is a step behind");
    for (int step = 1; step <= STEPS; step++)
        CHECK(survivor->losses[step] > 0);
}

static bool invite_at_10(void *arg, struct wk_context *ctx)
{
    struct scene *scene = arg;
    if (wk_steps(ctx) == 10 && !scene->workers[1].toy.session) {
        atomic_store(&dying, 0);
        fake_form(&scene->cluster, (const int[]){0, 1, 2}, 3);
        start(scene, 1);
        start(scene, 2);
    }
    return false;
}

static void newcomers_alone(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){1, 2}, 2);
}

static void newcomers_do_not_start_from_half_a_state(void)
{
    struct scene *scene = scene_new();
    scene->cluster.on_lost = newcomers_alone;
    scene->workers[0].toy.stepped = invite_at_10;
    fake_form(&scene->cluster, (const int[]){0}, 1);
    start(scene, 0);
    while (!__atomic_load_n(&scene->workers[2].toy.session, __ATOMIC_SEQ_CST))
        usleep(1000);
    usleep(10000);
    for (int i = 1; i <= 2; i++) {
        const struct toy *toy = finish(scene, i);
        CHECK(toy->status == WK_ESTATE || toy->status == WK_EPEER);
        CHECK(toy->exit_code != 0 && toy->losses[1] == 0);
    }
    CHECK(strstr(scene->workers[1].toy.error, "was lost while it was sending it"));
}

static void an_untouched_newcomer_starts_the_others(void)
{
    (void)undisturbed();
    struct scene *scene = scene_new();
    scene->cluster.on_lost = newcomer_takes_rank_0;
    scene->workers[0].toy.stepped = invite_at_10;
    fake_form(&scene->cluster, (const int[]){0}, 1);
    start(scene, 3);
    start(scene, 0);
    const struct toy *newcomer = finish(scene, 3);
    check_curve(scene, newcomer, "all state lost, from the start again");
    CHECK(newcomer->losses[1] > 0);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(a_survivor_of_the_same_step_keeps_it),
        CHECK_CASE(a_survivor_one_step_behind_mixes_nothing),
        CHECK_CASE(newcomers_do_not_start_from_half_a_state),
        CHECK_CASE(an_untouched_newcomer_starts_the_others),
        {0},
    };
    return check_all(cases, argc, argv);
}
