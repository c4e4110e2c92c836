/* The order of a plan's launches: block by block forward, then backward, each in the brackets in
 * which its parameters are there. */
#include <stdlib.h>

#include <worker/error.h>

#include "libworker/graph/emit.h"

enum turn_kind { TURN_FORWARD, TURN_AGAIN, TURN_SEED, TURN_BACKWARD };

/* One thing to do for a block. */
struct turn {
    enum turn_kind kind;
    const struct work *work; /* NULL: of a seed */
    int loss;
};

struct turns {
    struct turn *list; /* [as many as works, twice, and losses] */
    int n;
    bool *again; /* [tensors]: values of the block that are computed again */
};

static void add_turn(struct turns *turns, enum turn_kind kind, const struct work *work, int loss)
{
    turns->list[turns->n++] = (struct turn){kind, work, loss};
}

/* The works [first, end) of a block. */
struct range {
    int first, end;
};

static struct range works_of(const struct emitter *e, int block, int from)
{
    struct range range = {from, from};
    while (range.end < e->trace.n && e->trace.works[range.end].node->block == block)
        range.end++;
    return range;
}

static bool makes_needed(const struct turns *turns, const struct work *work)
{
    bool needed = false;
    for (int i = 0; i < NODE_OUTPUTS_MAX; i++)
        needed |= work->out[i] && turns->again[work->out[i]->id];
    return needed;
}

/* Mark what the block's backward kernels read of its own values, and what these are made of. */
static void mark_again(const struct emitter *e, struct turns *turns, struct range range)
{
    for (int i = range.first; i < range.end; i++) {
        const struct work *work = &e->trace.works[i];
        for (int k = 0; k < NODE_OUTPUTS_MAX; k++) {
            if (work->out[k])
                turns->again[work->out[k]->id] = e->kept[tensor_base(work->out[k])->id];
        }
    }
    for (int i = range.end - 1; i >= range.first; i--) {
        const struct work *work = &e->trace.works[i];
        for (int k = 0; k < NODE_INPUTS_MAX && makes_needed(turns, work); k++) {
            if (work->in[k] && work->in[k]->block == work->node->block)
                turns->again[work->in[k]->id] = true;
        }
    }
}

static void list_forward(const struct emitter *e, struct turns *turns, struct range range)
{
    turns->n = 0;
    for (int i = range.first; i < range.end; i++)
        add_turn(turns, TURN_FORWARD, &e->trace.works[i], 0);
}

static void list_backward(const struct emitter *e, struct turns *turns, struct range range,
                          int block)
{
    turns->n = 0;
    if (emit_is_again(e, block)) {
        mark_again(e, turns, range);
        for (int i = range.first; i < range.end; i++) {
            if (makes_needed(turns, &e->trace.works[i]))
                add_turn(turns, TURN_AGAIN, &e->trace.works[i], 0);
        }
    }
    for (int i = e->graph->n_losses - 1; i >= 0; i--) {
        if (e->trace.same[e->graph->losses[i].losses->id]->block == block)
            add_turn(turns, TURN_SEED, NULL, i);
    }
    for (int i = range.end - 1; i >= range.first; i--) {
        if (emit_has_backward(e, &e->trace.works[i]))
            add_turn(turns, TURN_BACKWARD, &e->trace.works[i], 0);
    }
}

/* The model's block that the turn's input `k` is a parameter of; -1: the turn's own, or none. */
static int foreign_block(const struct emitter *e, const struct turn *turn, int k)
{
    if (!turn->work || !turn->work->in[k])
        return -1;
    const struct wk_tensor *base = tensor_base(turn->work->in[k]);
    bool foreign = base->kind == TENSOR_PARAM && base->block != turn->work->node->block;
    return foreign ? e->blocks[base->block] : -1;
}

static bool uses_foreign(const struct emitter *e, const struct turn *turn, int block)
{
    bool uses = false;
    for (int k = 0; k < NODE_INPUTS_MAX; k++)
        uses |= foreign_block(e, turn, k) == block;
    return uses;
}

/* No other turn before (step -1) or after (step 1) this one uses the foreign block. */
static bool is_outermost(const struct emitter *e, const struct turns *turns, int turn, int block,
                         int step)
{
    for (int i = turn + step; i >= 0 && i < turns->n; i += step) {
        if (uses_foreign(e, &turns->list[i], block))
            return false;
    }
    return true;
}

static void bracket(struct emitter *e, enum launch_kind kind, int block, bool backward)
{
    struct launch launch = emit_blank(kind);
    if (block < 0)
        return;
    launch.index = block;
    launch.backward = backward;
    emit_launch(e, &launch);
}

/* Enter foreign blocks before their first use, leave them after their last. */
static void bracket_foreign(struct emitter *e, const struct turns *turns, int turn, int step,
                            bool backward)
{
    for (int k = 0; k < NODE_INPUTS_MAX; k++) {
        int block = foreign_block(e, &turns->list[turn], k);
        bool first = block >= 0;
        for (int j = 0; j < k && first; j++)
            first = foreign_block(e, &turns->list[turn], j) != block;
        if (first && is_outermost(e, turns, turn, block, step))
            bracket(e, step < 0 ? LAUNCH_ENTER : LAUNCH_LEAVE, block, backward);
    }
}

static void emit_turn(struct emitter *e, const struct turn *turn)
{
    switch (turn->kind) {
    case TURN_FORWARD:
        emit_forward(e, turn->work, false);
        return;
    case TURN_AGAIN:
        emit_forward(e, turn->work, true);
        return;
    case TURN_SEED:
        emit_seed(e, turn->loss);
        return;
    case TURN_BACKWARD:
        emit_backward(e, turn->work);
        return;
    }
}

/* Also a block without anything to do is entered: a rank whose share is empty enters all. */
static void emit_turns(struct emitter *e, const struct turns *turns, int block, bool backward)
{
    bracket(e, LAUNCH_ENTER, e->blocks[block], backward);
    for (int i = 0; i < turns->n; i++) {
        bracket_foreign(e, turns, i, -1, backward);
        emit_turn(e, &turns->list[i]);
        bracket_foreign(e, turns, i, 1, backward);
    }
    bracket(e, LAUNCH_LEAVE, e->blocks[block], backward);
}

/* What the caller gets of a pass: losses and outputs. They stay to its end. */
static void emit_results(struct emitter *e)
{
    struct plan *plan = e->plan;
    const struct trace_options *trace = &plan->options.trace;
    for (int i = 0; i < GRAPH_NAMED_MAX; i++)
        plan->losses[i] = plan->outputs[i] = -1;
    for (int i = 0; i < e->graph->n_losses && (trace->trains || trace->losses); i++) {
        struct launch launch = emit_blank(LAUNCH_LOSS);
        struct wk_tensor *losses = e->trace.same[e->graph->losses[i].losses->id];
        launch.index = i;
        launch.in[0] = plan->losses[i] = e->value[0][losses->id];
        emit_launch(e, &launch);
    }
    for (int i = 0; i < e->graph->n_outputs; i++) {
        struct wk_tensor *value = e->trace.same[e->graph->outputs[i].value->id];
        if (trace->outputs >> i & 1)
            plan->outputs[i] = e->value[0][value->id];
    }
    for (int i = 0; i < GRAPH_NAMED_MAX && !trace->trains; i++) {
        int results[2] = {plan->losses[i], plan->outputs[i]};
        for (int k = 0; k < 2; k++) {
            int storage = results[k] < 0 ? -1 : plan->values[results[k]].storage;
            if (storage >= 0)
                e->storages[storage].last = plan->n_launches;
        }
    }
}

/* `starts` [blocks + 1]: the first work of each block. */
static void emit_all(struct emitter *e, struct turns *turns, int *starts)
{
    struct plan *plan = e->plan;
    struct range range = {0, 0};
    for (int block = 0; block < e->graph->n_blocks; block++) {
        range = works_of(e, block, range.end);
        starts[block] = range.first;
        starts[block + 1] = range.end;
        list_forward(e, turns, range);
        emit_turns(e, turns, block, false);
    }
    emit_results(e);
    plan->n_forward = plan->n_launches;
    if (!plan->options.trace.trains)
        return;
    emit_count_uses(e);
    for (int block = e->graph->n_blocks - 1; block >= 0; block--) {
        list_backward(e, turns, (struct range){starts[block], starts[block + 1]}, block);
        emit_turns(e, turns, block, true);
    }
}

/* The offsets of all values. */
static int place(struct emitter *e, struct error *err)
{
    struct plan *plan = e->plan;
    plan->region_bytes = layout_place(e->storages, e->n_storages);
    if (plan->region_bytes == (size_t)-1)
        return error_set(err, WK_ENOMEM, "no memory to plan the model");
    for (int i = 0; i < plan->n_values; i++) {
        if (plan->values[i].storage >= 0)
            plan->values[i].offset = e->storages[plan->values[i].storage].offset;
    }
    return 0;
}

int plan_new(const struct wk_graph *graph, const struct plan_options *options, const int *blocks,
             struct plan **ret_plan, struct error *err)
{
    struct emitter emitter;
    struct turns turns = {0};
    struct plan *plan = calloc(1, sizeof(*plan));
    if (!plan)
        return error_set(err, WK_ENOMEM, "no memory to plan the model");
    plan->options = *options;
    int rc = emit_init(&emitter, graph, plan, blocks, err);
    if (rc) {
        plan_free(plan);
        return rc;
    }
    size_t works = (size_t)emitter.trace.n;
    int *starts = calloc((size_t)graph->n_blocks + 1, sizeof(*starts));
    turns.list = calloc(2 * works + GRAPH_NAMED_MAX, sizeof(*turns.list));
    turns.again = calloc((size_t)graph->n_tensors + 1, sizeof(*turns.again));
    if (starts && turns.list && turns.again) {
        emit_all(&emitter, &turns, starts);
        rc = emitter.without_memory ? error_set(err, WK_ENOMEM, "no memory to plan the model")
                                    : place(&emitter, err);
    } else {
        rc = error_set(err, WK_ENOMEM, "no memory to plan the model");
    }
    free(starts);
    free(turns.list);
    free(turns.again);
    emit_fini(&emitter);
    if (rc)
        plan_free(plan);
    else
        *ret_plan = plan;
    return rc;
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    free(plan->launches);
    free(plan->values);
    free(plan);
}
