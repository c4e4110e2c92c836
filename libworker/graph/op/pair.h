/* The loop that losses of two equal shapes share: tiles of x and of its target. */
#ifndef OP_PAIR_H
#define OP_PAIR_H

#include "libworker/graph/op/cost.h"
#include "libworker/graph/op/rule.h"
#include "libworker/graph/op/tile.h"

struct pair {
    float *out;                     /* the loss, or the gradient of one input */
    const float *x, *target, *dout; /* dout: backward only */
    int64_t n;
    const struct kernel_table *kernels;
};
typedef void pair_fn(const struct pair *pair);

/* `to` = visit(inputs), tile by tile. */
static inline void pair_each(const struct op_call *call, const struct op_tensor *to, pair_fn *visit)
{
    const struct kernel_table *k = call->pass->kernels;
    for (int64_t at = 0, n; to->data && (n = tile_at(to->count, at)) > 0; at += n) {
        float x_room[TILE_MAX], target_room[TILE_MAX], out_room[TILE_MAX];
        struct pair pair = {
            .out = tile_target(to, at, out_room),
            .x = tile_read(k, &call->in[0], at, n, x_room),
            .target = tile_read(k, &call->in[1], at, n, target_room),
            .dout = call->d_out.data ? (const float *)call->d_out.data + at : NULL,
            .n = n,
            .kernels = k,
        };
        visit(&pair);
        tile_store(k, to, at, n, pair.out);
    }
}

/* The gradients of both inputs. */
static inline void pair_backward(const struct op_call *call, pair_fn *x_slope,
                                 pair_fn *target_slope)
{
    pair_each(call, &call->d_in[0], x_slope);
    pair_each(call, &call->d_in[1], target_slope);
}

static inline int pair_shape(struct op_signature *s, struct error *err)
{
    int rc = rule_values(s, err);
    if (rc)
        return rc;
    rc = rule_alike(s, err);
    if (rc)
        return rc;
    return rule_as(s, 0);
}

/* What their rows have in common. */
#define PAIR_ROW                                                                                   \
    .min_in = 2, .max_in = 2, .cuts = OP_CUT_SAMPLES | OP_CUT_LENGTH, .shape = pair_shape,         \
    .keeps = OP_IN(0) | OP_IN(1), .differentiable = OP_IN(0) | OP_IN(1), .in_place = true

static inline struct wk_tensor *pair_add(const struct op_row *row, struct wk_tensor *x,
                                         struct wk_tensor *target)
{
    return graph_add(&(struct node_request){.row = row, .n_in = 2, .in = {x, target}});
}

#endif
