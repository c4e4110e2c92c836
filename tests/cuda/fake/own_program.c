/* examples/cuda_own without a GPU: its kernels, emulated, on the module's device over the fake
 * runtime. Its losses are those of the same model as a graph on the CPU, under every strategy and
 * precision, and the same bits in any order of the streams.
 *
 *     cuda_own_program TEXT [CASE]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <worker/worker.h>

#include "libworker/device/module.h"
#include "libworker/nn/model.h"
#include "tests/cuda/fake/gpu.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"

/* The example's. */
enum { BYTES = 256, WIDTH = 24, HIDDEN = 48, LENGTH = 8, BATCH = 20, STEPS = 40 };
enum { SAVED = 20, PATH_BYTES = 600 };

int program_main(int argc, char **argv);

static char *text; /* a file's path */

struct losses {
    double of[STEPS];
    int n;
};

extern const struct module_table muster_cuda_module;
int __wrap_module_open(const char *path, const struct module_table **ret_table, struct error *err);
int __wrap_module_open(const char *path, const struct module_table **ret_table, struct error *err)
{
    (void)path;
    (void)err;
    *ret_table = &muster_cuda_module;
    return 0;
}

static void fill(float *values, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        values[i] = ((float)(seed >> 8) / (1 << 24) - 0.5f) * 0.4f;
    }
}

/* The graph begins with the numbers that the example begins with. */
static int begin_as_the_example(void *arg, const struct param *param, int index, struct error *err)
{
    static const char *const names[] = {"embedding.weight", "inner.weight", "outer.weight"};
    (void)arg;
    (void)index;
    (void)err;
    for (unsigned i = 0; i < 3; i++) {
        if (!strcmp(param->name, names[i]))
            fill(param->data, param->count, 17 + i);
    }
    return 0;
}

static struct wk_graph *same_model(void)
{
    struct wk_graph *g = wk_graph_new("same");
    struct wk_shape shape = WK_SHAPE(WK_SAMPLES, WK_LENGTH);
    struct wk_tensor *targets = wk_graph_input(g, "targets", WK_I32, shape);
    struct wk_tensor *x = wk_graph_input(g, "tokens", WK_I32, shape);
    wk_graph_max_length(g, LENGTH);
    wk_graph_block(g, "embeds");
    x = wk_layer_embedding(x, "embedding", BYTES, WIDTH);
    wk_graph_block(g, "hides");
    x = wk_op_tanh(wk_layer_linear(x, "inner", HIDDEN));
    wk_graph_block(g, "heads");
    x = wk_layer_linear(x, "outer", BYTES);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, targets, NULL), NULL);
    return g;
}

static void run_graph(struct losses *ret)
{
    struct wk_loader_options deal = {
        .length = LENGTH, .batch = BATCH, .sequential = true, .batches = STEPS};
    struct wk_adamw_options adamw = {1e-2, 0.9, 0.95, 1e-8, 0.1};
    struct wk_batch batch;
    struct wk_context *ctx = wk_begin(NULL);
    struct wk_loader *loader = wk_loader_in(ctx, text, &deal);
    struct wk_model *model = wk_graph_in(ctx, same_model());
    struct wk_optimizer *optimizer = wk_adamw_in(ctx, &adamw);
    model_set_values(model, &(struct model_values){.fill = begin_as_the_example});
    ret->n = 0;
    for (int64_t done = 0; wk_next(loader, &batch); done = wk_steps(ctx)) {
        CHECK(wk_forward(model, &batch, NULL) == 0 && wk_backward(model) == 0);
        CHECK(wk_step(optimizer) == 0);
        if (wk_steps(ctx) > done)
            ret->of[ret->n++] = wk_loss(ctx);
    }
    CHECK(wk_finish(ctx) == 0 && ret->n > 0);
}

/* What the program prints after each wk_step; a window of several passes has one step. */
static void read_losses(FILE *out, struct losses *ret)
{
    char line[200];
    int step = 0, at;
    double loss;
    ret->n = 0;
    rewind(out);
    while (fgets(line, sizeof(line), out)) {
        if (sscanf(line, "after step %d: loss %lf", &at, &loss) == 2 && at > step) {
            CHECK(ret->n < STEPS);
            ret->of[ret->n++] = loss;
            step = at;
        }
    }
}

/* Its standard output comes back from a file. */
static void run_program(uint64_t seed, struct losses *ret)
{
    const struct fake_options options = gpu_options(seed);
    char name[] = "cuda_own", *arguments[] = {name, text, NULL};
    FILE *out = tmpfile();
    int console = dup(STDOUT_FILENO);
    fflush(stdout);
    CHECK(out && console >= 0 && dup2(fileno(out), STDOUT_FILENO) >= 0);
    fake_begin(&options);
    int code = program_main(2, arguments);
    fake_end();
    fflush(stdout);
    CHECK(dup2(console, STDOUT_FILENO) >= 0 && close(console) == 0);
    CHECK(code == 0);
    read_losses(out, ret);
    fclose(out);
}

/* With one setting that is not as usual. */
static void compare(const char *name, const char *value, double most)
{
    enum { SEEDS = 3 };
    static struct losses graph, first, own;
    double apart = 0;
    CHECK(setenv(name, value, 1) == 0 && setenv("MUSTER_DEVICE", "cpu", 1) == 0);
    run_graph(&graph);
    CHECK(setenv("MUSTER_DEVICE", "cuda", 1) == 0);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        run_program(seed, &own);
        if (!seed)
            first = own;
        CHECK(own.n == first.n && !memcmp(own.of, first.of, (size_t)own.n * sizeof(double)));
    }
    CHECK(unsetenv(name) == 0 && own.n == graph.n);
    for (int i = 0; i < graph.n; i++)
        apart = fmax(apart, fabs(own.of[i] - graph.of[i]) / graph.of[i]);
    printf("   %s=%s: %d steps, %.4f to %.4f, %.1e apart\n", name, value, own.n, own.of[0],
           own.of[own.n - 1], apart);
    CHECK(apart <= most && own.of[own.n - 1] < 0.8 * own.of[0]);
}

/* Losses are printed with six digits; sums of 48 and of 160 numbers have another order. In bf16 the
 * graph's activations are rounded too, the program's are not. */
static const double F32 = 2e-6, BF16 = 3e-3, FP16 = 5e-4;

static void losses_are_the_graphs_under_every_strategy(void)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
    for (int i = 0; i < 4; i++)
        compare("MUSTER_STRATEGY", strategies[i], F32);
}

static void windows_are_accumulated(void)
{
    compare("MUSTER_GRADIENT_ACCUMULATION_STEPS", "2", F32);
}

static void every_precision_trains(void)
{
    compare("MUSTER_MIXED_PRECISION", "bf16", BF16);
    compare("MUSTER_MIXED_PRECISION", "fp16", FP16);
}

/* What a resumed program prints is what the whole run has printed for these steps. */
static void resume(const struct tmpdir *folder, const char *name, const char *value)
{
    static struct losses whole, rest;
    char from[PATH_BYTES];
    const char *dir = tmpdir_path(folder, value);
    (void)snprintf(from, sizeof(from), "%s/step-%08d", dir, SAVED);
    CHECK(setenv(name, value, 1) == 0 && setenv("MUSTER_CHECKPOINT_DIR", dir, 1) == 0);
    CHECK(setenv("MUSTER_CHECKPOINT_EVERY", "20 steps", 1) == 0);
    run_program(1, &whole);
    CHECK(unsetenv("MUSTER_CHECKPOINT_DIR") == 0 && unsetenv("MUSTER_CHECKPOINT_EVERY") == 0);
    CHECK(setenv("MUSTER_RESUME_FROM", from, 1) == 0);
    run_program(2, &rest);
    CHECK(unsetenv("MUSTER_RESUME_FROM") == 0 && unsetenv(name) == 0);
    CHECK(whole.n == STEPS && rest.n == STEPS - SAVED);
    CHECK(!memcmp(rest.of, whole.of + SAVED, (size_t)rest.n * sizeof(double)));
}

static void a_checkpoint_is_where_it_goes_on(void)
{
    struct tmpdir folder = tmpdir_make();
    CHECK(setenv("MUSTER_DEVICE", "cuda", 1) == 0);
    resume(&folder, "MUSTER_STRATEGY", "ddp");
    resume(&folder, "MUSTER_STRATEGY", "fsdp");
    resume(&folder, "MUSTER_MIXED_PRECISION", "bf16");
    resume(&folder, "MUSTER_MIXED_PRECISION", "fp16");
    tmpdir_remove(&folder);
}

/* Kernels for a GPU do not run on the CPU's memory. */
static void without_a_gpu_it_is_refused(void)
{
    char name[] = "cuda_own", *arguments[] = {name, text, NULL};
    const struct fake_options options = gpu_options(1);
    CHECK(setenv("MUSTER_DEVICE", "cpu", 1) == 0);
    fake_begin(&options);
    CHECK(program_main(2, arguments) != 0);
    fake_end();
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(losses_are_the_graphs_under_every_strategy),
        CHECK_CASE(windows_are_accumulated),
        CHECK_CASE(every_precision_trains),
        CHECK_CASE(a_checkpoint_is_where_it_goes_on),
        CHECK_CASE(without_a_gpu_it_is_refused),
        {NULL, NULL},
    };
    CHECK(argc > 1);
    text = argv[1];
    return check_all(cases, argc - 1, argv + 1);
}
