/* Training where the host cannot read the memory of models, gradients and optimizer state: each
 * rank is a process with a rehearsal device of its own. Under every strategy and type the bits are
 * those of the CPU. Checkpoints go from one to the other, members leave and join, and what breaks a
 * rule of device.h is found.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libworker/checkpoint/list.h"
#include "libworker/device/reach.h"
#include "libworker/device/rehearsal/rehearsal.h"
#include "libworker/parallel/stage.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/graphs.h"
#include "tests/numeric/train/toy.h"

enum {
    WORKERS_MAX = 4,
    STEPS = 6,
    LONG_STEPS = 16,
    LEAVE_AT = 5,
    WEIGHTS_MAX = 1 << 16,
    BUFFERS_MAX = 64
};
enum { EXIT_FOUND = 3 };

static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};

/* One mistake in what orders copies, kernels and the host. */
enum mistake {
    NONE,
    HOST_READS_AT_ONCE,    /* what was fetched is used before it has arrived */
    FETCHES_AT_ONCE,       /* gradients are fetched while they are computed */
    SENDS_AT_ONCE,         /* parameters are overwritten while a pass reads them */
    PASSES_DO_NOT_WAIT,    /* no queue waits for another one */
    HOST_READS_THE_DEVICE, /* a checkpoint is read by pointer */
    MISTAKES,
};

struct run {
    const char *strategy, *precision, *low_gradients, *accumulation, *hook, *replicas, *clip_value;
    const char *dir, *every, *resume_from, *steps, *stochastic, *offload, *masters, *values;
    const struct graph_kind *graph; /* NULL: the GPT */
    int ranks;
    bool on_cpu, muon;
    bool own;        /* passes of the program's own (own_device.h), */
    bool by_block;   /* which enter blocks, */
    unsigned narrow; /* and take bits */
    bool by_hand;    /* instead: the same on the host, without libworker's memory */
    enum mistake mistake;
    bool parts; /* the last rank leaves after LEAVE_AT, and a worker joins that was not there */
};

struct told {
    double losses[LONG_STEPS + 1];
    float norms[LONG_STEPS + 1];
    float weights[WEIGHTS_MAX];
    float buffers[BUFFERS_MAX]; /* after the last step */
    int status;
    char finding[REHEARSAL_SENTENCE_MAX];
};

/* What the processes share. */
static struct scene {
    struct fake_cluster cluster;
    struct told told[WORKERS_MAX];
} * scene;

/* Of a rank's process. */
static enum mistake planted;
static struct told *mine;

int __real_event_wait(struct event event, struct error *err);
int __wrap_event_wait(struct event event, struct error *err);
int __wrap_event_wait(struct event event, struct error *err)
{
    return planted == HOST_READS_AT_ONCE ? 0 : __real_event_wait(event, err);
}

void __real_stage_fetch(struct stages *stages, struct stage *stage, const struct stage_copy *copy);
void __wrap_stage_fetch(struct stages *stages, struct stage *stage, const struct stage_copy *copy);
void __wrap_stage_fetch(struct stages *stages, struct stage *stage, const struct stage_copy *copy)
{
    struct stage_copy own = *copy;
    if (planted == FETCHES_AT_ONCE)
        own.after = (struct event){0};
    __real_stage_fetch(stages, stage, &own);
}

void __real_stage_send(struct stages *stages, struct stage *stage, const struct stage_copy *copy);
void __wrap_stage_send(struct stages *stages, struct stage *stage, const struct stage_copy *copy);
void __wrap_stage_send(struct stages *stages, struct stage *stage, const struct stage_copy *copy)
{
    struct stage_copy own = *copy;
    if (planted == SENDS_AT_ONCE)
        own.after = (struct event){0};
    __real_stage_send(stages, stage, &own);
}

void __real_queue_wait(struct queue *queue, struct event event);
void __wrap_queue_wait(struct queue *queue, struct event event);
void __wrap_queue_wait(struct queue *queue, struct event event)
{
    if (planted != PASSES_DO_NOT_WAIT)
        __real_queue_wait(queue, event);
}

int __real_reach_read(struct queue *queue, void *to, const void *from, size_t bytes,
                      struct error *err);
int __wrap_reach_read(struct queue *queue, void *to, const void *from, size_t bytes,
                      struct error *err);
int __wrap_reach_read(struct queue *queue, void *to, const void *from, size_t bytes,
                      struct error *err)
{
    if (planted != HOST_READS_THE_DEVICE)
        return __real_reach_read(queue, to, from, bytes, err);
    if (bytes)
        memcpy(to, from, bytes);
    return 0;
}

static void found(void *self, const char *sentence)
{
    struct told *told = self;
    snprintf(told->finding, sizeof(told->finding), "%s", sentence);
    _exit(EXIT_FOUND);
}

static void take_buffers(struct wk_context *ctx)
{
    struct wk_model *model = units_main(ctx)->model;
    CHECK(model->buffers.count <= BUFFERS_MAX);
    CHECK(buffers_read(model, BUFFERS_CONTENT, NULL) == 0);
    if (model->buffers.n)
        memcpy(mine->buffers, model->buffers.host, model->buffers.count * sizeof(float));
}

static bool stepped(void *arg, struct wk_context *ctx)
{
    const struct run *run = arg;
    take_buffers(ctx);
    bool on_host = !strategy_range(&units_main(ctx)->strategy)->queue;
    CHECK(on_host == (run->masters && !run->on_cpu && !run->muon && !run->own));
    if (!run->parts || mine != scene->told || wk_steps(ctx) != LEAVE_AT ||
        scene->cluster.generation != 1)
        return false;
    fake_stop_one(&scene->cluster, run->ranks - 1);
    fake_form(&scene->cluster, (const int[]){0, 1, run->ranks}, 3);
    return false;
}

static void set_if(struct toy *toy, const char *name, const char *value)
{
    if (value)
        toy_set(toy, name, value);
}

static void configure(struct toy *toy, const struct run *run)
{
    toy->muon = run->muon;
    toy->custom = run->own || run->by_hand;
    toy->on_device = run->own;
    toy->by_block = run->by_block;
    toy->narrow = run->narrow;
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
    set_if(toy, "clip_grad_value", run->clip_value);
    set_if(toy, "checkpoint.dir", run->dir);
    set_if(toy, "checkpoint.every", run->every);
    set_if(toy, "resume_from", run->resume_from);
    set_if(toy, "stochastic_rounding", run->stochastic);
    set_if(toy, "offload.state", run->offload);
    set_if(toy, "offload.masters", run->masters);
    set_if(toy, "offload.activations", run->values);
}

/* A rank's process. */
static void work(const struct run *run, int worker)
{
    static struct toy toy;
    struct told *told = &scene->told[worker];
    struct rehearsal_options options = {.seed = (uint64_t)worker, .found = found, .self = told};
    planted = run->mistake;
    mine = told;
    if (!run->on_cpu)
        CHECK(rehearsal_new(&options, &toy.device, NULL) == 0);
    toy.session = fake_session(&scene->cluster, worker);
    toy.weights = told->weights;
    toy.stepped = stepped;
    toy.arg = (void *)(uintptr_t)run;
    configure(&toy, run);
    toy_run(&toy);
    if (toy.device)
        device_free(toy.device);
    told->status = toy.status;
    memcpy(told->losses, toy.losses, sizeof(told->losses));
    memcpy(told->norms, toy.norms, sizeof(told->norms));
    if (toy.status && toy.status != WK_ESTOPPED && !run->mistake) {
        fprintf(stderr, "%s, worker %d: %s\n%s", run->strategy, worker, toy.error, toy.notices);
        _exit(1);
    }
}

static void share_scene(void)
{
    scene = mmap(NULL, sizeof(*scene), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(scene != MAP_FAILED);
}

/* The communicator's threads block signals, so that a read they may not do ends the process. */
static bool is_finding(const struct run *run, int status)
{
    if (run->mistake == HOST_READS_AT_ONCE && WIFSIGNALED(status))
        return WTERMSIG(status) == SIGSEGV;
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FOUND;
}

/* Begin the run's processes, and return when they have ended; once a mistake is found all end. */
static bool play(const struct run *run)
{
    static const int workers[WORKERS_MAX] = {0, 1, 2, 3};
    int n = run->ranks + run->parts;
    pid_t pids[WORKERS_MAX];
    bool is_found = false;
    memset(scene->told, 0, sizeof(scene->told));
    fake_init(&scene->cluster);
    fake_form(&scene->cluster, workers, run->ranks);
    fflush(stdout);
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) {
            CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
            work(run, i);
            _exit(0);
        }
    }
    for (int left = n, status; left > 0; left--) {
        pid_t pid = wait(&status);
        bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        is_found |= is_finding(run, status);
        for (int i = 0; i < n; i++) {
            if (pids[i] == pid)
                pids[i] = 0;
            else if (!well && pids[i])
                kill(pids[i], SIGKILL);
        }
        if (!well && !is_found)
            printf("%s: a rank ended with status %#x\n", run->strategy, (unsigned)status);
        CHECK(well || is_found || run->mistake);
    }
    for (int i = 0; i < n; i++)
        if (*scene->told[i].finding)
            printf("%s, rank %d: %s\n", run->strategy, i, scene->told[i].finding);
    if (!run->mistake) /* who was killed may have waited in it */
        fake_fini(&scene->cluster);
    return is_found;
}

static void play_well(const struct run *run)
{
    bool is_found = play(run);
    CHECK(!is_found);
    for (int i = 0; i < run->ranks; i++)
        CHECK(scene->told[i].status == 0);
}

static void same_bits(const struct run *run)
{
    static struct told on_cpu;
    struct run cpu = *run;
    cpu.on_cpu = true;
    play_well(&cpu);
    on_cpu = scene->told[0];
    CHECK(on_cpu.losses[1] > 0);
    play_well(run);
    for (int i = 0; i < run->ranks; i++) {
        const struct told *told = &scene->told[i];
        CHECK(memcmp(told->losses, on_cpu.losses, sizeof(told->losses)) == 0);
        CHECK(memcmp(told->norms, on_cpu.norms, sizeof(told->norms)) == 0);
        CHECK(memcmp(told->weights, on_cpu.weights, sizeof(told->weights)) == 0);
        CHECK(memcmp(told->buffers, on_cpu.buffers, sizeof(told->buffers)) == 0);
    }
}

static void every_strategy_trains_with_the_bits_of_the_cpu(void)
{
    for (int s = 0; s < 4; s++)
        for (int ranks = 1; ranks <= 2; ranks++) {
            same_bits(&(struct run){.strategy = strategies[s], .ranks = ranks});
            same_bits(
                &(struct run){.strategy = strategies[s], .ranks = ranks, .accumulation = "2"});
        }
    for (int s = 2; s < 4; s++)
        same_bits(&(struct run){.strategy = strategies[s], .ranks = 4, .replicas = "2"});
}

static void so_they_do_in_narrow_types(void)
{
    for (int s = 0; s < 4; s++) {
        struct run run = {.strategy = strategies[s], .ranks = 2, .precision = "bf16"};
        same_bits(&run);
        run.precision = "fp16";
        run.clip_value = "0.01";
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
}

static void so_do_hooks_and_optimizers_of_whole_tensors(void)
{
    same_bits(&(struct run){.strategy = "ddp", .ranks = 2, .hook = "bf16"});
    same_bits(&(struct run){.strategy = "ddp", .ranks = 2, .hook = "powersgd"});
    same_bits(&(struct run){.strategy = "ddp", .ranks = 2, .muon = true});
}

/* Half of it frozen; and running statistics, which the ranks find out together. */
static void so_do_graphs_with_frozen_parameters_and_buffers(void)
{
    static const int kinds[] = {GRAPH_TUNED, GRAPH_BATCH_NORM};
    for (int k = 0; k < 2; k++)
        for (int s = 0; s < 4; s++) {
            struct run run = {.strategy = strategies[s],
                              .ranks = 2,
                              .graph = &graph_kinds[kinds[k]],
                              .accumulation = "2"};
            same_bits(&run);
            CHECK((scene->told[0].buffers[0] != 0) == (kinds[k] == GRAPH_BATCH_NORM));
            run.precision = "bf16";
            run.stochastic = "true";
            same_bits(&run);
        }
}

/* The losses are those of passes that were written for the host, but for the order of sums. */
static void same_as_by_hand(void)
{
    static struct told own;
    own = scene->told[0];
    play_well(&(struct run){
        .strategy = "ddp", .ranks = 1, .by_hand = true, .on_cpu = true, .accumulation = "2"});
    for (int step = 1; step <= STEPS; step++)
        CHECK(fabs(own.losses[step] - scene->told[0].losses[step]) < 1e-6);
    CHECK(own.losses[STEPS] < 0.99 * own.losses[1]);
}

/* Those of the CPU are the same launches there. */
static void so_do_passes_of_the_programs_own(void)
{
    static const char *const precisions[] = {"no", "bf16", "fp16"};
    for (int s = 0; s < 4; s++)
        for (int p = 0; p < 3; p++) {
            struct run run = {.strategy = strategies[s],
                              .ranks = 2,
                              .own = true,
                              .precision = precisions[p],
                              .accumulation = "2"};
            same_bits(&run);
            run.by_block = true;
            same_bits(&run);
            if (!p)
                same_as_by_hand();
            run.narrow = WK_TAKES_BF16 | WK_TAKES_F16;
            same_bits(&run);
            run.ranks = 1;
            same_bits(&run);
        }
}

static void so_does_state_in_the_hosts_memory(void)
{
    for (int s = 0; s < 4; s++) {
        struct run run = {.strategy = strategies[s], .ranks = 2, .offload = "host"};
        same_bits(&run);
        run.precision = "bf16";
        run.stochastic = "true";
        run.accumulation = "2";
        same_bits(&run);
    }
    same_bits(&(struct run){.strategy = "ddp", .ranks = 2, .muon = true, .offload = "host"});
}

/* With the optimizer's state, without it, and where half of the model is frozen. */
static void so_do_masters_in_the_hosts_memory(void)
{
    for (int s = 0; s < 4; s++) {
        struct run run = {
            .strategy = strategies[s], .ranks = 2, .precision = "fp16", .masters = "host"};
        same_bits(&run);
        run.precision = "bf16";
        run.offload = "host";
        run.accumulation = "2";
        run.low_gradients = s ? "true" : NULL;
        same_bits(&run);
        run.graph = &graph_kinds[GRAPH_TUNED];
        run.stochastic = "true";
        same_bits(&run);
        run.ranks = 1;
        same_bits(&run);
    }
    struct run run = {.strategy = "fsdp", .ranks = 4, .replicas = "2", .precision = "bf16"};
    run.masters = "host";
    same_bits(&run);
    same_bits(&(struct run){
        .strategy = "ddp", .ranks = 2, .muon = true, .precision = "bf16", .masters = "host"});
}

static void so_do_values_in_the_hosts_memory(void)
{
    for (int s = 0; s < 4; s++) {
        struct run run = {.strategy = strategies[s], .ranks = 2, .values = "host"};
        same_bits(&run);
        run.precision = "bf16";
        run.offload = run.masters = "host";
        run.accumulation = "2";
        same_bits(&run);
    }
}

/* Half on one device, half on the other. */
static void carry(struct run run, bool to_cpu)
{
    static struct told whole;
    struct tmpdir dir = tmpdir_make();
    run.ranks = 2;
    run.precision = run.graph || run.masters ? "bf16" : NULL;
    run.stochastic = run.precision ? "true" : NULL;
    run.on_cpu = true;
    play_well(&run);
    whole = scene->told[0];
    run.on_cpu = !to_cpu;
    run.dir = dir.path;
    run.every = "3 steps";
    run.steps = "3";
    play_well(&run);
    run.on_cpu = to_cpu;
    run.resume_from = "latest";
    run.steps = NULL;
    play_well(&run);
    CHECK(scene->told[0].losses[3] == 0 && scene->told[0].losses[4] > 0);
    for (int step = 4; step <= STEPS; step++)
        CHECK(!memcmp(&scene->told[0].losses[step], &whole.losses[step], sizeof(double)));
    CHECK(!memcmp(scene->told[0].weights, whole.weights, sizeof(whole.weights)));
    CHECK(!memcmp(scene->told[0].buffers, whole.buffers, sizeof(whole.buffers)));
    tmpdir_remove(&dir);
}

static void a_checkpoint_of_one_device_is_loaded_on_the_other(void)
{
    for (int s = 0; s < 4; s++) {
        for (int to_cpu = 0; to_cpu < 2; to_cpu++) {
            struct run run = {.strategy = strategies[s]};
            carry(run, to_cpu);
            run.offload = "host";
            carry(run, to_cpu);
            run.masters = "host";
            carry(run, to_cpu);
            run.graph = &graph_kinds[GRAPH_TUNED];
            carry(run, to_cpu);
            run.offload = run.masters = NULL;
            carry(run, to_cpu);
            run.graph = &graph_kinds[GRAPH_BATCH_NORM];
            carry(run, to_cpu);
        }
    }
}

/* A member leaves, another one without any state joins: states are handed over and cut again. */
static void members_change(struct run run)
{
    static struct told alone;
    double most = 0;
    run.ranks = 1;
    run.on_cpu = true;
    run.steps = "16";
    play_well(&run);
    alone = scene->told[0];
    run.ranks = 3;
    run.on_cpu = false;
    run.parts = true;
    CHECK(!play(&run));
    const struct told *stays = &scene->told[0], *joins = &scene->told[3];
    CHECK(stays->status == 0 && joins->status == 0 && scene->told[2].status == WK_ESTOPPED);
    CHECK(joins->losses[LEAVE_AT] == 0 && joins->losses[LONG_STEPS] > 0);
    for (int step = 1; step <= LONG_STEPS; step++)
        most = fmax(most, fabs(stays->losses[step] - alone.losses[step]));
    printf("%s, a member left and another joined: losses differ by %.2e at most\n", run.strategy,
           most);
    /* In bf16 as in test_precision.c: a 32nd of its unit. */
    CHECK(most < TOY_GUESS * (run.precision ? 0x1p-8 / 32 : toy_bounds(LONG_STEPS).losses));
    CHECK(!memcmp(stays->weights, joins->weights, sizeof(stays->weights)));
    CHECK(!memcmp(stays->buffers, joins->buffers, sizeof(stays->buffers)));
}

static void members_leave_and_join(void)
{
    for (int s = 0; s < 4; s++) {
        struct run run = {.strategy = strategies[s]};
        members_change(run);
        run.offload = "host";
        members_change(run);
        run.precision = "bf16";
        run.masters = run.values = "host";
        members_change(run);
        run = (struct run){.strategy = strategies[s], .graph = &graph_kinds[GRAPH_TUNED]};
        members_change(run);
        run.graph = &graph_kinds[GRAPH_BATCH_NORM];
        members_change(run);
    }
}

/* Only a block that fsdp gathers again is overwritten while the device may still be behind. */
static bool applies(enum mistake mistake, const char *strategy)
{
    return mistake != SENDS_AT_ONCE || strcmp(strategy, "fsdp") == 0;
}

static void look_for(const struct run *run)
{
    bool has = play(run);
    printf("%s%s: mistake %d %s\n", run->strategy, run->own ? ", own passes" : "",
           (int)run->mistake, has ? "found" : "not found");
    CHECK(has);
}

static void mistakes_are_found(void)
{
    struct tmpdir dir = tmpdir_make();
    for (int s = 0; s < 4; s++)
        for (enum mistake mistake = NONE + 1; mistake < MISTAKES; mistake++) {
            if (!applies(mistake, strategies[s]))
                continue;
            const struct run run = {.strategy = strategies[s],
                                    .ranks = 2,
                                    .mistake = mistake,
                                    .dir = dir.path,
                                    .every = "2 steps"};
            look_for(&run);
            tmpdir_remove(&dir);
            struct run offloaded = run;
            offloaded.offload = "host";
            if (mistake == PASSES_DO_NOT_WAIT)
                look_for(&offloaded);
            tmpdir_remove(&dir);
            struct run own = run;
            own.own = own.by_block = true;
            own.precision = "bf16";
            if (mistake != SENDS_AT_ONCE) /* its two blocks are gathered once in a step */
                look_for(&own);
            tmpdir_remove(&dir);
        }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(every_strategy_trains_with_the_bits_of_the_cpu),
        CHECK_CASE(so_they_do_in_narrow_types),
        CHECK_CASE(so_do_hooks_and_optimizers_of_whole_tensors),
        CHECK_CASE(so_do_graphs_with_frozen_parameters_and_buffers),
        CHECK_CASE(so_do_passes_of_the_programs_own),
        CHECK_CASE(so_does_state_in_the_hosts_memory),
        CHECK_CASE(so_do_masters_in_the_hosts_memory),
        CHECK_CASE(so_do_values_in_the_hosts_memory),
        CHECK_CASE(a_checkpoint_of_one_device_is_loaded_on_the_other),
        CHECK_CASE(members_leave_and_join),
        CHECK_CASE(mistakes_are_found),
        {0},
    };
    share_scene();
    return check_all(cases, argc, argv);
}
