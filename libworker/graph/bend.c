#include "libworker/graph/bend.h"

#include <stdlib.h>

#include <worker/error.h>

/* A value of this work alone that one work reads, and nothing else. */
static bool is_private(const struct emitter *e, const struct wk_tensor *tensor)
{
    return tensor->kind == TENSOR_VALUE && tensor->trains && e->trace.users[tensor->id] == 1 &&
           !trace_is_root(e->graph, &e->trace, tensor);
}

/* The backward kernel of the work that makes h rounds the gradient of h, and no input has the same.
 */
static bool rounds(const struct emitter *e, const struct work *maker)
{
    return maker->node->row == &op_linear && !maker->in[LINEAR_RESIDUAL] &&
           (e->keep.narrows[maker - e->trace.works] & OP_OUT(0));
}

/* h, if `layer` can be bent; or NULL. */
static struct wk_tensor *slopes_of(const struct emitter *e, const int *maker, int layer)
{
    const struct work *works = e->trace.works, *work = &works[layer];
    if (work->node->row != &op_linear || !e->keep.bends[layer] ||
        !(e->keep.narrows[layer] & OP_IN(0)))
        return NULL;
    const struct wk_tensor *x = work->in[0];
    const struct work *gelu = maker[x->id] < 0 ? NULL : &works[maker[x->id]];
    if (!gelu || gelu->node->row != &op_gelu || !is_private(e, x) ||
        gelu->node->block != work->node->block)
        return NULL;
    struct wk_tensor *h = gelu->in[0];
    bool fits = maker[h->id] >= 0 && is_private(e, h) && rounds(e, &works[maker[h->id]]) &&
                e->keep.form[h->id].type == e->plan->options.compute;
    return fits ? h : NULL;
}

int bend_find(struct emitter *e)
{
    int *maker = malloc(((size_t)e->graph->n_tensors + 1) * sizeof(*maker));
    if (!maker)
        return WK_ENOMEM;
    for (int i = 0; i < e->graph->n_tensors; i++)
        maker[i] = -1;
    for (int i = 0; i < e->trace.n; i++)
        maker[e->trace.works[i].out[0]->id] = i;
    for (int i = 0; i < e->trace.n && e->plan->options.trace.trains; i++) {
        struct work *work = &e->trace.works[i];
        struct wk_tensor *h = slopes_of(e, maker, i);
        if (!h)
            continue;
        work->in[LINEAR_SLOPES] = h;
        e->keep.reads[i] |= OP_IN(LINEAR_SLOPES);
        e->trace.last[h->id] = i;
    }
    free(maker);
    return 0;
}
