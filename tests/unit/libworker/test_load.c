/* Reading checkpoints: tensors of several parts, slices of them, and what does not fit together. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <worker/error.h>

#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/list.h"
#include "libworker/checkpoint/load.h"
#include "libworker/checkpoint/manifest.h"
#include "libworker/checkpoint/write.h"
#include "tests/lib/open_files.h"
#include "tests/lib/tmpdir.h"

/* A part has 4 MiB: three of the large tensor, the last one short. */
enum { PART = 1 << 20, LARGE = 2 * PART + 77, SMALL = 9, STEP = 5 };

static float large[LARGE], small[SMALL], back[LARGE];
static struct checkpoint_tensor tensors[] = {
    {.name = "a", .dtype = WK_F32, .dims = 1, .shape = {LARGE}, .data = large},
    {.name = "b", .dtype = WK_F32, .dims = 1, .shape = {SMALL}, .data = small},
};
static struct tmpdir dir;

static void write_step(int64_t step)
{
    struct train_numbers numbers = {.step = step, .n_units = 1};
    struct checkpoint_about about = {3, 1, 1, "ddp"};
    struct error err = {0};
    for (int i = 0; i < LARGE; i++)
        large[i] = (float)i;
    for (int i = 0; i < SMALL; i++)
        small[i] = (float)-i;
    tensors[0].bytes = sizeof(large);
    tensors[1].bytes = sizeof(small);
    struct checkpoint_write what = {dir.path, tensors, 2, &numbers, &about, NULL};
    cr_assert_eq(checkpoint_write(&what, &err), 0, "%s", err.text);
}

static int files_before;

static void begin(void)
{
    dir = tmpdir_make();
    write_step(STEP);
    files_before = open_files();
}

static void end(void)
{
    cr_expect_eq(open_files(), files_before, "a file stays open");
    tmpdir_remove(&dir);
}

TestSuite(load, .init = begin, .fini = end);

static const char *step_path(void)
{
    return tmpdir_path(&dir, "step-00000005");
}

static const char *shard_path(void)
{
    return tmpdir_path(&dir, "step-00000005/rank-00000-of-00001.safetensors");
}

static int load(struct train_numbers *ret, struct error *err)
{
    struct checkpoint_tensor into[] = {tensors[0], tensors[1]};
    into[0].data = back;
    return checkpoint_load(step_path(), into, 2, ret, err);
}

Test(load, slices_of_any_place_are_what_was_written)
{
    static const int64_t firsts[] = {0, 1, PART - 1, PART, PART + 1, 2 * PART, LARGE - 1, LARGE};
    struct checkpoint_reader *reader;
    struct error err = {0};
    cr_assert_eq(checkpoint_open(step_path(), &reader, &err), 0, "%s", err.text);
    cr_assert_eq(checkpoint_manifest(reader)->tensors[0].n_parts, 3);
    for (size_t f = 0; f < sizeof(firsts) / sizeof(firsts[0]); f++)
        for (size_t t = f; t < sizeof(firsts) / sizeof(firsts[0]); t++) {
            struct checkpoint_range range = {0, firsts[f], firsts[t] - firsts[f]};
            back[range.count < LARGE ? range.count : 0] = -7;
            cr_assert_eq(checkpoint_read(reader, range, back, &err), 0, "%s", err.text);
            for (int64_t i = 0; i < range.count; i += 1 + (range.count > 1000) * 97)
                cr_assert_eq(back[i], (float)(range.first + i));
            cr_assert(range.count == LARGE || range.count == 0 || back[range.count] == -7,
                      "nothing beyond is written");
        }
    static const struct checkpoint_range wrong[] = {
        {0, -1, 1}, {0, 0, -1}, {0, 1, LARGE}, {0, LARGE + 1, 0}, {1, SMALL, 1}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        cr_expect_eq(checkpoint_read(reader, wrong[i], back, NULL), WK_EINVAL, "range %zu", i);
    checkpoint_close(reader);
}

Test(load, what_fails_leaves_the_numbers_alone)
{
    struct train_numbers numbers = {.step = 99};
    struct error err = {0};
    cr_assert_eq(load(&numbers, &err), 0, "%s", err.text);
    cr_assert(numbers.step == STEP && back[LARGE - 1] == LARGE - 1);
    struct stat st;
    cr_assert_eq(stat(shard_path(), &st), 0);
    numbers.step = 99;
    int fd = open(shard_path(), O_WRONLY | O_APPEND);
    cr_assert_eq(write(fd, "x", 1), 1);
    close(fd);
    cr_expect_eq(load(&numbers, &err), WK_EIO, "it is longer than the manifest says");
    cr_expect(strstr(err.text, "instead of"), "%s", err.text);
    cr_assert_eq(truncate(shard_path(), st.st_size), 0);
    cr_assert_eq(checkpoint_load(step_path(), tensors, 1, &numbers, &err), WK_EMISMATCH);
    cr_expect(strstr(err.text, "it has 2 tensors, this training has 1"), "%s", err.text);
    cr_expect_eq(numbers.step, 99);
}

/* The last byte of a file is the last tensor's. */
Test(load, the_last_byte_is_verified_too)
{
    struct error err = {0};
    struct stat st;
    unsigned char byte;
    cr_assert_eq(checkpoint_verify(step_path(), &err), 0, "%s", err.text);
    cr_assert_eq(stat(shard_path(), &st), 0);
    int fd = open(shard_path(), O_RDWR);
    cr_assert_eq(pread(fd, &byte, 1, st.st_size - 1), 1);
    byte ^= 1;
    cr_assert_eq(pwrite(fd, &byte, 1, st.st_size - 1), 1);
    close(fd);
    cr_expect_eq(checkpoint_verify(step_path(), &err), WK_EIO);
    cr_expect(strstr(err.text, "tensor b"), "%s", err.text);
}

static void write_state(const char *text, size_t size)
{
    FILE *file = fopen(tmpdir_path(&dir, "step-00000005/state.json"), "wb");
    cr_assert_eq(fwrite(text, 1, size, file), size);
    fclose(file);
}

Test(load, numbers_of_another_step_and_endless_ones_are_refused)
{
    static char spaces[(1 << 20) + 1];
    struct train_numbers numbers = {.step = 99};
    struct error err = {0};
    char *text = NULL;
    size_t size = 0;
    write_step(STEP + 1);
    FILE *file = fopen(tmpdir_path(&dir, "step-00000006/state.json"), "rb");
    ssize_t got = getdelim(&text, &size, 0, file);
    cr_assert_gt(got, 0);
    fclose(file);
    write_state(text, (size_t)got);
    free(text);
    cr_expect_eq(checkpoint_numbers(step_path(), &numbers, &err), WK_EIO);
    cr_expect(strstr(err.text, "it is of step 6, the manifest of 5"), "%s", err.text);
    memset(spaces, ' ', sizeof(spaces));
    write_state(spaces, sizeof(spaces));
    cr_expect_eq(checkpoint_numbers(step_path(), &numbers, &err), WK_EIO);
    cr_expect(strstr(err.text, "is no file of at most 1048576 bytes"), "%s", err.text);
}

Test(load, keeping_0_keeps_all)
{
    int64_t *steps;
    int count;
    write_step(STEP + 1);
    cr_assert_eq(checkpoint_prune(dir.path, STEP + 1, 0, NULL), 0);
    cr_assert_eq(checkpoint_list(dir.path, &steps, &count, NULL), 0);
    cr_expect_eq(count, 2);
    free(steps);
}
