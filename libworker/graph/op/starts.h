/* Where the documents of a packed sample begin: an input starts[samples, length] of i32 with, for
 * each position, the first position of its document. It does not decrease, and a document's first
 * position has its own number. A batch may lack it: then a sample is one document. Pure. */
#ifndef OP_STARTS_H
#define OP_STARTS_H

#include "libworker/graph/op/rule.h"

/* Input `i`, if there is one, has a number for each position of x[samples, length, …]. */
static inline int starts_shape(const struct op_signature *s, int i, const struct wk_tensor *x,
                               struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    const struct wk_tensor *starts = i < s->n_in ? s->in[i] : NULL;
    if (!starts ||
        (starts->type == WK_I32 && starts->dims == 2 && dim_equal(starts->shape[0], x->shape[0]) &&
         dim_equal(starts->shape[1], x->shape[1])))
        return 0;
    return error_set(err, WK_EINVAL,
                     "the documents' starts are %s; they take [samples, length] i32",
                     tensor_text(starts, text));
}

/* NULL: every sample is one document. */
static inline const int32_t *starts_of(const struct op_call *call, int i)
{
    return i < call->node->n_in ? call->in[i].data : NULL;
}

#endif
