/* Operations of the program's own, in the table's tests: that of docs/graph.md, one that saves
 * values and needs scratch memory, and one that saves numbers of another type. */
#include <math.h>

#include <worker/custom_op.h>

#include "tests/docs/prelu.h"
#include "tests/numeric/graph/harness.h"

static struct wk_tensor *build_prelu(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return prelu(in[0], in[1]);
}

static void prelu_reference(const struct reference *r)
{
    int64_t width = r->call->in[1].count;
    for (int64_t i = 0; i < r->call->out[0].count; i++) {
        double x = r->in[0][i];
        r->out[i] = x < 0 ? r->in[1][i % width] * x : x;
    }
}

/* a sigmoid(b), of which the sigmoid is saved. */
static int gate_forward(struct wk_op_call *call)
{
    const float *a = call->in[0].data, *b = call->in[1].data;
    float *y = call->out[0].data, *share = call->out[1].data;
    for (int64_t i = 0; i < call->out[0].count; i++) {
        share[i] = 1 / (1 + expf(-b[i]));
        y[i] = a[i] * share[i];
    }
    return 0;
}

static int gate_backward(struct wk_op_call *call)
{
    const float *a = call->in[0].data, *share = call->out[1].data, *dy = call->d_out.data;
    float *da = call->d_in[0].data, *db = call->d_in[1].data, *slope = call->scratch;
    if (call->in[1].data || call->out[0].data)
        return wk_op_fail(call, "it got what it does not keep");
    for (int64_t i = 0; i < call->d_out.count; i++)
        slope[i] = share[i] * (1 - share[i]);
    for (int64_t i = 0; i < call->d_out.count; i++) {
        if (da)
            da[i] += share[i] * dy[i];
        if (db)
            db[i] += a[i] * slope[i] * dy[i];
    }
    return 0;
}

static size_t gate_scratch(const struct wk_op_call *call, bool backward)
{
    return backward ? (size_t)call->d_out.count * sizeof(float) : 0;
}

static struct wk_tensor *gate(const struct op_case *c, struct wk_tensor *const *in)
{
    struct wk_custom_op op = {.name = "gate",
                              .functions = {{"cpu", gate_forward, gate_backward}},
                              .result = {.like = in[0]},
                              .saved = {{.like = in[1]}},
                              .n_saved = 1,
                              .keeps = WK_OP_IN(0) | WK_OP_OUT(1),
                              .flop = 4,
                              .scratch_bytes = gate_scratch};
    (void)c;
    return wk_op_custom(in, 2, &op);
}

static void gate_reference(const struct reference *r)
{
    for (int64_t i = 0; i < r->call->out[0].count; i++)
        r->out[i] = r->in[0][i] / (1 + exp(-r->in[1][i]));
}

/* The largest of each row, whose place is saved. */
static int largest_forward(struct wk_op_call *call)
{
    const float *x = call->in[0].data;
    float *y = call->out[0].data;
    int32_t *place = call->out[1].data;
    int64_t n = call->in[0].shape[call->in[0].dims - 1];
    for (int64_t r = 0; r < call->out[0].count; r++) {
        place[r] = 0;
        for (int32_t i = 1; i < n; i++)
            place[r] = x[r * n + i] > x[r * n + place[r]] ? i : place[r];
        y[r] = x[r * n + place[r]];
    }
    return 0;
}

static int largest_backward(struct wk_op_call *call)
{
    const float *dy = call->d_out.data;
    const int32_t *place = call->out[1].data;
    float *dx = call->d_in[0].data;
    int64_t n = call->in[0].shape[call->in[0].dims - 1];
    for (int64_t r = 0; dx && r < call->d_out.count; r++)
        dx[r * n + place[r]] += dy[r];
    return 0;
}

static struct wk_tensor *largest(const struct op_case *c, struct wk_tensor *const *in)
{
    struct wk_shape rows = WK_SHAPE(WK_SAMPLES, WK_LENGTH);
    struct wk_custom_op op = {.name = "largest",
                              .functions = {{"cpu", largest_forward, largest_backward}},
                              .result = {.shape = rows},
                              .saved = {{.shape = rows, .type = WK_I32}},
                              .n_saved = 1,
                              .keeps = WK_OP_OUT(1)};
    (void)c;
    return wk_op_custom(in, 1, &op);
}

static void largest_reference(const struct reference *r)
{
    int64_t n = r->call->in[0].shape[2];
    for (int64_t i = 0; i < r->call->out[0].count; i++) {
        r->out[i] = r->in[0][i * n];
        for (int64_t k = 1; k < n; k++)
            r->out[i] = fmax(r->out[i], r->in[0][i * n + k]);
    }
}

#define ROW WK_SHAPE(WK_SAMPLES, WK_LENGTH, 7)

const struct op_case cases_custom[] = {
    {"prelu", "of the documents", build_prelu, .in = {{ROW}, {WK_SHAPE(7), .param = true}},
     .reference = prelu_reference, .roundings = 32},
    {"gate", "saves", gate, .in = {{ROW}, {ROW}}, .reference = gate_reference},
    {"gate", "a matrix", gate, .in = {{WK_SHAPE(WK_SAMPLES, 4200)}, {WK_SHAPE(WK_SAMPLES, 4200)}},
     .reference = gate_reference},
    {"largest", "saves numbers", largest, .in = {{ROW}}, .reference = largest_reference},
    {0},
};
