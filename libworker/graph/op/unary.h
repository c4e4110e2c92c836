/* The loop that operations on one element each share: a tile of values through a function. */
#ifndef OP_UNARY_H
#define OP_UNARY_H

#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

/* out[n] from x[n], which may be the same memory if the row is in place. */
typedef void unary_forward_fn(const struct op_call *call, float *out, const float *x, int64_t n);

static inline void unary_forward(const struct op_call *call, unary_forward_fn *tile)
{
    const struct kernel_table *k = call->pass->kernels;
    const struct op_tensor *in = &call->in[0], *out = &call->out[0];
    for (int64_t at = 0, n; (n = tile_at(in->count, at)) > 0; at += n) {
        float x_room[TILE_MAX], y_room[TILE_MAX];
        const float *x = tile_read(k, in, at, n, x_room);
        float *y = tile_target(out, at, y_room);
        tile(call, y, x, n);
        tile_store(k, out, at, n, y);
    }
}

/* What a backward function gets of a tile. */
struct unary_slope {
    float *dx;
    const float *kept,
        *dout; /* the input or the output, whichever the row keeps; NULL if neither */
    int64_t n;
};
typedef void unary_backward_fn(const struct op_call *call, const struct unary_slope *slope);

static inline void unary_backward(const struct op_call *call, unary_backward_fn *tile)
{
    const struct kernel_table *k = call->pass->kernels;
    const struct op_tensor *dx = &call->d_in[0];
    unsigned keeps = call->node->row->keeps;
    const struct op_tensor *kept = keeps & OP_OUT(0) ? &call->out[0] : &call->in[0];
    for (int64_t at = 0, n; dx->data && (n = tile_at(dx->count, at)) > 0; at += n) {
        float kept_room[TILE_MAX], dx_room[TILE_MAX];
        struct unary_slope slope = {
            .dx = tile_target(dx, at, dx_room),
            .kept = keeps ? tile_read(k, kept, at, n, kept_room) : NULL,
            .dout = (const float *)call->d_out.data + at,
            .n = n,
        };
        tile(call, &slope);
        tile_store(k, dx, at, n, slope.dx);
    }
}

static inline int unary_shape(struct op_signature *s, struct error *err)
{
    int rc = rule_values(s, err);
    if (rc)
        return rc;
    return rule_as(s, 0);
}

static inline struct wk_tensor *unary_add(const struct op_row *row, struct wk_tensor *x)
{
    return graph_add(&(struct node_request){.row = row, .n_in = 1, .in = {x}});
}

#endif
