/* Batch normalization over samples and space (Ioffe and Szegedy 2015), as four rows, so that the
 * ranks can meet between them (all_reduce):
 *
 *     sums      [channels + 1]: of each channel; the last is n, the elements of a channel
 *     squares   [channels]: of x - mean, with mean = sum / n
 *     result    (x - mean) / sqrt(squares / n + epsilon) * weight + bias
 *     running   running + momentum * (statistic - running), for mean and variance
 *
 * Sums are in double, in order. An evaluation reads the running statistics instead: neither sums
 * nor squares are computed then. As torch's, the running variance is of n - 1. */
#include "libworker/graph/op/batch_norm.h"

#include <math.h>

#include "libworker/graph/op/axis.h"
#include "libworker/graph/op/channel.h"
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/room.h"

enum { X, SUMS, SQUARES, WEIGHT, BIAS, MEAN, VARIANCE, INPUTS };

static const struct op_attribute batch_norm_attributes[] = {
    OP_ATTRIBUTE(struct batch_norm_attributes, dim),
    OP_ATTRIBUTE(struct batch_norm_attributes, epsilon),
    OP_ATTRIBUTE(struct batch_norm_attributes, momentum),
    OP_ATTRIBUTE(struct batch_norm_attributes, variance),
    {0},
};

static const struct batch_norm_attributes *attributes_of(const struct node *node)
{
    return node->attributes;
}

/* Rows of x have channels in this dimension, which is fixed. */
static int rule_channels(const struct op_signature *s, struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    const struct batch_norm_attributes *a = s->attributes;
    int rc = rule_values(s, err);
    if (!rc)
        rc = rule_dims(s, X, (int[]){2, WK_TENSOR_DIMS_MAX}, err);
    if (!rc)
        rc = rule_dimension(s, a->dim, err);
    if (!rc && !dim_is_fixed(s->in[X]->shape[a->dim]))
        rc = error_set(err, WK_EINVAL, "input 0 is %s; dimension %d, the channels, must be fixed",
                       tensor_text(s->in[X], text), a->dim);
    return rc;
}

static void describe_vector(struct op_signature *s, int64_t size)
{
    s->out[0] = (struct wk_tensor){.type = WK_F32, .dims = 1, .shape = {dim_fixed(size)}};
}

/* ---- sums ---- */

static int sums_shape(struct op_signature *s, struct error *err)
{
    const struct batch_norm_attributes *a = s->attributes;
    int rc = rule_channels(s, err);
    if (!rc)
        describe_vector(s, s->in[X]->shape[a->dim].fixed + 1);
    return rc;
}

static double *zeros_in(void *scratch, int64_t count)
{
    memset(scratch, 0, (size_t)count * sizeof(double));
    return scratch;
}

static double sum_of(const float *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i];
    return sum;
}

static struct channel_walk walk_of(const struct op_call *call)
{
    return channel_walk(&call->in[X], attributes_of(call->node)->dim);
}

static void sums_forward(const struct op_call *call)
{
    float *to = call->out[0].data;
    struct channel_walk w = walk_of(call);
    double *sums = zeros_in(call->scratch, w.channels);
    for (struct channel_span s; channel_next(&w, &s);) {
        float room[TILE_MAX];
        const float *x = tile_read(call->pass->kernels, &call->in[X], s.at, s.count, room);
        if (!s.step)
            sums[s.channel] += sum_of(x, s.count);
        for (int64_t i = 0; i < s.count && s.step; i++)
            sums[s.channel + i] += (double)x[i];
    }
    for (int64_t c = 0; c < w.channels; c++)
        to[c] = (float)sums[c];
    to[w.channels] = (float)(w.count / w.channels);
}

/* n does not depend on x. */
static void sums_backward(const struct op_call *call)
{
    const struct op_tensor *dx = &call->d_in[X];
    const float *dsums = call->d_out.data;
    struct channel_walk w = walk_of(call);
    for (struct channel_span s; dx->data && channel_next(&w, &s);) {
        float *to = (float *)dx->data + s.at;
        for (int64_t i = 0; i < s.count; i++)
            to[i] = (dx->add ? to[i] : 0) + dsums[s.channel + i * s.step];
    }
}

static size_t sums_scratch(const struct op_call *call, bool back)
{
    return back ? 0 : (size_t)(call->out[0].count - 1) * sizeof(double);
}

static void sums_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    ret->flop = (double)call->in[X].count;
    ret->bytes = cost_bytes(call, back);
}

const struct op_row op_batch_norm_sums = {
    .name = "batch_norm_sums",
    .attributes = batch_norm_attributes,
    .min_in = 1,
    .max_in = 1,
    .shape = sums_shape,
    .differentiable = OP_IN(X),
    .scratch_bytes = sums_scratch,
    .cost = sums_cost,
    .forward = sums_forward,
    .backward = sums_backward,
};

/* ---- squares ---- */

/* n of the ranks together, at least 1. */
static double count_of(const struct op_call *call)
{
    const struct op_tensor *sums = &call->in[SUMS];
    double n = (double)((const float *)sums->data)[sums->count - 1];
    return n > 0 ? n : 1;
}

static int squares_shape(struct op_signature *s, struct error *err)
{
    const struct batch_norm_attributes *a = s->attributes;
    int rc = rule_channels(s, err);
    int64_t channels = rc ? 0 : s->in[X]->shape[a->dim].fixed;
    if (!rc)
        rc = rule_vector(s, SUMS, dim_fixed(channels + 1), err);
    if (!rc)
        describe_vector(s, channels);
    return rc;
}

/* Of each channel the sum of (x - mean) to this power, 1 or 2. */
static double *sum_powers(const struct op_call *call, int power)
{
    const float *sums = call->in[SUMS].data;
    struct channel_walk w = walk_of(call);
    double n = count_of(call), *to = zeros_in(call->scratch, w.channels);
    for (struct channel_span s; channel_next(&w, &s);) {
        float room[TILE_MAX];
        const float *x = tile_read(call->pass->kernels, &call->in[X], s.at, s.count, room);
        for (int64_t i = 0; i < s.count; i++) {
            int64_t c = s.channel + i * s.step;
            double from_mean = (double)x[i] - (double)sums[c] / n;
            to[c] += power == 2 ? from_mean * from_mean : from_mean;
        }
    }
    return to;
}

static void squares_forward(const struct op_call *call)
{
    float *to = call->out[0].data;
    const double *squares = sum_powers(call, 2);
    for (int64_t c = 0; c < call->out[0].count; c++)
        to[c] = (float)squares[c];
}

static void put_gradient(const struct op_tensor *gradient, int64_t i, double value)
{
    float *to = gradient->data;
    if (to)
        to[i] = (gradient->add ? to[i] : 0) + (float)value;
}

/* The mean moves with the sum and with n: dmean = -2 sum(x - mean) dsquares, over this rank's x.
 * Over all ranks it is 0. */
static void squares_to_sums(const struct op_call *call)
{
    const float *sums = call->in[SUMS].data, *from = call->d_out.data;
    const double *firsts = sum_powers(call, 1);
    int64_t channels = call->d_out.count;
    double n = count_of(call), dn = 0;
    for (int64_t c = 0; c < channels; c++) {
        double dmean = -2 * firsts[c] * (double)from[c];
        dn -= dmean * (double)sums[c] / (n * n);
        put_gradient(&call->d_in[SUMS], c, dmean / n);
    }
    put_gradient(&call->d_in[SUMS], channels, dn);
}

/* dx = 2 (x - mean) dsquares. */
static void squares_backward(const struct op_call *call)
{
    const struct op_tensor *dx = &call->d_in[X];
    const float *sums = call->in[SUMS].data, *from = call->d_out.data;
    struct channel_walk w = walk_of(call);
    double n = count_of(call);
    for (struct channel_span s; dx->data && channel_next(&w, &s);) {
        float room[TILE_MAX], *to = (float *)dx->data + s.at;
        const float *x = tile_read(call->pass->kernels, &call->in[X], s.at, s.count, room);
        for (int64_t i = 0; i < s.count; i++) {
            int64_t c = s.channel + i * s.step;
            double slope = 2 * ((double)x[i] - (double)sums[c] / n) * (double)from[c];
            to[i] = (dx->add ? to[i] : 0) + (float)slope;
        }
    }
    if (call->d_in[SUMS].data)
        squares_to_sums(call);
}

static size_t squares_scratch(const struct op_call *call, bool back)
{
    (void)back;
    return (size_t)call->out[0].count * sizeof(double);
}

static void squares_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    ret->flop = (back ? 5.0 : 3.0) * (double)call->in[X].count;
    ret->bytes = cost_bytes(call, back);
}

const struct op_row op_batch_norm_squares = {
    .name = "batch_norm_squares",
    .attributes = batch_norm_attributes,
    .min_in = 2,
    .max_in = 2,
    .shape = squares_shape,
    .keeps = OP_IN(X) | OP_IN(SUMS),
    .differentiable = OP_IN(X) | OP_IN(SUMS),
    .scratch_bytes = squares_scratch,
    .cost = squares_cost,
    .forward = squares_forward,
    .backward = squares_backward,
};

/* ---- the result ---- */

static int norm_shape(struct op_signature *s, struct error *err)
{
    const struct batch_norm_attributes *a = s->attributes;
    int rc = rule_channels(s, err);
    int64_t channels = rc ? 0 : s->in[X]->shape[a->dim].fixed;
    for (int i = SUMS; i < INPUTS && !rc; i++)
        rc = rule_vector(s, i, dim_fixed(i == SUMS ? channels + 1 : channels), err);
    if (!rc && !(a->epsilon > 0 && isfinite(a->epsilon)))
        rc = error_set(err, WK_EINVAL, "epsilon is %g; it takes a number above 0",
                       (double)a->epsilon);
    if (!rc)
        (void)rule_as(s, X);
    return rc;
}

/* Per channel: result = (x - mean) * rstd * weight + bias. */
struct normal {
    double mean, rstd, weight, bias;
};

static double element_or(const struct op_tensor *vector, int64_t i, double missing)
{
    return vector->data ? (double)((const float *)vector->data)[i] : missing;
}

static struct normal normal_of(const struct op_call *call, int64_t c)
{
    double epsilon = (double)attributes_of(call->node)->epsilon;
    struct normal normal = {.weight = element_or(&call->in[WEIGHT], c, 1),
                            .bias = element_or(&call->in[BIAS], c, 0)};
    if (!call->pass->trains) {
        normal.mean = element_or(&call->in[MEAN], c, 0);
        normal.rstd = 1 / sqrt(element_or(&call->in[VARIANCE], c, 1) + epsilon);
        return normal;
    }
    double n = count_of(call);
    normal.mean = element_or(&call->in[SUMS], c, 0) / n;
    normal.rstd = 1 / sqrt(element_or(&call->in[SQUARES], c, 0) / n + epsilon);
    return normal;
}

static struct normal *normals_of(const struct op_call *call, int64_t channels, uint8_t **room)
{
    struct normal *normals = room_take(room, channels, sizeof(*normals));
    for (int64_t c = 0; c < channels; c++)
        normals[c] = normal_of(call, c);
    return normals;
}

static void norm_forward(const struct op_call *call)
{
    const struct kernel_table *kernels = call->pass->kernels;
    struct channel_walk w = walk_of(call);
    uint8_t *room = call->scratch;
    const struct normal *normals = normals_of(call, w.channels, &room);
    for (struct channel_span s; channel_next(&w, &s);) {
        float x_room[TILE_MAX], y_room[TILE_MAX];
        const float *x = tile_read(kernels, &call->in[X], s.at, s.count, x_room);
        float *y = tile_target(&call->out[0], s.at, y_room);
        for (int64_t i = 0; i < s.count; i++) {
            const struct normal *n = &normals[s.channel + i * s.step];
            y[i] = (float)(((double)x[i] - n->mean) * n->rstd * n->weight + n->bias);
        }
        tile_store(kernels, &call->out[0], s.at, s.count, y);
    }
}

/* Sums over each channel of dy, then of dy (x - mean). dx on the way. */
static void norm_walk(const struct op_call *call, const struct normal *normals, double *sums)
{
    const struct op_tensor *dx = &call->d_in[X];
    struct channel_walk w = walk_of(call);
    for (struct channel_span s; channel_next(&w, &s);) {
        float room[TILE_MAX];
        const float *x = tile_read(call->pass->kernels, &call->in[X], s.at, s.count, room);
        const float *dy = (const float *)call->d_out.data + s.at;
        float *to = dx->data ? (float *)dx->data + s.at : NULL;
        for (int64_t i = 0; i < s.count; i++) {
            int64_t c = s.channel + i * s.step;
            sums[c] += (double)dy[i];
            sums[w.channels + c] += (double)dy[i] * ((double)x[i] - normals[c].mean);
            if (to)
                to[i] = (dx->add ? to[i] : 0) +
                        (float)((double)dy[i] * normals[c].rstd * normals[c].weight);
        }
    }
}

/* The bias alone needs nothing but dy. */
static void bias_back(const struct op_call *call)
{
    struct channel_walk w = walk_of(call);
    double *sums = zeros_in(call->scratch, w.channels);
    for (struct channel_span s; channel_next(&w, &s);) {
        const float *dy = (const float *)call->d_out.data + s.at;
        for (int64_t i = 0; i < s.count; i++)
            sums[s.channel + i * s.step] += (double)dy[i];
    }
    for (int64_t c = 0; c < w.channels; c++)
        put_gradient(&call->d_in[BIAS], c, sums[c]);
}

static unsigned norm_keeps(const struct node *node)
{
    bool reads = false;
    for (int i = X; i <= WEIGHT; i++)
        reads |= node->in[i] && node->in[i]->trains;
    return reads ? node->row->keeps : 0;
}

/* With r = rstd: dmean = -sum(dy) w r, dvariance = -sum(dy (x - mean)) w r^3 / 2. Both are
 * quotients by n. */
static void norm_backward(const struct op_call *call)
{
    bool reads = false;
    for (int i = X; i <= WEIGHT; i++)
        reads |= call->d_in[i].data != NULL;
    if (!reads) {
        bias_back(call);
        return;
    }
    int64_t channels = call->in[X].shape[attributes_of(call->node)->dim];
    uint8_t *room = call->scratch;
    const struct normal *normals = normals_of(call, channels, &room);
    double n = count_of(call), dn = 0, *sums = zeros_in(room, 2 * channels);
    norm_walk(call, normals, sums);
    for (int64_t c = 0; c < channels; c++) {
        double r = normals[c].rstd, weight = normals[c].weight, dy = sums[c];
        double along = sums[channels + c], square = element_or(&call->in[SQUARES], c, 0);
        double dmean = -dy * weight * r, dvariance = -along * weight * r * r * r / 2;
        dn -= (dmean * normals[c].mean + dvariance * square / n) / n;
        put_gradient(&call->d_in[WEIGHT], c, along * r);
        put_gradient(&call->d_in[BIAS], c, dy);
        put_gradient(&call->d_in[SUMS], c, dmean / n);
        put_gradient(&call->d_in[SQUARES], c, dvariance / n);
    }
    put_gradient(&call->d_in[SUMS], channels, dn);
}

static size_t norm_scratch(const struct op_call *call, bool back)
{
    size_t channels = (size_t)call->in[X].shape[attributes_of(call->node)->dim];
    return room_rounded(channels * sizeof(struct normal)) +
           (back ? 2 * channels * sizeof(double) : 0);
}

static void norm_cost(const struct op_call *call, bool back, struct op_cost *ret)
{
    cost_elements(call, back, back ? 7 : 4, ret);
}

const struct op_row op_batch_norm = {
    .name = "batch_norm",
    .attributes = batch_norm_attributes,
    .min_in = INPUTS,
    .max_in = INPUTS,
    .optional = OP_IN(WEIGHT) | OP_IN(BIAS),
    .shape = norm_shape,
    .keeps = OP_IN(X) | OP_IN(SUMS) | OP_IN(SQUARES) | OP_IN(WEIGHT),
    .keeps_of = norm_keeps,
    .differentiable = OP_IN(X) | OP_IN(SUMS) | OP_IN(SQUARES) | OP_IN(WEIGHT) | OP_IN(BIAS),
    .trained_in = OP_IN(SUMS) | OP_IN(SQUARES),
    .evaluated_in = OP_IN(MEAN) | OP_IN(VARIANCE),
    .decode_refusal = rule_decodes,
    .scratch_bytes = norm_scratch,
    .cost = norm_cost,
    .forward = norm_forward,
    .backward = norm_backward,
};

/* ---- running statistics ---- */

enum { RUNNING, RUNNING_SUMS, RUNNING_SQUARES };

static int running_shape(struct op_signature *s, struct error *err)
{
    const struct batch_norm_attributes *a = s->attributes;
    int rc = rule_dims(s, RUNNING, (int[]){1, 1}, err);
    struct dim channels = s->in[RUNNING]->shape[0];
    if (!rc)
        rc = rule_vector(s, RUNNING_SUMS, dim_fixed(channels.fixed + 1), err);
    if (!rc)
        rc = rule_vector(s, RUNNING_SQUARES, channels, err);
    if (!rc && !(a->momentum > 0 && a->momentum <= 1))
        rc = error_set(err, WK_EINVAL, "momentum is %g; it takes a share above 0, at most 1",
                       (double)a->momentum);
    if (!rc)
        (void)rule_as(s, RUNNING);
    return rc;
}

/* Without any samples it stays; a variance of one element is 0. */
static void running_forward(const struct op_call *call)
{
    const struct batch_norm_attributes *a = attributes_of(call->node);
    const float *running = call->in[RUNNING].data, *sums = call->in[RUNNING_SUMS].data;
    const float *squares = call->in[RUNNING_SQUARES].data;
    int64_t channels = call->out[0].count;
    double n = (double)sums[channels], less = n > 1 ? n - 1 : 1;
    float *to = call->out[0].data;
    for (int64_t c = 0; c < channels; c++) {
        double now = a->variance ? (double)squares[c] / less : (double)sums[c] / (n > 0 ? n : 1);
        double step = n > 0 ? (double)a->momentum * (now - (double)running[c]) : 0;
        to[c] = (float)((double)running[c] + step);
    }
}

const struct op_row op_batch_norm_running = {
    .name = "batch_norm_running",
    .attributes = batch_norm_attributes,
    .min_in = 3,
    .max_in = 3,
    .shape = running_shape,
    .forward = running_forward,
};

/* ---- the call ---- */

/* A node of one of the rows. */
static struct wk_tensor *add_part(const struct op_row *row,
                                  const struct batch_norm_attributes *attributes,
                                  struct wk_tensor *const *in, int n_in)
{
    struct node_request request = {.row = row,
                                   .attributes = attributes,
                                   .attributes_bytes = sizeof(*attributes),
                                   .n_in = n_in};
    for (int i = 0; i < n_in; i++)
        request.in[i] = in[i];
    return graph_add(&request);
}

/* False, with a sentence, if that cannot be. */
static bool update_running(const struct wk_batch_norm *norm, struct batch_norm_attributes a,
                           struct wk_tensor *sums, struct wk_tensor *squares)
{
    struct wk_tensor *buffers[2] = {norm->mean, norm->variance}, *next = NULL;
    for (int i = 0; i < 2; i++) {
        struct wk_tensor *in[3] = {buffers[i], sums, squares};
        a.variance = i == 1;
        next = add_part(&op_batch_norm_running, &a, in, 3);
        if (next)
            wk_graph_update(next->graph, buffers[i], next);
    }
    return next && !next->graph->error.code;
}

/* False, with a sentence, for what is no buffer. */
static bool is_buffer(const struct wk_tensor *x, const struct wk_tensor *tensor, const char *what)
{
    bool is = tensor && tensor->kind == TENSOR_BUFFER;
    if (!is)
        graph_refuse(x->graph, "batch_norm: its %s is a buffer (wk_graph_buffer)", what);
    return is;
}

struct wk_tensor *wk_op_batch_norm(struct wk_tensor *x, const struct wk_batch_norm *norm)
{
    static const struct wk_batch_norm none;
    norm = norm ? norm : &none;
    struct batch_norm_attributes a = {.dim = norm->channels ? norm->channels : 1,
                                      .epsilon = norm->epsilon > 0 ? (float)norm->epsilon : 1e-5f,
                                      .momentum =
                                          norm->momentum > 0 ? (float)norm->momentum : 0.1f};
    if (!x || !is_buffer(x, norm->mean, "mean") || !is_buffer(x, norm->variance, "variance"))
        return NULL;
    struct wk_tensor *in[INPUTS] = {[X] = x};
    in[SUMS] = add_part(&op_batch_norm_sums, &a, in, 1);
    if (norm->synchronised)
        in[SUMS] = wk_op_all_reduce(in[SUMS], "dp");
    in[SQUARES] = add_part(&op_batch_norm_squares, &a, in, 2);
    if (norm->synchronised)
        in[SQUARES] = wk_op_all_reduce(in[SQUARES], "dp");
    in[WEIGHT] = norm->weight;
    in[BIAS] = norm->bias;
    in[MEAN] = norm->mean;
    in[VARIANCE] = norm->variance;
    struct wk_tensor *result = add_part(&op_batch_norm, &a, in, INPUTS);
    return result && update_running(norm, a, in[SUMS], in[SQUARES]) ? result : NULL;
}
