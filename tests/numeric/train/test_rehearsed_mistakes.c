/* Mistakes in what is above a device's queues, planted into a training: a missing event, a range
 * that is not declared, a number that is read too early. The rehearsal device finds each with every
 * seed, and nothing in the same training without it. On the CPU none of them shows.
 *
 *     test_train_rehearsed_mistakes [NAME]     shows what is found
 */
#include <stdio.h>
#include <sys/wait.h>

#include "libworker/checkpoint/saver.h"
#include "libworker/device/rehearsal/rehearsal.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/rehearsed.h"

enum { SEEDS = 5, TEXT_MAX = 4096 };

enum mistake {
    NONE,
    UPDATE_WITHOUT_EVENT,
    COPY_WITHOUT_EVENT,
    CLEAR_WITHOUT_EVENT,
    VERDICT_WITHOUT_EVENT,
    GRADIENT_READ_BY_HOST,
    PARAMETER_WRITTEN_BY_HOST,
    GRADIENTS_NOT_CLEARED,
    GRADIENTS_NOT_DECLARED,
    SCALE_NOT_DECLARED,
    STATE_DECLARED_AS_READ,
    NUMBERS_NOT_WAITED_FOR,
    MEMORY_FREED_IN_USE,
    STATE_CHANGED_UNDER_A_COPY,
    /* With masters and state in the host's memory: */
    PIECE_BROUGHT_AT_ONCE,  /* where the one before is still on its way back */
    PIECE_UPDATED_AT_ONCE,  /* while it is on its way */
    PIECE_RETURNED_AT_ONCE, /* while it is updated */
    PIECES_NOT_WAITED_FOR,  /* before their memory is read and freed */
};

static enum mistake planted;
static struct queue *other; /* of the same device, ordered with nothing */

static struct queue *other_queue(struct queue *queue)
{
    if (!other)
        CHECK(queue_new(queue_device(queue), &other, NULL) == 0);
    return other;
}

static bool strays(const char *name)
{
    return (planted == UPDATE_WITHOUT_EVENT && strcmp(name, "adamw") == 0) ||
           (planted == COPY_WITHOUT_EVENT && strcmp(name, "narrow parameters") == 0) ||
           (planted == VERDICT_WITHOUT_EVENT && strcmp(name, "judge the sums") == 0);
}

/* A launch of the optimizer: parameters, gradients, two states, perhaps a copy, the verdict. */
static void spoil_update(struct device_launch *launch, struct device_range *ranges)
{
    memcpy(ranges, launch->ranges, (size_t)launch->n_ranges * sizeof(*ranges));
    launch->ranges = ranges;
    if (planted == GRADIENTS_NOT_DECLARED)
        ranges[1].bytes = 0;
    if (planted == SCALE_NOT_DECLARED)
        launch->n_ranges--;
    if (planted == STATE_DECLARED_AS_READ)
        ranges[2].use = DEVICE_READ;
}

void __real_queue_launch(struct queue *queue, const struct device_launch *launch);
void __wrap_queue_launch(struct queue *queue, const struct device_launch *launch);
void __wrap_queue_launch(struct queue *queue, const struct device_launch *launch)
{
    struct device_launch copy = *launch;
    struct device_range ranges[LAUNCH_RANGES_MAX];
    if (strcmp(launch->name, "adamw") == 0)
        spoil_update(&copy, ranges);
    __real_queue_launch(strays(launch->name) ? other_queue(queue) : queue, &copy);
}

void __real_queue_fill(struct queue *queue, void *to, unsigned char byte, size_t bytes);
void __wrap_queue_fill(struct queue *queue, void *to, unsigned char byte, size_t bytes);
void __wrap_queue_fill(struct queue *queue, void *to, unsigned char byte, size_t bytes)
{
    bool gradients = bytes > 4096; /* numbers are fewer */
    bool stray = planted == CLEAR_WITHOUT_EVENT && gradients;
    __real_queue_fill(stray ? other_queue(queue) : queue, to, byte, bytes);
}

int __real_device_zeros_new(struct queue *queue, size_t bytes, void **ret, struct error *err);
int __wrap_device_zeros_new(struct queue *queue, size_t bytes, void **ret, struct error *err);
int __wrap_device_zeros_new(struct queue *queue, size_t bytes, void **ret, struct error *err)
{
    if (planted == GRADIENTS_NOT_CLEARED)
        return device_memory_new(queue_device(queue), bytes, ret, err);
    return __real_device_zeros_new(queue, bytes, ret, err);
}

int __real_queue_finish(struct queue *queue, struct error *err);
int __wrap_queue_finish(struct queue *queue, struct error *err);
int __wrap_queue_finish(struct queue *queue, struct error *err)
{
    return planted == MEMORY_FREED_IN_USE ? 0 : __real_queue_finish(queue, err);
}

int __real_event_wait(struct event event, struct error *err);
int __wrap_event_wait(struct event event, struct error *err);
int __wrap_event_wait(struct event event, struct error *err)
{
    return planted == NUMBERS_NOT_WAITED_FOR ? 0 : __real_event_wait(event, err);
}

void __real_saver_hold(struct saver *saver, struct queue *queue);
void __wrap_saver_hold(struct saver *saver, struct queue *queue);
void __wrap_saver_hold(struct saver *saver, struct queue *queue)
{
    if (planted != STATE_CHANGED_UNDER_A_COPY)
        __real_saver_hold(saver, queue);
}

int __real_model_fill(struct wk_model *model, int index, float *to, struct error *err);
int __wrap_model_fill(struct wk_model *model, int index, float *to, struct error *err);
int __wrap_model_fill(struct wk_model *model, int index, float *to, struct error *err)
{
    if (planted == PARAMETER_WRITTEN_BY_HOST)
        to[0] = 1;
    return __real_model_fill(model, index, to, err);
}

/* Which wait of the present call of host_state.h is left out: 1 the first one, 0 none. */
static int left_out;

void __real_queue_wait(struct queue *queue, struct event event);
void __wrap_queue_wait(struct queue *queue, struct event event);
void __wrap_queue_wait(struct queue *queue, struct event event)
{
    if (left_out == 0 || --left_out > 0)
        __real_queue_wait(queue, event);
}

void __real_host_state_bring(struct host_state *host, struct queue *queue,
                             struct host_state_piece *piece);
void __wrap_host_state_bring(struct host_state *host, struct queue *queue,
                             struct host_state_piece *piece);
void __wrap_host_state_bring(struct host_state *host, struct queue *queue,
                             struct host_state_piece *piece)
{
    left_out = planted == PIECE_BROUGHT_AT_ONCE ? 1 : planted == PIECE_UPDATED_AT_ONCE ? 2 : 0;
    __real_host_state_bring(host, queue, piece);
}

void __real_host_state_return(struct host_state *host, struct queue *queue,
                              const struct host_state_piece *piece);
void __wrap_host_state_return(struct host_state *host, struct queue *queue,
                              const struct host_state_piece *piece);
void __wrap_host_state_return(struct host_state *host, struct queue *queue,
                              const struct host_state_piece *piece)
{
    left_out = planted == PIECE_RETURNED_AT_ONCE;
    __real_host_state_return(host, queue, piece);
}

int __real_host_state_settle(struct host_state *host, struct error *err);
int __wrap_host_state_settle(struct host_state *host, struct error *err);
int __wrap_host_state_settle(struct host_state *host, struct error *err)
{
    return planted == PIECES_NOT_WAITED_FOR ? 0 : __real_host_state_settle(host, err);
}

static volatile float seen;

static void look(struct wk_model *model)
{
    if (planted == GRADIENT_READ_BY_HOST)
        seen = model->params[0].grad[0];
    if (planted == PARAMETER_WRITTEN_BY_HOST)
        model->params[0].data[0] = 1;
    if (planted == MEMORY_FREED_IN_USE) /* under a pass; queue_finish does not wait */
        (void)model_reserve(model, 0, 0, NULL);
}

static struct tmpdir folder;

/* bf16, so that there are copies to write; a checkpoint after every step. */
static void train(struct device *device, const char *checkpoints, bool on_host)
{
    static struct rehearsed_result result;
    struct rehearsed rehearsed = {.model = REHEARSED_MLP,
                                  .optimizer = REHEARSED_ADAMW,
                                  .settings = {{"mixed_precision", "bf16"},
                                               {"checkpoint.dir", checkpoints},
                                               {"checkpoint.every", "1 steps"},
                                               {"offload.masters", "host"},
                                               {"offload.state", "host"}},
                                  .n_settings = on_host ? 5 : 3,
                                  .clips = true,
                                  .device = device,
                                  .passed = look};
    rehearsed_run(&rehearsed, &result);
    queue_free(other);
}

static void child(enum mistake mistake, bool on_host, uint64_t seed, int to)
{
    struct rehearsal_options options = {.seed = seed};
    struct device *device;
    char name[32];
    snprintf(name, sizeof(name), "%d-%d-%d", (int)mistake, on_host, (int)seed);
    CHECK(dup2(to, STDERR_FILENO) == STDERR_FILENO);
    planted = mistake;
    CHECK(rehearsal_new(&options, &device, NULL) == 0);
    train(device, tmpdir_path(&folder, name), on_host);
    device_free(device);
    _exit(0);
}

/* What a child says before it ends; its wait status in *ret_status. */
static const char *outcome(enum mistake mistake, bool on_host, uint64_t seed, int *ret_status)
{
    static char text[TEXT_MAX];
    size_t length = 0;
    ssize_t got;
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        child(mistake, on_host, seed, pipes[1]);
    close(pipes[1]);
    while ((got = read(pipes[0], text + length, TEXT_MAX - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    close(pipes[0]);
    CHECK(waitpid(pid, ret_status, 0) == pid);
    return text;
}

struct expectation {
    const char *name;
    enum mistake mistake;
    const char *says; /* part of the sentence */
};

static const struct expectation expectations[] = {
    {"update_without_event", UPDATE_WITHOUT_EVENT, "an event is missing"},
    {"copy_without_event", COPY_WITHOUT_EVENT, "an event is missing"},
    {"clear_without_event", CLEAR_WITHOUT_EVENT, "an event is missing"},
    {"verdict_without_event", VERDICT_WITHOUT_EVENT, "an event is missing"},
    {"gradient_read_by_host", GRADIENT_READ_BY_HOST, "host code reads"},
    {"parameter_written_by_host", PARAMETER_WRITTEN_BY_HOST, "host code writes"},
    {"gradients_not_cleared", GRADIENTS_NOT_CLEARED, "no launch has written"},
    {"gradients_not_declared", GRADIENTS_NOT_DECLARED, "launch \"adamw\" reads"},
    {"scale_not_declared", SCALE_NOT_DECLARED, "launch \"adamw\" reads"},
    {"state_declared_as_read", STATE_DECLARED_AS_READ, "launch \"adamw\" writes"},
    {"numbers_not_waited_for", NUMBERS_NOT_WAITED_FOR, "host code reads"},
    {"memory_freed_in_use", MEMORY_FREED_IN_USE, "a free of"},
    {"state_changed_under_a_copy", STATE_CHANGED_UNDER_A_COPY, "an event is missing"},
    {"piece_brought_at_once", PIECE_BROUGHT_AT_ONCE, "an event is missing"},
    {"piece_updated_at_once", PIECE_UPDATED_AT_ONCE, "an event is missing"},
    {"piece_returned_at_once", PIECE_RETURNED_AT_ONCE, "an event is missing"},
    {"pieces_not_waited_for", PIECES_NOT_WAITED_FOR, "the host has not waited for it"},
};

static void find(const struct expectation *expected, bool shows)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        int status;
        bool on_host = expected->mistake >= PIECE_BROUGHT_AT_ONCE;
        const char *text = outcome(expected->mistake, on_host, seed, &status);
        bool found = WIFSIGNALED(status) && strstr(text, expected->says);
        if (shows || !found)
            fprintf(stderr, "%s, seed %d: status %x: %s\n", expected->name, (int)seed,
                    (unsigned)status, text);
        CHECK(found);
    }
}

int main(int argc, char **argv)
{
    int n = (int)(sizeof(expectations) / sizeof(*expectations));
    folder = tmpdir_make();
    for (uint64_t seed = 0; seed < 2L * SEEDS && argc < 2; seed++) {
        int status;
        const char *text = outcome(NONE, seed % 2, seed / 2, &status);
        if (status)
            fprintf(stderr, "no mistake, seed %d: status %x: %s\n", (int)seed, (unsigned)status,
                    text);
        CHECK(status == 0);
    }
    for (int i = 0; i < n; i++) {
        if (argc > 1 && strcmp(argv[1], expectations[i].name) != 0)
            continue;
        find(&expectations[i], argc > 1);
        printf("ok %s\n", expectations[i].name);
    }
    tmpdir_remove(&folder);
    return 0;
}
