/* What operations over the ranks of a mesh axis have in common. Pure. */
#ifndef OP_MESH_H
#define OP_MESH_H

#include "libworker/graph/op/rule.h"

/* Input 0 is a value in f32. */
static inline int rule_meets(const struct op_signature *s, struct error *err)
{
    char text[TENSOR_TEXT_MAX];
    if (s->in[0]->type == WK_F32)
        return 0;
    return error_set(err, WK_EINVAL, "input 0 is %s; it takes f32", tensor_text(s->in[0], text));
}

/* Over an axis by name, of which there is only "dp"; NULL is that. */
static inline struct wk_tensor *mesh_node(const struct op_row *row, struct wk_tensor *x,
                                          const char *axis)
{
    if (x && axis && strcmp(axis, "dp") != 0)
        return graph_refuse(x->graph,
                            "%s: there is no group for mesh axis %.16s: ranks share the batch, "
                            "and dp (or NULL) is all of them",
                            row->name, axis);
    return graph_add(&(struct node_request){.row = row, .n_in = 1, .in = {x}});
}

#endif
