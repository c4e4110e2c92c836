#include "tests/numeric/train/wires_run.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libworker/device/numbers.h"
#include "libworker/parallel/stage.h"
#include "libworker/parallel/strategy_grads.h"
#include "libworker/parallel/wire_two_level.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/toy.h"

enum { EXIT_FOUND = 3 };

const char *const strategies[4] = {"ddp", "zero1", "zero2", "fsdp"};
struct scene *scene;
struct own_wires *wires;

void scene_new(void)
{
    scene = mmap(NULL, sizeof(*scene), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(scene != MAP_FAILED);
    wires = own_wires_new();
}

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

/* A sum in two levels: its host gets nothing from this rank. */
int __real_two_level_send(struct wire_work *work);
int __wrap_two_level_send(struct wire_work *work);
int __wrap_two_level_send(struct wire_work *work)
{
    if (dies)
        die();
    return __real_two_level_send(work);
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
    set_if(toy, "offload.masters", run->masters);
    set_if(toy, "ddp.hook", run->hook);
    set_if(toy, "mesh.dp_replicate", run->replicas);
    set_if(toy, "collectives.sums", run->sums);
    set_if(toy, "collectives.device", run->collectives);
    set_if(toy, "collectives.between", run->between);
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
    pthread_mutex_lock(&scene->cluster.lock);
    told->generation = scene->cluster.generation;
    pthread_mutex_unlock(&scene->cluster.lock);
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

static void form_again(struct fake_cluster *cluster)
{
    static const int workers[WORKERS_MAX] = {0, 1, 2, 3};
    fake_form_locked(cluster, workers, cluster->n_members);
}

static bool ended_well(const struct run *run, int worker, int status)
{
    if (run->kills && worker == run->ranks - 1)
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (run->fault == OWN_WIRES_HANG)
        return WIFEXITED(status) && WEXITSTATUS(status) == WIRES_EXIT;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool play(const struct run *run)
{
    static const int workers[WORKERS_MAX] = {0, 1, 2, 3};
    pid_t pids[WORKERS_MAX];
    bool is_found = false;
    memset(scene->told, 0, sizeof(scene->told));
    own_wires_clear(wires);
    atomic_store(&scene->have_stepped, 0);
    fake_init(&scene->cluster);
    scene->cluster.per_host = run->per_host;
    scene->cluster.on_lost = run->fault == OWN_WIRES_BREAK ? form_again : form_without_last;
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

void play_well(const struct run *run)
{
    bool is_found = play(run);
    CHECK(!is_found);
    fake_fini(&scene->cluster);
    for (int i = 0; i < run->ranks - run->kills; i++)
        CHECK(scene->told[i].status == 0);
}

/* A rank that was behind when its generation broke gets the weights of the others' newest step, and
 * has seen no loss of that one. */
static bool may_have_missed_one(const struct told *told)
{
    return told->generation > 1;
}

void check_same(const struct told *a, const struct told *b)
{
    int missed = 0, most = may_have_missed_one(a) + may_have_missed_one(b);
    for (size_t i = 0; i < sizeof(a->losses) / sizeof(*a->losses); i++) {
        bool same = memcmp(&a->losses[i], &b->losses[i], sizeof(*a->losses)) == 0 &&
                    memcmp(&a->norms[i], &b->norms[i], sizeof(*a->norms)) == 0;
        bool seen = a->losses[i] != 0 && b->losses[i] != 0;
        missed += !same && !seen;
        if (!same)
            printf("step %zu: losses of %.9g and %.9g, norms of %.9g and %.9g\n", i, a->losses[i],
                   b->losses[i], (double)a->norms[i], (double)b->norms[i]);
        CHECK(same || !seen);
    }
    CHECK(missed <= most);
    CHECK(memcmp(a->weights, b->weights, sizeof(a->weights)) == 0);
}

void same_bits(const struct run *run)
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
