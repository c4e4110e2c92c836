/* On a GPU: attention by cuDNN beside the module's own kernels, and the own ones beside the host's
 * row. What no test without a GPU knows are the numbers of cuDNN's results. The module is what
 * MUSTER_CUDA_MODULE names, or that of the build. Skipped where there is no GPU or no cuDNN; with
 * --whole, that ends the program, with status 77. */
#include <stdio.h>
#include <string.h>

#include "libworker/device/module.h"
#include "tests/cuda/attention_scene.h"
#include "tests/lib/check.h"
#include "tests/lib/rounding.h"

static bool whole;
static char why[MODULE_ABOUT_BYTES + sizeof(struct error)];

struct stage {
    struct device *device;
    struct queue *queue;
};

static void skip(void)
{
    check_skip(why);
    if (!whole)
        return;
    printf("SKIPPED: %s\n", why);
    exit(77);
}

static bool stage_new(const char *attention, struct stage *ret)
{
    struct error err = {0};
    const struct module_table *module = NULL;
    const char *path = getenv(MODULE_VARIABLE);
    int count = 0;
    int rc = module_open(path && *path ? path : BUILT_MODULE, &module, &err);
    if (!rc)
        rc = module->count(&count, &err);
    if (!rc)
        rc = module->device_new(0, &ret->device, &err);
    if (rc) {
        (void)snprintf(why, sizeof(why), "%s", err.text);
        skip();
        return false;
    }
    module->attention(ret->device, attention);
    module->about(ret->device, why);
    CHECK(!queue_new(ret->device, &ret->queue, NULL));
    return true;
}

static void stage_free(struct stage *stage)
{
    queue_free(stage->queue);
    device_free(stage->device);
}

static const struct scene_shape shapes[] = {
    {.samples = 2, .length = 256, .heads = 4, .kv_heads = 4, .size = 64},
    {.samples = 2, .length = 256, .heads = 4, .kv_heads = 4, .size = 64, .full = true},
    {.samples = 1, .length = 333, .heads = 8, .kv_heads = 2, .size = 128, .adds = true},
    {.samples = 2, .length = 77, .heads = 2, .kv_heads = 1, .size = 80, .full = true},
    {.samples = 1, .length = 512, .heads = 2, .kv_heads = 2, .size = 64, .scale = 0.3},
};
enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

static struct scene *ran(const char *attention, const struct scene_shape *shape, enum wk_dtype type)
{
    struct stage stage;
    if (!stage_new(attention, &stage))
        return NULL;
    struct scene *scene = scene_new(shape, type);
    scene_run(scene, stage.queue, 0);
    stage_free(&stage);
    return scene;
}

/* Each rounds probabilities and their gradients to the type, and results. */
static void expect_near(const struct scene *a, const struct scene *b, enum wk_dtype type,
                        const char *what)
{
    static const char *const names[] = {"out", "lse", "dqkv"};
    double unit = type == WK_BF16 ? ROUNDING_BF16 : ROUNDING_F16;
    for (int i = 0; i < SCENE_RESULTS; i++) {
        double off = scene_off(a, b, i), most = i == SCENE_LSE ? 1e-4 : 6 * unit;
        printf("%s, %s: %s differs by %.3g, bound %.3g\n", what, wk_dtype_name(type), names[i], off,
               most);
        CHECK(off <= most);
    }
}

static void beside_host(void)
{
    for (int i = 0; i < SHAPES; i++) {
        struct scene *own = ran("own", &shapes[i], WK_BF16);
        if (!own)
            return;
        struct scene *host = scene_new(&shapes[i], WK_BF16);
        scene_run_host(host);
        expect_near(own, host, WK_BF16, "own kernels beside the host's");
        scene_free(own);
        scene_free(host);
    }
}

static void cudnn_beside_own(const char *attention)
{
    static const enum wk_dtype types[] = {WK_BF16, WK_F16};
    for (int i = 0; i < 2 * SHAPES; i++) {
        struct scene *by_cudnn = ran(attention, &shapes[i / 2], types[i % 2]);
        if (!by_cudnn)
            return;
        printf("%s\n", why);
        if (!strstr(why, "attention by cuDNN")) {
            scene_free(by_cudnn);
            skip();
            return;
        }
        struct scene *own = ran("own", &shapes[i / 2], types[i % 2]);
        CHECK(own);
        expect_near(by_cudnn, own, types[i % 2], "cuDNN beside own kernels");
        scene_free(by_cudnn);
        scene_free(own);
    }
}

static void in_a_fixed_order(void)
{
    cudnn_beside_own("auto");
}

static void in_any_order(void)
{
    cudnn_beside_own("cudnn");
}

/* What `auto` promises. */
static void auto_repeats_its_bits(void)
{
    struct scene *first = ran("auto", &shapes[2], WK_BF16);
    for (int i = 0; first && i < 5; i++) {
        struct scene *again = ran("auto", &shapes[2], WK_BF16);
        for (int k = 0; k < SCENE_RESULTS; k++)
            CHECK(scene_off(again, first, k) == 0);
        scene_free(again);
    }
    if (first)
        scene_free(first);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(beside_host),
        CHECK_CASE(in_a_fixed_order),
        CHECK_CASE(in_any_order),
        CHECK_CASE(auto_repeats_its_bits),
        {NULL, NULL},
    };
    whole = argc > 1 && strcmp(argv[1], "--whole") == 0;
    return check_all(cases, whole ? 1 : argc, argv);
}
