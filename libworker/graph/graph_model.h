/* A graph as a model of libworker (nn/model.h): its parameters in the order in which they were
 * made, its blocks, and plans for batches. Owned by the model; one thread. */
#ifndef GRAPH_GRAPH_MODEL_H
#define GRAPH_GRAPH_MODEL_H

#include "libworker/graph/plan.h"
#include "libworker/graph/run.h"
#include "libworker/graph/site.h"
#include "libworker/nn/model.h"

enum { GRAPH_PLANS_KEPT = 4 }; /* training and evaluation, each of a full and a last batch */

struct graph_model {
    struct wk_model model; /* first, so that one pointer is both */
    struct wk_graph *graph;
    int *blocks; /* [2 * graph->n_blocks]: the model's numbers (plan_new) */
    int *order;  /* of model->order */
    struct plan *plans[GRAPH_PLANS_KEPT]; /* the last used one first */
    struct plan *waiting;                 /* of the forward pass that waits for its backward pass */
    struct run run;                       /* of the last pass */
    double divisors[GRAPH_NAMED_MAX];     /* of the losses in it */
    int64_t capacity; /* positions that the cache of a text has room for, while there is one */
    struct site site;
    bool apart;     /* plan_options */
    unsigned told;  /* what was remarked about graphs: bits of pass.c */
    float *carried; /* what buffers have, in the site (carry.h); NULL: no memory yet */
};

/* The graph model, or NULL for another kind. */
struct graph_model *graph_model_of(struct wk_model *model);

#endif
