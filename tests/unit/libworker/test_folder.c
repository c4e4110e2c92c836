/* Checkpoints on disk: whole or absent. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <worker/error.h>

#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/list.h"
#include "libworker/checkpoint/load.h"
#include "libworker/checkpoint/saver.h"
#include "libworker/checkpoint/write.h"
#include "tests/lib/tmpdir.h"

enum { COUNT = 300 };

static float weights[COUNT], momentum[COUNT];

static struct checkpoint_tensor tensors[] = {
    {.name = "model.w",
     .dtype = WK_F32,
     .dims = 2,
     .shape = {30, 10},
     .data = weights,
     .bytes = sizeof(weights)},
    {.name = "optimizer.m.w",
     .dtype = WK_F32,
     .dims = 2,
     .shape = {30, 10},
     .data = momentum,
     .bytes = sizeof(momentum)},
};

static const char *const models[] = {"{\"layers\": 2, \"epsilon\": 1e-05}", NULL};
static const struct checkpoint_about about = {3, 2, 2, "ddp", .models = models, .n_models = 2};

static void fill(float base)
{
    for (int i = 0; i < COUNT; i++) {
        weights[i] = base + (float)i;
        momentum[i] = -base - (float)i / 3;
    }
}

static struct train_numbers numbers_at(int64_t step)
{
    struct train_numbers numbers = {.step = step,
                                    .total_steps = 100,
                                    .n_units = 1,
                                    .units = {{.optimizer_steps = step}},
                                    .n_loaders = 2,
                                    .n_schedulers = 1,
                                    .loaders = {step * 6, 7},
                                    .schedulers = {step}};
    rng_seed(&numbers.rng, 9);
    return numbers;
}

static int write_step(const char *dir, int64_t step, const struct checkpoint_gate *gate,
                      struct error *err)
{
    struct train_numbers numbers = numbers_at(step);
    struct checkpoint_write what = {dir, tensors, 2, &numbers, &about, gate};
    return checkpoint_write(&what, err);
}

static int load(const char *dir, int64_t step, struct train_numbers *ret, struct error *err)
{
    char path[CHECKPOINT_PATH_MAX];
    cr_assert_eq(checkpoint_path(dir, step, path), 0);
    return checkpoint_load(path, tensors, 2, ret, err);
}

Test(folder, what_is_saved_is_loaded_bit_for_bit)
{
    struct tmpdir dir = tmpdir_make();
    struct train_numbers back, expected = numbers_at(20);
    struct error err = {0};
    fill(1.5f);
    cr_assert_eq(write_step(dir.path, 20, NULL, &err), 0, "%s", err.text);
    cr_assert_eq(access(tmpdir_path(&dir, "step-00000020/state.json"), F_OK), 0);
    cr_assert_eq(access(tmpdir_path(&dir, "step-00000020/rank-00000-of-00001.safetensors"), F_OK),
                 0);
    fill(0);
    cr_assert_eq(load(dir.path, 20, &back, &err), 0, "%s", err.text);
    cr_assert_eq(weights[7], 8.5f);
    cr_assert_eq(momentum[6], -3.5f);
    cr_assert_eq(memcmp(&back, &expected, sizeof(back)), 0);
    tmpdir_remove(&dir);
}

static void spoil(const char *path, off_t at)
{
    int fd = open(path, O_RDWR);
    unsigned char byte;
    cr_assert(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 0x10;
    cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* One flipped bit anywhere: refused, never taken. */
Test(folder, every_byte_is_under_a_digest)
{
    static const char *const files[] = {"step-00000005/rank-00000-of-00001.safetensors",
                                        "step-00000005/state.json"};
    struct tmpdir dir = tmpdir_make();
    struct train_numbers back;
    fill(2);
    cr_assert_eq(write_step(dir.path, 5, NULL, NULL), 0);
    for (int f = 0; f < 2; f++) {
        const char *path = tmpdir_path(&dir, files[f]);
        struct stat st;
        cr_assert_eq(stat(path, &st), 0);
        for (off_t at = 0; at < st.st_size; at += 7) {
            spoil(path, at);
            struct error err = {0};
            int rc = load(dir.path, 5, &back, &err);
            cr_assert_eq(rc, WK_EIO, "%s byte %lld: %d %s", files[f], (long long)at, rc, err.text);
            spoil(path, at);
        }
    }
    cr_assert_eq(load(dir.path, 5, &back, NULL), 0);
    tmpdir_remove(&dir);
}

Test(folder, a_damaged_manifest_is_refused_or_means_the_same)
{
    struct tmpdir dir = tmpdir_make();
    const char *path = tmpdir_path(&dir, "step-00000005/manifest.json");
    struct train_numbers back;
    struct stat st;
    fill(2);
    cr_assert_eq(write_step(dir.path, 5, NULL, NULL), 0);
    cr_assert_eq(stat(path, &st), 0);
    for (off_t at = 0; at < st.st_size; at++) {
        spoil(path, at);
        fill(0);
        int rc = load(dir.path, 5, &back, NULL);
        cr_assert(rc == WK_EIO || (rc == 0 && weights[1] == 3), "byte %lld: %d", (long long)at, rc);
        spoil(path, at);
    }
    tmpdir_remove(&dir);
}

Test(folder, torn_files_and_missing_files_are_noticed)
{
    struct tmpdir dir = tmpdir_make();
    struct train_numbers back;
    struct error err = {0};
    fill(2);
    cr_assert_eq(write_step(dir.path, 5, NULL, NULL), 0);
    const char *shard = tmpdir_path(&dir, "step-00000005/rank-00000-of-00001.safetensors");
    struct stat st;
    cr_assert_eq(stat(shard, &st), 0);
    cr_assert_eq(truncate(shard, st.st_size - 1), 0);
    cr_assert_eq(load(dir.path, 5, &back, &err), WK_EIO);
    cr_assert(strstr(err.text, "instead of"), "%s", err.text);
    cr_assert_eq(unlink(shard), 0);
    cr_assert_eq(load(dir.path, 5, &back, &err), WK_EIO);
    cr_assert(strstr(err.text, "missing"), "%s", err.text);
    cr_assert_eq(unlink(tmpdir_path(&dir, "step-00000005/manifest.json")), 0);
    cr_assert_eq(load(dir.path, 5, &back, &err), WK_ENOTFOUND);
    cr_assert_eq(load(dir.path, 6, &back, &err), WK_ENOTFOUND);
    tmpdir_remove(&dir);
}

Test(folder, another_models_checkpoint_is_not_loaded)
{
    struct tmpdir dir = tmpdir_make();
    struct train_numbers back;
    struct error err = {0};
    cr_assert_eq(write_step(dir.path, 5, NULL, NULL), 0);
    tensors[0].shape[0] = 10;
    tensors[0].shape[1] = 30;
    cr_assert_eq(load(dir.path, 5, &back, &err), WK_EMISMATCH);
    cr_assert(strstr(err.text, "model.w"), "%s", err.text);
    char path[CHECKPOINT_PATH_MAX];
    cr_assert_eq(checkpoint_path(dir.path, 5, path), 0);
    cr_assert_eq(checkpoint_load(path, tensors, 1, &back, &err), WK_EMISMATCH);
    tmpdir_remove(&dir);
}

static int refuse(void *arg, const struct checkpoint_claim *claim, struct error *err)
{
    ++*(int *)arg;
    cr_assert_eq(claim->step, 5);
    return error_set(err, WK_EABORT, "the generation is over");
}

static int agree(void *arg, const struct checkpoint_claim *claim, struct error *err)
{
    (void)err;
    *(uint64_t *)arg = claim->bytes;
    return 0;
}

static int entries(const char *dir)
{
    char command[600];
    snprintf(command, sizeof(command), "ls -A '%s' | wc -l", dir);
    FILE *out = popen(command, "r");
    int n = -1;
    cr_assert_eq(fscanf(out, "%d", &n), 1);
    pclose(out);
    return n;
}

Test(folder, a_refused_one_leaves_nothing_behind)
{
    struct tmpdir dir = tmpdir_make();
    int asked = 0;
    struct checkpoint_gate gate = {.arg = &asked, .prepare = refuse};
    struct error err = {0};
    cr_assert_eq(write_step(dir.path, 5, &gate, &err), WK_EABORT);
    cr_assert_eq(asked, 1);
    cr_assert_eq(entries(dir.path), 0);
    uint64_t bytes = 0;
    gate = (struct checkpoint_gate){.arg = &bytes, .done = agree};
    cr_assert_eq(write_step(dir.path, 5, &gate, &err), 0);
    cr_assert_gt(bytes, sizeof(weights) + sizeof(momentum));
    tmpdir_remove(&dir);
}

Test(folder, a_step_written_again_replaces_the_old_one)
{
    struct tmpdir dir = tmpdir_make();
    struct train_numbers back;
    fill(1);
    cr_assert_eq(write_step(dir.path, 5, NULL, NULL), 0);
    fill(2);
    cr_assert_eq(write_step(dir.path, 5, NULL, NULL), 0);
    fill(0);
    cr_assert_eq(load(dir.path, 5, &back, NULL), 0);
    cr_assert_eq(weights[0], 2);
    cr_assert_eq(entries(dir.path), 1);
    tmpdir_remove(&dir);
}

/* In the place of libc's: a file system without exchange, and where committed folders go. */
static bool no_exchange;
static int moved_away;

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (no_exchange) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

int rename(const char *from, const char *to)
{
    moved_away += checkpoint_step_of(from) >= 0;
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

Test(folder, a_committed_step_is_there_at_every_moment_of_its_replacement)
{
    struct tmpdir dir = tmpdir_make();
    cr_assert_eq(write_step(dir.path, 5, NULL, NULL), 0);
    cr_assert_eq(write_step(dir.path, 5, NULL, NULL), 0);
    cr_expect_eq(moved_away, 0, "it was moved away before the new one came");
    no_exchange = true;
    fill(3);
    struct train_numbers back;
    cr_assert_eq(write_step(dir.path, 5, NULL, NULL), 0);
    fill(0);
    cr_assert_eq(load(dir.path, 5, &back, NULL), 0);
    cr_expect_eq(weights[0], 3);
    cr_expect_eq(entries(dir.path), 1);
    tmpdir_remove(&dir);
}

static int overtaken(void *arg, const struct checkpoint_claim *claim, struct error *err)
{
    fill(7);
    cr_assert_eq(write_step(arg, claim->step, NULL, err), 0);
    return error_set(err, WK_EABORT, "the generation is over");
}

static int away(void *arg, const struct checkpoint_claim *claim, struct error *err)
{
    (void)arg, (void)claim;
    return error_set(err, WK_EUNAVAILABLE, "nobody answers");
}

/* What `done` refuses is not there, and what it had replaced is there again. */
static void expect_refused(const char *dir)
{
    struct train_numbers back;
    int asked = 0;
    struct checkpoint_gate gate = {.arg = &asked, .done = refuse};
    fill(1);
    cr_assert_eq(write_step(dir, 5, &gate, NULL), WK_EABORT);
    cr_expect_eq(entries(dir), 0, "it does not count and takes no place");
    cr_assert_eq(write_step(dir, 5, NULL, NULL), 0);
    fill(2);
    cr_assert_eq(write_step(dir, 5, &gate, NULL), WK_EABORT);
    cr_assert_eq(asked, 2);
    cr_assert_eq(load(dir, 5, &back, NULL), 0);
    cr_expect_eq(weights[0], 1);
    cr_expect_eq(entries(dir), 1);
}

Test(folder, what_done_refuses_leaves_what_was_there)
{
    struct tmpdir dir = tmpdir_make(), other = tmpdir_make();
    expect_refused(dir.path);
    no_exchange = true;
    expect_refused(other.path);
    tmpdir_remove(&other);
    tmpdir_remove(&dir);
}

Test(folder, what_done_may_have_taken_stays)
{
    struct tmpdir dir = tmpdir_make();
    struct train_numbers back;
    struct checkpoint_gate gate = {.done = away};
    fill(4);
    cr_assert_eq(write_step(dir.path, 5, &gate, NULL), WK_EUNAVAILABLE);
    cr_assert_eq(load(dir.path, 5, &back, NULL), 0);
    tmpdir_remove(&dir);
}

Test(folder, what_a_newer_generation_put_there_meanwhile_stays)
{
    struct tmpdir dir = tmpdir_make();
    struct train_numbers back;
    struct checkpoint_gate gate = {.arg = dir.path, .done = overtaken};
    cr_assert_eq(write_step(dir.path, 5, &gate, NULL), WK_EABORT);
    cr_assert_eq(load(dir.path, 5, &back, NULL), 0);
    cr_expect_eq(weights[0], 7);
    cr_expect_eq(entries(dir.path), 1);
    tmpdir_remove(&dir);
}

Test(folder, leftovers_go_but_not_those_of_newer_generations)
{
    struct tmpdir dir = tmpdir_make();
    char name[CHECKPOINT_PATH_MAX];
    for (uint32_t i = 0; i < 2; i++) { /* about.generation is 3 */
        cr_assert_eq(checkpoint_temporary(dir.path, 5, 3 + i, 9, name), 0);
        cr_assert_eq(mkdir(name, 0700), 0);
    }
    cr_assert_eq(mkdir(tmpdir_path(&dir, ".step-00000070.tmp"), 0700), 0);
    cr_assert_eq(mkdir(tmpdir_path(&dir, ".replaced-00000004.tmp"), 0700), 0);
    cr_assert_eq(mkdir(tmpdir_path(&dir, ".replaced-00000009.tmp"), 0700), 0);
    cr_assert_eq(mkdir(tmpdir_path(&dir, "step-00000009"), 0700), 0);
    cr_assert_eq(write_step(dir.path, 5, NULL, NULL), 0);
    cr_expect_eq(access(name, F_OK), 0);
    cr_expect_eq(access(tmpdir_path(&dir, "step-00000004"), F_OK), 0, "a crash had moved it aside");
    cr_expect_eq(entries(dir.path), 4); /* name, steps 4, 5 and 9 */
    tmpdir_remove(&dir);
}

Test(folder, listing_and_pruning_see_only_whole_ones)
{
    struct tmpdir dir = tmpdir_make();
    int64_t *steps;
    int count;
    for (int64_t step = 10; step <= 50; step += 10)
        cr_assert_eq(write_step(dir.path, step, NULL, NULL), 0);
    cr_assert_eq(mkdir(tmpdir_path(&dir, "step-00000060"), 0700), 0);
    cr_assert_eq(mkdir(tmpdir_path(&dir, ".step-00000070.tmp"), 0700), 0);
    cr_assert_eq(checkpoint_list(dir.path, &steps, &count, NULL), 0);
    cr_assert_eq(count, 5);
    cr_assert_eq(steps[4], 50);
    free(steps);
    cr_assert_eq(checkpoint_prune(dir.path, 20, 2, NULL), 0);
    cr_assert_eq(checkpoint_list(dir.path, &steps, &count, NULL), 0);
    cr_assert_eq(count, 5, "later ones push out nothing");
    free(steps);
    cr_assert_eq(checkpoint_prune(dir.path, 50, 2, NULL), 0);
    cr_assert_eq(checkpoint_list(dir.path, &steps, &count, NULL), 0);
    cr_assert_eq(count, 2);
    cr_assert_eq(steps[0], 40);
    free(steps);
    cr_assert_eq(checkpoint_remove(tmpdir_path(&dir, "precious"), NULL), WK_EINVAL);
    cr_assert_eq(checkpoint_list("/nonexistent", &steps, &count, NULL), 0);
    cr_assert_eq(count, 0);
    free(steps);
    tmpdir_remove(&dir);
}

/* Loading step 20 as a user who may not search its folder. */
static void expect_listed_and_refused(struct tmpdir *dir, mode_t mode)
{
    struct error err = {0};
    struct train_numbers back;
    const char *folder = tmpdir_path(dir, "step-00000020");
    int64_t *steps;
    int count;
    bool root = geteuid() == 0;
    cr_assert_eq(chmod(folder, mode), 0);
    cr_assert(!root || seteuid(65534) == 0);
    cr_assert_eq(checkpoint_list(dir->path, &steps, &count, &err), 0);
    cr_assert_eq(count, 2, "mode %o: %d are listed", (unsigned)mode, count);
    cr_expect_eq(steps[1], 20);
    free(steps);
    cr_expect_eq(load(dir->path, 20, &back, &err), WK_EIO);
    cr_expect(strstr(err.text, "Permission denied"), "mode %o: %s", (unsigned)mode, err.text);
    cr_assert(!root || seteuid(0) == 0);
}

Test(folder, one_that_may_not_be_searched_is_listed_and_not_pruned)
{
    struct tmpdir dir = tmpdir_make();
    struct error err = {0};
    cr_assert_eq(chmod(dir.path, 0777), 0);
    cr_assert_eq(write_step(dir.path, 10, NULL, &err), 0, "%s", err.text);
    cr_assert_eq(write_step(dir.path, 20, NULL, &err), 0, "%s", err.text);
    cr_assert_eq(chmod(tmpdir_path(&dir, "step-00000010"), 0755), 0);
    expect_listed_and_refused(&dir, 0);
    expect_listed_and_refused(&dir, 0444);

    bool root = geteuid() == 0;
    cr_assert(!root || seteuid(65534) == 0);
    cr_expect_eq(checkpoint_prune(dir.path, 30, 1, &err), 0, "%s", err.text);
    cr_assert(!root || seteuid(0) == 0);
    cr_assert_eq(chmod(tmpdir_path(&dir, "step-00000020"), 0755), 0);
    cr_expect_eq(load(dir.path, 20, &(struct train_numbers){0}, &err), 0, "%s", err.text);
    tmpdir_remove(&dir);
}

Test(folder, steps_are_read_from_names)
{
    cr_assert_eq(checkpoint_step_of("/a/b/step-00000200"), 200);
    cr_assert_eq(checkpoint_step_of("step-123456789012"), 123456789012);
    cr_assert_eq(checkpoint_step_of("/a/step-"), -1);
    cr_assert_eq(checkpoint_step_of("/a/step-12x"), -1);
    cr_assert_eq(checkpoint_step_of("/a/.step-00000001.tmp"), -1);
}

Test(saver, writes_the_state_of_the_moment_it_was_taken)
{
    struct tmpdir dir = tmpdir_make();
    struct saver *saver;
    struct saver_options options = {.dir = dir.path, .keep = 2};
    struct train_numbers numbers, back;
    cr_assert_eq(saver_new(&options, &saver, NULL), 0);
    for (int64_t step = 1; step <= 4; step++) {
        struct error err = {0};
        numbers = numbers_at(step);
        struct checkpoint_write what = {NULL, tensors, 2, &numbers, &about, NULL};
        fill((float)step);
        cr_assert_eq(saver_take(saver, &what, &err), 0, "%s", err.text);
        fill(-1);
        numbers.step = 999;
        cr_assert_eq(saver_wait(saver, &err), 0, "%s", err.text);
    }
    saver_free(saver);
    cr_assert_eq(load(dir.path, 4, &back, NULL), 0);
    cr_assert(weights[0] == 4 && back.step == 4);
    cr_assert_eq(entries(dir.path), 2);
    tmpdir_remove(&dir);
}
