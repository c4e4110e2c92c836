/* What stays right around passes of the program's own in bf16 and fp16: an overflow on one rank is
 * every rank's, checkpoints and exports hold the optimizer's parameters, what a broken generation
 * was given is forgotten, and memory is given back.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <worker/parallel.h>

#include "libworker/step/break.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { STEPS = 12, FIRST_PART = 5, EVENT_STEP = 4, RANKS_MAX = 3, WEIGHTS = 1 << 16 };
enum { TAKES_BOTH = WK_TAKES_BF16 | WK_TAKES_F16, PAGES_HELD = 8192 };

static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
static const unsigned kinds[] = {0, TAKES_BOTH | WK_GIVES_FLOAT, TAKES_BOTH};

/* What one rank does beside training. */
struct rank {
    struct toy toy;
    struct fake_cluster *cluster;
    bool spoils;        /* an element of a gradient in step EVENT_STEP */
    bool breaks;        /* finds in the middle of that step's pass that a peer is gone */
    bool measures;      /* memory */
    const char *export; /* folder for its parameters after the last step, or NULL */
    bool done;
    atomic_int *steps_taken; /* by all ranks together */
    pthread_t thread;
};

static _Thread_local struct rank *self;

/* Until all have taken the steps before: whoever is a step ahead of another under zero and fsdp has
 * lost what the other has not got. */
static void await_others(struct rank *rank)
{
    while (atomic_load(rank->steps_taken) < 2 * (EVENT_STEP - 1))
        usleep(1000);
}

/* The event comes when the first gradient of a pass is announced. */
static void event(struct wk_model *model, int index)
{
    struct unit *unit = unit_of_model(model);
    uint16_t *low = wk_parameter_low_grad(model, index);
    if (self->done || wk_steps(unit->ctx) != EVENT_STEP - 1)
        return;
    self->done = true;
    if (self->breaks)
        await_others(self);
    if (self->breaks)
        (void)context_break(unit->ctx, WK_EPEER);
    else if (low)
        low[3] = wk_parameter_type(model, index) == WK_BF16 ? 0x7f80 : 0x7c00; /* infinity */
    else
        wk_parameter_grad(model, index)[3] = INFINITY;
}

int __real_wk_grad_ready(struct wk_model *model, int index);
int __wrap_wk_grad_ready(struct wk_model *model, int index);
int __wrap_wk_grad_ready(struct wk_model *model, int index)
{
    if (self->spoils || self->breaks)
        event(model, index);
    return __real_wk_grad_ready(model, index);
}

static size_t resident(const struct pages *pages)
{
    return pages->data ? pages_resident(pages, 0, pages->count) : 0;
}

static bool stepped(void *arg, struct wk_context *ctx)
{
    struct rank *rank = arg;
    struct unit *unit = units_main(ctx);
    const struct own_passes *own = &unit->strategy.own;
    size_t held = resident(&own->wide_pages) + resident(&own->given_pages);
    CHECK(!rank->measures || held <= PAGES_HELD);
    atomic_fetch_add(rank->steps_taken, 1);
    if (rank->export && wk_steps(ctx) == STEPS)
        CHECK(wk_model_save(ctx, unit->model, rank->export, NULL) == 0);
    return false;
}

static void *run_rank(void *arg)
{
    self = arg;
    toy_run(&self->toy);
    return NULL;
}

struct run {
    const char *strategy, *precision, *accumulation, *steps, *dir, *scale;
    unsigned narrow;
    int ranks;
    bool borrowed;
    int spoiler, breaker; /* ranks, from 1; 0: nobody */
    bool measures;
    const char *export;
    void (*reforms)(struct fake_cluster *);
};

struct gang {
    struct fake_cluster cluster;
    struct rank ranks[RANKS_MAX];
    atomic_int steps_taken;
    float weights[RANKS_MAX][WEIGHTS];
};

static void configure(struct rank *rank, const struct run *run)
{
    struct toy *toy = &rank->toy;
    toy->custom = !run->borrowed;
    toy->borrowed = run->borrowed;
    toy->narrow = run->narrow;
    toy->stepped = stepped;
    toy->arg = rank;
    toy->clip = -1;
    toy_set(toy, "strategy", run->strategy);
    toy_set(toy, "mixed_precision", run->precision);
    toy_set(toy, "gradient_accumulation_steps", run->accumulation ? run->accumulation : "1");
    toy_set(toy, "total_steps", run->steps ? run->steps : "12");
    toy_set(toy, "bucket_mib", "0.02");
    toy_set(toy, "first_bucket_mib", "0.01");
    if (run->scale)
        toy_set(toy, "loss_scale.initial", run->scale);
    if (run->dir) {
        toy_set(toy, "checkpoint.dir", run->dir);
        toy_set(toy, "resume_from", "latest");
    }
    rank->measures = run->measures;
    rank->export = run->export;
}

static void play(struct gang *gang, const struct run *run)
{
    static const int workers[RANKS_MAX] = {0, 1, 2};
    memset(gang, 0, sizeof(*gang));
    fake_init(&gang->cluster);
    gang->cluster.on_lost = run->reforms;
    fake_form(&gang->cluster, workers, run->ranks);
    for (int i = 0; i < run->ranks; i++) {
        struct rank *rank = &gang->ranks[i];
        configure(rank, run);
        rank->toy.session = fake_session(&gang->cluster, i);
        rank->toy.weights = gang->weights[i];
        rank->steps_taken = &gang->steps_taken;
        rank->spoils = run->spoiler == i + 1;
        rank->breaks = run->breaker == i + 1;
        pthread_create(&rank->thread, NULL, run_rank, rank);
    }
    for (int i = 0; i < run->ranks; i++)
        pthread_join(gang->ranks[i].thread, NULL);
    fake_fini(&gang->cluster);
}

static void check_ended(const struct gang *gang, const struct run *run)
{
    for (int i = 0; i < run->ranks; i++) {
        const struct toy *toy = &gang->ranks[i].toy, *first = &gang->ranks[0].toy;
        if (toy->status)
            fprintf(stderr, "%s, %s, rank %d: %s\n", run->strategy, run->precision, i, toy->error);
        CHECK(toy->status == 0 && toy->exit_code == 0);
        CHECK(memcmp(toy->losses, first->losses, sizeof(toy->losses)) == 0);
        CHECK(toy->skipped == first->skipped && toy->scale == first->scale);
        CHECK(memcmp(gang->weights[i], gang->weights[0], sizeof(gang->weights[0])) == 0);
    }
}

static struct gang one, other;

static void check_same(const struct run *a, const struct run *b)
{
    const struct toy *first = &one.ranks[0].toy, *second = &other.ranks[0].toy;
    check_ended(&one, a);
    check_ended(&other, b);
    CHECK(memcmp(first->losses, second->losses, sizeof(first->losses)) == 0);
    CHECK(memcmp(one.weights[0], other.weights[0], sizeof(one.weights[0])) == 0);
    CHECK(first->skipped == second->skipped && first->scale == second->scale);
}

static void one_rank_overflows(struct run run)
{
    play(&one, &run);
    check_ended(&one, &run);
    const struct toy *toy = &one.ranks[0].toy;
    CHECK(one.ranks[run.spoiler - 1].done);
    CHECK(toy->skipped == 1 && toy->scale == 32768 && isfinite(toy->losses[STEPS]));
}

static void an_overflow_of_one_rank_is_skipped_by_all(void)
{
    for (int s = 0; s < 4; s++)
        for (int k = 0; k < 3; k++)
            for (int ranks = 1; ranks <= RANKS_MAX; ranks++)
                one_rank_overflows((struct run){.strategy = strategies[s],
                                                .precision = "fp16",
                                                .accumulation = ranks == 2 ? "2" : "1",
                                                .narrow = kinds[k],
                                                .ranks = ranks,
                                                .spoiler = ranks});
}

static void in_bf16_it_ends_training_and_is_named(void)
{
    for (int s = 0; s < 4; s++)
        for (int k = 0; k < 3; k++) {
            struct run run = {.strategy = strategies[s],
                              .precision = "bf16",
                              .narrow = kinds[k],
                              .ranks = 2,
                              .spoiler = 2};
            play(&one, &run);
            for (int i = 0; i < run.ranks; i++) {
                const struct toy *toy = &one.ranks[i].toy;
                CHECK(toy->status == WK_EOVERFLOW && toy->losses[EVENT_STEP] == 0);
                CHECK(strstr(toy->error, "step 4 is not done: the gradient of parameter bias"));
            }
        }
}

/* In two parts, through a checkpoint; on the same ranks the bits of a run in one part. */
static void resume(struct run run, int ranks)
{
    struct tmpdir dir = tmpdir_make();
    struct run first = run, second = run;
    play(&one, &run);
    first.dir = second.dir = dir.path;
    first.steps = "5";
    play(&other, &first);
    check_ended(&other, &first);
    second.ranks = ranks;
    play(&other, &second);
    CHECK(other.ranks[0].toy.losses[FIRST_PART] == 0);
    memset(one.ranks[0].toy.losses, 0, sizeof(double) * (FIRST_PART + 1));
    if (ranks == run.ranks) {
        for (int i = 1; i < ranks; i++)
            memset(one.ranks[i].toy.losses, 0, sizeof(double) * (FIRST_PART + 1));
        check_same(&run, &second);
    }
    check_ended(&other, &second);
    for (int step = FIRST_PART + 1; step <= STEPS; step++) {
        double a = one.ranks[0].toy.losses[step], b = other.ranks[0].toy.losses[step];
        CHECK(b > 0 && fabs(a - b) < a * 0x1p-8);
    }
    CHECK(other.ranks[0].toy.scale == one.ranks[0].toy.scale);
    tmpdir_remove(&dir);
}

static void a_checkpoint_continues_in_any_world(void)
{
    static const char *const precisions[] = {"bf16", "fp16"};
    for (int p = 0; p < 2; p++)
        for (int s = 0; s < 4; s++)
            for (int k = 0; k < 3; k++) {
                struct run run = {.strategy = strategies[s],
                                  .precision = precisions[p],
                                  .narrow = kinds[k],
                                  .ranks = 2,
                                  .borrowed = true,
                                  .scale = p == 1 ? "1099511627776" : NULL};
                resume(run, 2);
                resume(run, 1 + 2 * ((s + k) % 2));
            }
}

static void both_go_on(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){0, 1}, 2);
}

/* The rest of the pass goes on writing gradients that nothing takes. */
static void gradients_of_a_broken_pass_are_forgotten(void)
{
    static const char *const windows[] = {"1", "2"};
    for (int s = 0; s < 4; s++)
        for (int k = 0; k < 3; k++)
            for (int w = 0; w < 2; w++) {
                struct run run = {.strategy = strategies[s],
                                  .precision = "fp16",
                                  .accumulation = windows[w],
                                  .narrow = kinds[k],
                                  .ranks = 2};
                play(&one, &run);
                run.breaker = 1 + (s + k) % 2;
                run.reforms = both_go_on;
                play(&other, &run);
                CHECK(other.cluster.generation >= 2);
                check_same(&run, &run);
            }
}

static void what_is_exported_is_the_optimizers(void)
{
    for (int s = 0; s < 4; s++)
        for (int k = 0; k < 3; k++) {
            struct tmpdir dir = tmpdir_make();
            char path[512];
            struct run run = {.strategy = strategies[s],
                              .precision = "bf16",
                              .narrow = kinds[k],
                              .ranks = 2,
                              .export = path};
            (void)snprintf(path, sizeof(path), "%s/weights", dir.path);
            play(&one, &run);
            check_ended(&one, &run);
            struct wk_buffer buffers[] = {{"weight", 2, {128, 128}}, {"bias", 1, {128}}};
            struct wk_model *model;
            struct error err = {0};
            static float read[WEIGHTS];
            CHECK(wk_custom_new(buffers, 2, &model) == 0);
            CHECK(wk_model_load(NULL, model, path) == 0);
            CHECK(model_fill(model, 0, read, &err) == 0);
            CHECK(model_fill(model, 1, read + 128 * 128, &err) == 0);
            CHECK(memcmp(read, one.weights[0], sizeof(read)) == 0);
            wk_model_free(model);
            tmpdir_remove(&dir);
        }
}

/* Cut models keep neither floats of rounded numbers nor given gradients between steps. */
static void memory_is_given_back_between_steps(void)
{
    for (int s = 1; s < 4; s++)
        for (int k = 0; k < 3; k += 2) {
            struct run run = {.strategy = strategies[s],
                              .precision = "bf16",
                              .narrow = kinds[k],
                              .ranks = 2,
                              .measures = true};
            play(&one, &run);
            check_ended(&one, &run);
        }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(an_overflow_of_one_rank_is_skipped_by_all),
        CHECK_CASE(in_bf16_it_ends_training_and_is_named),
        CHECK_CASE(a_checkpoint_continues_in_any_world),
        CHECK_CASE(gradients_of_a_broken_pass_are_forgotten),
        CHECK_CASE(what_is_exported_is_the_optimizers),
        CHECK_CASE(memory_is_given_back_between_steps),
        {0},
    };
    return check_all(cases, argc, argv);
}
