/* Ranks leave, die and join while the loop runs; the losses are those of an undisturbed run. */
#include <dirent.h>
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

enum { STEPS = 60, WORKERS = 3 };

struct scene {
    struct fake_cluster cluster;
    struct toy toys[WORKERS];
    pthread_t threads[WORKERS];
    bool running[WORKERS];
    const char *accumulation;
    bool muon;
};

static void start(struct scene *scene, int worker)
{
    struct toy *toy = &scene->toys[worker];
    toy->session = fake_session(&scene->cluster, worker);
    toy->muon = scene->muon;
    toy_set(toy, "total_steps", "60");
    if (scene->accumulation)
        toy_set(toy, "gradient_accumulation_steps", scene->accumulation);
    scene->running[worker] = true;
    pthread_create(&scene->threads[worker], NULL, toy_thread, toy);
}

static void finish(struct scene *scene)
{
    for (int i = 0; i < WORKERS; i++)
        if (scene->running[i])
            pthread_join(scene->threads[i], NULL);
    fake_fini(&scene->cluster);
}

static const double *undisturbed(bool muon)
{
    static struct scene scenes[2];
    struct scene *scene = &scenes[muon];
    if (scene->toys[0].losses[1] > 0)
        return scene->toys[0].losses;
    fake_init(&scene->cluster);
    fake_form(&scene->cluster, (const int[]){0}, 1);
    scene->muon = muon;
    start(scene, 0);
    finish(scene);
    CHECK(scene->toys[0].status == 0);
    return scene->toys[0].losses;
}

/* Every step was seen by the toys together, once more or less, with the right loss. */
static void check_curve(const struct scene *scene, const char *what)
{
    const double *expected = undisturbed(scene->muon);
    double most = 0;
    for (int step = 1; step <= STEPS; step++) {
        bool seen = false;
        for (int i = 0; i < WORKERS; i++) {
            double loss = scene->toys[i].losses[step];
            if (loss == 0)
                continue;
            seen = true;
            most = fmax(most, fabs(loss - expected[step]));
        }
        CHECK(seen);
    }
    printf("%s: losses differ by %.2e at most\n", what, most);
    CHECK(most < TOY_GUESS * toy_bounds(STEPS).losses);
}

static bool leave_after_20(void *arg, struct wk_context *ctx)
{
    (void)arg;
    return wk_steps(ctx) == 20;
}

static void survivor_goes_on(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){0}, 1);
}

/* Worker 2 joins as the other rank once step 35 is done. */
static bool invite_after_35(void *arg, struct wk_context *ctx)
{
    struct scene *scene = arg;
    if (wk_steps(ctx) == 35 && !scene->running[2]) {
        fake_form(&scene->cluster, (const int[]){0, 2}, 2);
        start(scene, 2);
    }
    return false;
}

static void two_to_one_to_two(const char *accumulation, bool reducing, const char *what)
{
    static struct scene scene;
    memset(&scene, 0, sizeof(scene));
    fake_init(&scene.cluster);
    scene.accumulation = accumulation;
    scene.cluster.on_lost = survivor_goes_on;
    fake_form(&scene.cluster, (const int[]){0, 1}, 2);
    scene.toys[1].stepped = leave_after_20;
    scene.toys[1].leave_reducing = reducing;
    scene.toys[0].stepped = invite_after_35;
    scene.toys[0].arg = &scene;
    start(&scene, 0);
    start(&scene, 1);
    finish(&scene);
    CHECK(scene.toys[0].status == 0 && scene.toys[0].exit_code == 0);
    CHECK(scene.toys[2].status == 0 && scene.toys[2].exit_code == 0);
    for (int step = 1; step <= STEPS; step++)
        CHECK(scene.toys[0].losses[step] > 0);
    CHECK(scene.toys[1].losses[20] > 0 && scene.toys[1].losses[21] == 0);
    CHECK(scene.toys[2].losses[35] == 0 && scene.toys[2].losses[STEPS] > 0);
    if (!accumulation)
        check_curve(&scene, what);
}

static void a_lost_rank_costs_no_step_and_a_new_one_is_taken_in(void)
{
    two_to_one_to_two(NULL, false, "2 to 1 to 2 members");
    two_to_one_to_two(NULL, true, "the same, lost while reducing");
}

static void it_works_inside_accumulation_windows(void)
{
    two_to_one_to_two("3", false, "with accumulation");
    two_to_one_to_two("3", true, "with accumulation");
}

static void newcomer_takes_rank_0(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){2, 1}, 2);
}

static void replace_rank_0(bool muon, const char *what)
{
    static struct scene scene;
    memset(&scene, 0, sizeof(scene));
    fake_init(&scene.cluster);
    scene.muon = muon;
    scene.cluster.on_lost = newcomer_takes_rank_0;
    fake_form(&scene.cluster, (const int[]){0, 1}, 2);
    scene.toys[0].stepped = leave_after_20;
    start(&scene, 0);
    start(&scene, 1);
    start(&scene, 2);
    finish(&scene);
    CHECK(scene.toys[1].status == 0 && scene.toys[2].status == 0);
    for (int step = 1; step <= STEPS; step++)
        CHECK(scene.toys[1].losses[step] > 0);
    CHECK(scene.toys[2].losses[20] == 0 && scene.toys[2].losses[22] > 0);
    check_curve(&scene, what);
}

static void a_lost_rank_0_is_replaced_by_one_without_state(void)
{
    replace_rank_0(false, "rank 0 replaced");
}

static void states_with_shapes_of_their_own_travel_too(void)
{
    replace_rank_0(true, "rank 0 replaced under Muon");
}

/* The other rank is alive but the coordinator has moved on without it. */
static bool move_on_at_10_and_30(void *arg, struct wk_context *ctx)
{
    struct scene *scene = arg;
    if (wk_steps(ctx) == 10)
        fake_form(&scene->cluster, (const int[]){1, 0}, 2);
    if (wk_steps(ctx) == 30)
        fake_form(&scene->cluster, (const int[]){0, 1}, 2);
    return false;
}

static void generations_may_follow_each_other_without_a_loss(void)
{
    static struct scene scene;
    fake_init(&scene.cluster);
    fake_form(&scene.cluster, (const int[]){0, 1}, 2);
    scene.toys[0].stepped = move_on_at_10_and_30;
    scene.toys[0].arg = &scene;
    start(&scene, 0);
    start(&scene, 1);
    finish(&scene);
    CHECK(scene.toys[0].status == 0 && scene.toys[1].status == 0);
    CHECK(scene.cluster.generation == 3);
    for (int step = 1; step <= STEPS; step++)
        CHECK(scene.toys[0].losses[step] > 0 || scene.toys[1].losses[step] > 0);
    check_curve(&scene, "ranks exchanged twice");
}

/* Between two steps, as an evaluation loader would find it. */
static bool evaluate_at_25(void *arg, struct wk_context *ctx)
{
    struct scene *scene = arg;
    if (wk_steps(ctx) != 25)
        return false;
    CHECK(boundary_evaluates(ctx));
    fake_form(&scene->cluster, (const int[]){0}, 1);
    CHECK(!boundary_evaluates(ctx));
    double value = 7;
    CHECK(wk_reduce_value(ctx, &value, WK_SUM) == 0 && value == 7);
    CHECK(!boundary_evaluates(ctx));
    return false;
}

static void evaluation_gives_way_to_a_new_generation(void)
{
    static struct scene scene;
    fake_init(&scene.cluster);
    fake_form(&scene.cluster, (const int[]){0}, 1);
    scene.toys[0].stepped = evaluate_at_25;
    scene.toys[0].arg = &scene;
    start(&scene, 0);
    finish(&scene);
    CHECK(scene.toys[0].status == 0 && scene.cluster.generation == 2);
    CHECK(strstr(scene.toys[0].notices, "evaluation ends early"));
    check_curve(&scene, "a new generation during evaluation");
}

static bool dawdle_at_the_end(void *arg, struct wk_context *ctx)
{
    bool *arrived = arg;
    if (wk_steps(ctx) == STEPS) {
        usleep(200000);
        __atomic_store_n(arrived, true, __ATOMIC_SEQ_CST);
    }
    return false;
}

static void nobody_leaves_before_all_have_arrived(void)
{
    static struct scene scene;
    bool arrived = false;
    fake_init(&scene.cluster);
    fake_form(&scene.cluster, (const int[]){0, 1}, 2);
    scene.toys[1].stepped = dawdle_at_the_end;
    scene.toys[1].arg = &arrived;
    start(&scene, 0);
    start(&scene, 1);
    pthread_join(scene.threads[0], NULL);
    CHECK(__atomic_load_n(&arrived, __ATOMIC_SEQ_CST));
    pthread_join(scene.threads[1], NULL);
    CHECK(scene.toys[0].status == 0 && scene.toys[1].status == 0);
    fake_fini(&scene.cluster);
}

static bool stop_after_15(void *arg, struct wk_context *ctx)
{
    struct scene *scene = arg;
    if (wk_steps(ctx) == 15)
        fake_stop(&scene->cluster);
    return false;
}

static void a_stop_request_saves_and_ends_with_its_own_code(void)
{
    static struct scene scene;
    struct tmpdir dir = tmpdir_make();
    fake_init(&scene.cluster);
    fake_form(&scene.cluster, (const int[]){0, 1}, 2);
    for (int i = 0; i < 2; i++)
        toy_set(&scene.toys[i], "checkpoint.dir", dir.path);
    scene.toys[0].stepped = stop_after_15;
    scene.toys[0].arg = &scene;
    start(&scene, 0);
    start(&scene, 1);
    pthread_join(scene.threads[0], NULL);
    pthread_join(scene.threads[1], NULL);
    CHECK(scene.toys[0].status == WK_ESTOPPED && scene.toys[0].exit_code == WK_EXIT_STOPPED);
    CHECK(scene.toys[1].status == WK_ESTOPPED && scene.toys[1].exit_code == WK_EXIT_STOPPED);
    CHECK(scene.cluster.commits == 1);
    int saved = 0;
    for (int step = 15; step <= 17; step++) { /* the other was in one after it when it heard */
        char path[CHECKPOINT_PATH_MAX];
        CHECK(checkpoint_path(dir.path, step, path) == 0);
        saved += checkpoint_verify(path, NULL) == 0;
    }
    CHECK(saved == 1);
    fake_fini(&scene.cluster);
    tmpdir_remove(&dir);
}

static bool has_leftovers(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    bool found = false;
    while (folder && (entry = readdir(folder)))
        found |= strncmp(entry->d_name, ".step-", 6) == 0;
    if (folder)
        closedir(folder);
    return found;
}

static void a_refused_checkpoint_is_taken_again_and_leaves_nothing(void)
{
    static struct scene scene;
    struct tmpdir dir = tmpdir_make();
    fake_init(&scene.cluster);
    fake_form(&scene.cluster, (const int[]){0}, 1);
    scene.cluster.refuse_prepares = 1;
    toy_set(&scene.toys[0], "checkpoint.dir", dir.path);
    start(&scene, 0);
    pthread_join(scene.threads[0], NULL);
    CHECK(scene.toys[0].status == 0);
    CHECK(strstr(scene.toys[0].notices, "generation is over"));
    CHECK(scene.cluster.commits == 1);
    CHECK(access(tmpdir_path(&dir, "step-00000060/manifest.json"), F_OK) == 0);
    CHECK(!has_leftovers(dir.path));
    fake_fini(&scene.cluster);
    tmpdir_remove(&dir);
}

/* One worker that ends after its steps while the first `calls` about checkpoints fail with `code`.
 */
static void end_with_failing_commits(int calls, int code, const char *patience, struct scene *scene)
{
    struct tmpdir dir = tmpdir_make();
    fake_init(&scene->cluster);
    fake_form(&scene->cluster, (const int[]){0}, 1);
    scene->cluster.fail_commits = calls;
    scene->cluster.fail_code = code;
    toy_set(&scene->toys[0], "checkpoint.dir", dir.path);
    toy_set(&scene->toys[0], "checkpoint.patience", patience);
    start(scene, 0);
    pthread_join(scene->threads[0], NULL);
    bool saved = access(tmpdir_path(&dir, "step-00000060/manifest.json"), F_OK) == 0;
    CHECK(saved == (scene->cluster.commits > 0));
    CHECK(!has_leftovers(dir.path));
    fake_fini(&scene->cluster);
    tmpdir_remove(&dir);
}

static void a_coordinator_that_is_away_at_the_end_is_waited_for(void)
{
    static struct scene scene;
    end_with_failing_commits(3, WK_EUNAVAILABLE, "20s", &scene);
    CHECK(scene.toys[0].status == 0 && scene.toys[0].exit_code == 0);
    CHECK(scene.cluster.commits == 1);
}

static void a_last_checkpoint_that_failed_is_taken_again(void)
{
    static struct scene scene;
    end_with_failing_commits(1, WK_ENOMEM, "20s", &scene);
    CHECK(scene.toys[0].status == 0 && scene.toys[0].exit_code == 0);
    CHECK(scene.cluster.commits == 1);
}

static void an_end_that_cannot_be_saved_is_no_success(void)
{
    static struct scene scenes[2];
    end_with_failing_commits(1000000, WK_EUNAVAILABLE, "300ms", &scenes[0]);
    CHECK(scenes[0].toys[0].status == WK_EUNAVAILABLE && scenes[0].toys[0].exit_code == 1);
    CHECK(strstr(scenes[0].toys[0].error, "the last state is not saved"));
    end_with_failing_commits(1000000, WK_ENOMEM, "300ms", &scenes[1]);
    CHECK(scenes[1].toys[0].status == WK_ENOMEM && scenes[1].toys[0].exit_code == 1);
    CHECK(scenes[0].cluster.commits + scenes[1].cluster.commits == 0);
}

static void a_member_that_waits_for_a_generation_can_be_stopped(void)
{
    static struct scene scene;
    fake_init(&scene.cluster);
    fake_form(&scene.cluster, (const int[]){0, 1}, 2);
    scene.toys[1].stepped = leave_after_20;
    start(&scene, 0);
    start(&scene, 1);
    pthread_join(scene.threads[1], NULL);
    fake_await_loss(&scene.cluster);
    fake_stop(&scene.cluster);
    pthread_join(scene.threads[0], NULL);
    CHECK(scene.toys[0].status == WK_ESTOPPED);
    CHECK(strstr(scene.toys[0].notices, "generation 1 is broken"));
    fake_fini(&scene.cluster);
}

static bool invite_another_after_10(void *arg, struct wk_context *ctx)
{
    struct scene *scene = arg;
    if (wk_steps(ctx) == 10 && !scene->running[2]) {
        fake_form(&scene->cluster, (const int[]){0, 1, 2}, 3);
        start(scene, 2);
    }
    return false;
}

/* Members and newcomer find it before a step is taken together, and say the same. */
static void a_newcomer_that_means_something_else_is_refused_by_all(void)
{
    static struct scene scene;
    fake_init(&scene.cluster);
    fake_form(&scene.cluster, (const int[]){0, 1}, 2);
    scene.toys[0].stepped = invite_another_after_10;
    scene.toys[0].arg = &scene;
    toy_set(&scene.toys[2], "clip_grad_norm", "2");
    start(&scene, 0);
    start(&scene, 1);
    finish(&scene);
    for (int i = 0; i < WORKERS; i++) {
        CHECK(scene.toys[i].status == WK_EMISMATCH);
        CHECK(scene.toys[i].exit_code == (i == 2 ? WK_EXIT_CONFIG : 1)); /* it took no step */
        CHECK(strstr(scene.toys[i].error, "ranks differ in clip_grad_norm: it is 0 on rank 0 and 2 "
                                          "on rank 2; set the same on all ranks"));
        for (int step = 13; step <= STEPS; step++) /* they may do two more until both know */
            CHECK(scene.toys[i].losses[step] == 0);
    }
    CHECK(scene.toys[2].losses[10] == 0 && scene.toys[2].losses[11] == 0);
}

static bool expect_no_wait(void *arg, struct wk_context *ctx)
{
    struct wk_comm_status status = {0};
    (void)arg;
    ctx->session->status(ctx->session->status_arg, &status);
    CHECK(!status.waiting_us);
    return false;
}

/* What an agent asks, while rank 1 has joined but does not connect. */
static void who_does_not_connect_is_told(void)
{
    static struct scene scene;
    struct wk_comm_status status = {0};
    fake_init(&scene.cluster);
    fake_form(&scene.cluster, (const int[]){0, 1}, 2);
    scene.cluster.joined[1] = true;
    snprintf(scene.cluster.endpoints[1], COMM_ENDPOINT_BYTES, "tcp://127.0.0.1:9#nobody");
    scene.toys[0].stepped = expect_no_wait;
    start(&scene, 0);
    struct session *session = scene.toys[0].session;
    pthread_mutex_lock(&scene.cluster.lock);
    while (!scene.cluster.joined[0])
        pthread_cond_wait(&scene.cluster.changed, &scene.cluster.lock);
    pthread_mutex_unlock(&scene.cluster.lock);
    for (int ms = 0; ms < 20000 && !status.waiting_us; ms++) {
        usleep(1000);
        session->status(session->status_arg, &status);
    }
    CHECK(strcmp(status.name, "world") == 0 && strcmp(status.operation, "connect") == 0);
    CHECK(status.waiting_count == 1 && status.waiting[0] == 1);
    fake_form(&scene.cluster, (const int[]){0}, 1);
    finish(&scene);
    CHECK(scene.toys[0].status == 0 && scene.toys[0].losses[STEPS] > 0);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(a_lost_rank_costs_no_step_and_a_new_one_is_taken_in),
        CHECK_CASE(it_works_inside_accumulation_windows),
        CHECK_CASE(a_lost_rank_0_is_replaced_by_one_without_state),
        CHECK_CASE(states_with_shapes_of_their_own_travel_too),
        CHECK_CASE(generations_may_follow_each_other_without_a_loss),
        CHECK_CASE(evaluation_gives_way_to_a_new_generation),
        CHECK_CASE(nobody_leaves_before_all_have_arrived),
        CHECK_CASE(a_stop_request_saves_and_ends_with_its_own_code),
        CHECK_CASE(a_refused_checkpoint_is_taken_again_and_leaves_nothing),
        CHECK_CASE(a_coordinator_that_is_away_at_the_end_is_waited_for),
        CHECK_CASE(a_last_checkpoint_that_failed_is_taken_again),
        CHECK_CASE(an_end_that_cannot_be_saved_is_no_success),
        CHECK_CASE(a_member_that_waits_for_a_generation_can_be_stopped),
        CHECK_CASE(a_newcomer_that_means_something_else_is_refused_by_all),
        CHECK_CASE(who_does_not_connect_is_told),
        {0},
    };
    return check_all(cases, argc, argv);
}
