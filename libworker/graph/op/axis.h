/* Checks of the dimension that an operation works along, with a sentence. Pure. */
#ifndef OP_AXIS_H
#define OP_AXIS_H

#include "libworker/graph/op/rule.h"

/* Input 0 has this dimension. */
static inline int rule_dimension(const struct op_signature *s, int dim, struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    if (dim >= 0 && dim < s->in[0]->dims)
        return 0;
    return error_set(err, WK_EINVAL, "dimension %d of %s; it takes 0 to %d", dim,
                     tensor_text(s->in[0], text), s->in[0]->dims - 1);
}

/* The dimension of input 0 does not count samples: values of different samples do not meet. */
static inline int rule_not_samples(const struct op_signature *s, int dim, struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    if (!s->in[0]->shape[dim].samples)
        return 0;
    return error_set(err, WK_EINVAL,
                     "dimension %d of %s counts samples; it takes one within a sample", dim,
                     tensor_text(s->in[0], text));
}

#endif
