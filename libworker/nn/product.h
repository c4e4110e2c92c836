/* Matrix products as the layers write them: c = a b, c += a b, with either factor turned, in float
 * or with factors rounded to bf16 or f16. Sums are in float always.
 */
#ifndef NN_PRODUCT_H
#define NN_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/kernel/kernel.h"

/* Buffers for products with rounded factors; one per model, none in float. */
struct low {
    enum wk_dtype type; /* WK_BF16 or WK_F16 */
    struct kernel_room *room;
    uint16_t *left, *right; /* room for the largest factors of a layer */
};

/* A layer's input in both passes: in float, or rounded once in bf16 or f16. One of the two; both
 * NULL means empty. */
struct operand {
    float *data;
    uint16_t *low;
};

/* A factor: rows are `stride` elements apart; `turned` uses its transpose. */
struct factor {
    const float *data;
    int64_t stride;
    bool turned;
    const uint16_t *low; /* the same rounded, with the same stride; where the result asks for it */
};

/* The result becomes keep * result + a b: keep 0 overwrites, 1 adds. */
struct result {
    float *data;
    int64_t stride;
    float keep;
    const struct low *low; /* NULL: in float */
};

/* c[m, n] from op(a)[m, k] and op(b)[k, n]; size is {m, n, k}. FLOP: 2 m n k. */
void product(const struct kernel_table *kernels, const int64_t size[3], struct factor a,
             struct factor b, struct result c);

/* x[count] rounded: as it is, or into `room`; NULL where `low` is. */
const uint16_t *rounded(const struct kernel_table *kernels, const struct low *low, uint16_t *room,
                        const struct operand *x, int64_t count);

/* The same of plain floats. */
const uint16_t *rounded_floats(const struct kernel_table *kernels, const struct low *low,
                               uint16_t *room, const float *x, int64_t count);

#endif
