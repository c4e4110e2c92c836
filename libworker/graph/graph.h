/* A graph: tensors and nodes in build order. A node is one use of an operation's row (op.h) and
 * follows what it reads, so build order is an order to run in. build.h has the calls.
 * All of it lives in the graph's arena and ends with it. One thread.
 */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/graph.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "libworker/graph/dim.h"

enum {
    GRAPH_NODES_MAX = 1 << 17,
    GRAPH_BLOCKS_MAX = 4096,
    GRAPH_PARAMS_MAX = 1 << 16,
    GRAPH_BUFFERS_MAX = 1 << 16,
    GRAPH_LENGTH_MAX = 1 << 20,
    GRAPH_NAMED_MAX = 64, /* inputs, outputs and losses, each */
    NODE_INPUTS_MAX = 8,
    NODE_OUTPUTS_MAX = 4, /* the result, then what backward keeps beside it */
};

enum tensor_kind { TENSOR_INPUT, TENSOR_PARAM, TENSOR_BUFFER, TENSOR_VALUE };
struct node;

struct wk_tensor {
    struct wk_graph *graph;
    enum tensor_kind kind;
    int id;    /* in graph->tensors */
    int index; /* of the input, parameter or buffer; of the node's outputs */
    enum wk_dtype type;
    int dims;
    struct dim shape[WK_TENSOR_DIMS_MAX];
    const char *name;  /* of an input, parameter or buffer; NULL for a value */
    struct node *node; /* that makes the value; NULL for the others */
    int block;         /* in which it was made */
    bool trains;       /* a gradient flows here: it depends on a parameter that is not frozen */
};

struct op_row;

struct node {
    const struct op_row *row;
    const void *attributes; /* of the row's own type, or NULL */
    int id;                 /* in graph->nodes */
    int block;
    int place; /* among the nodes of its row in its block: what keyed noise counts by */
    bool wide; /* computes in f32 and keeps f32 in every precision */
    int n_in, n_out;
    struct wk_tensor *in[NODE_INPUTS_MAX];   /* NULL where an optional one is missing */
    struct wk_tensor *out[NODE_OUTPUTS_MAX]; /* out[0] is the result */
};

struct graph_param {
    struct wk_tensor *tensor;
    struct wk_param options;
};

struct graph_buffer {
    struct wk_tensor *tensor;
    struct wk_tensor *next; /* what a training pass leaves in it; NULL: it is constant */
    float value;            /* of each element at first */
    size_t offset, count;   /* elements among those of all buffers */
};

struct graph_loss {
    const char *name;
    struct wk_tensor *losses;
    struct wk_loss options;
};

struct graph_output {
    const char *name;
    struct wk_tensor *value;
};

/* The program's, freed with the graph. */
struct graph_owned {
    void (*free)(void *arg);
    void *arg;
    struct graph_owned *next;
};

struct wk_graph {
    struct arena arena;
    struct error error; /* the first; code 0: none */
    const char *name;
    struct wk_tensor **tensors;
    struct node **nodes;
    struct graph_param *params;
    struct graph_buffer *buffers;
    const char **blocks; /* names; blocks[0] is "" */
    const char *scope;   /* begins the names of parameters; NULL: nothing does */
    int n_tensors, n_nodes, n_params, n_buffers, n_blocks;
    int tensors_capacity, nodes_capacity, params_capacity, buffers_capacity, blocks_capacity;
    size_t buffers_count; /* elements of all buffers */
    struct wk_tensor *inputs[GRAPH_NAMED_MAX];
    struct graph_output outputs[GRAPH_NAMED_MAX];
    struct graph_loss losses[GRAPH_NAMED_MAX];
    int n_inputs, n_outputs, n_losses;
    bool wide;          /* of the nodes that are added now */
    int64_t max_length; /* 0: not limited yet */
    /* Inputs that the losses and the outputs read, bits by number; set by graph_check_whole. */
    uint64_t loss_inputs, output_inputs;
    bool uses_length, uses_ranks; /* some shape does; set by graph_check_whole */
    bool has_custom;              /* an operation of the program's own */
    bool freezes;                 /* new parameters are frozen */
    struct graph_owned *owned;
};

/* The last checks of a graph that is complete; a failure is in graph->error. */
void graph_check_whole(struct wk_graph *graph);

#endif
