/* Matrix products of an operation: factors in call->compute, sums and results in float. A factor of
 * another type is converted once into scratch memory. */
#ifndef GRAPH_OP_FACTOR_H
#define GRAPH_OP_FACTOR_H

#include <stddef.h>
#include <stdint.h>

#include "libworker/graph/op.h"
#include "libworker/nn/product.h"

/* Scratch memory that op_factor needs for x: 0 if it has the type already. */
size_t op_factor_bytes(const struct op_call *call, const struct op_tensor *x);

/* The same for input `i`; 0 for one that the backward kernel does not read. */
size_t op_factor_input_bytes(const struct op_call *call, int i, bool backward);

/* x as rows of `stride` elements. *room moves past the part that is used. */
struct factor op_factor(const struct op_call *call, const struct op_tensor *x, int64_t stride,
                        uint8_t **room);

/* The same from element `offset` on. */
static inline struct factor factor_at(struct factor f, int64_t offset)
{
    if (f.data)
        f.data += offset;
    if (f.low)
        f.low += offset;
    return f;
}

/* The transpose. */
static inline struct factor factor_turned(struct factor f)
{
    f.turned = !f.turned;
    return f;
}

/* c[m, n] = c.keep * c + a[m, k] b[k, n]; size is {m, n, k}, each may be 0. c.low is set here. */
void op_product(const struct op_call *call, const int64_t size[3], struct factor a, struct factor b,
                struct result c);

#endif
