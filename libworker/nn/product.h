/* Matrix products as the layers write them: c = a b, c += a b, with either factor turned. */
#ifndef NN_PRODUCT_H
#define NN_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/kernel/kernel.h"

/* A factor: rows are `stride` elements apart; `turned` uses its transpose. */
struct factor {
    const float *data;
    int64_t stride;
    bool turned;
};

/* The result becomes keep * result + a b: keep 0 overwrites, 1 adds. */
struct result {
    float *data;
    int64_t stride;
    float keep;
};

/* c[m, n] from op(a)[m, k] and op(b)[k, n]; size is {m, n, k}. FLOP: 2 m n k. */
void product(const struct kernel_table *kernels, const int64_t size[3], struct factor a,
             struct factor b, struct result c);

#endif
