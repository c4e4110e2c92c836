/* Number formats narrower than float: converting arrays, and the options of a loss scaler. Pure
 * functions on the caller's memory; any thread. */
#ifndef WORKER_PRECISION_H
#define WORKER_PRECISION_H

#include <stddef.h>
#include <stdint.h>

#include <worker/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, bytes of one element, name for people */
#define WK_FORMAT_LIST(X)                                                                          \
    X(F32, 4, "f32")                                                                               \
    X(F16, 2, "f16")                                                                               \
    X(BF16, 2, "bf16")                                                                             \
    X(E4M3, 1, "fp8_e4m3")                                                                         \
    X(E5M2, 1, "fp8_e5m2")

enum wk_format {
#define X(name, bytes, text) WK_FORMAT_##name,
    WK_FORMAT_LIST(X)
#undef X
};

/* Bytes of one element, and "bf16"; 0 and "?" for a number outside the enum. */
WK_API size_t wk_format_bytes(enum wk_format format);
WK_API const char *wk_format_name(enum wk_format format);

/* To and from float. Narrowing rounds to nearest even; the 8-bit formats saturate (OCP 8-bit
 * Floating Point Specification 1.0), f16 and bf16 go to infinity; NaN stays NaN. The arrays must
 * not overlap. WK_EINVAL for an unknown format.
 */
WK_API int wk_narrow(void *out, enum wk_format format, const float *x, size_t count);
WK_API int wk_widen(float *out, enum wk_format format, const void *x, size_t count);

/* Round to bf16 stochastically: up or down with a probability by distance, so that the mean is
 * exact (Gupta et al. 2015). Element i uses the random number at (seed, first + i), so the result
 * does not depend on how an array is cut. */
WK_API void wk_narrow_stochastic(uint16_t *out, const float *x, size_t count, uint64_t seed,
                                 uint64_t first);

/* Dynamic loss scaling for f16 (Micikevicius et al. 2018). A zeroed field gets the default. */
struct wk_scaler_options {
    double initial;   /* 65536 */
    double growth;    /* 2: after `interval` steps without overflow */
    double backoff;   /* 0.5: after an overflow */
    double least;     /* 2^-14: an overflow at or below it is an error */
    int64_t interval; /* 2000 */
};

#ifdef __cplusplus
}
#endif

#endif
