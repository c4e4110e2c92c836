/* Training of processes whose devices have collectives of their own: with the bits of the CPU under
 * every strategy and type, with one wait a step, and on without a rank that was killed. The devices
 * are rehearsal devices, whose collectives are own_wire.h's. */
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libworker/device/numbers.h"
#include "libworker/device/rehearsal/rehearsal.h"
#include "libworker/parallel/stage.h"
#include "libworker/parallel/strategy_grads.h"
#include "libworker/parallel/wires.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/graphs.h"
#include "tests/numeric/train/own_wire.h"
#include "tests/numeric/train/toy.h"

enum { WORKERS_MAX = 4, STEPS = 6, LONG_STEPS = 12, KILL_AT = 4, WEIGHTS_MAX = 1 << 16 };
enum { ABORT_MS = 1000 }; /* from the death of a rank to the abort of the others' collectives */
enum { EXIT_FOUND = 3 };

static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};

enum trains { ON_CPU, STAGED, OWN };
enum mistake { NONE, PASSES_DO_NOT_WAIT, COLLECTIVES_DO_NOT_WAIT, MISTAKES };

struct run {
    const char *strategy, *precision, *low_gradients, *accumulation, *hook, *replicas, *sums;
    const char *steps, *dir, *timeout, *collectives;
    const struct graph_kind *graph; /* NULL: the GPT */
    int ranks;
    uint64_t seed;
    enum trains on;
    enum own_wires_fault fault; /* of the last rank that is not killed */
    enum mistake mistake;
    bool counts; /* the waits of each step */
    bool kills;  /* the last rank, after KILL_AT steps */
    bool late;   /* kills it in the next step: the others have enqueued their update */
    bool alone;  /* without a session */
    bool leaves; /* the last rank, there; the others then wait in a forward pass */
};

struct told {
    double losses[LONG_STEPS + 1];
    float norms[LONG_STEPS + 1];
    float weights[WEIGHTS_MAX];
    int status, counted;
    char notices[4096], finding[REHEARSAL_SENTENCE_MAX];
};

/* What the processes share. */
static struct scene {
    struct fake_cluster cluster;
    struct told told[WORKERS_MAX];
    _Atomic long long killed_ms;
    _Atomic int have_stepped; /* ranks with KILL_AT steps behind them */
} * scene;
static struct own_wires *wires;

/* Of a rank's process. */
static bool hangs, dies; /* dies: before its part of the next loss */
static enum mistake planted;
static struct queue *model_queue, *wires_line; /* the device's first ones */
static int waits;
static struct told *mine;

int __real_numbers_wait(struct numbers *numbers, const double **ret_values, struct error *err);
int __wrap_numbers_wait(struct numbers *numbers, const double **ret_values, struct error *err);
int __wrap_numbers_wait(struct numbers *numbers, const double **ret_values, struct error *err)
{
    waits++;
    return __real_numbers_wait(numbers, ret_values, err);
}

int __real_queue_finish(struct queue *queue, struct error *err);
int __wrap_queue_finish(struct queue *queue, struct error *err);
int __wrap_queue_finish(struct queue *queue, struct error *err)
{
    waits++;
    return __real_queue_finish(queue, err);
}

int __real_queue_read(struct queue *queue, void *to, const void *from, size_t bytes,
                      struct error *err);
int __wrap_queue_read(struct queue *queue, void *to, const void *from, size_t bytes,
                      struct error *err);
int __wrap_queue_read(struct queue *queue, void *to, const void *from, size_t bytes,
                      struct error *err)
{
    waits++;
    return __real_queue_read(queue, to, from, bytes, err);
}

int __real_stage_await(struct stage *stage, struct error *err);
int __wrap_stage_await(struct stage *stage, struct error *err);
int __wrap_stage_await(struct stage *stage, struct error *err)
{
    waits++;
    return __real_stage_await(stage, err);
}

void __real_queue_wait(struct queue *queue, struct event event);
void __wrap_queue_wait(struct queue *queue, struct event event);
void __wrap_queue_wait(struct queue *queue, struct event event)
{
    bool passes = queue == model_queue && event.queue == wires_line;
    bool collectives = queue == wires_line && event.queue == model_queue;
    if (!(passes && planted == PASSES_DO_NOT_WAIT) &&
        !(collectives && planted == COLLECTIVES_DO_NOT_WAIT))
        __real_queue_wait(queue, event);
}

static long long now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The first steps make memory. */
static void count_waits(struct wk_context *ctx)
{
    if (wk_steps(ctx) > 2) {
        CHECK(waits == 1);
        mine->counted++;
    }
    waits = 0;
}

/* There is a checkpoint to return to. */
static void await_commit(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (bool done = false; !done; (void)nanosleep(&pause, NULL)) {
        pthread_mutex_lock(&scene->cluster.lock);
        done = scene->cluster.commits > 0;
        pthread_mutex_unlock(&scene->cluster.lock);
    }
}

/* All have the step after which one dies, or survivors would go on from the one before it. */
static void await_others(const struct run *run)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    while (atomic_load(&scene->have_stepped) < run->ranks)
        (void)nanosleep(&pause, NULL);
}

static void die(void)
{
    atomic_store(&scene->killed_ms, now_ms());
    (void)kill(getpid(), SIGKILL);
}

int __real_strategy_sum_losses(struct strategy *st, struct error *err);
int __wrap_strategy_sum_losses(struct strategy *st, struct error *err);
int __wrap_strategy_sum_losses(struct strategy *st, struct error *err)
{
    if (dies)
        die();
    return __real_strategy_sum_losses(st, err);
}

static bool stepped(void *arg, struct wk_context *ctx)
{
    const struct run *run = arg;
    if (run->counts)
        count_waits(ctx);
    if (run->kills && run->dir && wk_steps(ctx) == KILL_AT)
        await_commit();
    if (wk_steps(ctx) == KILL_AT)
        (void)atomic_fetch_add(&scene->have_stepped, 1);
    dies = run->kills && mine == &scene->told[run->ranks - 1] && wk_steps(ctx) == KILL_AT;
    if (dies)
        await_others(run);
    if (dies && !run->late)
        die();
    return run->leaves && mine == &scene->told[run->ranks - 1] && wk_steps(ctx) == KILL_AT;
}

static void set_if(struct toy *toy, const char *name, const char *value)
{
    if (value)
        toy_set(toy, name, value);
}

static void configure(struct toy *toy, const struct run *run)
{
    bool sets = run->counts || run->kills; /* nothing waits between the sums and the update */
    toy->clip = sets ? -1 : 1;
    set_if(toy, "clip_grad_norm", sets ? "1" : NULL);
    toy_set(toy, "total_steps", run->steps ? run->steps : "6");
    toy_set(toy, "strategy", run->strategy);
    toy_set(toy, "bucket_mib", run->graph ? "0.001" : "0.02");
    toy_set(toy, "first_bucket_mib", run->graph ? "0.001" : "0.01");
    if (run->graph) {
        toy->graph = run->graph->build;
        toy->rows = run->graph->rows;
    }
    set_if(toy, "mixed_precision", run->precision);
    set_if(toy, "low_gradients", run->low_gradients);
    set_if(toy, "gradient_accumulation_steps", run->accumulation);
    set_if(toy, "ddp.hook", run->hook);
    set_if(toy, "mesh.dp_replicate", run->replicas);
    set_if(toy, "collectives.sums", run->sums);
    set_if(toy, "collectives.device", run->collectives);
    set_if(toy, "connect_timeout", run->timeout);
    set_if(toy, "checkpoint.dir", run->dir);
    set_if(toy, "checkpoint.every", run->dir ? "2 steps" : NULL);
}

static void found(void *self, const char *sentence)
{
    struct told *told = self;
    snprintf(told->finding, sizeof(told->finding), "%s", sentence);
    _exit(EXIT_FOUND);
}

/* A rank's process. */
static void work(const struct run *run, int worker)
{
    static struct toy toy;
    struct told *told = &scene->told[worker];
    bool last = worker == run->ranks - 1 - run->kills;
    planted = run->mistake;
    hangs = run->fault == OWN_WIRES_HANG;
    mine = told;
    if (run->on != ON_CPU)
        toy.device = own_wires_device(run->seed + (uint64_t)worker, found, told);
    if (run->on == OWN)
        own_wires_give(wires, toy.device, last ? run->fault : OWN_WIRES_WORK);
    toy.session = run->alone ? NULL : fake_session(&scene->cluster, worker);
    toy.weights = told->weights;
    toy.stepped = stepped;
    toy.leave_at_once = run->leaves;
    toy.asks = run->leaves;
    toy.arg = (void *)(uintptr_t)run;
    configure(&toy, run);
    toy_run(&toy);
    if (toy.device)
        device_free(toy.device);
    told->status = toy.status;
    memcpy(told->losses, toy.losses, sizeof(told->losses));
    memcpy(told->norms, toy.norms, sizeof(told->norms));
    snprintf(told->notices, sizeof(told->notices), "%s", toy.notices);
    if (toy.status && !run->mistake && !run->leaves) {
        fprintf(stderr, "%s, worker %d: %s\n%s", run->strategy, worker, toy.error, toy.notices);
        _exit(1);
    }
}

/* Who was killed is no member of the next generation. */
static void form_without_last(struct fake_cluster *cluster)
{
    static const int workers[WORKERS_MAX] = {0, 1, 2, 3};
    fake_form_locked(cluster, workers, cluster->n_members - 1);
}

static bool ended_well(const struct run *run, int worker, int status)
{
    if (run->kills && worker == run->ranks - 1)
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (run->fault == OWN_WIRES_HANG)
        return WIFEXITED(status) && WEXITSTATUS(status) == WIRES_EXIT;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Begin the run's processes, and return when they have ended. True: a mistake was found. */
static bool play(const struct run *run)
{
    static const int workers[WORKERS_MAX] = {0, 1, 2, 3};
    pid_t pids[WORKERS_MAX];
    bool is_found = false;
    memset(scene->told, 0, sizeof(scene->told));
    own_wires_clear(wires);
    atomic_store(&scene->have_stepped, 0);
    fake_init(&scene->cluster);
    scene->cluster.on_lost = form_without_last;
    fake_form(&scene->cluster, workers, run->ranks);
    fflush(stdout);
    for (int i = 0; i < run->ranks; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) {
            CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
            work(run, i);
            _exit(0);
        }
    }
    for (int left = run->ranks, status; left > 0; left--) {
        pid_t pid = wait(&status);
        int worker = 0;
        while (pids[worker] != pid)
            worker++;
        pids[worker] = 0;
        bool well = ended_well(run, worker, status);
        is_found |= WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FOUND;
        if (!well && !run->mistake)
            printf("%s: rank %d ended with status %#x: %s\n", run->strategy, worker,
                   (unsigned)status, scene->told[worker].finding);
        for (int i = 0; i < run->ranks; i++)
            if (!well && pids[i])
                (void)kill(pids[i], SIGKILL);
        CHECK(well || run->mistake);
    }
    for (int i = 0; i < run->ranks; i++)
        if (*scene->told[i].finding)
            printf("%s, rank %d: %s\n", run->strategy, i, scene->told[i].finding);
    return is_found;
}

static void play_well(const struct run *run)
{
    bool is_found = play(run);
    CHECK(!is_found);
    fake_fini(&scene->cluster);
    for (int i = 0; i < run->ranks - run->kills; i++)
        CHECK(scene->told[i].status == 0);
}

static void check_same(const struct told *a, const struct told *b)
{
    CHECK(memcmp(a->losses, b->losses, sizeof(a->losses)) == 0);
    CHECK(memcmp(a->norms, b->norms, sizeof(a->norms)) == 0);
    CHECK(memcmp(a->weights, b->weights, sizeof(a->weights)) == 0);
}

static void same_bits(const struct run *run)
{
    static struct told on_cpu;
    struct run cpu = *run, own = *run;
    cpu.on = ON_CPU;
    play_well(&cpu);
    on_cpu = scene->told[0];
    CHECK(on_cpu.losses[1] > 0);
    own.on = OWN;
    play_well(&own);
    CHECK(own_wires_messages(wires) > 0);
    for (int i = 0; i < run->ranks; i++)
        check_same(&scene->told[i], &on_cpu);
}

static void every_strategy_has_the_bits_of_the_cpu(void)
{
    for (int s = 0; s < 4; s++)
        for (int ranks = 2; ranks <= 3; ranks++) {
            same_bits(&(struct run){.strategy = strategies[s], .ranks = ranks});
            same_bits(
                &(struct run){.strategy = strategies[s], .ranks = ranks, .accumulation = "2"});
        }
    for (int s = 2; s < 4; s++)
        same_bits(&(struct run){.strategy = strategies[s], .ranks = 4, .replicas = "2"});
}

static void so_it_has_in_narrow_types(void)
{
    for (int s = 0; s < 4; s++) {
        struct run run = {.strategy = strategies[s], .ranks = 3, .precision = "bf16"};
        same_bits(&run);
        run.precision = "fp16";
        same_bits(&run);
        run.precision = "bf16";
        run.accumulation = "2";
        run.low_gradients = "true";
        if (s > 0)
            same_bits(&run);
    }
    same_bits(&(struct run){.strategy = "fsdp",
                            .ranks = 4,
                            .replicas = "2",
                            .precision = "bf16",
                            .low_gradients = "true"});
    same_bits(&(struct run){.strategy = "ddp", .ranks = 3, .hook = "bf16"});
    same_bits(&(struct run){.strategy = "ddp", .ranks = 3, .hook = "powersgd"});
}

/* Batch statistics of all ranks are sums in the middle of a pass. */
static void so_have_operations_over_the_ranks(void)
{
    for (int s = 0; s < 4; s++)
        same_bits(&(struct run){
            .strategy = strategies[s], .ranks = 2, .graph = &graph_kinds[GRAPH_BATCH_NORM]});
}

static void fast_sums_are_the_devices(void)
{
    static struct told ordered;
    double most = 0;
    struct run run = {.strategy = "ddp", .ranks = 3, .on = OWN};
    play_well(&run);
    ordered = scene->told[0];
    run.sums = "fast";
    play_well(&run);
    for (int i = 0; i < WEIGHTS_MAX; i++)
        most = fmax(most, fabs((double)scene->told[0].weights[i] - (double)ordered.weights[i]));
    printf("fast and ordered sums: weights differ by %.2e at most\n", most);
    CHECK(most > 0 && most < toy_bounds(STEPS).weights);
}

static void a_step_waits_once(void)
{
    for (int s = 0; s < 4; s++) {
        struct run run = {
            .strategy = strategies[s], .ranks = 2, .on = OWN, .counts = true, .precision = "bf16"};
        play_well(&run);
        CHECK(scene->told[0].counted == STEPS - 2 && scene->told[1].counted == STEPS - 2);
    }
}

/* As through the hosts, the survivors go on from the last step that all have. */
static void survivors_of_a_killed_rank_train_on(void)
{
    static struct told staged;
    struct run run = {.strategy = "ddp", .steps = "12", .kills = true};
    for (run.ranks = 2; run.ranks <= 3; run.ranks++) {
        run.on = STAGED;
        play_well(&run);
        staged = scene->told[0];
        run.on = OWN;
        play_well(&run);
        long long took = own_wires_aborted_ms(wires) - atomic_load(&scene->killed_ms);
        printf("%d ranks: aborted %lld ms after the kill\n", run.ranks, took);
        CHECK(took >= 0 && took < ABORT_MS);
        CHECK(staged.losses[LONG_STEPS] > 0);
        for (int i = 0; i < run.ranks - 1; i++)
            check_same(&scene->told[i], &staged);
    }
}

/* All gradients are there, and the update is enqueued; but a later sum is not to be trusted. */
static void an_update_after_a_lost_sum_changes_nothing(void)
{
    enum { SEEDS = 6 };
    static struct told staged;
    struct run run = {.strategy = "ddp", .steps = "12", .kills = true, .ranks = 3, .on = STAGED};
    play_well(&run);
    staged = scene->told[0];
    run.on = OWN;
    run.late = true;
    for (run.seed = 0; run.seed < SEEDS; run.seed++) {
        play_well(&run);
        for (int i = 0; i < run.ranks - 1; i++)
            check_same(&scene->told[i], &staged);
    }
}

/* A part of the state is lost: they return to a checkpoint. */
static void so_they_do_under_strategies_that_cut(void)
{
    for (int s = 1; s < 5; s++) { /* the last one with two replicas: three communicators */
        struct tmpdir dir = tmpdir_make();
        struct run run = {.strategy = strategies[s < 4 ? s : 3],
                          .replicas = s < 4 ? NULL : "2",
                          .ranks = s < 4 ? 3 : 4,
                          .steps = "12",
                          .kills = true,
                          .dir = dir.path,
                          .on = OWN};
        play_well(&run);
        long long took = own_wires_aborted_ms(wires) - atomic_load(&scene->killed_ms);
        printf("%s: aborted %lld ms after the kill\n", run.strategy, took);
        CHECK(took >= 0 && took < ABORT_MS);
        CHECK(scene->told[0].losses[LONG_STEPS] > 0);
        check_same(&scene->told[0], &scene->told[1]);
        tmpdir_remove(&dir);
    }
}

/* As through the hosts: an error, and no wait without end. */
static void a_rank_that_leaves_early_is_an_error_of_the_others(void)
{
    struct run run = {.strategy = "fsdp", .steps = "12", .ranks = 2, .on = OWN, .leaves = true};
    CHECK(!play(&run));
    CHECK(scene->told[1].status == 0 && scene->told[0].status);
    CHECK(strstr(scene->told[0].notices, "generation 1 is broken: a rank has left"));
}

/* Its process ends, for an agent to start it again. */
static void an_abort_that_hangs_has_a_deadline(void)
{
    const struct run run = {.strategy = "ddp",
                            .steps = "12",
                            .kills = true,
                            .ranks = 2,
                            .on = OWN,
                            .fault = OWN_WIRES_HANG};
    CHECK(!play(&run));
}

static void without_one_on_every_rank_data_goes_through_the_hosts(void)
{
    static struct told staged;
    struct run run = {.strategy = "fsdp", .ranks = 2, .on = STAGED};
    play_well(&run);
    staged = scene->told[0];
    run.on = OWN;
    for (run.fault = OWN_WIRES_ABSENT; run.fault <= OWN_WIRES_FAIL; run.fault++) {
        if (run.fault == OWN_WIRES_FAIL) /* which is waited for in vain */
            run.timeout = "5s";
        play_well(&run);
        CHECK(own_wires_messages(wires) == 0);
        check_same(&scene->told[0], &staged);
        CHECK(strstr(scene->told[0].notices, "through the hosts"));
        printf("%s", scene->told[0].notices);
    }
}

/* Their library is opened beside all else, but only if this process may have other ranks. */
static void wires_are_prepared_where_ranks_may_exchange(void)
{
    struct run run = {.strategy = "ddp", .ranks = 2, .on = OWN};
    play_well(&run);
    CHECK(own_wires_prepared(wires) == 2);
    run.ranks = 1; /* more may join */
    play_well(&run);
    CHECK(own_wires_prepared(wires) == 1);
    run.collectives = "off";
    play_well(&run);
    CHECK(own_wires_prepared(wires) == 0);
    run = (struct run){.strategy = "ddp", .ranks = 1, .on = OWN, .alone = true};
    play_well(&run);
    CHECK(own_wires_prepared(wires) == 0);
}

#ifndef MISTAKES_ARE_NOT_SEEN
static void mistakes_are_found(void)
{
    for (int s = 0; s < 4; s++)
        for (enum mistake mistake = NONE + 1; mistake < MISTAKES; mistake++) {
            const struct run run = {
                .strategy = strategies[s], .ranks = 2, .on = OWN, .mistake = mistake};
            bool has = play(&run);
            printf("%s: mistake %d %s\n", strategies[s], (int)mistake, has ? "found" : "not found");
            CHECK(has);
        }
}

#endif

int __real_queue_new(struct device *device, struct queue **ret_queue, struct error *err);
int __wrap_queue_new(struct device *device, struct queue **ret_queue, struct error *err);
int __wrap_queue_new(struct device *device, struct queue **ret_queue, struct error *err)
{
    int rc = __real_queue_new(device, ret_queue, err);
    if (rc || device_host_reads(device))
        return rc;
    if (!model_queue)
        model_queue = *ret_queue;
    else if (!wires_line)
        wires_line = *ret_queue;
    return 0;
}

int __real_wires_new(struct queue *queue, const struct wires_options *options,
                     struct wires **ret_wires, struct error *err);
int __wrap_wires_new(struct queue *queue, const struct wires_options *options,
                     struct wires **ret_wires, struct error *err);
int __wrap_wires_new(struct queue *queue, const struct wires_options *options,
                     struct wires **ret_wires, struct error *err)
{
    enum { HANGS_MS = 300 };
    struct wires_options own = *options;
    if (hangs)
        own.abort_ms = HANGS_MS;
    return __real_wires_new(queue, &own, ret_wires, err);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(every_strategy_has_the_bits_of_the_cpu),
        CHECK_CASE(so_it_has_in_narrow_types),
        CHECK_CASE(so_have_operations_over_the_ranks),
        CHECK_CASE(fast_sums_are_the_devices),
        CHECK_CASE(a_step_waits_once),
        CHECK_CASE(survivors_of_a_killed_rank_train_on),
        CHECK_CASE(an_update_after_a_lost_sum_changes_nothing),
        CHECK_CASE(so_they_do_under_strategies_that_cut),
        CHECK_CASE(a_rank_that_leaves_early_is_an_error_of_the_others),
        CHECK_CASE(an_abort_that_hangs_has_a_deadline),
        CHECK_CASE(without_one_on_every_rank_data_goes_through_the_hosts),
        CHECK_CASE(wires_are_prepared_where_ranks_may_exchange),
#ifndef MISTAKES_ARE_NOT_SEEN
        CHECK_CASE(mistakes_are_found),
#endif
        {0},
    };
    scene = mmap(NULL, sizeof(*scene), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(scene != MAP_FAILED);
    wires = own_wires_new();
    return check_all(cases, argc, argv);
}
