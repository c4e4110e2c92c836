#include "libworker/graph/recompute.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/graph/describe.h"
#include "libworker/graph/node_cost.h"
#include "libworker/graph/op.h"

static const struct work *work_at(const struct recompute *r, int work)
{
    return &r->pass.trace->works[work];
}

static int block_of(const struct recompute *r, int work)
{
    return work_at(r, work)->node->block;
}

static bool is_last_block(const struct recompute *r, int block)
{
    return block == r->pass.graph->n_blocks - 1;
}

static void list_makers(struct recompute *r)
{
    for (int i = 0; i < r->pass.graph->n_tensors; i++)
        r->maker[i] = -1;
    for (int i = 0; i < r->pass.trace->n; i++) {
        for (int k = 0; k < NODE_OUTPUTS_MAX; k++) {
            if (work_at(r, i)->out[k])
                r->maker[work_at(r, i)->out[k]->id] = i;
        }
    }
}

static void mark_outside(struct recompute *r)
{
    const struct wk_graph *graph = r->pass.graph;
    struct wk_tensor **same = r->pass.trace->same;
    for (int i = 0; i < r->pass.trace->n; i++) {
        for (int k = 0; k < NODE_INPUTS_MAX; k++) {
            const struct wk_tensor *in = work_at(r, i)->in[k];
            if (in && tensor_base(in)->block != block_of(r, i))
                r->outside[tensor_base(in)->id] = true;
        }
    }
    for (int i = 0; i < graph->n_losses; i++)
        r->outside[tensor_base(same[graph->losses[i].losses->id])->id] = true;
    for (int i = 0; i < graph->n_outputs; i++)
        r->outside[tensor_base(same[graph->outputs[i].value->id])->id] = true;
    for (int i = 0; i < graph->n_buffers; i++) {
        if (graph->buffers[i].next)
            r->outside[tensor_base(same[graph->buffers[i].next->id])->id] = true;
    }
}

static bool reads_foreign_param(const struct work *work)
{
    bool reads = false;
    for (int k = 0; k < NODE_INPUTS_MAX; k++) {
        const struct wk_tensor *base = work->in[k] ? tensor_base(work->in[k]) : NULL;
        reads |= base && base->kind == TENSOR_PARAM && base->block != work->node->block;
    }
    return reads;
}

/* There for the backward pass in any case, or cheap itself. */
static bool is_at_hand(const struct recompute *r, int work, const struct wk_tensor *in)
{
    const struct wk_tensor *base = in ? tensor_base(in) : NULL;
    int maker = in ? r->maker[in->id] : -1;
    if (!base || base->kind != TENSOR_VALUE || r->pass.keep->kept[base->id])
        return true;
    return maker >= 0 && block_of(r, maker) == block_of(r, work) && r->cheap[maker];
}

static bool is_cheap(const struct recompute *r, int work)
{
    const struct work *w = work_at(r, work);
    double elements = 0;
    bool at_hand = !reads_foreign_param(w);
    for (int k = 0; k < NODE_INPUTS_MAX && at_hand; k++)
        at_hand = is_at_hand(r, work, w->in[k]);
    for (int k = 0; k < NODE_OUTPUTS_MAX; k++) {
        if (w->out[k])
            elements += (double)describe_tensor(w->out[k], r->pass.sizes).count;
    }
    return at_hand && (w->node->row->view || node_cost(w->node, r->pass.sizes, false).flop <=
                                                 RECOMPUTE_CHEAP_FLOP * elements);
}

int recompute_init(struct recompute *r, const struct recompute_pass *pass)
{
    size_t works = (size_t)pass->trace->n + 1, tensors = (size_t)pass->graph->n_tensors + 1;
    size_t blocks = (size_t)pass->graph->n_blocks;
    *r = (struct recompute){
        .pass = *pass,
        .chosen = calloc(works, sizeof(*r->chosen)),
        .again = calloc(tensors, sizeof(*r->again)),
        .before = malloc(works * sizeof(*r->before)),
        .maker = malloc(tensors * sizeof(*r->maker)),
        .cheap = calloc(works, sizeof(*r->cheap)),
        .outside = calloc(tensors, sizeof(*r->outside)),
        .gains = calloc(blocks, sizeof(*r->gains)),
        .candidates = calloc(2 * blocks, sizeof(*r->candidates)),
    };
    if (!r->chosen || !r->again || !r->before || !r->maker || !r->cheap || !r->outside ||
        !r->gains || !r->candidates) {
        recompute_fini(r);
        return WK_ENOMEM;
    }
    list_makers(r);
    mark_outside(r);
    return 0;
}

void recompute_fini(struct recompute *r)
{
    free(r->chosen);
    free(r->again);
    free(r->before);
    free(r->maker);
    free(r->cheap);
    free(r->outside);
    free(r->gains);
    free(r->candidates);
    *r = (struct recompute){0};
}

/* The backward kernel of `reader` needs the tensor; or its work does, which is computed again
 * before that of `at`. */
static void need(struct recompute *r, int reader, const struct wk_tensor *tensor, int at)
{
    int maker = tensor ? r->maker[tensor->id] : -1;
    bool meets = maker >= 0 && work_at(r, maker)->node->row->meets;
    if (maker >= 0 && !meets && r->chosen[maker] && block_of(r, maker) == block_of(r, reader) &&
        r->before[maker] < at)
        r->before[maker] = at;
}

/* A work is after those that it reads, and the backward pass begins with the last one. So from
 * there on all readers of a work are known before the work. */
static void settle(struct recompute *r)
{
    for (int i = 0; i < r->pass.trace->n; i++)
        r->before[i] = -1;
    for (int i = r->pass.trace->n - 1; i >= 0; i--) {
        const struct work *work = work_at(r, i);
        unsigned keeps = work->out[0]->trains ? r->pass.keep->reads[i] : 0;
        for (int k = 0; k < NODE_OUTPUTS_MAX; k++)
            need(r, i, keeps & OP_OUT(k) ? work->out[k] : NULL, i);
        for (int k = 0; k < NODE_INPUTS_MAX; k++) {
            need(r, i, keeps & OP_IN(k) ? work->in[k] : NULL, i);
            need(r, i, work->in[k], r->before[i]);
        }
        for (int k = 0; k < NODE_OUTPUTS_MAX; k++) {
            if (work->out[k])
                r->again[work->out[k]->id] = r->before[i] >= 0;
        }
    }
}

/* In build order: whether a work is cheap depends on those that it reads. */
static void mark_cheap(struct recompute *r)
{
    for (int i = 0; i < r->pass.trace->n; i++)
        r->cheap[i] = is_cheap(r, i);
}

void recompute_choose(struct recompute *r, enum wk_recompute policy)
{
    bool blocks = policy == WK_RECOMPUTE_BLOCKS;
    if (policy == WK_RECOMPUTE_OPERATIONS)
        mark_cheap(r);
    for (int i = 0; i < r->pass.trace->n; i++)
        r->chosen[i] = (blocks && !is_last_block(r, block_of(r, i))) ||
                       (policy == WK_RECOMPUTE_OPERATIONS && r->cheap[i]);
    settle(r);
}

/* The work is chosen with its block's candidate. */
static bool is_of_candidate(const struct recompute *r, int work, bool whole)
{
    return whole ? !is_last_block(r, block_of(r, work)) && !reads_foreign_param(work_at(r, work))
                 : r->cheap[work];
}

/* Bytes of its results that are kept now, and would not be. */
static double bytes_of(const struct recompute *r, const struct work *work)
{
    double bytes = 0;
    for (int k = 0; k < NODE_OUTPUTS_MAX; k++) {
        const struct wk_tensor *out = work->out[k];
        const struct op_tensor *form = out ? &r->pass.keep->form[out->id] : NULL;
        if (out && !work->node->row->view && r->pass.keep->kept[out->id] && !r->outside[out->id])
            bytes += (double)form->count * (double)wk_dtype_bytes(form->type);
    }
    return bytes;
}

/* What the candidates of one kind cost and save in each block. */
static void measure(struct recompute *r, bool whole)
{
    for (int i = 0; i < r->pass.trace->n; i++)
        r->chosen[i] = r->cheap[i] || (whole && is_of_candidate(r, i, true));
    settle(r);
    for (int i = 0; i < r->pass.trace->n; i++) {
        struct recompute_gain *gain = &r->gains[block_of(r, i)];
        if (r->before[i] < 0)
            continue;
        gain->flop[whole] += node_cost(work_at(r, i)->node, r->pass.sizes, false).flop;
        gain->bytes[whole] += bytes_of(r, work_at(r, i));
    }
}

static void add_candidate(struct recompute *r, int block, bool whole, double flop, double bytes)
{
    if (bytes > 0)
        r->candidates[r->n_candidates++] = (struct recompute_candidate){block, whole, flop / bytes};
}

static int by_price(const void *a, const void *b)
{
    const struct recompute_candidate *x = a, *y = b;
    if (x->flop_each_byte < y->flop_each_byte || x->flop_each_byte > y->flop_each_byte)
        return x->flop_each_byte < y->flop_each_byte ? -1 : 1;
    return x->block != y->block ? x->block - y->block : (int)x->whole - (int)y->whole;
}

int recompute_levels(struct recompute *r)
{
    int blocks = r->pass.graph->n_blocks;
    memset(r->gains, 0, (size_t)blocks * sizeof(*r->gains));
    mark_cheap(r);
    measure(r, false);
    measure(r, true);
    r->n_candidates = 0;
    for (int b = 0; b < blocks; b++) {
        const struct recompute_gain *gain = &r->gains[b];
        add_candidate(r, b, false, gain->flop[0], gain->bytes[0]);
        add_candidate(r, b, true, gain->flop[1] - gain->flop[0], gain->bytes[1] - gain->bytes[0]);
    }
    if (r->n_candidates)
        qsort(r->candidates, (size_t)r->n_candidates, sizeof(*r->candidates), by_price);
    return r->n_candidates < RECOMPUTE_LEVELS_MAX ? r->n_candidates : RECOMPUTE_LEVELS_MAX;
}

void recompute_level(struct recompute *r, int level, int levels)
{
    int taken = levels ? (int)((int64_t)r->n_candidates * level / levels) : 0;
    for (int b = 0; b < r->pass.graph->n_blocks; b++)
        r->gains[b].taken[0] = r->gains[b].taken[1] = false;
    for (int s = 0; s < taken; s++)
        r->gains[r->candidates[s].block].taken[r->candidates[s].whole] = true;
    for (int i = 0; i < r->pass.trace->n; i++) {
        const bool *takes = r->gains[block_of(r, i)].taken;
        r->chosen[i] =
            (takes[0] && is_of_candidate(r, i, false)) || (takes[1] && is_of_candidate(r, i, true));
    }
    settle(r);
}

double recompute_flop(const struct recompute *r)
{
    double flop = 0;
    for (int i = 0; i < r->pass.trace->n; i++) {
        if (r->before[i] >= 0)
            flop += node_cost(work_at(r, i)->node, r->pass.sizes, false).flop;
    }
    return flop;
}
