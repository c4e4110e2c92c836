/* One element of an array of any type, on the host. Pure. */
#ifndef GRAPH_ELEMENT_H
#define GRAPH_ELEMENT_H

#include <stdint.h>

#include <worker/types.h>

#include "libworker/precision/half.h"

/* As a number. Whole numbers beyond 2^53 are rounded. */
static inline double element_value(const void *data, enum wk_dtype type, int64_t i)
{
    switch (type) {
    case WK_F32:
        return (double)((const float *)data)[i];
    case WK_F64:
        return ((const double *)data)[i];
    case WK_F16:
        return (double)f32_of_f16(((const uint16_t *)data)[i]);
    case WK_BF16:
        return (double)f32_of_bf16(((const uint16_t *)data)[i]);
    case WK_I32:
        return (double)((const int32_t *)data)[i];
    case WK_I64:
        return (double)((const int64_t *)data)[i];
    case WK_U8:
        return (double)((const uint8_t *)data)[i];
    case WK_BOOL:
        return ((const uint8_t *)data)[i] ? 1 : 0;
    }
    return 0;
}

/* Of an array of whole numbers. */
static inline int64_t element_whole(const void *data, enum wk_dtype type, int64_t i)
{
    if (type == WK_I64)
        return ((const int64_t *)data)[i];
    if (type == WK_U8)
        return ((const uint8_t *)data)[i];
    if (type == WK_BOOL)
        return ((const uint8_t *)data)[i] != 0;
    return ((const int32_t *)data)[i];
}

#endif
