/* The divergence of a student's softmax from a teacher's: sum of p (log p - log q) over the last
 * dimension, by the table's curves, a row at a time. */
#include "libworker/graph/op/axis.h"
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"
#include "libworker/kernel/curves.h"

enum { STUDENT = 0, TEACHER = 1 };

static int64_t classes_of(const struct op_call *call)
{
    return call->in[STUDENT].shape[call->in[STUDENT].dims - 1];
}

static size_t kl_divergence_scratch(const struct op_call *call, bool backward)
{
    (void)backward;
    return 3 * (size_t)classes_of(call) * sizeof(float);
}

/* A row of both in float: in place, or in the scratch memory, which has a third row for a gradient.
 */
static struct kernel_divergence row_at(const struct op_call *call, int64_t row)
{
    const struct kernel_table *k = call->pass->kernels;
    int64_t classes = classes_of(call), at = row * classes;
    float *student = call->scratch, *teacher = student + classes;
    return (struct kernel_divergence){
        .classes = classes,
        .student = tile_read(k, &call->in[STUDENT], at, classes, student),
        .teacher = tile_read(k, &call->in[TEACHER], at, classes, teacher),
    };
}

static void kl_divergence_forward(const struct op_call *call)
{
    const struct kernel_table *k = call->pass->kernels;
    for (int64_t r = 0; r < call->out[0].count; r++) {
        struct kernel_divergence row = row_at(call, r);
        float room, *loss = tile_target(&call->out[0], r, &room);
        *loss = (float)k->curves->divergence(&row);
        tile_store(k, &call->out[0], r, 1, loss);
    }
}

/* dstudent = dout * (q - p). */
static void kl_divergence_backward(const struct op_call *call)
{
    const struct kernel_table *k = call->pass->kernels;
    const struct op_tensor *d = &call->d_in[STUDENT];
    const float *dout = call->d_out.data;
    int64_t classes = classes_of(call);
    float *room = (float *)call->scratch + 2 * classes;
    for (int64_t r = 0; d->data && r < call->out[0].count; r++) {
        struct kernel_divergence row = row_at(call, r);
        float *to = tile_target(d, r * classes, room);
        k->curves->divergence_slope(&row, dout[r], to);
        tile_store(k, d, r * classes, classes, to);
    }
}

static void kl_divergence_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    ret->flop = 8.0 * (double)call->in[STUDENT].count;
    ret->bytes = cost_bytes(call, backward);
}

static int kl_divergence_shape(struct op_signature *s, struct error *err)
{
    int rc = rule_values(s, err);
    if (!rc)
        rc = rule_dims(s, STUDENT, (int[]){1, WK_TENSOR_DIMS_MAX}, err);
    if (!rc)
        rc = rule_alike(s, err);
    if (!rc)
        rc = rule_not_samples(s, s->in[STUDENT]->dims - 1, err);
    if (rc)
        return rc;
    s->out[0] = rule_output(s->in[STUDENT], 1);
    return 0;
}

const struct op_row op_kl_divergence = {
    .name = "kl_divergence",
    .min_in = 2,
    .max_in = 2,
    .cuts = OP_CUT_SAMPLES, /* its classes may be positions */
    .shape = kl_divergence_shape,
    .keeps = OP_IN(STUDENT) | OP_IN(TEACHER),
    .differentiable = OP_IN(STUDENT),
    .scratch_bytes = kl_divergence_scratch,
    .cost = kl_divergence_cost,
    .forward = kl_divergence_forward,
    .backward = kl_divergence_backward,
};

struct wk_tensor *wk_op_kl_divergence(struct wk_tensor *student, struct wk_tensor *teacher)
{
    return graph_add(
        &(struct node_request){.row = &op_kl_divergence, .n_in = 2, .in = {student, teacher}});
}
