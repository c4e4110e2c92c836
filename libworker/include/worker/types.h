/* Types that several rooms of libworker share: element types, reductions, a batch. Plain data
 * without ownership; any thread. */
#ifndef WORKER_TYPES_H
#define WORKER_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include <worker/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, bytes of one element, name for people */
#define WK_DTYPE_LIST(X)                                                                           \
    X(F32, 4, "f32")                                                                               \
    X(F64, 8, "f64")                                                                               \
    X(F16, 2, "f16")                                                                               \
    X(BF16, 2, "bf16")                                                                             \
    X(I32, 4, "i32")                                                                               \
    X(I64, 8, "i64")                                                                               \
    X(U8, 1, "u8")

enum wk_dtype {
#define X(name, bytes, text) WK_##name,
    WK_DTYPE_LIST(X)
#undef X
};

/* MEAN divides the sum by the world; integers truncate toward zero. Integer sums wrap. MAX and MIN
 * are NaN if any rank's value is NaN. */
enum wk_op { WK_SUM, WK_MEAN, WK_MAX, WK_MIN };

/* Bytes of one element, and "f32"; 0 and "?" for a number outside the enum. */
WK_API size_t wk_dtype_bytes(enum wk_dtype dtype);
WK_API const char *wk_dtype_name(enum wk_dtype dtype);

/* One rank's share of a global batch: the samples that wk_split (pad false) assigns to this rank,
 * in order. The loader owns the arrays; they are valid until its next batch. */
struct wk_batch {
    const int32_t *tokens;  /* [samples, length] */
    const int32_t *targets; /* [samples, length] */
    int64_t samples;        /* of this rank; may be 0 */
    int64_t length;
    int64_t position;       /* global sample number of the global batch's first sample */
    int64_t global_samples; /* of all ranks together */
    /* Divisor of the summed loss; 0 = the number of targets that are not WK_IGNORED (worker/nn.h).
     * A loader sets it to the tokens of the global batch, or with accumulate_by_tokens to the mean
     * over the batches of its step. */
    double denominator;
};

#ifdef __cplusplus
}
#endif

#endif
