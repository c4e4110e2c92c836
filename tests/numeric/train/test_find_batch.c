/* The largest batch that fits, agreed on by ranks of which one has less memory: two processes, a
 * limit of the address space on the second.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libworker/estimate/estimate.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/ranked.h"

enum { RANKS = 2, MOST = 512, LENGTH = 32, STEPS = 2 };

struct found {
    int64_t batch;
    int attempts, refused; /* of the program's own tries */
    int status;
    double loss;
};

struct scene {
    const char *group;   /* of both ranks: a control group; NULL: none */
    int64_t spare_bytes; /* what rank 1 may take beyond what it has; 0 = no limit */
    bool custom;
    int64_t fits;                     /* custom: samples that rank 1 can pass */
    const char *strategy, *recompute; /* NULL: as usual */
    struct found *found;              /* [RANKS], shared between the processes */
};

static int64_t address_space(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

struct own_try {
    struct found *found;
    int64_t fits;
};

/* A pass that takes 1 MiB for each sample and uses it. */
static int try_memory(void *arg, int64_t samples)
{
    struct own_try *own = arg;
    size_t bytes = (size_t)samples << 20;
    own->found->attempts++;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    own->found->refused += memory == MAP_FAILED;
    if (memory == MAP_FAILED)
        return WK_ENOMEM;
    memset(memory, 1, bytes);
    munmap(memory, bytes);
    return 0;
}

static int try_own(void *arg, int64_t samples)
{
    struct own_try *own = arg;
    own->found->attempts++;
    if (samples <= own->fits)
        return 0;
    own->found->refused++;
    return WK_ENOMEM;
}

static void own_pass(struct wk_model *model)
{
    wk_set_loss(model, 1);
    for (int i = 0; i < 3; i++)
        wk_parameter_grad(model, 0)[i] += 1;
}

static void make_model(const struct scene *scene, struct wk_model **ret)
{
    struct wk_gpt_config gpt = {2, 2, 64, LENGTH, 128};
    struct wk_buffer buffer = {.name = "w", .dims = 1, .shape = {3}};
    CHECK((scene->custom ? wk_custom_new(&buffer, 1, ret) : wk_gpt_new(&gpt, ret)) == 0);
}

static void train(const struct scene *scene, int rank, struct wk_context *ctx)
{
    struct wk_source *source;
    struct wk_loader *loader;
    struct wk_model *model;
    struct wk_optimizer *sgd;
    struct wk_batch batch;
    static char text[MOST * LENGTH + 1];
    struct found *found = &scene->found[rank];
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(i * 7 % 100);
    CHECK(wk_source_bytes(ctx, text, sizeof(text), &source) == 0);
    struct wk_loader_options options = {.source = source, .length = LENGTH, .batch = MOST};
    CHECK(wk_loader_new(ctx, &options, &loader) == 0);
    CHECK(wk_find_batch(loader, NULL, NULL) == WK_ESTATE);
    CHECK(wk_sgd_new(&(struct wk_sgd_options){.rate = 1e-3}, &sgd) == 0);
    make_model(scene, &model);
    CHECK(wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(sgd), WK_OBJECT(loader)) == 0);
    CHECK(kernel_warm(model->kernels) == 0);
    rlim_t limit = (rlim_t)(address_space() + scene->spare_bytes);
    if (rank == 1 && scene->spare_bytes)
        CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}) == 0);

    struct own_try own = {found, rank == 1 ? scene->fits : MOST};
    struct wk_batch_search search = {scene->group ? try_memory : try_own, &own};
    found->status = wk_find_batch(loader, scene->custom ? &search : NULL, &found->batch);
    while (!found->status && wk_next(loader, &batch)) {
        CHECK(batch.global_samples == found->batch);
        if (scene->custom)
            own_pass(model);
        else
            wk_forward(model, &batch, NULL);
        wk_backward(model);
        CHECK(wk_find_batch(loader, NULL, NULL) == WK_ESTATE);
        wk_step(sgd);
    }
    found->loss = wk_loss(ctx);
    if (wk_status(ctx) != found->status)
        fprintf(stderr, "rank %d: %s\n", rank, wk_last_error(ctx));
    CHECK(wk_status(ctx) == found->status);
    wk_close(ctx);
    wk_optimizer_free(sgd);
    wk_model_free(model);
    wk_loader_free(loader);
    wk_source_free(source);
}

static bool write_in(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    bool done = file && fputs(text, file) >= 0;
    return file && fclose(file) == 0 && done;
}

static void enter_group(const char *group)
{
    char pid[32];
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    CHECK(write_in(group, "cgroup.procs", pid));
}

static void run_rank(const struct scene *scene, int rank, int port)
{
    struct ranked ranked;
    struct wk_setting settings[] = {{"total_steps", "2"},
                                    {"comm_timeout", "20s"},
                                    {"strategy", scene->strategy ? scene->strategy : "ddp"},
                                    {"recompute", scene->recompute ? scene->recompute : "none"}};
    struct wk_context *ctx;
    ranked_init(&ranked, rank, RANKS, port);
    CHECK(context_open(&(struct wk_options){.settings = settings, .n_settings = 4},
                       &(struct context_seams){.environment = &ranked.environment, .quiet = true},
                       &ctx) == 0);
    train(scene, rank, ctx);
}

/* Both ranks as processes; what they found is checked to be the same. */
static struct found run(struct scene *scene)
{
    int port = ranked_port(), status;
    size_t bytes = RANKS * sizeof(*scene->found);
    scene->found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(scene->found != MAP_FAILED);
    pid_t pids[RANKS];
    for (int i = 0; i < RANKS; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) {
            alarm(CHECK_LIMIT_S);
            if (scene->group)
                enter_group(scene->group);
            run_rank(scene, i, port);
            _exit(0);
        }
    }
    for (int i = 0; i < RANKS; i++)
        CHECK(waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) &&
              WEXITSTATUS(status) == 0);
    CHECK(scene->found[0].batch == scene->found[1].batch);
    CHECK(scene->found[0].status == scene->found[1].status);
    struct found first = scene->found[0];
    first.refused += scene->found[1].refused;
    munmap(scene->found, bytes);
    return first;
}

/* The largest batch, halved from MOST, of which a rank's pass fits into `spare` bytes. It needs the
 * region of its plan, two numbers for each token, and the slack that a step is given. */
static int64_t planned_batch(int64_t spare)
{
    enum { SLACK_BYTES = 16 << 20 };
    struct wk_gpt_config gpt = {2, 2, 64, LENGTH, 128};
    struct wk_sgd_options sgd = {.rate = 1e-3};
    struct estimate_options options = {.world = RANKS, .compute = WK_F32};
    struct wk_optimizer *optimizer;
    struct wk_model *model;
    struct estimate e;
    int64_t batch = 2 * MOST;
    CHECK(wk_gpt_new(&gpt, &model) == 0 && wk_sgd_new(&sgd, &optimizer) == 0);
    options.optimizer = optimizer;
    do {
        batch /= 2;
        options.samples = batch / RANKS;
        CHECK(estimate_training(model, &options, &e, NULL) == 0);
    } while (batch > RANKS && e.activations + e.batch + SLACK_BYTES > spare);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
    return batch;
}

static void without_a_limit_the_batch_stays(void)
{
    struct scene scene = {0};
    struct found found = run(&scene);
    CHECK(found.status == 0 && found.batch == MOST && found.loss > 1);
}

static void a_rank_with_less_memory_halves_the_batch_of_all(void)
{
#ifdef __SANITIZE_ADDRESS__
    check_skip("a limited address space has no room for AddressSanitizer's shadow");
    return;
#endif
    int64_t before = MOST;
    static const char *const strategies[] = {"ddp", "fsdp"};
    for (int s = 0; s < 2; s++) {
        before = MOST;
        for (int64_t spare = 60; spare >= 20; spare /= 3) {
            struct scene scene = {.spare_bytes = spare << 20, .strategy = strategies[s]};
            struct found found = run(&scene);
            printf("%s, %lld MiB on one rank: a batch of %lld\n", strategies[s], (long long)spare,
                   (long long)found.batch);
            CHECK(found.status == 0 && found.batch >= 2 && found.batch < before);
            CHECK(found.batch == planned_batch(scene.spare_bytes));
            CHECK((found.batch & (found.batch - 1)) == 0 && found.loss > 1);
            before = found.batch;
        }
    }
}

/* Whether a rank's pass of a batch can be within so many bytes. */
static bool can_be_within(int64_t batch, int64_t bytes)
{
    struct wk_gpt_config gpt = {2, 2, 64, LENGTH, 128};
    struct wk_sgd_options sgd = {.rate = 1e-3};
    struct estimate_options options = {.world = RANKS,
                                       .compute = WK_F32,
                                       .samples = batch / RANKS,
                                       .recompute = WK_RECOMPUTE_WITHIN,
                                       .within = bytes};
    struct wk_optimizer *optimizer;
    struct wk_model *model;
    struct estimate e;
    CHECK(wk_gpt_new(&gpt, &model) == 0 && wk_sgd_new(&sgd, &optimizer) == 0);
    options.optimizer = optimizer;
    int rc = estimate_training(model, &options, &e, NULL);
    CHECK(!rc || rc == WK_ENOMEM);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
    return !rc;
}

static void a_size_of_recomputation_halves_the_batch(void)
{
    struct scene scene = {.recompute = "8MiB"};
    struct found found = run(&scene);
    printf("within 8 MiB: a batch of %lld\n", (long long)found.batch);
    CHECK(found.status == 0 && found.batch < MOST && found.loss > 1);
    CHECK(can_be_within(found.batch, 8 << 20) && !can_be_within(2 * found.batch, 8 << 20));
}

static void memory_for_no_sample_is_an_error_on_all(void)
{
    struct scene scene = {.custom = true, .fits = 0};
    struct found found = run(&scene);
    CHECK(found.status == WK_ENOMEM && found.batch == 0);
}

static void a_program_tries_its_own_passes(void)
{
    struct scene scene = {.custom = true, .fits = 20};
    struct found found = run(&scene);
    CHECK(found.status == 0 && found.batch == 32);
    CHECK(found.attempts == 5 && found.refused == 4); /* shares of 256, 128, 64, 32, 16 */
}

/* A control group for a test, limited to so many bytes, or false. */
static bool make_group(char ret[256], const char *bytes)
{
    static const char *const places[][2] = {{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                                            {"/sys/fs/cgroup", "memory.max"}};
    for (int i = 0; i < 2; i++) {
        snprintf(ret, 256, "%s/muster-test-%d", places[i][0], (int)getpid());
        if (access(places[i][0], F_OK) == 0 && mkdir(ret, 0755) == 0) {
            if (write_in(ret, places[i][1], bytes))
                return true;
            rmdir(ret);
        }
    }
    return false;
}

/* Beyond the limit the kernel kills, it refuses nothing. */
static void a_groups_limit_halves_the_batch_and_kills_nobody(void)
{
#ifdef __SANITIZE_ADDRESS__
    check_skip("AddressSanitizer's shadow does not fit into a small group");
    return;
#endif
    char group[256];
    for (int own = 0; own < 2; own++) {
        if (!make_group(group, "167772160")) { /* 160 MiB */
            check_skip("no control group can be made: it takes root and a memory controller");
            return;
        }
        struct scene scene = {.group = group, .custom = own};
        struct found found = run(&scene);
        printf("160 MiB for both ranks: a batch of %lld\n", (long long)found.batch);
        CHECK(rmdir(group) == 0);
        CHECK(found.status == 0 && found.batch >= 2 && found.batch < MOST);
        CHECK(!own || (found.refused > 0 && found.batch >= 32));
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(without_a_limit_the_batch_stays),
        CHECK_CASE(a_rank_with_less_memory_halves_the_batch_of_all),
        CHECK_CASE(a_size_of_recomputation_halves_the_batch),
        CHECK_CASE(memory_for_no_sample_is_an_error_on_all),
        CHECK_CASE(a_program_tries_its_own_passes),
        CHECK_CASE(a_groups_limit_halves_the_batch_and_kills_nobody),
        {0},
    };
    return check_all(cases, argc, argv);
}
