/* The real cuDNN makes plans of attention's graphs (cuda/cudnn_attention.h) for GPUs that are not
 * there: it takes their descriptions as JSON, and a driver without a device (fake/libcuda.c). So it
 * supports the graphs there, and its memory is what the rule says (cuda/attention_rule.h). The
 * numbers of its results are another matter: attention_gpu.c. Skipped where it is missing. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "libworker/cuda/attention_rule.h"
#include "libworker/cuda/cudnn_attention.h"
#include "tests/lib/check.h"

enum { DESCRIPTION_BYTES = 2048, ENGINE_BYTES = 1024 };

struct gpu {
    int arch, multiprocessors, shared_bytes, blocks, threads;
    int64_t cache_bytes, memory_bytes;
};

static const struct gpu gpus[] = {
    {80, 108, 166912, 32, 2048, 41943040, 85000000000},
    {90, 132, 232448, 32, 2048, 62914560, 150000000000},
    {100, 148, 232448, 32, 2048, 132644864, 190000000000},
};

static cudnnBackendDescriptor_t description_new(const struct cudnn_api *api, const struct gpu *gpu)
{
    char json[DESCRIPTION_BYTES];
    cudnnBackendDescriptor_t description = NULL;
    int n = snprintf(
        json, sizeof(json),
        "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
        "\"regsPerBlock\":65536,\"multiProcessorCount\":%d,\"warpSize\":32,"
        "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
        "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":%d,"
        "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%d,\"pciDeviceId\":0,\"isTccDriver\":0,"
        "\"supportCoopLaunch\":1,\"totalGlobalMem\":%lld,\"smClockRateKHz\":1900000,"
        "\"memClockRateKHz\":3200000,\"l2CacheSize\":%lld,\"cudaDeviceId\":0,\"deviceVer\":%d,"
        "\"driverVer\":13000,\"deviceName\":\"described\",\"cudnnVersion\":%d,"
        "\"schemaVersion\":1}",
        gpu->multiprocessors, gpu->shared_bytes, gpu->blocks, gpu->threads,
        (long long)gpu->memory_bytes, (long long)gpu->cache_bytes, 10 * gpu->arch, api->version);
    CHECK(n > 0 && n < DESCRIPTION_BYTES);
    if (api->BackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &description) ||
        api->BackendSetAttribute(description, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                 CUDNN_TYPE_CHAR, n + 1, json) ||
        api->BackendFinalize(description))
        return NULL;
    return description;
}

/* The driver goes first: cuDNN finds it by its name. */
static bool open_real(struct cudnn_api *ret)
{
    struct error err = {0};
    CHECK(dlopen(FAKE_LIBCUDA, RTLD_NOW | RTLD_GLOBAL));
    if (cudnn_api_open(ret, &err)) {
        static char why[sizeof(err.text)];
        memcpy(why, err.text, sizeof(why));
        check_skip(why);
        return false;
    }
    printf("cuDNN %d\n", ret->version);
    return true;
}

static struct attention_facts facts_of(const struct cudnn_attention *a, int arch, int version)
{
    return (struct attention_facts){
        .choice = ATTENTION_CUDNN,
        .cudnn = version,
        .arch = arch,
        .type = (enum wk_dtype)a->type,
        .samples = a->samples,
        .heads = a->heads,
        .kv_heads = a->kv_heads,
        .length = a->length,
        .size = a->size,
        .backward = a->backward,
    };
}

/* False: cuDNN refuses, although the rule says that it takes the shape, or the other way. */
static bool plans_as_ruled(const struct cudnn_api *api, cudnnBackendDescriptor_t description,
                           const struct cudnn_attention *a, int arch)
{
    struct error err = {0};
    const struct cudnn_target target = {.description = description};
    struct attention_facts facts = facts_of(a, arch, api->version);
    bool taken = !attention_rule(&facts).why_own;
    struct cudnn_graph *graph = cudnn_graph_new(api);
    CHECK(graph);
    cudnn_attention_build(graph, a);
    int rc = cudnn_graph_plan(graph, &target, &err);
    printf("sm_%d, %lld x %lld/%lld x %lld x %lld, %s: %d operations, %zu bytes %s\n", arch,
           (long long)a->samples, (long long)a->heads, (long long)a->kv_heads, (long long)a->length,
           (long long)a->size,
           !a->backward ? "forward"
           : a->repeats ? "backward in order"
                        : "backward",
           graph->n_ops, graph->workspace_bytes, err.text);
    if (!rc && a->repeats)
        CHECK(graph->workspace_bytes <= attention_workspace(&facts) + ENGINE_BYTES);
    cudnn_graph_free(graph);
    return !rc == taken;
}

/* GPT-2, groups of heads with an odd length, and sizes of heads at the limits; the first three
 * figures are samples, heads and heads of keys. */
static const int64_t shapes[][5] = {
    {64, 12, 12, 1024, 64}, {3, 6, 2, 77, 64}, {2, 4, 4, 256, 192}, {2, 2, 2, 256, 20}};
enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

static struct cudnn_attention key_of(const int64_t shape[5])
{
    int64_t width = (shape[1] + 2 * shape[2]) * shape[4], out = shape[1] * shape[4];
    return (struct cudnn_attention){
        .samples = shape[0],
        .heads = shape[1],
        .kv_heads = shape[2],
        .length = shape[3],
        .size = shape[4],
        .row = width,
        .sample = width * shape[3],
        .out_row = out,
        .out_sample = out * shape[3],
        .scale = 0.125f,
        .type = WK_BF16,
        .causal = true,
    };
}

static void plans_for(int i)
{
    struct cudnn_api api;
    if (!open_real(&api))
        return;
    cudnnBackendDescriptor_t description = description_new(&api, &gpus[i]);
    if (!description) {
        check_skip("this cuDNN takes no description of a GPU");
        return;
    }
    for (int k = 0; k < SHAPES; k++) {
        struct cudnn_attention key = key_of(shapes[k]);
        for (int pass = 0; pass < 3; pass++) {
            key.backward = pass > 0;
            key.repeats = pass == 2;
            bool ruled = plans_as_ruled(&api, description, &key, gpus[i].arch);
            if (!ruled && k + pass == 0) {
                check_skip("this cuDNN makes no plans without a GPU");
                return;
            }
            CHECK(ruled);
        }
    }
    (void)api.BackendDestroyDescriptor(description);
}

static void sm_80(void)
{
    plans_for(0);
}

static void sm_90(void)
{
    plans_for(1);
}

static void sm_100(void)
{
    plans_for(2);
}

/* cuDNN keeps what it compiled, in libraries that it has closed at the end. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(sm_80),
        CHECK_CASE(sm_90),
        CHECK_CASE(sm_100),
        {NULL, NULL},
    };
    return check_all(cases, argc, argv);
}
