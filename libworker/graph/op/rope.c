/* Rotary positions (Su et al. 2021, section 3.2.2), counted in each document. The second output
 * keeps the angles of positions 0 … length - 1, or of those of a pass of decoding: the cosines
 * [length, size / 2], then the sines. */
#include <math.h>
#include <string.h>

#include "libworker/graph/op/attributes.h"
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/rope_scale.h"
#include "libworker/graph/op/starts.h"
#include "libworker/graph/op/tile.h"

enum { X, STARTS, ANGLES = 1 };

static int rope_shape(struct op_signature *s, struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    const struct rope_attributes *a = s->attributes;
    const struct wk_tensor *x = s->in[X];
    int rc = rule_value(s, X, err);
    if (!rc)
        rc = rule_dims(s, X, (int[]){3, 3}, err);
    if (!rc)
        rc = starts_shape(s, STARTS, x, err);
    if (rc)
        return rc;
    int64_t width = dim_is_fixed(x->shape[2]) ? x->shape[2].fixed : 0;
    if (a->heads < 1 || a->size < 2 || a->size % 2 || a->size > width / a->heads)
        return error_set(err, WK_EINVAL,
                         "input 0 is %s, with %d heads of %lld; the size is even and all heads fit "
                         "in a row",
                         tensor_text(x, text), a->heads, (long long)a->size);
    if (!(a->theta > 1 && isfinite(a->theta)))
        return error_set(err, WK_EINVAL, "theta is %g; it takes a number above 1", a->theta);
    rc = rope_scaling_check(&a->scaling, err);
    if (rc)
        return rc;
    s->n_out = 2;
    s->out[0] = rule_output(x, 0);
    s->out[ANGLES] =
        (struct wk_tensor){.type = WK_F32, .dims = 2, .shape = {x->shape[1], dim_fixed(a->size)}};
    return 0;
}

/* The angles of positions from `past` on. */
static void fill_angles(const struct op_tensor *angles, const struct rope_attributes *a,
                        int64_t past)
{
    int64_t half = a->size / 2, length = angles->shape[0];
    float *cosines = angles->data, *sines = cosines + length * half;
    double amplitude = rope_amplitude(&a->scaling);
    for (int64_t i = 0; i < half; i++) {
        double frequency = rope_frequency(&a->scaling, (struct rope_head){a->theta, a->size}, i);
        for (int64_t p = 0; p < length; p++) {
            double angle = (double)(past + p) * frequency;
            cosines[p * half + i] = (float)(cos(angle) * amplitude);
            sines[p * half + i] = (float)(sin(angle) * amplitude);
        }
    }
}

/* For rows that begin at position `first`. */
static struct kernel_rope rope_of(const struct op_call *call, int64_t first, bool back)
{
    const struct rope_attributes *a = call->node->attributes;
    int64_t half = a->size / 2, length = call->in[X].shape[1];
    const float *cosines = call->out[ANGLES].data;
    return (struct kernel_rope){.length = length,
                                .heads = a->heads,
                                .size = a->size,
                                .stride = call->in[X].shape[2],
                                .cos = cosines + first * half,
                                .sin = cosines + (length + first) * half,
                                .back = back};
}

/* Rows from r on that the kernel rotates at once: what is left of a document. Without documents all
 * rows, because the kernel counts positions in each sample. */
static int64_t rows_together(const struct op_call *call, int64_t r, int64_t rows)
{
    const int32_t *starts = starts_of(call, STARTS);
    int64_t length = call->in[X].shape[1], n = starts ? 1 : rows - r;
    while (starts && (r + n) % length && starts[r + n] == starts[r])
        n++;
    return n;
}

/* to = from, rotated: at once if it is float and overwritten, else row by row. */
static void rows_rotate(const struct op_call *call, const struct op_tensor *to,
                        const struct op_tensor *from, bool back)
{
    const struct kernel_table *kernels = call->pass->kernels;
    int64_t length = call->in[X].shape[1], width = call->in[X].shape[2], rows = to->count / width;
    bool direct = to->type == WK_F32 && from->type == WK_F32 && !to->add;
    const int32_t *starts = starts_of(call, STARTS);
    for (int64_t r = 0, most; r < rows; r += most) {
        struct kernel_rope rope = rope_of(call, r % length - (starts ? starts[r] : 0), back);
        most = direct ? rows_together(call, r, rows) : 1;
        float *target = tile_target(to, r * width, call->scratch);
        const float *x = tile_read(kernels, from, r * width, most * width, target);
        if (x != target)
            memcpy(target, x, (size_t)(most * width) * sizeof(*x));
        rope.rows = most;
        kernels->rope(&rope, target);
        tile_store(kernels, to, r * width, most * width, target);
    }
}

static void rope_forward(const struct op_call *call)
{
    fill_angles(&call->out[ANGLES], call->node->attributes, call->pass->past);
    rows_rotate(call, &call->out[0], &call->in[X], false);
}

static void rope_backward(const struct op_call *call)
{
    if (call->d_in[X].data)
        rows_rotate(call, &call->d_in[X], &call->d_out, true);
}

/* A row, where it is not written directly. */
static size_t scratch_bytes(const struct op_call *call, bool back)
{
    (void)back;
    return (size_t)call->in[X].shape[2] * sizeof(float);
}

static void rope_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    const struct rope_attributes *a = call->node->attributes;
    double rows = (double)(call->in[X].shape[0] * call->in[X].shape[1]);
    *ret = (struct op_cost){.flop = rows * 3 * (double)(a->heads * a->size),
                            .bytes = cost_bytes(call, back)};
}

#define SCALING(field, type)                                                                       \
    {                                                                                              \
#field, offsetof(struct rope_attributes, scaling.field), type                              \
    }

static const struct op_attribute rope_attributes[] = {
    OP_ATTRIBUTE(struct rope_attributes, heads),
    OP_ATTRIBUTE(struct rope_attributes, size),
    OP_ATTRIBUTE(struct rope_attributes, theta),
    SCALING(type, ATTRIBUTE_UNSIGNED),
    SCALING(factor, ATTRIBUTE_DOUBLE),
    SCALING(original_context, ATTRIBUTE_DOUBLE),
    SCALING(low, ATTRIBUTE_DOUBLE),
    SCALING(high, ATTRIBUTE_DOUBLE),
    SCALING(amplitude, ATTRIBUTE_DOUBLE),
    SCALING(exact, ATTRIBUTE_BOOL),
    {0},
};

const struct op_row op_rope = {
    .name = "rope",
    .attributes = rope_attributes,
    .result = RESULT_LIKE,
    .min_in = 1,
    .max_in = 2,
    .optional = OP_IN(STARTS),
    .cuts = OP_CUT_SAMPLES | OP_CUT_HEADS,
    .shape = rope_shape,
    .keeps = OP_IN(STARTS) | OP_OUT(ANGLES),
    .index_input = 1 + STARTS,
    .index_starts = true,
    .differentiable = OP_IN(X),
    .decode_refusal = rule_decodes_rows,
    .in_place = true,
    .scratch_bytes = scratch_bytes,
    .cost = rope_cost,
    .forward = rope_forward,
    .backward = rope_backward,
};

struct wk_tensor *wk_op_rope(struct wk_tensor *x, const struct wk_rope_options *options)
{
    struct rope_attributes attributes = {options->heads, options->size, options->theta,
                                         options->scaling};
    return graph_add(&(struct node_request){.row = &op_rope,
                                            .attributes = &attributes,
                                            .attributes_bytes = sizeof(attributes),
                                            .n_in = 2,
                                            .in = {x, options->starts}});
}
