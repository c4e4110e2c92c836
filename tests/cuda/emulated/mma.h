/* Products of small matrices by exchange in a warp: libworker/cuda/kernels/mma.h says where each
 * lane has its elements. C++.
 */
#ifndef EMULATED_MMA_H
#define EMULATED_MMA_H

#include "tests/cuda/emulated/warp.h"

inline float emulated_half_value(__nv_bfloat16 value)
{
    return __bfloat162float(value);
}
inline float emulated_half_value(__half value)
{
    return __half2float(value);
}

/* Element `i` of the two in a register. */
template <class T> inline float emulated_half_of(uint32_t pair, int i)
{
    T value;
    value.bits = (uint16_t)(pair >> (16 * i));
    return emulated_half_value(value);
}

struct emulated_factors {
    uint32_t a[4], b[2];
};

/* Products are exact in double, and so are their sums but for the last bits. D is rounded once, as
 * the order of the hardware is its own. */
template <class T>
inline void emulated_mma(float d[4], const uint32_t a[4], const uint32_t b[2], EMULATED_HERE)
{
    struct emulated_factors own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, left[4], right[2][4];
    emulated_exchange exchange({"mma.sync", file, line}, 0xffffffffu, own);
    int row = emulated_lane_number() / 4, pair = emulated_lane_number() % 4 * 2;
    for (int i = 0; i < 4; i++) {
        left[i] = exchange.of<struct emulated_factors>(row * 4 + i);
        right[0][i] = exchange.of<struct emulated_factors>(pair * 4 + i);
        right[1][i] = exchange.of<struct emulated_factors>((pair + 1) * 4 + i);
    }
    for (int i = 0; i < 4; i++) {
        double sum = (double)d[i];
        for (int k = 0; k < 16; k++) {
            const struct emulated_factors &x = left[k % 8 / 2], &y = right[i % 2][k % 8 / 2];
            sum += (double)emulated_half_of<T>(x.a[i / 2 + k / 8 * 2], k % 2) *
                   (double)emulated_half_of<T>(y.b[k / 8], k % 2);
        }
        d[i] = (float)sum;
    }
}

inline void emulated_load_matrices(uint32_t r[4], const void *row, bool turned, EMULATED_HERE)
{
    if ((uintptr_t)row % 16)
        emulated_fault("ldmatrix at %s:%d: a row at %p is not aligned to 16 bytes", file, line,
                       row);
    emulated_exchange exchange({"ldmatrix", file, line}, 0xffffffffu, row);
    int first = emulated_lane_number() / 4, pair = emulated_lane_number() % 4 * 2;
    for (int i = 0; i < 4; i++) {
        uint16_t value[2];
        for (int k = 0; k < 2; k++) {
            int at = turned ? pair + k : first, element = turned ? first : pair + k;
            value[k] = exchange.of<const uint16_t *>(i * 8 + at)[element];
        }
        r[i] = (uint32_t)value[1] << 16 | value[0];
    }
}

#endif
