#include "libworker/graph/schedule.h"

#include <stdlib.h>

#include <worker/error.h>

#include "libworker/graph/freeze.h"
#include "libworker/graph/join.h"

enum turn_kind { TURN_FORWARD, TURN_AGAIN, TURN_SEED, TURN_BACKWARD };

/* One thing to do for a block. */
struct turn {
    enum turn_kind kind;
    const struct work *work; /* NULL: of a seed */
    bool joined;             /* with the work after it */
    int loss;
};

struct turns {
    struct turn *list; /* [as many as works, twice, and losses] */
    int n;
    /* [works]: those that are computed again before a work's backward kernel: the first, and after
     * each the next; -1 for none. */
    int *first_again, *next_again;
    int *starts; /* [blocks + 1]: the first work of each block */
};

static void add_turn(struct turns *turns, const struct turn *turn)
{
    turns->list[turns->n++] = *turn;
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

/* In build order before each backward kernel. */
static void sort_again(const struct emitter *e, struct turns *turns)
{
    for (int i = 0; i < e->trace.n; i++)
        turns->first_again[i] = -1;
    for (int i = e->trace.n - 1; i >= 0; i--) {
        int before = e->recompute.before[i];
        if (before < 0)
            continue;
        turns->next_again[i] = turns->first_again[before];
        turns->first_again[before] = i;
    }
}

static void list_forward(const struct emitter *e, struct turns *turns, struct range range)
{
    turns->n = 0;
    for (int i = range.first; i < range.end; i++) {
        struct turn turn = {.kind = TURN_FORWARD, .work = &e->trace.works[i]};
        turn.joined = join_fits(e, turn.work, false);
        add_turn(turns, &turn);
        i += turn.joined ? 1 : 0;
    }
}

/* What is computed again before the backward kernel of work `i`. */
static void list_again(const struct emitter *e, struct turns *turns, int i)
{
    for (int k = turns->first_again[i], next; k >= 0; k = next) {
        struct turn turn = {.kind = TURN_AGAIN, .work = &e->trace.works[k]};
        next = turns->next_again[k];
        turn.joined = next == k + 1 && join_fits(e, turn.work, true);
        next = turn.joined ? turns->next_again[next] : next;
        add_turn(turns, &turn);
    }
}

static void list_backward(const struct emitter *e, struct turns *turns, struct range range,
                          int block)
{
    turns->n = 0;
    for (int i = e->graph->n_losses - 1; i >= 0; i--) {
        if (e->trace.same[e->graph->losses[i].losses->id]->block == block)
            add_turn(turns, &(struct turn){.kind = TURN_SEED, .loss = i});
    }
    for (int i = range.end - 1; i >= range.first; i--) {
        const struct work *work = &e->trace.works[i];
        list_again(e, turns, i);
        if (emit_has_backward(e, work))
            add_turn(turns, &(struct turn){.kind = TURN_BACKWARD, .work = work});
    }
}

/* The model's block that the turn's input `k` is a parameter of; -1: the turn's own, or none. */
static int foreign_block(const struct emitter *e, const struct turn *turn, int k)
{
    if (!turn->work || !turn->work->in[k])
        return -1;
    const struct wk_tensor *base = tensor_base(turn->work->in[k]);
    bool foreign = base->kind == TENSOR_PARAM && base->block != turn->work->node->block;
    return foreign ? e->blocks[graph_part(e->graph, base)] : -1;
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
    case TURN_AGAIN:
        if (turn->joined)
            join_emit(e, turn->work, turn->kind == TURN_AGAIN);
        else
            emit_forward(e, turn->work, turn->kind == TURN_AGAIN);
        return;
    case TURN_SEED:
        emit_seed(e, turn->loss);
        return;
    case TURN_BACKWARD:
        emit_backward(e, turn->work);
        return;
    }
}

/* Both parts of a block; backward they are entered the other way round. */
static void bracket_own(struct emitter *e, enum launch_kind kind, const int parts[2], bool backward)
{
    bool frozen_first = (kind == LAUNCH_ENTER) == backward;
    bracket(e, kind, parts[frozen_first ? 1 : 0], backward);
    bracket(e, kind, parts[frozen_first ? 0 : 1], backward);
}

/* A block's trained parameters are entered even where nothing runs: their sums wait for it. */
static void emit_turns(struct emitter *e, const struct turns *turns, int block, bool backward)
{
    int frozen = turns->n ? e->blocks[block + e->graph->n_blocks] : -1;
    const int parts[2] = {e->blocks[block], frozen};
    bracket_own(e, LAUNCH_ENTER, parts, backward);
    for (int i = 0; i < turns->n; i++) {
        bracket_foreign(e, turns, i, -1, backward);
        emit_turn(e, &turns->list[i]);
        bracket_foreign(e, turns, i, 1, backward);
    }
    bracket_own(e, LAUNCH_LEAVE, parts, backward);
}

/* What a training pass leaves in buffers. After all that reads them forward. */
static void emit_updates(struct emitter *e)
{
    for (int i = 0; i < e->graph->n_buffers && e->plan->options.trace.trains; i++) {
        struct wk_tensor *next = e->graph->buffers[i].next;
        if (!next)
            continue;
        struct launch launch = emit_blank(LAUNCH_UPDATE);
        launch.index = i;
        launch.in[0] = emit_read(e, NULL, e->trace.same[next->id], false);
        emit_launch(e, &launch);
    }
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

static void list_launches(struct emitter *e, struct turns *turns)
{
    struct plan *plan = e->plan;
    struct range range = {0, 0};
    for (int block = 0; block < e->graph->n_blocks; block++) {
        range = works_of(e, block, range.end);
        turns->starts[block] = range.first;
        turns->starts[block + 1] = range.end;
        list_forward(e, turns, range);
        emit_turns(e, turns, block, false);
    }
    emit_results(e);
    emit_updates(e);
    plan->n_forward = plan->n_launches;
    if (!plan->options.trace.trains)
        return;
    sort_again(e, turns);
    emit_count_uses(e);
    for (int block = e->graph->n_blocks - 1; block >= 0; block--) {
        range = (struct range){turns->starts[block], turns->starts[block + 1]};
        list_backward(e, turns, range, block);
        emit_turns(e, turns, block, true);
    }
}

int schedule(struct emitter *e)
{
    size_t works = (size_t)e->trace.n + 1;
    struct turns turns = {.list = calloc(2 * works + GRAPH_NAMED_MAX, sizeof(*turns.list)),
                          .first_again = calloc(works, sizeof(int)),
                          .next_again = calloc(works, sizeof(int)),
                          .starts = calloc((size_t)e->graph->n_blocks + 1, sizeof(int))};
    bool has = turns.list && turns.first_again && turns.next_again && turns.starts;
    emit_begin(e);
    if (has)
        list_launches(e, &turns);
    free(turns.list);
    free(turns.first_again);
    free(turns.next_again);
    free(turns.starts);
    return has && !e->without_memory ? 0 : WK_ENOMEM;
}
