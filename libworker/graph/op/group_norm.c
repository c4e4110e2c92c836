/* x[samples, channels, …] over groups of channels (Wu and He 2018). A sample's group is a row of
 * the layer norm's kernel, where each channel's weight is repeated over its elements. Inputs: x,
 * weight, bias, which may be NULL. Outputs: the result, mean and rstd [samples, groups]. */
#include "libworker/graph/op/group_norm.h"

#include <math.h>

#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/room.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

enum { X, WEIGHT, BIAS, MEAN = 1, RSTD = 2 };

static int group_shape(struct op_signature *s, struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    const struct group_norm_attributes *a = s->attributes;
    const struct wk_tensor *x = s->in[X];
    int rc = rule_values(s, err);
    if (!rc)
        rc = rule_dims(s, X, (int[]){2, WK_TENSOR_DIMS_MAX}, err);
    for (int i = WEIGHT; i <= BIAS && !rc; i++)
        rc = rule_vector(s, i, x->shape[1], err);
    if (rc)
        return rc;
    if (!dim_is_fixed(x->shape[1]) || a->groups < 1 || x->shape[1].fixed % a->groups)
        return error_set(err, WK_EINVAL, "input 0 is %s; %d groups must divide its channels",
                         tensor_text(x, text), a->groups);
    if (!(a->epsilon > 0 && isfinite(a->epsilon)))
        return error_set(err, WK_EINVAL, "epsilon is %g; it takes a number above 0",
                         (double)a->epsilon);
    s->n_out = 3;
    s->out[0] = rule_output(x, 0);
    for (int i = MEAN; i <= RSTD; i++) {
        s->out[i] = rule_output(x, x->dims - 2);
        s->out[i].shape[1] = dim_fixed(a->groups);
    }
    return 0;
}

struct groups {
    int64_t samples, groups, channels; /* channels of a group */
    int64_t each, width;               /* elements of a channel, of a group */
};

static struct groups groups_of(const struct op_call *call)
{
    const struct op_tensor *x = &call->in[X];
    const struct group_norm_attributes *a = call->node->attributes;
    struct groups g = {x->shape[0], a->groups, x->shape[1] / a->groups, 1, 0};
    for (int i = 2; i < x->dims; i++)
        g.each *= x->shape[i];
    g.width = g.channels * g.each;
    return g;
}

/* to[width] has the group's part of a vector over channels, each `each` times; zeros without it. */
static void repeat_channels(const struct op_call *call, int input, int64_t group, float *to)
{
    const struct kernel_table *kernels = call->pass->kernels;
    const struct op_tensor *vector = &call->in[input];
    struct groups g = groups_of(call);
    for (int64_t c = 0; c < g.channels; c++) {
        float room = 0, value = 0;
        if (vector->data)
            value = *tile_read(kernels, vector, group * g.channels + c, 1, &room);
        kernels->fill(to + c * g.each, value, (size_t)g.each);
    }
}

/* Adds the sum over each channel's elements to its gradient, if that is wanted. */
static void sum_channels(const struct op_call *call, int input, int64_t group, const float *from)
{
    float *gradient = call->d_in[input].data;
    struct groups g = groups_of(call);
    for (int64_t c = 0; c < g.channels && gradient; c++) {
        double sum = 0;
        for (int64_t i = 0; i < g.each; i++)
            sum += (double)from[c * g.each + i];
        gradient[group * g.channels + c] += (float)sum;
    }
}

/* A group of a sample as the kernel's row. */
static struct kernel_norm row_of(const struct op_call *call, int64_t row, const float *weight,
                                 const float *bias)
{
    const struct group_norm_attributes *a = call->node->attributes;
    return (struct kernel_norm){.rows = 1,
                                .width = groups_of(call).width,
                                .epsilon = a->epsilon,
                                .weight = weight,
                                .bias = bias,
                                .mean = (float *)call->out[MEAN].data + row,
                                .rstd = (float *)call->out[RSTD].data + row};
}

static void group_forward(const struct op_call *call)
{
    const struct kernel_table *kernels = call->pass->kernels;
    const struct op_tensor *x = &call->in[X], *y = &call->out[0];
    struct groups g = groups_of(call);
    uint8_t *room = call->scratch;
    float *weight = room_take(&room, g.width, sizeof(*weight));
    float *bias = room_take(&room, g.width, sizeof(*bias));
    float *x_room = room_take(&room, g.width, sizeof(*x_room));
    float *y_room = room_take(&room, g.width, sizeof(*y_room));
    for (int64_t group = 0; group < g.groups; group++) {
        repeat_channels(call, WEIGHT, group, weight);
        repeat_channels(call, BIAS, group, bias);
        for (int64_t sample = 0; sample < g.samples; sample++) {
            int64_t row = sample * g.groups + group, at = row * g.width;
            struct kernel_norm norm = row_of(call, row, weight, bias);
            float *to = tile_target(y, at, y_room);
            norm.x = tile_read(kernels, x, at, g.width, x_room);
            kernels->norm_forward(&norm, to);
            tile_store(kernels, y, at, g.width, to);
        }
    }
}

/* One row; the gradients of weight and bias add up in those two, element by element. */
static void row_backward(const struct op_call *call, int64_t row, struct kernel_norm *norm,
                         float *const vectors[2], float *const rooms[2])
{
    const struct kernel_table *kernels = call->pass->kernels;
    const struct op_tensor *dx = &call->d_in[X];
    int64_t at = row * norm->width;
    if (!dx->data && !call->d_in[WEIGHT].data) { /* as the kernel adds it */
        kernels->add(vectors[1], (const float *)call->d_out.data + at, (size_t)norm->width);
        return;
    }
    float *to = dx->data ? (float *)dx->data + at : rooms[1];
    norm->x = tile_read(kernels, &call->in[X], at, norm->width, rooms[0]);
    if (!dx->add)
        kernels->fill(to, 0, (size_t)norm->width);
    kernels->norm_backward(norm, (const float *)call->d_out.data + at, to, vectors[0], vectors[1]);
}

static void group_backward(const struct op_call *call)
{
    const struct kernel_table *kernels = call->pass->kernels;
    struct groups g = groups_of(call);
    uint8_t *room = call->scratch;
    float *weight = room_take(&room, g.width, sizeof(*weight)), *vectors[2], *rooms[2];
    for (int i = 0; i < 2; i++) {
        vectors[i] = room_take(&room, g.width, sizeof(float));
        rooms[i] = room_take(&room, g.width, sizeof(float));
        tile_zero(kernels, &call->d_in[WEIGHT + i]);
    }
    for (int64_t group = 0; group < g.groups; group++) {
        if (call->d_in[X].data || call->d_in[WEIGHT].data)
            repeat_channels(call, WEIGHT, group, weight);
        for (int i = 0; i < 2; i++)
            kernels->fill(vectors[i], 0, (size_t)g.width);
        for (int64_t sample = 0; sample < g.samples; sample++) {
            int64_t row = sample * g.groups + group;
            struct kernel_norm norm = row_of(call, row, weight, NULL);
            row_backward(call, row, &norm, vectors, rooms);
        }
        sum_channels(call, WEIGHT, group, vectors[0]);
        sum_channels(call, BIAS, group, vectors[1]);
    }
}

/* The bias alone needs nothing. */
static unsigned group_keeps(const struct node *node)
{
    bool reads = node->in[X]->trains || node->in[WEIGHT]->trains;
    return reads ? node->row->keeps : 0;
}

static size_t scratch_bytes(const struct op_call *call, bool back)
{
    return (back ? 5 : 4) * room_rounded((size_t)groups_of(call).width * sizeof(float));
}

/* Sums of x and of its square, then each element; backward, two sums and three gradients. */
static void group_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    cost_elements(call, back, back ? 14 : 8, ret);
}

static const struct op_attribute group_norm_attributes[] = {
    OP_ATTRIBUTE(struct group_norm_attributes, groups),
    OP_ATTRIBUTE(struct group_norm_attributes, epsilon),
    {0},
};

const struct op_row op_group_norm = {
    .name = "group_norm",
    .attributes = group_norm_attributes,
    .min_in = 2,
    .max_in = 3,
    .optional = OP_IN(BIAS),
    .cuts = OP_CUT_SAMPLES,
    .shape = group_shape,
    .keeps = OP_IN(X) | OP_IN(WEIGHT) | OP_OUT(MEAN) | OP_OUT(RSTD),
    .keeps_of = group_keeps,
    .differentiable = OP_IN(X) | OP_IN(WEIGHT) | OP_IN(BIAS),
    .scratch_bytes = scratch_bytes,
    .cost = group_cost,
    .forward = group_forward,
    .backward = group_backward,
};

struct wk_tensor *wk_op_group_norm(struct wk_tensor *x, struct wk_tensor *weight,
                                   struct wk_tensor *bias, int groups, double epsilon)
{
    struct group_norm_attributes attributes = {groups, (float)epsilon};
    return graph_add(&(struct node_request){.row = &op_group_norm,
                                            .attributes = &attributes,
                                            .attributes_bytes = sizeof(attributes),
                                            .n_in = 3,
                                            .in = {x, weight, bias}});
}
