/* Matrix products: c = a b, c += a b, with either factor turned, in float or with factors rounded
 * to bf16 or f16. Sums are in float always. */
#ifndef NN_PRODUCT_H
#define NN_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/kernel/kernel.h"

/* Products with rounded factors; one per model, none in float. */
struct low {
    enum wk_dtype type; /* WK_BF16 or WK_F16 */
    struct kernel_room *room;
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

#endif
