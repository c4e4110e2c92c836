/* Causal attention forward and backward, beside a large product of the same run; and of one query,
 * as in decoding.
 *
 * Usage: bench_attention LENGTH HEADS TYPE [query], with TYPE f32 or bf16. For every line on
 * standard input it takes both passes. It prints milliseconds of the thread's processor, the
 * scratch bytes of a call and GFLOP/s of a large product in float. Then it prints the sum of
 * squares and one element of out, dq, dk and dv. With `query` the last query alone looks at all
 * keys, several times, and only its out is printed. run.py compares them with a peer's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/alone.h"
#include "libworker/kernel/attention.h"
#include "libworker/kernel/kernel.h"
#include "libworker/nn/random.h"

enum { SIZE = 64, HEADS_MAX = 64, LENGTH_MAX = 1 << 20, SIDE = 1024, SAMPLE = 777 };
enum { QUERIES = 20, ELEMENT = 5 };

static const float UNIT_VARIANCE = 3.4641016f; /* of a uniform number from -0.5 to 0.5, times it */

struct bench {
    const struct kernel_table *kernels;
    struct kernel_attention a;
    struct attention_data data;
    size_t scratch_bytes, count; /* elements of one array */
    void *qkv, *dqkv, *out, *dout;
    float *product[3], *widened;
};

static size_t element_bytes(const struct bench *b)
{
    return b->a.type == WK_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Element i of numbers `stream`, [heads, length, size], at its place among rows of `row`. */
static void fill(const struct bench *b, void *to, uint64_t stream, int64_t row)
{
    for (size_t i = 0; i < b->count; i++) {
        int64_t head = (int64_t)i / (b->a.length * SIZE),
                position = (int64_t)i / SIZE % b->a.length;
        size_t at = (size_t)(position * row + head * SIZE) + i % SIZE;
        float value = ((float)random_uniform(stream, i) - 0.5f) * UNIT_VARIANCE;
        if (b->a.type == WK_F32)
            ((float *)to)[at] = value;
        else
            b->kernels->narrow((uint16_t *)to + at, b->a.type, &value, 1);
    }
}

/* Queries, keys and values side by side in a row, as a joined product leaves them. */
static int bench_init(struct bench *b)
{
    int64_t width = b->a.heads * SIZE, length = b->a.length;
    size_t bytes = element_bytes(b);
    b->count = (size_t)(length * width);
    b->a.q = b->a.k = b->a.v = (struct attention_stride){3 * width, length * 3 * width};
    b->a.out = (struct attention_stride){width, length * width};
    b->scratch_bytes = attention_scratch_bytes(&b->a, true);
    b->qkv = malloc(3 * b->count * bytes);
    b->dqkv = malloc(3 * b->count * bytes);
    b->out = malloc(b->count * bytes);
    b->dout = malloc(b->count * bytes);
    b->data.lse = malloc((size_t)(b->a.heads * length) * sizeof(float));
    b->data.scratch = malloc(b->scratch_bytes);
    b->widened = malloc(3 * b->count * sizeof(float));
    for (int i = 0; i < 3; i++)
        b->product[i] = malloc((size_t)SIDE * SIDE * sizeof(float));
    if (!b->qkv || !b->dqkv || !b->out || !b->dout || !b->data.lse || !b->data.scratch ||
        !b->widened || !b->product[0] || !b->product[1] || !b->product[2])
        return -1;
    for (size_t i = 0; i < (size_t)SIDE * SIDE; i++)
        b->product[0][i] = b->product[1][i] = (float)random_uniform(5, i);
    size_t step = (size_t)width * bytes;
    for (uint64_t i = 0; i < 3; i++)
        fill(b, (char *)b->qkv + i * step, i + 1, 3 * width);
    fill(b, b->dout, 4, width);
    b->data.q = b->qkv;
    b->data.k = (char *)b->qkv + step;
    b->data.v = (char *)b->qkv + 2 * step;
    b->data.dq = b->dqkv;
    b->data.dk = (char *)b->dqkv + step;
    b->data.dv = (char *)b->dqkv + 2 * step;
    b->data.out = b->out;
    b->data.dout = b->dout;
    return 0;
}

static void bench_fini(struct bench *b)
{
    void *all[] = {b->qkv,          b->dqkv,    b->out,        b->dout,       b->data.lse,
                   b->data.scratch, b->widened, b->product[0], b->product[1], b->product[2]};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        free(all[i]);
}

static double product_gflops(const struct bench *b)
{
    double start_s = alone_s();
    b->kernels->gemm(&(struct kernel_gemm){.m = SIDE,
                                           .n = SIDE,
                                           .k = SIDE,
                                           .alpha = 1,
                                           .a = b->product[0],
                                           .b = b->product[1],
                                           .c = b->product[2],
                                           .lda = SIDE,
                                           .ldb = SIDE,
                                           .ldc = SIDE});
    return 2.0 * SIDE * SIDE * SIDE / (alone_s() - start_s) * 1e-9;
}

/* An array's element of position `sample`, head 0, and its sum of squares. */
static void show(const struct bench *b, const void *x, int64_t row, int64_t sample)
{
    double squares = 0;
    size_t width = (size_t)(b->a.heads * SIZE);
    int64_t length = sample ? b->a.length : 1;
    for (int64_t i = 0; i < length; i++) {
        const char *at = (const char *)x + (size_t)(i * row) * element_bytes(b);
        if (b->a.type == WK_F32)
            memcpy(b->widened, at, width * sizeof(float));
        else
            b->kernels->widen(b->widened, b->a.type, (const uint16_t *)at, width);
        squares += b->kernels->sum_squares(b->widened, width);
        if (i == sample)
            printf(" %.9g", (double)b->widened[ELEMENT]);
    }
    printf(" %.9g", squares);
}

static void round_once(const struct bench *b)
{
    int64_t width = b->a.heads * SIZE;
    double start_s = alone_s();
    b->kernels->attention->forward(&b->a, &b->data);
    double middle_s = alone_s();
    b->kernels->attention->backward(&b->a, &b->data);
    double end_s = alone_s();
    printf("%.6f %.6f %zu %.3f", (middle_s - start_s) * 1e3, (end_s - middle_s) * 1e3,
           b->scratch_bytes, product_gflops(b));
    show(b, b->out, width, SAMPLE);
    show(b, b->data.dq, 3 * width, SAMPLE);
    show(b, b->data.dk, 3 * width, SAMPLE);
    show(b, b->data.dv, 3 * width, SAMPLE);
    printf("\n");
    (void)fflush(stdout);
}

/* One query, at the last position. */
static void query_once(const struct bench *b)
{
    int64_t width = b->a.heads * SIZE;
    struct kernel_attention a = b->a;
    struct attention_data data = b->data;
    a.keys = a.length;
    a.length = 1;
    data.q = (const char *)b->qkv + (size_t)(a.keys - 1) * (size_t)(3 * width) * element_bytes(b);
    double start_s = alone_s();
    for (int i = 0; i < QUERIES; i++)
        b->kernels->attention->forward(&a, &data);
    printf("%.6f 0 %zu 0", (alone_s() - start_s) * 1e3 / QUERIES,
           attention_scratch_bytes(&a, false));
    show(b, b->out, width, 0);
    printf("\n");
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    bool query = argc == 5 && strcmp(argv[4], "query") == 0;
    long length = argc == 4 || query ? strtol(argv[1], NULL, 10) : 0;
    long heads = argc == 4 || query ? strtol(argv[2], NULL, 10) : 0;
    if (length <= SAMPLE || length > LENGTH_MAX || heads < 1 || heads > HEADS_MAX ||
        (strcmp(argv[3], "f32") != 0 && strcmp(argv[3], "bf16") != 0)) {
        fprintf(stderr, "usage: bench_attention LENGTH HEADS f32|bf16 [query], LENGTH %d to %d\n",
                SAMPLE + 1, LENGTH_MAX);
        return 2;
    }
    enum wk_dtype type = strcmp(argv[3], "f32") == 0 ? WK_F32 : WK_BF16;
    struct bench b = {.kernels = kernel_cpu(),
                      .a = {.samples = 1,
                            .length = length,
                            .keys = length,
                            .heads = heads,
                            .kv_heads = heads,
                            .size = SIZE,
                            .type = type,
                            .grad_type = type,
                            .scale = 0.125f,
                            .causal = true,
                            .keep = 1}};
    char line[16];
    int rc = bench_init(&b);
    if (rc)
        fprintf(stderr, "bench_attention: no memory\n");
    while (!rc && fgets(line, sizeof(line), stdin)) {
        if (query)
            query_once(&b);
        else
            round_once(&b);
    }
    bench_fini(&b);
    return rc ? 1 : 0;
}
