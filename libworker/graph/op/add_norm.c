/* sum = a + b and its layer or RMS norm, some rows at a time: the norm reads a sum that is still in
 * the nearest memory. Inputs: a, b, weight, bias. Outputs: the sum, the norm, then what the norm
 * keeps. The attributes are the norm's. The sum may be in the memory of a, the norm in that of b,
 * so a kernel reads a row before it writes it.
 *
 * The kernels are those of the two operations, so the bits are theirs. A plan makes this row of two
 * works (join.h). It has no backward kernel: gradients are those of the two works. */
#include "libworker/graph/op/norm.h"
#include "libworker/graph/op/tile.h"

enum { ROWS = 8 };
extern const struct op_row op_layer_norm, op_rms_norm;

static const struct op_row *norm_row(const struct op_call *call)
{
    const struct norm_attributes *a = call->node->attributes;
    return a->mean ? &op_layer_norm : &op_rms_norm;
}

/* The norm's own call, over all rows. */
static struct op_call norm_call(const struct op_call *call)
{
    struct op_call norm = *call;
    norm.in[0] = call->out[0];
    for (int i = 1; i < NODE_INPUTS_MAX; i++)
        norm.in[i] = i + 1 < NODE_INPUTS_MAX ? call->in[i + 1] : (struct op_tensor){0};
    for (int i = 0; i < NODE_OUTPUTS_MAX; i++)
        norm.out[i] = i + 1 < NODE_OUTPUTS_MAX ? call->out[i + 1] : (struct op_tensor){0};
    return norm;
}

/* `rows` rows from `first` on, of `each` elements, as one dimension. */
static void take_rows(struct op_tensor *part, const struct op_tensor *all, const int64_t rows[2],
                      int64_t each)
{
    if (!all->data)
        return;
    part->data = tensor_at(all, rows[0] * each);
    part->count = rows[1] * each;
    part->dims = 1;
    part->shape[0] = part->count;
}

static void add_norm_forward(const struct op_call *call)
{
    int64_t width = call->in[ADD_NORM_WEIGHT].count, rows = call->out[0].count / width;
    const struct op_call all = norm_call(call);
    struct op_call sum = *call, norm = all;
    for (int64_t r = 0; r < rows; r += ROWS) {
        int64_t part[2] = {r, rows - r < ROWS ? rows - r : ROWS};
        take_rows(&sum.in[0], &call->in[0], part, width);
        take_rows(&sum.in[1], &call->in[1], part, width);
        take_rows(&sum.out[0], &call->out[0], part, width);
        op_add.forward(&sum);
        take_rows(&norm.in[0], &all.in[0], part, width);
        take_rows(&norm.out[0], &all.out[0], part, width);
        for (int i = 1; i < call->node->n_out - 1; i++)
            take_rows(&norm.out[i], &all.out[i], part, 1);
        norm_row(call)->forward(&norm);
    }
}

static size_t add_norm_scratch(const struct op_call *call, bool back)
{
    const struct op_call norm = norm_call(call);
    return norm_row(call)->scratch_bytes(&norm, back);
}

static void add_norm_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    const struct op_call norm = norm_call(call);
    norm_row(call)->cost(&norm, back, ret);
    ret->flop += (double)call->out[0].count;
}

const struct op_row op_add_norm = {
    .name = "add_norm",
    .min_in = ADD_NORM_WEIGHT + 1,
    .max_in = ADD_NORM_WEIGHT + 2,
    .optional = OP_IN(ADD_NORM_WEIGHT + 1),
    .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH,
    .scratch_bytes = add_norm_scratch,
    .cost = add_norm_cost,
    .forward = add_norm_forward,
};
