/* Killed with SIGKILL and resumed: as if nothing had happened, bit for bit on the same world. The
 * program runs itself: `test_train_resume child DIR KILL_AT LOSSES`.
 */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libworker/checkpoint/list.h"
#include "libworker/checkpoint/load.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { STEPS = 60 };

struct killer {
    int64_t kill_at;
    FILE *losses;
};

static bool note_and_die(void *arg, struct wk_context *ctx)
{
    struct killer *killer = arg;
    double loss = wk_loss(ctx);
    fprintf(killer->losses, "%lld %a\n", (long long)wk_steps(ctx), loss);
    fflush(killer->losses);
    /* So that none is left out because the one before it is still being written. */
    wk_save_wait(ctx);
    if (wk_steps(ctx) == killer->kill_at)
        raise(SIGKILL);
    return false;
}

static int child(const char *dir, int64_t kill_at, const char *losses)
{
    static struct toy toy;
    struct killer killer = {kill_at, fopen(losses, "a")};
    if (!killer.losses)
        return 1;
    toy.stepped = note_and_die;
    toy.arg = &killer;
    /* 20 batches an epoch: the kills fall into its middle. */
    toy.text_bytes = 117 * 16 + 1;
    toy_set(&toy, "total_steps", "60");
    if (*dir) {
        toy_set(&toy, "checkpoint.dir", dir);
        toy_set(&toy, "checkpoint.every", "7 steps");
        toy_set(&toy, "resume_from", "latest");
    }
    toy_run(&toy);
    fclose(killer.losses);
    fputs(toy.notices, stderr);
    return toy.exit_code;
}

/* Runs `child`, returns its wait status. */
static int spawn(const char *dir, int kill_at, const char *losses)
{
    char number[16];
    snprintf(number, sizeof(number), "%d", kill_at);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "test_train_resume", "child", dir, number, losses, (char *)NULL);
        _exit(127);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

/* Losses as written, by step; a later line of a step must say the same as an earlier one. */
static void read_losses(const char *path, double *ret)
{
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    int step;
    double loss;
    memset(ret, 0, (STEPS + 1) * sizeof(*ret));
    while (fscanf(file, "%d %la", &step, &loss) == 2) {
        CHECK(step >= 1 && step <= STEPS);
        CHECK(ret[step] == 0 || ret[step] == loss);
        ret[step] = loss;
    }
    fclose(file);
}

static const double *whole(void)
{
    static double losses[STEPS + 1];
    if (losses[1] > 0)
        return losses;
    struct tmpdir dir = tmpdir_make();
    const char *path = tmpdir_path(&dir, "losses");
    CHECK(spawn("", -1, path) == 0);
    read_losses(path, losses);
    tmpdir_remove(&dir);
    return losses;
}

static void killed_twice_it_ends_with_the_same_bits(void)
{
    struct tmpdir dir = tmpdir_make();
    char losses[512], checkpoints[512];
    double seen[STEPS + 1];
    snprintf(losses, sizeof(losses), "%s/losses", dir.path);
    snprintf(checkpoints, sizeof(checkpoints), "%s/checkpoints", dir.path);
    int status = spawn(checkpoints, 17, losses);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    status = spawn(checkpoints, 38, losses);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(spawn(checkpoints, -1, losses) == 0);
    read_losses(losses, seen);
    CHECK(memcmp(seen, whole(), sizeof(seen)) == 0);
    tmpdir_remove(&dir);
}

static void spoil(const char *path)
{
    int fd = open(path, O_RDWR);
    unsigned char byte;
    CHECK(fd >= 0);
    CHECK(pread(fd, &byte, 1, 5000) == 1);
    byte ^= 1;
    CHECK(pwrite(fd, &byte, 1, 5000) == 1);
    close(fd);
}

static void a_damaged_checkpoint_gives_way_to_the_one_before(void)
{
    struct tmpdir dir = tmpdir_make();
    char losses[512], checkpoints[512], path[CHECKPOINT_PATH_MAX];
    double seen[STEPS + 1];
    int64_t *steps;
    int count;
    snprintf(losses, sizeof(losses), "%s/losses", dir.path);
    snprintf(checkpoints, sizeof(checkpoints), "%s/checkpoints", dir.path);
    int status = spawn(checkpoints, 38, losses);
    CHECK(WIFSIGNALED(status));
    CHECK(checkpoint_list(checkpoints, &steps, &count, NULL) == 0 && count >= 2);
    CHECK(checkpoint_path(checkpoints, steps[count - 1], path) == 0);
    CHECK(checkpoint_verify(path, NULL) == 0);
    strncat(path, "/rank-00000-of-00001.safetensors", sizeof(path) - strlen(path) - 1);
    spoil(path);
    free(steps);
    CHECK(spawn(checkpoints, -1, losses) == 0);
    read_losses(losses, seen);
    CHECK(memcmp(seen, whole(), sizeof(seen)) == 0);
    tmpdir_remove(&dir);
}

static void another_world_resumes_with_the_same_losses(void)
{
    static struct toy toys[2];
    struct fake_cluster cluster;
    struct tmpdir dir = tmpdir_make();
    pthread_t threads[2];
    char losses[512], checkpoints[512];
    int64_t *steps;
    int count;
    snprintf(losses, sizeof(losses), "%s/losses", dir.path);
    snprintf(checkpoints, sizeof(checkpoints), "%s/checkpoints", dir.path);
    int status = spawn(checkpoints, 30, losses);
    CHECK(WIFSIGNALED(status));
    CHECK(checkpoint_list(checkpoints, &steps, &count, NULL) == 0 && count >= 1);
    fake_init(&cluster);
    CHECK(checkpoint_path(checkpoints, steps[count - 1], cluster.resume_from) == 0);
    fake_form(&cluster, (const int[]){0, 1}, 2);
    for (int i = 0; i < 2; i++) {
        toys[i].session = fake_session(&cluster, i);
        toys[i].text_bytes = 117 * 16 + 1;
        toy_set(&toys[i], "total_steps", "60");
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        CHECK(toys[i].status == 0);
    }
    for (int64_t step = 1; step <= STEPS; step++) {
        CHECK((toys[1].losses[step] > 0) == (step > steps[count - 1]));
        CHECK(step <= steps[count - 1] ||
              fabs(toys[1].losses[step] - whole()[step]) < TOY_GUESS * toy_bounds(STEPS).losses);
    }
    free(steps);
    fake_fini(&cluster);
    tmpdir_remove(&dir);
}

static bool leave_after_12(void *arg, struct wk_context *ctx)
{
    (void)arg;
    return wk_steps(ctx) == 12;
}

static void states_are_saved_whole(struct toy start)
{
    static struct toy whole_run, first, second;
    struct tmpdir dir = tmpdir_make();
    whole_run = first = second = start;
    toy_set(&whole_run, "total_steps", "20");
    toy_run(&whole_run);
    toy_set(&first, "checkpoint.dir", dir.path);
    first.stepped = leave_after_12;
    toy_run(&first);
    toy_set(&second, "total_steps", "20");
    toy_set(&second, "checkpoint.dir", dir.path);
    toy_set(&second, "resume_from", "latest");
    toy_run(&second);
    CHECK(whole_run.status == 0 && first.status == 0 && second.status == 0);
    CHECK(second.losses[12] == 0 && second.losses[13] > 0);
    CHECK(memcmp(&second.losses[13], &whole_run.losses[13], 8 * sizeof(double)) == 0);
    tmpdir_remove(&dir);
}

static void other_optimizers_states_are_saved_whole(void)
{
    states_are_saved_whole((struct toy){.muon = true});
    states_are_saved_whole((struct toy){.adafactor = true});
}

static void damaged_only_checkpoint(const char *strategy)
{
    struct tmpdir dir = tmpdir_make();
    static struct toy first, second;
    char path[CHECKPOINT_PATH_MAX];
    first = second = (struct toy){0};
    toy_set(&first, "strategy", strategy);
    toy_set(&second, "strategy", strategy);
    toy_set(&first, "total_steps", "5");
    toy_set(&first, "checkpoint.dir", dir.path);
    toy_run(&first);
    CHECK(first.status == 0);
    snprintf(path, sizeof(path), "%s/step-00000005/rank-00000-of-00001.safetensors", dir.path);
    spoil(path);
    toy_set(&second, "total_steps", "8");
    toy_set(&second, "checkpoint.dir", dir.path);
    toy_set(&second, "resume_from", "latest");
    toy_run(&second);
    CHECK(second.status == WK_EIO && second.exit_code == 1);
    CHECK(strstr(second.error, "digest differs"));
    CHECK(!strstr(second.notices, "taking the one before it"));
    tmpdir_remove(&dir);
}

static void a_damaged_only_checkpoint_is_an_error(void)
{
    damaged_only_checkpoint("ddp");
    damaged_only_checkpoint("zero2");
}

static void make_file(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0);
    close(fd);
}

/* A file takes the folder's place. */
static bool spoil_folder(void *path, struct wk_context *ctx)
{
    if (wk_steps(ctx) == 1) {
        CHECK(rmdir(path) == 0);
        make_file(path);
    }
    return false;
}

static void a_disk_that_refuses_ends_training_no_sooner_but_is_no_success(void)
{
    static struct toy toy;
    struct tmpdir dir = tmpdir_make();
    char folder[512];
    snprintf(folder, sizeof(folder), "%s/folder", dir.path);
    toy_set(&toy, "total_steps", "10");
    toy_set(&toy, "checkpoint.dir", folder);
    toy_set(&toy, "checkpoint.every", "4 steps");
    toy.stepped = spoil_folder;
    toy.arg = folder;
    toy_run(&toy);
    CHECK(toy.losses[10] > 0 && strstr(toy.notices, "no checkpoint of step"));
    CHECK(toy.status != 0 && toy.exit_code == 1 && strstr(toy.error, "last state is not saved"));
    tmpdir_remove(&dir);
}

/* So that none is left out because the one before it is still being written. */
static bool wait_for_it(void *arg, struct wk_context *ctx)
{
    (void)arg;
    wk_save_wait(ctx);
    return false;
}

static struct toy short_run(const char *strategy, const char *dir, const char *resume_from)
{
    struct toy toy = {.stepped = wait_for_it};
    toy_set(&toy, "strategy", strategy);
    toy_set(&toy, "total_steps", "8");
    toy_set(&toy, "checkpoint.dir", dir);
    toy_set(&toy, "checkpoint.every", "2 steps");
    toy_set(&toy, "checkpoint.keep", "2");
    toy_set(&toy, "resume_from", resume_from);
    toy_run(&toy);
    return toy;
}

static void a_new_run_begins_in_a_folder_of_its_own(const char *strategy)
{
    struct tmpdir dir = tmpdir_make();
    char file[512];
    snprintf(file, sizeof(file), "%s/file", dir.path);
    make_file(file);
    struct toy toy = short_run(strategy, file, "");
    CHECK(toy.losses[1] == 0 && toy.exit_code == 1 && strstr(toy.error, "checkpoint.dir"));
    CHECK(short_run(strategy, dir.path, "latest").exit_code == 0);
    toy = short_run(strategy, dir.path, "");
    CHECK(toy.losses[1] == 0 && toy.exit_code == WK_EXIT_CONFIG);
    CHECK(strstr(toy.error, "earlier run, up to step 8") && strstr(toy.error, "resume_from"));
    toy = short_run(strategy, dir.path, "latest");
    CHECK(toy.exit_code == 0 && strstr(toy.notices, "nothing is left to train"));
    int lock;
    CHECK(checkpoint_lock(dir.path, &lock, NULL) == 0 && lock >= 0);
    toy = short_run(strategy, dir.path, "latest");
    CHECK(toy.exit_code == WK_EXIT_CONFIG && strstr(toy.error, "another program"));
    close(lock);
    CHECK(short_run(strategy, dir.path, "latest").exit_code == 0);
    tmpdir_remove(&dir);
}

static void a_new_run_does_not_mix_with_an_old_one(void)
{
    a_new_run_begins_in_a_folder_of_its_own("ddp");
    a_new_run_begins_in_a_folder_of_its_own("zero2");
}

static void spoil_step(const char *dir, int64_t step)
{
    char path[CHECKPOINT_PATH_MAX], shard[CHECKPOINT_PATH_MAX + 64];
    CHECK(checkpoint_path(dir, step, path) == 0);
    snprintf(shard, sizeof(shard), "%s/rank-00000-of-00001.safetensors", path);
    spoil(shard);
}

static void what_is_said(const char *strategy)
{
    struct tmpdir dir = tmpdir_make();
    struct toy toy = short_run(strategy, dir.path, "latest");
    CHECK(toy.exit_code == 0 && strstr(toy.notices, "has no checkpoint: begins at step 0"));
    toy = short_run(strategy, dir.path, dir.path);
    CHECK(toy.exit_code == WK_EXIT_CONFIG && strstr(toy.error, "such as step-00000008"));
    spoil_step(dir.path, 8);
    toy = short_run(strategy, dir.path, "latest");
    CHECK(toy.exit_code == 0 && toy.losses[6] == 0 && toy.losses[7] > 0);
    CHECK(strstr(toy.notices, "taking the one before it, step 6"));
    CHECK(!strstr(toy.notices, "later checkpoints") && !strstr(toy.notices, "begins at step 0"));
    spoil_step(dir.path, 8);
    spoil_step(dir.path, 6);
    toy = short_run(strategy, dir.path, "latest");
    CHECK(toy.exit_code == 1 && strstr(toy.error, "none of the last 2 checkpoints can be loaded"));
    CHECK(strstr(toy.error, "step-00000006") && strstr(toy.error, "digest differs"));
    tmpdir_remove(&dir);
}

static void where_it_begins_is_said(void)
{
    what_is_said("ddp");
    what_is_said("zero2");
}

static bool leave_after_6(void *arg, struct wk_context *ctx)
{
    (void)arg;
    wk_save_wait(ctx);
    return wk_steps(ctx) >= 6;
}

/* Steps 6 and 8 are there; the run that starts over from 6 of another folder ends at 6. */
static void who_goes_back_keeps_what_it_writes(void)
{
    struct tmpdir dir = tmpdir_make(), from = tmpdir_make();
    char path[CHECKPOINT_PATH_MAX];
    CHECK(short_run("ddp", dir.path, "").exit_code == 0);
    static struct toy early, again;
    toy_set(&early, "total_steps", "2");
    toy_set(&early, "checkpoint.dir", from.path);
    toy_run(&early);
    CHECK(checkpoint_path(from.path, 2, path) == 0);
    toy_set(&again, "checkpoint.dir", dir.path);
    toy_set(&again, "checkpoint.every", "1 steps");
    toy_set(&again, "checkpoint.keep", "2");
    toy_set(&again, "resume_from", path);
    again.stepped = leave_after_6;
    toy_run(&again);
    CHECK(strstr(again.notices, "later checkpoints, up to step 8"));
    CHECK(checkpoint_path(dir.path, 5, path) == 0 && access(path, F_OK) == 0);
    CHECK(checkpoint_path(dir.path, 4, path) == 0 && access(path, F_OK) != 0);
    CHECK(checkpoint_path(dir.path, 8, path) == 0 && access(path, F_OK) == 0);
    tmpdir_remove(&dir);
    tmpdir_remove(&from);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(killed_twice_it_ends_with_the_same_bits),
        CHECK_CASE(a_damaged_checkpoint_gives_way_to_the_one_before),
        CHECK_CASE(another_world_resumes_with_the_same_losses),
        CHECK_CASE(other_optimizers_states_are_saved_whole),
        CHECK_CASE(a_damaged_only_checkpoint_is_an_error),
        CHECK_CASE(a_disk_that_refuses_ends_training_no_sooner_but_is_no_success),
        CHECK_CASE(a_new_run_does_not_mix_with_an_old_one),
        CHECK_CASE(where_it_begins_is_said),
        CHECK_CASE(who_goes_back_keeps_what_it_writes),
        {0},
    };
    if (argc == 5 && strcmp(argv[1], "child") == 0)
        return child(argv[2], strtoll(argv[3], NULL, 10), argv[4]);
    return check_all(cases, argc, argv);
}
