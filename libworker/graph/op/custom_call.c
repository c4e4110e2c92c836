/* Calls of the program's functions (worker/custom_op.h). Values in bf16 and f16 become f32 in
 * scratch memory, before the program's own part of it. A function for the host runs inside a
 * launch. One for a device with kernels of its own enqueues them, and so does what is around it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/device/kernels.h"
#include "libworker/device/native.h"
#include "libworker/graph/launches.h"
#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/custom.h"
#include "libworker/graph/op/room.h"
#include "libworker/graph/op/tile.h"

enum { INPUTS = OP_IN(NODE_INPUTS_MAX) - 1, OUTPUTS = OP_OUT(NODE_OUTPUTS_MAX) - OP_OUT(0) };

static const struct custom *custom_of(const struct node *node)
{
    return (const struct custom *)(const void *)node->row;
}

static const struct wk_op_functions *functions_for(const struct custom *custom, const char *device)
{
    const struct wk_op_functions *f = custom->op.functions;
    for (int i = 0; i < WK_OP_DEVICES_MAX && f[i].device; i++) {
        if (!strcmp(f[i].device, device))
            return &f[i];
    }
    return NULL;
}

static bool enqueues(const struct op_call *call)
{
    return call->queue && device_has_kernels(queue_device(call->queue));
}

static bool is_converted(const struct custom *custom, const struct op_tensor *x, unsigned bit)
{
    return tensor_is_low(x) && !(custom->op.as_kept & bit);
}

/* Of tensors that the function reads or writes, the bits. */
static unsigned used_by(const struct custom *custom, bool backward)
{
    return backward ? custom->row.keeps : (unsigned)INPUTS | (unsigned)OUTPUTS;
}

static struct wk_op_tensor view_of(const struct op_tensor *x)
{
    struct wk_op_tensor view = {
        .data = x->data, .type = x->type, .dims = x->dims, .count = x->count};
    memcpy(view.shape, x->shape, sizeof(view.shape));
    return view;
}

static struct wk_op_tensor view_of_used(const struct custom *custom, const struct op_tensor *x,
                                        unsigned bit, unsigned used)
{
    struct wk_op_tensor view = view_of(x);
    if (!(used & bit))
        view.data = NULL;
    if (is_converted(custom, x, bit))
        view.type = WK_F32;
    return view;
}

/* What the function gets, but for conversions and scratch memory. */
static void describe_call(const struct op_call *call, bool backward, struct wk_op_call *ret)
{
    const struct custom *custom = custom_of(call->node);
    const struct op_pass *pass = call->pass;
    unsigned used = used_by(custom, backward);
    *ret = (struct wk_op_call){.user = custom->op.user};
    if (pass) {
        ret->samples = pass->samples;
        ret->first_sample = pass->first_sample;
        ret->past = pass->past;
        ret->trains = pass->trains;
    }
    for (int i = 0; i < call->node->n_in; i++) {
        ret->in[i] = view_of_used(custom, &call->in[i], OP_IN(i), used);
        if (backward)
            ret->d_in[i] = view_of(&call->d_in[i]);
    }
    for (int i = 0; i < call->node->n_out; i++)
        ret->out[i] = view_of_used(custom, &call->out[i], OP_OUT(i), used);
    if (backward)
        ret->d_out = view_of(&call->d_out);
}

static void enqueue_conversion(const struct op_call *call, const char *name,
                               const struct op_tensor *x, float *wide)
{
    struct type_args args = {wide, x->data, x->type, x->count};
    queue_launch(call->queue,
                 &(struct device_launch){.name = name, .args = &args, .args_bytes = sizeof(args)});
}

static void widen_value(const struct op_call *call, const struct op_tensor *x, float *wide)
{
    if (enqueues(call))
        enqueue_conversion(call, GRAPH_WIDEN, x, wide);
    else
        call->pass->kernels->widen(wide, x->type, x->data, (size_t)x->count);
}

static void narrow_value(const struct op_call *call, const struct op_tensor *x, float *wide)
{
    if (enqueues(call))
        enqueue_conversion(call, GRAPH_NARROW, x, wide);
    else
        call->pass->kernels->narrow(x->data, x->type, wide, (size_t)x->count);
}

/* The function adds to a gradient. */
static void zero_gradient(const struct op_call *call, const struct op_tensor *gradient)
{
    if (!enqueues(call))
        tile_zero(call->pass->kernels, gradient);
    else if (gradient->data && !gradient->add)
        queue_fill(call->queue, gradient->data, 0, (size_t)gradient->count * sizeof(float));
}

/* x is read and written in f32 beside its memory, which is read if the function reads it. */
static void widen(const struct op_call *call, const struct op_tensor *x, bool reads,
                  struct wk_op_tensor *view, uint8_t **room)
{
    view->data = room_take(room, x->count, sizeof(float));
    if (reads)
        widen_value(call, x, view->data);
}

static void widen_used(const struct op_call *call, bool backward, struct wk_op_call *view,
                       uint8_t **room)
{
    const struct custom *custom = custom_of(call->node);
    unsigned used = used_by(custom, backward);
    for (int i = 0; i < call->node->n_in; i++) {
        if ((used & OP_IN(i)) && is_converted(custom, &call->in[i], OP_IN(i)))
            widen(call, &call->in[i], true, &view->in[i], room);
    }
    for (int i = 0; i < call->node->n_out; i++) {
        if ((used & OP_OUT(i)) && is_converted(custom, &call->out[i], OP_OUT(i)))
            widen(call, &call->out[i], backward, &view->out[i], room);
    }
}

static size_t widened_bytes(const struct op_call *call, bool backward)
{
    const struct custom *custom = custom_of(call->node);
    unsigned used = used_by(custom, backward);
    size_t bytes = 0;
    for (int i = 0; i < call->node->n_in; i++) {
        if ((used & OP_IN(i)) && is_converted(custom, &call->in[i], OP_IN(i)))
            bytes += room_rounded((size_t)call->in[i].count * sizeof(float));
    }
    for (int i = 0; i < call->node->n_out; i++) {
        if ((used & OP_OUT(i)) && is_converted(custom, &call->out[i], OP_OUT(i)))
            bytes += room_rounded((size_t)call->out[i].count * sizeof(float));
    }
    return bytes;
}

size_t custom_scratch_bytes(const struct op_call *call, bool backward)
{
    const struct custom *custom = custom_of(call->node);
    size_t bytes = widened_bytes(call, backward);
    struct wk_op_call view;
    if (!custom->op.scratch_bytes)
        return bytes;
    describe_call(call, backward, &view);
    return bytes + custom->op.scratch_bytes(&view, backward);
}

/* Call the program's function. False: it failed, and so did the pass. */
static bool run_function(const struct op_call *call, bool backward, struct wk_op_call *view)
{
    const struct custom *custom = custom_of(call->node);
    const struct wk_op_functions *functions = functions_for(custom, call->pass->device);
    uint8_t *room = call->scratch;
    describe_call(call, backward, view);
    widen_used(call, backward, view, &room);
    view->scratch = room;
    if (enqueues(call)) /* after all that is enqueued so far (device/replay.h) */
        view->stream = queue_native(call->queue).stream;
    int rc = backward ? functions->backward(view) : functions->forward(view);
    if (!rc)
        return true;
    const char *block = call->node->out[0]->graph->blocks[call->node->block];
    char code[32];
    (void)snprintf(code, sizeof(code), "it returned %d", rc);
    queue_fail(call->queue, WK_EINVAL, "%s%s%s: %s failed: %s", custom->row.name,
               *block ? " in block " : "", block, backward ? "backward" : "forward",
               *view->text ? view->text : code);
    return false;
}

void custom_forward(const struct op_call *call)
{
    const struct custom *custom = custom_of(call->node);
    struct wk_op_call view;
    if (!call->out[0].count || !run_function(call, false, &view))
        return;
    for (int i = 0; i < call->node->n_out; i++) {
        const struct op_tensor *out = &call->out[i];
        if (is_converted(custom, out, OP_OUT(i)))
            narrow_value(call, out, view.out[i].data);
    }
}

void custom_backward(const struct op_call *call)
{
    struct wk_op_call view;
    for (int i = 0; i < call->node->n_in; i++)
        zero_gradient(call, &call->d_in[i]);
    if (call->d_out.count)
        (void)run_function(call, true, &view);
}

void custom_cost(const struct op_call *call, bool backward, struct op_cost *ret)
{
    cost_elements(call, backward, custom_of(call->node)->op.flop * (backward ? 2 : 1), ret);
}

bool node_is_custom(const struct node *node)
{
    return node->row->forward == custom_forward;
}

int custom_check_device(const struct node *node, const char *device, struct error *err)
{
    if (!node_is_custom(node) || functions_for(custom_of(node), device))
        return 0;
    return error_set(err, WK_EUNSUPPORTED, "%s has no functions for the device %s; it has for %s",
                     node->row->name, device, custom_of(node)->op.functions[0].device);
}

int wk_op_fail(struct wk_op_call *call, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(call->text, sizeof(call->text), format, args);
    va_end(args);
    return WK_EINVAL;
}
