/* The saver's thread, and ranks that write one checkpoint together. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <worker/error.h>

#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/list.h"
#include "libworker/checkpoint/load.h"
#include "libworker/checkpoint/manifest.h"
#include "libworker/checkpoint/saver.h"
#include "libworker/checkpoint/write.h"
#include "libworker/device/rehearsal/rehearsal.h"
#include "tests/lib/tmpdir.h"

enum { COUNT = 10 };

static float weights[COUNT];
static struct tmpdir dir;
static struct saver *saver;
static sem_t asked, let_go;

static void begin(void)
{
    dir = tmpdir_make();
}

static void end(void)
{
    saver_free(saver);
    tmpdir_remove(&dir);
}

TestSuite(saving, .init = begin, .fini = end);

/* A device that the host cannot read, with weights of its own; NULL: they are the host's. */
static struct device *device;
static struct queue *queue;
static float *on_device;

static void open_device(void)
{
    struct rehearsal_options options = {.seed = 1};
    void *memory = NULL;
    cr_assert_eq(rehearsal_new(&options, &device, NULL), 0);
    cr_assert_eq(queue_new(device, &queue, NULL), 0);
    cr_assert_eq(device_memory_new(device, sizeof(weights), &memory, NULL), 0);
    on_device = memory;
    cr_assert_eq(queue_write(queue, on_device, weights, sizeof(weights), NULL), 0);
}

static void close_device(void)
{
    saver_free(saver);
    saver = NULL;
    device_memory_free(device, on_device, sizeof(weights));
    queue_free(queue);
    device_free(device);
    on_device = NULL;
    queue = NULL;
}

/* A rank of `shards` with its part of COUNT elements, or of several tensors of that size. */
struct part {
    int64_t step;
    int rank, shards, n_tensors;
    const char *strategy;
};

static int hand_over(const struct part *part,
                     int (*take)(const struct checkpoint_write *what, struct error *err),
                     struct error *err)
{
    struct train_numbers numbers = {.step = part->step, .n_units = 1};
    int64_t each = COUNT / part->shards;
    struct checkpoint_tensor tensors[2] = {
        {.name = "a",
         .dtype = WK_F32,
         .dims = 1,
         .shape = {COUNT},
         .first = each * part->rank,
         .data = (on_device ? on_device : weights) + each * part->rank,
         .queue = queue,
         .bytes = (size_t)each * sizeof(float)}};
    tensors[1] = tensors[0];
    memcpy(tensors[1].name, "b", 2);
    struct checkpoint_about about = {.generation = 3,
                                     .world = part->shards,
                                     .mesh_dp = part->shards,
                                     .strategy = part->strategy ? part->strategy : "ddp",
                                     .rank = part->rank,
                                     .shards = part->shards,
                                     .ticket = 7};
    struct checkpoint_write what = {.dir = dir.path,
                                    .tensors = tensors,
                                    .n_tensors = part->n_tensors ? part->n_tensors : 1,
                                    .numbers = &numbers,
                                    .about = &about};
    return take(&what, err);
}

static int take(const struct checkpoint_write *what, struct error *err)
{
    return saver_take(saver, what, err);
}

static int save(int64_t step)
{
    return hand_over(&(struct part){.step = step, .shards = 1}, take, NULL);
}

static void open_saver(const struct checkpoint_gate *gate, int keep)
{
    struct saver_options options = {.dir = dir.path, .gate = gate, .keep = keep};
    cr_assert_eq(saver_new(&options, &saver, NULL), 0);
}

static int count_steps(void)
{
    int64_t *steps;
    int count;
    cr_assert_eq(checkpoint_list(dir.path, &steps, &count, NULL), 0);
    free(steps);
    return count;
}

static int ask(void *arg, const struct checkpoint_claim *claim, struct error *err)
{
    (void)arg, (void)claim, (void)err;
    sem_post(&asked);
    sem_wait(&let_go);
    return 0;
}

Test(saving, one_at_a_time_and_the_one_begun_is_ended)
{
    struct checkpoint_gate gate = {.prepare = ask};
    sem_init(&asked, 0, 0);
    sem_init(&let_go, 0, 0);
    open_saver(&gate, 0);
    cr_assert_eq(save(1), 0);
    sem_wait(&asked);
    cr_expect(saver_busy(saver));
    cr_expect_eq(save(2), WK_ESTATE);
    sem_post(&let_go);
    cr_expect_eq(saver_wait(saver, NULL), 0);
    cr_expect_not(saver_busy(saver));
    cr_expect_eq(count_steps(), 1);
}

static void expect_saved(int64_t step, float first)
{
    float loaded[COUNT] = {0};
    char path[CHECKPOINT_PATH_MAX];
    struct train_numbers numbers;
    struct checkpoint_tensor tensor = {.name = "a",
                                       .dtype = WK_F32,
                                       .dims = 1,
                                       .shape = {COUNT},
                                       .data = loaded,
                                       .bytes = sizeof(loaded)};
    cr_assert_eq(checkpoint_path(dir.path, step, path), 0);
    cr_assert_eq(checkpoint_load(path, &tensor, 1, &numbers, NULL), 0);
    for (int i = 0; i < COUNT; i++)
        cr_expect_float_eq(loaded[i], first + (float)i, 0);
}

/* The state changes on its queue after the copies, which the host has not waited for; the
 * checkpoint has what was there when it was taken. */
Test(saving, a_devices_state_is_copied_beside_its_work)
{
    for (int i = 0; i < COUNT; i++)
        weights[i] = 3 + (float)i;
    void *pinned = NULL;
    open_device();
    open_saver(NULL, 0);
    cr_assert_eq(save(1), 0);
    cr_expect(saver_busy(saver));
    cr_expect_eq(save(2), WK_ESTATE);
    cr_expect_eq(count_steps(), 0, "nothing is written before the copies are done");
    saver_hold(saver, queue);
    queue_fill(queue, on_device, 0x42, sizeof(weights));
    cr_assert_eq(queue_finish(queue, NULL), 0);
    saver_copied(saver);
    cr_expect_eq(saver_wait(saver, NULL), 0);
    expect_saved(1, 3);
    cr_assert_eq(device_pinned_new(device, sizeof(weights), &pinned, NULL), 0);
    memcpy(pinned, weights, sizeof(weights));
    queue_send(queue, on_device, pinned, sizeof(weights));
    cr_assert_eq(save(2), 0, "work that the host has not waited for comes first");
    cr_expect_eq(saver_wait(saver, NULL), 0, "waiting begins a write that has not begun");
    expect_saved(2, 3);
    cr_assert_eq(save(3), 0);
    device_pinned_free(device, pinned, sizeof(weights));
    close_device();
    cr_expect_eq(count_steps(), 3, "so does the end");
}

static int reports, reported;

static void count_report(void *arg, int64_t step, const struct error *err)
{
    (void)arg, (void)step;
    reports++;
    reported = err->code;
}

static void fail_now(struct queue *on, const void *args)
{
    (void)args;
    queue_fail(on, WK_EIO, "it is broken");
}

Test(saving, a_device_that_fails_ends_the_checkpoint)
{
    struct saver_options options = {.dir = dir.path, .report = count_report};
    struct error err = {0};
    open_device();
    cr_assert_eq(saver_new(&options, &saver, NULL), 0);
    queue_launch(queue, &(struct device_launch){.name = "fails", .run = fail_now});
    cr_assert_eq(save(1), 0);
    cr_expect_eq(saver_wait(saver, &err), WK_EIO);
    cr_expect(strstr(err.text, "it is broken") && strstr(err.text, "checkpoint"), "%s", err.text);
    cr_expect_not(saver_busy(saver));
    cr_expect(reports == 1 && reported == WK_EIO);
    cr_expect_eq(count_steps(), 0);
    close_device();
}

Test(saving, what_was_taken_is_written_before_the_saver_goes)
{
    open_saver(NULL, 0);
    cr_assert_eq(save(1), 0);
    saver_free(saver);
    saver = NULL;
    cr_expect_eq(count_steps(), 1);
}

static int agree(void *arg, const struct checkpoint_claim *claim, struct error *err)
{
    (void)arg, (void)claim, (void)err;
    return 0;
}

Test(saving, who_answers_to_a_coordinator_removes_what_that_says)
{
    struct checkpoint_gate gate = {.prepare = agree, .done = agree};
    open_saver(&gate, 1);
    for (int64_t step = 1; step <= 3; step++) {
        cr_assert_eq(save(step), 0);
        cr_assert_eq(saver_wait(saver, NULL), 0);
    }
    cr_expect_eq(count_steps(), 3);
}

Test(saving, words_are_copied_too)
{
    struct checkpoint_gate gate = {.prepare = ask};
    char strategy[] = "zero1";
    struct checkpoint_reader *reader;
    sem_init(&asked, 0, 0);
    sem_init(&let_go, 0, 1);
    open_saver(&gate, 0);
    struct part part = {.step = 1, .shards = 1, .strategy = strategy};
    cr_assert_eq(hand_over(&part, take, NULL), 0);
    memset(strategy, 'x', sizeof(strategy) - 1);
    cr_assert_eq(saver_wait(saver, NULL), 0);
    cr_assert_eq(checkpoint_open(tmpdir_path(&dir, "step-00000001"), &reader, NULL), 0);
    cr_expect_str_eq(checkpoint_manifest(reader)->strategy, "zero1");
    checkpoint_close(reader);
}

Test(saving, a_write_that_was_cancelled_does_not_cancel_the_next)
{
    struct part first = {.step = 1, .shards = 2}, second = {.step = 1, .rank = 1, .shards = 2};
    struct error err = {0};
    open_saver(NULL, 0);
    cr_assert_eq(hand_over(&first, take, NULL), 0);
    (void)usleep(30000);
    cr_expect(saver_busy(saver), "it waits for the other rank");
    saver_cancel(saver);
    cr_expect_eq(saver_wait(saver, NULL), WK_EABORT);
    cr_expect_eq(count_steps(), 0);
    cr_assert_eq(hand_over(&first, take, NULL), 0);
    (void)usleep(30000);
    cr_assert_eq(hand_over(&second, checkpoint_write, &err), 0, "%s", err.text);
    cr_expect_eq(saver_wait(saver, &err), 0, "%s", err.text);
    cr_expect_eq(count_steps(), 1);
}

Test(saving, a_rank_of_another_model_is_refused)
{
    struct part first = {.step = 1, .shards = 2};
    struct part other = {.step = 1, .rank = 1, .shards = 2, .n_tensors = 2};
    struct error err = {0};
    cr_assert_eq(hand_over(&other, checkpoint_write, &err), 0, "%s", err.text);
    cr_expect_eq(hand_over(&first, checkpoint_write, &err), WK_EMISMATCH);
    cr_expect(strstr(err.text, "rank 1 wrote tensors of another model"), "%s", err.text);
    cr_expect_eq(count_steps(), 0);
}

Test(saving, a_file_that_is_there_already_is_not_written_over)
{
    struct part first = {.step = 1, .shards = 2}, second = {.step = 1, .rank = 1, .shards = 2};
    char path[CHECKPOINT_PATH_MAX], state[CHECKPOINT_PATH_MAX + 32];
    struct error err = {0};
    cr_assert_eq(hand_over(&second, checkpoint_write, &err), 0, "%s", err.text);
    cr_assert_eq(checkpoint_temporary(dir.path, 1, 3, 7, path), 0);
    snprintf(state, sizeof(state), "%s/state.json", path);
    cr_assert_eq(symlink(tmpdir_path(&dir, "precious"), state), 0);
    cr_expect_neq(hand_over(&first, checkpoint_write, &err), 0);
    cr_expect(strstr(err.text, "state.json"), "%s", err.text);
    cr_expect_neq(access(tmpdir_path(&dir, "precious"), F_OK), 0);
}

Test(saving, a_damaged_note_is_refused)
{
    struct part first = {.step = 1, .shards = 2}, second = {.step = 1, .rank = 1, .shards = 2};
    off_t size = 1;
    for (off_t at = 0; at < size; at++) {
        char path[CHECKPOINT_PATH_MAX], note[CHECKPOINT_PATH_MAX + 32];
        struct error err = {0};
        unsigned char byte;
        struct stat st;
        cr_assert_eq(hand_over(&second, checkpoint_write, &err), 0, "%s", err.text);
        cr_assert_eq(checkpoint_temporary(dir.path, 1, 3, 7, path), 0);
        snprintf(note, sizeof(note), "%s/rank-00001.note", path);
        int fd = open(note, O_RDWR);
        cr_assert(fd >= 0 && fstat(fd, &st) == 0 && pread(fd, &byte, 1, at) == 1);
        byte ^= 0x04;
        cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
        close(fd);
        size = st.st_size;
        cr_expect_eq(hand_over(&first, checkpoint_write, &err), WK_EIO, "byte %d", (int)at);
        cr_expect_eq(count_steps(), 0);
    }
}
