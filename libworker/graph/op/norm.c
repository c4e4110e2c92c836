#include "libworker/graph/op/norm.h"

#include <math.h>

#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/room.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

enum {
    X,
    WEIGHT,
    BIAS,
    TILE_ROWS = 8, /* that go through memory in float at a time */
};

static const struct norm_attributes *attributes_of(const struct op_call *call)
{
    return call->node->attributes;
}

static int64_t width_of(const struct op_call *call)
{
    return call->in[WEIGHT].count;
}

int norm_shape(struct op_signature *s, struct error *err)
{
    const struct norm_attributes *a = s->attributes;
    int rc = rule_values(s, err);
    if (!rc)
        rc = rule_dims(s, X, (int[]){1, WK_TENSOR_DIMS_MAX}, err);
    if (!rc)
        rc = rule_vector(s, WEIGHT, rule_last(s->in[X]), err);
    if (!rc)
        rc = rule_vector(s, BIAS, rule_last(s->in[X]), err);
    if (!rc && !(a->epsilon > 0 && isfinite(a->epsilon)))
        rc = error_set(err, WK_EINVAL, "epsilon is %g; it takes a number above 0", a->epsilon);
    if (rc)
        return rc;
    s->n_out = a->mean ? 3 : 2;
    s->out[0] = rule_output(s->in[X], 0);
    for (int i = 1; i < s->n_out; i++)
        s->out[i] = rule_output(s->in[X], 1);
    return 0;
}

/* The bias alone needs nothing. */
unsigned norm_keeps(const struct node *node)
{
    bool reads = node->in[X]->trains || node->in[WEIGHT]->trains;
    return reads ? node->row->keeps : 0;
}

/* Weight, bias, their gradients if they are not wanted, and a tile of rows twice. */
size_t norm_scratch(const struct op_call *call, bool back)
{
    size_t vectors = back ? 3 : 2;
    return (vectors + 2 * TILE_ROWS) * room_rounded((size_t)width_of(call) * sizeof(float));
}

static struct kernel_norm kernel_of(const struct op_call *call, uint8_t **room)
{
    const struct norm_attributes *a = attributes_of(call);
    const struct kernel_table *kernels = call->pass->kernels;
    int64_t width = width_of(call);
    float *weight = room_take(room, width, sizeof(*weight));
    return (struct kernel_norm){.width = width,
                                .epsilon = a->epsilon,
                                .weight = tile_read(kernels, &call->in[WEIGHT], 0, width, weight),
                                .mean = a->mean ? call->out[1].data : NULL,
                                .rstd = call->out[a->mean ? 2 : 1].data};
}

static const float *bias_of(const struct op_call *call, uint8_t **room)
{
    const struct kernel_table *kernels = call->pass->kernels;
    int64_t width = width_of(call);
    float *bias = room_take(room, width, sizeof(*bias));
    if (call->in[BIAS].data)
        return tile_read(kernels, &call->in[BIAS], 0, width, bias);
    kernels->fill(bias, 0, (size_t)width);
    return bias;
}

static int64_t at_most(int64_t rows, int64_t most)
{
    return rows < most ? rows : most;
}

/* The rows from `first` on. */
static struct kernel_norm part_of(const struct kernel_norm *all, int64_t first, int64_t rows)
{
    struct kernel_norm part = *all;
    part.rows = rows;
    part.mean = all->mean ? all->mean + first : NULL;
    part.rstd = all->rstd + first;
    return part;
}

void norm_over_rows(const struct op_call *call)
{
    const struct kernel_table *kernels = call->pass->kernels;
    const struct op_tensor *x = &call->in[X], *y = &call->out[0];
    uint8_t *room = call->scratch;
    struct kernel_norm all = kernel_of(call, &room);
    int64_t width = all.width, rows = y->count / width;
    bool mean = attributes_of(call)->mean, direct = x->type == WK_F32 && y->type == WK_F32;
    if (mean)
        all.bias = bias_of(call, &room);
    float *x_room = room_take(&room, TILE_ROWS * width, sizeof(*x_room));
    float *y_room = room_take(&room, TILE_ROWS * width, sizeof(*y_room));
    for (int64_t r = 0, n; (n = at_most(rows - r, direct ? rows : TILE_ROWS)) > 0; r += n) {
        struct kernel_norm part = part_of(&all, r, n);
        float *to = tile_target(y, r * width, y_room);
        part.x = tile_read(kernels, x, r * width, n * width, x_room);
        if (mean)
            kernels->norm_forward(&part, to);
        else
            kernels->rms_forward(&part, to);
        tile_store(kernels, y, r * width, n * width, to);
    }
}

/* Where the kernels add a parameter's gradient: it is zeroed if it is not added to. */
static float *vector_gradient(const struct op_call *call, int input, float *room)
{
    const struct op_tensor *d = &call->d_in[input];
    tile_zero(call->pass->kernels, d);
    if (d->data)
        return d->data;
    call->pass->kernels->fill(room, 0, (size_t)width_of(call));
    return room;
}

/* In the kernels' order of sums. */
static void bias_back(const struct op_call *call)
{
    const struct kernel_table *kernels = call->pass->kernels;
    const struct op_tensor *dbias = &call->d_in[BIAS];
    int64_t width = width_of(call);
    tile_zero(kernels, dbias);
    for (int64_t at = 0; dbias->data && at < call->d_out.count; at += width)
        kernels->add(dbias->data, (const float *)call->d_out.data + at, (size_t)width);
}

void norm_over_rows_back(const struct op_call *call)
{
    const struct kernel_table *kernels = call->pass->kernels;
    const struct op_tensor *x = &call->in[X], *dx = &call->d_in[X];
    if (!dx->data && !call->d_in[WEIGHT].data) {
        bias_back(call);
        return;
    }
    uint8_t *room = call->scratch;
    struct kernel_norm all = kernel_of(call, &room);
    int64_t width = all.width, rows = call->d_out.count / width;
    float *unwanted[2] = {room_take(&room, width, sizeof(float)),
                          room_take(&room, width, sizeof(float))};
    float *x_room = room_take(&room, TILE_ROWS * width, sizeof(*x_room));
    float *dx_room = room_take(&room, TILE_ROWS * width, sizeof(*dx_room));
    float *dweight = vector_gradient(call, WEIGHT, unwanted[0]);
    float *dbias = vector_gradient(call, BIAS, unwanted[1]);
    bool direct = x->type == WK_F32 && dx->data && dx->add;
    for (int64_t r = 0, n; (n = at_most(rows - r, direct ? rows : TILE_ROWS)) > 0; r += n) {
        struct kernel_norm part = part_of(&all, r, n);
        float *to = dx->data ? (float *)dx->data + r * width : dx_room;
        const float *dy = (const float *)call->d_out.data + r * width;
        part.x = tile_read(kernels, x, r * width, n * width, x_room);
        if (!dx->add)
            kernels->fill(to, 0, (size_t)(n * width));
        if (attributes_of(call)->mean)
            kernels->norm_backward(&part, dy, to, dweight, dbias);
        else
            kernels->rms_backward(&part, dy, to, dweight);
    }
}

/* Sums of x and of its square, then each element; backward, two sums and three gradients. */
void norm_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    cost_elements(call, back, back ? 14 : 8, ret);
}
