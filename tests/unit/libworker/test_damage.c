/* Any single damage to any file of a checkpoint: the state is read as it was written, or refused
 * with a code that sends the caller to an older checkpoint, and with a sentence. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <worker/error.h>

#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/load.h"
#include "libworker/checkpoint/write.h"
#include "tests/lib/open_files.h"
#include "tests/lib/tmpdir.h"

enum { COUNT = 24, STEP = 5, FILES = 3, NESTED = 1 << 16 };

static const char *const names[FILES] = {"manifest.json", "state.json",
                                         "rank-00000-of-00001.safetensors"};
static float weights[COUNT], momentum[COUNT];
static struct checkpoint_tensor tensors[] = {
    {.name = "model.w", .dtype = WK_F32, .dims = 2, .shape = {6, 4}, .data = weights},
    {.name = "optimizer.m.w", .dtype = WK_F32, .dims = 1, .shape = {COUNT}, .data = momentum},
};
static struct train_numbers written;
static struct tmpdir dir;
static char path[512]; /* of the file under test */
static char *content;  /* what it held */
static size_t size;

static void fill(float sign)
{
    for (int i = 0; i < COUNT; i++) {
        weights[i] = sign * (float)(i + 1);
        momentum[i] = sign * (float)i / 3;
    }
}

static void begin(void)
{
    static const char *const models[] = {"{\"layers\": 2}"};
    struct checkpoint_about about = {3, 1, 1, "ddp", .models = models, .n_models = 1};
    dir = tmpdir_make();
    written = (struct train_numbers){.step = STEP,
                                     .total_steps = 9,
                                     .n_units = 1,
                                     .units = {{.optimizer_steps = 5, .loss_scale = 512}},
                                     .n_loaders = 1,
                                     .n_schedulers = 1,
                                     .loaders = {77},
                                     .schedulers = {5}};
    rng_seed(&written.rng, 11);
    for (int i = 0; i < 2; i++)
        tensors[i].bytes = sizeof(weights);
    fill(1);
    struct checkpoint_write what = {dir.path, tensors, 2, &written, &about, NULL};
    cr_assert_eq(checkpoint_write(&what, NULL), 0);
}

static void end(void)
{
    tmpdir_remove(&dir);
}

TestSuite(damage, .init = begin, .fini = end);

static void put(const char *bytes, size_t count)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cr_assert(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
    close(fd);
}

static void choose(int file)
{
    struct stat st;
    snprintf(path, sizeof(path), "%s/step-00000005/%s", dir.path, names[file]);
    cr_assert_eq(stat(path, &st), 0);
    size = (size_t)st.st_size;
    content = malloc(size);
    int fd = open(path, O_RDONLY);
    cr_assert(content && fd >= 0 && read(fd, content, size) == (ssize_t)size);
    close(fd);
}

static void leave(void)
{
    put(content, size);
    free(content);
}

static bool same_state(const struct train_numbers *numbers)
{
    bool same = memcmp(numbers, &written, sizeof(written)) == 0;
    for (int i = 0; i < COUNT; i++)
        same = same && weights[i] == (float)(i + 1) && momentum[i] == (float)i / 3;
    return same;
}

/* Every way into a checkpoint: none takes what was not written, and each failure's code is the one
 * in the error, which callers look at as well. */
static void expect_refused_or_whole(const char *how, size_t at)
{
    const char *folder = tmpdir_path(&dir, "step-00000005");
    struct train_numbers numbers = {0}, alone = {0};
    struct error errors[3] = {0};
    fill(0);
    int rcs[3] = {checkpoint_numbers(folder, &alone, &errors[0]),
                  checkpoint_load(folder, tensors, 2, &numbers, &errors[1]),
                  checkpoint_verify(folder, &errors[2])};
    for (int i = 0; i < 3; i++) {
        cr_assert(rcs[i] == 0 || rcs[i] == WK_EIO || rcs[i] == WK_ENOTFOUND,
                  "%s %s at %zu: way %d gave %d: %s", path, how, at, i, rcs[i], errors[i].text);
        cr_assert(rcs[i] == errors[i].code && !rcs[i] == !*errors[i].text,
                  "%s %s at %zu: way %d gave %d and %d: %s", path, how, at, i, rcs[i],
                  errors[i].code, errors[i].text);
    }
    cr_assert(rcs[0] || memcmp(&alone, &written, sizeof(written)) == 0, "%s %s at %zu", path, how,
              at);
    cr_assert(rcs[1] || same_state(&numbers), "%s %s at %zu", path, how, at);
    cr_assert_eq(rcs[1], rcs[2], "%s %s at %zu: loading %d, verifying %d", path, how, at, rcs[1],
                 rcs[2]);
}

Test(damage, a_file_cut_anywhere)
{
    int files = open_files();
    for (int f = 0; f < FILES; f++) {
        choose(f);
        for (size_t at = 0; at < size; at++) {
            put(content, at);
            expect_refused_or_whole("cut", at);
        }
        leave();
    }
    cr_expect_eq(open_files(), files, "a file stays open");
}

Test(damage, one_bit_anywhere, .timeout = 300)
{
    int files = open_files();
    for (int f = 0; f < FILES; f++) {
        choose(f);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            char flip = (char)(1 << bit % 8);
            content[bit / 8] = (char)(content[bit / 8] ^ flip);
            put(content, size);
            expect_refused_or_whole("bit", bit);
            content[bit / 8] = (char)(content[bit / 8] ^ flip);
        }
        leave();
    }
    cr_expect_eq(open_files(), files, "a file stays open");
}

Test(damage, one_byte_more_or_less_anywhere)
{
    for (int f = 0; f < FILES; f++) {
        choose(f);
        char *other = malloc(size + 1);
        for (size_t at = 0; at < size; at++) {
            memcpy(other, content, at);
            memcpy(other + at, content + at + 1, size - at - 1);
            put(other, size - 1);
            expect_refused_or_whole("less", at);
            other[at] = '7';
            memcpy(other + at + 1, content + at, size - at);
            put(other, size + 1);
            expect_refused_or_whole("more", at);
        }
        free(other);
        leave();
    }
}

static void remove_it(void)
{
    cr_assert_eq(unlink(path), 0);
}

static void make_a_folder(void)
{
    remove_it();
    cr_assert_eq(mkdir(path, 0700), 0);
}

/* What nobody can open, root neither. */
static void make_unreadable(void)
{
    remove_it();
    cr_assert_eq(symlink(path, path), 0);
}

static void make_a_pipe(void)
{
    remove_it();
    cr_assert_eq(mkfifo(path, 0600), 0);
}

static void make_huge(void)
{
    cr_assert_eq(truncate(path, (off_t)1 << 40), 0);
}

static void make_deep(void)
{
    static char deep[NESTED];
    memset(deep, '[', sizeof(deep));
    put(deep, sizeof(deep));
}

static void make_zeros(void)
{
    char *zeros = calloc(1, size);
    put(zeros, size);
    free(zeros);
}

static void put_back(void)
{
    if (rmdir(path) && unlink(path))
        cr_assert(access(path, F_OK) != 0);
    leave();
}

Test(damage, a_file_that_is_none)
{
    static const struct {
        const char *name;
        void (*make)(void);
    } kinds[] = {
        {"removed", remove_it}, {"folder", make_a_folder}, {"unreadable", make_unreadable},
        {"pipe", make_a_pipe},  {"huge", make_huge},       {"deep", make_deep},
        {"zeros", make_zeros},
    };
    int files = open_files();
    for (int f = 0; f < FILES; f++)
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            choose(f);
            kinds[k].make();
            expect_refused_or_whole(kinds[k].name, 0);
            put_back();
            expect_refused_or_whole("put back", 0);
        }
    cr_expect_eq(open_files(), files, "a file stays open");
}

/* A user who is not root meets files that another user wrote for himself. */
Test(damage, a_file_of_somebody_elses)
{
    if (geteuid() == 0) {
        cr_assert_eq(chmod(dir.path, 0755), 0);
        cr_assert_eq(chmod(tmpdir_path(&dir, "step-00000005"), 0755), 0);
    }
    for (int f = 0; f < FILES; f++) {
        choose(f);
        cr_assert_eq(chmod(path, 0), 0);
        bool root = geteuid() == 0;
        cr_assert(!root || seteuid(65534) == 0);
        expect_refused_or_whole("mode 0", 0);
        cr_assert(!root || seteuid(0) == 0);
        cr_assert_eq(chmod(path, 0600), 0);
        leave();
    }
}
