/* A program with rows of its own: sequences of several lengths, with other noise in each epoch.
 * Killed and resumed it goes on with the same rows: the same bits at one world, the same numbers at
 * any other. The program runs itself: `test_train_row_source child RANK WORLD PORT DIR
 * KILL_AT LOSSES`.
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/ranked.h"

enum { RANKS_MAX = 3, STEPS = 30, SAMPLES = 53, BATCH = 7, LONGEST = 5, WIDTH = 3 };

static const double RATE = 0.1;

static const struct wk_buffer buffers[] = {{.name = "weight", .dims = 1, .shape = {WIDTH}}};

static int64_t length_of(void *arg, int64_t sample)
{
    (void)arg;
    return 1 + sample * 3 % LONGEST;
}

/* y is a fixed combination of the mean frame; frames have noise. */
static int draw(void *arg, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields)
{
    uint64_t key = wk_noise_key(seed, epoch, sample), clean = wk_noise_key(0, 0, sample);
    int64_t length = length_of(arg, sample);
    float *frames = fields[0], y = 0;
    for (int64_t i = 0; i < length * WIDTH; i++) {
        float x = (float)wk_noise(clean, (uint64_t)i) - 0.5f;
        frames[i] = x + 0.1f * ((float)wk_noise(key, (uint64_t)i) - 0.5f);
        y += x * (float)(1 + i % WIDTH) / (float)length;
    }
    *(float *)fields[1] = y;
    *(float *)fields[2] = (float)length;
    return 0;
}

static const struct wk_field fields[] = {{"frames", WK_F32, 2, {LONGEST, WIDTH}, true, 1000},
                                         {"y", WK_F32, 0, {0}, false, 0},
                                         {"frames_of", WK_F32, 0, {0}, false, 0}};

static const struct wk_row_options noisy = {
    .count = SAMPLES, .fields = fields, .n_fields = 3, .read = draw, .length_of = length_of};

static void passes(struct wk_model *model, const struct wk_batch *batch)
{
    const float *frames = batch->tensors[0].data, *y = batch->tensors[1].data;
    const float *lengths = batch->tensors[2].data, *weight = wk_parameter_data(model, 0);
    float *grad = wk_parameter_grad(model, 0);
    double loss = 0, sums[WIDTH] = {0};
    for (int64_t s = 0; s < batch->samples; s++) {
        float mean[WIDTH] = {0}, off = -y[s];
        for (int64_t i = 0; i < (int64_t)lengths[s] * WIDTH; i++)
            mean[i % WIDTH] += frames[s * batch->length * WIDTH + i] / lengths[s];
        for (int w = 0; w < WIDTH; w++)
            off += weight[w] * mean[w];
        loss += (double)(off * off);
        for (int w = 0; w < WIDTH; w++)
            sums[w] += (double)(2 * off * mean[w]);
    }
    for (int w = 0; w < WIDTH; w++)
        grad[w] += (float)(sums[w] / batch->denominator);
    wk_set_loss(model, loss / batch->denominator);
    wk_grad_ready(model, 0);
}

/* Each sample once, in order, on every rank. */
static void look(struct wk_context *ctx, struct wk_loader *loader)
{
    struct wk_batch batch;
    float all[BATCH];
    int64_t seen = 0;
    while (wk_next(loader, &batch)) {
        CHECK(wk_gather_for_metrics(ctx, &batch, batch.tensors[2].data, 1, all) == 0);
        for (int64_t i = 0; i < batch.global_samples; i++)
            CHECK((int64_t)all[i] == length_of(NULL, seen + i));
        seen += batch.global_samples;
    }
    CHECK(seen == SAMPLES);
}

struct child {
    struct wk_context *ctx;
    struct wk_source *source;
    struct wk_loader *train, *held_out;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    int64_t kill_at;
    FILE *losses; /* rank 0's */
};

static void loop(struct child *c)
{
    struct wk_batch batch;
    while (wk_next(c->train, &batch)) {
        int64_t before = wk_steps(c->ctx);
        passes(c->model, &batch);
        wk_backward(c->model);
        wk_step(c->optimizer);
        int64_t step = wk_steps(c->ctx);
        if (step == before)
            continue;
        if (c->losses)
            fprintf(c->losses, "%lld %a\n", (long long)step, wk_loss(c->ctx));
        if (c->losses)
            fflush(c->losses);
        if (step % 10 == 0)
            look(c->ctx, c->held_out);
        wk_save_wait(c->ctx);
        if (step == c->kill_at)
            raise(SIGKILL);
    }
}

static void make(struct child *c, const struct wk_row_options *rows)
{
    struct wk_loader_options train = {.batch = BATCH};
    struct wk_loader_options held_out = {
        .batch = BATCH, .epochs = 1, .sequential = true, .evaluation = true};
    struct wk_adamw_options adamw = {RATE, 0.9, 0.99, 1e-8, 0};
    CHECK(wk_source_rows(c->ctx, rows, &c->source) == 0);
    train.source = held_out.source = c->source;
    CHECK(wk_loader_new(c->ctx, &train, &c->train) == 0);
    CHECK(wk_loader_new(c->ctx, &held_out, &c->held_out) == 0);
    CHECK(wk_custom_new(buffers, 1, &c->model) == 0);
    CHECK(wk_adamw_new(&adamw, &c->optimizer) == 0);
}

static int prepare(const struct child *c)
{
    return wk_prepare_all(c->ctx, WK_OBJECT(c->model), WK_OBJECT(c->optimizer), WK_OBJECT(c->train),
                          WK_OBJECT(c->held_out));
}

static int finish(struct child *c)
{
    int code = wk_close(c->ctx);
    wk_loader_free(c->train);
    wk_loader_free(c->held_out);
    wk_source_free(c->source);
    wk_optimizer_free(c->optimizer);
    wk_model_free(c->model);
    return code;
}

static int run_child(char **argv)
{
    struct ranked ranked;
    struct child c = {.kill_at = strtoll(argv[4], NULL, 10)};
    ranked_init(&ranked, atoi(argv[0]), atoi(argv[1]), atoi(argv[2]));
    struct wk_setting settings[] = {
        {"total_steps", "30"},
        {"gradient_accumulation_steps", "2"},
        {"accumulate_by_tokens", "true"},
        {"checkpoint.dir", argv[3]},
        {"checkpoint.every", "4 steps"},
        {"resume_from", "latest"},
    };
    struct wk_options options = {.settings = settings, .n_settings = *argv[3] ? 6 : 3};
    struct context_seams seams = {.environment = &ranked.environment, .quiet = true};
    if (strcmp(argv[0], "0") == 0)
        c.losses = fopen(argv[5], "a");
    CHECK(context_open(&options, &seams, &c.ctx) == 0);
    make(&c, &noisy);
    CHECK(prepare(&c) == 0);
    loop(&c);
    if (wk_status(c.ctx))
        fprintf(stderr, "%s\n", wk_last_error(c.ctx));
    if (c.losses)
        fclose(c.losses);
    return finish(&c);
}

/* All ranks, each a process. Returns whether some were killed, which others may have met as a lost
 * peer; else all ended well. */
static bool run(int world, const char *dir, int kill_at, const char *losses)
{
    pid_t pids[RANKS_MAX];
    char port[16], at[16], number[16], of[16];
    int killed = 0, well = 0;
    snprintf(port, sizeof(port), "%d", ranked_port());
    snprintf(at, sizeof(at), "%d", kill_at);
    snprintf(of, sizeof(of), "%d", world);
    for (int rank = 0; rank < world; rank++) {
        snprintf(number, sizeof(number), "%d", rank);
        pids[rank] = fork();
        CHECK(pids[rank] >= 0);
        if (pids[rank] == 0) {
            execl("/proc/self/exe", "test_train_row_source", "child", number, of, port, dir, at,
                  losses, (char *)NULL);
            _exit(127);
        }
    }
    for (int rank = 0; rank < world; rank++) {
        int status;
        CHECK(waitpid(pids[rank], &status, 0) == pids[rank]);
        killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        well += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    CHECK(killed || well == world);
    return killed;
}

static void read_losses(const char *path, double ret[STEPS + 1])
{
    FILE *file = fopen(path, "r");
    int step;
    double loss;
    CHECK(file != NULL);
    memset(ret, 0, (STEPS + 1) * sizeof(*ret));
    while (fscanf(file, "%d %la", &step, &loss) == 2) {
        CHECK(step >= 1 && step <= STEPS);
        ret[step] = loss;
    }
    fclose(file);
}

/* Killed at a step of `first` ranks, if any, and gone on with `next`. */
static void losses_of(int first, int next, double ret[STEPS + 1])
{
    struct tmpdir dir = tmpdir_make();
    char losses[512], checkpoints[512];
    snprintf(losses, sizeof(losses), "%s/losses", dir.path);
    snprintf(checkpoints, sizeof(checkpoints), "%s/checkpoints", dir.path);
    CHECK(!first || run(first, checkpoints, 17, losses));
    CHECK(!run(next, first ? checkpoints : "", -1, losses));
    read_losses(losses, ret);
    tmpdir_remove(&dir);
}

static double apart(const double *a, const double *b)
{
    double most = 0;
    for (int step = 1; step <= STEPS; step++)
        most = fmax(most, fabs(a[step] - b[step]));
    return most;
}

static void any_world_and_any_resume_train_on_the_same_rows(void)
{
    static double whole[RANKS_MAX + 1][STEPS + 1], resumed[STEPS + 1];
    const double roundings = 6.0 * LONGEST * WIDTH + 2 * BATCH;
    double bound = rounding_bound(roundings) + rounding_adam(roundings, STEPS * RATE).largest;
    for (int world = 1; world <= RANKS_MAX; world++) {
        losses_of(0, world, whole[world]);
        printf("%d ranks: losses from %.4f to %.4f, apart %.1e of %.1e\n", world, whole[world][1],
               whole[world][STEPS], apart(whole[world], whole[1]), bound);
        CHECK(whole[world][STEPS] < 0.5 * whole[world][1]);
        CHECK(apart(whole[world], whole[1]) <= bound);
        losses_of(world, world, resumed);
        CHECK(memcmp(resumed, whole[world], sizeof(resumed)) == 0);
        losses_of(world, world % RANKS_MAX + 1, resumed);
        CHECK(apart(resumed, whole[1]) <= bound);
    }
}

static int fail(void *arg, int64_t sample, int64_t epoch, uint64_t seed, void *const *to)
{
    return sample == 9 ? WK_EIO : draw(arg, sample, epoch, seed, to);
}

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static void open_alone(struct child *c, const struct wk_row_options *rows)
{
    static const struct environment empty = {nothing, NULL};
    struct context_seams seams = {.environment = &empty, .quiet = true};
    struct wk_options options = {.n_settings = 0};
    *c = (struct child){.kill_at = -1};
    CHECK(context_open(&options, &seams, &c->ctx) == 0);
    make(c, rows);
    CHECK(prepare(c) == 0);
}

static void an_error_of_the_program_s_read_ends_the_training(void)
{
    struct wk_row_options failing = noisy;
    struct child c;
    failing.read = fail;
    open_alone(&c, &failing);
    loop(&c);
    printf("%s\n", wk_last_error(c.ctx));
    CHECK(wk_status(c.ctx) == WK_EIO && wk_steps(c.ctx) < (SAMPLES + BATCH - 1) / BATCH);
    CHECK(strstr(wk_last_error(c.ctx), "sample 9 of epoch 0: the program's read returned -15"));
    CHECK(finish(&c) != 0);
}

static int fits_three(void *arg, int64_t samples)
{
    (void)arg;
    return samples > 3 ? WK_ENOMEM : 0;
}

static void batches_of_rows_are_halved_until_they_fit(void)
{
    const struct wk_batch_search search = {.attempt = fits_three};
    struct wk_batch batch;
    struct child c;
    int64_t found = 0;
    open_alone(&c, &noisy);
    CHECK(wk_find_batch(c.train, &search, &found) == 0 && found == 2);
    CHECK(wk_next(c.train, &batch) && batch.global_samples == 2);
    CHECK(finish(&c) == 0);
}

struct unequal {
    struct ranked ranked;
    double fill; /* all that differs */
    int rc;
    char error[512];
};

static void *prepare_unequal(void *arg)
{
    struct unequal *u = arg;
    struct wk_field own[] = {fields[0], fields[1], fields[2]};
    struct wk_row_options rows = noisy;
    struct wk_options options = {.n_settings = 0};
    struct context_seams seams = {.environment = &u->ranked.environment, .quiet = true};
    struct child c = {.kill_at = -1};
    own[0].fill = u->fill;
    rows.fields = own;
    CHECK(context_open(&options, &seams, &c.ctx) == 0);
    make(&c, &rows);
    u->rc = prepare(&c);
    snprintf(u->error, sizeof(u->error), "%s", wk_last_error(c.ctx));
    CHECK(finish(&c) != 0);
    return NULL;
}

static void ranks_with_other_rows_are_told(void)
{
    static struct unequal unequal[2] = {{.fill = 0}, {.fill = 1}};
    pthread_t threads[2];
    int port = ranked_port();
    for (int i = 0; i < 2; i++) {
        ranked_init(&unequal[i].ranked, i, 2, port);
        CHECK(pthread_create(&threads[i], NULL, prepare_unequal, &unequal[i]) == 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("%s\n", unequal[1].error);
    for (int i = 0; i < 2; i++)
        CHECK(unequal[i].rc == WK_EMISMATCH &&
              strstr(unequal[i].error, "ranks differ in loader 1: it is 53 rows of digest"));
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(any_world_and_any_resume_train_on_the_same_rows),
        CHECK_CASE(an_error_of_the_program_s_read_ends_the_training),
        CHECK_CASE(batches_of_rows_are_halved_until_they_fit),
        CHECK_CASE(ranks_with_other_rows_are_told),
        {0},
    };
    if (argc == 8 && strcmp(argv[1], "child") == 0)
        return run_child(argv + 2);
    return check_all(cases, argc, argv);
}
