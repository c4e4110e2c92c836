#include "libworker/step/agree_state.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "libworker/checkpoint/list.h"
#include "libworker/device/reach.h"
#include "libworker/step/agree_memory.h"
#include "libworker/step/agree_shards.h"
#include "libworker/step/carried.h"
#include "libworker/step/context.h"
#include "libworker/step/member.h"

/* True if, after this failure to load a checkpoint, the one before it is tried. */
static bool gives_way(int code)
{
    return code == WK_EIO || code == WK_ENOTFOUND;
}

/* `path` failed to load with `rc` and the sentence in err: try the older checkpoints beside it,
 * newest first, until one loads. */
static int load_older(struct wk_context *ctx, const char *path, int rc, struct error *err)
{
    char dir[CHECKPOINT_PATH_MAX];
    int64_t *steps, before = checkpoint_step_of(path);
    int count, tried = 1;
    if (str_copy(dir, sizeof(dir), path) || !strrchr(dir, '/'))
        return rc;
    *strrchr(dir, '/') = 0;
    if (checkpoint_list(dir, &steps, &count, NULL))
        return rc;
    for (int i = count - 1; i >= 0 && gives_way(rc); i--) {
        char older[CHECKPOINT_PATH_MAX];
        if (steps[i] >= before || checkpoint_path(dir, steps[i], older))
            continue;
        context_notice(ctx, "%s; taking the one before it, step %lld", err->text,
                       (long long)steps[i]);
        *err = (struct error){0};
        rc = state_load(ctx, older, err);
        tried++;
    }
    free(steps);
    if (gives_way(rc))
        state_none_left(tried, err);
    return rc;
}

/* The first training state of a gang without any: the checkpoint to resume from, or the initial
 * values. */
static int first_state(struct wk_context *ctx, struct error *err)
{
    char path[CHECKPOINT_PATH_MAX];
    const char *wanted = settings_text(&ctx->settings, SETTING_RESUME_FROM);
    if (*ctx->group.resume_from)
        wanted = ctx->group.resume_from;
    int rc = save_begin(ctx, !*wanted, err);
    if (!rc && strcmp(wanted, "latest") == 0) {
        rc = state_newest(ctx, path, err);
        wanted = path;
    }
    if (rc)
        return rc;
    if (!*wanted && ctx->state.partial)
        return error_set(err, WK_ESTATE,
                         "the last rank that held the training state was lost while it was sending "
                         "it, and there is no checkpoint");
    if (!*wanted) {
        state_begins(ctx);
        rc = units_fill(ctx, err);
        ctx->state.trained = !rc;
        return rc;
    }
    rc = state_load(ctx, wanted, err);
    bool damaged = gives_way(rc);
    if (damaged)
        rc = load_older(ctx, wanted, rc, err);
    if (!rc)
        save_resumed(ctx, damaged ? wanted : "");
    return rc;
}

/* The member with the state to continue from: the furthest, the lowest rank among equals. If no
 * member has state, the lowest rank that still has initial values, if there is one. *ret_differ:
 * the state has to be sent. */
static int choose_source(const struct member *members, int world, bool *ret_differ)
{
    int source = -1, initial = -1;
    *ret_differ = false;
    for (int i = 0; i < world; i++) {
        if (members[i].trained && (source < 0 || member_further(&members[i], &members[source])))
            source = i;
        if (!members[i].partial && initial < 0)
            initial = i;
    }
    for (int i = 0; i < world; i++)
        if (source < 0 || !members[i].trained || !member_level(&members[i], &members[source]))
            *ret_differ = true;
    if (source >= 0)
        return source;
    return initial >= 0 ? initial : 0;
}

/* An array of the state. It is broadcast in pieces, so that a rank that discards it needs memory
 * for only one. */
struct array {
    float *data;
    size_t count;
    struct queue *queue; /* of the device that data is memory of; NULL: the host's */
};

enum { PIECE_ELEMENTS = 1 << 22 };

struct arrays {
    struct array *list;
    int count;
};

/* Of each unit the parameters, then each state of the optimizer: one array for all parameters, or
 * one for each. */
static void add_arrays(const struct unit *unit, struct arrays *arrays)
{
    struct wk_optimizer *optimizer = unit->optimizer;
    const struct strategy_range *range = strategy_range(&unit->strategy);
    struct queue *home = unit->model->queue;
    if (optimizer) /* if its device failed, the reads below fail, too */
        (void)optimizer_state_home(optimizer, &home, NULL);
    int n_states = optimizer ? optimizer->ops->n_states : 0;
    arrays->list[arrays->count++] = (struct array){range->data, unit->model->count, range->queue};
    for (int s = 0; s < n_states; s++) {
        if (optimizer->state[s]) {
            arrays->list[arrays->count++] = (struct array){optimizer->state[s], range->count, home};
            continue;
        }
        for (int i = 0; i < model_trained(unit->model); i++) {
            struct optimizer_view view =
                optimizer_state_view(optimizer, s, &unit->model->params[i]);
            if (view.dims)
                arrays->list[arrays->count++] = (struct array){view.data, view.count, home};
        }
    }
}

/* malloced list, the caller frees it. False if memory is out. */
static bool state_arrays(const struct wk_context *ctx, struct arrays *ret)
{
    const struct unit *unit;
    size_t most = 0;
    units_each(unit, ctx)
        most += 1 + (unit->optimizer ? (size_t)unit->optimizer->ops->n_states : 0) *
                        (size_t)unit->model->n_params;
    *ret = (struct arrays){.list = calloc(most, sizeof(*ret->list))};
    if (!ret->list)
        return false;
    units_each(unit, ctx)
        add_arrays(unit, ret);
    return true;
}

/* A rank's part while the source sends. A rank that may be needed as the next source must not lose
 * its state before the new one is complete, because the source may die meanwhile. */
enum part {
    PART_SEND,
    PART_LISTEN, /* it has this very state: data is dropped */
    PART_STAGE,  /* it has an older state: data is stored aside until complete */
    PART_FILL,   /* it has nothing to lose: in place */
};

struct transfer {
    struct wk_comm *comm;
    int source;
    enum part part;
    float *aside; /* LISTEN: one piece; STAGE: everything, array after array */
    float *piece; /* SEND, FILL: one, if there is an array that the host cannot use */
    struct arrays arrays;
};

static void transfer_fini(struct transfer *transfer)
{
    free(transfer->arrays.list);
    free(transfer->aside);
    free(transfer->piece);
}

/* Allocate the memory for this part; false if it is out. A rank without memory for a whole state
 * aside receives in place. */
static bool take_aside(struct wk_context *ctx, const struct member *members, struct transfer *ret)
{
    size_t all = 0;
    bool direct = true;
    const struct member *own = &members[ctx->group.rank];
    for (int i = 0; i < ret->arrays.count; i++) {
        all += ret->arrays.list[i].count;
        direct = direct && reach_is_direct(ret->arrays.list[i].queue);
    }
    size_t piece = all < PIECE_ELEMENTS ? all : PIECE_ELEMENTS;
    size_t wanted = ret->part == PART_STAGE ? all : piece;
    if (ret->part == PART_STAGE || ret->part == PART_LISTEN)
        ret->aside = malloc(wanted * sizeof(float));
    if (ret->part == PART_STAGE && !ret->aside) {
        context_notice(ctx, "no memory to keep step %lld until step %lld has arrived",
                       (long long)own->step, (long long)members[ret->source].step);
        ret->part = PART_FILL;
    }
    if (!direct && !ret->aside)
        ret->piece = malloc(piece * sizeof(float));
    return (ret->part != PART_LISTEN || ret->aside) && (direct || ret->aside || ret->piece);
}

/* On success the caller calls transfer_fini. */
static int transfer_init(struct wk_context *ctx, const struct member *members, int source,
                         struct transfer *ret, struct error *err)
{
    const struct member *own = &members[ctx->group.rank];
    *ret = (struct transfer){.comm = ctx->group.comm, .source = source, .part = PART_FILL};
    if (ctx->group.rank == source)
        ret->part = PART_SEND;
    else if (own->trained)
        ret->part = own->windows == members[source].windows ? PART_LISTEN : PART_STAGE;
    bool has = state_arrays(ctx, &ret->arrays) && take_aside(ctx, members, ret);
    int rc = memory_agree(ctx, has, "take over the state", err);
    if (rc)
        transfer_fini(ret);
    return rc;
}

/* A piece of an array, which is at `host` while it is sent. */
static int send_piece(const struct transfer *transfer, const struct array *piece, float *host,
                      struct error *err)
{
    size_t bytes = piece->count * sizeof(*host);
    bool apart = host != piece->data;
    int rc = 0;
    if (apart && transfer->part == PART_SEND)
        rc = reach_read(piece->queue, host, piece->data, bytes, err);
    if (rc)
        return rc;
    rc = wk_broadcast(transfer->comm, host, piece->count, WK_F32, transfer->source, NULL);
    if (rc)
        return error_set(err, rc, "%s", wk_comm_error(transfer->comm));
    if (apart && transfer->part == PART_FILL)
        rc = reach_write(piece->queue, piece->data, host, bytes, err);
    return rc;
}

static int transfer_run(const struct transfer *transfer, struct error *err)
{
    int rc = 0;
    float *aside = transfer->aside;
    for (int i = 0; i < transfer->arrays.count; i++) {
        const struct array *array = &transfer->arrays.list[i];
        float *host = reach_is_direct(array->queue) ? NULL : transfer->piece;
        for (size_t at = 0; at < array->count && !rc; at += PIECE_ELEMENTS) {
            size_t left = array->count - at;
            size_t n = left < PIECE_ELEMENTS ? left : PIECE_ELEMENTS;
            const struct array piece = {array->data + at, n, array->queue};
            rc = send_piece(transfer, &piece, aside ? aside : host ? host : piece.data, err);
            if (transfer->part == PART_STAGE)
                aside += n;
        }
    }
    return rc;
}

static int take_staged(const struct transfer *transfer, struct error *err)
{
    const float *from = transfer->aside;
    int rc = 0;
    for (int i = 0; i < transfer->arrays.count && !rc; i++) {
        const struct array *array = &transfer->arrays.list[i];
        rc = reach_write(array->queue, array->data, from, array->count * sizeof(float), err);
        from += array->count;
    }
    return rc;
}

static int send_tensors(struct wk_context *ctx, const struct transfer *transfer, struct error *err)
{
    if (transfer->part == PART_FILL) {
        ctx->state.trained = false;
        ctx->state.partial = true;
    }
    int rc = transfer_run(transfer, err);
    return !rc && transfer->part == PART_STAGE ? take_staged(transfer, err) : rc;
}

/* Buffers wait on the host until the rest has arrived. */
static int send_all(struct wk_context *ctx, const struct transfer *transfer, struct error *err)
{
    int rc = carried_send(ctx, transfer->source, err);
    if (!rc)
        rc = send_tensors(ctx, transfer, err);
    if (!rc)
        rc = carried_write(ctx, err);
    return rc;
}

static int spread(struct wk_context *ctx, const struct member *members, int source,
                  struct error *err)
{
    struct announcement announcement = {0};
    struct transfer transfer;
    int rc = transfer_init(ctx, members, source, &transfer, err);
    if (rc)
        return rc;
    if (ctx->group.rank == source) {
        struct error why = {0};
        announcement.code = members[source].trained ? 0 : first_state(ctx, &why);
        if (!announcement.code)
            announcement.code = carried_read(ctx, &why);
        (void)str_copy(announcement.text, sizeof(announcement.text), why.text);
        member_announce(ctx, &announcement);
    }
    rc = wk_broadcast(ctx->group.comm, &announcement, sizeof(announcement), WK_U8, source, NULL);
    if (rc)
        error_set(err, rc, "%s", wk_comm_error(ctx->group.comm));
    else if (announcement.code)
        rc = error_set(err, announcement.code, "%s", announcement.text);
    else
        rc = send_all(ctx, &transfer, err);
    transfer_fini(&transfer);
    if (rc)
        return rc;
    member_adopt(ctx, &announcement);
    return 0;
}

int state_agree(struct wk_context *ctx, struct error *err)
{
    if (ctx->cut.is_sharded)
        return shards_agree(ctx, err);
    struct member *members;
    int rc = member_gather(ctx, &members, err);
    if (rc)
        return rc;
    bool differ;
    int source = choose_source(members, ctx->group.world, &differ);
    if (differ)
        rc = spread(ctx, members, source, err);
    free(members);
    return rc ? rc : units_refresh(ctx, err);
}
