/* Building an operation of the program's own: each has a row of its own, which calls the program's
 * functions (worker/custom_op.h).
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "libworker/graph/op/custom.h"
#include "libworker/graph/op/rule.h"

_Static_assert((int)WK_OP_INPUTS_MAX == (int)NODE_INPUTS_MAX, "the same inputs");
_Static_assert(1 + (int)WK_OP_SAVED_MAX <= (int)NODE_OUTPUTS_MAX, "outputs of its own");
enum { ROWS_IN = OP_IN(1), ROWS_OUT = OP_OUT(1) };
_Static_assert(WK_OP_IN(1) == ROWS_IN && WK_OP_OUT(1) == ROWS_OUT, "the same bits");

static int check_functions(const struct wk_custom_op *op, struct error *err)
{
    const struct wk_op_functions *f = op->functions;
    if (!f[0].device)
        return error_set(err, WK_EINVAL, "no functions; it takes some for \"cpu\"");
    for (int i = 0; i < WK_OP_DEVICES_MAX && f[i].device; i++) {
        if (!f[i].forward)
            return error_set(err, WK_EINVAL, "no forward function for the device %s", f[i].device);
        if (!f[i].backward != !f[0].backward)
            return error_set(err, WK_EINVAL,
                             "a backward function for the device %s and none for %s",
                             f[f[i].backward ? i : 0].device, f[f[i].backward ? 0 : i].device);
        for (int k = 0; k < i; k++) {
            if (!strcmp(f[i].device, f[k].device))
                return error_set(err, WK_EINVAL, "functions for the device %s twice", f[i].device);
        }
    }
    return 0;
}

static int check_bits(const struct op_signature *s, const struct wk_custom_op *op,
                      struct error *err)
{
    unsigned in = OP_IN(s->n_in) - 1, out = OP_OUT(1 + op->n_saved) - OP_OUT(0);
    if (op->keeps != WK_OP_NOTHING && (op->keeps & ~(in | out)))
        return error_set(err, WK_EINVAL, "keeps is %#x; there are %d inputs and %d saved",
                         op->keeps, s->n_in, op->n_saved);
    if (op->constants & ~in)
        return error_set(err, WK_EINVAL, "constants is %#x; there are %d inputs", op->constants,
                         s->n_in);
    if (op->as_kept & ~(in | out))
        return error_set(err, WK_EINVAL, "as_kept is %#x; there are %d inputs and %d saved",
                         op->as_kept, s->n_in, op->n_saved);
    return 0;
}

/* How often the samples are a factor of its size. */
static int samples_in(const struct wk_tensor *x)
{
    int samples = 0;
    for (int i = 0; i < x->dims; i++)
        samples += x->shape[i].samples;
    return samples;
}

static int read_value(const struct op_signature *s, const struct wk_op_value *value,
                      struct wk_tensor *ret, struct error *err)
{
    if (!wk_dtype_bytes(value->type))
        return error_set(err, WK_EINVAL, "a value of type %d", (int)value->type);
    ret->type = value->type;
    if (!value->like)
        return shape_read(value->shape, ret, err);
    if (value->like->graph != s->in[0]->graph)
        return error_set(err, WK_EINVAL, "it has the shape of a tensor of another graph");
    ret->dims = value->like->dims;
    memcpy(ret->shape, value->like->shape, sizeof(ret->shape));
    return 0;
}

static int check_result(const struct op_signature *s, struct error *err)
{
    char result[TENSOR_TEXT_MAX], input[TENSOR_TEXT_MAX];
    const struct wk_tensor *out = &s->out[0];
    if (out->type != WK_F32)
        return error_set(err, WK_EINVAL, "the result is %s; results are f32",
                         tensor_text(out, result));
    for (int i = 0; i < s->n_in; i++) {
        if (samples_in(s->in[i]) != samples_in(out) && samples_in(s->in[i]) > 0)
            return error_set(
                err, WK_EINVAL,
                "the result is %s and input %d is %s; a result counts the samples as its inputs do",
                tensor_text(out, result), i, tensor_text(s->in[i], input));
    }
    return 0;
}

static int custom_shape(struct op_signature *s, struct error *err)
{
    const struct wk_custom_op *op = &((const struct custom *)(const void *)s->row)->op;
    if (op->n_saved < 0 || op->n_saved > WK_OP_SAVED_MAX)
        return error_set(err, WK_EINVAL, "%d saved values; it takes 0 to %d", op->n_saved,
                         WK_OP_SAVED_MAX);
    int rc = check_functions(op, err);
    if (!rc)
        rc = check_bits(s, op, err);
    if (!rc)
        rc = read_value(s, &op->result, &s->out[0], err);
    for (int i = 0; i < op->n_saved && !rc; i++)
        rc = read_value(s, &op->saved[i], &s->out[1 + i], err);
    s->n_out = 1 + op->n_saved;
    if (rc)
        return rc;
    return check_result(s, err);
}

/* Floats that the program calls no constants. */
static unsigned with_gradient(const struct wk_custom_op *op, struct wk_tensor *const *in, int n)
{
    unsigned bits = 0;
    for (int i = 0; i < n; i++) {
        if (in[i] && rule_is_value(in[i]))
            bits |= OP_IN(i);
    }
    return bits & ~op->constants;
}

static unsigned kept_by(const struct wk_custom_op *op, int n)
{
    if (op->keeps)
        return op->keeps & ~WK_OP_NOTHING;
    int saved = op->n_saved > 0 && op->n_saved <= WK_OP_SAVED_MAX ? op->n_saved : 0;
    return (OP_IN(n) - 1) | (OP_OUT(1 + saved) - OP_OUT(0));
}

/* The operation in the graph's memory, or NULL with a sentence. */
static struct custom *custom_new(struct wk_graph *graph, const struct wk_custom_op *op,
                                 struct wk_tensor *const *in, int n)
{
    struct custom custom = {.op = *op};
    custom.row = (struct op_row){
        .name = graph_name(graph, "wk_op_custom", op->name),
        .min_in = 1,
        .max_in = NODE_INPUTS_MAX,
        .cuts = OP_CUT_SAMPLES | (op->each_position ? OP_CUT_LENGTH : 0u),
        .shape = custom_shape,
        .keeps = kept_by(op, n),
        .differentiable = with_gradient(op, in, n),
        .result = RESULT_WIDE,
        .any_type = true,
        .scratch_bytes = custom_scratch_bytes,
        .cost = custom_cost,
        .forward = custom_forward,
        .backward = op->functions[0].backward ? custom_backward : NULL,
    };
    return custom.row.name ? graph_copy(graph, &custom, sizeof(custom)) : NULL;
}

/* The graph of the first input that there is. */
static struct wk_graph *graph_of_inputs(struct wk_tensor *const *in, int n)
{
    struct wk_graph *graph = NULL;
    for (int i = 0; i < n && !graph; i++)
        graph = in[i] ? in[i]->graph : NULL;
    return graph;
}

struct wk_tensor *wk_op_custom(struct wk_tensor *const *in, int n, const struct wk_custom_op *op)
{
    struct node_request request = {.n_in = n};
    int read = n > NODE_INPUTS_MAX ? 1 : n; /* too many are refused by the graph of the first */
    struct wk_graph *graph = graph_of_inputs(in, read);
    if (!op)
        return graph_refuse(graph, "wk_op_custom: the operation is NULL");
    if (op->free_user && (!graph || !graph_own(graph, op->free_user, op->user)))
        op->free_user(op->user);
    if (!graph || graph->error.code)
        return NULL;
    struct custom *custom = custom_new(graph, op, in, read);
    if (!custom)
        return NULL;
    graph->has_custom = true;
    request.row = &custom->row;
    for (int i = 0; i < read; i++)
        request.in[i] = in[i];
    return graph_add(&request);
}

struct wk_tensor *wk_op_refuse(struct wk_tensor *x, const char *format, ...)
{
    struct error err = {0};
    va_list args;
    if (!x)
        return NULL;
    va_start(args, format);
    (void)vsnprintf(err.text, sizeof(err.text), format, args);
    va_end(args);
    return graph_refuse(x->graph, "%s", err.text);
}
