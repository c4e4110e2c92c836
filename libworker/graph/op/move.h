/* What operations that move elements have in common: any type is accepted, values become f32 at
 * build time. Pure. */
#ifndef OP_MOVE_H
#define OP_MOVE_H

#include "libworker/graph/op/axis.h"
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

/* The result's type: numbers that are no values keep theirs. */
static inline enum wk_dtype move_type(const struct wk_tensor *x)
{
    return rule_is_value(x) ? WK_F32 : x->type;
}

/* Elements before and after one dimension. */
static inline int64_t move_outer(const struct op_tensor *x, int dim)
{
    int64_t outer = 1;
    for (int i = 0; i < dim; i++)
        outer *= x->shape[i];
    return outer;
}

static inline int64_t move_inner(const struct op_tensor *x, int dim)
{
    int64_t inner = 1;
    for (int i = dim + 1; i < x->dims; i++)
        inner *= x->shape[i];
    return inner;
}

/* No arithmetic: only memory. */
static inline void move_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    cost_elements(call, backward, 0, ret);
}

#endif
