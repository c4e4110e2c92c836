/* State in files: the same bits as in memory, in less of it, refused before training where it does
 * not fit.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "libworker/tensor/mapped.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/toy.h"
#include "tests/numeric/train/variant.h"

static struct outcome memory, files;

static void compare(struct variant v, const char *dir)
{
    variant_run(&v, &memory);
    v.offload = dir;
    variant_run(&v, &files);
    CHECK(outcome_same_bits(&memory, &files));
    CHECK(memory.losses[VARIANT_STEPS] < memory.losses[1]);
    if (strcmp(v.strategy, "fsdp") != 0)
        return;
    v.offload_parameters = "true";
    variant_run(&v, &files);
    CHECK(outcome_same_bits(&memory, &files));
}

static int entries(const char *dir)
{
    DIR *open = opendir(dir);
    int n = 0;
    CHECK(open);
    for (struct dirent *e; (e = readdir(open));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(open);
    return n;
}

static void state_in_files_has_the_bits_of_state_in_memory(void)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
    struct tmpdir dir = tmpdir_make();
    for (int s = 0; s < 4; s++)
        for (int ranks = 1; ranks <= 3; ranks += 2)
            compare((struct variant){.strategy = strategies[s], .ranks = ranks}, dir.path);
    for (int s = 1; s < 4; s++)
        compare((struct variant){.strategy = strategies[s],
                                 .ranks = 2,
                                 .precision = "bf16",
                                 .low_gradients = "true"},
                dir.path);
    compare((struct variant){.strategy = "ddp", .ranks = 2, .muon = true}, dir.path);
    compare((struct variant){.strategy = "fsdp", .ranks = 4, .replicas = "2"}, dir.path);
    CHECK(entries(dir.path) == 0);
    tmpdir_remove(&dir);
}

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

struct fixture {
    struct wk_context *ctx;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
};

enum { ROWS = 2048, COLS = 2048 };

static void open_with(struct fixture *f, const struct wk_setting *settings, int n)
{
    static const struct wk_buffer buffer = {.name = "w", .dims = 2, .shape = {ROWS, COLS}};
    static const struct wk_adamw_options adamw = {1e-3, 0.9, 0.95, 1e-8, 0.1};
    static struct environment environment = {nothing, NULL};
    struct wk_options options = {.settings = settings, .n_settings = n};
    struct context_seams seams = {.environment = &environment, .quiet = true};
    CHECK(context_open(&options, &seams, &f->ctx) == 0);
    CHECK(wk_custom_new(&buffer, 1, &f->model) == 0 && wk_adamw_new(&adamw, &f->optimizer) == 0);
    (void)wk_prepare_all(f->ctx, WK_OBJECT(f->model), WK_OBJECT(f->optimizer));
}

static void close_all(struct fixture *f)
{
    wk_close(f->ctx);
    wk_optimizer_free(f->optimizer);
    wk_model_free(f->model);
}

/* Bytes in memory of the mapping that `at` lies in. */
static size_t resident(const void *at)
{
    char line[512];
    size_t kib = 0;
    bool inside = false, found = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file);
    while (fgets(line, sizeof(line), file) && !found) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            inside = begin <= (unsigned long)at && (unsigned long)at < end;
        else if (inside && sscanf(line, "Rss: %zu kB", &kib) == 1)
            found = true;
    }
    CHECK(found);
    fclose(file);
    return kib << 10;
}

static void a_step_gives_back_what_it_is_through_with(void)
{
    enum { STATE_BYTES = ROWS * COLS * 4 };
    struct tmpdir dir = tmpdir_make();
    const struct wk_setting settings[] = {
        {"offload.dir", dir.path}, {"strategy", "fsdp"}, {"offload.parameters", "true"}};
    struct fixture f;
    for (int n = 1; n <= 3; n += 2) {
        open_with(&f, settings, n);
        CHECK(wk_status(f.ctx) == 0);
        for (int step = 0; step < 2; step++) {
            CHECK(wk_gather_parameters(f.model) == 0);
            for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
                wk_parameter_grad(f.model, 0)[i] = 1e-3f * (float)(i % 17);
            CHECK(wk_backward(f.model) == 0 && wk_step(f.optimizer) == 0);
        }
        const float *const *state = (const float *const *)f.optimizer->state;
        CHECK(resident(state[0]) < STATE_BYTES / 8 && resident(state[1]) < STATE_BYTES / 8);
        if (n == 3)
            CHECK(resident(strategy_range(&unit_of_model(f.model)->strategy)->data) <
                  STATE_BYTES / 8);
        CHECK(state[0][16] != 0); /* and it is all there */
        close_all(&f);
    }
    tmpdir_remove(&dir);
}

static void must_refuse(const struct wk_setting *settings, int n, const char *sentence)
{
    struct fixture f;
    open_with(&f, settings, n);
    if (!strstr(wk_last_error(f.ctx), sentence))
        fprintf(stderr, "%s\n", wk_last_error(f.ctx));
    CHECK(wk_status(f.ctx) != 0 && strstr(wk_last_error(f.ctx), sentence));
    close_all(&f);
}

static void what_does_not_fit_is_refused_before_training(void)
{
    struct tmpdir dir = tmpdir_make();
    const struct wk_setting absent[] = {{"offload.dir", tmpdir_path(&dir, "absent")}};
    const struct wk_setting alone[] = {{"offload.parameters", "true"}};
    const struct wk_setting whole[] = {{"offload.dir", dir.path}, {"offload.parameters", "true"}};
    struct rlimit before, small = {1 << 20, 1 << 20};
    must_refuse(absent, 1, "a file cannot be made there: No such file or directory");
    must_refuse(alone, 1, "offload.parameters needs an offload.dir");
    must_refuse(whole, 2, "offload.parameters true contradicts strategy ddp");
    /* A limit on files stands for a disk that is full. */
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small.rlim_max = before.rlim_max;
    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    struct error err = {0};
    CHECK(!mapped_new(dir.path, (size_t)ROWS * COLS, &err));
    CHECK(err.code && strstr(err.text, "has no room for 16 MiB: File too large"));
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(entries(dir.path) == 0);
    tmpdir_remove(&dir);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(state_in_files_has_the_bits_of_state_in_memory),
        CHECK_CASE(a_step_gives_back_what_it_is_through_with),
        CHECK_CASE(what_does_not_fit_is_refused_before_training),
        {0},
    };
    return check_all(cases, argc, argv);
}
