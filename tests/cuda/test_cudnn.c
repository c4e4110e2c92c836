/* Attention by cuDNN (cuda/cudnn_attention.h) over a fake of it that computes the graphs it is
 * given, beside the host's row: causal and full masks, groups, odd lengths, both types, gradients
 * that are added. And when the own kernels take over. */
#include <dlfcn.h>
#include <math.h>
#include <string.h>

#include <worker/error.h>
#include <worker/nn.h>

#include "libworker/cuda/attention_cudnn.h"
#include "libworker/cuda/cudnn.h"
#include "tests/cuda/attention_scene.h"
#include "tests/cuda/fake/gpu.h"
#include "tests/cuda/plan_counts.h"
#include "tests/lib/check.h"
#include "tests/lib/rounding.h"

struct stage {
    struct device *device;
    struct queue *queue;
};

static struct stage stage_new(enum attention_choice choice)
{
    static uint64_t seed;
    struct fake_options options = gpu_options(++seed);
    struct stage stage = {.device = gpu_new(&options)};
    cuda_device_of(stage.device)->attention = choice;
    CHECK(!queue_new(stage.device, &stage.queue, NULL));
    return stage;
}

static void stage_free(struct stage *stage)
{
    queue_free(stage->queue);
    device_free(stage->device);
}

/* Graphs that cuDNN has run. */
static long runs(void)
{
    long (*counted)(void) = NULL;
    void *library = dlopen(FAKE_CUDNN, RTLD_NOW | RTLD_NOLOAD);
    void *call = library ? dlsym(library, "fake_cudnn_runs") : NULL;
    memcpy(&counted, &call, sizeof(counted));
    long n = counted ? counted() : 0;
    if (library)
        (void)dlclose(library);
    return n;
}

/* Probabilities, their gradients and dout are rounded to the type, and gradients once more. */
static double bound_of(enum wk_dtype type, enum scene_result result)
{
    double unit = type == WK_BF16 ? ROUNDING_BF16 : ROUNDING_F16;
    return result == SCENE_LSE ? rounding_bound(100) : result == SCENE_OUT ? 2 * unit : 3 * unit;
}

static void expect_near(const struct scene *ours, const struct scene *theirs, enum wk_dtype type)
{
    static const char *const names[] = {"out", "lse", "dqkv"};
    for (int i = 0; i < SCENE_RESULTS; i++) {
        double off = scene_off(ours, theirs, i), bound = bound_of(type, i);
        if (!(off <= bound) || getenv("SHOW"))
            fprintf(stderr, "%s in %s is off by %.3g, bound %.3g\n", names[i], wk_dtype_name(type),
                    off, bound);
        CHECK(off <= bound);
    }
}

/* Passes that the device says are cuDNN's. */
static long said_of(const struct stage *stage, const struct scene *scene)
{
    long n = 0;
    for (int backward = 0; backward < 2; backward++) {
        char text[DEVICE_CHOSEN_BYTES];
        scene_chosen(scene, stage->device, backward, text);
        CHECK(strstr(text, backward ? ", backward: " : ", forward: "));
        CHECK(!strstr(text, ": cuDNN ") == !!strstr(text, ": own kernels by tensor cores, as "));
        n += strstr(text, ": cuDNN ") != NULL;
    }
    return n;
}

static long run_beside_host(struct stage *stage, const struct scene_shape *shape,
                            enum wk_dtype type)
{
    struct scene *ours = scene_new(shape, type), *theirs = scene_new(shape, type);
    long before = runs();
    scene_run(ours, stage->queue, 0);
    scene_run_host(theirs);
    expect_near(ours, theirs, type);
    CHECK(said_of(stage, ours) == runs() - before);
    scene_free(ours);
    scene_free(theirs);
    return runs() - before;
}

static const struct scene_shape shapes[] = {
    {.samples = 2, .length = 33, .heads = 3, .kv_heads = 3, .size = 8},
    {.samples = 2, .length = 33, .heads = 3, .kv_heads = 3, .size = 8, .full = true},
    {.samples = 2, .length = 19, .heads = 4, .kv_heads = 2, .size = 16, .adds = true},
    {.samples = 1, .length = 7, .heads = 4, .kv_heads = 1, .size = 24, .full = true, .scale = 0.3},
    {.samples = 3, .length = 2, .heads = 1, .kv_heads = 1, .size = 8, .adds = true},
};
enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

/* With sums in a fixed order, which `auto` insists on. */
static void graphs_are_attention(void)
{
    struct stage stage = stage_new(ATTENTION_AUTO);
    for (int i = 0; i < SHAPES; i++) {
        CHECK(run_beside_host(&stage, &shapes[i], WK_BF16) == 2);
        CHECK(run_beside_host(&stage, &shapes[i], WK_F16) == 2);
    }
    CHECK(cudnn_counted(cuda_device_of(stage.device)).plans == 4 * SHAPES);
    CHECK(run_beside_host(&stage, &shapes[0], WK_BF16) == 2);
    CHECK(cudnn_counted(cuda_device_of(stage.device)).plans == 4 * SHAPES);
    stage_free(&stage);
}

/* Of scores whose powers are beyond f32. What is rounded before they are scaled matters more. */
static void large_scores(void)
{
    static const struct scene_shape shape = {
        .samples = 1, .length = 9, .heads = 2, .kv_heads = 2, .size = 8, .scale = 40};
    struct stage stage = stage_new(ATTENTION_AUTO);
    struct scene *ours = scene_new(&shape, WK_BF16), *theirs = scene_new(&shape, WK_BF16);
    scene_run(ours, stage.queue, 0);
    scene_run_host(theirs);
    CHECK(cudnn_counted(cuda_device_of(stage.device)).plans == 2);
    CHECK(scene_off(ours, theirs, SCENE_LSE) <= bound_of(WK_BF16, SCENE_LSE));
    CHECK(scene_off(ours, theirs, SCENE_OUT) <= bound_of(WK_BF16, SCENE_OUT));
    CHECK(scene_off(ours, theirs, SCENE_DQKV) <= 0.1);
    scene_free(ours);
    scene_free(theirs);
    stage_free(&stage);
}

/* Queries' gradients are summed in memory where their order is not known: on sm_100. */
static void sums_without_an_order(void)
{
    struct stage stage = stage_new(ATTENTION_CUDNN);
    cuda_device_of(stage.device)->arch = 100;
    for (int i = 0; i < SHAPES; i++)
        CHECK(run_beside_host(&stage, &shapes[i], WK_BF16) == 2);
    cuda_device_of(stage.device)->attention = ATTENTION_AUTO;
    CHECK(run_beside_host(&stage, &shapes[0], WK_BF16) == 1);
    stage_free(&stage);
}

/* Passes of either kind read what the other has kept. */
static void own_and_cudnn_agree_on_what_is_kept(void)
{
    struct stage stage = stage_new(ATTENTION_AUTO);
    struct cuda_device *device = cuda_device_of(stage.device);
    device->arch = 100; /* forward by cuDNN, backward by the own kernels */
    CHECK(run_beside_host(&stage, &shapes[2], WK_BF16) == 1);
    stage_free(&stage);
}

static long runs_with(const char *variable, const char *value, const struct scene_shape *shape,
                      enum wk_dtype type)
{
    if (variable)
        CHECK(setenv(variable, value, 1) == 0);
    struct stage stage = stage_new(ATTENTION_AUTO);
    long n = run_beside_host(&stage, shape, type);
    stage_free(&stage);
    if (variable)
        CHECK(unsetenv(variable) == 0);
    return n;
}

static void own_kernels_take_the_rest(void)
{
    struct scene_shape window = shapes[0], odd = shapes[0];
    window.window = 5;
    odd.size = 12;
    CHECK(runs_with(NULL, NULL, &window, WK_BF16) == 0);
    CHECK(runs_with(NULL, NULL, &odd, WK_BF16) == 0);
    CHECK(runs_with("FAKE_CUDNN_FAULT", "create", &shapes[0], WK_BF16) == 0);
    CHECK(runs_with("FAKE_CUDNN_FAULT", "engines", &shapes[0], WK_BF16) == 0);
    CHECK(runs_with("FAKE_CUDNN_FAULT", "plan", &shapes[0], WK_BF16) == 0);
    CHECK(runs_with("FAKE_CUDNN_VERSION", "91001", &shapes[0], WK_BF16) == 0);
    CHECK(runs_with("FAKE_CUDNN_VERSION", "91400", &shapes[0], WK_BF16) == 1);
}

/* Memory that a plan did not lay out, and a shape that was not prepared. */
static void addresses_between_elements(void)
{
    struct stage stage = stage_new(ATTENTION_AUTO);
    struct scene *ours = scene_new(&shapes[0], WK_BF16), *theirs = scene_new(&shapes[0], WK_BF16);
    long before = runs();
    scene_run(ours, stage.queue, 4);
    scene_run_host(theirs);
    expect_near(ours, theirs, WK_BF16);
    CHECK(runs() == before);
    scene_free(ours);
    scene_free(theirs);
    stage_free(&stage);
}

/* A device without a GPU, as estimates have it, asks for what a GPU's asks for, and at most 1 KiB
 * more. */
static void memory_is_planned_without_a_gpu(void)
{
    struct stage stage = stage_new(ATTENTION_AUTO);
    struct device *planned = NULL;
    CHECK(!cuda_plan_device_new(cuda_device_of(stage.device)->arch, &planned, NULL));
    for (int i = 0; i < 2 * SHAPES; i++) {
        struct scene *scene = scene_new(&shapes[i / 2], WK_BF16);
        size_t there = scene_scratch(scene, stage.device, i % 2);
        size_t here = scene_scratch(scene, planned, i % 2);
        CHECK(here >= there && here <= there + 1024);
        scene_free(scene);
    }
    struct scene *scene = scene_new(&shapes[0], WK_F32);
    CHECK(scene_scratch(scene, planned, true) == scene_scratch(scene, stage.device, true));
    scene_free(scene);
    device_free(planned);
    stage_free(&stage);
}

static void about_is(enum attention_choice choice, const char *text)
{
    char about[ATTENTION_ABOUT_BYTES];
    struct stage stage = stage_new(choice);
    attention_cudnn_about(cuda_device_of(stage.device), about);
    if (!strstr(about, text))
        fprintf(stderr, "%s\n", about);
    CHECK(strstr(about, text));
    stage_free(&stage);
}

static void what_is_used_is_told(void)
{
    about_is(ATTENTION_AUTO, "attention by cuDNN 9.19.0");
    about_is(ATTENTION_OWN, "own attention: the setting is own");
    CHECK(!setenv("FAKE_CUDNN_VERSION", "91001", 1));
    about_is(ATTENTION_AUTO, "cuDNN 9.10.1 is known to compute attention's gradients wrongly");
    CHECK(!setenv("FAKE_CUDNN_VERSION", "90800", 1));
    about_is(ATTENTION_CUDNN, "cuDNN 9.8.0 cannot be used for attention: it takes 9.10.2 or later");
    CHECK(!unsetenv("FAKE_CUDNN_VERSION"));
    CHECK(!setenv("MUSTER_CUDNN", "/nowhere.so", 1));
    about_is(ATTENTION_AUTO, "own attention: no cuDNN for attention (/nowhere.so: ");
    CHECK(!setenv("MUSTER_CUDNN", FAKE_CUDNN, 1));
}

static void chosen_is(const struct scene_shape *shape, enum wk_dtype type, const char *fault,
                      const char *wanted)
{
    char text[DEVICE_CHOSEN_BYTES];
    if (fault)
        CHECK(!setenv("FAKE_CUDNN_FAULT", fault, 1));
    struct stage stage = stage_new(ATTENTION_AUTO);
    struct scene *scene = scene_new(shape, type);
    (void)scene_scratch(scene, stage.device, true);
    scene_chosen(scene, stage.device, true, text);
    if (strcmp(text, wanted) != 0)
        fprintf(stderr, "\"%s\", not \"%s\"\n", text, wanted);
    CHECK(!strcmp(text, wanted));
    scene_free(scene);
    stage_free(&stage);
    if (fault)
        CHECK(!unsetenv("FAKE_CUDNN_FAULT"));
}

static void reasons_of_a_call_are_told(void)
{
    struct scene_shape odd = shapes[0];
    odd.size = 12;
    chosen_is(&shapes[0], WK_BF16, NULL,
              "attention of 3 heads of 8 in bf16, backward: cuDNN 9.19.0");
    chosen_is(&odd, WK_F16, NULL,
              "attention of 3 heads of 12 in f16, backward: own kernels by tensor cores, as the "
              "size of its heads is no multiple of 8");
    chosen_is(&shapes[0], WK_F32, NULL,
              "attention of 3 heads of 8 in f32, backward: own kernels, as the type is f32");
    chosen_is(&shapes[0], WK_BF16, "create",
              "attention of 3 heads of 8 in bf16, backward: own kernels by tensor cores, as cuDNN "
              "gives no handle");
    chosen_is(&shapes[0], WK_BF16, "engines",
              "attention of 3 heads of 8 in bf16, backward: own kernels by tensor cores, as cuDNN "
              "refuses proposals of engines: CUDNN_STATUS");
}

static void plans_are_counted_as_kernels(void)
{
    struct wk_model *model = NULL;
    struct wk_gpt_config gpt = {1, 2, 64, COUNTS_LENGTH, COUNTS_VOCAB};
    CHECK(wk_gpt_new(&gpt, &model) == 0);
    long before = runs();
    counts_are_measured(model, WK_BF16, ATTENTION_AUTO);
    CHECK(runs() == before + 2);
}

static void a_run_that_fails_is_the_devices_failure(void)
{
    struct error err = {0};
    struct stage stage = stage_new(ATTENTION_AUTO);
    struct cudnn_attention key = {.samples = 1, .heads = 1, .kv_heads = 1, .length = 8, .size = 8};
    void *memory[ROLES] = {NULL};
    key.row = key.out_row = 8;
    key.sample = key.out_sample = 64;
    key.type = WK_BF16;
    key.scale = 1;
    const struct cudnn_graph *plan = cudnn_plan_prepare(cuda_device_of(stage.device), &key);
    CHECK(plan && cudnn_plan_find(cuda_device_of(stage.device), &key) == plan);
    key.length = 16;
    CHECK(!cudnn_plan_find(cuda_device_of(stage.device), &key));
    CHECK(!setenv("FAKE_CUDNN_FAULT", "run", 1));
    cudnn_plan_run(cuda_queue_of(stage.queue), plan, memory, NULL);
    CHECK(!unsetenv("FAKE_CUDNN_FAULT"));
    CHECK(device_failure(stage.device, &err) == WK_EIO);
    CHECK(strstr(err.text, "cuDNN's attention fails: CUDNN_STATUS_EXECUTION_FAILED"));
    stage_free(&stage);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(graphs_are_attention),
        CHECK_CASE(large_scores),
        CHECK_CASE(sums_without_an_order),
        CHECK_CASE(own_and_cudnn_agree_on_what_is_kept),
        CHECK_CASE(own_kernels_take_the_rest),
        CHECK_CASE(addresses_between_elements),
        CHECK_CASE(memory_is_planned_without_a_gpu),
        CHECK_CASE(what_is_used_is_told),
        CHECK_CASE(reasons_of_a_call_are_told),
        CHECK_CASE(plans_are_counted_as_kernels),
        CHECK_CASE(a_run_that_fails_is_the_devices_failure),
        {NULL, NULL},
    };
    CHECK(!setenv("MUSTER_CUDNN", FAKE_CUDNN, 1));
    return check_all(cases, argc, argv);
}
