#include "libworker/comm/reduce.h"

#include <string.h>

#include "libworker/comm/half.h"

/* What arrives over a wire lies at any address. */
typedef float f32 __attribute__((aligned(1)));
typedef double f64 __attribute__((aligned(1)));
typedef uint16_t u16 __attribute__((aligned(1)));
typedef uint32_t u32 __attribute__((aligned(1)));
typedef uint64_t u64 __attribute__((aligned(1)));
typedef int32_t i32 __attribute__((aligned(1)));
typedef int64_t i64 __attribute__((aligned(1)));
typedef uint8_t u8;

/* dst may equal a source exactly: never overlap otherwise, so no iteration depends on another. */
#if defined(__clang__)
#define EACH _Pragma("clang loop vectorize(assume_safety)") for (size_t i = 0; i < n; i++)
#else
#define EACH _Pragma("GCC ivdep") for (size_t i = 0; i < n; i++)
#endif

/* Wide registers where the machine has them; the same IEEE operations, so the same bits. Sanitizer
 * runtimes are not up yet when the loader picks a clone. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&      \
    !defined(__clang__)
#define WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define WIDE
#endif

/* The first that is NaN stays; NaN on the right wins by failing both comparisons. */
#define LARGER(a, b)  ((a) > (b) || (a) != (a) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))

/* Integer sums go through the unsigned type: they wrap.
 * A type's name takes no parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
#define COMBINE(type, sum_type)                                                                    \
    WIDE static void sum_##type(void *dst, const void *left, const void *right, size_t n)          \
    {                                                                                              \
        const sum_type *a = left, *b = right;                                                      \
        sum_type *out = dst;                                                                       \
        EACH out[i] = (sum_type)(a[i] + b[i]);                                                     \
    }                                                                                              \
    WIDE static void max_##type(void *dst, const void *left, const void *right, size_t n)          \
    {                                                                                              \
        const type *a = left, *b = right;                                                          \
        type *out = dst;                                                                           \
        EACH out[i] = LARGER(a[i], b[i]);                                                          \
    }                                                                                              \
    WIDE static void min_##type(void *dst, const void *left, const void *right, size_t n)          \
    {                                                                                              \
        const type *a = left, *b = right;                                                          \
        type *out = dst;                                                                           \
        EACH out[i] = SMALLER(a[i], b[i]);                                                         \
    }                                                                                              \
    WIDE static void divide_##type(void *values, int divisor, size_t n)                            \
    {                                                                                              \
        type *v = values;                                                                          \
        EACH v[i] = (type)(v[i] / divisor);                                                        \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

COMBINE(f32, f32)
COMBINE(f64, f64)
COMBINE(i32, u32)
COMBINE(i64, u64)
COMBINE(u8, u8)

WIDE static void widen_f16(float *dst, const void *src, size_t n)
{
    const u16 *in = src;
    EACH dst[i] = f16_to_f32(in[i]);
}

WIDE static void widen_bf16(float *dst, const void *src, size_t n)
{
    const u16 *in = src;
    EACH dst[i] = bf16_to_f32(in[i]);
}

WIDE static void narrow_f16(void *dst, const float *src, size_t n)
{
    u16 *out = dst;
    EACH out[i] = f16_from_f32(src[i]);
}

WIDE static void narrow_bf16(void *dst, const float *src, size_t n)
{
    u16 *out = dst;
    EACH out[i] = bf16_from_f32(src[i]);
}

struct kernels {
    void (*sum)(void *dst, const void *left, const void *right, size_t n);
    void (*max)(void *dst, const void *left, const void *right, size_t n);
    void (*min)(void *dst, const void *left, const void *right, size_t n);
    void (*divide)(void *values, int divisor, size_t n);
    void (*widen)(float *dst, const void *src, size_t n); /* NULL: summed in its own type */
    void (*narrow)(void *dst, const float *src, size_t n);
};

#define OWN(type) sum_##type, max_##type, min_##type, divide_##type
static const struct kernels kernels[] = {
    [WK_F32] = {OWN(f32)},
    [WK_F64] = {OWN(f64)},
    [WK_F16] = {OWN(f32), widen_f16, narrow_f16},
    [WK_BF16] = {OWN(f32), widen_bf16, narrow_bf16},
    [WK_I32] = {OWN(i32)},
    [WK_I64] = {OWN(i64)},
    [WK_U8] = {OWN(u8)},
};

static void combine(const struct reduction *r, void *dst, const void *const pair[2], size_t n)
{
    const struct kernels *k = &kernels[r->dtype];
    switch (r->op) {
    case WK_SUM:
    case WK_MEAN:
        k->sum(dst, pair[0], pair[1], n);
        return;
    case WK_MAX:
        k->max(dst, pair[0], pair[1], n);
        return;
    case WK_MIN:
        k->min(dst, pair[0], pair[1], n);
        return;
    }
}

static void divide(const struct reduction *r, void *values, size_t n)
{
    if (r->op == WK_MEAN && !r->open)
        kernels[r->dtype].divide(values, r->divisor ? r->divisor : r->sources, n);
}

/* The running sum is kept apart when there are more than two sources: `dst` may be one that is
 * still to come. */
static void reduce_own(const struct reduction *r, const void *const *sources, void *dst, size_t n)
{
    const void *sum = sources[0];
    for (int s = 1; s < r->sources; s++) {
        void *to = s == r->sources - 1 ? dst : r->scratch;
        combine(r, to, (const void *[]){sum, sources[s]}, n);
        sum = to;
    }
    if (r->sources == 1 && dst != sources[0])
        memmove(dst, sources[0], n * wk_dtype_bytes(r->dtype));
    divide(r, dst, n);
}

/* Returns where the sums stand, in f32. */
static float *reduce_widened(const struct reduction *r, const void *const *sources, size_t n)
{
    const struct kernels *k = &kernels[r->dtype];
    float *sum = r->scratch, *next = sum + REDUCE_BLOCK;
    if (r->partial)
        memcpy(sum, sources[0], n * sizeof(*sum));
    else
        k->widen(sum, sources[0], n);
    for (int s = 1; s < r->sources; s++) {
        k->widen(next, sources[s], n);
        combine(r, sum, (const void *[]){sum, next}, n);
    }
    divide(r, sum, n);
    return sum;
}

/* As above: NOLINTBEGIN(bugprone-macro-parentheses) */
#define FINISH(type, bits_type, exponent)                                                          \
    WIDE static void scale_##type(type *values, double by, size_t n)                               \
    {                                                                                              \
        const type factor = (type)by;                                                              \
        EACH values[i] = values[i] * factor;                                                       \
    }                                                                                              \
    WIDE static void lanes_##type(double *lanes, const type *values, size_t n)                     \
    {                                                                                              \
        double sums[TALLY_LANES];                                                                  \
        memcpy(sums, lanes, sizeof(sums));                                                         \
        for (size_t at = 0; at < n; at += TALLY_LANES)                                             \
            for (size_t i = 0; i < TALLY_LANES; i++)                                               \
                sums[i] += (double)values[at + i] * (double)values[at + i];                        \
        memcpy(lanes, sums, sizeof(sums));                                                         \
    }                                                                                              \
    WIDE static bool wild_##type(const type *values, size_t n)                                     \
    {                                                                                              \
        const bits_type *bits = (const bits_type *)(const void *)values;                           \
        bits_type wild = 0;                                                                        \
        for (size_t i = 0; i < n; i++)                                                             \
            wild |= (bits[i] & (exponent)) == (exponent);                                          \
        return wild != 0;                                                                          \
    }                                                                                              \
    static void tally_##type(struct tally *tally, const type *values, size_t n)                    \
    {                                                                                              \
        size_t i = 0;                                                                              \
        tally->nonfinite |= wild_##type(values, n);                                                \
        for (; i < n && (tally->at + i) % TALLY_LANES != 0; i++)                                   \
            tally->lanes[(tally->at + i) % TALLY_LANES] += (double)values[i] * (double)values[i];  \
        size_t whole = (n - i) / TALLY_LANES * TALLY_LANES;                                        \
        lanes_##type(tally->lanes, values + i, whole);                                             \
        for (i += whole; i < n; i++)                                                               \
            tally->lanes[(tally->at + i) % TALLY_LANES] += (double)values[i] * (double)values[i];  \
        tally->at += n;                                                                            \
    }

/* NOLINTEND(bugprone-macro-parentheses) */

typedef uint32_t __attribute__((aligned(1), may_alias)) b32;
typedef uint64_t __attribute__((aligned(1), may_alias)) b64;
FINISH(f32, b32, UINT32_C(0x7f800000))
FINISH(f64, b64, UINT64_C(0x7ff0000000000000))

static void finish_f32(const struct finish *finish, float *values, void *dst, size_t n)
{
    if (finish->scale != 0 && finish->scale != 1)
        scale_f32(values, finish->scale, n);
    if (finish->tally)
        tally_f32(finish->tally, values, n);
    if (kernels[finish->out].narrow)
        kernels[finish->out].narrow(dst, values, n);
    else if (dst != values)
        memcpy(dst, values, n * sizeof(*values));
}

static void finish_f64(const struct finish *finish, double *values, size_t n)
{
    if (finish->scale != 0 && finish->scale != 1)
        scale_f64((f64 *)values, finish->scale, n);
    if (finish->tally)
        tally_f64(finish->tally, (const f64 *)values, n);
}

static void reduce_block(const struct reduction *r, const void *const *sources, void *dst, size_t n)
{
    const struct finish *finish = &r->finish;
    if (kernels[r->dtype].widen) {
        float *sum = reduce_widened(r, sources, n);
        if (r->open)
            memcpy(dst, sum, n * sizeof(*sum));
        else if (finish->active)
            finish_f32(finish, sum, dst, n);
        else
            kernels[r->dtype].narrow(dst, sum, n);
        return;
    }
    if (!finish->active || r->open) {
        reduce_own(r, sources, dst, n);
        return;
    }
    /* A converted result has other places than the sums. */
    void *sums = finish->out == r->dtype ? dst : (char *)r->scratch + REDUCE_SCRATCH_BYTES / 2;
    reduce_own(r, sources, sums, n);
    if (r->dtype == WK_F32)
        finish_f32(finish, sums, dst, n);
    else
        finish_f64(finish, sums, n);
}

void reduce(const struct reduction *reduction, const void *const *sources, void *dst, size_t count)
{
    const struct reduction *r = reduction;
    if (count <= REDUCE_BLOCK) {
        if (count > 0)
            reduce_block(r, sources, dst, count);
        return;
    }
    size_t size = wk_dtype_bytes(r->dtype);
    size_t first_size = r->partial ? reduce_partial_bytes(r->dtype) : size;
    size_t out_size = r->open ? reduce_partial_bytes(r->dtype)
                              : wk_dtype_bytes(r->finish.active ? r->finish.out : r->dtype);
    for (size_t at = 0; at < count; at += REDUCE_BLOCK) {
        size_t n = count - at < REDUCE_BLOCK ? count - at : REDUCE_BLOCK;
        const void *from[REDUCE_SOURCES_MAX];
        from[0] = (const char *)sources[0] + at * first_size;
        for (int s = 1; s < r->sources; s++)
            from[s] = (const char *)sources[s] + at * size;
        reduce_block(r, from, (char *)dst + at * out_size, n);
    }
}

size_t reduce_partial_bytes(enum wk_dtype dtype)
{
    return kernels[dtype].widen ? sizeof(float) : wk_dtype_bytes(dtype);
}

bool finish_valid(enum wk_dtype from, enum wk_dtype to)
{
    bool from_f32 = from == WK_F32 || from == WK_F16 || from == WK_BF16;
    bool to_f32 = to == WK_F32 || to == WK_F16 || to == WK_BF16;
    return (from_f32 && to_f32) || (from == WK_F64 && to == WK_F64);
}

double tally_squares(const struct tally *tally)
{
    double sum = 0;
    for (int i = 0; i < TALLY_LANES; i++)
        sum += tally->lanes[i];
    return sum;
}
