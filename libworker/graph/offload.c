#include "libworker/graph/offload.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/graph/node_cost.h"

static const double LAUNCH_SECONDS = 2e-6, MEMORY_RATE = 3.3e12, FLOP_RATE = 6e13,
                    NARROW_FLOP_RATE = 7e14;

/* A piece of memory that may move. */
struct piece {
    int storage;
    int last;  /* launch of the forward pass that touches it, as listed without copies */
    int first; /* the same of the backward pass */
    double gain;
};

/* A piece that moves, in the list that is being made. */
struct move {
    int storage, last, first;
    int done_at;  /* before this launch its copy out has ended by the counted time */
    int begin_at; /* before this launch its copy back is to begin */
    int back;     /* its storage in the backward pass; -1: not yet */
    size_t host;  /* its place in the host's memory */
};

struct offload {
    struct emitter *e;
    /* What was listed without copies. */
    struct launch *launches;
    int n_launches, n_forward, n_values, n_storages;
    double *start;        /* [n_launches + 1]: seconds by the counted time */
    struct piece *pieces; /* [n_pieces], in the order in which they move */
    int n_pieces;
    /* Of the list that is being made. */
    struct move *moves; /* [n_moves], in the order of their last use forward */
    int *order;         /* [n_moves]: moves in the order of their first use backward */
    int n_moves;
    int *moved;  /* [n_storages]: number of its move, or -1 */
    int *copies; /* [n_values]: the value in memory of the backward pass, or -1 */
};

enum { VALUES_OF_LAUNCH = 2 * NODE_INPUTS_MAX + NODE_OUTPUTS_MAX + 2 };

/* All places of values in a launch; its memory, but the cache, which never moves. */
static void values_of(struct launch *launch, int *ret[VALUES_OF_LAUNCH])
{
    int n = 0;
    for (int i = 0; i < NODE_INPUTS_MAX; i++) {
        ret[n++] = &launch->in[i];
        ret[n++] = &launch->d_in[i];
    }
    for (int i = 0; i < NODE_OUTPUTS_MAX; i++)
        ret[n++] = &launch->out[i];
    ret[n++] = &launch->d_out;
    ret[n++] = &launch->scratch;
}

static double seconds_of(const struct offload *o, const struct launch *launch)
{
    const struct plan_options *options = &o->e->plan->options;
    bool back = launch->kind == LAUNCH_BACKWARD;
    if (!back && launch->kind != LAUNCH_FORWARD)
        return 0;
    struct op_cost cost = node_cost(launch->node, &options->sizes, back);
    double products = cost.flop / (options->compute == WK_F32 ? FLOP_RATE : NARROW_FLOP_RATE);
    double moved = cost.bytes / MEMORY_RATE;
    return LAUNCH_SECONDS + (products > moved ? products : moved);
}

static double seconds_on_bus(const struct offload *o, int storage)
{
    return (double)o->e->storages[storage].bytes / OFFLOAD_BUS;
}

static int by_gain(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->gain > y->gain || x->gain < y->gain)
        return x->gain > y->gain ? -1 : 1;
    return x->storage - y->storage;
}

static bool may_move(const struct offload *o, const struct piece *piece, size_t least)
{
    return piece->last >= 0 && piece->first >= 0 &&
           piece->first - piece->last >= OFFLOAD_LAUNCHES_LEAST &&
           o->e->storages[piece->storage].bytes >= least;
}

/* The uses of each storage on both sides of the end of the forward pass. */
static void find_pieces(struct offload *o, size_t least)
{
    struct plan *plan = o->e->plan;
    int n = 0;
    for (int i = 0; i < o->n_storages; i++)
        o->pieces[i] = (struct piece){.storage = i, .last = -1, .first = -1};
    for (int i = 0; i < o->n_launches; i++) {
        int *values[VALUES_OF_LAUNCH];
        values_of(&o->launches[i], values);
        for (int k = 0; k < VALUES_OF_LAUNCH; k++) {
            int storage = *values[k] < 0 ? -1 : plan->values[*values[k]].storage;
            struct piece *piece = storage < 0 ? NULL : &o->pieces[storage];
            if (piece && i < o->n_forward)
                piece->last = i;
            else if (piece && piece->first < 0)
                piece->first = i;
        }
    }
    for (int i = 0; i < o->n_storages; i++) {
        struct piece piece = o->pieces[i];
        if (!may_move(o, &piece, least))
            continue;
        piece.gain =
            (double)o->e->storages[i].bytes * (o->start[piece.first] - o->start[piece.last + 1]);
        o->pieces[n++] = piece;
    }
    o->n_pieces = n;
    if (n)
        qsort(o->pieces, (size_t)n, sizeof(*o->pieces), by_gain);
}

struct offload *offload_new(struct emitter *e)
{
    const struct plan *plan = e->plan;
    struct offload *o = calloc(1, sizeof(*o));
    size_t launches = (size_t)plan->n_launches + 1, storages = (size_t)e->n_storages + 1;
    size_t live = layout_live(e->storages, e->n_storages, plan->n_launches);
    if (!o)
        return NULL;
    *o = (struct offload){.e = e,
                          .launches = malloc(launches * sizeof(*o->launches)),
                          .n_launches = plan->n_launches,
                          .n_forward = plan->n_forward,
                          .n_values = plan->n_values,
                          .n_storages = e->n_storages,
                          .start = calloc(launches, sizeof(*o->start)),
                          .pieces = calloc(storages, sizeof(*o->pieces)),
                          .moves = calloc(storages, sizeof(*o->moves)),
                          .order = calloc(storages, sizeof(*o->order)),
                          .moved = calloc(storages, sizeof(*o->moved)),
                          .copies = calloc((size_t)plan->n_values + 1, sizeof(*o->copies))};
    if (live == (size_t)-1 || !o->launches || !o->start || !o->pieces || !o->moves || !o->order ||
        !o->moved || !o->copies) {
        offload_free(o);
        return NULL;
    }
    memcpy(o->launches, plan->launches, (size_t)plan->n_launches * sizeof(*o->launches));
    for (int i = 0; i < o->n_launches; i++)
        o->start[i + 1] = o->start[i] + seconds_of(o, &o->launches[i]);
    size_t share = live / OFFLOAD_SHARE;
    find_pieces(o, share > OFFLOAD_BYTES_LEAST ? share : OFFLOAD_BYTES_LEAST);
    return o;
}

void offload_free(struct offload *o)
{
    if (!o)
        return;
    free(o->launches);
    free(o->start);
    free(o->pieces);
    free(o->moves);
    free(o->order);
    free(o->moved);
    free(o->copies);
    free(o);
}

static int by_last(const void *a, const void *b)
{
    const struct move *x = a, *y = b;
    return x->last != y->last ? x->last - y->last : x->storage - y->storage;
}

/* The copies out follow each other on the bus. */
static void time_out(struct offload *o)
{
    double free_at = 0;
    for (int i = 0, at = 0; i < o->n_moves; i++) {
        struct move *move = &o->moves[i];
        double ready = o->start[move->last + 1];
        free_at = (ready > free_at ? ready : free_at) + seconds_on_bus(o, move->storage);
        at = at > move->last ? at : move->last + 1;
        while (at < o->n_forward && o->start[at] < free_at)
            at++;
        move->done_at = at;
    }
}

/* So do those back. The last one is timed first: each ends before the next begins. */
static void time_back(struct offload *o)
{
    double next = o->start[o->n_launches];
    for (int i = o->n_moves - 1, at = o->n_launches; i >= 0; i--) {
        struct move *move = &o->moves[o->order[i]];
        double end = o->start[move->first];
        next = (end < next ? end : next) - seconds_on_bus(o, move->storage);
        at = at < move->first ? at : move->first;
        while (at > o->n_forward && o->start[at] > next)
            at--;
        move->begin_at = at;
    }
}

/* The first `n` pieces move. */
static void choose_moves(struct offload *o, int n)
{
    size_t host = 0;
    o->n_moves = n;
    for (int i = 0; i < n; i++)
        o->moves[i] = (struct move){.storage = o->pieces[i].storage,
                                    .last = o->pieces[i].last,
                                    .first = o->pieces[i].first,
                                    .back = -1};
    if (n)
        qsort(o->moves, (size_t)n, sizeof(*o->moves), by_last);
    for (int i = 0; i < o->n_storages; i++)
        o->moved[i] = -1;
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && o->moves[o->order[at - 1]].first > o->moves[i].first; at--)
            o->order[at] = o->order[at - 1];
        o->order[at] = i;
        o->moved[o->moves[i].storage] = i;
        o->moves[i].host = host;
        host += layout_rounded(o->e->storages[o->moves[i].storage].bytes);
    }
    o->e->plan->host_bytes = host;
    o->e->plan->n_offloaded = n;
    time_out(o);
    time_back(o);
}

/* All of a storage as bytes; or as many bytes of another. */
static int bytes_value(struct offload *o, size_t bytes, int storage)
{
    const struct wk_tensor tensor = {.dims = 1, .shape = {dim_fixed((int64_t)bytes)}};
    return emit_value(o->e, &tensor, WK_U8, storage);
}

static int host_value(struct offload *o, const struct move *move)
{
    int number = bytes_value(o, o->e->storages[move->storage].bytes, 0);
    struct plan_value *value = &o->e->plan->values[number];
    value->kind = VALUE_IN_HOST;
    value->storage = -1;
    value->offset = move->host;
    return number;
}

/* `turn`: the copy's number among those in its direction. */
static void copy_out(struct offload *o, const struct move *move, enum launch_kind kind, int turn)
{
    struct launch launch = emit_blank(kind);
    launch.index = turn % LAUNCH_TURNS;
    launch.in[0] = bytes_value(o, o->e->storages[move->storage].bytes, move->storage);
    launch.out[0] = kind == LAUNCH_OUT ? host_value(o, move) : -1;
    emit_launch(o->e, &launch);
}

static void copy_back(struct offload *o, struct move *move, enum launch_kind kind, int turn)
{
    struct launch launch = emit_blank(kind);
    launch.index = turn % LAUNCH_TURNS;
    launch.backward = true;
    launch.out[0] = bytes_value(o, o->e->storages[move->storage].bytes, move->back);
    move->back = o->e->plan->values[launch.out[0]].storage;
    launch.in[0] = kind == LAUNCH_BACK ? host_value(o, move) : -1;
    emit_launch(o->e, &launch);
}

/* Copies that have begun, and of those the ones that are waited for, in one direction. */
struct progress {
    int begun, done;
};

/* What follows the launches before `at` of the forward pass. */
static void list_out(struct offload *o, int at, struct progress *p)
{
    for (;;) {
        bool next = p->begun < o->n_moves && o->moves[p->begun].last < at;
        bool full = p->begun == p->done + LAUNCH_TURNS;
        bool due = p->done < p->begun && (o->moves[p->done].done_at <= at || at == o->n_forward);
        if (next && !full) {
            copy_out(o, &o->moves[p->begun], LAUNCH_OUT, p->begun);
            p->begun++;
        } else if (due || (next && full)) {
            copy_out(o, &o->moves[p->done], LAUNCH_OUT_DONE, p->done);
            p->done++;
        } else {
            return;
        }
    }
}

/* What precedes launch `at` of the backward pass. */
static void list_back(struct offload *o, int at, struct progress *p)
{
    for (;;) {
        bool full = p->begun == p->done + LAUNCH_TURNS;
        if (p->begun < o->n_moves && !full && o->moves[o->order[p->begun]].begin_at <= at) {
            copy_back(o, &o->moves[o->order[p->begun]], LAUNCH_BACK, p->begun);
            p->begun++;
        } else if (p->done < p->begun && o->moves[o->order[p->done]].first == at) {
            copy_back(o, &o->moves[o->order[p->done]], LAUNCH_BACK_DONE, p->done);
            p->done++;
        } else {
            return;
        }
    }
}

/* A backward launch finds its values where copies brought them. */
static void redirect_values(struct offload *o, struct launch *launch)
{
    int *values[VALUES_OF_LAUNCH];
    values_of(launch, values);
    for (int k = 0; k < VALUES_OF_LAUNCH; k++) {
        int value = *values[k];
        int storage = value < 0 ? -1 : o->e->plan->values[value].storage;
        int move = storage < 0 || storage >= o->n_storages ? -1 : o->moved[storage];
        if (move < 0)
            continue;
        if (o->copies[value] < 0)
            o->copies[value] = emit_value_in(o->e, value, o->moves[move].back);
        *values[k] = o->copies[value];
    }
}

/* List the plan with the first `n` pieces moving. The bytes of the fullest launch; (size_t)-1
 * without memory. */
static size_t list_launches(struct offload *o, int n)
{
    struct plan *plan = o->e->plan;
    struct progress out = {0, 0}, back = {0, 0};
    choose_moves(o, n);
    plan->n_launches = 0;
    plan->n_values = o->n_values;
    o->e->n_storages = o->n_storages;
    for (int i = 0; i < o->n_storages; i++) {
        o->e->storages[i].first = 1;
        o->e->storages[i].last = 0;
    }
    for (int i = 0; i < o->n_values; i++)
        o->copies[i] = -1;
    for (int i = 0; i < o->n_launches; i++) {
        struct launch launch = o->launches[i];
        if (i <= o->n_forward)
            list_out(o, i, &out);
        if (i == o->n_forward)
            plan->n_forward = plan->n_launches;
        if (i >= o->n_forward) {
            list_back(o, i, &back);
            redirect_values(o, &launch);
        }
        emit_launch(o->e, &launch);
    }
    if (o->e->without_memory)
        return (size_t)-1;
    return layout_live(o->e->storages, o->e->n_storages, plan->n_launches);
}

/* The least number of pieces with which no launch needs more than `most`; `n` are enough. */
static int fewest_pieces(struct offload *o, int n, size_t most)
{
    int low = 0, high = n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (list_launches(o, middle) <= most)
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

int offload_list(struct offload *o, size_t within)
{
    size_t least = list_launches(o, o->n_pieces);
    if (least != (size_t)-1)
        least = list_launches(o, fewest_pieces(o, o->n_pieces, within > least ? within : least));
    if (least == (size_t)-1)
        return WK_ENOMEM;
    o->e->plan->region_bytes = least;
    return 0;
}
