/* What this machine's GPU can do at most, for ./dev gpu: a large product in bf16 by cuBLASLt on
 * numbers that are no zeros, and a copy within its memory. One JSON line each; the time is the
 * median of ROUNDS.
 *
 *     bench_gpu_roofs SIZE BYTES       the product is SIZE x SIZE x SIZE
 *
 *     {"roof": "gemm bf16", "size": 8192, "ms": 1.38, "tflops": 797.1}
 *     {"roof": "copy", "bytes": 2147483648, "ms": 1.43, "gb_per_s": 3003.0}
 *
 * A copy counts bytes read and written.
 */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/gpu/rounds.h"

enum { ROUNDS = 9, EACH = 4, PRODUCT_MAX = 32768 };
static const size_t WORKSPACE_BYTES = 32u << 20;

static void ends(const char *what, const char *why)
{
    fprintf(stderr, "bench_gpu_roofs: %s: %s\n", what, why);
    exit(1);
}

static void need(cudaError_t rc, const char *what)
{
    if (rc != cudaSuccess)
        ends(what, cudaGetErrorString(rc));
}

static void need_lt(cublasStatus_t rc, const char *what)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "cuBLASLt says %d", (int)rc);
    if (rc != CUBLAS_STATUS_SUCCESS)
        ends(what, text);
}

/* Work that is enqueued EACH times between two waits; the first round is not counted. */
static double median_ms(cudaStream_t stream, void (*enqueue)(cudaStream_t, void *), void *arg)
{
    double ms[ROUNDS] = {0};
    for (int round = -1; round < ROUNDS; round++) {
        need(cudaStreamSynchronize(stream), "a wait");
        double began = rounds_now_ms();
        for (int i = 0; i < EACH; i++)
            enqueue(stream, arg);
        need(cudaStreamSynchronize(stream), "a wait");
        if (round >= 0)
            ms[round] = (rounds_now_ms() - began) / EACH;
    }
    return rounds_median(ms, ROUNDS);
}

/* Between -1 and 1 in bf16, with bits of all values. */
static void *random_matrix(cudaStream_t stream, int64_t count, uint32_t seed)
{
    uint16_t *host = malloc((size_t)count * sizeof(*host));
    void *there = NULL;
    if (!host)
        ends("the factors", "no memory");
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        float x = (float)(int32_t)seed * 0x1p-31f;
        union {
            float value;
            uint32_t bits;
        } as = {.value = x};
        host[i] = (uint16_t)(as.bits >> 16);
    }
    need(cudaMalloc(&there, (size_t)count * sizeof(*host)), "memory of a factor");
    need(
        cudaMemcpyAsync(there, host, (size_t)count * sizeof(*host), cudaMemcpyHostToDevice, stream),
        "a factor");
    need(cudaStreamSynchronize(stream), "a factor");
    free(host);
    return there;
}

struct product {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t layout;
    cublasLtMatmulHeuristicResult_t plan;
    void *a, *b, *c, *workspace;
};

static void multiply(cudaStream_t stream, void *arg)
{
    const struct product *p = arg;
    const float one = 1, zero = 0;
    need_lt(cublasLtMatmul(p->handle, p->what, &one, p->a, p->layout, p->b, p->layout, &zero, p->c,
                           p->layout, p->c, p->layout, &p->plan.algo, p->workspace, WORKSPACE_BYTES,
                           stream),
            "a product");
}

static void product_roof(cudaStream_t stream, int64_t size)
{
    struct product p = {0};
    cublasLtMatmulPreference_t wish = NULL;
    uint64_t rows = (uint64_t)size;
    size_t bytes = WORKSPACE_BYTES;
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* as libworker's products */
    int found = 0;
    need_lt(cublasLtCreate(&p.handle), "cuBLASLt");
    need_lt(cublasLtMatmulDescCreate(&p.what, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
    need_lt(cublasLtMatrixLayoutCreate(&p.layout, CUDA_R_16BF, rows, rows, size), "a layout");
    need_lt(cublasLtMatmulPreferenceCreate(&wish), "a preference");
    need_lt(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                 &bytes, sizeof(bytes)),
            "a preference");
    need_lt(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                 &sums, sizeof(sums)),
            "a preference");
    need_lt(cublasLtMatmulAlgoGetHeuristic(p.handle, p.what, p.layout, p.layout, p.layout, p.layout,
                                           wish, 1, &p.plan, &found),
            "a plan");
    if (!found)
        ends("a plan", "there is none");
    p.a = random_matrix(stream, size * size, 1);
    p.b = random_matrix(stream, size * size, 2);
    p.c = random_matrix(stream, size * size, 3);
    need(cudaMalloc(&p.workspace, WORKSPACE_BYTES), "the workspace");
    double ms = median_ms(stream, multiply, &p);
    printf("{\"roof\": \"gemm bf16\", \"size\": %lld, \"ms\": %.4f, \"tflops\": %.4g}\n",
           (long long)size, ms, 2.0 * (double)size * (double)size * (double)size / ms * 1e-9);
    (void)fflush(stdout);
    void *const memory[] = {p.a, p.b, p.c, p.workspace};
    for (int i = 0; i < 4; i++)
        need(cudaFree(memory[i]), "memory");
    need_lt(cublasLtMatmulPreferenceDestroy(wish), "a preference");
    need_lt(cublasLtMatrixLayoutDestroy(p.layout), "a layout");
    need_lt(cublasLtMatmulDescDestroy(p.what), "a product");
    need_lt(cublasLtDestroy(p.handle), "cuBLASLt");
}

struct copy {
    void *to, *from;
    size_t bytes;
};

static void copy_all(cudaStream_t stream, void *arg)
{
    const struct copy *c = arg;
    need(cudaMemcpyAsync(c->to, c->from, c->bytes, cudaMemcpyDeviceToDevice, stream), "a copy");
}

static void copy_roof(cudaStream_t stream, size_t bytes)
{
    struct copy c = {.bytes = bytes};
    need(cudaMalloc(&c.to, bytes), "memory of a copy");
    need(cudaMalloc(&c.from, bytes), "memory of a copy");
    need(cudaMemsetAsync(c.from, 0x5a, bytes, stream), "a copy");
    need(cudaMemsetAsync(c.to, 0, bytes, stream), "a copy");
    double ms = median_ms(stream, copy_all, &c);
    printf("{\"roof\": \"copy\", \"bytes\": %zu, \"ms\": %.4f, \"gb_per_s\": %.5g}\n", bytes, ms,
           2 * (double)bytes / ms * 1e-6);
    (void)fflush(stdout);
    need(cudaFree(c.to), "memory");
    need(cudaFree(c.from), "memory");
}

int main(int argc, char **argv)
{
    long long size = argc == 3 ? strtoll(argv[1], NULL, 10) : 0;
    long long bytes = argc == 3 ? strtoll(argv[2], NULL, 10) : 0;
    cudaStream_t stream = NULL;
    if (size < 16 || size > PRODUCT_MAX || bytes < 1) {
        fprintf(stderr, "usage: bench_gpu_roofs SIZE BYTES, SIZE 16 to %d\n", PRODUCT_MAX);
        return 2;
    }
    need(cudaSetDevice(0), "GPU 0");
    need(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    copy_roof(stream, (size_t)bytes);
    product_roof(stream, size);
    need(cudaStreamDestroy(stream), "a stream");
    return 0;
}
