#include <worker/error.h>
#include <worker/precision.h>

#include "common/base/error.h"
#include "libworker/precision/float8.h"
#include "libworker/precision/half.h"
#include "libworker/precision/noise.h"

static const struct {
    size_t bytes;
    const char *name;
} formats[] = {
#define X(name, bytes, text) {bytes, text},
    WK_FORMAT_LIST(X)
#undef X
};

enum { FORMATS = sizeof(formats) / sizeof(*formats) };

size_t wk_format_bytes(enum wk_format format)
{
    return (unsigned)format < FORMATS ? formats[format].bytes : 0;
}

const char *wk_format_name(enum wk_format format)
{
    return (unsigned)format < FORMATS ? formats[format].name : "?";
}

static int refuse_format(enum wk_format format)
{
    struct error err = {0};
    (void)error_set(&err, WK_EINVAL, "%d is no format of numbers", (int)format);
    return error_keep(&err);
}

#define NARROW(type, convert)                                                                      \
    for (size_t i = 0; i < count; i++)                                                             \
    ((type *)out)[i] = convert(x[i])

int wk_narrow(void *out, enum wk_format format, const float *x, size_t count)
{
    switch (format) {
    case WK_FORMAT_F32:
        memcpy(out, x, count * sizeof(*x));
        return 0;
    case WK_FORMAT_F16:
        NARROW(uint16_t, f16_of_f32);
        return 0;
    case WK_FORMAT_BF16:
        NARROW(uint16_t, bf16_of_f32);
        return 0;
    case WK_FORMAT_E4M3:
        NARROW(uint8_t, e4m3_of_f32);
        return 0;
    case WK_FORMAT_E5M2:
        NARROW(uint8_t, e5m2_of_f32);
        return 0;
    }
    return refuse_format(format);
}

#define WIDEN(type, convert)                                                                       \
    for (size_t i = 0; i < count; i++)                                                             \
    out[i] = convert(((const type *)x)[i])

int wk_widen(float *out, enum wk_format format, const void *x, size_t count)
{
    switch (format) {
    case WK_FORMAT_F32:
        memcpy(out, x, count * sizeof(*out));
        return 0;
    case WK_FORMAT_F16:
        WIDEN(uint16_t, f32_of_f16);
        return 0;
    case WK_FORMAT_BF16:
        WIDEN(uint16_t, f32_of_bf16);
        return 0;
    case WK_FORMAT_E4M3:
        WIDEN(uint8_t, f32_of_e4m3);
        return 0;
    case WK_FORMAT_E5M2:
        WIDEN(uint8_t, f32_of_e5m2);
        return 0;
    }
    return refuse_format(format);
}

void wk_narrow_stochastic(uint16_t *out, const float *x, size_t count, uint64_t seed,
                          uint64_t first)
{
    uint64_t key = noise_key(seed);
    for (size_t i = 0; i < count; i++)
        out[i] = bf16_of_f32_stochastic(x[i], noise_bits(key, first + i));
}
