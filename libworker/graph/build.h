/* Adding to a graph, with a sentence for each mistake. One thread. */
#ifndef GRAPH_BUILD_H
#define GRAPH_BUILD_H

#include "libworker/graph/graph.h"

/* Limit WK_LENGTH, if it is not limited further already. */
void graph_limit_length(struct wk_graph *graph, int64_t length);

/* Store the first failure; later ones are dropped. Returns NULL, for a call to return. */
struct wk_tensor *graph_refuse(struct wk_graph *graph, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A copy of the name that lasts as long as the graph; or NULL, with a sentence that begins with
 * `what`. */
const char *graph_name(struct wk_graph *graph, const char *what, const char *name);

/* A copy in the graph's memory; NULL, with a sentence, if that is full. */
void *graph_copy(struct wk_graph *graph, const void *data, size_t bytes);

/* Call free_arg(arg) when the graph ends. False: there is no memory to note it. */
bool graph_own(struct wk_graph *graph, void (*free_arg)(void *arg), void *arg);

/* Set ret's dims and shape. WK_EINVAL, with a sentence, for a size that no tensor has. */
int shape_read(struct wk_shape shape, struct wk_tensor *ret, struct error *err);

/* The request of an operation's builder. */
struct node_request {
    const struct op_row *row;
    const void *attributes; /* copied: attributes_bytes */
    size_t attributes_bytes;
    int n_in;
    struct wk_tensor *in[NODE_INPUTS_MAX];
};

/* Add a node, with the inputs as they are. The row checks them and sets the outputs' shapes. On
 * failure it returns NULL, with a sentence in the graph: a required input is NULL, inputs are of
 * different graphs, shapes do not fit, or a limit is reached. The graph is that of the first
 * input. */
struct wk_tensor *graph_add_exact(const struct node_request *request);

/* The tensor that has the memory: the base of a view, or the tensor itself. */
const struct wk_tensor *tensor_base(const struct wk_tensor *tensor);

/* The input of the batch that the tensor is, through views and conversions; or NULL. */
const struct wk_tensor *tensor_input(const struct wk_tensor *tensor);

bool tensor_same_shape(const struct wk_tensor *a, const struct wk_tensor *b);

/* "[samples, 8, 64] f32", for sentences; of an input or parameter with its name before. */
enum { TENSOR_TEXT_MAX = 256 };
const char *tensor_text(const struct wk_tensor *tensor, char ret[TENSOR_TEXT_MAX]);

#endif
