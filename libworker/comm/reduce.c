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
    if (r->sources == 1)
        memmove(dst, sources[0], n * wk_dtype_bytes(r->dtype));
    if (r->op == WK_MEAN)
        kernels[r->dtype].divide(dst, r->sources, n);
}

static void reduce_widened(const struct reduction *r, const void *const *sources, void *dst,
                           size_t n)
{
    const struct kernels *k = &kernels[r->dtype];
    float *sum = r->scratch, *next = sum + REDUCE_BLOCK;
    k->widen(sum, sources[0], n);
    for (int s = 1; s < r->sources; s++) {
        k->widen(next, sources[s], n);
        combine(r, sum, (const void *[]){sum, next}, n);
    }
    if (r->op == WK_MEAN)
        k->divide(sum, r->sources, n);
    k->narrow(dst, sum, n);
}

void reduce(const struct reduction *reduction, const void *const *sources, void *dst, size_t count)
{
    size_t size = wk_dtype_bytes(reduction->dtype);
    for (size_t at = 0; at < count; at += REDUCE_BLOCK) {
        size_t n = count - at < REDUCE_BLOCK ? count - at : REDUCE_BLOCK;
        const void *from[REDUCE_SOURCES_MAX];
        from[0] = (const char *)sources[0] + at * size;
        for (int s = 1; s < reduction->sources; s++)
            from[s] = (const char *)sources[s] + at * size;
        if (kernels[reduction->dtype].widen)
            reduce_widened(reduction, from, (char *)dst + at * size, n);
        else
            reduce_own(reduction, from, (char *)dst + at * size, n);
    }
}
