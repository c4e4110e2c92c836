/* The memory of a graph's buffers, in its site (nn/buffers.h has what they are). While there is no
 * memory the host's copy is the content. Owned by the graph's model; one thread. */
#ifndef GRAPH_CARRY_H
#define GRAPH_CARRY_H

#include "libworker/graph/graph_model.h"
#include "libworker/nn/buffers.h"

extern const struct buffer_ops graph_buffer_ops;

/* The table of buffers, with first values. WK_ENOMEM. */
int carry_init(struct graph_model *m);
void carry_fini(struct graph_model *m); /* zeroed is fine */

/* Before a pass: m->run reads the window and leaves what it finds, or reads the content. WK_ENOMEM,
 * or the site's failure. */
int carry_begin(struct graph_model *m, bool trains, struct error *err);

/* A training pass of this many samples has ended, its gradients are there. */
void carry_end(struct graph_model *m, int64_t samples);

/* The site is about to change: back to the host. */
int carry_leave(struct graph_model *m, struct error *err);

#endif
