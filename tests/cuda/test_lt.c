/* Products by cuBLASLt (cuda/lt.h) over its fake, against loops in double: types, turned factors,
 * strides, batches, addends, biases, factors in device memory, memory of any alignment; plans that
 * are kept; what is refused, and with which sentence. */
#include "libworker/cuda/lt.h"

#include <math.h>
#include <stdlib.h>

#include "libworker/precision/half.h"
#include "tests/cuda/fake/gpu.h"
#include "tests/lib/check.h"
#include "tests/lib/rounding.h"

enum { ROOM = 1 << 16, GAP = 3 };

/* A GPU with memory for the matrices of one product. */
struct bench {
    struct device *device;
    struct queue *queue;
    char *a, *b, *c, *d, *bias, *workspace;
    float *factors;
};

static char *memory_of(struct device *device)
{
    void *memory = NULL;
    CHECK(!device_memory_new(device, ROOM, &memory, NULL));
    return memory;
}

static struct bench bench_new(uint64_t seed)
{
    struct fake_options options = gpu_options(seed);
    struct bench b = {.device = gpu_new(&options)};
    CHECK(!queue_new(b.device, &b.queue, NULL));
    char **all[] = {&b.a, &b.b, &b.c, &b.d, &b.bias, &b.workspace};
    for (int i = 0; i < 6; i++)
        *all[i] = memory_of(b.device);
    b.factors = (float *)(void *)memory_of(b.device);
    return b;
}

static void bench_free(struct bench *b)
{
    char *all[] = {b->a, b->b, b->c, b->d, b->bias, b->workspace, (char *)b->factors};
    (void)queue_finish(b->queue, NULL);
    for (int i = 0; i < 7; i++)
        device_memory_free(b->device, all[i], ROOM);
    queue_free(b->queue);
    device_free(b->device);
}

static size_t bytes_of(enum wk_dtype type)
{
    return type == WK_F32 ? sizeof(float) : sizeof(uint16_t);
}

static double value_at(const void *x, enum wk_dtype type, int64_t i)
{
    if (type == WK_F32)
        return (double)((const float *)x)[i];
    uint16_t half = ((const uint16_t *)x)[i];
    return (double)(type == WK_BF16 ? f32_of_bf16(half) : f32_of_f16(half));
}

static void value_put(void *x, enum wk_dtype type, int64_t i, float value)
{
    if (type == WK_F32)
        ((float *)x)[i] = value;
    else
        ((uint16_t *)x)[i] = type == WK_BF16 ? bf16_of_f32(value) : f16_of_f32(value);
}

/* Numbers of about 1 in the host's memory and at `there`. */
static void *numbers_new(struct bench *b, void *there, enum wk_dtype type)
{
    static unsigned random = 1;
    size_t count = ROOM / 2 / bytes_of(type);
    void *x = malloc(ROOM / 2);
    CHECK(x);
    for (size_t i = 0; i < count; i++) {
        random = random * 1664525u + 1013904223u;
        value_put(x, type, (int64_t)i, (float)(random >> 8) / 0x1p23f - 1);
    }
    CHECK(!queue_write(b->queue, there, x, ROOM / 2, NULL));
    return x;
}

struct shape {
    int64_t m, n, k, batch;
    bool turn_a, turn_b, has_bias, adds, other_c, factors_there, bends;
    int gap, shift; /* elements after each row, and before the first */
    enum wk_dtype type, result;
};

static struct lt_product product_of(const struct bench *b, const struct shape *s)
{
    int64_t a_cols = (s->turn_a ? s->m : s->k) + s->gap,
            b_cols = (s->turn_b ? s->k : s->n) + s->gap;
    int64_t a_rows = s->turn_a ? s->k : s->m, b_rows = s->turn_b ? s->n : s->k;
    size_t in = (size_t)s->shift * bytes_of(s->type), out = (size_t)s->shift * bytes_of(s->result);
    struct lt_product p = {
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .batch = s->batch,
        .type = s->type,
        .result = s->result,
        .a = {b->a + in, a_cols, a_rows * a_cols, s->turn_a},
        .b = {b->b + in, b_cols, b_rows * b_cols, s->turn_b},
        .d = b->d + out,
        .d_stride = s->n + s->gap,
        .d_each = s->m * (s->n + s->gap),
        .bias = s->has_bias ? b->bias + out : NULL,
        .alpha = 0.5f,
        .beta = s->adds ? 2 : 0,
        .factors_there = s->factors_there ? b->factors : NULL,
        .slopes_at = s->bends ? b->bias : NULL,
        .slopes_stride = (s->n + LT_SLOPES_STEP - 1) / LT_SLOPES_STEP * LT_SLOPES_STEP,
    };
    if (s->other_c)
        p.c = (struct lt_matrix){b->c + out, p.d_stride, p.d_each, false};
    return p;
}

/* Of x / 2 (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3), by the quotient of a difference: its
 * error is h^2 times the third derivative, which is below 2, and rounding by h. */
static double slope_at(double x)
{
    const double h = 1e-5, root = 0.79788456080286535588;
    double values[2];
    for (int i = 0; i < 2; i++) {
        double at = x + (i ? h : -h);
        values[i] = at / 2 * (1 + tanh(root * (at + 0.044715 * at * at * at)));
    }
    return (values[1] - values[0]) / (2 * h);
}

static int64_t place_in(const struct lt_matrix *x, int64_t batch, int64_t row, int64_t col)
{
    return batch * x->each + (x->turned ? col * x->stride + row : row * x->stride + col);
}

/* Elements that the product has, and those between rows that it has not. */
static void product_check(struct bench *bench, const struct shape *s)
{
    struct lt_product p = product_of(bench, s);
    const float factors[2] = {0.5f, s->adds ? 2 : 0};
    void *a = numbers_new(bench, (void *)(uintptr_t)p.a.at, s->type);
    void *b = numbers_new(bench, (void *)(uintptr_t)p.b.at, s->type);
    void *c = numbers_new(bench, bench->c, s->result), *d = numbers_new(bench, p.d, s->result);
    void *bias = numbers_new(bench, bench->bias, s->result), *got = malloc(ROOM / 2);
    CHECK(got && !queue_write(bench->queue, bench->factors, factors, sizeof(factors), NULL));
    lt_product(bench->queue ? cuda_queue_of(bench->queue) : NULL, &p, bench->workspace, ROOM);
    struct error err = {0};
    if (queue_finish(bench->queue, &err))
        fprintf(stderr, "%s\n", err.text);
    CHECK(!queue_read(bench->queue, got, p.d, ROOM / 2, NULL));
    double unit = s->result == WK_F32 ? 0 : s->result == WK_BF16 ? ROUNDING_BF16 : ROUNDING_F16;
    for (int64_t at = 0; at < s->batch * p.d_each; at++) {
        int64_t batch = at / p.d_each, row = at % p.d_each / p.d_stride, col = at % p.d_stride;
        int64_t c_at = at + (s->other_c ? s->shift : 0);
        double before = value_at(s->other_c ? c : d, s->result, s->other_c ? c_at : at), sum = 0;
        for (int64_t k = 0; k < s->k && col < s->n; k++)
            sum += value_at(a, s->type, place_in(&p.a, batch, row, k)) *
                   value_at(b, s->type, place_in(&p.b, batch, k, col));
        double expected = 0.5 * sum + (s->adds ? 2 * before : 0);
        expected += s->has_bias && col < s->n ? value_at(bias, s->result, col + s->shift) : 0;
        if (s->bends && col < s->n)
            expected *= slope_at(value_at(bias, s->result, row * p.slopes_stride + col));
        expected = col < s->n ? expected : value_at(d, s->result, at);
        double most = rounding_bound((double)s->k + 3) * (double)(s->k + 3) + unit * fabs(expected);
        CHECK(fabs(value_at(got, s->result, at) - expected) <= most);
    }
    free(a);
    free(b);
    free(c);
    free(d);
    free(bias);
    free(got);
}

static const enum wk_dtype types[][2] = {
    {WK_F32, WK_F32}, {WK_BF16, WK_F32}, {WK_BF16, WK_BF16}, {WK_F16, WK_F32}, {WK_F16, WK_F16}};

static void every_type_and_turn(void)
{
    struct bench b = bench_new(1);
    for (int i = 0; i < 5 * 64; i++) {
        struct shape s = {
            .m = 5,
            .n = 7,
            .k = 11,
            .batch = i & 32 ? 3 : 1,
            .turn_a = i & 1,
            .turn_b = i & 2,
            .has_bias = i & 4,
            .adds = i & 8,
            .other_c = i & 16,
            .gap = i % 3 ? GAP : 0,
            .type = types[i / 64][0],
            .result = types[i / 64][1],
        };
        product_check(&b, &s);
    }
    bench_free(&b);
}

/* Results are multiplied by slopes of GELU, at rows that are longer than the result's or not. */
static void slopes_of_gelu(void)
{
    struct bench b = bench_new(6);
    for (int i = 0; i < 5 * 4; i++) {
        struct shape s = {.m = 5, .n = i & 1 ? 8 : 13, .k = 11, .batch = 1, .bends = true};
        s.adds = i & 2;
        s.type = types[i / 4][0];
        s.result = types[i / 4][1];
        product_check(&b, &s);
    }
    bench_free(&b);
}

static void memory_of_any_alignment(void)
{
    struct bench b = bench_new(2);
    for (int i = 0; i < 5 * 9; i++) {
        struct shape s = {.m = 3, .n = 8, .k = 16, .batch = 1, .has_bias = i & 1, .adds = i & 2};
        s.shift = i % 9;
        s.type = types[i / 9][0];
        s.result = types[i / 9][1];
        product_check(&b, &s);
    }
    bench_free(&b);
}

static void factors_in_device_memory(void)
{
    struct bench b = bench_new(3);
    for (int i = 0; i < 4; i++) {
        struct shape s = {.m = 4, .n = 6, .k = 8, .batch = 1, .factors_there = true};
        s.adds = i & 1;
        s.other_c = i & 2;
        product_check(&b, &s);
    }
    bench_free(&b);
}

/* A shape has one plan, however often it comes, and a new one where anything differs. */
static void plans_are_kept(void)
{
    struct bench b = bench_new(4);
    const struct cuda_device *device = cuda_device_of(b.device);
    struct shape s = {.m = 2, .n = 2, .k = 2, .batch = 1};
    CHECK(lt_plans(device) == 0);
    for (int i = 0; i < 3; i++)
        product_check(&b, &s);
    CHECK(lt_plans(device) == 1);
    s.shift = 1;
    product_check(&b, &s);
    CHECK(lt_plans(device) == 2);
    s.has_bias = true;
    product_check(&b, &s);
    CHECK(lt_plans(device) == 3);
    bench_free(&b);
}

/* More shapes than there are places: each is right, also when it comes again. */
static void plans_have_a_limit(void)
{
    struct bench b = bench_new(5);
    for (int i = 0; i < LT_PLANS_MAX + 40; i++) {
        struct shape s = {.m = 1 + i % 33, .n = 1 + i / 33, .k = 1, .batch = 1};
        product_check(&b, &s);
    }
    CHECK(lt_plans(cuda_device_of(b.device)) == LT_PLANS_MAX);
    for (int i = 0; i < 80; i++) {
        struct shape s = {.m = 1 + i % 33, .n = 1 + i / 33, .k = 1, .batch = 1};
        product_check(&b, &s);
        long asked = fake_plans_asked();
        product_check(&b, &s);
        CHECK(fake_plans_asked() == asked);
    }
    CHECK(lt_plans(cuda_device_of(b.device)) == LT_PLANS_MAX);
    bench_free(&b);
}

/* The device fails with these words, and does nothing more. */
static void expect_refused(const struct lt_product *product, size_t workspace_shift,
                           const char *words)
{
    struct bench b = bench_new(6);
    struct error err = {0};
    struct lt_product p = *product;
    p.a.at = b.a + (uintptr_t)p.a.at;
    p.b.at = b.b;
    p.d = b.d;
    lt_product(cuda_queue_of(b.queue), &p, b.workspace + workspace_shift, 8192);
    CHECK(queue_finish(b.queue, &err) < 0);
    if (!strstr(err.text, words))
        fprintf(stderr, "%s\n", err.text);
    CHECK(strstr(err.text, words));
    bench_free(&b);
}

static void what_is_refused_says_why(void)
{
    struct lt_product p = {.m = 4,
                           .n = 4,
                           .k = 4,
                           .batch = 1,
                           .a = {NULL, 4, 16, false},
                           .b = {NULL, 4, 16, false},
                           .d_stride = 4,
                           .d_each = 16,
                           .alpha = 1};
    struct lt_product large = p, short_rows = p, low = p, odd = p, bent = p;
    large.m = (int64_t)LT_SIZE_MAX + 1;
    expect_refused(&large, 0, "2147483648 rows, 4 columns and 4 terms, 1 times; each is at most");
    short_rows.a.stride = 3;
    expect_refused(&short_rows, 0, "refuses the product [4, 4] [4, 4] of f32 into f32, 1 times");
    low.type = WK_F16;
    low.result = WK_BF16;
    expect_refused(&low, 0, "of f16 into bf16, 1 times: not supported");
    odd.a.at = (const void *)2;
    expect_refused(&odd, 0, "not aligned to its elements");
    bent.slopes_at = (const void *)64;
    bent.slopes_stride = 12;
    expect_refused(&bent, 0, "slopes that are not to 16");
    expect_refused(&p, 16, "a workspace that is not to 256 bytes");
}

/* Only with the setting are factors rounded to TF32. */
static void tf32_is_a_setting(void)
{
    float x = 1 + 0x1p-20f, got[2] = {0};
    for (int i = 0; i < 2; i++) {
        struct bench b = bench_new(7);
        struct shape s = {.m = 1, .n = 1, .k = 1, .batch = 1};
        struct lt_product p = product_of(&b, &s);
        float one = 1;
        p.alpha = 1;
        CHECK(i == 0 || setenv(LT_TF32_VARIABLE, "1", 1) == 0);
        CHECK(!queue_write(b.queue, b.a, &x, sizeof(x), NULL));
        CHECK(!queue_write(b.queue, b.b, &one, sizeof(one), NULL));
        lt_product(cuda_queue_of(b.queue), &p, NULL, 0);
        CHECK(!queue_read(b.queue, &got[i], b.d, sizeof(got[i]), NULL));
        bench_free(&b);
    }
    CHECK(unsetenv(LT_TF32_VARIABLE) == 0);
    CHECK(got[0] == x && got[1] == 1);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(every_type_and_turn),
        CHECK_CASE(memory_of_any_alignment),
        CHECK_CASE(factors_in_device_memory),
        CHECK_CASE(plans_are_kept),
        CHECK_CASE(plans_have_a_limit),
        CHECK_CASE(what_is_refused_says_why),
        CHECK_CASE(tf32_is_a_setting),
        CHECK_CASE(slopes_of_gelu),
        {NULL, NULL},
    };
    return check_all(cases, argc, argv);
}
