/* Building a graph: inputs, parameters, blocks and nodes, with a sentence for each mistake. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/array.h"
#include "libworker/graph/graph.h"
#include "libworker/graph/op.h"

enum {
    ARENA_MAX_BYTES = 1 << 28,
    NAME_MAX_BYTES = 96,
    SIZE_MAX_FIXED = 1 << 30, /* of one dimension */
    ELEMENTS_MAX = 1 << 30,   /* of the fixed part of a shape: kernels count in int32 below */
};

struct wk_graph *wk_graph_new(const char *name)
{
    struct wk_graph *graph = calloc(1, sizeof(*graph));
    if (!graph)
        return NULL;
    arena_init(&graph->arena, ARENA_MAX_BYTES);
    graph->name = arena_strdup(&graph->arena, name ? name : "graph");
    graph->blocks = array_reserve_or_null(NULL, 0, &graph->blocks_capacity, sizeof(char *));
    if (!graph->name || !graph->blocks) {
        wk_graph_free(graph);
        return NULL;
    }
    graph->blocks[graph->n_blocks++] = "";
    return graph;
}

void wk_graph_free(struct wk_graph *graph)
{
    if (!graph)
        return;
    for (const struct graph_owned *owned = graph->owned; owned; owned = owned->next)
        owned->free(owned->arg);
    free(graph->tensors);
    free(graph->nodes);
    free(graph->params);
    free(graph->buffers);
    free(graph->blocks);
    arena_fini(&graph->arena);
    free(graph);
}

const char *wk_graph_error(const struct wk_graph *graph)
{
    return graph ? graph->error.text : "no memory for a graph";
}

struct wk_tensor *graph_refuse(struct wk_graph *graph, const char *fmt, ...)
{
    if (!graph || graph->error.code)
        return NULL;
    char text[sizeof(graph->error.text)];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    (void)error_set(&graph->error, WK_EINVAL, "%s", text);
    return NULL;
}

static void refuse_memory(struct wk_graph *graph)
{
    if (!graph->error.code)
        (void)error_set(&graph->error, WK_ENOMEM, "no memory for the graph %s", graph->name);
}

/* True if nothing can be added: an earlier call failed, or there is no graph. */
static bool stopped(const struct wk_graph *graph)
{
    return !graph || graph->error.code;
}

/* *array with a place for one more. False, with a sentence, without memory. */
static bool grow(struct wk_graph *graph, void **array, int count, int *capacity, size_t each)
{
    void *grown = array_reserve_or_null(*array, count, capacity, each);
    if (grown)
        *array = grown;
    else
        refuse_memory(graph);
    return grown;
}

static struct wk_tensor *tensor_new(struct wk_graph *graph, const struct wk_tensor *like)
{
    struct wk_tensor *tensor = arena_copy(&graph->arena, like, sizeof(*like));
    if (!tensor) {
        refuse_memory(graph);
        return NULL;
    }
    if (!grow(graph, (void **)&graph->tensors, graph->n_tensors, &graph->tensors_capacity,
              sizeof(struct wk_tensor *)))
        return NULL;
    tensor->graph = graph;
    tensor->id = graph->n_tensors;
    tensor->block = graph->n_blocks - 1;
    graph->tensors[graph->n_tensors++] = tensor;
    return tensor;
}

int shape_read(struct wk_shape shape, struct wk_tensor *ret, struct error *err)
{
    int64_t fixed = 1;
    if (shape.dims < 0 || shape.dims > WK_TENSOR_DIMS_MAX)
        return error_set(err, WK_EINVAL, "a tensor has at most %d dimensions, not %d",
                         WK_TENSOR_DIMS_MAX, shape.dims);
    ret->dims = shape.dims;
    for (int i = 0; i < shape.dims; i++) {
        ret->shape[i] = dim_of(shape.size[i]);
        int64_t size = ret->shape[i].fixed;
        if (size < 1 || size > SIZE_MAX_FIXED)
            return error_set(err, WK_EINVAL, "dimension %d is %lld; sizes are 1 to %d", i,
                             (long long)shape.size[i], SIZE_MAX_FIXED);
        fixed *= size;
        if (fixed > ELEMENTS_MAX)
            return error_set(err, WK_EINVAL, "more than %d elements", ELEMENTS_MAX);
    }
    return 0;
}

/* The shape as dimensions. False, with a sentence, for a size that no tensor has. */
static bool read_shape(struct wk_graph *graph, const char *what, struct wk_shape shape,
                       struct wk_tensor *ret)
{
    struct error err = {0};
    if (!shape_read(shape, ret, &err))
        return true;
    graph_refuse(graph, "%s: %s", what, err.text);
    return false;
}

void *graph_copy(struct wk_graph *graph, const void *data, size_t bytes)
{
    void *copy = arena_copy(&graph->arena, data, bytes);
    if (!copy)
        refuse_memory(graph);
    return copy;
}

bool graph_own(struct wk_graph *graph, void (*free_arg)(void *arg), void *arg)
{
    struct graph_owned owned = {.free = free_arg, .arg = arg, .next = graph->owned};
    struct graph_owned *copy = graph_copy(graph, &owned, sizeof(owned));
    if (copy)
        graph->owned = copy;
    return copy;
}

const char *graph_name(struct wk_graph *graph, const char *what, const char *name)
{
    if (!name || !*name || strlen(name) >= NAME_MAX_BYTES) {
        graph_refuse(graph, "%s: a name has 1 to %d bytes", what, NAME_MAX_BYTES - 1);
        return NULL;
    }
    const char *copy = arena_strdup(&graph->arena, name);
    if (!copy)
        refuse_memory(graph);
    return copy;
}

struct wk_tensor *wk_graph_input(struct wk_graph *graph, const char *name, enum wk_dtype type,
                                 struct wk_shape shape)
{
    struct wk_tensor input = {.kind = TENSOR_INPUT, .type = type};
    if (stopped(graph) || !(input.name = graph_name(graph, "wk_graph_input", name)) ||
        !read_shape(graph, input.name, shape, &input))
        return NULL;
    for (int i = 0; i < graph->n_inputs; i++) {
        if (!strcmp(graph->inputs[i]->name, name))
            return graph_refuse(graph, "there are two inputs named %s", name);
    }
    if (!wk_dtype_bytes(type))
        return graph_refuse(graph, "input %s: %d is no type", name, (int)type);
    if (!shape.dims || !dim_equal(input.shape[0], dim_of(WK_SAMPLES)))
        return graph_refuse(graph, "input %s: the first dimension is WK_SAMPLES", name);
    for (int i = 0; i < input.dims; i++) {
        if (input.shape[i].ranks)
            return graph_refuse(graph, "input %s: WK_RANKS is of what wk_op_all_gather makes",
                                name);
    }
    if (graph->n_inputs == GRAPH_NAMED_MAX)
        return graph_refuse(graph, "input %s: a graph has at most %d inputs", name,
                            GRAPH_NAMED_MAX);
    input.index = graph->n_inputs;
    struct wk_tensor *tensor = tensor_new(graph, &input);
    if (tensor)
        graph->inputs[graph->n_inputs++] = tensor;
    return tensor;
}

/* "parameter" or "buffer" for a tensor of this name, or NULL. */
static const char *kind_of_name(struct wk_graph *graph, const char *name)
{
    for (int i = 0; i < graph->n_params; i++) {
        if (!strcmp(graph->params[i].tensor->name, name))
            return "parameter";
    }
    for (int i = 0; i < graph->n_buffers; i++) {
        if (!strcmp(graph->buffers[i].tensor->name, name))
            return "buffer";
    }
    return NULL;
}

/* Name and shape of a new parameter or buffer (`kind`), as `call` was given them. False, with a
 * sentence, if it cannot be. */
static bool read_stored(struct wk_graph *graph, const char *const kind_and_call[2],
                        const char *name, struct wk_shape shape, struct wk_tensor *ret)
{
    char scoped[2 * NAME_MAX_BYTES];
    const char *kind = kind_and_call[0];
    if (graph->scope && name && *name) {
        (void)snprintf(scoped, sizeof(scoped), "%s.%s", graph->scope, name);
        name = scoped;
    }
    ret->name = graph_name(graph, kind_and_call[1], name);
    if (!ret->name || !read_shape(graph, ret->name, shape, ret))
        return false;
    const char *other = kind_of_name(graph, name);
    if (other && !strcmp(other, kind))
        graph_refuse(graph, "there are two %ss named %s", kind, name);
    else if (other)
        graph_refuse(graph, "there are a %s and a %s named %s", other, kind, name);
    else if (!shape.dims)
        graph_refuse(graph, "%s %s: at least one dimension, such as WK_SHAPE(1)", kind, name);
    for (int i = 0; i < ret->dims; i++) {
        if (!dim_is_fixed(ret->shape[i]))
            graph_refuse(graph, "%s %s: its sizes are fixed", kind, name);
    }
    return !stopped(graph);
}

struct wk_tensor *wk_graph_param(struct wk_graph *graph, const char *name, struct wk_shape shape,
                                 const struct wk_param *options)
{
    struct graph_param param = {.options = options ? *options : (struct wk_param){0}};
    struct wk_tensor like = {.kind = TENSOR_PARAM, .type = WK_F32};
    const char *const what[2] = {"parameter", "wk_graph_param"};
    if (stopped(graph) || !read_stored(graph, what, name, shape, &like))
        return NULL;
    if (graph->n_params == GRAPH_PARAMS_MAX)
        return graph_refuse(graph, "parameter %s: a graph has at most %d", like.name,
                            GRAPH_PARAMS_MAX);
    param.options.frozen |= graph->freezes;
    like.index = graph->n_params;
    like.trains = !param.options.frozen;
    param.tensor = tensor_new(graph, &like);
    if (!param.tensor || !grow(graph, (void **)&graph->params, graph->n_params,
                               &graph->params_capacity, sizeof(*graph->params)))
        return NULL;
    graph->params[graph->n_params++] = param;
    return param.tensor;
}

void wk_graph_freeze(struct wk_graph *graph, bool on)
{
    if (!stopped(graph))
        graph->freezes = on;
}

struct wk_tensor *wk_graph_buffer(struct wk_graph *graph, const char *name, struct wk_shape shape,
                                  double value)
{
    struct graph_buffer buffer = {.value = (float)value, .count = 1};
    struct wk_tensor like = {.kind = TENSOR_BUFFER, .type = WK_F32};
    const char *const what[2] = {"buffer", "wk_graph_buffer"};
    if (stopped(graph) || !read_stored(graph, what, name, shape, &like))
        return NULL;
    if (graph->n_buffers == GRAPH_BUFFERS_MAX)
        return graph_refuse(graph, "buffer %s: a graph has at most %d", like.name,
                            GRAPH_BUFFERS_MAX);
    for (int i = 0; i < like.dims; i++)
        buffer.count *= (size_t)like.shape[i].fixed;
    buffer.offset = graph->buffers_count;
    like.index = graph->n_buffers;
    buffer.tensor = tensor_new(graph, &like);
    if (!buffer.tensor || !grow(graph, (void **)&graph->buffers, graph->n_buffers,
                                &graph->buffers_capacity, sizeof(*graph->buffers)))
        return NULL;
    graph->buffers[graph->n_buffers++] = buffer;
    graph->buffers_count += buffer.count;
    return buffer.tensor;
}

/* Begin a block of this name, which the arena has. The first block gets it if nothing is in it. */
static void block_begin(struct wk_graph *graph, const char *name)
{
    for (int i = 0; i < graph->n_blocks; i++) {
        if (!strcmp(graph->blocks[i], name)) {
            graph_refuse(graph, "there are two blocks named %s", name);
            return;
        }
    }
    if (graph->n_blocks == 1 && !graph->n_params && !graph->n_nodes && !*graph->blocks[0]) {
        graph->blocks[0] = name;
        return;
    }
    if (graph->n_blocks == GRAPH_BLOCKS_MAX) {
        graph_refuse(graph, "block %s: a graph has at most %d", name, GRAPH_BLOCKS_MAX);
        return;
    }
    if (grow(graph, (void **)&graph->blocks, graph->n_blocks, &graph->blocks_capacity,
             sizeof(char *)))
        graph->blocks[graph->n_blocks++] = name;
}

void wk_graph_block(struct wk_graph *graph, const char *name)
{
    const char *copy = stopped(graph) ? NULL : graph_name(graph, "wk_graph_block", name);
    if (!copy)
        return;
    graph->scope = NULL;
    block_begin(graph, copy);
}

void wk_graph_scope(struct wk_graph *graph, const char *format, ...)
{
    char name[2 * NAME_MAX_BYTES]; /* longer than is accepted, so that it is refused */
    va_list args;
    if (stopped(graph))
        return;
    va_start(args, format);
    (void)vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    graph->scope = graph_name(graph, "wk_graph_scope", name);
    if (graph->scope)
        block_begin(graph, graph->scope);
}

void wk_graph_keep_f32(struct wk_graph *graph, bool on)
{
    if (!stopped(graph))
        graph->wide = on;
}

void graph_limit_length(struct wk_graph *graph, int64_t length)
{
    if (!graph->max_length || length < graph->max_length)
        graph->max_length = length;
}

void wk_graph_max_length(struct wk_graph *graph, int64_t length)
{
    if (stopped(graph))
        return;
    if (length < 1 || length > GRAPH_LENGTH_MAX)
        graph_refuse(graph, "wk_graph_max_length: %lld is outside 1 to %d", (long long)length,
                     GRAPH_LENGTH_MAX);
    else
        graph_limit_length(graph, length);
}

/* A value of this graph, for outputs and losses; else a sentence. */
static bool is_value(struct wk_graph *graph, const char *what, const char *name,
                     const struct wk_tensor *value)
{
    if (!value)
        graph_refuse(graph, "%s %s is NULL", what, name ? name : "");
    else if (value->graph != graph)
        graph_refuse(graph, "%s %s is of another graph", what, name ? name : "");
    return value && value->graph == graph;
}

void wk_graph_output(struct wk_graph *graph, const char *name, struct wk_tensor *value)
{
    struct graph_output output = {.value = value};
    if (stopped(graph) || !is_value(graph, "output", name, value) ||
        !(output.name = graph_name(graph, "wk_graph_output", name)))
        return;
    for (int i = 0; i < graph->n_outputs; i++) {
        if (!strcmp(graph->outputs[i].name, name)) {
            graph_refuse(graph, "there are two outputs named %s", name);
            return;
        }
    }
    if (graph->n_outputs == GRAPH_NAMED_MAX)
        graph_refuse(graph, "output %s: a graph has at most %d", name, GRAPH_NAMED_MAX);
    else
        graph->outputs[graph->n_outputs++] = output;
}

/* The denominator is one that can be counted; else a sentence. */
static bool can_count(struct wk_graph *graph, const char *name, const struct wk_loss *options)
{
    const struct wk_tensor *input = options->input;
    if ((unsigned)options->per > WK_PER_INPUT)
        graph_refuse(graph, "loss %s: %d is no denominator", name, (int)options->per);
    else if (options->per != WK_PER_INPUT && input)
        graph_refuse(graph, "loss %s: an input divides it only with WK_PER_INPUT", name);
    else if (options->per == WK_PER_INPUT && (!input || input->graph != graph))
        graph_refuse(graph, "loss %s: WK_PER_INPUT needs an input of this graph", name);
    else if (options->per == WK_PER_INPUT && !tensor_input(input))
        graph_refuse(graph, "loss %s: its denominator must be an input of the batch", name);
    return !graph->error.code;
}

void wk_graph_update(struct wk_graph *graph, struct wk_tensor *buffer, struct wk_tensor *next)
{
    char text[TENSOR_TEXT_MAX];
    if (stopped(graph) || !is_value(graph, "wk_graph_update: buffer", NULL, buffer) ||
        !is_value(graph, "wk_graph_update: next", NULL, next))
        return;
    if (buffer->kind != TENSOR_BUFFER) {
        graph_refuse(graph, "wk_graph_update of %s, which is not a buffer",
                     tensor_text(buffer, text));
        return;
    }
    struct graph_buffer *to = &graph->buffers[buffer->index];
    if (to->next)
        graph_refuse(graph, "buffer %s is updated twice", buffer->name);
    else if (tensor_base(next)->kind != TENSOR_VALUE)
        graph_refuse(graph, "buffer %s: what it becomes is the result of an operation",
                     buffer->name);
    else if (next->type != WK_F32 || !tensor_same_shape(buffer, next))
        graph_refuse(graph, "buffer %s: its update is %s; it takes the buffer's shape, in f32",
                     buffer->name, tensor_text(next, text));
    else
        to->next = next;
}

void wk_graph_loss(struct wk_graph *graph, const char *name, struct wk_tensor *losses,
                   const struct wk_loss *options)
{
    char text[TENSOR_TEXT_MAX];
    struct graph_loss loss = {.losses = losses,
                              .options = options ? *options : (struct wk_loss){0}};
    if (stopped(graph) || !is_value(graph, "loss", name, losses) ||
        !(loss.name = graph_name(graph, "wk_graph_loss", name)))
        return;
    if (!can_count(graph, loss.name, &loss.options))
        return;
    if (!losses->trains)
        graph_refuse(graph, "loss %s depends on no parameter that is trained", name);
    else if (losses->type != WK_F32)
        graph_refuse(graph, "loss %s: %s is not f32", name, tensor_text(losses, text));
    else if (graph->n_losses == GRAPH_NAMED_MAX)
        graph_refuse(graph, "loss %s: a graph has at most %d", name, GRAPH_NAMED_MAX);
    else
        graph->losses[graph->n_losses++] = loss;
}

const struct wk_tensor *tensor_base(const struct wk_tensor *tensor)
{
    while (tensor->node && tensor->node->row->view)
        tensor = tensor->node->in[0];
    return tensor;
}

const struct wk_tensor *tensor_input(const struct wk_tensor *tensor)
{
    tensor = tensor_base(tensor);
    if (tensor->node && tensor->node->row->converts)
        tensor = tensor_base(tensor->node->in[0]);
    return tensor->kind == TENSOR_INPUT ? tensor : NULL;
}

/* The graph of the inputs, after checks that do not depend on the operation; or NULL. */
static struct wk_graph *graph_of(const struct node_request *request)
{
    const struct op_row *row = request->row;
    struct wk_graph *graph = NULL;
    for (int i = 0; i < request->n_in && !graph; i++)
        graph = request->in[i] ? request->in[i]->graph : NULL;
    if (stopped(graph))
        return NULL;
    if (request->n_in < row->min_in || request->n_in > row->max_in) {
        graph_refuse(graph, "%s: %d inputs; it takes %d to %d", row->name, request->n_in,
                     row->min_in, row->max_in);
        return NULL;
    }
    for (int i = 0; i < request->n_in; i++) {
        if (!request->in[i] && !(row->optional & OP_IN(i))) {
            graph_refuse(graph, "%s: input %d is NULL", row->name, i);
            return NULL;
        }
        if (request->in[i] && request->in[i]->graph != graph) {
            graph_refuse(graph, "%s: input %d is of another graph", row->name, i);
            return NULL;
        }
    }
    return graph;
}

/* The next place of the row's nodes in the present block. */
static int next_place(const struct wk_graph *graph, const struct op_row *row)
{
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        if (graph->nodes[i]->block != graph->n_blocks - 1)
            break;
        if (graph->nodes[i]->row == row)
            return graph->nodes[i]->place + 1;
    }
    return 0;
}

static bool trains(const struct node_request *request)
{
    for (int i = 0; i < request->n_in; i++) {
        if (request->in[i] && request->in[i]->trains && (request->row->differentiable & OP_IN(i)))
            return true;
    }
    return false;
}

/* The node of a request with a valid signature; its outputs become tensors. */
static struct wk_tensor *node_new(struct wk_graph *graph, const struct node_request *request,
                                  const struct op_signature *signature)
{
    struct node like = {.row = request->row,
                        .id = graph->n_nodes,
                        .block = graph->n_blocks - 1,
                        .place = next_place(graph, request->row),
                        .wide = graph->wide,
                        .n_in = request->n_in,
                        .n_out = signature->n_out};
    memcpy(like.in, request->in, sizeof(like.in));
    if (request->attributes_bytes)
        like.attributes = arena_copy(&graph->arena, request->attributes, request->attributes_bytes);
    struct node *node = arena_copy(&graph->arena, &like, sizeof(like));
    if (!node || (request->attributes_bytes && !like.attributes)) {
        refuse_memory(graph);
        return NULL;
    }
    for (int i = 0; i < signature->n_out; i++) {
        const struct wk_tensor *described = &signature->out[i];
        struct wk_tensor out = {.kind = TENSOR_VALUE,
                                .index = i,
                                .type = described->type,
                                .dims = described->dims,
                                .node = node,
                                .trains = i == 0 && trains(request)};
        memcpy(out.shape, described->shape, sizeof(out.shape));
        node->out[i] = tensor_new(graph, &out);
        if (!node->out[i])
            return NULL;
    }
    if (!grow(graph, (void **)&graph->nodes, graph->n_nodes, &graph->nodes_capacity,
              sizeof(struct node *)))
        return NULL;
    graph->nodes[graph->n_nodes++] = node;
    return node->out[0];
}

struct wk_tensor *graph_add_exact(const struct node_request *request)
{
    const struct op_row *row = request->row;
    struct wk_graph *graph = graph_of(request);
    struct error err = {0};
    if (!graph)
        return NULL;
    struct op_signature signature = {.row = row,
                                     .attributes = request->attributes,
                                     .n_in = request->n_in,
                                     .in = request->in,
                                     .n_out = 1};
    if (row->shape(&signature, &err))
        return graph_refuse(graph, "%s: %s", row->name, err.text);
    const struct wk_tensor *index = row->index_input ? request->in[row->index_input - 1] : NULL;
    if (index && !tensor_input(index))
        return graph_refuse(graph, "%s: its indices must be an input of the graph", row->name);
    if (graph->n_nodes == GRAPH_NODES_MAX)
        return graph_refuse(graph, "%s: a graph has at most %d operations", row->name,
                            GRAPH_NODES_MAX);
    return node_new(graph, request, &signature);
}
