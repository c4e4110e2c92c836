/* Tiny models that only graphs can be, each with samples to learn from. */
#ifndef TRAIN_GRAPHS_H
#define TRAIN_GRAPHS_H

#include <worker/graph.h>
#include <worker/rows.h>

struct graph_kind {
    const char *name;
    struct wk_graph *(*build)(void);
    const struct wk_row_options *rows;
};

/* A vision transformer, an encoder of masked text, a residual convolution with group norm, a trunk
 * with two losses, layers with an operation of the program's own, a residual convolution with
 * synchronised batch norm, one of which half is frozen, and one with a frozen head that shares a
 * weight. */
enum { GRAPH_BATCH_NORM = 5, GRAPH_TUNED, GRAPH_SHARED, GRAPH_KINDS };
extern const struct graph_kind graph_kinds[GRAPH_KINDS];

#endif
