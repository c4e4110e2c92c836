/* What shape rules have in common: checks with a sentence, and outputs like an input. Each check
 * returns 0 or WK_EINVAL. Pure. */
#ifndef OP_RULE_H
#define OP_RULE_H

#include <string.h>

#include <worker/error.h>

#include "libworker/graph/op.h"

static inline bool rule_is_value(const struct wk_tensor *x)
{
    return x->type == WK_F32 || x->type == WK_BF16 || x->type == WK_F16;
}

/* Input i, if there is one, is a value: f32, bf16 or f16. */
static inline int rule_value(const struct op_signature *s, int i, struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    const struct wk_tensor *x = s->in[i];
    if (!x || rule_is_value(x))
        return 0;
    return error_set(err, WK_EINVAL,
                     "input %d is %s; it takes f32, bf16 and f16 (wk_op_convert makes f32)", i,
                     tensor_text(x, text));
}

/* The same of every input. */
static inline int rule_values(const struct op_signature *s, struct error *err)
{
    int rc = 0;
    for (int i = 0; i < s->n_in && !rc; i++)
        rc = rule_value(s, i, err);
    return rc;
}

/* Input i has at least `least` dimensions and at most `most`. */
static inline int rule_dims(const struct op_signature *s, int i, const int range[2],
                            struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    int dims = s->in[i]->dims;
    if (dims >= range[0] && dims <= range[1])
        return 0;
    tensor_text(s->in[i], text);
    if (range[0] == range[1])
        return error_set(err, WK_EINVAL, "input %d is %s; it takes %d dimensions", i, text,
                         range[0]);
    return error_set(err, WK_EINVAL, "input %d is %s; it takes %d to %d dimensions", i, text,
                     range[0], range[1]);
}

/* Inputs 0 and 1 have the same shape. */
static inline int rule_alike(const struct op_signature *s, struct error *err)
{
    char a[TENSOR_TEXT_MAX], b[TENSOR_TEXT_MAX];
    if (tensor_same_shape(s->in[0], s->in[1]))
        return 0;
    return error_set(err, WK_EINVAL, "%s and %s; both have the same shape",
                     tensor_text(s->in[0], a), tensor_text(s->in[1], b));
}

/* The result has this input's shape and is a value in f32. */
static inline int rule_as(struct op_signature *s, int i)
{
    s->out[0].type = WK_F32;
    s->out[0].dims = s->in[i]->dims;
    memcpy(s->out[0].shape, s->in[i]->shape, sizeof(s->out[0].shape));
    return 0;
}

/* Input i, if there is one, is a vector of `size` elements. */
static inline int rule_vector(const struct op_signature *s, int i, struct dim size,
                              struct error *err)
{
    char text[TENSOR_TEXT_MAX], wanted[DIM_TEXT_MAX];
    const struct wk_tensor *x = i < s->n_in ? s->in[i] : NULL;
    if (!x || (x->dims == 1 && dim_equal(x->shape[0], size)))
        return 0;
    return error_set(err, WK_EINVAL, "input %d is %s; it takes [%s]", i, tensor_text(x, text),
                     dim_text(size, wanted));
}

/* The last dimension. */
static inline struct dim rule_last(const struct wk_tensor *x)
{
    return x->shape[x->dims - 1];
}

/* For decode_refusal: a row that begins where the pass does, and one with an input that must be
 * [samples, length, …]. */
static inline const char *rule_decodes(const struct node *node)
{
    (void)node;
    return NULL;
}

static inline const char *rule_decodes_rows(const struct node *node)
{
    struct dim length = node->in[0]->shape[1];
    bool follows = length.fixed == 1 && length.length == 1 && !length.samples;
    return follows ? NULL : "dimension 1 is not the length";
}

/* An output in f32 with the shape of x but for its last `less` dimensions. */
static inline struct wk_tensor rule_output(const struct wk_tensor *x, int less)
{
    struct wk_tensor out = {.type = WK_F32, .dims = x->dims - less};
    memcpy(out.shape, x->shape, sizeof(out.shape));
    return out;
}

#endif
