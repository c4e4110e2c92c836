#include "libworker/comm/reduce.h"

#include <string.h>

#include "libworker/precision/half.h"

/* Data from a wire may be at any address. */
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

/* Wide registers where the machine has them. They execute the same IEEE operations, so the bits are
 * equal. Not with sanitizers: their runtimes are not ready when the loader picks a clone. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&      \
    !defined(__clang__)
#define WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define WIDE
#endif

/* The first NaN stays; a NaN on the right is chosen because both comparisons are false. */
#define LARGER(a, b)  ((a) > (b) || (a) != (a) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))

/* One step of a reduction over n elements: its inputs, its one or two outputs, and a factor for
 * float sums. */
struct pass {
    const void *left, *right;
    void *dst, *also; /* `also` may be NULL */
    double factor;
};

/* The second output belongs to another rank, so its lines are at another core. They are
 * requested ahead, for reading (a request to write needs twice the time). Never beyond the end:
 * those lines belong to what that rank is working on. */
enum { LINE_BYTES = 64, AHEAD_LINES = 32 };

/* The functions that the next two macros define:
 *
 *     sum_f32     sum_f64     sum_u32     sum_u64     sum_u8
 *     max_f32     max_f64     max_i32     max_i64     max_u8
 *     min_f32     min_f64     min_i32     min_i64     min_u8
 *     divide_f32  divide_f64  divide_i32  divide_i64  divide_u8
 *
 * A type's name takes no parentheses: NOLINTBEGIN(bugprone-macro-parentheses) */
#define PASS(name, type, value)                                                                    \
    WIDE static void name##_##type(const struct pass *pass, size_t count)                          \
    {                                                                                              \
        enum { LINE = LINE_BYTES / sizeof(type), AHEAD = AHEAD_LINES * LINE };                     \
        const type *a = pass->left, *b = pass->right;                                              \
        type *out = pass->dst, *also = pass->also;                                                 \
        const type factor = (type)pass->factor;                                                    \
        (void)factor;                                                                              \
        size_t n = LINE, lines = also ? count / LINE : 0;                                          \
        for (size_t line = 0; line < lines; line++) {                                              \
            type values[LINE];                                                                     \
            __builtin_prefetch(also + (line + AHEAD_LINES < lines ? AHEAD : 0));                   \
            EACH values[i] = (value);                                                              \
            memcpy(out, values, sizeof(values));                                                   \
            memcpy(also, values, sizeof(values));                                                  \
            a += LINE, b += LINE, out += LINE, also += LINE;                                       \
        }                                                                                          \
        n = count - lines * LINE;                                                                  \
        if (!also) {                                                                               \
            EACH out[i] = (value);                                                                 \
            return;                                                                                \
        }                                                                                          \
        EACH                                                                                       \
        {                                                                                          \
            const type v = (value);                                                                \
            out[i] = v;                                                                            \
            also[i] = v;                                                                           \
        }                                                                                          \
    }

#define EXTREMES_AND_DIVIDE(type)                                                                  \
    PASS(max, type, LARGER(a[i], b[i]))                                                            \
    PASS(min, type, SMALLER(a[i], b[i]))                                                           \
    WIDE static void divide_##type(void *values, int divisor, size_t n)                            \
    {                                                                                              \
        type *v = values;                                                                          \
        EACH v[i] = (type)(v[i] / divisor);                                                        \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

/* Integer sums go through the unsigned type: they wrap. */
PASS(sum, f32, (a[i] + b[i]) * factor)
PASS(sum, f64, (a[i] + b[i]) * factor)
PASS(sum, u32, a[i] + b[i])
PASS(sum, u64, a[i] + b[i])
PASS(sum, u8, (u8)(a[i] + b[i]))
EXTREMES_AND_DIVIDE(f32)
EXTREMES_AND_DIVIDE(f64)
EXTREMES_AND_DIVIDE(i32)
EXTREMES_AND_DIVIDE(i64)
EXTREMES_AND_DIVIDE(u8)

WIDE static void widen_f16(float *dst, const void *src, size_t n)
{
    const u16 *in = src;
    EACH dst[i] = f32_of_f16(in[i]);
}

WIDE static void widen_bf16(float *dst, const void *src, size_t n)
{
    const u16 *in = src;
    EACH dst[i] = f32_of_bf16(in[i]);
}

WIDE static void narrow_f16(void *dst, const float *src, size_t n)
{
    u16 *out = dst;
    EACH out[i] = f16_of_f32(src[i]);
}

WIDE static void narrow_bf16(void *dst, const float *src, size_t n)
{
    u16 *out = dst;
    EACH out[i] = bf16_of_f32(src[i]);
}

struct kernels {
    void (*combine[WK_MIN + 1])(const struct pass *pass, size_t n); /* by enum wk_op */
    void (*divide)(void *values, int divisor, size_t n);
    bool real;                                            /* its sums apply the factor */
    void (*widen)(float *dst, const void *src, size_t n); /* NULL: summed in its own type */
    void (*narrow)(void *dst, const float *src, size_t n);
};

#define OWN(sum, type) {sum, sum, max_##type, min_##type}, divide_##type
static const struct kernels kernels[] = {
    [WK_F32] = {OWN(sum_f32, f32), true},
    [WK_F64] = {OWN(sum_f64, f64), true},
    [WK_F16] = {OWN(sum_f32, f32), true, widen_f16, narrow_f16},
    [WK_BF16] = {OWN(sum_f32, f32), true, widen_bf16, narrow_bf16},
    [WK_I32] = {OWN(sum_u32, i32), false},
    [WK_I64] = {OWN(sum_u64, i64), false},
    [WK_U8] = {OWN(sum_u8, u8), false},
};

/* Work left after all sources are summed. The last sum does as much of it as the same bits allow:
 * dividing by a power of two is multiplying by its inverse. */
struct rest {
    double factor;
    int divisor;  /* 0: none */
    double scale; /* 0: none */
};

static struct rest rest_of(const struct reduction *r)
{
    struct rest rest = {.factor = 1};
    bool folds = kernels[r->dtype].real && r->sources > 1;
    int divisor = r->divisor ? r->divisor : r->sources;
    if (r->open)
        return rest;
    if (r->op == WK_MEAN && folds && (divisor & (divisor - 1)) == 0)
        rest.factor = 1.0 / divisor;
    else if (r->op == WK_MEAN)
        rest.divisor = divisor;
    if (r->finish.active && r->finish.scale != 0 && r->finish.scale != 1)
        rest.scale = r->finish.scale;
    if (rest.scale != 0 && r->op == WK_SUM && folds) {
        rest.factor = rest.scale;
        rest.scale = 0;
    }
    return rest;
}

/* dst = all sources of the reduction, in a type that its kernels accept. With more than two the
 * running sum is kept apart, because `dst` may be a later source. */
static void combine(const struct reduction *r, const void *const *sources, struct pass last,
                    size_t n)
{
    const struct kernels *k = &kernels[r->dtype];
    last.left = sources[0];
    for (int s = 1; s < r->sources - 1; s++) {
        struct pass pass = {last.left, sources[s], r->scratch, NULL, 1};
        k->combine[r->op](&pass, n);
        last.left = r->scratch;
    }
    if (r->sources > 1) {
        last.right = sources[r->sources - 1];
        k->combine[r->op](&last, n);
    } else if (last.dst != last.left) {
        memmove(last.dst, last.left, n * wk_dtype_bytes(r->dtype));
    }
}

/* Returns the address of the sums, in f32. */
static float *combine_widened(const struct reduction *r, const void *const *sources, double factor,
                              size_t n)
{
    const struct kernels *k = &kernels[r->dtype];
    float *sum = r->scratch, *next = sum + REDUCE_BLOCK;
    if (r->partial)
        memcpy(sum, sources[0], n * sizeof(*sum));
    else
        k->widen(sum, sources[0], n);
    for (int s = 1; s < r->sources; s++) {
        struct pass pass = {sum, next, sum, NULL, s == r->sources - 1 ? factor : 1};
        k->widen(next, sources[s], n);
        k->combine[r->op](&pass, n);
    }
    return sum;
}

/* The functions that this macro defines:
 *
 *     scale_f32      scale_f64      multiply by a factor
 *     lanes_f32      lanes_f64      add squares to the lanes of a tally, whole rows of lanes only
 *     nonfinite_f32  nonfinite_f64  true if one is infinite or NaN
 *     squares_f32    squares_f64    add squares to a tally
 *     tally_f32      tally_f64      all statistics that were asked for
 *
 * As above: NOLINTBEGIN(bugprone-macro-parentheses) */
#define FINISH(type, bits_type, exponent)                                                          \
    WIDE static void scale_##type(void *sums, double by, size_t n)                                 \
    {                                                                                              \
        type *values = sums;                                                                       \
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
    WIDE static bool nonfinite_##type(const type *values, size_t n)                                \
    {                                                                                              \
        const bits_type *bits = (const bits_type *)(const void *)values;                           \
        bits_type found = 0;                                                                       \
        for (size_t i = 0; i < n; i++)                                                             \
            found |= (bits[i] & (exponent)) == (exponent);                                         \
        return found != 0;                                                                         \
    }                                                                                              \
    static void squares_##type(struct tally *tally, const type *values, size_t n)                  \
    {                                                                                              \
        size_t i = 0;                                                                              \
        for (; i < n && (tally->at + i) % TALLY_LANES != 0; i++)                                   \
            tally->lanes[(tally->at + i) % TALLY_LANES] += (double)values[i] * (double)values[i];  \
        size_t whole = (n - i) / TALLY_LANES * TALLY_LANES;                                        \
        lanes_##type(tally->lanes, values + i, whole);                                             \
        for (i += whole; i < n; i++)                                                               \
            tally->lanes[(tally->at + i) % TALLY_LANES] += (double)values[i] * (double)values[i];  \
        tally->at += n;                                                                            \
    }                                                                                              \
    static void tally_##type(const struct finish *finish, const type *values, size_t n)            \
    {                                                                                              \
        if (finish->nonfinite)                                                                     \
            finish->tally->nonfinite |= nonfinite_##type(values, n);                               \
        if (finish->squares)                                                                       \
            squares_##type(finish->tally, values, n);                                              \
    }

/* NOLINTEND(bugprone-macro-parentheses) */

typedef uint32_t __attribute__((aligned(1), may_alias)) b32;
typedef uint64_t __attribute__((aligned(1), may_alias)) b64;
FINISH(f32, b32, UINT32_C(0x7f800000))
FINISH(f64, b64, UINT64_C(0x7ff0000000000000))

/* Convert sums in f32, of whatever type, to results at `dst`. */
static void finish_f32(const struct reduction *r, const struct rest *rest, float *values, size_t n,
                       void *dst)
{
    const struct finish *finish = &r->finish;
    enum wk_dtype out = finish->active ? finish->out : r->dtype;
    if (rest->divisor)
        divide_f32(values, rest->divisor, n);
    if (rest->scale != 0)
        scale_f32((f32 *)values, rest->scale, n);
    if (finish->active && finish->tally)
        tally_f32(finish, (const f32 *)values, n);
    if (kernels[out].narrow)
        kernels[out].narrow(dst, values, n);
    else if (dst != values)
        memcpy(dst, values, n * sizeof(*values));
}

static void finish_own(const struct reduction *r, const struct rest *rest, void *values, size_t n)
{
    if (rest->divisor)
        kernels[r->dtype].divide(values, rest->divisor, n);
    if (rest->scale != 0)
        scale_f64(values, rest->scale, n);
    if (r->finish.active && r->finish.tally)
        tally_f64(&r->finish, values, n);
}

static size_t out_bytes(const struct reduction *r)
{
    return r->open ? reduce_partial_bytes(r->dtype)
                   : wk_dtype_bytes(r->finish.active ? r->finish.out : r->dtype);
}

static bool result_converts(const struct reduction *r)
{
    return r->finish.active && r->finish.out != r->dtype && !r->open;
}

/* True if no work is left after the last sum. */
static bool ends_with_sum(const struct reduction *r, const struct rest *rest)
{
    bool tallies = r->finish.active && r->finish.tally;
    return r->sources > 1 && !kernels[r->dtype].widen && !rest->divisor && rest->scale == 0 &&
           !tallies && !result_converts(r);
}

static void reduce_block(const struct reduction *r, const void *const *sources, void *dst,
                         void *also, size_t n)
{
    const struct rest rest = rest_of(r);
    if (kernels[r->dtype].widen) {
        float *sums = combine_widened(r, sources, rest.factor, n);
        if (r->open)
            memcpy(dst, sums, n * sizeof(*sums));
        else
            finish_f32(r, &rest, sums, n, dst);
    } else if (ends_with_sum(r, &rest)) {
        combine(r, sources, (struct pass){.dst = dst, .also = also, .factor = rest.factor}, n);
        return;
    } else {
        /* A converted result needs a place apart from its sums. */
        void *sums = result_converts(r) ? (char *)r->scratch + REDUCE_SCRATCH_BYTES / 2 : dst;
        combine(r, sources, (struct pass){.dst = sums, .factor = rest.factor}, n);
        if (r->dtype == WK_F32)
            finish_f32(r, &rest, sums, n, dst);
        else
            finish_own(r, &rest, sums, n);
    }
    if (also)
        memcpy(also, dst, n * out_bytes(r));
}

void reduce_to_both(const struct reduction *r, const void *const *sources, void *dst, void *also,
                    size_t count)
{
    const struct rest rest = rest_of(r);
    /* Two vectors that are only added need no space for intermediate results. */
    if (count <= REDUCE_BLOCK || (r->sources == 2 && ends_with_sum(r, &rest))) {
        if (count > 0)
            reduce_block(r, sources, dst, also, count);
        return;
    }
    size_t size = wk_dtype_bytes(r->dtype), out_size = out_bytes(r);
    size_t first_size = r->partial ? reduce_partial_bytes(r->dtype) : size;
    for (size_t at = 0; at < count; at += REDUCE_BLOCK) {
        size_t n = count - at < REDUCE_BLOCK ? count - at : REDUCE_BLOCK;
        const void *from[REDUCE_SOURCES_MAX];
        from[0] = (const char *)sources[0] + at * first_size;
        for (int s = 1; s < r->sources; s++)
            from[s] = (const char *)sources[s] + at * size;
        reduce_block(r, from, (char *)dst + at * out_size,
                     also ? (char *)also + at * out_size : NULL, n);
    }
}

void reduce(const struct reduction *reduction, const void *const *sources, void *dst, size_t count)
{
    reduce_to_both(reduction, sources, dst, NULL, count);
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
