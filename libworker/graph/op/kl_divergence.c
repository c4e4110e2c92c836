/* The divergence of a student's softmax from a teacher's: sum of p (log p - log q) over the last
 * dimension, in double, a row at a time. */
#include <math.h>

#include "libworker/graph/op/axis.h"
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

enum { STUDENT = 0, TEACHER = 1 };

static int64_t classes_of(const struct op_call *call)
{
    return call->in[STUDENT].shape[call->in[STUDENT].dims - 1];
}

/* log(sum of exp(x)) of at least one class, from the largest, which no power exceeds. */
static double log_sum(const float *x, int64_t classes)
{
    double most = (double)x[0];
    for (int64_t i = 1; i < classes; i++)
        most = (double)x[i] > most ? (double)x[i] : most;
    double sum = exp((double)x[0] - most);
    for (int64_t i = 1; i < classes; i++)
        sum += exp((double)x[i] - most);
    return most + log(sum);
}

/* A class without any chance adds nothing. */
static double row_forward(const float *student, const float *teacher, int64_t classes)
{
    double q = log_sum(student, classes), p = log_sum(teacher, classes), sum = 0;
    for (int64_t i = 0; i < classes; i++) {
        double log_p = (double)teacher[i] - p, share = exp(log_p);
        if (share != 0)
            sum += share * (log_p - ((double)student[i] - q));
    }
    return sum;
}

static size_t kl_divergence_scratch(const struct op_call *call, bool backward)
{
    (void)backward;
    return 3 * (size_t)classes_of(call) * sizeof(float);
}

static void kl_divergence_forward(const struct op_call *call)
{
    const struct kernel_table *k = call->pass->kernels;
    int64_t classes = classes_of(call);
    float *student_room = call->scratch, *teacher_room = student_room + classes;
    for (int64_t r = 0; r < call->out[0].count; r++) {
        const float *student = tile_read(k, &call->in[STUDENT], r * classes, classes, student_room);
        const float *teacher = tile_read(k, &call->in[TEACHER], r * classes, classes, teacher_room);
        float room, *loss = tile_target(&call->out[0], r, &room);
        *loss = (float)row_forward(student, teacher, classes);
        tile_store(k, &call->out[0], r, 1, loss);
    }
}

/* dstudent = dout * (q - p). */
static void kl_divergence_backward(const struct op_call *call)
{
    const struct kernel_table *k = call->pass->kernels;
    const struct op_tensor *d = &call->d_in[STUDENT];
    int64_t classes = classes_of(call);
    float *student_room = call->scratch, *teacher_room = student_room + classes;
    for (int64_t r = 0; d->data && r < call->out[0].count; r++) {
        int64_t at = r * classes;
        const float *student = tile_read(k, &call->in[STUDENT], at, classes, student_room);
        const float *teacher = tile_read(k, &call->in[TEACHER], at, classes, teacher_room);
        float *to = tile_target(d, at, teacher_room + classes);
        double q = log_sum(student, classes), p = log_sum(teacher, classes);
        double dout = (double)((const float *)call->d_out.data)[r];
        for (int64_t i = 0; i < classes; i++)
            to[i] = (float)(dout * (exp((double)student[i] - q) - exp((double)teacher[i] - p)));
        tile_store(k, d, at, classes, to);
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
